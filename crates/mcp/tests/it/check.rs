//! `--check`: what it finds, what it says, and how it ends.

use std::collections::BTreeSet;
use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::{OK, Setup, fz, stub, wait_for};

/// The command with `--check`, in an environment that does not tell cargo where to build.
fn command(setup: Setup, flags: &[&str]) -> (Setup, Command) {
    let setup = flags.iter().fold(setup.flag("--check"), |setup, flag| setup.flag(*flag));
    let mut command = setup.command();
    command.env_remove("CARGO_TARGET_DIR").stdin(Stdio::null());
    (setup, command)
}

/// The one object of `--check --json`, whose verdict agrees with the exit status.
#[track_caller]
fn check(setup: Setup) -> Value {
    let (_setup, mut command) = command(setup, &["--json"]);
    let output = command.output().expect("fz-mcp can be started");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(stdout.lines().count() == 1 && stdout.ends_with('\n'), "{stdout:?}");
    let report: Value = serde_json::from_str(&stdout).expect("one JSON object");
    assert_eq!(output.status.code(), Some(i32::from(report["well"] != true)), "{report}");
    let faults = report["findings"].as_array().expect("findings").iter().filter(|finding| finding["fault"] == true);
    assert_eq!(report["well"], faults.count() == 0, "{report}");
    report
}

/// What a person reads, and the exit status.
#[track_caller]
fn text(setup: Setup) -> (String, Option<i32>) {
    let (_setup, mut command) = command(setup, &[]);
    let output = command.output().expect("fz-mcp can be started");
    (String::from_utf8(output.stdout).expect("UTF-8"), output.status.code())
}

fn findings(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    findings.map(|finding| finding["name"].as_str().expect("a name")).collect()
}

/// One fault, after one call that failed with this code; its message.
#[track_caller]
fn fault(report: &Value, name: &str, code: &str) -> String {
    assert_eq!(findings(report), [name], "{report}");
    assert_eq!(report["well"], false, "{report}");
    let calls = report["calls"].as_array().expect("calls");
    let failure = &calls.last().expect("a call")["failures"][0];
    assert_eq!(failure["code"], code, "{report}");
    failure["message"].as_str().expect("a message").to_owned()
}

/// The stub under the name of a program, in a directory of its own.
#[track_caller]
fn stub_as(dir: &Path, name: &str) -> String {
    let path = dir.join(format!("{name}{EXE_SUFFIX}"));
    fs::copy(stub(), &path).expect("the stub can be copied");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn a_venture_with_its_own_fz_is_well() {
    let setup = Setup::fz();
    let venture = setup.venture().to_str().expect("UTF-8").to_owned();
    let report = check(setup);
    assert_eq!((&report["well"], findings(&report).len()), (&json!(true), 0), "{report}");
    assert_eq!(report["directory"], venture);
    let fz = fz().to_str().expect("UTF-8").to_owned();
    assert_eq!((&report["command"], &report["program"]), (&json!(fz), &json!(fz)));
    for (call, tool) in report["calls"].as_array().expect("calls").iter().zip(["fz_plan", "fz_doctor"]) {
        assert_eq!((&call["tool"], &call["ok"], &call["failures"]), (&json!(tool), &json!(true), &json!([])));
        assert!(call["milliseconds"].is_u64(), "{call}");
    }

    let (told, status) = text(Setup::fz());
    assert_eq!(status, Some(0));
    let last = told.lines().last().expect("a line");
    assert!(last.starts_with("well ") && last.contains("calls work"), "{told}");
    assert!(!told.contains('\x1b'), "colour where nobody sees it: {told:?}");
}

#[test]
fn the_members_of_the_object_are_those_that_are_documented() {
    let report = check(Setup::stub(OK));
    let names = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<BTreeSet<_>>();
    let documented = [
        "allow_outside_paths",
        "calls",
        "command",
        "command_source",
        "cratefield_cli",
        "directory",
        "directory_source",
        "findings",
        "limit_secs",
        "limit_source",
        "program",
        "venture_cratefield_cli",
        "version",
        "well",
    ];
    assert_eq!(names(&report), documented.map(String::from).into());
    assert_eq!(names(&report["calls"][0]), ["failures", "milliseconds", "ok", "tool"].map(String::from).into());
    let report = check(Setup::stub(OK).child(["no-such-program"]));
    assert_eq!(names(&report["findings"][0]), ["fault", "name", "next", "what"].map(String::from).into());
    assert_eq!(names(&report["calls"][0]["failures"][0]), ["code", "message"].map(String::from).into());
}

#[test]
fn each_setting_is_told_with_where_it_came_from() {
    let sources = |report: &Value| {
        ["command_source", "directory_source", "limit_source"].map(|name| report[name].as_str().map(String::from))
    };
    let report = check(Setup::stub(OK).flag("--timeout-secs=7"));
    assert_eq!(sources(&report), ["flag", "flag", "flag"].map(|source| Some(source.into())));
    assert_eq!((&report["limit_secs"], &report["allow_outside_paths"]), (&json!(7), &json!(false)));

    let setup = Setup::stub(OK).without_flags().without_child().env("FZ_MCP_COMMAND", "some-fz  x");
    let venture = setup.venture().to_owned();
    let setup =
        setup.env("FZ_MCP_CWD", &venture).env("FZ_MCP_TIMEOUT_SECS", "0").env("FZ_MCP_ALLOW_OUTSIDE_PATHS", "1");
    let report = check(setup);
    assert_eq!(sources(&report), ["variable", "variable", "variable"].map(|source| Some(source.into())));
    assert_eq!((&report["command"], &report["program"]), (&json!("some-fz x"), &Value::Null));
    assert_eq!((&report["limit_secs"], &report["allow_outside_paths"]), (&Value::Null, &json!(true)));

    let report = check(Setup::stub(OK).without_flags().without_child());
    assert_eq!(sources(&report), ["default", "default", "default"].map(|source| Some(source.into())));
    assert_eq!((&report["command"], &report["limit_secs"]), (&json!("fz"), &json!(600)));

    let (told, _) = text(Setup::stub(OK).without_child().env("FZ_MCP_COMMAND", "some-fz"));
    for part in ["some-fz (FZ_MCP_COMMAND)", "(--cwd)", "600 s (default)"] {
        assert!(told.contains(part), "{part:?} is missing in: {told}");
    }
}

#[test]
fn a_program_that_is_not_there_is_told_with_the_path_that_was_searched() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let path = empty.path().to_str().expect("UTF-8");
    let report = check(Setup::stub(OK).without_child().env("PATH", path));
    let message = fault(&report, "program-not-found", "mcp-fz-unavailable");
    assert!(message.contains(path), "{message}");

    let absolute = empty.path().join("fz").into_os_string();
    fault(&check(Setup::stub(OK).child([absolute])), "program-not-found", "mcp-fz-unavailable");

    let (told, status) = text(Setup::stub(OK).without_child().env("PATH", path));
    assert_eq!(status, Some(1));
    for part in [path, "not well   the program was not found", "next       give its absolute path after --"] {
        assert!(told.contains(part), "{part:?} is missing in: {told}");
    }
}

#[cfg(unix)]
#[test]
fn a_file_that_is_no_program_is_not_found_as_one() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    fs::write(dir.path().join("fz"), "no program").expect("a temporary directory can be written");
    let report = check(Setup::stub(OK).child([dir.path().join("fz")]));
    fault(&report, "program-not-found", "mcp-fz-unavailable");
}

#[test]
fn a_directory_that_is_not_there_is_told_and_so_is_one_that_arrived_unexpanded() {
    let at = |dir: &str| check(Setup::stub(OK).without_flags().flag("--cwd").flag(dir));
    let message = fault(&at("no/such/place"), "directory-missing", "mcp-fz-unavailable");
    assert!(message.contains("no/such/place") || message.contains(r"no\such\place"), "{message}");
    for literal in ["~/venture", "${workspaceFolder}"] {
        let message = fault(&at(literal), "directory-unexpanded", "mcp-fz-unavailable");
        assert!(message.contains(literal.split('/').next().expect("a part")), "{message}");
    }
}

#[test]
fn a_directory_without_a_manifest_is_no_venture() {
    let empty = tempfile::tempdir().expect("a temporary directory");
    let report = check(Setup::over(empty, [fz()]));
    assert_eq!((&report["well"], findings(&report)), (&json!(false), vec!["not-a-venture"]), "{report}");
    assert_eq!(report["calls"][0]["failures"][0]["code"], "manifest-unreadable");
    assert_eq!(report["calls"][1]["tool"], "fz_doctor", "fz answered, so that the next call is worth it");
}

/// The standalone binary is not built here: the stub says what `run_standalone` of cratefield-cli 0.7.6 prints for
/// `doctor`, with its exit status. Its `plan` is the venture's.
#[test]
fn the_standalone_binary_is_told_from_the_ventures_own() {
    let doctor = "err fz: this command must run inside a venture (it needs the compiled-in harness — see the \
                  cratefield-cli README). Only `fz build <manifest>`, `fz client-ts`, the manifest workflow (`fz plan` / \
                  `deploy` / `add` / `init` / `verify`), `fz push`, `fz auth` and `fz import` run standalone.\\n\nexit 1";
    let report = check(Setup::stub(OK).script("doctor", doctor));
    fault(&report, "standalone-fz", "mcp-fz-no-json");
    assert_eq!(report["calls"][0]["ok"], true, "plan alone would not tell them apart");
}

#[test]
fn a_build_that_cargo_cannot_do_is_told_with_the_end_of_its_error() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = || [cargo.clone()].into_iter().chain(["run", "-q", "--bin", "fz", "--"].map(Into::into));
    let setup = Setup::stub(OK).child(words());
    fs::write(setup.venture().join("Cargo.toml"), "no manifest [").expect("a temporary directory can be written");
    let message = fault(&check(setup), "cargo-failed", "mcp-fz-no-json");
    assert!(message.contains("error: ") && message.contains("no manifest ["), "{message}");

    let message = fault(&check(Setup::stub(OK).child(words())), "cargo-failed", "mcp-fz-no-json");
    assert!(message.contains("Cargo.toml"), "{message}");
}

#[test]
fn a_program_that_is_no_fz_is_told() {
    fault(&check(Setup::stub("err what?\\n\nexit 2")), "not-fz", "mcp-fz-no-json");
    fault(&check(Setup::stub("out hello\\n")), "not-fz", "mcp-fz-no-json");
}

#[test]
fn a_venture_with_another_cratefield_cli_is_told_without_being_a_fault() {
    let lock = |version: &str| {
        format!(
            "version = 4\n\n[[package]]\nname = \"cratefield-cli\"\nversion = \"{version}\"\ndependencies = [\n \"clap\",\n]\n"
        )
    };
    for (version, finding) in
        [("0.8.0", "catalogue-older"), ("0.7.10", "catalogue-older"), ("0.2.9", "catalogue-newer")]
    {
        let setup = Setup::fz();
        fs::write(setup.venture().join("Cargo.lock"), lock(version)).expect("the copy can be written");
        let report = check(setup);
        assert_eq!((&report["well"], findings(&report)), (&json!(true), vec![finding]), "{report}");
        assert_eq!(report["venture_cratefield_cli"], version);
    }
    let setup = Setup::fz();
    let same = check(Setup::stub(OK))["cratefield_cli"].as_str().expect("a version").to_owned();
    fs::write(setup.venture().join("Cargo.lock"), lock(&same)).expect("the copy can be written");
    assert!(findings(&check(setup)).is_empty());
}

#[test]
fn the_lock_file_of_the_workspace_around_a_venture_counts() {
    let workspace = tempfile::tempdir().expect("a temporary directory");
    let lock = "[[package]]\nname = \"cratefield-cli\"\nversion = \"9.0.0\"\n";
    fs::write(workspace.path().join("Cargo.lock"), lock).expect("a temporary directory can be written");
    let venture = workspace.path().join("ventures/one");
    fs::create_dir_all(&venture).expect("a temporary directory can be written");
    let report = check(Setup::stub(OK).without_flags().flag("--cwd").flag(venture));
    assert_eq!((&report["venture_cratefield_cli"], findings(&report)), (&json!("9.0.0"), vec!["catalogue-older"]));
}

#[test]
fn failures_that_fz_reports_are_named_and_no_fault() {
    let venture = || {
        let setup = Setup::fz();
        fs::remove_dir_all(setup.venture().join("migrations")).expect("the copy can be written");
        setup
    };
    let report = check(venture());
    assert_eq!((&report["well"], findings(&report).len()), (&json!(true), 0), "{report}");
    assert_eq!(report["calls"][1]["failures"][0]["code"], "migration-not-collected", "{report}");
    let (told, status) = text(venture());
    assert_eq!(status, Some(0));
    assert!(told.contains("migration-not-collected (first of 7): ") && told.contains("well "), "{told}");
}

#[cfg(unix)]
#[test]
fn a_venture_that_another_server_is_changing_is_told_at_once() {
    let mut server = Setup::stub(OK).script("add", &format!("touch adding\nwait go\n{OK}")).start();
    server.handshake("2025-11-25");
    let id = server.start_call("fz_add", json!({"module": "cms"}));
    wait_for(&server.event("adding"));
    let same = server.venture().as_os_str().to_owned();
    let there = || check(Setup::stub(OK).without_flags().flag("--cwd").flag(&same));
    let report = there();
    assert_eq!((findings(&report), &report["calls"]), (vec!["venture-busy"], &json!([])), "{report}");
    server.give("go");
    server.recv_id(id);
    assert_eq!(there()["well"], true);
}

#[test]
fn a_limit_that_passes_is_told_and_so_is_a_wait_for_another_cargo() {
    let report = check(Setup::stub("hang").flag("--timeout-secs=1"));
    fault(&report, "timed-out", "mcp-fz-timeout");
    let waits = r"err     Blocking waiting for file lock on build directory\n";
    let report = check(Setup::stub(&format!("{waits}\nhang")).flag("--timeout-secs=1"));
    fault(&report, "build-locked", "mcp-fz-timeout");
}

#[test]
fn a_first_build_is_told_and_only_where_cargo_had_something_to_build() {
    let bin = tempfile::tempdir().expect("a temporary directory");
    let cargo = stub_as(bin.path(), "cargo");
    let venture = tempfile::tempdir().expect("a temporary directory");
    fs::write(venture.path().join("Cargo.toml"), "").expect("a temporary directory can be written");
    let over_cargo = || {
        // Where the stub's files go: the step makes what a build would leave.
        let setup = Setup::stub(&format!("touch target\n{OK}")).child([&cargo]).env("FZ_STUB_DIR", venture.path());
        setup.without_flags().flag("--cwd").flag(venture.path())
    };
    let (_setup, mut first) = command(over_cargo(), &[]);
    let output = first.output().expect("fz-mcp can be started");
    assert!(String::from_utf8_lossy(&output.stderr).contains("cargo may take minutes"));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("note       the call had to build"), "{told}");
    assert!(findings(&check(over_cargo())).is_empty(), "it is built by now");

    fs::remove_file(venture.path().join("target")).expect("the directory can be written");
    let report = check(over_cargo());
    assert_eq!((&report["well"], findings(&report)), (&json!(true), vec!["first-build"]), "{report}");
}

#[cfg(unix)]
#[test]
fn an_interrupted_check_stops_what_it_started() {
    use rustix::process::{Pid, Signal, kill_process};

    use crate::support::{alive, ids, wait_until};

    let (setup, mut command) = command(Setup::stub("ids ids\nhang"), &["--json"]);
    let child = command.stdout(Stdio::piped()).spawn().expect("fz-mcp can be started");
    let (stub, _) = ids(&setup.event("ids"));
    kill_process(Pid::from_child(&child), Signal::INT).expect("the check can be signalled");
    let output = child.wait_with_output().expect("a child can be waited for");
    wait_until("the child is gone", || !alive(stub));
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(findings(&report), ["interrupted"]);
}

#[test]
fn a_setting_that_cannot_be_used_is_refused_before_the_check() {
    let (_setup, mut command) = command(Setup::stub(OK).flag("--timeout-secs=soon"), &["--json"]);
    let output = command.output().expect("fz-mcp can be started");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let alone = Setup::stub(OK).flag("--json");
    assert_eq!(alone.command().output().expect("fz-mcp can be started").status.code(), Some(2));
}
