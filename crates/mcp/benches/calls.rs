//! What a ping and a call cost, and how much of a call is the child's own: `cargo bench`, in the release profile. The
//! whole comparison, against other servers too, is `bench/run`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a bench prints, and fails by panicking"
)]

use std::env::{self, consts::EXE_SUFFIX};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use divan::Bencher;

fn main() {
    divan::main();
    if !env::args().any(|word| word == "--test" || word == "--list") {
        ratio();
    }
}

#[divan::bench]
fn ping(bencher: Bencher) {
    let mut server = Server::start();
    bencher.bench_local(|| server.ask(r#""method":"ping""#));
}

#[divan::bench]
fn plan(bencher: Bencher) {
    let mut server = Server::start();
    bencher.bench_local(|| server.ask(PLAN));
}

#[divan::bench]
fn plan_by_hand(bencher: Bencher) {
    bencher.bench_local(by_hand);
}

const PLAN: &str = r#""method":"tools/call","params":{"name":"fz_plan","arguments":{}}"#;

/// Calls and bare spawns in turn, so that the machine's mood cancels.
fn ratio() {
    let mut server = Server::start();
    let (mut calls, mut bare) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        calls.push(timed(|| server.ask(PLAN)));
        bare.push(timed(by_hand));
    }
    let (call, bare) = (median(calls), median(bare));
    let ratio = call.as_secs_f64() / bare.as_secs_f64();
    println!("\nfz_plan {call:.2?}, the same child spawned by hand {bare:.2?}: {ratio:.3} times as long");
}

fn timed<T>(work: impl FnOnce() -> T) -> Duration {
    let begun = Instant::now();
    divan::black_box(work());
    begun.elapsed()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn by_hand() -> Vec<u8> {
    let mut command = Command::new(fz());
    command.args(["plan", "--json", "--non-interactive"]).current_dir(venture()).stdin(Stdio::null());
    let output = command.output().expect("fz can be started");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    line: String,
}

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fz-mcp"));
        command.arg("--cwd").arg(venture()).arg("--").arg(fz());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("fz-mcp can be started");
        let (stdin, stdout) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut server = Self { child, stdin, stdout: BufReader::new(stdout), line: String::new() };
        server.ask(
            r#""method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#,
        );
        server
    }

    fn ask(&mut self, request: &str) {
        let message = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,{request}}}\n");
        self.stdin.write_all(message.as_bytes()).expect("fz-mcp reads");
        self.line.clear();
        self.stdout.read_line(&mut self.line).expect("fz-mcp answers");
        assert!(self.line.starts_with(r#"{"jsonrpc":"2.0","id":1,"result":"#), "{}", self.line);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sample venture as it lies there: plan writes nothing.
fn venture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../venture")
}

/// The venture's own `fz`: `FZ_BIN`, or the release build of this workspace.
fn fz() -> &'static Path {
    static FZ: OnceLock<PathBuf> = OnceLock::new();
    FZ.get_or_init(|| env::var_os("FZ_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let profile_dir = Path::new(env!("CARGO_BIN_EXE_fz-mcp")).parent().expect("a program lies in a directory");
    let target = profile_dir.parent().expect("a profile's directory lies in the target directory");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--release", "--locked", "--ignore-rust-version", "-p", "venture", "--target-dir"]);
    cargo.arg(target).current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().expect("cargo can be started").success(), "{cargo:?}");
    target.join(format!("release/fz{EXE_SUFFIX}"))
}
