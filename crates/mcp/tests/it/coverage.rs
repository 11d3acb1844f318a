//! The tools are exactly the verbs that speak `--json`: asked from the real `fz`, in both directions.

use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{Setup, fz};

/// Verbs whose `--json` picks the format of a report beside `--md`, and is no promise of an envelope.
const REPORTS: [&str; 1] = ["import supabase inspect"];

/// The tool that runs no verb.
const CATALOGUE: &str = "fz_error_codes";

/// Options that are the server's to set, or no verb's own.
const NOT_ARGUMENTS: [&str; 4] = ["json", "non_interactive", "sidecars", "help"];

fn run(words: &[&str]) -> Output {
    let mut command = Command::new(fz());
    command.args(words).stdin(Stdio::null());
    for variable in ["SUPABASE_DB_URL", "SUPABASE_ACCESS_TOKEN", "TYPESAFE_API_KEY"] {
        command.env_remove(variable);
    }
    command.output().expect("fz can be started")
}

/// What `--help` says of one verb.
struct Help {
    verb: String,
    json: bool,
    /// Long options and positionals, as arguments of a tool are spelt.
    arguments: BTreeSet<String>,
}

/// The lines of one section of a help text.
fn section<'t>(text: &'t str, title: &str) -> impl Iterator<Item = &'t str> {
    let lines = text.lines().skip_while(move |line| *line != title).skip(1);
    lines.take_while(|line| line.is_empty() || line.starts_with(' ')).filter(|line| !line.is_empty())
}

/// Asks a verb and those below it.
fn ask(verb: &[&str], found: &mut Vec<Help>) {
    let output = run(&[verb, &["--help"]].concat());
    assert!(output.status.success(), "fz {} --help", verb.join(" "));
    let text = String::from_utf8(output.stdout).expect("help is text");

    let options = section(&text, "Options:").filter_map(|line| {
        let line = line.trim_start();
        let (_, name) = line.split_once("--").filter(|(before, _)| before.is_empty() || before.ends_with(", "))?;
        Some(name.split(' ').next().unwrap_or_default())
    });
    let options: Vec<_> = options.collect();
    // `push inspect-subscription` has a positional of that name.
    let json = options.contains(&"json");
    let positionals = section(&text, "Arguments:").filter_map(|line| {
        let line = line.trim_start().trim_start_matches('[').trim_start_matches('<');
        line.split_once(['>', ']']).map(|(name, _)| name)
    });
    let arguments: BTreeSet<_> =
        options.into_iter().chain(positionals).map(|name| name.to_lowercase().replace('-', "_")).collect();
    found.push(Help { verb: verb.join(" "), json, arguments });

    for line in section(&text, "Commands:").filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        match line.split_whitespace().next() {
            Some("help") | None => {}
            Some(below) => ask(&[verb, &[below]].concat(), found),
        }
    }
}

fn verbs() -> Vec<Help> {
    let mut found = Vec::new();
    ask(&[], &mut found);
    assert!(found.len() > 20, "the help of fz could not be read: {} verbs", found.len());
    found
}

fn tools() -> Vec<Value> {
    let mut server = Setup::stub("").start();
    let response = server.modern("tools/list", json!({}));
    let mut result = server.result_of(response);
    serde_json::from_value(result["tools"].take()).expect("a list of tools")
}

fn verb_of(tool: &Value) -> String {
    let name = tool["name"].as_str().expect("a tool has a name");
    name.strip_prefix("fz_").expect("every tool begins with fz_").replace('_', "-")
}

#[test]
fn every_verb_that_speaks_json_is_a_tool_and_every_tool_is_such_a_verb() {
    let speak: BTreeSet<_> = verbs().into_iter().filter(|help| help.json).map(|help| help.verb).collect();
    let tools = tools().into_iter().filter(|tool| tool["name"] != CATALOGUE);
    let covered: BTreeSet<_> = tools.map(|tool| verb_of(&tool)).chain(REPORTS.map(Into::into)).collect();
    let missing: Vec<_> = speak.difference(&covered).collect();
    let idle: Vec<_> = covered.difference(&speak).collect();
    assert!(missing.is_empty(), "fz speaks --json here, and no tool does: {missing:?}");
    assert!(idle.is_empty(), "fz does not speak --json here: {idle:?}");
}

#[test]
fn a_tool_takes_what_its_verb_takes() {
    let verbs = verbs();
    for tool in tools().iter().filter(|tool| tool["name"] != CATALOGUE) {
        let verb = verb_of(tool);
        let help = verbs.iter().find(|help| help.verb == verb).unwrap_or_else(|| panic!("fz has no {verb}"));
        let takes: BTreeSet<_> =
            help.arguments.iter().map(String::as_str).filter(|name| !NOT_ARGUMENTS.contains(name)).collect();
        let properties = tool["inputSchema"]["properties"].as_object().expect("properties");
        let offers: BTreeSet<_> = properties.keys().map(String::as_str).collect();
        assert_eq!(offers, takes, "{verb}");
    }
}

#[test]
fn what_is_left_out_prints_no_envelope() {
    for verb in REPORTS {
        let words: Vec<_> = verb.split(' ').chain(["--json", "--project", "x"]).collect();
        let output = run(&words);
        assert!(!output.status.success(), "{verb} needs a database that is not there");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(serde_json::from_str::<Value>(&printed).is_err(), "{verb} speaks envelopes now: {printed}");
    }
}
