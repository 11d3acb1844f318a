//! `--check`: the settings, and two calls that read, through the path of every call, told to a person or to a script.
//! Decides nothing that a call decides; it only looks at what came back, and around.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::call::{self, Job, Stop};
use crate::clean::clean;
use crate::config::{CRATEFIELD_CLI, Config, HEARTBEAT, Source};
use crate::findings::{self, Finding};
use crate::tools::{self, Run};
use crate::{programs, transport};

/// From here on a call is called slow: clients that give up early do so after a minute, on slower machines than this.
const SLOW: Duration = Duration::from_secs(20);

/// What was found. Its members in JSON are stable: some may come, none changes or goes. A source is `flag`, `variable` or
/// `default`; a path or a text is cleaned as in messages.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether calls work, failures that fz itself reports included; no finding is a fault.
    well: bool,
    /// The server's.
    version: &'static str,
    /// The program and its first arguments.
    command: String,
    command_source: Source,
    /// The file that is started; `null` if there is none.
    program: Option<String>,
    /// The venture's, absolute.
    directory: String,
    directory_source: Source,
    /// Of one call; `null` for none.
    limit_secs: Option<u64>,
    limit_source: Source,
    allow_outside_paths: bool,
    /// The release that this server was built with.
    cratefield_cli: &'static str,
    /// The one in the nearest Cargo.lock upward that has one, or `null`.
    venture_cratefield_cli: Option<String>,
    /// What ran: `fz_plan`, then `fz_doctor` if that was answered.
    calls: Vec<Called>,
    /// Causes, with `name`, `fault`, `what` and `next`.
    findings: Vec<&'static Finding>,
}

/// One call, as a client would see it.
#[derive(Debug, Serialize)]
struct Called {
    tool: &'static str,
    milliseconds: u64,
    ok: bool,
    failures: Vec<Failure>,
}

/// A failure in an envelope.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct Answer {
    failures: Vec<Failure>,
}

/// Looks, calls, and judges. What takes longer is told on stderr meanwhile.
///
/// # Errors
/// The process has no signal handlers or threads left.
pub fn check(config: &Config) -> io::Result<Report> {
    let stop = Arc::new(Stop::default());
    let stopped = Arc::clone(&stop);
    transport::on_signal(move || stopped.shut_down())?;
    Ok(report(config, &stop))
}

fn report(config: &Config, stop: &Stop) -> Report {
    let (calls, mut findings) = run(config, stop);
    let locked =
        config.cwd.ancestors().find_map(|dir| locked_release(&fs::read_to_string(dir.join("Cargo.lock")).ok()?));
    findings.extend(locked.as_deref().and_then(findings::of_release));
    Report {
        well: !findings.iter().any(|finding| finding.fault),
        version: env!("CARGO_PKG_VERSION"),
        command: clean(&config.command_line()),
        command_source: config.command_source,
        program: programs::find(&config.program).map(|path| shown(&path)),
        directory: shown(&config.cwd),
        directory_source: config.cwd_source,
        limit_secs: config.limit.map(|limit| limit.as_secs()),
        limit_source: config.limit_source,
        allow_outside_paths: config.allow_outside_paths,
        cratefield_cli: CRATEFIELD_CLI,
        venture_cratefield_cli: locked,
        calls,
        findings,
    }
}

fn shown(path: &Path) -> String {
    clean(&path.to_string_lossy())
}

fn run(config: &Config, stop: &Stop) -> (Vec<Called>, Vec<&'static Finding>) {
    if is_busy(&config.cwd) {
        return (Vec::new(), vec![&findings::BUSY]);
    }
    let is_cargo = Path::new(&config.program).file_stem().is_some_and(|stem| stem == "cargo");
    let was_built = is_built(&config.cwd);
    if is_cargo && !was_built {
        transport::say("fz-mcp: nothing is built here yet: cargo may take minutes\n");
    }
    let started = Instant::now();
    let (mut calls, mut found) = (Vec::new(), Vec::new());
    // plan works on the manifest. doctor needs the compiled venture, which only its own fz has.
    for tool in ["fz_plan", "fz_doctor"] {
        let Some(called) = call(config, tool, stop) else { continue };
        let first = called.failures.first();
        found.extend(first.and_then(|first| findings::of_failure(first, config, is_cargo)));
        let answered = first.is_none_or(|first| !first.code.starts_with("mcp-"));
        calls.push(called);
        if !answered {
            break;
        }
    }
    let builds = started.elapsed() >= SLOW || (!was_built && is_built(&config.cwd));
    found.extend((is_cargo && builds).then_some(&findings::FIRST_BUILD));
    (calls, found)
}

fn call(config: &Config, name: &'static str, stop: &Stop) -> Option<Called> {
    let tool = tools::find(name)?;
    let (Run::Fz(build), Ok(args)) = (&tool.run, tools::check(tool, None)) else { return None };
    let started = Instant::now();
    let note = |line: String| {
        if started.elapsed() >= HEARTBEAT {
            transport::say(&format!("fz-mcp: {name}: {line}\n"));
        }
    };
    let job = Job { argv: build(&args), paths: args.paths(), read_only: tool.hints.read_only };
    let envelope = call::run(config, &job, stop, Some(&note));
    let milliseconds = started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    let answer = serde_json::from_str(envelope.object()).unwrap_or(Answer { failures: Vec::new() });
    let clean = |failure: Failure| Failure { code: clean(&failure.code), message: clean(&failure.message) };
    let failures = answer.failures.into_iter().map(clean).collect();
    Some(Called { tool: name, milliseconds, ok: !envelope.failed(), failures })
}

/// Whether another server holds the directory for a call that writes. A call waits for that; a check need not.
fn is_busy(dir: &Path) -> bool {
    dir.is_dir() && File::open(dir).is_ok_and(|dir| matches!(dir.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Whether cargo has a target directory there.
fn is_built(dir: &Path) -> bool {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(target) => dir.join(target).exists(),
        None => dir.ancestors().any(|dir| dir.join("Cargo.toml").exists() && dir.join("target").exists()),
    }
}

/// The release of `cratefield-cli` in a Cargo.lock.
fn locked_release(lock: &str) -> Option<String> {
    let mut lines = lock.lines().skip_while(|line| *line != r#"name = "cratefield-cli""#).skip(1);
    let version = lines.next()?.strip_prefix("version = ")?;
    Some(clean(version.trim_matches('"')))
}

impl Report {
    /// Whether calls work: then the exit status is 0.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.well
    }

    /// One JSON object, on one line.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }

    /// For a person.
    #[must_use]
    pub fn text(&self, colour: bool) -> String {
        let mut rows: Vec<_> = self.settings().into_iter().map(|(label, value)| ("2", label, value)).collect();
        rows.extend(self.calls.iter().map(|called| ("2", called.tool, called.to_string())));
        rows.push(("", "", String::new()));
        if self.well {
            let all = self.calls.iter().all(|called| called.ok);
            let what = if all { "what fz prints" } else { "the venture's failures as fz reports them" };
            rows.push(("32", "well", format!("calls work: a client gets {what}")));
        }
        for Finding { fault, what, next, .. } in &self.findings {
            rows.push(if *fault { ("31", "not well", (*what).into()) } else { ("33", "note", (*what).into()) });
            rows.push(("2", "next", (*next).into()));
        }
        let line = |(code, label, value): (&str, &str, String)| {
            let value = value.replace('\n', &format!("\n{:11}", ""));
            if label.is_empty() {
                "\n".to_owned()
            } else if colour {
                format!("\x1b[{code}m{label:<11}\x1b[0m{value}\n")
            } else {
                format!("{label:<11}{value}\n")
            }
        };
        rows.into_iter().map(line).collect()
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let from = |source, flag, variable| match source {
            Source::Flag => flag,
            Source::Variable => variable,
            Source::Default => "default",
        };
        let command = from(self.command_source, "after --", "FZ_MCP_COMMAND");
        let directory = from(self.directory_source, "--cwd", "FZ_MCP_CWD");
        let limit = from(self.limit_source, "--timeout-secs", "FZ_MCP_TIMEOUT_SECS");
        let seconds = self.limit_secs.map_or("none".into(), |seconds| format!("{seconds} s"));
        let mut rows = vec![
            ("fz-mcp", format!("{} (cratefield-cli {})", self.version, self.cratefield_cli)),
            ("command", format!("{} ({command})", self.command)),
            ("program", self.program.clone().unwrap_or_else(|| "not found".into())),
            ("directory", format!("{} ({directory})", self.directory)),
            ("limit", format!("{seconds} ({limit})")),
        ];
        let release = self.venture_cratefield_cli.as_ref();
        rows.extend(release.map(|release| ("Cargo.lock", format!("cratefield-cli {release}"))));
        rows.extend(self.allow_outside_paths.then(|| ("paths", "may lead out of the directory".into())));
        rows
    }
}

impl std::fmt::Display for Called {
    /// The time, then each code once with its first message.
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} ms, {}", self.milliseconds, if self.ok { "ok" } else { "failed" })?;
        let mut told: Vec<&str> = Vec::new();
        for Failure { code, message } in &self.failures {
            if !told.contains(&code.as_str()) {
                told.push(code);
                let times = self.failures.iter().filter(|other| other.code == *code).count();
                let times = if times > 1 { format!(" (first of {times})") } else { String::new() };
                write!(f, "\n{code}{times}: {message}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn colour_adds_nothing_but_colour() {
        let matches = crate::config::command().get_matches_from(["fz-mcp", "--cwd", "nowhere", "--", "fz"]);
        let report = report(&Config::read(&matches).unwrap(), &Stop::default());
        let (plain, coloured) = (report.text(false), report.text(true));
        assert!(!plain.contains('\x1b') && coloured.contains("\x1b[31mnot well"), "{coloured}");
        assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), plain);
    }

    #[test]
    fn the_release_is_that_of_the_package_and_not_of_one_that_needs_it() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\ndependencies = [\n \"cratefield-cli\",\n]\n";
        assert_eq!(locked_release(lock), None);
        let lock = format!("{lock}\n[[package]]\nname = \"cratefield-cli\"\nversion = \"2.3.4\"\n");
        assert_eq!(locked_release(&lock).unwrap(), "2.3.4");
    }
}
