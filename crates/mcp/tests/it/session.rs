//! One call from its start to its end, and the ways a session ends.

use serde_json::json;

use crate::support::{OK, Setup, wait_for};

#[test]
fn a_request_that_names_its_own_revision_needs_no_handshake() {
    let mut server = Setup::stub(OK).start();
    let response = server.modern("tools/call", json!({"name": "fz_plan"}));
    assert_eq!(response["result"]["structuredContent"]["ok"], true, "{response}");
}

#[test]
fn a_ping_is_answered_while_a_child_runs_and_the_child_is_gone_after_its_answer() {
    let mut server = Setup::stub(&format!("ids ids\nwait go\n{OK}")).start();
    server.handshake("2025-11-25");
    let call = server.start_call("fz_plan", json!({}));
    wait_for(&server.event("ids"));
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));

    server.give("go");
    assert_eq!(server.recv_id(call)["result"]["structuredContent"]["ok"], true);
    #[cfg(unix)]
    {
        use crate::support::{alive, ids, wait_until};
        let (child, group) = ids(&server.event("ids"));
        assert_eq!(child, group, "the child leads no group of its own");
        assert_ne!(child, server.pid());
        wait_until("the child is gone", || !alive(child));
    }
}

#[test]
fn what_was_accepted_before_the_end_of_stdin_is_answered() {
    let mut server = Setup::stub(&format!("touch started\nwait go\n{OK}")).start();
    server.handshake("2025-11-25");
    let call = server.start_call("fz_plan", json!({}));
    wait_for(&server.event("started"));
    server.eof();
    server.give("go");
    assert_eq!(server.recv_id(call)["result"]["structuredContent"]["ok"], true);
    assert!(server.rest().is_empty());
    assert_eq!(server.wait_exit().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_server_and_its_child() {
    use crate::support::{alive, ids, wait_until};
    use rustix::process::Signal;

    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut server = Setup::stub("ids ids\nhang").start();
        server.handshake("2025-11-25");
        server.start_call("fz_plan", json!({}));
        let (child, _) = ids(&server.event("ids"));
        assert!(alive(child));
        server.signal(signal);
        server.wait_exit();
        wait_until("the child is gone", || !alive(child));
    }
}
