//! What every test stands on: the built programs, a server to talk to, and waiting for what happens.
//!
//! ```ignore
//! let mut server = Setup::stub(r#"out {"schema":1,"ok":true,"failures":[]}\n"#).start();
//! server.handshake("2025-11-25");
//! let result = server.call("fz_plan", json!({}));
//! server.eof();
//! assert!(server.wait_exit().success());
//! ```

mod fixture;
mod process;
mod programs;
mod schema;
mod server;
mod wait;

pub(crate) use fixture::sample_venture;
pub(crate) use process::{alive, ids};
pub(crate) use programs::{fz, fz_mcp, stub};
pub(crate) use schema::{folder, required, seen, untouched};
pub(crate) use server::{Server, Setup, session};
pub(crate) use wait::{DEADLINE, wait_for, wait_until};

/// The revisions that `initialize` serves, newest first.
pub(crate) const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The revision that every request names for itself.
pub(crate) const MODERN: &str = "2026-07-28";

/// The envelope that most stubs answer with, as a script.
pub(crate) const OK: &str = r#"out {"schema":1,"ok":true,"failures":[]}\n"#;
