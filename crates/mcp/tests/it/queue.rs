//! Who runs when: readers side by side, writers alone, arrival order, and two servers on one venture.

use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{OK, Server, Setup, alive, ids, session, wait_for, wait_until};

/// A child that is in the log from `+NAME` to `-NAME`, and waits for `go` in between.
fn logged(name: &str) -> String {
    format!("append log +{name}\nwait go\nappend log -{name}\n{OK}")
}

fn log(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(Into::into).collect()
}

/// How many were in the log at once, at most.
fn most(log: &[String]) -> usize {
    let (mut now, mut most) = (0_usize, 0);
    for line in log {
        if line.starts_with('+') {
            now += 1;
            most = most.max(now);
        } else {
            now -= 1;
        }
    }
    most
}

fn cancel(server: &mut Server, id: u64) {
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
}

#[track_caller]
fn succeeds(server: &mut Server, id: u64) {
    let response = server.recv_id(id);
    assert_eq!(response["result"]["isError"], false, "{response}");
}

#[track_caller]
fn refused(response: &Value, code: &str) -> String {
    let failure = &response["result"]["structuredContent"]["failures"][0];
    assert_eq!(failure["code"], code, "{response}");
    failure["message"].as_str().expect("a message").to_owned()
}

#[test]
fn eight_readers_run_side_by_side_and_a_ninth_waits() {
    let mut server = session(Setup::stub(&logged("%p")));
    let calls: Vec<u64> = (0..24).map(|_| server.start_call("fz_plan", json!({}))).collect();
    let path = server.event("log");
    wait_until("eight run", || log(&path).len() == 8);
    server.request("ping", json!({}));
    assert_eq!(log(&path).len(), 8);
    server.give("go");
    for call in calls {
        succeeds(&mut server, call);
    }
    assert_eq!((log(&path).len(), most(&log(&path))), (48, 8));
}

#[test]
fn writers_run_alone_and_nobody_overtakes() {
    let setup = Setup::stub("").script("plan", &logged("reader-%p")).script("add", &logged("%l"));
    let mut server = session(setup);
    let mut calls = vec![server.start_call("fz_plan", json!({})), server.start_call("fz_plan", json!({}))];
    for module in ["one", "two"] {
        calls.push(server.start_call("fz_add", json!({"module": module})));
    }
    calls.push(server.start_call("fz_plan", json!({})));
    let path = server.event("log");
    wait_until("both readers run", || log(&path).len() == 2);
    server.request("ping", json!({}));
    assert_eq!(log(&path).len(), 2, "a writer or a later reader started beside earlier readers");
    server.give("go");
    for call in calls {
        succeeds(&mut server, call);
    }
    let log = log(&path);
    assert!(log[2..4].iter().all(|line| line.starts_with("-reader")), "{log:?}");
    assert_eq!(log[4..8], ["+one", "-one", "+two", "-two"], "{log:?}");
    assert!(log[8].starts_with("+reader"), "{log:?}");
}

#[test]
fn a_call_that_is_cancelled_in_the_queue_never_starts() {
    let setup = Setup::stub("").script("plan", &logged("reader")).script("add", &logged("%l"));
    let mut server = session(setup);
    let reader = server.start_call("fz_plan", json!({}));
    wait_for(&server.event("log"));
    let cancelled = server.start_call("fz_add", json!({"module": "never"}));
    let next = server.start_call("fz_add", json!({"module": "next"}));
    cancel(&mut server, cancelled);
    server.request("ping", json!({}));
    server.give("go");
    succeeds(&mut server, reader);
    succeeds(&mut server, next);
    server.eof();
    let rest = server.rest();
    assert!(rest.is_empty(), "{rest:?}");
    assert_eq!(log(&server.event("log")), ["+reader", "-reader", "+next", "-next"]);
}

#[test]
fn two_hundred_and_fifty_six_calls_wait_and_one_more_is_told_to_come_later() {
    let setup = Setup::stub(OK).script("add", &format!("touch started\nwait go\n{OK}"));
    let mut server = session(setup);
    let writer = server.start_call("fz_add", json!({"module": "m"}));
    wait_for(&server.event("started"));
    let mut waiting: Vec<u64> = (0..256).map(|_| server.start_call("fz_plan", json!({}))).collect();
    let late = server.start_call("fz_plan", json!({}));
    let message = refused(&server.recv_id(late), "mcp-fz-unavailable");
    assert!(message.contains("busy") && message.contains("256"), "{message}");

    // A place that becomes free is given again, and a catalogue or a refusal needs none.
    cancel(&mut server, waiting.remove(100));
    waiting.push(server.start_call("fz_plan", json!({})));
    assert_eq!(server.call("fz_error_codes", json!({}))["isError"], false);
    let full = server.start_call("fz_plan", json!({}));
    refused(&server.recv_id(full), "mcp-fz-unavailable");

    server.give("go");
    succeeds(&mut server, writer);
    for call in waiting {
        succeeds(&mut server, call);
    }
}

/// Two servers over the same venture, whose children write into the same log.
fn two(scripts: &dyn Fn(Setup) -> Setup) -> (Server, Setup) {
    let first = scripts(Setup::stub(""));
    let second = scripts(Setup::stub("").without_flags().flag("--cwd").flag(first.venture()));
    let events = first.event("");
    (session(first), second.env("FZ_STUB_DIR", events))
}

#[test]
fn a_writer_of_one_server_keeps_out_the_calls_of_another() {
    let (mut first, second) =
        two(&|setup| setup.script("add", &logged("writer")).script("plan", &format!("append log reader\n{OK}")));
    let mut second = session(second);
    let writer = first.start_call("fz_add", json!({"module": "m"}));
    wait_for(&first.event("log"));
    let id = second.next_id();
    let params = json!({"name": "fz_plan", "_meta": {"progressToken": 1}});
    second.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    // It has run for two seconds as far as its server is concerned, and for none in truth.
    assert_eq!(second.recv()["method"], "notifications/progress");
    assert_eq!(log(&first.event("log")), ["+writer"]);
    first.give("go");
    succeeds(&mut first, writer);
    succeeds(&mut second, id);
    assert_eq!(log(&first.event("log")), ["+writer", "-writer", "reader"]);
}

#[test]
fn readers_of_two_servers_run_side_by_side() {
    let (mut first, second) = two(&|setup| {
        setup
            .script("plan", &format!("touch first\nwait second\n{OK}"))
            .script("verify", &format!("touch second\nwait first\n{OK}"))
    });
    let mut second = session(second);
    let (plan, verify) = (first.start_call("fz_plan", json!({})), second.start_call("fz_verify", json!({})));
    succeeds(&mut first, plan);
    succeeds(&mut second, verify);
}

#[test]
fn waiting_for_another_server_gives_way_to_a_cancellation_and_to_a_signal() {
    let (mut first, second) = two(&|setup| setup.script("add", &logged("%l")));
    let mut second = session(second);
    let writer = first.start_call("fz_add", json!({"module": "first"}));
    wait_for(&first.event("log"));

    let waiting = second.start_call("fz_add", json!({"module": "second"}));
    second.request("ping", json!({}));
    cancel(&mut second, waiting);
    // Its place is free again, and the next one waits as it did.
    second.start_call("fz_add", json!({"module": "third"}));
    second.request("ping", json!({}));
    second.signal(Signal::TERM);
    assert_eq!(second.wait_exit().code(), Some(128 + 15));
    assert!(second.rest().is_empty());

    first.give("go");
    succeeds(&mut first, writer);
    assert_eq!(log(&first.event("log")), ["+first", "-first"]);
}

#[test]
fn waiting_for_another_server_ends_with_the_limit_and_says_so() {
    let (mut first, second) = two(&|setup| setup.script("add", &logged("%l")));
    let mut second = session(second.flag("--timeout-secs").flag("1"));
    let writer = first.start_call("fz_add", json!({"module": "first"}));
    wait_for(&first.event("log"));
    let waiting = second.start_call("fz_add", json!({"module": "second"}));
    let message = refused(&second.recv_id(waiting), "mcp-fz-timeout");
    for part in ["another fz-mcp", "1 s", "not started", "--timeout-secs"] {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    first.give("go");
    succeeds(&mut first, writer);
    assert_eq!(log(&first.event("log")), ["+first", "-first"]);
}

#[test]
fn a_server_that_is_killed_leaves_no_lock_behind() {
    let (mut first, second) = two(&|setup| setup.script("add", "ids %l\nhang").script("plan", OK));
    let mut second = session(second);
    first.start_call("fz_add", json!({"module": "first"}));
    let (orphan, _) = ids(&first.event("first"));
    first.signal(Signal::KILL);
    first.wait_exit();
    let plan = second.start_call("fz_plan", json!({}));
    succeeds(&mut second, plan);
    // Nothing can be done about a SIGKILL: the child stays, as docs/processes.md says.
    assert!(alive(orphan));
    let pid = Pid::from_raw(orphan.try_into().expect("a process id")).expect("a process id");
    kill_process(pid, Signal::KILL).expect("the orphan can be killed");
}
