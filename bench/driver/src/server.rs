//! One server under measurement: its process, its two pipes, its memory.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Words that start a server over a given directory and program.
#[derive(Clone)]
pub struct Recipe {
    pub name: &'static str,
    words: Vec<OsString>,
    /// What stands between those words and the program.
    fz_mcp: bool,
}

impl Recipe {
    pub fn fz_mcp(program: &Path) -> Self {
        Self { name: "fz-mcp", words: vec![program.into()], fz_mcp: true }
    }

    pub fn peer(name: &'static str, words: Vec<OsString>) -> Self {
        Self { name, words, fz_mcp: false }
    }

    /// The program, where it is one binary of its own.
    pub fn binary(&self) -> Option<&Path> {
        let [program, ..] = &*self.words else { return None };
        (self.fz_mcp || self.words.len() == 2).then_some(program.as_ref())
    }

    fn command(&self, cwd: &Path, fz: &Path) -> Command {
        let (program, rest) = self.words.split_first().expect("a recipe names a program");
        let mut command = Command::new(program);
        command.args(rest);
        if self.fz_mcp {
            command.args(["--timeout-secs", "0", "--cwd"]).arg(cwd).arg("--").arg(fz);
        } else {
            command.arg(cwd).arg(fz);
        }
        command
    }

    /// A server that has answered `initialize`.
    pub fn start(&self, cwd: &Path, fz: &Path) -> io::Result<Server> {
        Server::start(self.command(cwd, fz))
    }
}

pub struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
    line: Vec<u8>,
    /// From the spawn to the reply to `initialize`.
    pub cold: Duration,
}

const INITIALIZE: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}
"#;
const INITIALIZED: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";

impl Server {
    pub fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let began = Instant::now();
        let mut child = command.spawn()?;
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let stdout = BufReader::with_capacity(1 << 16, stdout);
        let mut server = Self { child, stdin, stdout, next_id: 1, line: Vec::new(), cold: Duration::ZERO };
        server.stdin.write_all(INITIALIZE)?;
        server.read()?;
        server.cold = began.elapsed();
        server.stdin.write_all(INITIALIZED)?;
        Ok(server)
    }

    /// One request and its reply, timed.
    pub fn ask(&mut self, request: &Request) -> io::Result<Duration> {
        let message = self.message(request);
        let began = Instant::now();
        self.stdin.write_all(&message)?;
        self.take()?;
        let took = began.elapsed();
        self.check()?;
        Ok(took)
    }

    /// So many equal requests in one write, until the last reply.
    pub fn ask_at_once(&mut self, request: &Request, count: usize) -> io::Result<Duration> {
        let messages = self.messages(request, count);
        let began = Instant::now();
        self.stdin.write_all(&messages)?;
        for _ in 0..count {
            self.read()?;
        }
        Ok(began.elapsed())
    }

    /// Sends so many requests whose replies are to be read later.
    pub fn send(&mut self, request: &Request, count: usize) -> io::Result<()> {
        let messages = self.messages(request, count);
        self.stdin.write_all(&messages)
    }

    /// The next reply, which must be a result, with its line feed. Only its beginning is looked at, so that a long reply
    /// costs the client no second reading.
    pub fn read(&mut self) -> io::Result<&[u8]> {
        self.take()?;
        self.check()
    }

    fn take(&mut self) -> io::Result<()> {
        self.line.clear();
        self.stdout.read_until(b'\n', &mut self.line)?;
        Ok(())
    }

    fn check(&self) -> io::Result<&[u8]> {
        const RESULT: &[u8] = b"\"result\":";
        if !self.line.windows(RESULT.len()).take(64).any(|part| part == RESULT) {
            let head = String::from_utf8_lossy(&self.line[..self.line.len().min(300)]);
            return Err(io::Error::other(format!("no result: {head}")));
        }
        Ok(&self.line)
    }

    /// The result of one request.
    pub fn result(&mut self, request: &Request) -> io::Result<Value> {
        self.send(request, 1)?;
        let mut reply: Value = serde_json::from_slice(self.read()?)?;
        Ok(reply["result"].take())
    }

    fn messages(&mut self, request: &Request, count: usize) -> Vec<u8> {
        (0..count).flat_map(|_| self.message(request)).collect()
    }

    fn message(&mut self, Request { method, params }: &Request) -> Vec<u8> {
        let id = self.next_id;
        self.next_id += 1;
        let params = if params.is_empty() { String::new() } else { format!(",\"params\":{params}") };
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\"{params}}}\n").into_bytes()
    }

    /// KiB, by the name that `/proc` gives the figure.
    pub fn memory(&self, name: &str) -> io::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
        number.ok_or_else(|| io::Error::other(format!("no {name}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing runs below it any more, so nothing is orphaned.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub struct Request {
    method: &'static str,
    params: &'static str,
}

pub const PING: Request = Request { method: "ping", params: "" };
pub const LIST: Request = Request { method: "tools/list", params: "{}" };
pub const CODES: Request = call(r#"{"name":"fz_error_codes","arguments":{}}"#);
pub const PLAN: Request = call(r#"{"name":"fz_plan","arguments":{}}"#);
pub const VERIFY: Request = call(r#"{"name":"fz_verify","arguments":{}}"#);
pub const DOCTOR: Request = call(r#"{"name":"fz_doctor","arguments":{}}"#);

const fn call(params: &'static str) -> Request {
    Request { method: "tools/call", params }
}
