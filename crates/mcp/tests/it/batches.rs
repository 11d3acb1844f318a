//! What an array of messages adds up to. The rest of its rules are in the transcripts of 2025-03-26.

use serde_json::{Value, json};

use crate::support::{OK, Server, Setup};

/// Where the read buffer of a client ends, less what it needs itself.
const MAX_REPLY: usize = 10 * 1024 * 1024 - 64 * 1024;
const MAX_LINE: usize = 320 * 1024;

fn session(setup: Setup) -> Server {
    let mut server = setup.start();
    server.handshake("2025-03-26");
    server
}

fn call(id: u64, tool: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool}})
}

/// One answer to each request, whatever their order.
#[track_caller]
fn answers(server: &mut Server, count: u64) -> Vec<Value> {
    let Value::Array(mut replies) = server.recv() else { panic!("an array") };
    let length = server.last_line().len();
    assert!(length < MAX_REPLY, "{length} bytes in one line");
    replies.sort_by_key(|reply| reply["id"].as_u64());
    let ids: Vec<_> = replies.iter().filter_map(|reply| reply["id"].as_u64()).collect();
    assert_eq!(ids, (1..=count).collect::<Vec<_>>());
    replies
}

#[test]
fn replies_that_would_pass_the_clients_buffer_together_become_refusals() {
    let mut server = session(Setup::stub("json 3000000"));
    server.send(Value::Array((1..=5).map(|id| call(id, "fz_plan")).collect()));
    let replies = answers(&mut server, 5);
    let passed = replies.iter().filter(|reply| reply["result"]["isError"] == false).count();
    let refused = replies.iter().filter(|reply| reply.to_string().contains("mcp-fz-no-json")).count();
    assert_eq!((passed, refused), (3, 2));
}

#[test]
fn the_cap_holds_for_lists_too() {
    let mut server = session(Setup::stub(OK));
    let asked: Vec<_> = (1..=4000).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"})).collect();
    let line = Value::Array(asked).to_string();
    assert!(line.len() < MAX_LINE);
    server.send(line);
    answers(&mut server, 4000);
}

#[test]
fn the_cap_holds_for_the_catalogue_too() {
    let mut server = session(Setup::stub(OK));
    let line = Value::Array((1..=3000).map(|id| call(id, "fz_error_codes")).collect()).to_string();
    assert!(line.len() < MAX_LINE);
    server.send(line);
    answers(&mut server, 3000);
}

#[test]
fn as_many_calls_as_a_line_holds_are_each_answered() {
    let mut server = session(Setup::stub("").script("plan", &format!("wait go\n{OK}")));
    let count = 600;
    server.send(Value::Array((1..=count).map(|id| call(id, "fz_plan")).collect()));
    server.give("go");
    let replies = answers(&mut server, count);
    let busy = replies.iter().filter(|reply| reply.to_string().contains("busy")).count();
    assert!(busy > 0 && busy < 600, "{busy} were refused");
}
