//! A call ends, nothing it started survives it, and the server answers meanwhile.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{OK, Server, Setup, alive, ids, stub, wait_for, wait_until};

/// What "within a second" may take on a busy machine. What it took is printed.
const SOON: Duration = Duration::from_secs(10);

#[track_caller]
fn session(setup: Setup) -> Server {
    let mut server = setup.start();
    server.handshake("2025-11-25");
    server
}

fn cancel(server: &mut Server, id: u64) {
    let params = json!({"requestId": id, "reason": "the user pressed stop"});
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
}

fn with_token(server: &mut Server, tool: &str, token: &Value) -> u64 {
    let id = server.next_id();
    let params = json!({"name": tool, "arguments": {}, "_meta": {"progressToken": token}});
    server.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    id
}

#[track_caller]
fn gone(path: &Path) {
    let (pid, _) = ids(path);
    wait_until(&format!("{} is gone", path.display()), || !alive(pid));
}

#[track_caller]
fn failure(result: &Value, code: &str) -> String {
    let envelope = &result["structuredContent"];
    assert_eq!(result["isError"], true, "{result}");
    assert_eq!((&envelope["ok"], &envelope["failures"][0]["code"]), (&json!(false), &json!(code)), "{result}");
    envelope["failures"][0]["message"].as_str().expect("a message").to_owned()
}

#[track_caller]
fn silent_about(server: &mut Server, id: u64) {
    server.eof();
    let rest = server.rest();
    assert!(rest.iter().all(|message| message["id"] != id), "{rest:?}");
    assert_eq!(server.wait_exit().code(), Some(0));
}

fn report(what: &str, took: Duration) {
    // Past the capture of the test harness.
    writeln!(std::io::stdout(), "{what}: {} ms", took.as_millis()).expect("stdout can be written");
    assert!(took < SOON, "{what}: {took:?}");
}

#[test]
fn a_timeout_names_program_limit_and_knob_and_shows_the_end_of_stderr() {
    let script = "ids child\nerr    Blocking waiting for file lock on build directory\\n\nhang";
    let mut server = session(Setup::stub(script).env("FZ_MCP_TIMEOUT_SECS", "1"));
    let result = server.call("fz_doctor", json!({}));
    let message = failure(&result, "mcp-fz-timeout");
    for part in
        ["fz-stub", "1 s", "--timeout-secs", "FZ_MCP_TIMEOUT_SECS", "Blocking waiting for file lock", "stays: check"]
    {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
    gone(&server.event("child"));
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn without_a_limit_a_call_is_ended_by_nothing_but_its_child() {
    let mut server = session(Setup::stub(&format!("touch started\nwait go\n{OK}")).flag("--timeout-secs").flag("0"));
    let call = with_token(&mut server, "fz_doctor", &json!("t"));
    let beat = server.recv();
    assert_eq!(beat["method"], "notifications/progress", "{beat}");
    server.give("go");
    assert_eq!(server.recv_id(call)["result"]["isError"], false);
}

#[test]
fn cancelling_stops_the_child_and_nothing_is_written_for_its_id() {
    let mut server = session(Setup::stub("ids child\nhang"));
    let call = server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("child"));
    let begun = Instant::now();
    cancel(&mut server, call);
    gone(&server.event("child"));
    report("a cancelled child is gone after", begun.elapsed());
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    silent_about(&mut server, call);
}

#[test]
fn a_child_that_finishes_in_spite_of_its_cancellation_is_not_answered_either() {
    let script = format!("ignore-term\nids child\nwait go\n{OK}\ntouch done");
    let mut server = session(Setup::stub(&script));
    let call = with_token(&mut server, "fz_doctor", &json!(1));
    wait_for(&server.event("child"));
    cancel(&mut server, call);
    // The cancellation was read before this was answered.
    server.request("ping", json!({}));
    server.give("go");
    gone(&server.event("child"));
    silent_about(&mut server, call);
    assert!(server.lines().iter().all(|line| !line.contains("notifications/progress")));
}

#[test]
fn a_cancelled_id_may_be_used_again() {
    let mut server = session(Setup::stub(OK).script("doctor", "ids child\nhang"));
    let call = server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("child"));
    cancel(&mut server, call);
    server.send(json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": {"name": "fz_plan"}}));
    assert_eq!(server.recv_id(call)["result"]["isError"], false);
    silent_about(&mut server, call);
}

#[test]
fn a_cancellation_that_names_nothing_in_flight_changes_nothing() {
    let mut server = session(Setup::stub(&format!("touch started\nwait go\n{OK}")));
    let call = server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("started"));
    for params in
        [json!({"requestId": call.to_string()}), json!({"requestId": 1}), json!({}), json!({"requestId": null})]
    {
        server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled"}));
    server.request("ping", json!({}));
    server.give("go");
    assert_eq!(server.recv_id(call)["result"]["isError"], false);
}

#[test]
fn a_request_with_an_id_in_flight_is_refused_and_the_first_is_untouched() {
    let mut server = session(Setup::stub(&format!("touch started\nwait go\n{OK}")));
    let call = server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("started"));
    server.send(json!({"jsonrpc": "2.0", "id": call, "method": "tools/call", "params": {"name": "fz_error_codes"}}));
    assert_eq!(server.recv_id(call)["error"]["code"], -32600);
    server.give("go");
    assert_eq!(server.recv_id(call)["result"]["isError"], false);
}

#[test]
fn a_grandchild_goes_with_its_child_on_timeout() {
    let setup = Setup::stub("ids child\nspawn grandchild\nhang").script("grandchild", "ids grandchild\nhang");
    let mut server = session(setup.flag("--timeout-secs").flag("1"));
    let result = server.call("fz_doctor", json!({}));
    failure(&result, "mcp-fz-timeout");
    gone(&server.event("child"));
    gone(&server.event("grandchild"));
}

#[test]
fn a_grandchild_that_lets_go_of_the_pipes_goes_with_a_child_that_is_stopped() {
    let setup = Setup::stub("ids child\nspawn-quiet grandchild\nwait grandchild\ntouch started\nhang")
        .script("grandchild", "ignore-term\nids grandchild\nhang");
    let mut server = session(setup);
    let call = server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("started"));
    cancel(&mut server, call);
    gone(&server.event("child"));
    gone(&server.event("grandchild"));
}

#[test]
fn a_daemon_that_lets_go_of_the_pipes_outlives_a_child_that_succeeds() {
    let setup = Setup::stub(&format!("spawn-quiet daemon\nwait daemon\n{OK}")).script("daemon", "ids daemon\nwait go");
    let mut server = session(setup);
    assert_eq!(server.call("fz_doctor", json!({}))["isError"], false);
    let (daemon, _) = ids(&server.event("daemon"));
    assert!(alive(daemon));
    server.give("go");
    wait_until("the daemon has ended by itself", || !alive(daemon));
}

/// As `cargo run` does: a parent that starts the real program and waits for it.
fn launched(script: &str) -> Setup {
    let launcher = stub();
    // The launcher takes `launch` for its verb, and the program's own verb comes behind.
    Setup::stub("")
        .child([launcher.clone().into(), "launch".into(), launcher.into_os_string()])
        .script("launch", "ids launcher\nlaunch")
        .script("doctor", script)
}

#[test]
fn a_launcher_and_its_program_are_gone_after_a_timeout() {
    let mut server = session(launched("ids program\nhang").flag("--timeout-secs").flag("1"));
    let result = server.call("fz_doctor", json!({}));
    failure(&result, "mcp-fz-timeout");
    gone(&server.event("launcher"));
    gone(&server.event("program"));
}

#[test]
fn a_launcher_and_its_program_are_gone_after_a_cancellation() {
    let mut server = session(launched("ids program\nhang"));
    let call = server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("program"));
    cancel(&mut server, call);
    gone(&server.event("launcher"));
    gone(&server.event("program"));
    silent_about(&mut server, call);
}

#[test]
fn a_ping_is_answered_while_eight_children_hang_and_a_signal_leaves_none() {
    let mut server = session(Setup::stub("ids %p\nappend children %p\nhang"));
    let calls: Vec<u64> = (0..8).map(|_| server.start_call("fz_doctor", json!({}))).collect();
    let list = server.event("children");
    let children = || std::fs::read_to_string(&list).unwrap_or_default();
    wait_until("eight children run", || children().lines().count() == 8);
    let pids: Vec<u32> = children().lines().map(|pid| pid.parse().expect("a number")).collect();
    let living = || pids.iter().filter(|&&pid| alive(pid)).count();

    let begun = Instant::now();
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    assert!(server.request("tools/list", json!({}))["result"]["tools"].is_array());
    report("ping and tools/list beside eight children took", begun.elapsed());
    assert_eq!(living(), 8);

    cancel(&mut server, calls[3]);
    wait_until("one is gone", || living() < 8);
    server.request("ping", json!({}));
    assert_eq!(living(), 7);

    let begun = Instant::now();
    server.signal(Signal::TERM);
    let status = server.wait_exit();
    let took = begun.elapsed();
    assert_eq!(living(), 0, "a child outlived the server");
    report("SIGTERM with seven children took", took);
    assert_eq!(status.code(), Some(128 + 15));
    assert!(server.rest().is_empty(), "nothing is answered by a server that was stopped");
}

#[test]
fn end_of_input_then_a_signal_ends_a_call_without_a_limit() {
    let mut server = session(Setup::stub("ids child\nhang").env("FZ_MCP_TIMEOUT_SECS", "0"));
    server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("child"));
    server.eof();
    let begun = Instant::now();
    server.signal(Signal::TERM);
    assert_eq!(server.wait_exit().code(), Some(128 + 15));
    report("SIGTERM after the end of input took", begun.elapsed());
    gone(&server.event("child"));
}

#[test]
fn a_child_that_ignores_term_does_not_hold_up_the_end() {
    let mut server = session(Setup::stub("ignore-term\nids child\nhang"));
    server.start_call("fz_doctor", json!({}));
    wait_for(&server.event("child"));
    let begun = Instant::now();
    server.signal(Signal::INT);
    assert_eq!(server.wait_exit().code(), Some(128 + 2));
    report("SIGINT with a child that ignores SIGTERM took", begun.elapsed());
    let (child, _) = ids(&server.event("child"));
    assert!(!alive(child));
}

#[test]
fn an_idle_server_ends_with_its_input_and_says_nothing() {
    let mut server = session(Setup::stub(OK));
    let begun = Instant::now();
    server.eof();
    assert_eq!(server.wait_exit().code(), Some(0));
    report("an idle server ended after", begun.elapsed());
    assert_eq!(server.stderr().lines().count(), 1, "{}", server.stderr());
}

#[test]
fn what_came_in_one_write_with_the_end_of_input_is_all_answered() {
    let call = |id: u64, tool: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}}).to_string()
    };
    let init = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25"}});
    let lines = [
        init.to_string(),
        call(1, "fz_doctor"),
        call(2, "fz_add_nothing"),
        call(3, "fz_error_codes"),
        call(4, "fz_plan"),
    ];
    let (messages, status) = Setup::stub(OK).run(lines.join("\n"));
    let mut answered: Vec<_> = messages.iter().filter_map(|message| message["id"].as_u64()).collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3, 4]);
    assert_eq!(status.code(), Some(0));
}

#[test]
fn every_way_a_child_can_leave_its_streams_ends_the_call() {
    for (script, ok) in [
        ("close err\nout {\"schema\":1,\"ok\":true,\"failures\":[]}\\n", true),
        ("out {\"schema\":1,\"ok\":true,\"failures\":[]}\\n\nclose out\nclose err\nwait go", true),
        ("close out\nclose err\nwait go\nexit 3", false),
    ] {
        let mut server = session(Setup::stub(script));
        let call = server.start_call("fz_doctor", json!({}));
        server.request("ping", json!({}));
        server.give("go");
        assert_eq!(server.recv_id(call)["result"]["isError"], !ok, "{script}");
    }
}

#[test]
fn a_child_that_closed_its_streams_and_stays_is_stopped_by_the_limit() {
    let mut server = session(Setup::stub("ids child\nclose out\nclose err\nhang").flag("--timeout-secs").flag("1"));
    let result = server.call("fz_doctor", json!({}));
    failure(&result, "mcp-fz-timeout");
    gone(&server.event("child"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_inherits_no_descriptor_of_the_server() {
    let held = |pid: u32| -> BTreeSet<_> {
        let held = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("the child runs");
        held.map(|entry| entry.expect("a descriptor").file_name()).collect()
    };
    let script = "ids ids\nwait go";
    let mut server = session(Setup::stub(script));
    let call = server.start_call("fz_doctor", json!({}));
    let of_child = held(ids(&server.event("ids")).0);
    server.give("go");
    server.recv_id(call);

    // What this test itself was started with reaches any child.
    let events = tempfile::tempdir().expect("a temporary directory");
    let mut plain = std::process::Command::new(stub())
        .env("FZ_STUB", script)
        .env("FZ_STUB_DIR", events.path())
        .spawn()
        .expect("the stub can be started");
    let of_plain = held(ids(&events.path().join("ids")).0);
    std::fs::write(events.path().join("go"), "").expect("a temporary directory can be written");
    plain.wait().expect("the stub ends");
    assert_eq!(of_child, of_plain);
}
