//! What stdin, stdout and stderr are, and what becomes of the server when one of them is unread or gone.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{OK, Setup, alive, ids, wait_for, wait_until};
use crate::wire::Wire;

/// What "within a second" may take on a busy machine. What it took is printed.
const SOON: Duration = Duration::from_secs(10);

const BIG: usize = 1024 * 1024;

type Open = fn(Setup) -> Wire;

/// The two kinds of stdio that clients make.
const KINDS: [(&str, Open); 2] = [("pipes", Wire::pipes), ("sockets", Wire::sockets)];

#[track_caller]
fn report(what: &str, took: Duration) {
    // Past the capture of the test harness.
    writeln!(std::io::stdout(), "{what}: {} ms", took.as_millis()).expect("stdout can be written");
    assert!(took < SOON, "{what}: {took:?}");
}

/// A handshake, a call and the end of input, as a file.
fn conversation() -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "fz_plan"}});
    write!(file, "{initialize}\n{call}").expect("a temporary file can be written");
    file.rewind().expect("a file can be rewound");
    file
}

#[track_caller]
fn whole(messages: &[Value]) {
    let ids: Vec<_> = messages.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [1, 2]);
    assert_eq!(messages[1]["result"]["isError"], false, "{messages:?}");
}

#[test]
fn big_replies_of_calls_side_by_side_are_whole_lines_also_for_a_slow_reader() {
    for (kind, open) in KINDS {
        let script = format!("json {BIG}\nappend done %p");
        let mut wire = open(Setup::stub(&script));
        wire.handshake();
        for id in 1..=4 {
            wire.call(id, "fz_plan");
        }
        // Nobody reads until all four have been written.
        let done = wire.setup.event("done");
        wait_until("four children are done", || {
            std::fs::read_to_string(&done).is_ok_and(|done| done.lines().count() == 4)
        });
        let mut ids: Vec<u64> = (0..4)
            .map(|_| {
                let message = wire.recv().expect("an answer");
                let text = message["result"]["content"][0]["text"].as_str().expect("a text");
                assert_eq!(text.len(), BIG, "{kind}");
                message["id"].as_u64().expect("an id")
            })
            .collect();
        ids.sort_unstable();
        assert_eq!(ids, [1, 2, 3, 4], "{kind}");
        wire.close_stdin();
        assert_eq!(wire.recv(), None);
        assert_eq!(wire.wait_exit().code(), Some(0));
    }
}

#[test]
fn replies_that_the_client_takes_late_are_all_written_before_the_server_ends() {
    for (kind, open) in KINDS {
        let mut wire = open(Setup::stub(&format!("json {BIG}")));
        wire.handshake();
        for id in 1..=8 {
            wire.call(id, "fz_plan");
        }
        wire.close_stdin();
        let rest = wire.rest();
        assert_eq!(rest.len(), 8, "{kind}");
        assert_eq!(wire.wait_exit().code(), Some(0));
    }
}

#[test]
fn stdin_and_stdout_may_be_files() {
    let mut stdout = tempfile::tempfile().expect("a temporary file");
    let handle = stdout.try_clone().expect("a descriptor");
    let mut wire = Wire::with(Setup::stub(OK), conversation().into(), handle.into(), Stdio::null());
    assert_eq!(wire.wait_exit().code(), Some(0));
    stdout.rewind().expect("a file can be rewound");
    let text = std::io::read_to_string(stdout).expect("UTF-8");
    whole(&text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>());
}

#[test]
fn a_stdout_that_goes_nowhere_is_no_reason_to_skip_the_call() {
    let setup = Setup::stub(&format!("touch ran\n{OK}"));
    let mut wire = Wire::with(setup, conversation().into(), Stdio::null(), Stdio::null());
    assert_eq!(wire.wait_exit().code(), Some(0));
    assert!(wire.setup.event("ran").exists());
}

#[test]
fn an_empty_stdin_ends_the_server() {
    let mut wire = Wire::with(Setup::stub(OK), Stdio::null(), Stdio::piped(), Stdio::null());
    assert_eq!(wire.recv(), None);
    assert_eq!(wire.wait_exit().code(), Some(0));
}

#[test]
fn a_lost_stdout_ends_an_idle_server_though_its_stdin_stays_open() {
    for (kind, open) in KINDS {
        let mut wire = open(Setup::stub(OK));
        wire.handshake();
        let begun = Instant::now();
        wire.close_stdout();
        assert_eq!(wire.wait_exit().code(), Some(0));
        report(&format!("an idle server whose stdout was lost ({kind}) ended after"), begun.elapsed());
    }
}

#[test]
fn a_lost_stdout_stops_what_runs_though_stdin_stays_open() {
    for (kind, open) in KINDS {
        let mut wire = open(
            Setup::stub("ids child\nspawn grandchild\nwait grandchild\ntouch started\nhang")
                .script("grandchild", "ids grandchild\nhang"),
        );
        wire.handshake();
        wire.call(1, "fz_plan");
        wait_for(&wire.setup.event("started"));
        let begun = Instant::now();
        wire.close_stdout();
        assert_eq!(wire.wait_exit().code(), Some(0));
        report(&format!("a busy server whose stdout was lost ({kind}) ended after"), begun.elapsed());
        for name in ["child", "grandchild"] {
            let (pid, _) = ids(&wire.setup.event(name));
            wait_until("it is gone", || !alive(pid));
        }
    }
}

#[test]
fn a_stdout_that_is_lost_in_the_middle_of_a_reply_is_final_and_told_nowhere() {
    for (_, open) in KINDS {
        let mut wire = open(Setup::stub(&format!("json {BIG}\ntouch done")));
        wire.handshake();
        for id in 1..=4 {
            wire.call(id, "fz_plan");
        }
        wait_for(&wire.setup.event("done"));
        wire.close_stdout();
        assert_eq!(wire.wait_exit().code(), Some(0));
        if let Ok(stderr) = std::fs::read_to_string(wire.setup.event("stderr")) {
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
    }
}

#[test]
fn a_stderr_that_nobody_has_or_reads_changes_nothing() {
    let (closed, full) = (std::io::pipe().expect("a pipe"), std::io::pipe().expect("a pipe"));
    drop(closed.0);
    rustix::io::ioctl_fionbio(&full.1, true).expect("a pipe can be non-blocking");
    let mut filler = &full.1;
    while filler.write(&[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full.1, false).expect("a pipe can be blocking");
    for stderr in [closed.1, full.1] {
        let mut wire = Wire::with(
            Setup::stub(&format!("err something\\n\n{OK}")),
            conversation().into(),
            Stdio::piped(),
            OwnedFd::from(stderr).into(),
        );
        let rest = wire.rest();
        whole(&rest);
        assert_eq!(wire.wait_exit().code(), Some(0));
    }
    drop(full.0);
}

#[test]
fn a_last_line_without_a_newline_is_served_and_one_that_is_cut_off_is_a_parse_error() {
    let (messages, status) =
        Setup::stub(OK).run("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,");
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[1]["id"], &messages[1]["error"]["code"]), (&Value::Null, &json!(-32700)));
    assert_eq!(status.code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_that_waits_uses_no_processor_whatever_its_streams_are_like() {
    use crate::proc::busy;
    for (kind, open) in KINDS {
        let mut wire = open(Setup::stub("touch started\nhang"));
        wire.handshake();
        let params = json!({"name": "fz_plan", "_meta": {"progressToken": 1}});
        wire.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
        wait_for(&wire.setup.event("started"));
        // stdin at its end stays readable for ever.
        wire.close_stdin();
        assert_eq!(wire.recv().expect("a heartbeat")["method"], "notifications/progress");
        let before = busy(wire.pid());
        assert_eq!(wire.recv().expect("a heartbeat")["method"], "notifications/progress");
        let used = busy(wire.pid()).saturating_sub(before);
        writeln!(
            std::io::stdout(),
            "two seconds beside a hanging child ({kind}) took {} ms of processor",
            used.as_millis()
        )
        .expect("stdout can be written");
        assert!(used < Duration::from_millis(500), "{used:?}");
        wire.signal(Signal::TERM);
        assert_eq!(wire.wait_exit().code(), Some(128 + 15));
    }
}
