//! What people reported of other stdio servers over a command line, and does not happen here. Timeouts, cancellation,
//! ends and streams have files of their own.

use serde_json::{Value, json};

use crate::support::{LEGACY, MODERN, OK, Setup, session};

/// Everything a server says to some lines, each ended by a line feed.
#[track_caller]
fn answers(lines: &[&str]) -> Vec<Value> {
    let (messages, status) = Setup::stub(&format!("append runs run\n{OK}")).run(lines.join("\n"));
    assert_eq!(status.code(), Some(0));
    messages
}

const INIT: &str = r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;

#[test]
fn a_long_call_beats_and_then_answers_once_with_the_line_of_its_child() {
    let line = r#"{"schema":1,"ok":true,"failures":[],"digest":"d1"}"#;
    let mut server = session(Setup::stub(&format!("wait go\nout {line}\\n")));
    let params = json!({"name": "fz_plan", "arguments": {}, "_meta": {"progressToken": 1}});
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    for _ in 0..2 {
        assert_eq!(server.recv()["params"]["progressToken"], 1);
    }
    server.give("go");
    assert_eq!(server.recv_id(1)["result"]["content"], json!([{"type": "text", "text": line}]));
    server.eof();
    assert!(server.rest().iter().all(|message| message["method"] == "notifications/progress"));
}

#[test]
fn a_line_of_bad_bytes_costs_one_error_and_not_the_session() {
    let mut server = session(Setup::stub(OK));
    server.send_raw(b"\xff\xfe\n");
    server.send_raw(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"x\":\"\xc3\x28\"}\n");
    for _ in 0..2 {
        let refused = server.recv();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32700)));
    }
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn carriage_returns_and_blank_lines_are_white_space_and_never_written() {
    let mut server = Setup::stub(OK).start();
    let crlf = |line: &str| format!("{line}\r\n\r\n   \r\n\n");
    server.send_raw(crlf(INIT));
    server.send_raw(crlf(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#));
    server.send_raw("  {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}  \r\n");
    server.eof();
    let ids: Vec<Value> = server.rest().iter().map(|message| message["id"].clone()).collect();
    assert_eq!(ids, [json!("init"), json!(2)]);
    assert!(server.lines().iter().all(|line| !line.contains('\r')));
}

#[test]
fn every_id_comes_back_as_it_was_sent() {
    for id in [
        r#""1""#,
        r#""abc""#,
        r#""""#,
        r#""é\"q""#,
        r#""007""#,
        "0",
        "-1",
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890",
    ] {
        let mut server = Setup::stub(OK).start();
        server.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        server.eof();
        assert_eq!(server.rest().len(), 1);
        assert_eq!(server.last_line(), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#));
    }
}

#[test]
fn what_is_no_single_message_is_refused_once_each() {
    let messages = answers(&[
        INIT,
        r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
        "[]",
        "42",
        r#""x""#,
        r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
    ]);
    assert_eq!(messages.len(), 6);
    for refused in &messages[1..5] {
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    }
    assert_eq!(messages[5], json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
}

#[test]
fn responses_and_notifications_get_no_answer_and_run_nothing() {
    let mut server = session(Setup::stub(&format!("append runs run\n{OK}")));
    for line in [
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":8,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
        r#"{"jsonrpc":"2.0","method":"whatever/else","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fz_add","arguments":{"module":"m"}}}"#,
    ] {
        server.send(line);
    }
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
    server.eof();
    assert!(server.rest().is_empty());
    assert_eq!(server.lines().len(), 2, "the handshake and the ping");
    assert!(!server.event("runs").exists());
}

#[test]
fn a_second_handshake_renegotiates() {
    let mut server = session(Setup::stub(OK));
    assert_eq!(server.handshake("2025-06-18")["protocolVersion"], "2025-06-18");
    assert_eq!(server.request("tools/list", json!({}))["result"]["tools"][0]["name"], "fz_doctor");
}

#[test]
fn a_version_that_is_served_is_echoed_and_any_other_gets_one_and_the_same() {
    let mut server = Setup::stub(OK).start();
    for revision in LEGACY {
        assert_eq!(server.handshake(revision)["protocolVersion"], revision);
    }
    for params in [
        json!({"protocolVersion": "2099-01-01", "capabilities": {}}),
        json!({"protocolVersion": MODERN}),
        json!({"protocolVersion": ""}),
        json!({"protocolVersion": 5}),
        json!({"capabilities": {}}),
        json!({}),
    ] {
        let response = server.request("initialize", params);
        assert_eq!(response["result"]["protocolVersion"], LEGACY[0], "{response}");
    }
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize"}));
    assert_eq!(server.recv_id(1)["result"]["protocolVersion"], LEGACY[0]);
}

#[test]
fn what_is_not_advertised_is_not_found_at_once_and_the_server_goes_on() {
    let mut server = Setup::stub(OK).start();
    assert_eq!(server.handshake("2025-11-25")["capabilities"], json!({"tools": {}}));
    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        assert_eq!(server.request(method, json!({}))["error"]["code"], -32601);
    }
    assert_eq!(server.request("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_probe_of_a_newer_client_is_answered_and_the_handshake_still_works() {
    let mut server = Setup::stub(OK).start();
    server.send(json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"}));
    assert_eq!(server.recv_id(1)["error"]["code"], -32602);
    let discovered = server.modern("server/discover", json!({}));
    assert_eq!(discovered["result"]["supportedVersions"], json!([MODERN]));
    assert_eq!(server.handshake("2025-11-25")["protocolVersion"], "2025-11-25");
    assert!(server.request("tools/list", json!({}))["result"]["tools"].is_array());
}

#[test]
fn schemas_stay_in_what_every_client_family_accepts_in_every_revision() {
    let mut server = Setup::stub(OK).start();
    let mut lists = vec![server.modern("tools/list", json!({}))];
    for revision in LEGACY {
        server.handshake(revision);
        lists.push(server.request("tools/list", json!({})));
    }
    for list in lists {
        for tool in list["result"]["tools"].as_array().expect("tools") {
            let input = tool["inputSchema"].as_object().expect("a schema");
            assert_eq!((&input["type"], &input["additionalProperties"]), (&json!("object"), &json!(false)), "{tool}");
            assert!(input["properties"].is_object(), "{tool}");
            let known = ["type", "properties", "required", "additionalProperties"];
            assert!(input.keys().all(|key| known.contains(&key.as_str())), "{tool}");
            if let Some(output) = tool.get("outputSchema") {
                assert_eq!(output["type"], "object");
            }
        }
    }
}

#[test]
fn a_tool_without_arguments_has_empty_properties_and_takes_them_empty_or_absent() {
    let mut server = session(Setup::stub(OK));
    let list = server.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().expect("tools");
    let catalogue = tools.iter().find(|tool| tool["name"] == "fz_error_codes").expect("it is listed");
    let expected = json!({"type": "object", "properties": {}, "additionalProperties": false});
    assert_eq!(catalogue["inputSchema"], expected);
    for params in [json!({"name": "fz_error_codes", "arguments": {}}), json!({"name": "fz_error_codes"})] {
        assert_eq!(server.request("tools/call", params)["result"]["isError"], false);
    }
    let refused = server.call("fz_error_codes", json!({"x": 1}));
    let failure = &refused["structuredContent"]["failures"][0];
    assert_eq!(failure["code"], "mcp-argument-invalid");
    assert!(failure["message"].as_str().is_some_and(|message| message.starts_with("x: ")), "{refused}");
}

#[test]
fn every_failure_has_the_shape_that_the_output_schema_promises() {
    let failed = r#"out {"schema":1,"ok":false,"failures":[{"code":"locked-migration-edited","message":"m"}]}"#;
    let setup = Setup::stub(&format!("{failed}\nexit 1")).script("plan", "out nonsense").script("doctor", "hang");
    let mut server = session(setup.flag("--timeout-secs").flag("1"));
    let mut missing = session(Setup::stub("").child(["no-such-program"]));
    let list = server.request("tools/list", json!({}));
    let schema = &list["result"]["tools"][0]["outputSchema"];
    let schema = jsonschema::validator_for(schema).expect("a schema");
    let results = [
        ("locked-migration-edited", server.call("fz_verify", json!({}))),
        ("mcp-argument-invalid", server.call("fz_add", json!({"module": ""}))),
        ("mcp-fz-no-json", server.call("fz_plan", json!({}))),
        ("mcp-fz-timeout", server.call("fz_doctor", json!({}))),
        ("mcp-fz-unavailable", missing.call("fz_plan", json!({}))),
    ];
    for (code, result) in results {
        let envelope = &result["structuredContent"];
        assert!(schema.is_valid(envelope), "{result}");
        assert_eq!((&result["isError"], &envelope["failures"][0]["code"]), (&json!(true), &json!(code)));
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert_eq!(&serde_json::from_str::<Value>(text).expect("JSON"), envelope);
    }
}
