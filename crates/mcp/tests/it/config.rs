//! Flags, variables and what is refused at start-up.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::{OK, Server, Setup, stub};

/// Runs a server that is expected to end by itself.
#[track_caller]
fn ended(setup: &Setup) -> Output {
    setup.command().stdin(std::process::Stdio::null()).output().expect("fz-mcp can be started")
}

/// Refused at start-up: nothing on stdout, the reason on stderr, exit status 2.
#[track_caller]
fn refused(setup: &Setup, said: &[&str]) {
    let output = ended(setup);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(output.stdout.is_empty(), "a refusal on stdout");
    for part in said {
        assert!(stderr.contains(part), "{part:?} is missing in: {stderr}");
    }
}

/// A session over a stub that records its words and its directory.
#[track_caller]
fn session(prepare: impl FnOnce(Setup) -> Setup) -> Server {
    let mut server = prepare(Setup::stub(&format!("argv argv\ncwd cwd\n{OK}"))).start();
    server.handshake("2025-11-25");
    server
}

#[track_caller]
fn plan(server: &mut Server) -> Value {
    server.call("fz_plan", json!({}))
}

/// The words that the child got before those of the verb.
#[track_caller]
fn words_of_the_command(server: &mut Server) -> Vec<String> {
    let result = plan(server);
    assert_ne!(result["isError"], true, "{result}");
    let mut words = server.argv("argv");
    let verb = words.split_off(words.len() - 3);
    assert_eq!(verb, ["plan", "--json", "--non-interactive"]);
    words
}

/// The directory that the child ran in.
#[track_caller]
fn cwd(server: &mut Server) -> PathBuf {
    let result = plan(server);
    assert_ne!(result["isError"], true, "{result}");
    let path = String::from_utf8(crate::support::wait_for(&server.event("cwd"))).expect("a path in UTF-8");
    fs::canonicalize(path).expect("a directory")
}

#[track_caller]
fn unavailable(server: &mut Server) -> String {
    let result = plan(server);
    let failure = &result["structuredContent"]["failures"][0];
    assert_eq!(failure["code"], "mcp-fz-unavailable", "{result}");
    failure["message"].as_str().expect("a message").to_owned()
}

/// Another name for the stub, in a directory of its own.
#[track_caller]
fn stub_as(dir: &Path, name: &str) {
    fs::copy(stub(), dir.join(format!("{name}{EXE_SUFFIX}"))).expect("the stub can be copied");
}

#[test]
fn an_empty_cwd_flag_is_refused_and_an_empty_variable_counts_as_unset() {
    let setup = Setup::stub(OK);
    refused(&setup.without_flags().flag("--cwd").flag(""), &["--cwd"]);
    refused(&Setup::stub(OK).without_flags().flag("--cwd="), &["--cwd"]);

    let here = std::env::current_dir().and_then(fs::canonicalize).expect("a current directory");
    let mut server = session(|setup| setup.without_flags().env("FZ_MCP_CWD", ""));
    assert_eq!(cwd(&mut server), here);
    let mut server = session(Setup::without_flags);
    assert_eq!(cwd(&mut server), here);
}

#[test]
fn the_variable_names_the_directory_and_the_flag_wins_over_it() {
    let kept = tempfile::tempdir().expect("a temporary directory");
    let other = fs::canonicalize(kept.path()).expect("a directory");
    let mut server = session(|setup| setup.without_flags().env("FZ_MCP_CWD", &other));
    assert_eq!(cwd(&mut server), other);

    let mut server = session(|setup| setup.env("FZ_MCP_CWD", &other));
    let venture = fs::canonicalize(server.venture()).expect("a directory");
    assert_eq!(cwd(&mut server), venture);
}

#[test]
fn a_directory_that_arrived_unexpanded_is_told_so() {
    for literal in ["~/venture", "~", "${workspaceFolder}", "${CLAUDE_PROJECT_DIR:-.}/x"] {
        let mut server = session(|setup| setup.without_flags().flag("--cwd").flag(literal));
        let message = unavailable(&mut server);
        assert!(message.contains(literal) && message.contains("unexpanded"), "{message}");
        let mut server = session(|setup| setup.without_flags().env("FZ_MCP_CWD", literal));
        let message = unavailable(&mut server);
        assert!(message.contains(literal) && message.contains("unexpanded"), "{message}");
    }
}

#[test]
fn the_words_behind_the_dashes_are_the_exact_argv() {
    let words = ["two words", "", "$HOME", "*", "'", "--cwd", "--"];
    let mut server = session(|setup| setup.child([stub().into_os_string()].into_iter().chain(words.map(Into::into))));
    assert_eq!(words_of_the_command(&mut server), words);
}

#[test]
fn the_variable_is_split_on_white_space_and_by_no_shell() {
    let bin = tempfile::tempdir().expect("a temporary directory");
    stub_as(bin.path(), "some-fz");
    let mut server = session(|setup| {
        setup.without_child().env("PATH", bin.path()).env("FZ_MCP_COMMAND", "  some-fz run\t-q  $HOME * --\n")
    });
    assert_eq!(words_of_the_command(&mut server), ["run", "-q", "$HOME", "*", "--"]);
}

#[test]
fn the_words_behind_the_dashes_win_over_the_variable() {
    let mut server = session(|setup| setup.env("FZ_MCP_COMMAND", "no-such-program"));
    assert!(words_of_the_command(&mut server).is_empty());
}

#[test]
fn without_words_and_variable_the_program_is_the_fz_on_the_path() {
    let bin = tempfile::tempdir().expect("a temporary directory");
    stub_as(bin.path(), "fz");
    let mut server = session(|setup| setup.without_child().env("PATH", bin.path()));
    assert!(words_of_the_command(&mut server).is_empty());
    let mut server = session(|setup| setup.without_child().env("PATH", bin.path()).env("FZ_MCP_COMMAND", " "));
    assert!(words_of_the_command(&mut server).is_empty());
}

#[test]
fn a_quote_in_the_variable_is_refused_with_advice() {
    for command in ["sh -c 'fz'", "\"my fz\" plan"] {
        refused(&Setup::stub(OK).without_child().env("FZ_MCP_COMMAND", command), &["FZ_MCP_COMMAND", "--"]);
    }
}

#[test]
fn a_relative_program_is_looked_for_from_where_the_server_was_started() {
    let start = tempfile::tempdir().expect("a temporary directory");
    fs::create_dir(start.path().join("bin")).expect("a temporary directory can be written");
    stub_as(&start.path().join("bin"), "fz");
    let program = format!("./bin/fz{EXE_SUFFIX}");
    let setup = Setup::stub(OK).child([program]);
    let mut command = setup.command();
    let input = concat!(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        "\n",
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fz_plan"}}"#,
        "\n",
    );
    let file = start.path().join("input");
    fs::write(&file, input).expect("a temporary directory can be written");
    command.current_dir(start.path()).stdin(fs::File::open(file).expect("the input"));
    let output = command.output().expect("fz-mcp can be started");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let answer: Value = serde_json::from_str(stdout.lines().last().expect("an answer")).expect("JSON");
    assert_eq!(answer["result"]["structuredContent"]["ok"], true, "{answer}");
}

#[test]
fn a_time_limit_that_is_no_whole_number_is_refused() {
    for limit in ["soon", "", "-1", "1.5", "1e3", "0x10", "99999999999999999999", "18446744073709551615"] {
        refused(&Setup::stub(OK).flag(format!("--timeout-secs={limit}")), &["--timeout-secs"]);
        refused(&Setup::stub(OK).env("FZ_MCP_TIMEOUT_SECS", limit), &["FZ_MCP_TIMEOUT_SECS"]);
    }
}

#[test]
fn a_time_limit_of_nothing_is_no_limit_and_the_flag_wins_over_the_variable() {
    let mut server = session(|setup| setup.flag("--timeout-secs").flag("0"));
    assert_ne!(plan(&mut server)["isError"], true);
    let mut server = session(|setup| setup.env("FZ_MCP_TIMEOUT_SECS", "0"));
    assert_ne!(plan(&mut server)["isError"], true);

    let mut server = Setup::stub("hang").env("FZ_MCP_TIMEOUT_SECS", "0").flag("--timeout-secs=1").start();
    server.handshake("2025-11-25");
    let failure = plan(&mut server)["structuredContent"]["failures"][0].clone();
    assert_eq!(failure["code"], "mcp-fz-timeout");
}

#[test]
fn the_variable_for_outside_paths_takes_one_or_nothing() {
    for value in ["true", "0", "yes", "on", " 1", "11"] {
        refused(&Setup::stub(OK).env("FZ_MCP_ALLOW_OUTSIDE_PATHS", value), &["FZ_MCP_ALLOW_OUTSIDE_PATHS"]);
    }
    let mut server = session(|setup| setup.env("FZ_MCP_ALLOW_OUTSIDE_PATHS", ""));
    let result = server.call("fz_plan", json!({"manifest": "../x"}));
    assert_eq!(result["structuredContent"]["failures"][0]["code"], "mcp-argument-invalid");
}

#[test]
fn a_flag_or_a_word_that_nobody_knows_is_refused() {
    refused(&Setup::stub(OK).flag("--wat"), &["--wat"]);
    refused(&Setup::stub(OK).without_child().flag("fz"), &["fz"]);
    refused(&Setup::stub(OK).flag("--timeout-secs"), &["--timeout-secs"]);
}

#[test]
fn version_and_help_are_printed_without_a_server() {
    let output = ended(&Setup::stub(OK).without_flags().without_child().flag("--version"));
    let version = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success());
    assert_eq!(version.lines().count(), 1);
    let own = env!("CARGO_PKG_VERSION");
    assert!(version.starts_with(&format!("fz-mcp {own}")) && version.contains("cratefield-cli"), "{version}");

    let output = ended(&Setup::stub(OK).without_flags().without_child().flag("--help"));
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success());
    for name in [
        "--cwd",
        "FZ_MCP_CWD",
        "FZ_MCP_COMMAND",
        "--timeout-secs",
        "FZ_MCP_TIMEOUT_SECS",
        "--allow-outside-paths",
        "FZ_MCP_ALLOW_OUTSIDE_PATHS",
        "--version",
        "--help",
    ] {
        assert!(help.contains(name), "{name} is missing in: {help}");
    }
}

#[test]
fn a_start_is_one_line_on_stderr_and_success_adds_none() {
    let mut server = session(|setup| setup);
    assert_ne!(plan(&mut server)["isError"], true);
    assert_ne!(server.call("fz_error_codes", json!({}))["isError"], true);
    server.eof();
    assert!(server.wait_exit().success());
    let stderr = server.stderr();
    assert!(stderr.lines().count() == 1 && stderr.ends_with('\n'), "{stderr:?}");
}
