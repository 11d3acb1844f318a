//! The pages say what the server does: every tool, argument, code, flag, variable, default and limit on them is held
//! against the server, every example runs, and leaving one out of a page is noticed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Setup, fz, fz_mcp, sample_venture};

/// A page: where it lies in the repository, and its text.
#[derive(Clone)]
struct Page {
    name: String,
    text: String,
}

/// What the server says of itself.
struct Facts {
    tools: Vec<Value>,
    codes: BTreeSet<String>,
    /// The server's own flags, with their defaults.
    help: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<Page> {
    let mut names =
        vec![PathBuf::from("README.md"), PathBuf::from("crates/mcp/README.md"), PathBuf::from("SECURITY.md")];
    collect(Path::new("docs"), &mut names);
    names
        .into_iter()
        .map(|name| Page {
            text: fs::read_to_string(root().join(&name)).expect("a page can be read"),
            name: name.to_string_lossy().replace('\\', "/"),
        })
        .collect()
}

fn collect(dir: &Path, names: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(dir)).expect("docs can be listed") {
        let entry = entry.expect("docs can be listed");
        let name = dir.join(entry.file_name());
        if entry.path().is_dir() {
            collect(&name, names);
        } else if name.extension().is_some_and(|extension| extension == "md") {
            names.push(name);
        }
    }
}

fn facts() -> Facts {
    let mut server = Setup::stub("").start();
    server.handshake("2025-11-25");
    let list = server.request("tools/list", json!({}));
    let catalogue = server.call("fz_error_codes", json!({}));
    let codes = catalogue["structuredContent"]["codes"].as_array().expect("codes").iter();
    let help = Command::new(fz_mcp()).arg("--help").output().expect("fz-mcp can be started");
    Facts {
        tools: list["result"]["tools"].as_array().expect("tools").clone(),
        codes: codes.map(|code| code["code"].as_str().expect("a code").to_owned()).collect(),
        help: String::from_utf8(help.stdout).expect("help is text"),
    }
}

impl Facts {
    fn tool(&self, name: &str) -> Option<&Value> {
        self.tools.iter().find(|tool| tool["name"] == name)
    }

    fn names(&self) -> Vec<&str> {
        self.tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
    }

    /// The arguments of a tool as a page writes them: in order, the required ones in bold.
    fn arguments(&self, name: &str) -> Vec<String> {
        let Some(schema) = self.tool(name).map(|tool| &tool["inputSchema"]) else { return Vec::new() };
        let required: Vec<_> = schema["required"].as_array().into_iter().flatten().collect();
        let properties = schema["properties"].as_object().expect("properties");
        properties
            .keys()
            .map(|name| {
                if required.iter().any(|known| *known == name) { format!("**`{name}`**") } else { format!("`{name}`") }
            })
            .collect()
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).any(|word| word == flag)
    }

    fn default_of(&self, flag: &str) -> Option<&str> {
        let from = self.help.find(flag)?;
        let (_, rest) = self.help[from..].split_once("[default: ")?;
        rest.split_once(']').map(|(default, _)| default)
    }
}

/// Everything on the pages that is not so.
fn problems(pages: &[Page], facts: &Facts) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages {
        let mut tell = |what: String| found.push(format!("{}: {what}", page.name));
        for word in words(&page.text) {
            let is_tool = word.starts_with("fz_") && word != "fz_main" && word != "fz_mcp";
            if is_tool && facts.tool(word).is_none() {
                tell(format!("there is no tool {word}"));
            }
            if word.starts_with("FZ_MCP_") && word != "FZ_MCP_" && word != "FZ_MCP_BIN" && !facts.help.contains(word) {
                tell(format!("there is no variable {word}"));
            }
        }
        for code in spans(&page.text).filter(|span| span.starts_with("mcp-fz-") || span.starts_with("mcp-arg")) {
            if !facts.codes.contains(code) {
                tell(format!("there is no code {code}"));
            }
        }
        for code in page.text.split(|c: char| !(c.is_ascii_digit() || c == '-')).filter(|word| word.starts_with("-32"))
        {
            if !["-32700", "-32600", "-32601", "-32602", "-32603", "-32022"].contains(&code) {
                tell(format!("the server has no error code {code}"));
            }
        }
        for flag in own_flags(&page.text) {
            if !facts.has_flag(&flag) {
                tell(format!("fz-mcp has no flag {flag}"));
            }
        }
        for table in tables(&page.text) {
            check_table(&table, facts, &mut tell);
        }
        for link in links(&page.text) {
            let target = Path::new(&page.name).parent().unwrap_or(Path::new("")).join(link);
            if !root().join(&target).exists() {
                tell(format!("there is no {}", target.display()));
            }
        }
    }
    for (page, what) in [
        ("README.md", "tool"),
        ("crates/mcp/README.md", "tool"),
        ("README.md", "flag"),
        ("crates/mcp/README.md", "flag"),
    ] {
        let has = pages
            .iter()
            .find(|found| found.name == page)
            .is_some_and(|page| tables(&page.text).iter().any(|table| table.is(what)));
        if !has {
            found.push(format!("{page}: the table of {what}s is missing"));
        }
    }
    for name in facts.names() {
        for page in pages
            .iter()
            .filter(|page| ["README.md", "crates/mcp/README.md", "docs/agents.md"].contains(&page.name.as_str()))
        {
            // The page walks through the workflow, which generating a client is no part of.
            let is_expected = page.name != "docs/agents.md" || name != "fz_client_ts";
            if is_expected && !words(&page.text).any(|word| word == name) {
                found.push(format!("{}: {name} is not documented", page.name));
            }
        }
    }
    for code in facts.codes.iter().filter(|code| code.starts_with("mcp-")) {
        for page in pages
            .iter()
            .filter(|page| ["README.md", "crates/mcp/README.md", "docs/agents.md"].contains(&page.name.as_str()))
        {
            if !spans(&page.text).any(|span| span == code) {
                found.push(format!("{}: {code} is not documented", page.name));
            }
        }
    }
    found
}

struct Table {
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn is(&self, first: &str) -> bool {
        self.head.first().is_some_and(|head| head == first)
    }

    fn column(&self, start: &str) -> Option<usize> {
        self.head.iter().position(|head| head.starts_with(start))
    }
}

fn check_table(table: &Table, facts: &Facts, tell: &mut impl FnMut(String)) {
    if let Some(arguments) = table.column("arguments").filter(|_| table.is("tool")) {
        let listed: Vec<_> = table.rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
        if listed != facts.names() {
            tell(format!("the table lists {listed:?}, the server {:?}", facts.names()));
        }
        for row in &table.rows {
            let (name, has) = (row[0].trim_matches('`'), facts.arguments(row[0].trim_matches('`')).join(", "));
            if row[arguments] != has {
                tell(format!("{name} takes {has}, not {}", row[arguments]));
            }
        }
    }
    if let (Some(default), Some(variable)) =
        (table.column("default").filter(|_| table.is("flag")), table.column("variable"))
    {
        for flag in ["--cwd", "--", "--timeout-secs", "--allow-outside-paths"] {
            let row = table.rows.iter().find(|row| row[0].trim_matches('`').split(' ').next() == Some(flag));
            let Some(row) = row else {
                tell(format!("the table lacks {flag}"));
                continue;
            };
            let name = if flag == "--" { "PROGRAM" } else { flag };
            let actual = facts.default_of(name).filter(|_| flag != "--allow-outside-paths").unwrap_or("off");
            if row[default].trim_matches('`') != actual {
                tell(format!("the default of {flag} is {actual}, not {}", row[default]));
            }
            let variable = row[variable].trim_matches('`');
            let said = variable.split('=').next().unwrap_or(variable);
            if !facts.help.contains(said) {
                tell(format!("{flag} has no variable {said}"));
            }
        }
    }
    if table.is("code") {
        for row in &table.rows {
            let code = row[0].trim_matches('`');
            if !code.starts_with("-32") && !facts.codes.contains(code) {
                tell(format!("there is no code {code}"));
            }
        }
    }
}

fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut open = false;
    for line in prose(text) {
        let Some(row) = line.trim().strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            open = false;
            continue;
        };
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().to_owned()).collect();
        if !open {
            tables.push(Table { head: cells, rows: Vec::new() });
            open = true;
        } else if !cells[0].starts_with("--") || cells[0].contains(|c| c != '-') {
            tables.last_mut().expect("a table is open").rows.push(cells);
        }
    }
    tables
}

/// The lines outside code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return false;
        }
        !in_code
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

/// Inline code.
fn spans(text: &str) -> impl Iterator<Item = &str> {
    prose(text).flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Flags of `fz-mcp`: in its own commands up to the ` -- ` before the child's, in code and in spans.
fn own_flags(text: &str) -> BTreeSet<String> {
    let commands = text
        .lines()
        .filter(|line| !line.contains("gh release"))
        .flat_map(|line| line.split('`'))
        .filter_map(|code| code.split_once("fz-mcp ").map(|(_, rest)| rest));
    let spans = spans(text).filter(|span| {
        ["--check", "--print-config", "--cwd", "--timeout", "--allow", "--json"]
            .iter()
            .any(|start| span.starts_with(start))
    });
    commands
        .chain(spans)
        .flat_map(|code| code.split(" -- ").next().unwrap_or(code).split_whitespace())
        .map(|word| word.trim_matches(|c: char| !(c.is_ascii_alphanumeric() || c == '-')))
        .filter(|word| word.starts_with("--") && word.len() > 2)
        .map(|word| word.split('=').next().unwrap_or(word).to_owned())
        .collect()
}

/// Relative links, without their anchors.
fn links(text: &str) -> Vec<&str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split(')').next())
        .filter(|link| !link.contains("://") && !link.starts_with('#') && !link.starts_with("mailto:"))
        .map(|link| link.split('#').next().unwrap_or(link))
        .collect()
}

/// The blocks of code whose fence says `info`, each with the block after it.
fn blocks<'t>(text: &'t str, info: &str) -> Vec<(String, Option<String>)> {
    let mut blocks: Vec<(&'t str, String)> = Vec::new();
    let mut open = false;
    for line in text.lines() {
        match (line.strip_prefix("```"), open) {
            (Some(_), true) => open = false,
            (Some(info), false) => {
                blocks.push((info, String::new()));
                open = true;
            }
            (None, true) => {
                let body = &mut blocks.last_mut().expect("a block is open").1;
                body.push_str(line);
                body.push('\n');
            }
            (None, false) => {}
        }
    }
    let after =
        blocks.iter().skip(1).map(|(info, body)| (info.ends_with(" result")).then(|| body.clone())).chain([None]);
    blocks
        .iter()
        .zip(after)
        .filter(|((found, _), _)| *found == info)
        .map(|((_, body), after)| (body.clone(), after))
        .collect()
}

/// Runs the calls on a page, each in a fresh copy of the sample venture, and tells which do not give what it shows.
fn wrong_examples(page: &Page) -> Vec<String> {
    let mut wrong = Vec::new();
    for (call, result) in blocks(&page.text, "json call") {
        let Some(Ok(shown)) = result.map(|result| serde_json::from_str::<Value>(&result)) else {
            wrong.push(format!("{}: {call} is not followed by a result", page.name));
            continue;
        };
        let mut server = Setup::fz().start();
        server.handshake("2025-11-25");
        let params: Value = serde_json::from_str(&call).expect("a call on a page is JSON");
        let result = &server.request("tools/call", params)["result"];
        if result["structuredContent"] != shown {
            wrong.push(format!("{}: {call} gives {}", page.name, result["structuredContent"]));
        }
    }
    wrong
}

#[track_caller]
fn edited(name: &str, from: &str, to: &str) -> Vec<Page> {
    let mut pages = pages();
    let page = pages.iter_mut().find(|page| page.name == name).expect("a page of that name");
    assert!(page.text.contains(from), "{name} does not contain {from}");
    page.text = page.text.replace(from, to);
    pages
}

/// What is wrong now and was not before.
fn new_problems(pages: &[Page], facts: &Facts) -> Vec<String> {
    let known = problems(&self::pages(), &self::facts());
    problems(pages, facts).into_iter().filter(|problem| !known.contains(problem)).collect()
}

#[test]
fn every_page_says_what_the_server_does() {
    let found = problems(&pages(), &facts());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn leaving_out_or_changing_a_fact_on_a_page_is_noticed() {
    let facts = facts();
    for (page, from, to) in [
        ("README.md", "| `fz_verify` | `fz verify`", "| `fz_verifies` | `fz verify`"),
        ("README.md", "`manifest`, `force`", "`manifest`"),
        ("README.md", "**`host`**", "`host`"),
        ("README.md", "| `600` |", "| `300` |"),
        ("README.md", "`FZ_MCP_CWD`", "`FZ_MCP_DIR`"),
        ("README.md", "| `mcp-fz-timeout` |", "| `mcp-fz-slow` |"),
        ("README.md", "`--check --json`", "`--check-all`"),
        ("crates/mcp/README.md", "| `fz_plan` |", "| `fz_deploy` |"),
        ("crates/mcp/README.md", "| `--timeout-secs N`", "| `--limit N`"),
        ("docs/agents.md", "`fz_error_codes`", "`the catalogue`"),
        ("docs/MCP.md", "`-32601`", "`-32002`"),
        ("docs/MCP.md", "](../README.md)", "](../READYOU.md)"),
    ] {
        assert!(!new_problems(&edited(page, from, to), &facts).is_empty(), "{page}: {from} -> {to}");
    }
}

#[test]
fn a_tool_a_parameter_or_a_code_that_the_server_loses_is_noticed() {
    let pages = pages();
    for index in 0..facts().tools.len() {
        let mut lesser = facts();
        lesser.tools.remove(index);
        assert!(!new_problems(&pages, &lesser).is_empty(), "tool {index}");
    }
    for (tool, argument) in [("fz_deploy", "plan"), ("fz_init", "force")] {
        let mut lesser = facts();
        let tool = lesser.tools.iter_mut().find(|found| found["name"] == tool).expect("the tool");
        tool["inputSchema"]["properties"].as_object_mut().expect("properties").remove(argument);
        assert!(!new_problems(&pages, &lesser).is_empty(), "{argument}");
    }
    let own: Vec<_> = facts().codes.into_iter().filter(|code| code.starts_with("mcp-")).collect();
    for code in own {
        let mut lesser = facts();
        lesser.codes.remove(&code);
        assert!(!new_problems(&pages, &lesser).is_empty(), "{code}");
    }
}

#[test]
fn every_call_on_a_page_gives_what_the_page_shows() {
    let pages = pages();
    let wrong: Vec<_> = pages.iter().flat_map(wrong_examples).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let calls: usize = pages.iter().map(|page| blocks(&page.text, "json call").len()).sum();
    assert!(calls >= 5, "the pages show only {calls} calls");
}

#[test]
fn a_call_whose_result_is_not_what_the_page_shows_is_noticed() {
    let pages = edited("README.md", "\"changed\":true", "\"changed\":false");
    let readme = pages.iter().find(|page| page.name == "README.md").expect("the README");
    assert_eq!(wrong_examples(readme).len(), 1);
}

/// Blocks that begin with ```` ```sh run ```` run as they stand, beside a copy of the sample venture called `my-venture`.
#[cfg(unix)]
#[test]
fn every_shell_command_marked_for_it_runs() {
    let mut ran = 0;
    for page in pages() {
        for (script, result) in blocks(&page.text, "sh run") {
            let venture = sample_venture();
            let dir = tempfile::tempdir().expect("a temporary directory");
            std::os::unix::fs::symlink(venture.path(), dir.path().join("my-venture")).expect("a link");
            let programs = [fz_mcp().parent(), fz().parent()].map(|dir| dir.expect("a directory").to_owned());
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::env::join_paths(programs.into_iter().chain(std::env::split_paths(&path))).expect("a PATH");
            let output = Command::new("sh")
                .args(["-euc", &script])
                .current_dir(dir.path())
                .env("PATH", path)
                .output()
                .expect("a shell can be started");
            let stdout = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success(),
                "{}: {script}\n{stdout}{}",
                page.name,
                String::from_utf8_lossy(&output.stderr)
            );
            if let Some(result) = result {
                assert_eq!(stdout.trim(), result.trim(), "{}: {script}", page.name);
            }
            ran += 1;
        }
    }
    assert!(ran >= 2, "the pages mark only {ran} commands");
}

/// Sizes on the pages about the server are its constants.
#[test]
fn every_size_on_the_pages_is_a_limit_of_the_server() {
    use cratefield_mcp::config;
    let known = [
        config::MAX_LINE,
        config::MAX_ARGUMENTS,
        config::MAX_VALUE,
        config::MAX_STDOUT,
        config::MAX_STDERR,
        // The read buffer of the TypeScript client, from which the limit of a reply follows.
        config::MAX_REPLY + 64 * 1024,
        config::MAX_UNSENT,
    ];
    for page in pages() {
        let about_the_server = ["README.md", "SECURITY.md", "docs/MCP.md", "docs/agents.md", "docs/guarantees.md"];
        if !about_the_server.contains(&page.name.as_str()) {
            continue;
        }
        let words: Vec<_> = page.text.split_whitespace().collect();
        for pair in words.windows(2) {
            let unit = match pair[1].trim_end_matches(|c: char| !c.is_alphabetic()) {
                "KiB" => 1024,
                "MiB" => 1024 * 1024,
                _ => continue,
            };
            let number: usize =
                pair[0].trim_matches(|c: char| !c.is_ascii_digit()).parse().expect("a size is a number");
            assert!(known.contains(&(number * unit)), "{}: {} {} is no limit", page.name, pair[0], pair[1]);
        }
        if page.text.contains("calls wait already") {
            assert!(page.text.contains(&format!("{} calls wait already", config::MAX_WAITING)), "{}", page.name);
        }
        if page.text.contains("with a progress token") || page.text.contains("With a progress token") {
            let every = format!("every {} seconds", config::HEARTBEAT.as_secs()).replace(" every", "");
            assert!(page.text.split_whitespace().collect::<Vec<_>>().join(" ").contains(&every), "{}", page.name);
        }
    }
}
