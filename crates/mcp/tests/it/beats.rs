//! Heartbeats, for those who asked, and the silence of everything else.

use serde_json::{Value, json};

use crate::support::{OK, Server, Setup, wait_for};

#[track_caller]
fn session(revision: &str, script: &str) -> Server {
    let mut server = Setup::stub(script).start();
    server.handshake(revision);
    server
}

fn call(server: &mut Server, token: &Value) -> u64 {
    let id = server.next_id();
    let params = json!({"name": "fz_plan", "arguments": {}, "_meta": {"progressToken": token}});
    server.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    id
}

/// The next message, which is a heartbeat: its parameters.
#[track_caller]
fn beat(server: &mut Server) -> Value {
    let mut message = server.recv();
    assert_eq!(message["method"], "notifications/progress", "{message}");
    assert!(message.get("id").is_none(), "{message}");
    message["params"].take()
}

/// Lets the child finish; nothing but the answer may come from then on, until the server is gone.
#[track_caller]
fn ends_with_the_reply(mut server: Server, id: u64) {
    server.give("go");
    server.eof();
    let mut rest = server.rest();
    assert_eq!(rest.pop().expect("an answer")["id"], id, "the answer comes last");
    assert!(rest.iter().all(|message| message["method"] == "notifications/progress"), "{rest:?}");
}

#[test]
fn a_heartbeat_comes_every_two_seconds_echoes_the_token_and_tells_the_last_line_of_stderr() {
    for token in [json!(1), json!("tok-é-1")] {
        let script =
            format!("err   Compiling a\\n   Compiling \\x1b[1mventure\\x1b[0m v0.1.0\\n\ntouch started\nwait go\n{OK}");
        let mut server = session("2025-11-25", &script);
        let id = call(&mut server, &token);
        let (first, second) = (beat(&mut server), beat(&mut server));
        assert_eq!((&first["progressToken"], &second["progressToken"]), (&token, &token));
        let seconds = |beat: &Value| beat["progress"].as_u64().expect("whole seconds");
        assert!(seconds(&first) >= 2 && seconds(&second) > seconds(&first), "{first} {second}");
        let message = second["message"].as_str().expect("a message");
        assert!(message.contains("Compiling venture v0.1.0"), "{message:?}");
        assert!(message.contains(&format!("{} s", seconds(&second))), "{message:?}");
        ends_with_the_reply(server, id);
    }
}

#[test]
fn a_heartbeat_has_no_message_in_the_oldest_revision() {
    let mut server = session("2024-11-05", &format!("wait go\n{OK}"));
    let id = call(&mut server, &json!("t"));
    let beat = beat(&mut server);
    assert_eq!(beat.get("message"), None, "{beat}");
    assert_eq!(beat["progressToken"], "t");
    ends_with_the_reply(server, id);
}

#[test]
fn a_call_without_a_token_has_no_heartbeat() {
    let mut server = session("2025-11-25", &format!("append started x\nwait go\n{OK}"));
    let silent = server.start_call("fz_plan", json!({}));
    wait_for(&server.event("started"));
    let id = call(&mut server, &json!("mine"));
    // The silent call is older, so it would be heard by now.
    for _ in 0..2 {
        assert_eq!(beat(&mut server)["progressToken"], "mine");
    }
    server.give("go");
    server.recv_id(silent);
    server.recv_id(id);
    let others = server.lines().iter().filter(|line| line.contains("notifications/progress") && !line.contains("mine"));
    assert_eq!(others.count(), 0);
}

#[test]
fn a_call_that_waits_for_its_turn_beats_too() {
    let mut server = Setup::stub(OK).script("plan", &format!("touch started\nwait go\n{OK}")).start();
    server.handshake("2025-11-25");
    let running = server.start_call("fz_plan", json!({}));
    wait_for(&server.event("started"));
    let id = server.next_id();
    let params = json!({"name": "fz_add", "arguments": {"module": "cms"}, "_meta": {"progressToken": 5}});
    server.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    let beat = beat(&mut server);
    assert_eq!(beat["progressToken"], 5);
    assert!(beat["message"].as_str().is_some_and(|message| message.contains("waiting")), "{beat}");
    server.give("go");
    server.recv_id(running);
    assert_eq!(server.recv_id(id)["result"]["isError"], false);
}

#[test]
fn a_token_that_is_no_string_or_integer_is_refused() {
    let mut server = session("2025-11-25", OK);
    for token in [json!(1.5), json!(true), json!({}), json!([])] {
        let id = call(&mut server, &token);
        assert_eq!(server.recv_id(id)["error"]["code"], -32602, "{token}");
    }
    let id = call(&mut server, &Value::Null);
    assert_eq!(server.recv_id(id)["result"]["isError"], false);
}
