//! Nothing stands between a client and fz: what a tool hands back is what the same words print by hand.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Server, Setup, fz, sample_venture};

/// Two copies of the sample venture that go through the same steps, one by hand and one through the server.
struct Twins {
    by_hand: TempDir,
    server: Server,
}

impl Twins {
    #[track_caller]
    fn new() -> Self {
        let mut server = Setup::fz().start();
        server.handshake("2025-11-25");
        Self { by_hand: sample_venture(), server }
    }

    /// One step on both sides, which must give the same bytes: the envelope.
    #[track_caller]
    fn step(&mut self, tool: &str, arguments: Value, words: &[&str]) -> Value {
        let printed = Command::new(fz())
            .args(words)
            .current_dir(self.by_hand.path())
            .stdin(Stdio::null())
            .output()
            .expect("fz can be started");
        let printed = String::from_utf8(printed.stdout).expect("fz prints UTF-8");
        let printed = printed.strip_suffix('\n').expect("fz ends its line");

        let result = self.server.call(tool, arguments);
        assert_eq!(result["content"], json!([{"type": "text", "text": printed}]));
        let raw = format!(r#""structuredContent":{printed}"#);
        assert!(self.server.last_line().contains(&raw), "{raw} is not in {}", self.server.last_line());

        let envelope: Value = serde_json::from_str(printed).expect("fz prints JSON");
        assert_eq!(result["structuredContent"], envelope);
        assert_eq!(result["isError"] == true, envelope["ok"] == false);
        envelope
    }

    #[track_caller]
    fn succeeds(&mut self, tool: &str, arguments: Value, words: &[&str]) -> Value {
        let envelope = self.step(tool, arguments, words);
        assert_eq!(envelope["ok"], true, "{envelope}");
        envelope
    }

    #[track_caller]
    fn fails(&mut self, code: &str, tool: &str, arguments: Value, words: &[&str]) {
        let envelope = self.step(tool, arguments, words);
        assert_eq!(envelope["failures"][0]["code"], code, "{envelope}");
    }

    /// Records a deployment on both sides.
    #[track_caller]
    fn deploy(&mut self) {
        let plan = self.succeeds("fz_plan", json!({}), &["plan", "--json", "--non-interactive"]);
        let digest = plan["digest"].as_str().expect("a plan has a digest");
        let words = ["deploy", "--json", "--non-interactive", &format!("--plan={digest}")];
        self.succeeds("fz_deploy", json!({"plan": digest}), &words);
    }
}

#[test]
fn doctor_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    twins.succeeds("fz_doctor", json!({}), &["doctor", "--json"]);
    let words = ["doctor", "--json", "--out=nowhere"];
    twins.fails("migration-not-collected", "fz_doctor", json!({"out": "nowhere"}), &words);
}

#[test]
fn plan_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    twins.succeeds("fz_plan", json!({}), &["plan", "--json", "--non-interactive"]);
    let words = ["plan", "--json", "--non-interactive", "--manifest=absent.json"];
    twins.fails("manifest-unreadable", "fz_plan", json!({"manifest": "absent.json"}), &words);
}

#[test]
fn verify_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    let words = ["verify", "--json", "--non-interactive"];
    twins.fails("not-deployed", "fz_verify", json!({}), &words);
    twins.deploy();
    twins.succeeds("fz_verify", json!({}), &words);
}

#[test]
fn init_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    let arguments = json!({"name": "second", "host": "second.example.com", "manifest": "second.json"});
    let mut words = vec![
        "init",
        "--json",
        "--non-interactive",
        "--name=second",
        "--host=second.example.com",
        "--manifest=second.json",
    ];
    twins.succeeds("fz_init", arguments.clone(), &words);
    twins.fails("manifest-exists", "fz_init", arguments.clone(), &words);

    let mut arguments = arguments;
    arguments["force"] = true.into();
    words.push("--force");
    twins.succeeds("fz_init", arguments, &words);
}

#[test]
fn add_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    let words = ["add", "--json", "--non-interactive", "--", "cms"];
    let first = twins.succeeds("fz_add", json!({"module": "cms"}), &words);
    assert_eq!(first["changed"], true);
    let second = twins.succeeds("fz_add", json!({"module": "cms"}), &words);
    assert_eq!(second["changed"], false);
    let words = ["add", "--json", "--non-interactive", "--", "no-such-module"];
    twins.fails("module-unknown", "fz_add", json!({"module": "no-such-module"}), &words);
}

#[test]
fn deploy_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    let words = ["deploy", "--json", "--non-interactive"];
    twins.fails("deploy-plan-required", "fz_deploy", json!({}), &words);
    let words = ["deploy", "--json", "--non-interactive", "--plan=0000"];
    twins.fails("stale-plan", "fz_deploy", json!({"plan": "0000"}), &words);
    twins.deploy();
    twins.deploy();
}

#[test]
fn client_ts_is_byte_for_byte_what_fz_prints() {
    let mut twins = Twins::new();
    let arguments = json!({"surface": "surface.json", "out": "client"});
    let words = ["client-ts", "--json", "--surface=surface.json", "--out=client"];
    twins.fails("surface-unreadable", "fz_client_ts", arguments.clone(), &words);

    let surface = json!({
        "surface_api": 1,
        "harness_api": 1,
        "venture": {"name": "venture", "public_url": "https://api.example.com"},
        "modules": [{"name": "tables", "version": "1", "actions": [], "views": []}],
    });
    for dir in [twins.by_hand.path(), twins.server.venture()] {
        std::fs::write(dir.join("surface.json"), surface.to_string()).expect("a copy can be written");
    }
    twins.succeeds("fz_client_ts", arguments, &words);
    let package = |dir: &std::path::Path| std::fs::read(dir.join("client/package.json")).expect("a package");
    assert_eq!(package(twins.server.venture()), package(twins.by_hand.path()));
}

#[test]
fn four_messages_typed_at_a_prompt_give_three_lines_and_a_clean_exit() {
    let input = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"printf","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"fz_plan","arguments":{}}}"#,
        "\n",
    );
    let (messages, status) = Setup::fz().run(input);
    let ids: Vec<_> = messages.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [1, 2, 3]);
    assert_eq!(messages[2]["result"]["structuredContent"]["ok"], true);
    assert_eq!(status.code(), Some(0));
}
