//! `--print-config`: each snippet is read in its format, holds what was given, starts a server, and is what the client's
//! page shows.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::{OK, Setup, fz_mcp, stub};

const CLIENTS: [&str; 8] = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "zed", "generic"];

#[track_caller]
fn print_by(program: &Path, client: &str, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    for name in ["FZ_MCP_CWD", "FZ_MCP_COMMAND", "FZ_MCP_TIMEOUT_SECS", "FZ_MCP_ALLOW_OUTSIDE_PATHS"] {
        command.env_remove(name);
    }
    command.env_remove("CARGO_HOME").env_remove("RUSTUP_HOME");
    command.args(["--print-config", client]).args(args).output().expect("fz-mcp can be started")
}

/// What is printed for a client, parsed, and what is said on stderr.
#[track_caller]
fn print(client: &str, args: &[&str]) -> (Value, String) {
    let output = print_by(fz_mcp(), client, args);
    let stderr = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.success(), "{stderr}");
    let stdout = String::from_utf8(output.stdout).expect("UTF-8");
    let format = if client == "codex" { "toml" } else { "json" };
    (parse(format, &stdout), stderr)
}

#[track_caller]
fn parse(format: &str, text: &str) -> Value {
    if format == "toml" {
        let value: toml::Value = toml::from_str(text).expect("TOML");
        serde_json::to_value(value).expect("no dates in it")
    } else {
        serde_json::from_str(text).expect("JSON")
    }
}

/// The entry of the one server in a snippet, under the key that the client wants.
#[track_caller]
fn entry<'a>(client: &str, snippet: &'a Value) -> &'a Value {
    let key = match client {
        "vscode" => "servers",
        "codex" => "mcp_servers",
        "zed" => "context_servers",
        _ => "mcpServers",
    };
    let top = snippet.as_object().expect("an object");
    assert_eq!(top.keys().collect::<Vec<_>>(), [key], "{client}");
    let servers = snippet[key].as_object().expect("an object");
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["fz"], "{client}");
    &servers["fz"]
}

#[track_caller]
fn words(entry: &Value) -> Vec<String> {
    let args = entry["args"].as_array().expect("args").iter();
    std::iter::once(&entry["command"]).chain(args).map(|word| word.as_str().expect("a word").into()).collect()
}

/// Starts what a snippet names, as a client does, and shakes hands.
#[track_caller]
fn starts_a_server(words: &[String]) {
    let (program, args) = words.split_first().expect("a program");
    let elsewhere = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(program);
    command.args(args).current_dir(elsewhere.path()).env("FZ_STUB", OK);
    let mut server = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the snippet's program starts");
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "fz_plan"}}),
    ];
    let mut stdin = server.stdin.take().expect("stdin is piped");
    for message in messages {
        writeln!(stdin, "{message}").expect("the server reads");
    }
    drop(stdin);
    let stdout = BufReader::new(server.stdout.take().expect("stdout is piped"));
    let answers: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(&line.expect("a line")).expect("JSON")).collect();
    assert_eq!(answers[0]["result"]["serverInfo"]["name"], "fz-mcp");
    assert_eq!(answers[1]["result"]["structuredContent"]["ok"], true, "{answers:?}");
    assert!(server.wait().expect("a child can be waited for").success());
}

/// A directory whose name needs every kind of quoting.
#[track_caller]
fn awkward(parent: &Path) -> PathBuf {
    let name = if cfg!(windows) { "it's ü $X 100% [a]" } else { "it's \"ü\" \\ $X 100% [a]\u{7f}" };
    let dir = parent.join(name);
    fs::create_dir(&dir).expect("a temporary directory can be written");
    dir
}

#[test]
fn every_snippet_starts_a_server_whatever_the_paths_hold() {
    let kept = tempfile::tempdir().expect("a temporary directory");
    let dir = awkward(kept.path());
    let program = dir.join(stub().file_name().expect("a name"));
    fs::copy(stub(), &program).expect("the stub can be copied");
    let (dir, program) = (dir.to_str().expect("UTF-8"), program.to_str().expect("UTF-8"));
    for client in CLIENTS {
        let args = ["--cwd", dir, "--timeout-secs", "70", "--allow-outside-paths", "--", program, "a \"b\" \\"];
        let (snippet, _) = print(client, &args);
        let words = words(entry(client, &snippet));
        assert_eq!(Path::new(&words[0]), fz_mcp(), "{client}");
        assert_eq!(words[1..], args, "{client}");
        starts_a_server(&words);
    }
}

#[test]
fn relative_paths_come_out_absolute_and_a_bare_name_stays_one() {
    let start = tempfile::tempdir().expect("a temporary directory");
    let start = start.path().canonicalize().expect("a directory");
    fs::create_dir(start.join("venture")).expect("a temporary directory can be written");
    let setup = Setup::stub(OK).without_flags().flag("--print-config").flag("generic").flag("--cwd").flag("venture");
    let printed = |setup: Setup| {
        let output = setup.command().current_dir(&start).output().expect("fz-mcp can be started");
        words(entry("generic", &serde_json::from_slice(&output.stdout).expect("JSON")))
    };
    let absolute = |path: &str| start.join(path).to_str().expect("UTF-8").to_owned();
    let words = printed(setup.child(["bin/fz", "run", "bin/x"]));
    assert_eq!(words[1..], ["--cwd", &absolute("venture"), "--", &absolute("bin/fz"), "run", "bin/x"]);

    let setup = Setup::stub(OK).without_flags().without_child().flag("--print-config=generic");
    assert_eq!(printed(setup)[1..], ["--cwd", start.to_str().expect("UTF-8"), "--", "fz"]);
    // Variables may not reach the server, so they become flags.
    let setup = Setup::stub(OK).without_flags().without_child().flag("--print-config=generic");
    let setup = setup.env("FZ_MCP_CWD", "venture").env("FZ_MCP_COMMAND", "cargo run").env("FZ_MCP_TIMEOUT_SECS", "9");
    let words = printed(setup.env("FZ_MCP_ALLOW_OUTSIDE_PATHS", "1"));
    let flags = ["--cwd", &absolute("venture"), "--timeout-secs", "9", "--allow-outside-paths", "--", "cargo", "run"];
    assert_eq!(words[1..], flags);
}

#[test]
fn the_clients_limit_is_longer_than_the_servers_where_it_has_one() {
    let timeout = |client: &str, limit: &str| {
        let (snippet, _) = print(client, &["--timeout-secs", limit, "--", "fz"]);
        let entry = entry(client, &snippet);
        ["tool_timeout_sec", "timeout"].iter().find_map(|name| entry[name].as_u64())
    };
    for (limit, codex, gemini, zed) in [
        ("600", 630, 630_000, 600),
        ("50", 80, 80_000, 80),
        ("590", 620, 620_000, 600),
        ("0", 86_400, 86_400_000, 600),
        ("9000", 9030, 9_030_000, 600),
    ] {
        let found = ["codex", "gemini", "zed"].map(|client| timeout(client, limit));
        assert_eq!(found, [Some(codex), Some(gemini), Some(zed)]);
    }
    for client in ["claude-code", "claude-desktop", "cursor", "vscode", "generic"] {
        assert_eq!(timeout(client, "50"), None, "{client}");
    }
}

#[test]
fn codex_is_told_to_pass_on_what_cargo_needs_and_only_what_is_set() {
    let (snippet, _) = print("codex", &["--", "fz"]);
    assert_eq!(entry("codex", &snippet).get("env_vars"), None);
    let setup = Setup::stub(OK).flag("--print-config=codex").env("CARGO_HOME", "/cargo");
    let output = setup.command().env_remove("RUSTUP_HOME").output().expect("fz-mcp can be started");
    let snippet = parse("toml", &String::from_utf8(output.stdout).expect("UTF-8"));
    assert_eq!(entry("codex", &snippet)["env_vars"], json!(["CARGO_HOME"]));
}

#[test]
fn what_a_client_may_expand_is_warned_of() {
    let warned = |args: &[&str]| print("gemini", args).1.contains("warning: ");
    let here = env!("CARGO_MANIFEST_DIR");
    assert!(!warned(&["--cwd", here, "--", "cargo", "run"]));
    assert!(warned(&["--cwd", here, "--", "cargo", "$HOME/x"]));
    assert!(warned(&["--cwd", here, "--", "~/fz"]));
    let (_, stderr) = print("gemini", &["--cwd", "no-such-directory", "--", "fz"]);
    assert!(stderr.contains("no-such-directory is no directory"), "{stderr}");
    let (_, stderr) = print("gemini", &["--cwd", here, "--", "fz"]);
    assert!(stderr.contains("fz is looked up on the client's PATH"), "{stderr}");
    let (_, stderr) = print("gemini", &["--cwd", here, "--", "./no-such-fz"]);
    assert!(stderr.contains("no-such-fz is not there yet"), "{stderr}");
}

#[test]
fn a_client_that_nobody_knows_is_refused_with_the_names_of_the_others() {
    let output = print_by(fz_mcp(), "emacs", &[]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert!(CLIENTS.iter().all(|client| stderr.contains(client)), "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_not_utf_8_is_refused() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    for flag in ["--cwd", "--"] {
        let setup = Setup::stub(OK).without_flags().without_child().flag("--print-config=generic");
        let mut command = setup.flag(flag).flag(OsStr::from_bytes(b"/tmp/\xff")).command();
        let output = command.output().expect("fz-mcp can be started");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{stderr}");
        assert!(stderr.contains("is not UTF-8"), "{stderr}");
    }
}

/// The words that a line of shell gives to its command.
#[cfg(unix)]
#[track_caller]
fn shell_words(line: &str) -> Vec<String> {
    let (program, rest) = line.split_once(' ').expect("a command with arguments");
    let script = format!("{program}() {{ printf '%s\\0' \"$@\"; }}\n{program} {rest}");
    let output = Command::new("sh").args(["-c", &script]).output().expect("sh can be started");
    assert!(output.status.success() && output.stderr.is_empty(), "{line}: {output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    std::iter::once(program).chain(text.split_terminator('\0')).map(String::from).collect()
}

/// The line on stderr that is the client's own command.
#[cfg(unix)]
fn command_in(stderr: &str) -> Option<&str> {
    stderr.lines().find(|line| ["claude ", "codex ", "gemini ", "code "].iter().any(|start| line.starts_with(start)))
}

#[cfg(unix)]
#[test]
fn the_clients_own_command_gives_it_the_words_of_the_snippet() {
    let kept = tempfile::tempdir().expect("a temporary directory");
    let dir = awkward(kept.path());
    let dir = dir.to_str().expect("UTF-8");
    let mut tried = 0;
    for client in CLIENTS {
        let (snippet, stderr) = print(client, &["--cwd", dir, "--", "fz", "a 'b' \"c\"", ""]);
        let words = words(entry(client, &snippet));
        let Some(line) = command_in(&stderr) else { continue };
        tried += 1;
        let given = shell_words(line);
        let expected = match client {
            "claude-code" => [&["claude", "mcp", "add", "fz", "--"].map(String::from)[..], &words].concat(),
            "codex" => [&["codex", "mcp", "add", "fz", "--"].map(String::from)[..], &words].concat(),
            "gemini" => {
                let start = ["gemini", "mcp", "add", "-s", "user", "--timeout", "630000", "fz", &words[0], "--"];
                [&start.map(String::from)[..], &words[1..]].concat()
            }
            _ => {
                let added: Value = serde_json::from_str(&given[2]).expect("JSON");
                let entry = json!({"name": "fz", "type": "stdio", "command": words[0], "args": words[1..]});
                assert_eq!((&given[..2], added), (&["code", "--add-mcp"].map(String::from)[..], entry));
                continue;
            }
        };
        assert_eq!(given, expected, "{client}");
    }
    assert_eq!(tried, 4);
}

#[cfg(unix)]
#[test]
fn the_path_by_which_it_was_called_is_kept_and_a_link_outlives_a_versioned_place() {
    use std::os::unix::fs::symlink;

    let kept = tempfile::tempdir().expect("a temporary directory");
    let root = kept.path().canonicalize().expect("a directory");
    let (bin, cellar) = (root.join("bin"), root.join("Cellar/fz-mcp/1.0/bin"));
    fs::create_dir(&bin).and_then(|()| fs::create_dir_all(&cellar)).expect("a temporary directory can be written");
    symlink(fz_mcp(), cellar.join("fz-mcp")).expect("a link can be made");
    symlink(cellar.join("fz-mcp"), bin.join("fz-mcp")).expect("a link can be made");
    let setup = || Setup::stub(OK).without_flags().without_child();
    let printed = |program: &Path, setup: &Setup| {
        let mut command = Command::new(program);
        command
            .args(["--print-config", "generic", "--", "fz"])
            .envs(setup.command().get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.env("PATH", &bin).current_dir(&root).output().expect("fz-mcp can be started");
        let words = words(entry("generic", &serde_json::from_slice(&output.stdout).expect("JSON")));
        (PathBuf::from(&words[0]), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let setup = setup();
    let stable = bin.join("fz-mcp");
    assert_eq!(printed(Path::new("fz-mcp"), &setup).0, stable);
    assert_eq!(printed(Path::new("bin/fz-mcp"), &setup).0, stable);
    assert_eq!(printed(&cellar.join("fz-mcp"), &setup).0, stable);
    assert_eq!(printed(fz_mcp(), &setup).0, fz_mcp(), "a place that lasts is as good as the link");

    fs::remove_file(&stable).expect("the link can be removed");
    let (path, stderr) = printed(&cellar.join("fz-mcp"), &setup);
    assert_eq!(path, cellar.join("fz-mcp"));
    assert!(stderr.contains("goes away with an upgrade"), "{stderr}");
}

/// The code blocks of a page, each with its language.
#[cfg(unix)]
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if let Some(language) = line.strip_prefix("```") {
            let text: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
            found.push((language.to_owned(), text.join("\n")));
        }
    }
    found
}

#[cfg(unix)]
#[test]
fn the_pages_show_what_is_printed() {
    let cargo = ["cargo", "run", "-q", "--bin", "fz", "--"];
    let built = ["/home/you/my-venture/target/release/fz"];
    let mut commands = 0;
    for client in CLIENTS {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/clients/{client}.md"));
        let blocks = blocks(&fs::read_to_string(page).expect("the client has a page"));
        let print = |words: &[&str]| {
            let (mut snippet, stderr) = print(client, &[&["--cwd", "/home/you/my-venture", "--"], words].concat());
            let own = fz_mcp().to_str().expect("UTF-8");
            let key = snippet.as_object().and_then(|top| top.keys().next()).cloned().expect("a key");
            assert_eq!(snippet[&key]["fz"]["command"], own);
            snippet[&key]["fz"]["command"] = "/home/you/bin/fz-mcp".into();
            let command = command_in(&stderr).map(|line| line.replace(own, "/home/you/bin/fz-mcp"));
            (snippet, command)
        };
        let (snippet, command) = print(&cargo);
        let (language, first) = blocks.iter().find(|(name, _)| name == "json" || name == "toml").expect("a snippet");
        let printed = if client == "claude-desktop" { print(&built).0 } else { snippet.clone() };
        assert_eq!(parse(language, first), printed, "{client}");
        assert!(blocks.iter().any(|(name, text)| name == language && parse(name, text) == snippet), "{client}");

        if let Some(command) = command {
            commands += 1;
            let known = blocks.iter().any(|(name, text)| name == "sh" && text.lines().any(|line| line == command));
            assert!(known, "{client}: its page lacks {command}");
        }
    }
    assert_eq!(commands, 4);
}
