//! The binary: command line to configuration, then what it asks for. The only file that prints.

use std::env;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use cratefield_mcp::clients;
use cratefield_mcp::config::{self, Client, Config, Task};

fn main() -> ExitCode {
    let matches = match config::command().try_get_matches() {
        Ok(matches) => matches,
        Err(told) if told.use_stderr() => {
            cratefield_mcp::say(&told.to_string());
            return ExitCode::from(2);
        }
        Err(asked) => {
            print(&asked.render().to_string());
            return ExitCode::SUCCESS;
        }
    };
    let config = match Config::read(&matches) {
        Ok(config) => config,
        Err(error) => return fail(2, &error.to_string()),
    };
    match config.task {
        Task::Serve => match cratefield_mcp::serve(config) {
            Ok(status) => ExitCode::from(status),
            Err(error) => fail(1, &format!("cannot start: {error}")),
        },
        Task::Check { json } => check(&config, json),
        Task::PrintConfig(client) => print_config(client, &config),
    }
}

fn check(config: &Config, json: bool) -> ExitCode {
    let report = match cratefield_mcp::check::check(config) {
        Ok(report) => report,
        Err(error) => return fail(1, &format!("cannot check: {error}")),
    };
    let colour = io::stdout().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    print(&if json { report.json() } else { report.text(colour) });
    ExitCode::from(u8::from(!report.well))
}

fn print_config(client: Client, config: &Config) -> ExitCode {
    let snippet = match clients::snippet(client, config) {
        Ok(snippet) => snippet,
        Err(error) => return fail(2, &error.to_string()),
    };
    for hint in &snippet.hints {
        cratefield_mcp::say(&format!("fz-mcp: {hint}\n"));
    }
    print(&snippet.text);
    ExitCode::SUCCESS
}

/// A reader that went away is no reason to complain.
fn print(text: &str) {
    drop(io::stdout().write_all(text.as_bytes()));
}

fn fail(status: u8, why: &str) -> ExitCode {
    cratefield_mcp::say(&format!("fz-mcp: {why}\n"));
    ExitCode::from(status)
}
