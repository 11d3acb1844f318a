//! The one integration test binary: the real `fz-mcp`, over the stub and over the sample venture's real `fz`.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![expect(clippy::needless_pass_by_value, reason = "json!({..}) reads best where it is an argument as it stands")]

mod arguments;
mod argv;
mod batches;
mod beats;
#[cfg(unix)]
mod bounds;
mod cases;
mod check;
mod child_output;
mod config;
mod coverage;
mod eras;
#[cfg(unix)]
mod faults;
mod guarantees;
#[cfg(unix)]
mod hammer;
mod hostile;
mod ids;
#[cfg(unix)]
mod leash;
mod moment;
mod pages;
mod print_config;
#[cfg(unix)]
mod proc;
#[cfg(unix)]
mod queue;
#[cfg(unix)]
mod quoted;
mod real_fz;
mod rmcp_client;
mod schemas;
mod session;
mod snapshots;
#[cfg(unix)]
mod soak;
#[cfg(unix)]
mod streams;
mod support;
mod transcripts;
mod versions;
#[cfg(unix)]
mod wire;
