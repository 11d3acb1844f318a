//! What an ingenious client, operator or environment found: each once, by what it tried.
#![cfg(unix)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wait_timeout::ChildExt;

use crate::support::{DEADLINE, OK, Setup, fz_mcp};

#[track_caller]
fn code(result: &Value) -> &str {
    result["structuredContent"]["failures"][0]["code"].as_str().unwrap_or("ok")
}

#[test]
fn a_parent_that_ignores_sigchld_changes_nothing() {
    let setup = Setup::stub(OK);
    let served = setup.command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' CHLD; exec \"$@\"", "sh"]).arg(served.get_program()).args(served.get_args());
    shell.envs(served.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let hello =
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#.to_owned();
    let call =
        |id| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "fz_plan"}}).to_string();
    let input = [hello].into_iter().chain((1..=20).map(call)).collect::<Vec<_>>().join("\n");
    let file = setup.event("input");
    fs::write(&file, input).expect("a file");
    let output = shell.stdin(File::open(&file).expect("the file")).output().expect("a shell");
    assert!(output.status.success(), "{}", output.status);
    let replies = String::from_utf8(output.stdout).expect("text");
    assert_eq!(replies.matches(r#""isError":false"#).count(), 20, "{replies}");
}

#[test]
fn a_call_that_is_cancelled_while_another_server_holds_the_venture_never_starts() {
    let mut server = Setup::stub(&format!("append runs ran\n{OK}")).start();
    server.handshake("2025-11-25");
    for _ in 0..5 {
        let other = File::open(server.venture()).expect("the venture");
        other.lock().expect("the lock");
        let id = server.start_call("fz_deploy", json!({}));
        server.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
        server.request("ping", json!({}));
        drop(other);
        // A writer behind it: when that is answered, the cancelled one had its chance.
        assert_eq!(code(&server.call("fz_add", json!({"module": "m"}))), "ok");
    }
    let runs = fs::read_to_string(server.event("runs")).expect("the runs");
    assert_eq!(runs.lines().count(), 5, "{runs}");
}

#[test]
fn a_path_is_judged_when_the_call_starts_and_not_before_it_waits() {
    let outside = tempfile::tempdir().expect("a directory");
    let mut server = Setup::stub(&format!("append runs ran\n{OK}")).start();
    server.handshake("2025-11-25");
    let inside = server.venture().join("gen");
    fs::create_dir(&inside).expect("a directory");
    let other = File::open(server.venture()).expect("the venture");
    other.lock().expect("the lock");
    let id = server.start_call("fz_init", json!({"name": "a", "host": "b.example", "manifest": "gen/x.json"}));
    server.request("ping", json!({}));
    fs::remove_dir(&inside).expect("the directory");
    symlink(outside.path(), &inside).expect("a link");
    drop(other);
    let refused = server.recv_id(id);
    assert_eq!(code(&refused["result"]), "mcp-argument-invalid");
    assert!(!server.event("runs").exists());
}

#[test]
fn a_link_that_leads_nowhere_is_followed_also_behind_a_slash() {
    let mut server = Setup::stub(OK).start();
    server.handshake("2025-11-25");
    let venture = server.venture().to_owned();
    symlink("/nonexistent-outside/new.json", venture.join("dangling")).expect("a link");
    symlink("dangling/", venture.join("chain")).expect("a link");
    symlink("not-yet", venture.join("fine")).expect("a link");
    for path in ["dangling", "dangling/", "dangling//", "dangling/.", "dangling/x", "chain", "chain/", "chain/x"] {
        assert_eq!(code(&server.call("fz_plan", json!({"manifest": path}))), "mcp-argument-invalid", "{path}");
    }
    for path in ["fine", "fine/", "./fine", "not-yet/"] {
        assert_eq!(code(&server.call("fz_plan", json!({"manifest": path}))), "ok", "{path}");
    }
}

#[test]
fn thousands_of_bad_arguments_are_told_in_a_few_words() {
    let mut server = Setup::stub(OK).start();
    server.handshake("2025-11-25");
    let arguments = format!("{{{}}}", vec![r#""a":1"#; 37_000].join(","));
    server.send(format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"fz_deploy","arguments":{arguments}}}}}"#
    ));
    let result = &server.recv_id(1)["result"];
    assert_eq!(code(result), "mcp-argument-invalid");
    let told = result["structuredContent"]["failures"].as_array().expect("failures").len();
    assert_eq!(told, cratefield_mcp::config::MAX_REFUSALS + 1);
}

#[test]
fn a_batch_of_more_messages_than_are_served_is_refused_as_one() {
    let mut server = Setup::stub(OK).start();
    server.handshake("2025-03-26");
    let batch = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    server.send(batch(cratefield_mcp::config::MAX_BATCH));
    assert_eq!(server.recv().as_array().expect("an array").len(), cratefield_mcp::config::MAX_BATCH);
    server.send(batch(cratefield_mcp::config::MAX_BATCH + 1));
    assert_eq!(server.recv()["error"]["code"], -32600);
}

#[test]
fn one_id_is_answered_once_in_a_batch() {
    let mut server = Setup::stub(OK).start();
    server.handshake("2025-03-26");
    server.send(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]"#);
    let replies = server.recv();
    assert_eq!(replies[0]["result"], json!({}));
    assert_eq!(replies[1]["error"]["code"], -32600);
}

#[test]
fn a_huge_token_or_name_is_not_carried_around() {
    let mut server = Setup::stub(OK).start();
    server.handshake("2025-11-25");
    let token = "t".repeat(cratefield_mcp::config::MAX_TOKEN);
    let call = |token: &str| json!({"name": "fz_plan", "_meta": {"progressToken": token}});
    assert_eq!(server.request("tools/call", call(&token))["error"]["code"], -32602);
    assert_eq!(server.request("tools/call", call(&token[2..]))["result"]["isError"], false);
    let answer = server.request(&"m".repeat(200_000), json!({}));
    assert!(answer["error"]["message"].as_str().expect("a message").len() < 200, "{answer}");
}

#[test]
fn a_refused_start_ends_with_two_also_where_stderr_is_full_or_gone() {
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    rustix::io::ioctl_fionbio(&writer, true).expect("a flag");
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&writer, false).expect("a flag");
    let refused = |stderr: Stdio| {
        let mut child = Command::new(fz_mcp())
            .args(["--timeout-secs", "soon"])
            .stdin(Stdio::null())
            .stderr(stderr)
            .spawn()
            .expect("fz-mcp can be started");
        let status = child.wait_timeout(DEADLINE).expect("a status");
        drop(child.kill());
        status.expect("it ends").code()
    };
    assert_eq!(refused(writer.try_clone().expect("a copy").into()), Some(2));
    drop(reader);
    assert_eq!(refused(writer.into()), Some(2));
}

#[test]
fn a_directory_that_is_gone_since_the_start_is_told() {
    let gone = tempfile::tempdir().expect("a directory");
    let setup = Setup::stub(OK).without_flags();
    let served = setup.command();
    let mut shell = Command::new("sh");
    shell.args(["-c", "rmdir \"$PWD\"; exec \"$@\"", "sh"]).arg(served.get_program()).args(served.get_args());
    shell.envs(served.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(gone.path());
    let file = setup.event("input");
    let input = concat!(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fz_plan"}}"#
    );
    fs::write(&file, input).expect("a file");
    let output = shell.stdin(File::open(&file).expect("the file")).output().expect("a shell");
    let replies = String::from_utf8(output.stdout).expect("text");
    assert!(replies.contains("mcp-fz-unavailable"), "{replies}");
}

#[test]
fn a_named_pipe_in_place_of_the_directory_holds_nothing_up() {
    let setup = Setup::stub(OK);
    let pipe = setup.event("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo can be run").success());
    let mut server = setup.without_flags().flag("--cwd").flag(&pipe).start();
    server.handshake("2025-11-25");
    for arguments in [json!({}), json!({"manifest": "venture.toml"})] {
        let result = server.call("fz_plan", arguments);
        assert_eq!(code(&result), "mcp-fz-unavailable");
        assert!(result["content"][0]["text"].as_str().expect("text").contains("pipe"), "{result}");
    }
}
