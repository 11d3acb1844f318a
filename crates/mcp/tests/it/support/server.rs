//! One running `fz-mcp` and the client's end of it.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsString;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;
use wait_timeout::ChildExt;

use super::{DEADLINE, LEGACY, MODERN, fz, fz_mcp, sample_venture, seen, stub};

/// A server that is not started yet: its directory, its flags, its environment and its child.
pub(crate) struct Setup {
    venture: TempDir,
    scratch: TempDir,
    flags: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    child: Option<Vec<OsString>>,
}

impl Setup {
    /// A server over the stub, in an empty directory; the script serves every verb that has none of its own.
    #[track_caller]
    pub(crate) fn stub(script: &str) -> Self {
        let venture = tempfile::tempdir().expect("a temporary directory");
        Self::over(venture, [stub()]).env("FZ_STUB", script)
    }

    /// A server over the real `fz`, in a copy of the sample venture.
    #[track_caller]
    pub(crate) fn fz() -> Self {
        Self::over(sample_venture(), [fz()])
    }

    /// A server over any child, in any directory.
    #[track_caller]
    pub(crate) fn over<W: Into<OsString>>(venture: TempDir, child: impl IntoIterator<Item = W>) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let events = scratch.path().join("events");
        fs::create_dir(&events).expect("a temporary directory can be written");
        let flags = vec!["--cwd".into(), venture.path().into()];
        let child = Some(child.into_iter().map(Into::into).collect());
        Self { venture, scratch, flags, env: Vec::new(), child }.env("FZ_STUB_DIR", events)
    }

    /// The stub's script for one verb.
    pub(crate) fn script(self, verb: &str, script: &str) -> Self {
        self.env(format!("FZ_STUB_{}", verb.replace('-', "_")), script)
    }

    /// One more flag of the server, or a flag's value.
    pub(crate) fn flag(mut self, flag: impl Into<OsString>) -> Self {
        self.flags.push(flag.into());
        self
    }

    /// No flags at all, `--cwd` included.
    pub(crate) fn without_flags(mut self) -> Self {
        self.flags.clear();
        self
    }

    /// Another child behind `--`.
    pub(crate) fn child<W: Into<OsString>>(mut self, words: impl IntoIterator<Item = W>) -> Self {
        self.child = Some(words.into_iter().map(Into::into).collect());
        self
    }

    /// Nothing behind `--`, and no `--`.
    pub(crate) fn without_child(mut self) -> Self {
        self.child = None;
        self
    }

    /// A variable of the server's environment.
    pub(crate) fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The directory that `--cwd` names.
    pub(crate) fn venture(&self) -> &Path {
        self.venture.path()
    }

    /// A file of the stub's.
    pub(crate) fn event(&self, name: &str) -> PathBuf {
        self.scratch.path().join("events").join(name)
    }

    /// The command that would be started, for a test that wants other streams than [`Setup::start`] gives.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(fz_mcp());
        for name in ["FZ_MCP_CWD", "FZ_MCP_COMMAND", "FZ_MCP_TIMEOUT_SECS", "FZ_MCP_ALLOW_OUTSIDE_PATHS"] {
            command.env_remove(name);
        }
        command.args(&self.flags).envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(words) = &self.child {
            command.arg("--").args(words);
        }
        command
    }

    /// Starts the server with a reader on its stdout, a writer on its stdin, and its stderr in a file.
    #[track_caller]
    pub(crate) fn start(self) -> Server {
        let stderr = self.scratch.path().join("stderr");
        let file = File::create(&stderr).expect("a temporary directory can be written");
        let mut child = self
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(file)
            .spawn()
            .expect("fz-mcp can be started");

        let mut stdin = child.stdin.take().expect("stdin is piped");
        let (input, lines) = mpsc::channel::<Vec<u8>>();
        named("to the server", move || {
            // A server that is gone is noticed where its answer is missing.
            for bytes in lines {
                if stdin.write_all(&bytes).and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        });

        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, output) = mpsc::channel();
        named("from the server", move || {
            let mut stdout = BufReader::new(stdout);
            loop {
                let mut line = Vec::new();
                match stdout.read_until(b'\n', &mut line) {
                    Ok(1..) if sender.send(line).is_ok() => {}
                    _ => break,
                }
            }
        });

        Server {
            child,
            input: Some(input),
            output,
            stderr,
            unclaimed: VecDeque::new(),
            lines: Vec::new(),
            session: None,
            asked: HashMap::new(),
            last_id: 1000,
            setup: self,
        }
    }

    /// Writes the input, closes stdin, and reads until the server is gone: the messages, in order, and its exit.
    #[track_caller]
    pub(crate) fn run(self, input: impl AsRef<[u8]>) -> (Vec<Value>, ExitStatus) {
        let mut server = self.start();
        for line in input.as_ref().split_inclusive(|&byte| byte == b'\n') {
            server.send_raw(line);
        }
        server.eof();
        (server.rest(), server.wait_exit())
    }
}

fn named(name: &str, work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().name(name.into()).spawn(work).expect("a thread can be started");
}

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    input: Option<Sender<Vec<u8>>>,
    output: Receiver<Vec<u8>>,
    stderr: PathBuf,
    unclaimed: VecDeque<Value>,
    lines: Vec<String>,
    session: Option<String>,
    asked: HashMap<String, (String, String)>,
    last_id: u64,
    setup: Setup,
}

impl Server {
    /// Sends one line: a string as it stands, or a JSON value. Never blocks.
    pub(crate) fn send(&mut self, message: impl Display) {
        self.send_raw(format!("{message}\n"));
    }

    /// Sends bytes as they stand, without adding a newline. Never blocks.
    pub(crate) fn send_raw(&mut self, bytes: impl AsRef<[u8]>) {
        let bytes = bytes.as_ref();
        for line in bytes.split(|&byte| byte == b'\n') {
            if let Ok(message) = serde_json::from_slice::<Value>(line) {
                self.note(&message);
            }
        }
        let sender = self.input.as_ref().expect("stdin is still open");
        // Fails only where the writer met a server that is gone, and then an answer will be missing.
        let _ = sender.send(bytes.to_vec());
    }

    /// Remembers which revision answers a request, so that its answer can be held against that revision's schema.
    fn note(&mut self, message: &Value) {
        if let Value::Array(batch) = message {
            for message in batch {
                self.note(message);
            }
            return;
        }
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
            return;
        };
        let meta = &message["params"]["_meta"];
        let modern = ["protocolVersion", "clientCapabilities"]
            .iter()
            .any(|key| !meta[format!("io.modelcontextprotocol/{key}")].is_null());
        let wanted = &message["params"]["protocolVersion"];
        let revision = if method == "initialize" && (wanted.is_string() || !modern) {
            let served = LEGACY.into_iter().find(|&revision| wanted == revision).unwrap_or(LEGACY[0]);
            self.session = Some(served.into());
            served
        } else if modern {
            MODERN
        } else {
            self.session.as_deref().unwrap_or(LEGACY[0])
        };
        self.asked.insert(id.to_string(), (method.into(), revision.into()));
    }

    /// The next message, whatever it is.
    #[track_caller]
    pub(crate) fn recv(&mut self) -> Value {
        match self.unclaimed.pop_front() {
            Some(message) => message,
            None => self.read().unwrap_or_else(|| self.fail("the server closed its stdout")),
        }
    }

    /// The next response with this id; what comes before it is kept for later.
    #[track_caller]
    pub(crate) fn recv_id(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        let mut passed = VecDeque::new();
        loop {
            let message = self.recv();
            if message.get("id") == Some(&id) && message.get("method").is_none() {
                passed.append(&mut self.unclaimed);
                self.unclaimed = passed;
                return message;
            }
            passed.push_back(message);
        }
    }

    /// Every further message until the server closes its stdout.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        while let Some(message) = self.read() {
            self.unclaimed.push_back(message);
        }
        self.unclaimed.drain(..).collect()
    }

    /// Reads one line; nothing at the end of the server's stdout.
    #[track_caller]
    fn read(&mut self) -> Option<Value> {
        let line = match self.output.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => self.fail("no message in time"),
        };
        let Ok(line) = String::from_utf8(line) else { self.fail("a line that is not UTF-8") };
        let Some(line) = line.strip_suffix('\n') else { self.fail(&format!("half a line: {line}")) };
        let Ok(message) = serde_json::from_str(line) else { self.fail(&format!("not JSON: {line}")) };
        self.lines.push(line.into());
        seen(line, self.session.as_deref(), &|id| self.asked.get(&id.to_string()).cloned());
        Some(message)
    }

    /// The next line as it stood, without its newline; nothing at the end of the server's stdout.
    #[track_caller]
    pub(crate) fn next_line(&mut self) -> Option<String> {
        assert!(self.unclaimed.is_empty(), "a line was read before and is not claimed");
        self.read()?;
        self.lines.last().cloned()
    }

    /// Asks and waits: the whole response, in the session's revision.
    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.next_id();
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        self.recv_id(id)
    }

    /// Asks and waits: the whole response to a request that names its own revision, 2026-07-28.
    #[track_caller]
    pub(crate) fn modern(&mut self, method: &str, mut params: Value) -> Value {
        let meta = params.as_object_mut().expect("parameters are an object").entry("_meta").or_insert(json!({}));
        meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        self.request(method, params)
    }

    /// Opens a session: the result of `initialize`.
    #[track_caller]
    pub(crate) fn handshake(&mut self, revision: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
        let response = self.request("initialize", params);
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        self.result_of(response)
    }

    /// Calls a tool and waits: its result.
    #[track_caller]
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let response = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        self.result_of(response)
    }

    /// Calls a tool without waiting: the id that the answer will carry.
    pub(crate) fn start_call(&mut self, tool: &str, arguments: Value) -> u64 {
        let id = self.next_id();
        let params = json!({"name": tool, "arguments": arguments});
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        id
    }

    /// An id that this server was not asked with yet.
    pub(crate) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// What a response says in success.
    #[track_caller]
    pub(crate) fn result_of(&self, mut response: Value) -> Value {
        match response.get_mut("result") {
            Some(result) => result.take(),
            None => self.fail(&format!("not a result: {response}")),
        }
    }

    /// Closes the server's stdin, behind what was sent.
    pub(crate) fn eof(&mut self) {
        self.input = None;
    }

    /// Sends the server a signal.
    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("the server can be signalled");
    }

    /// Waits until the server is gone.
    #[track_caller]
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        match self.child.wait_timeout(DEADLINE).expect("a child can be waited for") {
            Some(status) => status,
            None => self.fail("the server does not exit"),
        }
    }

    /// The server's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Every line read so far, as it stood, without its newline.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The line that was read last, as it stood.
    #[track_caller]
    pub(crate) fn last_line(&self) -> &str {
        self.lines.last().expect("a line was read")
    }

    /// What the server wrote to its stderr so far.
    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap_or_default()).into_owned()
    }

    /// The directory that `--cwd` named.
    pub(crate) fn venture(&self) -> &Path {
        self.setup.venture()
    }

    /// A file of the stub's.
    pub(crate) fn event(&self, name: &str) -> PathBuf {
        self.setup.event(name)
    }

    /// Lets the stub's step `wait NAME` go on.
    #[track_caller]
    pub(crate) fn give(&self, name: &str) {
        fs::write(self.event(name), "").expect("a temporary directory can be written");
    }

    /// The arguments that the stub's step `argv NAME` recorded.
    #[track_caller]
    pub(crate) fn argv(&self, name: &str) -> Vec<String> {
        let bytes = super::wait_for(&self.event(name));
        let text = String::from_utf8(bytes).expect("arguments in UTF-8");
        text.split_terminator('\0').map(Into::into).collect()
    }

    #[track_caller]
    fn fail(&self, why: &str) -> ! {
        let (last, stderr) = (self.lines.last(), self.stderr());
        panic!("{why}\nlast line read: {last:?}\nstderr: {stderr}");
    }
}

/// A server whose client has opened a session of the preferred revision.
#[track_caller]
pub(crate) fn session(setup: Setup) -> Server {
    let mut server = setup.start();
    server.handshake("2025-11-25");
    server
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
