//! `--check`: the settings, and two calls that read, through the path of every call, told to a person or to a script.
//! Decides nothing that a call decides; it only looks at what came back, and around.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::call::{self, Job, Stop};
use crate::clean::clean;
use crate::config::{CRATEFIELD_CLI, Config, HEARTBEAT, SLOW, Source};
use crate::findings;
pub use crate::findings::Failure;
pub use crate::findings::Finding;
use crate::tools::{self, Run};
use crate::{programs, transport};

/// What was found. Its members in JSON are stable: some may come, none changes or goes. A source is `flag`, `variable` or
/// `default`; a path or a text is cleaned as in messages.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Whether calls work, failures that fz itself reports included; no finding is a fault.
    pub well: bool,
    /// The server's.
    pub version: &'static str,
    /// The program and its first arguments.
    pub command: String,
    /// Where it came from.
    pub command_source: Source,
    /// The file that is started; `null` if there is none.
    pub program: Option<String>,
    /// The venture's, absolute.
    pub directory: String,
    /// Where it came from.
    pub directory_source: Source,
    /// Of one call; `null` for none.
    pub limit_secs: Option<u64>,
    /// Where it came from.
    pub limit_source: Source,
    /// Whether path arguments may leave the directory.
    pub allow_outside_paths: bool,
    /// The release that this server was built with.
    pub cratefield_cli: &'static str,
    /// The one in the nearest Cargo.lock upward that has one, or `null`.
    pub venture_cratefield_cli: Option<String>,
    /// What ran: `fz_plan`, then `fz_doctor` if that was answered.
    pub calls: Vec<Called>,
    /// Causes, with `name`, `fault`, `what` and `next`.
    pub findings: Vec<&'static Finding>,
}

/// One call, as a client would see it.
#[derive(Debug, Serialize)]
pub struct Called {
    /// The tool that was called.
    pub tool: &'static str,
    /// How long it took.
    pub milliseconds: u64,
    /// As in the envelope.
    pub ok: bool,
    /// As in the envelope: fz's own, or one of the server's four.
    pub failures: Vec<Failure>,
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
    let locked = config
        .cwd
        .ancestors()
        .find_map(|dir| findings::locked_release(&fs::read_to_string(dir.join("Cargo.lock")).ok()?));
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
    if findings::is_busy(&config.cwd) {
        return (Vec::new(), vec![&findings::BUSY]);
    }
    let is_cargo = Path::new(&config.program).file_stem().is_some_and(|stem| stem == "cargo");
    let was_built = findings::is_built(&config.cwd);
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
    let builds = started.elapsed() >= SLOW || (!was_built && findings::is_built(&config.cwd));
    let is_fault = found.iter().any(|finding| finding.fault);
    found.extend((is_cargo && builds && !is_fault).then_some(&findings::FIRST_BUILD));
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
    let envelope = call::run(config, &job, None, stop, Some(&note));
    let milliseconds = started.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    let answer = serde_json::from_str(envelope.object()).unwrap_or(Answer { failures: Vec::new() });
    let clean = |failure: Failure| Failure { code: clean(&failure.code), message: clean(&failure.message) };
    let failures = answer.failures.into_iter().map(clean).collect();
    Some(Called { tool: name, milliseconds, ok: !envelope.failed(), failures })
}

impl Report {
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
}
