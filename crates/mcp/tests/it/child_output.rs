//! What a child gets, and what becomes of whatever it prints.

use serde_json::{Value, json};

use crate::support::{OK, Server, Setup, wait_for};

/// A session whose `fz_plan` follows the script and whose `fz_verify` is well.
#[track_caller]
fn session(script: &str) -> Server {
    let mut server = Setup::stub(OK).script("plan", script).start();
    server.handshake("2025-11-25");
    server
}

#[track_caller]
fn goes_on(server: &mut Server) {
    let next = server.call("fz_verify", json!({}));
    assert_eq!(next["structuredContent"], json!({"schema": 1, "ok": true, "failures": []}));
}

/// The text and the object of a call whose child did as scripted; both must say the same.
#[track_caller]
fn plan(server: &mut Server) -> (String, Value) {
    let result = server.call("fz_plan", json!({}));
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1), "{result}");
    let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
    let object = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Value>(&text).expect("the text is JSON"), object);
    assert_eq!(result["isError"] == true, object["ok"] == false, "{result}");
    (text, object)
}

/// The message of the one failure that stands in for output which is no envelope.
#[track_caller]
fn no_json(script: &str) -> String {
    let mut server = session(script);
    let message = failure(&mut server, "mcp-fz-no-json");
    goes_on(&mut server);
    message
}

#[track_caller]
fn failure(server: &mut Server, code: &str) -> String {
    let (_, object) = plan(server);
    let failures = object["failures"].as_array().expect("failures");
    assert_eq!((failures.len(), &failures[0]["code"]), (1, &json!(code)), "{object}");
    assert_eq!(object["ok"], false);
    assert_eq!(object["schema"], 1);
    failures[0]["message"].as_str().expect("a message").to_owned()
}

/// What passes comes back as it was printed.
#[track_caller]
fn passes(script: &str, text: &str) -> Server {
    let mut server = session(script);
    assert_eq!(plan(&mut server).0, text);
    server
}

#[track_caller]
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is missing in: {message}");
    }
}

fn nested(levels: usize) -> String {
    let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
    format!(r#"{{"schema":1,"ok":true,"failures":[],"deep":{open}{close}}}"#)
}

#[test]
fn prose_is_quoted_in_the_failure() {
    let message = no_json("out all is well, as a person would say\\n");
    says(&message, &["all is well, as a person would say", "0"]);
}

#[test]
fn nothing_at_all_is_told_with_the_exit_status() {
    says(&no_json("exit 0"), &["0"]);
    says(&no_json("out  \\n\nexit 7"), &["7"]);
}

#[test]
fn a_usage_error_is_told_with_what_stood_on_stderr() {
    let message = no_json("err error: unexpected argument '--wat' found\\n\\nUsage: fz [OPTIONS] <COMMAND>\\n\nexit 2");
    says(&message, &["2", "usage", "unexpected argument '--wat' found"]);
}

#[test]
fn a_panic_is_told_with_what_stood_on_stderr() {
    let message = no_json("err thread 'main' panicked at src/lib.rs:7:5:\\nno runtime\\n\nexit 101");
    says(&message, &["101", "panic", "no runtime"]);
}

#[test]
fn a_failed_build_is_told_with_what_cargo_said() {
    let message = no_json("err error: could not compile `venture` (lib) due to 1 previous error\\n\nexit 101");
    says(&message, &["101", "cargo", "could not compile `venture`"]);
}

#[cfg(unix)]
#[test]
fn a_child_that_died_by_a_signal_is_told_with_the_signal() {
    says(&no_json("signal 9"), &["signal", "9"]);
    says(&no_json("abort"), &["signal", "6"]);
}

#[test]
fn stderr_is_quoted_before_stdout_is() {
    let message = no_json("out on stdout\\n\nerr on stderr\\n");
    says(&message, &["on stderr"]);
    assert!(!message.contains("on stdout"), "{message}");
}

#[test]
fn two_objects_are_one_too_many() {
    says(&no_json(&format!("{OK}\n{OK}")), &["more than one"]);
    says(&no_json(r#"out {"schema":1,"ok":true,"failures":[]}{}"#), &["more than one"]);
}

#[test]
fn a_banner_before_or_behind_the_object_is_not_stripped() {
    says(&no_json(&format!("out Welcome!\\n\n{OK}")), &["Welcome!"]);
    says(&no_json(&format!("{OK}\nout Goodbye!\\n")), &["Goodbye!"]);
}

#[test]
fn what_is_no_object_is_no_envelope() {
    for printed in ["[]", r#"[{"schema":1,"ok":true,"failures":[]}]"#, "null", "true", "17", r#""text""#] {
        no_json(&format!("out {printed}\\n"));
    }
}

#[test]
fn half_an_object_is_no_envelope() {
    no_json(r#"out {"schema":1,"ok":true,"fail"#);
}

#[test]
fn bytes_that_are_not_utf_8_are_told_with_their_place() {
    let message = no_json(r#"out {"schema":1,"ok":true,"failures":[],"x":"\xff"}\n"#);
    says(&message, &["UTF-8", "byte"]);
}

#[test]
fn an_object_of_the_wrong_shape_is_no_envelope() {
    for printed in [
        "{}",
        r#"{"schema":1,"ok":true}"#,
        r#"{"schema":1,"failures":[]}"#,
        r#"{"ok":true,"failures":[]}"#,
        r#"{"schema":"1","ok":true,"failures":[]}"#,
        r#"{"schema":1,"ok":"true","failures":[]}"#,
        r#"{"schema":1,"ok":1,"failures":[]}"#,
        r#"{"schema":1,"ok":true,"failures":{}}"#,
        r#"{"schema":1,"ok":true,"failures":null}"#,
        r#"{"schema":1,"ok":false,"failures":["x"]}"#,
        r#"{"schema":1,"ok":false,"failures":[{"code":"x"}]}"#,
        r#"{"schema":1,"ok":false,"failures":[{"code":1,"message":"x"}]}"#,
    ] {
        no_json(&format!("out {printed}\\n"));
    }
}

#[test]
fn what_some_client_could_not_parse_is_no_envelope() {
    no_json(r#"out {"schema":1,"ok":true,"failures":[],"x":"\\ud800"}\n"#);
    no_json(r#"out {"schema":1,"ok":true,"failures":[],"\\udc00":1}\n"#);
    no_json(r#"out {"schema":1,"ok":true,"failures":[],"x":1e999}\n"#);
    no_json(r#"out {"schema":1,"ok":true,"failures":[],"x":[-1e999]}\n"#);
    no_json(&format!("out {}\\n", nested(101)));
}

#[test]
fn a_hundred_levels_pass() {
    let printed = nested(100);
    let mut server = session(&format!("out {printed}\\n"));
    let id = server.start_call("fz_plan", json!({}));
    let response = server.recv_id(id);
    assert_eq!(response["result"]["content"][0]["text"], printed);
    assert_ne!(response["result"]["isError"], true);
}

#[test]
fn a_pretty_printed_object_keeps_its_lines_as_text_and_loses_them_as_an_object() {
    let printed = "{\\n  \"schema\": 1,\\r\\n  \"ok\": true,\\n\\t\"failures\": []\\n}\\n";
    let text = "{\n  \"schema\": 1,\r\n  \"ok\": true,\n\t\"failures\": []\n}";
    let mut server = passes(&format!("out {printed}"), text);
    assert_eq!(server.lines().len(), 2, "one line for the handshake and one for the call");
    goes_on(&mut server);
}

#[test]
fn white_space_around_the_object_is_kept_but_for_one_newline() {
    passes("out  {\"schema\":1,\"ok\":true,\"failures\":[]} \\n\\n", " {\"schema\":1,\"ok\":true,\"failures\":[]} \n");
    passes("out {\"schema\":1,\"ok\":true,\"failures\":[]}", r#"{"schema":1,"ok":true,"failures":[]}"#);
}

#[test]
fn digits_key_order_and_repeated_keys_are_kept_in_text_and_object() {
    let printed = r#"{"z":123456789012345678901234567890,"schema":1,"a":1.10,"ok":true,"b":1E2,"failures":[],"a":-0}"#;
    let mut server = session(&format!("out {printed}\\n"));
    let result = server.call("fz_plan", json!({}));
    assert_eq!(result["content"][0]["text"], printed);
    assert!(server.last_line().contains(&format!(r#""structuredContent":{printed}"#)), "{}", server.last_line());
}

#[test]
fn line_separators_are_escaped_in_the_reply_and_unchanged_when_decoded() {
    let printed = "{\"schema\":1,\"ok\":true,\"failures\":[],\"x\":\"a\u{2028}b\u{2029}c – d\"}";
    let server = passes(&format!("out {printed}\\n"), printed);
    let line = server.last_line();
    assert!(!line.contains(['\u{2028}', '\u{2029}']) && line.contains(" – "), "{line}");
}

#[test]
fn is_error_follows_ok_and_never_the_exit_status() {
    let mut server = session(&format!("{OK}\nexit 7"));
    assert_eq!(plan(&mut server).1["ok"], true);
    let mut server = session(r#"out {"schema":1,"ok":false,"failures":[{"code":"c","message":"m"}]}\n"#);
    assert_eq!(plan(&mut server).1["failures"][0]["code"], "c");
}

#[test]
fn stderr_beside_an_envelope_is_of_no_interest() {
    passes(&format!("err warning: something\\n\nflood err 1000000\n{OK}"), r#"{"schema":1,"ok":true,"failures":[]}"#);
}

#[test]
fn three_mebibytes_pass_and_one_byte_more_stops_the_child() {
    let limit = 3 * 1024 * 1024;
    let mut server = session(&format!("json {limit}"));
    assert_eq!(plan(&mut server).0.len(), limit);

    let mut server = session(&format!("json {}\nhang", limit + 1));
    says(&failure(&mut server, "mcp-fz-no-json"), &["3"]);
    goes_on(&mut server);
}

#[test]
fn an_excerpt_is_short_clean_and_begins_at_a_line() {
    let message =
        no_json("err first line\\n\nflood err 5000\nerr \\nsecond \\x1b[31mline\\x1b[0m\\x07\\nthird line\\n\nexit 1");
    says(&message, &["second line\nthird line"]);
    assert!(!message.contains("first line") && !message.contains("xxx"), "{message}");
    assert!(!message.contains(['\u{1b}', '\u{7}']), "{message:?}");
}

#[test]
fn a_missing_program_is_told_by_name_and_the_session_goes_on() {
    let mut server = Setup::stub("").child(["no-such-program-anywhere"]).start();
    server.handshake("2025-11-25");
    says(&failure(&mut server, "mcp-fz-unavailable"), &["no-such-program-anywhere"]);
    says(&failure(&mut server, "mcp-fz-unavailable"), &["no-such-program-anywhere"]);
    let codes = server.call("fz_error_codes", json!({}));
    assert_eq!(codes["structuredContent"]["ok"], true);
}

#[test]
fn a_missing_directory_is_told_by_name_and_the_program_is_not_blamed() {
    let setup = Setup::stub(OK);
    let missing = setup.venture().join("not-there-yet");
    let mut server = setup.without_flags().flag("--cwd").flag(&missing).start();
    server.handshake("2025-11-25");
    let message = failure(&mut server, "mcp-fz-unavailable");
    says(&message, &["not-there-yet"]);
    assert!(!message.contains("fz-stub"), "{message}");

    std::fs::create_dir(missing).expect("a temporary directory can be written");
    goes_on(&mut server);
}

#[test]
fn a_child_gets_an_empty_stdin_the_directory_and_the_environment_of_the_server() {
    let script = format!("stdin stdin\ncwd cwd\nenv env\n{OK}");
    let mut server = Setup::stub(&script).env("SOME_VARIABLE", "some value").env("FZ_MCP_TIMEOUT_SECS", "77").start();
    server.handshake("2025-11-25");
    plan(&mut server);
    assert_eq!(wait_for(&server.event("stdin")), b"");

    let cwd = String::from_utf8(wait_for(&server.event("cwd"))).expect("a path in UTF-8");
    assert_eq!(std::fs::canonicalize(cwd).ok(), std::fs::canonicalize(server.venture()).ok());

    let environment = String::from_utf8_lossy(&wait_for(&server.event("env"))).into_owned();
    let variables: Vec<_> = environment.split_terminator('\0').collect();
    for expected in ["SOME_VARIABLE=some value", "FZ_MCP_TIMEOUT_SECS=77"] {
        assert!(variables.contains(&expected), "{expected} is not in {variables:?}");
    }
    let of_this_test = std::env::vars_os().count();
    assert!(variables.len() >= of_this_test, "the child has fewer variables than the server was given");
}
