//! Arguments that are refused: as results, naming the argument, before anything is started.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{OK, Server, Setup};

const MAX_VALUE: usize = 32 * 1024;
const MAX_ARGUMENTS: usize = 256 * 1024;

/// A session whose child leaves a mark whenever it is started.
#[track_caller]
fn session(prepare: impl FnOnce(Setup) -> Setup) -> Server {
    let mut server = prepare(Setup::stub(&format!("append starts one\n{OK}"))).start();
    server.handshake("2025-11-25");
    server
}

#[track_caller]
fn plain() -> Server {
    session(|setup| setup)
}

fn starts(server: &Server) -> usize {
    fs::read_to_string(server.event("starts")).map_or(0, |text| text.lines().count())
}

/// The message of the refusal, which stands in an envelope like any other.
#[track_caller]
fn refusal(server: &Server, result: &Value) -> String {
    assert_eq!(result["isError"], true, "{result}");
    let envelope = &result["structuredContent"];
    assert_eq!((&envelope["schema"], &envelope["ok"]), (&json!(1), &json!(false)), "{result}");
    let failures = envelope["failures"].as_array().expect("failures");
    assert!(
        !failures.is_empty() && failures.iter().all(|failure| failure["code"] == "mcp-argument-invalid"),
        "{result}"
    );
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert_eq!(serde_json::from_str::<Value>(text).ok().as_ref(), Some(envelope));
    assert_eq!(starts(server), 0, "a refused call started a child");
    let messages = failures.iter().map(|failure| failure["message"].as_str().expect("a message"));
    messages.collect::<Vec<_>>().join("\n")
}

/// Refused, and the message names the argument.
#[track_caller]
fn refused(server: &mut Server, tool: &str, arguments: Value, named: &str) {
    let result = server.call(tool, arguments);
    let message = refusal(server, &result);
    assert!(message.contains(named), "{named} is missing in: {message}");
}

/// Passed on: the mark shows that these tests would notice a start.
#[track_caller]
fn accepted(server: &mut Server, tool: &str, arguments: Value) {
    let before = starts(server);
    let result = server.call(tool, arguments);
    assert_ne!(result["isError"], true, "{result}");
    assert_eq!(starts(server), before + 1);
}

/// A call whose arguments are these bytes exactly.
#[track_caller]
fn call_raw(server: &mut Server, tool: &str, arguments: &str) -> Value {
    let id = server.next_id();
    server.send(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    ));
    let response = server.recv_id(id);
    server.result_of(response)
}

#[test]
fn an_unknown_argument_is_refused_not_ignored() {
    let mut server = plain();
    refused(&mut server, "fz_plan", json!({"maniffest": "venture.json"}), "maniffest");
    refused(&mut server, "fz_plan", json!({"manifest": "venture.json", "plan": "x"}), "plan");
    refused(&mut server, "fz_doctor", json!({"": "x"}), "argument");
    refused(&mut server, "fz_error_codes", json!({"code": "x"}), "code");
    refused(&mut server, "fz_plan", json!({"json": null}), "json");
    accepted(&mut server, "fz_plan", json!({"manifest": "venture.json"}));
}

#[test]
fn a_value_of_another_type_is_refused_not_coerced() {
    let mut server = plain();
    for value in [json!(1), json!(1.5), json!(true), json!(["x"]), json!({"x": 1})] {
        refused(&mut server, "fz_add", json!({"module": value}), "module");
        refused(&mut server, "fz_plan", json!({"manifest": value}), "manifest");
    }
    for value in [json!("true"), json!("false"), json!(""), json!(1), json!(0), json!([]), json!({})] {
        let arguments = json!({"name": "n", "host": "h", "force": value});
        refused(&mut server, "fz_init", arguments, "force");
    }
    accepted(&mut server, "fz_init", json!({"name": "n", "host": "h", "force": true}));
}

#[test]
fn a_required_argument_that_is_missing_null_or_empty_is_refused() {
    let mut server = plain();
    refused(&mut server, "fz_add", json!({}), "module");
    refused(&mut server, "fz_add", json!({"module": null}), "module");
    refused(&mut server, "fz_add", json!({"module": ""}), "module");
    refused(&mut server, "fz_init", json!({"name": "n"}), "host");
    refused(&mut server, "fz_init", json!({"host": "h"}), "name");
    let result = call_raw(&mut server, "fz_add", "null");
    assert!(refusal(&server, &result).contains("module"), "{result}");
    accepted(&mut server, "fz_add", json!({"module": "m"}));
}

#[test]
fn an_optional_argument_that_is_null_counts_as_absent() {
    let mut server = plain();
    accepted(&mut server, "fz_plan", json!({"manifest": null, "migrations": null}));
    accepted(&mut server, "fz_deploy", json!({"plan": null, "i_am_removing_modules": null}));
    let before = starts(&server);
    let result = call_raw(&mut server, "fz_plan", "null");
    assert_ne!(result["isError"], true, "{result}");
    assert_eq!(starts(&server), before + 1);
}

#[test]
fn an_empty_path_is_refused() {
    let mut server = plain();
    refused(&mut server, "fz_plan", json!({"manifest": ""}), "manifest");
    refused(&mut server, "fz_plan", json!({"migrations": ""}), "migrations");
    refused(&mut server, "fz_doctor", json!({"out": ""}), "out");
}

#[test]
fn a_value_that_begins_with_a_dash_is_refused() {
    let mut server = plain();
    for value in ["-h", "--help", "-", "--"] {
        refused(&mut server, "fz_add", json!({"module": value}), "module");
        refused(&mut server, "fz_init", json!({"name": value, "host": "h"}), "name");
        refused(&mut server, "fz_plan", json!({"manifest": value}), "manifest");
        refused(&mut server, "fz_deploy", json!({"plan": value}), "plan");
        refused(&mut server, "fz_doctor", json!({"allow_no_captcha": value}), "allow_no_captcha");
    }
    accepted(&mut server, "fz_add", json!({"module": "a-b--c"}));
}

#[test]
fn a_value_with_a_control_character_is_refused() {
    let mut server = plain();
    for control in ["\0", "\u{1}", "\u{7}", "\t", "\n", "\r", "\u{1b}[31m", "\u{7f}", "\u{85}", "\u{9b}"] {
        refused(&mut server, "fz_add", json!({"module": format!("a{control}b")}), "module");
        refused(&mut server, "fz_plan", json!({"manifest": format!("a{control}b")}), "manifest");
    }
    accepted(&mut server, "fz_add", json!({"module": "a b\u{a0}c"}));
}

#[test]
fn half_a_surrogate_pair_is_refused_under_the_callers_id() {
    let mut server = plain();
    for half in [r#"{"module":"\ud800"}"#, r#"{"module":"a\udc00b"}"#, r#"{"module":"\ud83d\ud83d"}"#] {
        let result = call_raw(&mut server, "fz_add", half);
        assert!(refusal(&server, &result).contains("module"), "{result}");
    }
    let result = call_raw(&mut server, "fz_add", r#"{"\ud800":"x","module":"m"}"#);
    refusal(&server, &result);
    let result = call_raw(&mut server, "fz_add", r#"{"module":"\ud83e\udde9"}"#);
    assert_ne!(result["isError"], true, "{result}");
}

#[test]
fn a_value_over_thirty_two_kibibytes_is_refused() {
    let mut server = plain();
    let (longest, too_long) = ("x".repeat(MAX_VALUE), "x".repeat(MAX_VALUE + 1));
    refused(&mut server, "fz_doctor", json!({"allow_no_captcha": too_long}), "allow_no_captcha");
    refused(&mut server, "fz_add", json!({"module": too_long}), "module");
    refused(&mut server, "fz_add", json!({"module": "é".repeat(MAX_VALUE / 2 + 1)}), "module");
    accepted(&mut server, "fz_doctor", json!({"allow_no_captcha": longest}));
}

#[test]
fn arguments_over_two_hundred_and_fifty_six_kibibytes_are_refused() {
    let mut server = plain();
    let padded = |size: usize| {
        let (head, tail) = (r#"{"module":"m""#, "}");
        format!("{head}{}{tail}", " ".repeat(size - head.len() - tail.len()))
    };
    let result = call_raw(&mut server, "fz_add", &padded(MAX_ARGUMENTS + 1));
    assert!(refusal(&server, &result).contains("arguments"), "{result}");
    let result = call_raw(&mut server, "fz_add", &padded(MAX_ARGUMENTS));
    assert_ne!(result["isError"], true, "{result}");
}

#[test]
fn a_refusal_quotes_no_control_characters_and_no_endless_names() {
    let mut server = plain();
    let name = format!("\u{1b}[31m\u{7}{}", "n".repeat(30_000));
    let result = server.call("fz_plan", json!({name: "x"}));
    let message = refusal(&server, &result);
    assert!(!message.contains(['\u{1b}', '\u{7}']) && message.len() < 4_000, "{message:?}");
}

#[test]
fn every_path_argument_must_stay_inside_the_venture() {
    let mut server = plain();
    let outside = tempfile::tempdir().expect("a temporary directory");
    let absolute = outside.path().join("venture.json");
    for path in
        ["..", "../venture.json", "sub/../../venture.json", "not/there/../../../x", absolute.to_str().expect("UTF-8")]
    {
        refused(&mut server, "fz_plan", json!({"manifest": path}), "manifest");
        refused(&mut server, "fz_verify", json!({"migrations": path}), "migrations");
        refused(&mut server, "fz_init", json!({"name": "n", "host": "h", "manifest": path}), "manifest");
        refused(&mut server, "fz_add", json!({"module": "m", "manifest": path}), "manifest");
        refused(&mut server, "fz_deploy", json!({"migrations": path}), "migrations");
        refused(&mut server, "fz_doctor", json!({"out": path}), "out");
    }
}

#[test]
fn a_path_inside_the_venture_passes_whether_it_exists_or_not() {
    let mut server = plain();
    fs::create_dir_all(server.venture().join("deep/er")).expect("a temporary directory can be written");
    let absolute = server.venture().join("deep/new.json");
    for path in [
        ".",
        "venture.json",
        "deep/er",
        "deep/../new",
        "not/there/yet",
        "..name",
        "a..b",
        absolute.to_str().expect("UTF-8"),
    ] {
        accepted(&mut server, "fz_plan", json!({"manifest": path}));
    }
}

#[test]
fn what_names_no_path_may_look_like_one() {
    let mut server = plain();
    accepted(&mut server, "fz_add", json!({"module": "../../x"}));
    accepted(&mut server, "fz_deploy", json!({"plan": "/etc/passwd"}));
}

#[cfg(unix)]
fn link(target: &Path, link: &Path) {
    std::os::unix::fs::symlink(target, link).expect("a temporary directory can be written");
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_that_leads_outside_is_refused_even_where_nothing_is_yet() {
    let mut server = plain();
    let outside = tempfile::tempdir().expect("a temporary directory");
    fs::write(outside.path().join("there.json"), "{}").expect("a temporary directory can be written");
    link(outside.path(), &server.venture().join("dir"));
    link(&outside.path().join("there.json"), &server.venture().join("file.json"));
    link(&outside.path().join("not-there.json"), &server.venture().join("dangling.json"));
    link(Path::new("dangling.json"), &server.venture().join("chain.json"));
    link(Path::new("loop.json"), &server.venture().join("loop.json"));
    for path in [
        "dir",
        "dir/there.json",
        "dir/new.json",
        "dir/../venture.json",
        "file.json",
        "dangling.json",
        "chain.json",
        "loop.json",
    ] {
        refused(&mut server, "fz_init", json!({"name": "n", "host": "h", "manifest": path}), "manifest");
    }
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_that_stays_inside_passes() {
    let mut server = plain();
    fs::create_dir(server.venture().join("real")).expect("a temporary directory can be written");
    link(Path::new("real"), &server.venture().join("alias"));
    accepted(&mut server, "fz_plan", json!({"manifest": "alias/venture.json"}));
    accepted(&mut server, "fz_plan", json!({"manifest": "alias/../venture.json"}));
}

#[cfg(unix)]
#[test]
fn a_venture_that_is_reached_through_a_link_is_judged_by_where_it_is() {
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let alias = elsewhere.path().join("alias");
    let mut server = session(|setup| {
        link(setup.venture(), &alias);
        setup.without_flags().flag("--cwd").flag(&alias)
    });
    refused(&mut server, "fz_plan", json!({"manifest": "../venture.json"}), "manifest");
    accepted(&mut server, "fz_plan", json!({"manifest": "venture.json"}));
    let through_the_link = alias.join("venture.json");
    accepted(&mut server, "fz_plan", json!({"manifest": through_the_link}));
}

#[test]
fn the_flag_and_the_variable_let_paths_leave_the_venture() {
    let mut by_flag = session(|setup| setup.flag("--allow-outside-paths"));
    accepted(&mut by_flag, "fz_plan", json!({"manifest": "../venture.json"}));
    let mut by_variable = session(|setup| setup.env("FZ_MCP_ALLOW_OUTSIDE_PATHS", "1"));
    accepted(&mut by_variable, "fz_plan", json!({"manifest": "../venture.json"}));
    let mut open = session(|setup| setup.flag("--allow-outside-paths"));
    refused(&mut open, "fz_plan", json!({"manifest": "-x"}), "manifest");
}
