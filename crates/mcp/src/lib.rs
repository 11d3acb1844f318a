//! A Model Context Protocol server over a venture's own `fz`: each tool runs one verb with `--json` and returns the
//! one object it printed, byte for byte.
//!
//! Bytes in, one owner, bytes out. Pure modules decide (`lines`, `rpc`, `revision`, `tools`, `codes`, `envelope`,
//! `reply`, `clean`); three private places act (`transport`, `call`, `tree`); `server` owns all state. There is no lock
//! between threads, no async runtime and no `unsafe`. `check` and `clients` stand beside: they help to set a client up.

pub mod check;
pub mod clients;
pub mod config;
#[cfg(fuzzing)]
pub mod fuzzing;

mod call;
mod clean;
mod codes;
mod envelope;
mod findings;
mod lines;
mod programs;
mod reply;
mod revision;
mod rpc;
mod server;
mod tools;
mod transport;
mod tree;

use std::io;

/// Writes to stderr if that does not block: nobody may be reading it.
pub fn say(text: &str) {
    transport::say(text);
}

/// Serves one client on stdin and stdout until stdin ends, a signal comes or the client is gone. Returns the exit
/// status: 0, or 128 and the signal's number.
///
/// # Errors
/// The process has no file descriptors or signal handlers left.
pub fn serve(config: config::Config) -> io::Result<u8> {
    let transport = transport::Transport::open()?;
    // The standard hook would block on a stderr that nobody reads.
    std::panic::set_hook(Box::new(|panic| transport::say(&format!("fz-mcp: {}\n", clean::clean(&panic.to_string())))));
    let limit = config.limit.map_or("no limit".to_owned(), |limit| format!("limit {} s", limit.as_secs()));
    let line = format!(
        "fz-mcp {}: `{}` in {}, {limit}",
        env!("CARGO_PKG_VERSION"),
        config.command_line(),
        config.cwd.display()
    );
    transport::say(&(clean::clean(&line).replace('\n', " ") + "\n"));
    Ok(server::run(config, transport))
}
