//! What a call makes of its arguments: the exact words that the child is started with.

use std::fs;

use serde_json::{Map, Value, json};

use crate::support::{OK, Server, Setup};

#[track_caller]
fn server() -> Server {
    let mut server = Setup::stub(&format!("argv argv\n{OK}")).start();
    server.handshake("2025-11-25");
    server
}

/// The words that the child got for one call.
#[track_caller]
fn words(server: &mut Server, tool: &str, arguments: Value) -> Vec<String> {
    let result = server.call(tool, arguments);
    assert_ne!(result["isError"], true, "{result}");
    let words = server.argv("argv");
    fs::remove_file(server.event("argv")).expect("the record can be removed");
    words
}

/// Every tool that starts a child, with its parameters as listed.
#[track_caller]
fn listed(server: &mut Server) -> Vec<(String, Map<String, Value>)> {
    let list = server.request("tools/list", json!({}));
    let tools = list["result"]["tools"].as_array().expect("a list of tools");
    let rows = tools.iter().map(|tool| {
        let properties = tool["inputSchema"]["properties"].as_object().expect("properties");
        (tool["name"].as_str().expect("a name").to_owned(), properties.clone())
    });
    let rows: Vec<_> = rows.filter(|(name, _)| name != "fz_error_codes").collect();
    assert!(rows.len() >= 7, "fewer tools than verbs: {rows:?}");
    rows
}

/// A value that no other parameter has.
fn filled(name: &str, schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("boolean") => true.into(),
        _ => format!("value-of-{name}").into(),
    }
}

#[test]
fn every_parameter_of_every_tool_reaches_the_child_exactly_once() {
    let mut server = server();
    for (tool, properties) in listed(&mut server) {
        let arguments: Map<_, _> =
            properties.iter().map(|(name, schema)| (name.clone(), filled(name, schema))).collect();
        let words = words(&mut server, &tool, arguments.clone().into());

        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let (options, positionals) = (&words[1..end], words.get(end + 1..).unwrap_or_default());
        assert!(options.iter().all(|word| word.starts_with("--")), "{words:?}");
        let mut flags: Vec<_> = options.iter().filter_map(|word| word.split('=').next()).collect();
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags.len(), options.len(), "an option is given twice: {words:?}");

        for (name, value) in &arguments {
            let flag = format!("--{}", name.replace('_', "-"));
            let carriers: Vec<_> = match value.as_str() {
                Some(value) => words.iter().filter(|word| word.contains(value)).collect(),
                None => words.iter().filter(|word| **word == flag).collect(),
            };
            assert_eq!(carriers.len(), 1, "{name} in {words:?}");
            if let Some(value) = value.as_str() {
                let as_option = *carriers[0] == format!("{flag}={value}");
                assert!(as_option || positionals == [value], "{name} in {words:?}");
            }
        }
    }
}

#[test]
fn a_parameter_that_is_left_out_null_or_false_adds_no_word() {
    let mut server = server();
    for (tool, properties) in listed(&mut server) {
        let list = server.request("tools/list", json!({}));
        let tools = list["result"]["tools"].as_array().expect("a list of tools");
        let schema = &tools.iter().find(|row| row["name"] == *tool).expect("the tool")["inputSchema"];
        let required = schema["required"].as_array().cloned().unwrap_or_default();

        let (needed, free): (Vec<_>, Vec<_>) = properties.iter().partition(|(name, _)| required.contains(&json!(name)));
        let needed: Map<_, _> = needed.into_iter().map(|(name, schema)| (name.clone(), filled(name, schema))).collect();
        let bare = words(&mut server, &tool, needed.clone().into());

        let mut with_nothing = needed.clone();
        let mut switched_off = needed;
        for (name, schema) in free {
            with_nothing.insert(name.clone(), Value::Null);
            if schema["type"] == "boolean" {
                switched_off.insert(name.clone(), false.into());
            }
        }
        assert_eq!(words(&mut server, &tool, with_nothing.into()), bare);
        assert_eq!(words(&mut server, &tool, switched_off.into()), bare);
    }
}

#[test]
fn words_come_as_verb_then_options_in_the_order_of_the_row_then_positionals() {
    let mut server = server();
    for (tool, arguments, expected) in [
        (
            "fz_doctor",
            json!({"allow_no_captcha": "a", "out": "o"}),
            vec!["doctor", "--json", "--out=o", "--allow-no-captcha=a"],
        ),
        (
            "fz_plan",
            json!({"migrations": "g", "manifest": "m"}),
            vec!["plan", "--json", "--non-interactive", "--manifest=m", "--migrations=g"],
        ),
        (
            "fz_verify",
            json!({"migrations": "g", "manifest": "m"}),
            vec!["verify", "--json", "--non-interactive", "--manifest=m", "--migrations=g"],
        ),
        (
            "fz_init",
            json!({"force": true, "manifest": "m", "host": "h", "name": "n"}),
            vec!["init", "--json", "--non-interactive", "--name=n", "--host=h", "--manifest=m", "--force"],
        ),
        (
            "fz_add",
            json!({"module": "x", "manifest": "m"}),
            vec!["add", "--json", "--non-interactive", "--manifest=m", "--", "x"],
        ),
        (
            "fz_deploy",
            json!({
                "i_am_removing_modules": true, "i_am_deploying_to_production": true,
                "migrations": "g", "manifest": "m", "plan": "p",
            }),
            vec![
                "deploy",
                "--json",
                "--non-interactive",
                "--plan=p",
                "--manifest=m",
                "--migrations=g",
                "--i-am-deploying-to-production",
                "--i-am-removing-modules",
            ],
        ),
        (
            "fz_client_ts",
            json!({"out": "o", "surface": "s.json"}),
            vec!["client-ts", "--json", "--surface=s.json", "--out=o"],
        ),
    ] {
        assert_eq!(words(&mut server, tool, arguments), expected);
    }
}

#[test]
fn a_value_is_one_word_whatever_a_shell_would_make_of_it() {
    let mut server = server();
    for value in
        ["two words", "$(touch x); `y` | z > w && v", "it's \"quoted\"", "*", "a=b", "naïve – 模块 🧩", "\\n", "~"]
    {
        let init = words(&mut server, "fz_init", json!({"name": value, "host": "h"}));
        assert_eq!(init, ["init", "--json", "--non-interactive", &format!("--name={value}"), "--host=h"]);
        let add = words(&mut server, "fz_add", json!({"module": value}));
        assert_eq!(add, ["add", "--json", "--non-interactive", "--", value]);
    }
}

#[test]
fn a_path_reaches_the_child_as_the_caller_spelled_it() {
    let mut server = server();
    fs::create_dir(server.venture().join("sub")).expect("a temporary directory can be written");
    for path in ["./sub/../venture.json", "sub//venture.json", "sub/./new/venture.json"] {
        let words = words(&mut server, "fz_plan", json!({"manifest": path}));
        assert_eq!(words.last().expect("a word"), &format!("--manifest={path}"));
    }
}
