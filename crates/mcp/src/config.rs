//! Flags and environment to [`Config`], and every limit of the server under one name.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, ValueEnum};
use serde::Serialize;

/// The `cratefield-cli` release that is compiled in: its codes are served, its envelope is expected.
pub const CRATEFIELD_CLI: &str = "0.7.6";

/// Bytes of one request line; a longer one is refused unread.
pub const MAX_LINE: usize = 320 * 1024;
/// Bytes of the encoded `arguments` of one call.
pub const MAX_ARGUMENTS: usize = 256 * 1024;
/// Bytes of one argument's value. Linux refuses to start a program with one of 128 KiB.
pub const MAX_VALUE: usize = 32 * 1024;
/// Arguments of one call that are told to be wrong.
pub const MAX_REFUSALS: usize = 16;
/// Bytes of a progress token, which every heartbeat repeats.
pub const MAX_TOKEN: usize = 4 * 1024;
/// Messages of one batch: more than requests fit into a line.
pub const MAX_BATCH: usize = 16 * 1024;
/// Bytes a child may write to stdout.
pub const MAX_STDOUT: usize = 3 * 1024 * 1024;
/// Bytes of a child's stderr that are kept: the last ones.
pub const MAX_STDERR: usize = 64 * 1024;
/// Characters of an excerpt in a message.
pub const MAX_EXCERPT: usize = 2_000;
/// Characters of a child's last stderr line in a progress message.
pub const MAX_NOTE: usize = 200;
/// Bytes of one reply line: the read buffer of the TypeScript client ends at 10 MiB.
pub const MAX_REPLY: usize = 10 * 1024 * 1024 - 64 * 1024;
/// Bytes kept free in a batch for each reply still to come, besides what it repeats of its request: enough to say that
/// it does not fit.
pub const MAX_REFUSAL: usize = 256;
/// Levels of nesting in an envelope.
pub const MAX_DEPTH: usize = 100;
/// Bytes of replies that wait for the client; above it no request is read and no call started.
pub const MAX_UNSENT: usize = 4 * 1024 * 1024;
/// Calls that read, side by side.
pub const MAX_READERS: usize = 8;
/// Calls that wait for their turn.
pub const MAX_WAITING: usize = 256;
/// How often a running call looks at its stop flag.
pub const TICK: Duration = Duration::from_millis(50);
/// Bytes of stdout up to which a child that ends within a [`TICK`] is looked after by the server's own thread.
pub const MAX_QUICK: usize = 16 * 1024;
/// Between two heartbeats of a call whose client asked for progress.
pub const HEARTBEAT: Duration = Duration::from_secs(2);
/// From asking a process tree to end, on time-out and cancellation, to killing it.
pub const GRACE: Duration = Duration::from_secs(2);
/// The same when the server itself has to go, or only leftovers of a finished program are stopped.
pub const SHORT_GRACE: Duration = Duration::from_millis(400);
/// How long output is awaited after the program has ended while something holds its pipes.
pub const LINGER: Duration = Duration::from_millis(250);
/// From a signal or a lost client to the end of the server, whatever its children do.
pub const SHUTDOWN: Duration = Duration::from_millis(900);
/// From here on `--check` takes a call by cargo for a build: some clients give up after a minute.
pub const SLOW: Duration = Duration::from_secs(20);
/// Seconds a call may run unless told otherwise.
const DEFAULT_LIMIT: u64 = 600;

const CWD: &str = "FZ_MCP_CWD";
const COMMAND: &str = "FZ_MCP_COMMAND";
const TIMEOUT: &str = "FZ_MCP_TIMEOUT_SECS";
const OUTSIDE: &str = "FZ_MCP_ALLOW_OUTSIDE_PATHS";

/// The command line.
#[derive(Debug, Parser)]
#[command(
    name = "fz-mcp",
    version = concat!(env!("CARGO_PKG_VERSION"), " (cratefield-cli 0.7.6)"),
    about = "Model Context Protocol server over a venture's own fz: speaks on stdin and stdout, for an MCP client to start",
    after_help = "Environment: FZ_MCP_COMMAND is the program and its arguments, split on white space, where none follow --;\n\
                  FZ_MCP_ALLOW_OUTSIDE_PATHS=1 is --allow-outside-paths. Flags win over variables.\n\n\
                  --check ends with 0 if calls work, also where fz reports failures of the venture, which are named; with\n\
                  1 if they do not, or if that fz is not the venture's own. It runs what a first call runs, so cargo may\n\
                  build. A setting that cannot be used ends it with 2."
)]
pub struct Cli {
    /// The venture's directory, where fz runs [default: the current directory]
    #[arg(long, value_name = "DIR", env = CWD)]
    cwd: Option<OsString>,
    /// Seconds after which a call's processes are stopped, 0 for no limit [default: 600]
    #[arg(long, value_name = "N", env = TIMEOUT, allow_negative_numbers = true)]
    timeout_secs: Option<OsString>,
    /// Let path arguments lead out of the venture's directory
    #[arg(long)]
    allow_outside_paths: bool,
    /// Show the settings, run fz plan and fz doctor once, and tell what a client would see and what to mend
    #[arg(long, conflicts_with = "print_config")]
    check: bool,
    /// With --check, print one JSON object instead of text
    #[arg(long, requires = "check")]
    json: bool,
    /// Print a client's configuration, with absolute paths, and on stderr where it goes
    #[arg(long, value_name = "CLIENT", value_enum)]
    print_config: Option<Client>,
    /// The venture's fz, as exact words [default: fz]
    #[arg(last = true, value_name = "PROGRAM", env = COMMAND)]
    command: Vec<OsString>,
}

/// A client whose configuration is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
    Gemini,
    Zed,
    Generic,
}

/// What the command line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Serve a client.
    Serve,
    /// Try the settings, and tell a person or a script.
    Check {
        /// As one JSON object.
        json: bool,
    },
    /// Print a client's configuration.
    PrintConfig(Client),
}

/// Where a setting came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The command line.
    Flag,
    /// An environment variable.
    Variable,
    /// Neither.
    Default,
}

/// What the server runs, where, and within which limits.
#[derive(Debug, Clone)]
pub struct Config {
    /// What to do with the rest.
    pub task: Task,
    /// The venture's directory, absolute where the current directory is known. It need not exist.
    pub cwd: PathBuf,
    /// Where `cwd` came from.
    pub cwd_source: Source,
    /// The program; absolute if it was given with a path separator, else looked up on PATH.
    pub program: OsString,
    /// Its first arguments, before those of the verb.
    pub words: Vec<OsString>,
    /// Where `program` and `words` came from.
    pub command_source: Source,
    /// How long a call may run from its spawn; `None` is for ever.
    pub limit: Option<Duration>,
    /// Where `limit` came from.
    pub limit_source: Source,
    /// Whether path arguments may leave `cwd`.
    pub allow_outside_paths: bool,
}

/// A setting that cannot be used. The server does not start: exit status 2.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub(crate) String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads the command line and the environment. Touches no file.
    ///
    /// # Errors
    /// A setting is empty, no number, or cannot mean what was meant.
    pub fn read(matches: &ArgMatches) -> Result<Self, ConfigError> {
        let cli = Cli::from_arg_matches(matches).map_err(|error| ConfigError(error.to_string()))?;
        let source = |name| match matches.value_source(name) {
            Some(ValueSource::CommandLine) => Source::Flag,
            Some(ValueSource::EnvVariable) => Source::Variable,
            _ => Source::Default,
        };
        let (cwd, cwd_source) = read_cwd(cli.cwd, source("cwd"))?;
        let (program, words, command_source) = read_command(cli.command, source("command"))?;
        let limit_source = source("timeout_secs");
        let limit = cli
            .timeout_secs
            .map_or(Ok(Some(Duration::from_secs(DEFAULT_LIMIT))), |text| read_limit(&text, limit_source))?;
        let task = match (cli.print_config, cli.check) {
            (Some(client), _) => Task::PrintConfig(client),
            (None, true) => Task::Check { json: cli.json },
            (None, false) => Task::Serve,
        };
        Ok(Self {
            task,
            cwd,
            cwd_source,
            program,
            words,
            command_source,
            limit,
            limit_source,
            allow_outside_paths: read_outside(std::env::var_os(OUTSIDE))? || cli.allow_outside_paths,
        })
    }

    /// The command as one line for people.
    #[must_use]
    pub fn command_line(&self) -> String {
        let words = std::iter::once(&self.program).chain(&self.words);
        words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }
}

/// The clap command, for `main`.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

fn read_cwd(given: Option<OsString>, source: Source) -> Result<(PathBuf, Source), ConfigError> {
    match given {
        Some(dir) if !dir.is_empty() => Ok((absolute(Path::new(&dir)), source)),
        Some(_) if source == Source::Flag => {
            Err(ConfigError("--cwd is empty: name the venture's directory, or leave the flag out".into()))
        }
        _ => Ok((absolute(Path::new(".")), Source::Default)),
    }
}

/// Without touching the file system: a directory that cannot be reached is reported by each call.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn read_command(given: Vec<OsString>, source: Source) -> Result<(OsString, Vec<OsString>, Source), ConfigError> {
    let given = if source == Source::Variable { split_variable(&given)? } else { given };
    let mut words = given.into_iter();
    let (program, source) = words.next().map_or((OsString::from("fz"), Source::Default), |program| (program, source));
    if program.is_empty() {
        return Err(ConfigError("the program after -- is empty: name the venture's fz".into()));
    }
    // With a working directory set, the operating system would look for it from there.
    let has_separator = Path::new(&program).components().count() > 1;
    let program = if has_separator { absolute(Path::new(&program)).into_os_string() } else { program };
    Ok((program, words.collect(), source))
}

fn split_variable(given: &[OsString]) -> Result<Vec<OsString>, ConfigError> {
    let mut words = Vec::new();
    for text in given {
        let text = text
            .to_str()
            .ok_or_else(|| ConfigError(format!("{COMMAND} is not UTF-8: give the command after -- instead")))?;
        if text.contains(['"', '\'']) {
            return Err(ConfigError(format!(
                "{COMMAND} holds a quote character, and it is split on white space without a shell: \
                 give the exact words after -- instead"
            )));
        }
        words.extend(text.split_ascii_whitespace().map(OsString::from));
    }
    Ok(words)
}

fn read_limit(text: &OsString, source: Source) -> Result<Option<Duration>, ConfigError> {
    let name = if source == Source::Flag { "--timeout-secs" } else { TIMEOUT };
    let shown = text.to_string_lossy();
    let refuse = |why: &str| Err(ConfigError(format!("{name} is {shown:?}: {why}, 0 for no limit")));
    if shown.is_empty() || !shown.bytes().all(|byte| byte.is_ascii_digit()) {
        return refuse("give a whole number of seconds");
    }
    match shown.parse().map(Duration::from_secs) {
        Ok(Duration::ZERO) => Ok(None),
        Ok(limit) if Instant::now().checked_add(limit).is_some() => Ok(Some(limit)),
        _ => refuse("that is more seconds than the clock can hold; give fewer"),
    }
}

fn read_outside(value: Option<OsString>) -> Result<bool, ConfigError> {
    match value {
        None => Ok(false),
        Some(value) if value.is_empty() => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => Err(ConfigError(format!(
            "{OUTSIDE} is {:?}: only 1 turns it on; unset it to leave it off",
            value.to_string_lossy()
        ))),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_version_names_the_release_that_is_compiled_in() {
        let version = command().render_version();
        assert!(version.contains(&format!("(cratefield-cli {CRATEFIELD_CLI})")), "{version}");
        let manifest = include_str!("../Cargo.toml");
        // As it stands in the repository or as cargo rewrites it for a package.
        assert!(manifest.contains(&format!("\"={CRATEFIELD_CLI}\"")));
    }

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn a_limit_is_a_whole_number_that_the_clock_can_hold() {
        let read = |text: &str| read_limit(&text.into(), Source::Flag);
        assert_eq!(read("0").unwrap(), None);
        assert_eq!(read("7").unwrap(), Some(Duration::from_secs(7)));
        for text in ["", "-1", "+1", "1.5", "soon", "1 ", "18446744073709551615", "99999999999999999999"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("--timeout-secs") && error.contains("0 for no limit"), "{error}");
        }
    }

    #[test]
    fn the_variable_is_split_on_white_space_and_quotes_are_refused() {
        let read = |text: &str| read_command(vec![text.into()], Source::Variable);
        let (program, words, _) = read(" cargo\trun  -q ").unwrap();
        assert_eq!((program, words), ("cargo".into(), vec!["run".into(), "-q".into()]));
        assert_eq!(read("  ").unwrap().2, Source::Default);
        assert!(read("sh -c 'fz'").unwrap_err().to_string().contains("after --"));
    }

    #[test]
    fn a_program_with_a_separator_is_made_absolute_and_a_bare_name_is_not() {
        let read = |text: &str| read_command(vec![text.into()], Source::Flag).unwrap().0;
        assert!(Path::new(&read("./fz")).is_absolute());
        assert_eq!(read("fz"), "fz");
    }

    #[test]
    fn only_one_value_opens_the_venture() {
        assert_eq!(read_outside(Some("1".into())), Ok(true));
        assert_eq!(read_outside(Some("".into())), Ok(false));
        assert!(read_outside(Some("true".into())).is_err());
    }
}
