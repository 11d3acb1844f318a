//! `fz-stub`: a stand-in for `fz` that does what a script tells it, for the tests of fz-mcp.
//!
//! The script is in the environment: `FZ_STUB_<verb>` for the first argument (`client-ts` reads `FZ_STUB_client_ts`),
//! else `FZ_STUB`. One step a line, run in order; past the last one the stub exits with 0. Files are named relative to
//! `FZ_STUB_DIR` and appear whole, so that a test may read one as soon as it exists. In a file's name and in the text of
//! `append`, `%p` is the process id and `%l` the last argument.
//!
//! | step | what it does |
//! |---|---|
//! | `argv FILE` | writes the arguments, a NUL after each |
//! | `env FILE` | writes the environment, `NAME=VALUE`, a NUL after each |
//! | `cwd FILE` | writes the current directory |
//! | `ids FILE` | writes the process id and the process group, a space between |
//! | `append FILE TEXT` | appends a line |
//! | `touch FILE`, `wait FILE` | creates the file; waits until it exists |
//! | `stdin FILE` | reads stdin to its end, then writes what came |
//! | `out BYTES`, `err BYTES` | writes to stdout or stderr; `\n`, `\r`, `\t`, `\\` and `\xNN` are escapes |
//! | `flood out N`, `flood err N` | writes N bytes |
//! | `repeat STREAM N BYTES` | writes the same bytes N times |
//! | `json N` | writes a successful envelope of exactly N bytes to stdout, no newline |
//! | `close out`, `close err` | lets go of the stream (Unix) |
//! | `spawn NAME`, `spawn-quiet NAME` | starts itself with the one argument NAME, sharing or not sharing stdout and stderr |
//! | `launch` | runs the arguments after the first as a program and exits as it did |
//! | `setsid` | leaves the process group and the session (Unix) |
//! | `ignore-term` | outlives SIGTERM from here on (Unix) |
//! | `hang` | never returns |
//! | `exit N`, `signal N`, `abort` | ends with a status, by a signal (Unix), by an abort |
#![expect(clippy::expect_used, reason = "a stand-in that was told nonsense should fall over, and say why")]

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio, exit};
use std::time::Duration;
use std::{env, fs, io, iter, process, thread};

fn main() {
    let argv: Vec<OsString> = env::args_os().skip(1).collect();
    for step in script(&argv).lines().filter(|line| !line.is_empty()) {
        let (name, rest) = step.split_once(' ').unwrap_or((step, ""));
        run(name, rest, &argv);
    }
}

fn script(argv: &[OsString]) -> String {
    let verb = argv.first().and_then(|first| first.to_str()).unwrap_or_default();
    env::var(format!("FZ_STUB_{}", verb.replace('-', "_"))).or_else(|_| env::var("FZ_STUB")).unwrap_or_default()
}

fn run(name: &str, rest: &str, argv: &[OsString]) {
    match name {
        "argv" => record(rest, argv, &nul_separated(argv.iter().cloned())),
        "env" => record(
            rest,
            argv,
            &nul_separated(env::vars_os().map(|(name, value)| {
                let mut pair = name;
                pair.push("=");
                pair.push(value);
                pair
            })),
        ),
        "cwd" => {
            let cwd = env::current_dir().expect("a current directory");
            record(rest, argv, cwd.as_os_str().as_encoded_bytes());
        }
        "ids" => record(rest, argv, format!("{} {}", process::id(), platform::group()).as_bytes()),
        "append" => append(rest, argv),
        "touch" => record(rest, argv, b""),
        "wait" => {
            while !path(rest, argv).exists() {
                thread::sleep(Duration::from_millis(2));
            }
        }
        "stdin" => {
            let mut read = Vec::new();
            io::stdin().read_to_end(&mut read).expect("stdin can be read");
            record(rest, argv, &read);
        }
        "out" | "err" => write(name, &unescaped(rest)),
        "flood" => {
            let (stream, count) = rest.split_once(' ').expect("flood STREAM N");
            flood(stream, count.parse().expect("flood STREAM N"));
        }
        "repeat" => {
            let mut words = rest.splitn(3, ' ');
            let mut word = || words.next().expect("repeat STREAM N BYTES");
            let (stream, count, bytes) = (word(), word(), word());
            write(stream, &unescaped(bytes).repeat(count.parse().expect("repeat STREAM N BYTES")));
        }
        "json" => padded(rest.parse().expect("json N")),
        "spawn" => start(rest, Stdio::inherit, Stdio::inherit),
        "spawn-quiet" => start(rest, Stdio::null, Stdio::null),
        "launch" => launch(argv),
        "hang" => loop {
            thread::park();
        },
        "exit" => exit(rest.parse().expect("exit N")),
        "abort" => process::abort(),
        _ => platform::run(name, rest),
    }
}

/// The file that a step names.
fn path(name: &str, argv: &[OsString]) -> PathBuf {
    let dir = env::var_os("FZ_STUB_DIR").expect("FZ_STUB_DIR is set");
    PathBuf::from(dir).join(expanded(name, argv))
}

fn expanded(text: &str, argv: &[OsString]) -> String {
    let last = argv.last().map(|last| last.to_string_lossy()).unwrap_or_default();
    text.replace("%p", &process::id().to_string()).replace("%l", &last)
}

/// Written aside and moved into place: whoever sees the file sees all of it.
fn record(name: &str, argv: &[OsString], bytes: &[u8]) {
    let path = path(name, argv);
    let aside = path.with_extension(format!("{}.part", process::id()));
    fs::write(&aside, bytes).expect("the directory of the stub can be written");
    fs::rename(aside, path).expect("the directory of the stub can be written");
}

fn append(rest: &str, argv: &[OsString]) {
    let (name, text) = rest.split_once(' ').expect("append FILE TEXT");
    let line = expanded(text, argv) + "\n";
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path(name, argv))
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("the directory of the stub can be written");
}

fn nul_separated(words: impl Iterator<Item = OsString>) -> Vec<u8> {
    words.flat_map(|word| [word.as_encoded_bytes(), b"\0"].concat()).collect()
}

/// A reader that went away is no reason to complain: what was to be shown is shown.
fn write(stream: &str, bytes: &[u8]) {
    let written = match stream {
        "out" => {
            let mut stdout = io::stdout().lock();
            stdout.write_all(bytes).and_then(|()| stdout.flush())
        }
        "err" => io::stderr().lock().write_all(bytes),
        _ => panic!("no such stream: {stream}"),
    };
    if written.is_err() {
        exit(1);
    }
}

fn flood(stream: &str, count: usize) {
    let chunk = [b'x'; 8 * 1024];
    let mut left = count;
    while let Some(part) = chunk.get(..left.min(chunk.len())).filter(|part| !part.is_empty()) {
        write(stream, part);
        left -= part.len();
    }
}

fn padded(size: usize) {
    let (head, tail) = (r#"{"schema":1,"ok":true,"failures":[],"padding":""#, r#""}"#);
    write("out", head.as_bytes());
    flood("out", size.checked_sub(head.len() + tail.len()).expect("room for the envelope"));
    write("out", tail.as_bytes());
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    iter::from_fn(|| {
        let byte = bytes.next()?;
        if byte != b'\\' {
            return Some(byte);
        }
        Some(match bytes.next().expect("something behind a backslash") {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'x' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                let value = digit().zip(digit()).map(|(high, low)| high * 16 + low);
                value.and_then(|value| u8::try_from(value).ok()).expect("two hexadecimal digits")
            }
            other => other,
        })
    })
    .collect()
}

#[expect(clippy::zombie_processes, reason = "what becomes of it is what the tests are about")]
fn start(name: &str, stdout: fn() -> Stdio, stderr: fn() -> Stdio) {
    Command::new(env::current_exe().expect("its own path"))
        .arg(name)
        .stdin(Stdio::null())
        .stdout(stdout())
        .stderr(stderr())
        .spawn()
        .expect("it can start itself");
}

fn launch(argv: &[OsString]) -> ! {
    let mut words = argv.iter().skip(1);
    let program = words.next().expect("a program to launch");
    let status = Command::new(program).args(words).status().expect("the program can be started");
    platform::mirror(status)
}

#[cfg(unix)]
mod platform {
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{ExitStatus, exit};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use rustix::process::{Signal, getpgrp, getpid, kill_process, setsid};
    use rustix::stdio::{dup2_stderr, dup2_stdout};
    use signal_hook::consts::SIGTERM;

    pub(super) fn group() -> i32 {
        getpgrp().as_raw_nonzero().get()
    }

    pub(super) fn run(step: &str, rest: &str) {
        match (step, rest) {
            ("close", "out") => dup2_stdout(nowhere()).expect("stdout can be replaced"),
            ("close", "err") => dup2_stderr(nowhere()).expect("stderr can be replaced"),
            ("setsid", _) => {
                setsid().expect("not the leader of its group");
            }
            ("ignore-term", _) => {
                let nobody_looks = Arc::new(AtomicBool::new(false));
                signal_hook::flag::register(SIGTERM, nobody_looks).expect("SIGTERM can be handled");
            }
            ("signal", number) => die_by(number.parse().expect("signal N")),
            _ => panic!("no such step: {step} {rest}"),
        }
    }

    fn nowhere() -> File {
        File::create("/dev/null").expect("/dev/null")
    }

    fn die_by(signal: i32) -> ! {
        let signal = Signal::from_named_raw(signal).expect("a signal with a name");
        kill_process(getpid(), signal).expect("it can signal itself");
        loop {
            std::thread::park();
        }
    }

    pub(super) fn mirror(status: ExitStatus) -> ! {
        if let Some(signal) = status.signal() {
            die_by(signal);
        }
        exit(status.code().unwrap_or(1));
    }
}

#[cfg(not(unix))]
mod platform {
    use std::process::{ExitStatus, exit};

    pub(super) fn group() -> i32 {
        0
    }

    pub(super) fn run(step: &str, _: &str) {
        panic!("no such step on this platform: {step}");
    }

    pub(super) fn mirror(status: ExitStatus) -> ! {
        exit(status.code().unwrap_or(1));
    }
}
