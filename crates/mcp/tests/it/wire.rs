//! A client that holds both streams itself, so that a test can choose what they are, leave them unread and close them.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use wait_timeout::ChildExt;

use crate::support::{DEADLINE, LEGACY, Setup, seen};

/// A running server; killed when dropped.
pub(crate) struct Wire {
    child: Child,
    stdin: Option<File>,
    stdout: Option<File>,
    unread: Vec<u8>,
    pub(crate) setup: Setup,
}

impl Wire {
    /// Over two pipes, as most clients make them. stderr goes to the file `stderr` among the stub's.
    #[track_caller]
    pub(crate) fn pipes(setup: Setup) -> Self {
        let stderr = File::create(setup.event("stderr")).expect("a temporary directory can be written");
        Self::with(setup, Stdio::piped(), Stdio::piped(), Stdio::from(stderr))
    }

    /// Over two sockets, as Node makes them.
    #[track_caller]
    pub(crate) fn sockets(setup: Setup) -> Self {
        let pair = || UnixStream::pair().map(|(a, b)| (OwnedFd::from(a), OwnedFd::from(b))).expect("a pair of sockets");
        let ((stdin, of_server), (stdout, also_of_server)) = (pair(), pair());
        let mut wire = Self::with(setup, of_server.into(), also_of_server.into(), Stdio::null());
        (wire.stdin, wire.stdout) = (Some(stdin.into()), Some(stdout.into()));
        wire
    }

    /// Over any streams; those that are piped are held.
    #[track_caller]
    pub(crate) fn with(setup: Setup, stdin: Stdio, stdout: Stdio, stderr: Stdio) -> Self {
        let mut command = setup.command();
        let mut child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().expect("fz-mcp can be started");
        // What the command still holds would keep a stream open.
        drop(command);
        let stdin = child.stdin.take().map(|pipe| OwnedFd::from(pipe).into());
        let stdout = child.stdout.take().map(|pipe| OwnedFd::from(pipe).into());
        Self { child, stdin, stdout, unread: Vec::new(), setup }
    }

    /// Writes one line. Blocks while the server takes no more.
    #[track_caller]
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    #[track_caller]
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("stdin is held").write_all(bytes).expect("the server reads");
    }

    /// Lets a thread write, which blocks where the server takes no more. It ends with the server at the latest.
    #[track_caller]
    pub(crate) fn write_aside(&mut self, bytes: Vec<u8>) -> JoinHandle<io::Result<()>> {
        let mut stdin = self.stdin.take().expect("stdin is held");
        let write = move || stdin.write_all(&bytes);
        thread::Builder::new().name("client".into()).spawn(write).expect("a thread can be started")
    }

    /// Opens a session.
    #[track_caller]
    pub(crate) fn handshake(&mut self) {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        self.send(&json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": params}));
        assert_eq!(self.recv().expect("an answer")["id"], "init");
    }

    /// Calls a tool under an id, without waiting.
    #[track_caller]
    pub(crate) fn call(&mut self, id: u64, tool: &str) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}));
    }

    #[track_caller]
    pub(crate) fn cancel(&mut self, id: u64) {
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }

    /// The next message; nothing at the end of the server's stdout.
    #[track_caller]
    pub(crate) fn recv(&mut self) -> Option<Value> {
        let end = Instant::now() + DEADLINE;
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread[searched..].iter().position(|&byte| byte == b'\n') {
                let at = searched + at;
                let line: Vec<u8> = self.unread.drain(..=at).collect();
                // Which request an id belongs to is not kept here: the message is checked, not the kind of its result.
                seen(String::from_utf8_lossy(&line).trim_end_matches('\n'), Some(LEGACY[0]), &|_| None);
                return Some(serde_json::from_slice(&line).expect("each line is JSON"));
            }
            searched = self.unread.len();
            let stdout = self.stdout.as_mut().expect("stdout is held");
            assert!(is_readable(stdout, end), "no message in time");
            let mut chunk = vec![0; 64 * 1024];
            // A socket whose other end closed with something unread says so instead of ending.
            let count = stdout.read(&mut chunk).unwrap_or(0);
            if count == 0 {
                assert!(self.unread.is_empty(), "half a line: {}", String::from_utf8_lossy(&self.unread));
                return None;
            }
            self.unread.extend_from_slice(&chunk[..count]);
        }
    }

    /// The next response with this id; what comes before it goes to `passed`.
    #[track_caller]
    pub(crate) fn recv_id(&mut self, id: u64, passed: &mut Vec<Value>) -> Value {
        loop {
            let message = self.recv().expect("the server goes on");
            if message["id"] == id {
                return message;
            }
            passed.push(message);
        }
    }

    /// Every further message until the server closes its stdout.
    #[track_caller]
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        std::iter::from_fn(|| self.recv()).collect()
    }

    pub(crate) fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn close_stdout(&mut self) {
        self.stdout = None;
    }

    #[track_caller]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the server can be signalled");
    }

    #[track_caller]
    pub(crate) fn wait_exit(&mut self) -> ExitStatus {
        let status = self.child.wait_timeout(DEADLINE).expect("a child can be waited for");
        status.expect("the server exits in time")
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_readable(stream: &impl AsFd, end: Instant) -> bool {
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).expect("a minute fits");
        match poll(&mut [PollFd::new(stream, PollFlags::IN)], Some(&left)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("stdout cannot be polled: {error}"),
        }
    }
}
