//! What a check can find: one row each, with the next step; which row a failed call belongs to; and what there is to see
//! in the directory.

use std::fs::{File, TryLockError};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clean::clean;
use crate::config::{CRATEFIELD_CLI, Config};
use crate::programs;

/// A failure in an envelope.
#[derive(Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Its stable name.
    pub code: String,
    /// What happened.
    pub message: String,
}

/// What was found, with the next step.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// Its stable name.
    pub name: &'static str,
    /// Whether calls do not work, or are not the venture's; a note otherwise.
    pub fault: bool,
    /// The likely cause.
    pub what: &'static str,
    /// The next step.
    pub next: &'static str,
}

const fn fault(name: &'static str, what: &'static str, next: &'static str) -> Finding {
    Finding { name, fault: true, what, next }
}

const fn note(name: &'static str, what: &'static str, next: &'static str) -> Finding {
    Finding { name, fault: false, what, next }
}

static UNEXPANDED: Finding = fault(
    "directory-unexpanded",
    "the directory holds ~ or a variable that nobody expanded",
    "write the whole path in --cwd or FZ_MCP_CWD",
);
static NO_DIRECTORY: Finding = fault(
    "directory-missing",
    "the directory cannot be used",
    "give the venture's directory in --cwd or FZ_MCP_CWD, as an absolute path",
);
static NO_PROGRAM: Finding = fault(
    "program-not-found",
    "the program was not found",
    "give its absolute path after --: best that of the venture's built fz (cargo build --release --bin fz)",
);
static NOT_STARTED: Finding = fault(
    "program-not-started",
    "the program is there and could not be started",
    "run the command by hand in that directory",
);
static NO_MANIFEST: Finding = fault(
    "not-a-venture",
    "the directory has no manifest, so it is no venture",
    "give the directory of venture.json in --cwd; to start a new manifest there, call fz_init, which needs none",
);
static STANDALONE: Finding = fault(
    "standalone-fz",
    "this looks like the standalone cratefield-cli, which has no venture compiled in",
    "give the venture's own fz after --: target/release/fz, or cargo run -q --bin fz --",
);
static CARGO: Finding = fault(
    "cargo-failed",
    "cargo failed before fz ran",
    "run the command in a terminal in that directory and mend the build; a Rust older than the crates declare needs \
     --ignore-rust-version behind cargo run; without a Cargo.toml, --cwd names the wrong directory",
);
static NO_ENVELOPE: Finding = fault(
    "not-fz",
    "the program did not answer as fz does",
    "run the command in a terminal in that directory, with plan --json behind it: it must print one JSON object",
);
static BUILD_LOCKED: Finding = fault(
    "build-locked",
    "cargo waited for another cargo that holds the build directory",
    "let that one end, or give the built fz after -- by its absolute path, which waits for no lock",
);
static TIMED_OUT: Finding = fault(
    "timed-out",
    "the program did not finish within the limit",
    "run it once in a terminal; if it is only slow, raise --timeout-secs",
);
static NOT_RUN: Finding = fault("interrupted", "the check was interrupted", "check again");
/// Another server writes there.
pub(crate) static BUSY: Finding = fault(
    "venture-busy",
    "another fz-mcp is changing this venture, and a call would wait for it",
    "check again when its call is over",
);
/// The call built first, or took as long as a build.
pub(crate) static FIRST_BUILD: Finding = note(
    "first-build",
    "the call had to build, or took as long as if it had: a client may give up before",
    "cargo build --release --bin fz, and give target/release/fz after -- by its absolute path",
);
static CLI_NEWER: Finding = note(
    "catalogue-older",
    "the venture's cratefield-cli is newer than this server's: fz_error_codes may lack codes that fz reports",
    "update fz-mcp; every other tool returns what the venture's fz prints",
);
static CLI_OLDER: Finding = note(
    "catalogue-newer",
    "the venture's cratefield-cli is older than this server's: it may lack verbs and codes that are listed here",
    "update cratefield-cli in the venture, or use the fz-mcp of its time",
);

/// The row of a call's first failure. What fz itself reports is no finding, unless there is no venture at all.
pub(crate) fn of_failure(failure: &Failure, config: &Config, is_cargo: bool) -> Option<&'static Finding> {
    let says = |words| failure.message.contains(words);
    Some(match failure.code.as_str() {
        "mcp-fz-unavailable" if says("the call was stopped") => &NOT_RUN,
        "mcp-fz-unavailable" if says("arrived unexpanded") => &UNEXPANDED,
        "mcp-fz-unavailable" if !config.cwd.is_dir() => &NO_DIRECTORY,
        "mcp-fz-unavailable" if programs::find(&config.program).is_none() => &NO_PROGRAM,
        "mcp-fz-unavailable" => &NOT_STARTED,
        "mcp-fz-timeout" if says("Blocking waiting for file lock") => &BUILD_LOCKED,
        "mcp-fz-timeout" if says("another fz-mcp was at work") => &BUSY,
        "mcp-fz-timeout" => &TIMED_OUT,
        "mcp-fz-no-json" if says("this looks like the standalone") => &STANDALONE,
        "mcp-fz-no-json" if says("cargo failed before fz ran") => &CARGO,
        // The exit status of cargo's own errors, and of a panic.
        "mcp-fz-no-json" if is_cargo && says(": 101") && !says("; it panicked") => &CARGO,
        "mcp-fz-no-json" => &NO_ENVELOPE,
        "manifest-unreadable"
            if !["json", "toml"].iter().any(|kind| config.cwd.join(format!("venture.{kind}")).exists()) =>
        {
            &NO_MANIFEST
        }
        _ => return None,
    })
}

/// The row of the release that a venture's lock file names.
pub(crate) fn of_release(venture: &str) -> Option<&'static Finding> {
    let parts =
        |version: &str| version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect::<Vec<u64>>();
    match parts(venture).cmp(&parts(CRATEFIELD_CLI)) {
        std::cmp::Ordering::Less => Some(&CLI_OLDER),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(&CLI_NEWER),
    }
}

/// Whether another server holds the directory for a call that writes. A call waits for that; a check need not.
pub(crate) fn is_busy(dir: &Path) -> bool {
    dir.is_dir() && File::open(dir).is_ok_and(|dir| matches!(dir.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether cargo has a target directory there.
pub(crate) fn is_built(dir: &Path) -> bool {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => dir.join(target).exists(),
        None => dir.ancestors().any(|dir| dir.join("Cargo.toml").exists() && dir.join("target").exists()),
    }
}

/// The release of `cratefield-cli` in a Cargo.lock.
pub(crate) fn locked_release(lock: &str) -> Option<String> {
    let mut lines = lock.lines().skip_while(|line| *line != r#"name = "cratefield-cli""#).skip(1);
    let version = lines.next()?.strip_prefix("version = ")?;
    Some(clean(version.trim_matches('"')))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_that_of_the_package_and_not_of_one_that_needs_it() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\ndependencies = [\n \"cratefield-cli\",\n]\n";
        assert_eq!(locked_release(lock), None);
        let lock = format!("{lock}\n[[package]]\nname = \"cratefield-cli\"\nversion = \"2.3.4\"\n");
        assert_eq!(locked_release(&lock).unwrap(), "2.3.4");
    }
}
