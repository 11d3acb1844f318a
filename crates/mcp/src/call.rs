//! Supervises one child: checks what needs the file system, spawns, drains, keeps the deadline, stops, reads the
//! outcome. Runs on the call's own thread, for its first moment on the server's; shares nothing but its stop flag.

use std::env;
use std::ffi::OsStr;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use crate::clean;
use crate::codes::Code;
use crate::config::{Config, GRACE, LINGER, MAX_EXCERPT, MAX_NOTE, MAX_QUICK, MAX_STDOUT, SHORT_GRACE, TICK};
use crate::envelope::{self, Envelope, Failure, NotOne};
use crate::tools::{Argv, Refusal};
use crate::tree::{self, Drained, Handle, Output, Tree};

/// What one call runs.
pub(crate) struct Job {
    pub(crate) argv: Argv,
    /// Path arguments, each with its argument's name.
    pub(crate) paths: Vec<(&'static str, String)>,
    /// Whether it changes nothing, so that others of its kind may run beside it.
    pub(crate) read_only: bool,
}

/// Asks a running call to end. The call looks at it every [`TICK`].
#[derive(Default)]
pub(crate) struct Stop(AtomicU8);

impl Stop {
    const CANCEL: u8 = 1;
    const SHUTDOWN: u8 = 2;

    /// The client does not want the answer any more.
    pub(crate) fn cancel(&self) {
        self.0.fetch_max(Self::CANCEL, Ordering::Relaxed);
    }

    /// The server itself has to go.
    pub(crate) fn shut_down(&self) {
        self.0.fetch_max(Self::SHUTDOWN, Ordering::Relaxed);
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    fn is_urgent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::SHUTDOWN
    }
}

/// A child at work: what it has printed, and the lock of its venture, which is held until its tree is gone.
pub(crate) struct Started {
    tree: Tree,
    output: Output,
    /// What was read of its output, once that has ended.
    object: Option<Result<Envelope, NotOne>>,
    since: Instant,
    _lock: Option<File>,
}

/// How far a child has come.
pub(crate) enum Progress {
    Going,
    Done(Envelope),
    /// There is more to do or to say than a moment allows: [`run`] goes on from here.
    Slow,
}

impl Started {
    /// Starts a job without waiting for anything. `None` leaves the start, and what there is to say of it, to [`run`]:
    /// where another server holds the lock, where the directory or the program cannot be reached without asking a disk
    /// or a network, and where anything fails.
    pub(crate) fn at_once(config: &Config, job: &Job) -> Option<Self> {
        let Config { cwd, program, .. } = config;
        if !job.paths.is_empty() || !cwd.is_absolute() || tree::look_up(cwd).is_err() || !is_at_hand(program) {
            return None;
        }
        let lock = tree::open_directory(cwd).ok()?;
        try_lock(&lock, job.read_only).ok()?;
        let tree = Call { config, stop: &Stop::default() }.spawn(&job.argv).ok()?;
        Some(Self::new(tree, Some(lock)))
    }

    fn new(tree: Tree, lock: Option<File>) -> Self {
        Self { tree, output: Output::default(), object: None, since: Instant::now(), _lock: lock }
    }

    /// What becomes readable when [`Started::advance`] has something to do.
    pub(crate) fn handles(&mut self) -> Vec<Handle<'_>> {
        self.tree.handles()
    }

    /// When the child has had its moment.
    pub(crate) fn slow_from(&self) -> Instant {
        self.since + TICK
    }

    /// Takes what is there.
    pub(crate) fn advance(&mut self) -> Progress {
        let drained = self.drain(Duration::ZERO);
        if self.output.stdout.len() > MAX_QUICK || Instant::now() >= self.slow_from() {
            return Progress::Slow;
        }
        if drained != Drained::Ended {
            return Progress::Going;
        }
        self.read();
        if !self.tree.has_ended() {
            return Progress::Going;
        }
        match self.object.take() {
            Some(Ok(envelope)) if self.tree.wait(Duration::ZERO).is_ok() => Progress::Done(envelope),
            object => {
                self.object = object;
                Progress::Slow
            }
        }
    }

    fn drain(&mut self, patience: Duration) -> Drained {
        self.tree.drain(&mut self.output, patience)
    }

    /// Reads what was printed, before the child's end is waited for: that takes a moment.
    fn read(&mut self) {
        self.object = Some(self.object());
    }

    fn object(&mut self) -> Result<Envelope, NotOne> {
        self.object.take().unwrap_or_else(|| Envelope::read(std::mem::take(&mut self.output.stdout)))
    }
}

/// Runs a job to its end, from where it has come to if it was started. Every outcome is an envelope, also of a call that
/// was asked to stop, whose answer nobody reads. `note` gets the last line of stderr now and then.
pub(crate) fn run(
    config: &Config,
    job: &Job,
    started: Option<Started>,
    stop: &Stop,
    note: Option<&dyn Fn(String)>,
) -> Envelope {
    Call { config, stop }.run(job, started, note).unwrap_or_else(|ended| match ended {
        Ended::Refused(refusal) => refusal.into(),
        Ended::Failed(failure) => failure.into(),
        Ended::Asked => Failure::new(Code::Unavailable, "the call was stopped").into(),
    })
}

/// Why a call has no envelope of fz's.
enum Ended {
    Refused(Refusal),
    Failed(Failure),
    /// The stop flag was set.
    Asked,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

struct Call<'a> {
    config: &'a Config,
    stop: &'a Stop,
}

impl Call<'_> {
    fn run(&self, job: &Job, started: Option<Started>, note: Option<&dyn Fn(String)>) -> Result<Envelope, Ended> {
        let mut started = started.map_or_else(|| self.start(job, note), Ok)?;
        let (status, read) = self.watch(&mut started, note)?;
        read.map_err(|not| self.no_json(&not, &started.output, status))
    }

    fn start(&self, job: &Job, note: Option<&dyn Fn(String)>) -> Result<Started, Ended> {
        let lock = self.lock(job.read_only, note)?;
        // Only now: the wait for the lock may have been long.
        self.check_directory()?;
        if !self.config.allow_outside_paths && !job.paths.is_empty() {
            contain(&self.config.cwd, &job.paths).map_err(Ended::Refused)?;
        }
        if self.stop.is_asked() {
            return Err(Ended::Asked);
        }
        Ok(Started::new(self.spawn(&job.argv)?, lock))
    }

    /// The configured command, fit to show.
    fn command(&self) -> String {
        clean::clean(&self.config.command_line())
    }

    fn check_directory(&self) -> Result<(), Failure> {
        let cwd = &self.config.cwd;
        let found = cwd
            .metadata()
            .and_then(|found| if found.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) });
        // Relative means that the directory of the start is gone, though its name still opens.
        let found = if cwd.is_absolute() { found } else { Err(io::ErrorKind::NotFound.into()) };
        found.map_err(|error| {
            let shown = clean::clean(&cwd.to_string_lossy());
            Failure::new(
                Code::Unavailable,
                format!(
                    "the directory `{shown}` cannot be used: {error}{}. Set --cwd or FZ_MCP_CWD to the venture's directory",
                    unexpanded(&shown)
                ),
            )
        })
    }

    /// Keeps two servers on one venture apart. Between them exclusion is promised, no order; where the platform or the
    /// file system has no such lock, none is taken.
    fn lock(&self, shared: bool, note: Option<&dyn Fn(String)>) -> Result<Option<File>, Ended> {
        let Ok(file) = tree::open_directory(&self.config.cwd) else { return Ok(None) };
        let since = Instant::now();
        let mut waiting = note;
        loop {
            match try_lock(&file, shared) {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::Error(_)) => return Ok(None),
                Err(TryLockError::WouldBlock) if self.stop.is_asked() => return Err(Ended::Asked),
                Err(TryLockError::WouldBlock) => {
                    if let Some(note) = waiting.take() {
                        note("waiting for another fz-mcp that is at work on this venture".to_owned());
                    }
                }
            }
            if let Some(limit) = self.config.limit.filter(|limit| since.elapsed() >= *limit) {
                let message = format!(
                    "another fz-mcp was at work in `{}` for the whole limit of {} s, so `{}` was not started and nothing \
                     changed; call again, or raise {LIMIT_NAMES}",
                    clean::clean(&self.config.cwd.to_string_lossy()),
                    limit.as_secs(),
                    self.command()
                );
                return Err(Failure::new(Code::Timeout, message).into());
            }
            std::thread::park_timeout(TICK);
        }
    }

    fn spawn(&self, argv: &Argv) -> Result<Tree, Failure> {
        let mut command = Command::new(&self.config.program);
        command.args(&self.config.words).args(&argv.0).current_dir(&self.config.cwd);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Tree::spawn(command).map_err(|error| {
            let program = clean::clean(&self.config.program.to_string_lossy());
            let advice = match error.kind() {
                io::ErrorKind::NotFound if Path::new(&self.config.program).is_absolute() => {
                    format!("name the venture's fz after --, or in FZ_MCP_COMMAND{}", unexpanded(&program))
                }
                io::ErrorKind::NotFound => {
                    let path = env::var_os("PATH").unwrap_or_default();
                    let path = clean::clean(&path.to_string_lossy());
                    format!("name the venture's fz after --, with its whole path. PATH is `{path}`")
                }
                io::ErrorKind::PermissionDenied => {
                    "it is not an executable file, or this user may neither run it nor enter the directory".to_owned()
                }
                _ => "run the command by hand in that directory".to_owned(),
            };
            let cwd = clean::clean(&self.config.cwd.to_string_lossy());
            Failure::new(Code::Unavailable, format!("`{program}` could not be started in `{cwd}`: {error}; {advice}"))
        })
    }

    /// Takes the child's output until both pipes have ended, reads it, then takes the child's status. Leaves no part of
    /// the tree behind when the call ends in any other way.
    fn watch(
        &self,
        started: &mut Started,
        note: Option<&dyn Fn(String)>,
    ) -> Result<(Option<ExitStatus>, Result<Envelope, NotOne>), Ended> {
        let since = started.since;
        let mut notes = Notes { note, told: 0, next: since };
        let mut lingers_until = None;
        let mut looked = since;
        loop {
            let drained = started.drain(self.patience(since));
            if started.output.stdout.len() > MAX_STDOUT {
                let status = self.halt(started, GRACE);
                let not = envelope::too_much(std::mem::take(&mut started.output.stdout));
                return Err(self.no_json(&not, &started.output, status));
            }
            if drained == Drained::Ended {
                started.read();
                match started.tree.wait(self.patience(since)) {
                    Ok(None) => {}
                    ended => return Ok((ended.ok().flatten(), started.object())),
                }
            }
            if self.stop.is_asked() {
                self.halt(started, GRACE);
                return Err(Ended::Asked);
            }
            if let Some(limit) = self.config.limit.filter(|limit| since.elapsed() >= *limit) {
                self.halt(started, GRACE);
                return Err(self.timed_out(limit, &started.output).into());
            }
            notes.tell(&started.output);
            // Something outlived the program and holds its pipes.
            let now = Instant::now();
            if drained == Drained::Nothing || now >= looked + TICK {
                looked = now;
                if started.tree.has_ended() && now >= *lingers_until.get_or_insert(now + LINGER) {
                    let status = self.halt(started, SHORT_GRACE);
                    return Ok((status, started.object()));
                }
            }
        }
    }

    /// How long to wait for output: to the limit, a tick at most.
    fn patience(&self, since: Instant) -> Duration {
        self.config.limit.map_or(TICK, |limit| limit.saturating_sub(since.elapsed()).min(TICK))
    }

    /// Stops the whole tree: asks, waits for a grace while its output is taken, kills, reaps.
    fn halt(&self, started: &mut Started, grace: Duration) -> Option<ExitStatus> {
        let begun = Instant::now();
        started.tree.terminate();
        loop {
            let grace = if self.stop.is_urgent() { grace.min(SHORT_GRACE) } else { grace };
            let left = grace.saturating_sub(begun.elapsed());
            let drained = started.drain(left.min(TICK));
            started.output.stdout.truncate(MAX_STDOUT + 1);
            if left.is_zero() || (drained == Drained::Ended && started.tree.has_ended()) {
                break;
            }
            if drained == Drained::Ended {
                std::thread::park_timeout(left.min(TICK));
            }
        }
        started.tree.kill()
    }

    fn no_json(&self, not: &NotOne, output: &Output, status: Option<ExitStatus>) -> Ended {
        envelope::no_json(&self.command(), not, output.stderr.bytes(), status).into()
    }

    fn timed_out(&self, limit: Duration, output: &Output) -> Failure {
        let stderr = clean::excerpt(output.stderr.bytes(), MAX_EXCERPT);
        let stderr = if stderr.is_empty() {
            "it wrote nothing to stderr".to_owned()
        } else {
            format!("the end of its stderr:\n{stderr}")
        };
        Failure::new(
            Code::Timeout,
            format!(
                "`{}` did not finish within {} s and was stopped, and its process group with it. What it wrote before stays: \
                 check the venture before calling again. The operator raises the limit with {LIMIT_NAMES}; {stderr}",
                self.command(),
                limit.as_secs()
            ),
        )
    }
}

/// Whether the system finds a program without waiting, by its path or on PATH.
fn is_at_hand(program: &OsStr) -> bool {
    let is_missing = |found: &io::Result<()>| found.as_ref().is_err_and(|why| why.kind() == io::ErrorKind::NotFound);
    let dirs =
        if Path::new(program).is_absolute() { Some("/".into()) } else { env::var_os("PATH") }.unwrap_or_default();
    let mut found = env::split_paths(&dirs).map(|dir| tree::look_up(&dir.join(program)));
    found.find(|found| !is_missing(found)).is_some_and(|found| found.is_ok())
}

/// Does not wait for a lock that another holds.
fn try_lock(file: &File, shared: bool) -> Result<(), TryLockError> {
    if shared { file.try_lock_shared() } else { file.try_lock() }
}

/// What to add about a path that a client was expected to expand, and did not.
fn unexpanded(path: &str) -> &'static str {
    let is_meant = |part: &str| part == "~" || part.starts_with('$') || part.contains("${");
    if path.split(['/', '\\']).any(is_meant) {
        ". It holds ~ or a variable that arrived unexpanded: write the whole path, since fz-mcp expands nothing"
    } else {
        ""
    }
}

const LIMIT_NAMES: &str = "--timeout-secs or FZ_MCP_TIMEOUT_SECS (0 for none)";

/// Passes on the last line of stderr, if it is new, at most twice a second.
struct Notes<'a> {
    note: Option<&'a dyn Fn(String)>,
    told: u64,
    next: Instant,
}

impl Notes<'_> {
    fn tell(&mut self, output: &Output) {
        let Some(note) = self.note else { return };
        let now = Instant::now();
        if output.stderr.seen() == self.told || now < self.next {
            return;
        }
        self.told = output.stderr.seen();
        self.next = now + Duration::from_millis(500);
        if let Some(line) = clean::last_line(output.stderr.bytes(), MAX_NOTE) {
            note(line);
        }
    }
}

/// Refuses path arguments that lead out of the venture once symbolic links are followed.
fn contain(cwd: &Path, paths: &[(&'static str, String)]) -> Result<(), Refusal> {
    let dir = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
    let refused: Vec<_> = paths
        .iter()
        .filter_map(|(name, path)| {
            let why = match resolve(plain(&dir.join(path))) {
                Ok(resolved) if resolved.starts_with(&dir) => return None,
                Ok(_) => "leads out of the venture's directory, which only the operator can allow, with --allow-outside-paths of fz-mcp"
                    .to_owned(),
                Err(error) => format!("cannot be followed inside the venture's directory: {error}"),
            };
            Some(format!("{name}: {why}"))
        })
        .collect();
    if refused.is_empty() { Ok(()) } else { Err(Refusal(refused)) }
}

/// Without `.` and trailing separators: a link that ends in one is not seen as a link.
fn plain(path: &Path) -> PathBuf {
    path.components().collect()
}

/// Where a path leads, links followed. Of a path that does not exist yet the nearest existing parent is followed, and a
/// link that leads nowhere is followed to where it would create something.
fn resolve(mut path: PathBuf) -> io::Result<PathBuf> {
    let mut missing = Vec::new();
    let mut links = 0;
    loop {
        match path.canonicalize() {
            Ok(found) => return Ok(missing.iter().rev().fold(found, |path, name| path.join(name))),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(error) => {
                let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(error) };
                if let Ok(target) = path.read_link() {
                    links += 1;
                    if links > 40 {
                        return Err(error);
                    }
                    path = plain(&parent.join(target));
                } else {
                    missing.push(name.to_owned());
                    path = parent.to_owned();
                }
            }
        }
    }
}
