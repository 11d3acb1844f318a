//! The official schemas themselves: that every definition was held against a line, and that a wrong line is noticed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde_json::{Value, json};

use crate::support::{LEGACY, MODERN, OK, Server, Setup, folder, required, seen, untouched};

/// A call that takes long enough for a heartbeat.
fn with_progress(server: &mut Server, revision: &str, id: u64) {
    let mut meta = json!({"progressToken": id});
    if revision == MODERN {
        meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    }
    let params = json!({"name": "fz_plan", "arguments": {}, "_meta": meta});
    server.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    assert_eq!(server.recv()["method"], "notifications/progress");
    server.give("go");
    server.recv_id(id);
}

fn slow() -> Setup {
    Setup::stub(OK).script("plan", &format!("wait go\n{OK}"))
}

fn session(revision: &str) {
    let mut server = slow().start();
    server.handshake(revision);
    server.request("ping", json!({}));
    server.request("tools/list", json!({}));
    server.call("fz_verify", json!({}));
    server.call("fz_add", json!({}));
    server.request("prompts/list", json!({}));
    server.send("{not json");
    server.recv();
    if revision == "2025-03-26" {
        server.send(json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}, 7]));
        assert!(server.recv().is_array());
    }
    with_progress(&mut server, revision, 7);
}

fn stateless() {
    let mut server = slow().start();
    server.modern("server/discover", json!({}));
    server.modern("tools/list", json!({}));
    server.modern("tools/call", json!({"name": "fz_verify"}));
    server.modern("tools/call", json!({"name": "fz_add"}));
    server.modern("tools/call", json!({"name": "nope"}));
    server.modern("prompts/list", json!({}));
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2027-01-01",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    assert_eq!(server.request("tools/list", json!({"_meta": meta}))["error"]["code"], -32022);
    server.send("42");
    server.recv();
    with_progress(&mut server, MODERN, 7);
}

#[test]
fn every_definition_is_held_against_a_line() {
    if folder().is_none() {
        assert!(!required());
        return;
    }
    LEGACY.into_iter().for_each(session);
    stateless();
    let untouched = untouched();
    assert!(untouched.is_empty(), "no line was held against {}", untouched.join(", "));
}

fn is_noticed(line: &Value, method: &str, revision: &str) -> bool {
    let asked = |_: &Value| Some((method.to_owned(), revision.to_owned()));
    catch_unwind(AssertUnwindSafe(|| seen(&line.to_string(), Some(revision), &asked))).is_err()
}

fn answer(result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": result})
}

#[test]
fn a_line_that_breaks_its_schema_is_noticed() {
    if folder().is_none() {
        return;
    }
    let server = json!({"name": "fz-mcp", "version": "1"});
    let discover = json!({
        "supportedVersions": [MODERN], "capabilities": {}, "resultType": "complete", "ttlMs": 1,
        "cacheScope": "public", "_meta": {"io.modelcontextprotocol/serverInfo": server},
    });
    assert!(!is_noticed(&answer(discover.clone()), "server/discover", MODERN));
    for member in ["ttlMs", "cacheScope", "resultType", "supportedVersions", "capabilities", "_meta"] {
        let mut broken = discover.clone();
        broken.as_object_mut().expect("an object").remove(member);
        assert!(is_noticed(&answer(broken), "server/discover", MODERN), "{member}");
    }
    for revision in LEGACY {
        let opened = json!({"protocolVersion": revision, "capabilities": {}, "serverInfo": server});
        assert!(!is_noticed(&answer(opened), "initialize", revision));
        let opened = json!({"protocolVersion": revision, "capabilities": {}});
        assert!(is_noticed(&answer(opened), "initialize", revision));
        assert!(is_noticed(&answer(json!({"tools": [{"name": "x"}]})), "tools/list", revision));
        assert!(is_noticed(&json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600}}), "ping", revision));
        assert!(is_noticed(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}), "", revision));
    }
    let data = json!({"supported": [MODERN]});
    let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "no", "data": data}});
    assert!(is_noticed(&error, "tools/list", MODERN));
}

#[test]
fn a_structured_result_that_is_not_as_advertised_is_noticed() {
    let call = |structured: Value| {
        answer(json!({"content": [], "isError": structured["ok"] == false, "structuredContent": structured}))
    };
    assert!(!is_noticed(&call(json!({"schema": 1, "ok": true, "failures": []})), "tools/call", LEGACY[0]));
    for structured in [
        json!({"ok": true, "failures": []}),
        json!({"schema": 1, "ok": true, "failures": {}}),
        json!({"schema": 1, "ok": false, "failures": [{"code": "x"}]}),
    ] {
        assert!(is_noticed(&call(structured.clone()), "tools/call", LEGACY[0]), "{structured}");
    }
    assert!(is_noticed(&answer(json!({"content": [], "isError": false})), "tools/call", LEGACY[0]));
    let structured = call(json!({"schema": 1, "ok": true, "failures": []}));
    assert!(is_noticed(&structured, "tools/call", "2024-11-05"));
}

#[test]
fn a_line_that_some_readers_would_split_is_noticed() {
    assert!(is_noticed(&answer(json!({"\u{2028}": 1})), "ping", LEGACY[0]));
}
