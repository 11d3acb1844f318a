//! The one integration test binary: the real `fz-mcp`, over the stub and over the sample venture's real `fz`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod support;
