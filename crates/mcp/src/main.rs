//! The binary: command line to configuration, then serve.

use std::process::ExitCode;

use cratefield_mcp::config::{self, Config};

fn main() -> ExitCode {
    let matches = config::command().get_matches();
    match Config::read(&matches) {
        Ok(config) => match cratefield_mcp::serve(config) {
            Ok(status) => ExitCode::from(status),
            Err(error) => fail(1, &format!("cannot start: {error}")),
        },
        Err(error) => fail(2, &error.to_string()),
    }
}

fn fail(status: u8, why: &str) -> ExitCode {
    eprintln!("fz-mcp: {why}");
    ExitCode::from(status)
}
