//! Many writers at once on the real `fz`, which by itself loses updates and fails falsely.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Server, Setup, fz};

const MODULES: [&str; 10] = [
    "email-signup",
    "waitlist",
    "cms",
    "changelog",
    "notifications",
    "privacy",
    "telemetry",
    "device-auth",
    "orgs",
    "crm",
];

/// So many servers on one copy of the sample venture.
#[track_caller]
fn servers(count: usize) -> Vec<Server> {
    let first = Setup::fz();
    let others: Vec<Setup> = (1..count)
        .map(|_| Setup::over(tempfile::tempdir().expect("a temporary directory"), [fz()]).without_flags())
        .map(|setup| setup.flag("--cwd").flag(first.venture()))
        .collect();
    let mut servers: Vec<Server> = std::iter::once(first).chain(others).map(Setup::start).collect();
    for server in &mut servers {
        server.handshake("2025-11-25");
    }
    servers
}

/// Sends every call at once, in turn over the servers, and returns the envelopes, all of which say ok.
#[track_caller]
fn at_once(servers: &mut [Server], calls: &[(&str, Value)]) -> Vec<Value> {
    let count = servers.len();
    let ids: Vec<u64> = calls
        .iter()
        .enumerate()
        .map(|(index, (tool, arguments))| servers[index % count].start_call(tool, arguments.clone()))
        .collect();
    ids.into_iter()
        .enumerate()
        .map(|(index, id)| {
            let mut response = servers[index % count].recv_id(id);
            let envelope = response["result"]["structuredContent"].take();
            assert_eq!(envelope["ok"], true, "{:?} failed falsely: {envelope}", calls[index]);
            envelope
        })
        .collect()
}

#[track_caller]
fn modules(manifest: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(manifest).expect("the manifest can be read");
    let manifest: Value = serde_json::from_str(&text).expect("the manifest is JSON");
    let mut modules: Vec<String> = manifest["modules"]
        .as_array()
        .expect("modules")
        .iter()
        .map(|module| module.as_str().or(module["name"].as_str()).expect("a module's name").to_owned())
        .collect();
    modules.sort_unstable();
    modules
}

/// Each round starts a manifest and adds every module to it twice, with readers in between.
fn add(count: usize, rounds: usize) {
    let mut servers = servers(count);
    for round in 0..rounds {
        let manifest = format!("round-{round}.json");
        let init = json!({"name": "venture", "host": "api.example.com", "manifest": manifest});
        at_once(&mut servers, &[("fz_init", init)]);
        let mut calls = Vec::new();
        for _ in 0..2 {
            calls.extend(MODULES.map(|module| ("fz_add", json!({"module": module, "manifest": manifest}))));
            calls.push(("fz_plan", json!({"manifest": manifest})));
        }
        let envelopes = at_once(&mut servers, &calls);
        let mut changed = BTreeMap::new();
        for ((tool, arguments), envelope) in calls.iter().zip(&envelopes) {
            if *tool == "fz_add" {
                *changed.entry(arguments["module"].to_string()).or_insert(0) += u32::from(envelope["changed"] == true);
            }
        }
        assert!(changed.values().all(|&times| times == 1), "{changed:?}");
        let mut expected = MODULES.map(str::to_owned);
        expected.sort_unstable();
        assert_eq!(modules(&servers[0].venture().join(manifest)), expected, "an update was lost");
    }
    told(&format!("{} concurrent fz_add over {count} server(s): none lost, none failed", rounds * 2 * MODULES.len()));
}

/// Each round records one plan many times at once: it changes something exactly once.
fn deploy(count: usize, rounds: usize) {
    const AT_ONCE: usize = 12;
    let mut servers = servers(count);
    let known = modules(&servers[0].venture().join("venture.json"));
    let new: Vec<&str> = MODULES.into_iter().filter(|module| !known.iter().any(|known| known == module)).collect();
    for (round, module) in new.into_iter().take(rounds).enumerate() {
        if round > 0 {
            let added = at_once(&mut servers, &[("fz_add", json!({"module": module}))]);
            assert_eq!(added[0]["changed"], true);
        }
        let plan = at_once(&mut servers, &[("fz_plan", json!({}))]).remove(0);
        let mut calls = vec![("fz_deploy", json!({"plan": plan["digest"]})); AT_ONCE];
        calls.push(("fz_verify", json!({})));
        let changed = at_once(&mut servers, &calls).iter().filter(|envelope| envelope["changed"] == true).count();
        assert_eq!(changed, 1, "round {round}");
    }
    told(&format!("{} concurrent fz_deploy over {count} server(s): none failed", rounds * AT_ONCE));
}

fn told(what: &str) {
    // Past the capture of the test harness.
    writeln!(std::io::stdout(), "{what}").expect("stdout can be written");
}

#[test]
fn concurrent_adds_lose_no_update_and_fail_never() {
    add(1, 8);
}

#[test]
fn concurrent_adds_of_two_servers_lose_no_update_and_fail_never() {
    add(2, 4);
}

#[test]
fn concurrent_deploys_record_a_plan_once_and_fail_never() {
    deploy(1, 6);
}

#[test]
fn concurrent_deploys_of_two_servers_record_a_plan_once_and_fail_never() {
    deploy(2, 3);
}
