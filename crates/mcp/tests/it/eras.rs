//! Both eras on one pipe: each message is judged by itself.

use serde_json::{Value, json};

use crate::support::{LEGACY, MODERN, OK, Server, Setup};

fn listed(server: &mut Server) -> Value {
    let response = server.request("tools/list", json!({}));
    server.result_of(response)
}

fn listed_stateless(server: &mut Server) -> Value {
    let response = server.modern("tools/list", json!({}));
    server.result_of(response)
}

/// What a revision's list is where it is the only one spoken.
fn alone(revision: &str) -> Value {
    let mut server = Setup::stub("").start();
    if revision == MODERN {
        return listed_stateless(&mut server);
    }
    server.handshake(revision);
    listed(&mut server)
}

#[test]
fn sessions_follow_each_other_on_one_pipe_and_stateless_requests_stand_between() {
    let stateless = alone(MODERN);
    let lists = LEGACY.map(alone);
    let mut server = Setup::stub("").start();
    for (revision, list) in LEGACY.into_iter().zip(&lists).chain(LEGACY.into_iter().zip(&lists).rev()) {
        server.handshake(revision);
        assert_eq!(&listed(&mut server), list, "{revision}");
        assert_eq!(listed_stateless(&mut server), stateless, "within a session of {revision}");
        assert_eq!(&listed(&mut server), list, "{revision}, behind a stateless request");
    }
}

#[test]
fn failed_probes_of_every_kind_lock_nothing() {
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for params in [
        json!({}),
        json!({"_meta": {}}),
        json!({"_meta": {version: "2027-01-01", capabilities: {}}}),
        json!({"_meta": {version: MODERN}}),
        json!({"_meta": {capabilities: {}}}),
        json!({"_meta": {version: 7, capabilities: {}}}),
    ] {
        for revision in LEGACY {
            let mut server = Setup::stub(OK).start();
            let refused = server.request("server/discover", params.clone());
            assert!(refused.get("error").is_some(), "{params}: {refused}");
            assert_eq!(server.handshake(revision)["protocolVersion"], revision);
            let response = server.modern("tools/call", json!({"name": "fz_plan"}));
            assert_eq!(server.result_of(response)["resultType"], "complete");
            assert_eq!(server.call("fz_plan", json!({}))["isError"], false);
            let probe = server.request("server/discover", params.clone());
            assert!(probe.get("error").is_some());
            assert_eq!(server.request("ping", json!({}))["result"], json!({}), "after a probe within a session");
        }
    }
}

#[test]
fn a_running_call_is_answered_by_the_revision_it_was_asked_in() {
    let mut server = Setup::stub(&format!("touch started\nwait go\n{OK}")).start();
    server.handshake("2025-11-25");
    let id = server.start_call("fz_plan", json!({}));
    crate::support::wait_for(&server.event("started"));
    server.handshake("2024-11-05");
    server.give("go");
    let response = server.recv_id(id);
    assert!(server.result_of(response).get("structuredContent").is_some());
    assert!(server.call("fz_plan", json!({})).get("structuredContent").is_none());
}
