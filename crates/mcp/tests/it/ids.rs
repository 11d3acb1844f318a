//! Ids where it matters that two are the same, or are not.

use serde_json::{Value, json};

use crate::support::{OK, Server, Setup};

fn held() -> Server {
    let mut server = Setup::stub(&format!("touch started\nwait go\n{OK}")).start();
    server.handshake("2025-11-25");
    server
}

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"fz_plan"}}}}"#)
}

fn raw(line: &str) -> String {
    let rest = line.split_once(r#""id":"#).expect("an id").1;
    rest.split_once(r#","result""#).or_else(|| rest.split_once(r#","error""#)).expect("an answer").0.to_owned()
}

#[test]
fn every_integer_and_every_text_comes_back_from_a_call_as_it_was_sent() {
    let mut server = Setup::stub(OK).start();
    server.handshake("2025-11-25");
    let digits = "9".repeat(300);
    let text = format!("\"{}\"", "x".repeat(10_000));
    for id in ["0", "-1", "9007199254740993", "-9223372036854775809", &digits, r#""1""#, r#""é\n\u0007""#, &text] {
        server.send(call(id));
        server.recv();
        assert_eq!(raw(server.last_line()), id);
    }
}

#[test]
fn two_spellings_of_one_text_are_one_id() {
    let mut server = held();
    server.send(call(r#""é""#));
    crate::support::wait_for(&server.event("started"));
    server.send(call(r#""\u00e9""#));
    assert_eq!(server.recv()["error"]["code"], -32600);
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "é"}}));
    server.eof();
    assert_eq!(server.rest(), Vec::<Value>::new());
}

#[test]
fn a_number_and_the_same_digits_as_text_are_two_ids() {
    let mut server = held();
    server.send(call("7"));
    server.send(call(r#""7""#));
    server.give("go");
    let mut ids: Vec<_> = (0..2).map(|_| server.recv()).map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, [r#""7""#, "7"]);
}

#[test]
fn integers_that_a_float_cannot_tell_apart_are_two_ids() {
    let mut server = held();
    let (one, other) = ("123456789012345678901234567890", "123456789012345678901234567891");
    server.send(call(one));
    server.send(call(other));
    server.give("go");
    let mut ids: Vec<_> = (0..2).map(|_| (server.recv(), raw(server.last_line())).1).collect();
    ids.sort();
    assert_eq!(ids, [one, other]);
}

#[test]
fn an_id_in_flight_is_refused_for_every_method() {
    let mut server = held();
    server.send(call("7"));
    crate::support::wait_for(&server.event("started"));
    for method in ["ping", "tools/list", "prompts/list", "server/discover", "initialize", "tools/call"] {
        server.send(json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {}}));
        let answer = server.recv();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32600)), "{method}");
    }
    server.give("go");
    assert_eq!(server.recv()["result"]["isError"], false);
}

#[test]
fn the_id_of_a_cancelled_call_is_free_at_once() {
    let mut server = Setup::stub("touch started\nhang").script("verify", OK).start();
    server.handshake("2025-11-25");
    server.send(call("7"));
    crate::support::wait_for(&server.event("started"));
    server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}));
    server.send(json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "fz_verify"}}));
    server.eof();
    let rest = server.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["result"]["isError"], false);
}
