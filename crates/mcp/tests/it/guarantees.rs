//! Every promise names the file that enforces it and the tests that hold it, and all of them exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The names of this binary's tests, and of the unit tests in the sources as `file::name`.
fn tests() -> Vec<String> {
    let this = std::env::current_exe().expect("the test binary");
    let list =
        Command::new(this).args(["--list", "--format", "terse"]).output().expect("the test binary lists its tests");
    let listed = String::from_utf8(list.stdout).expect("names are text");
    // A page names the file and the test, not the modules between.
    let short = |name: &str| {
        let parts: Vec<_> = name.split("::").collect();
        format!("{}::{}", parts[0], parts[parts.len() - 1])
    };
    let mut names: Vec<_> = listed.lines().filter_map(|line| line.strip_suffix(": test")).map(short).collect();
    let src = root().join("crates/mcp/src");
    for entry in fs::read_dir(&src).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_file() {
            let module = path.file_stem().expect("a source has a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a source can be read");
            let functions = text
                .split("#[test]\n")
                .skip(1)
                .filter_map(|rest| rest.split_once("fn ")?.1.split('(').next().map(str::to_owned));
            names.extend(functions.map(|name| format!("{module}::{name}")));
        }
    }
    names
}

/// What is wrong with a page of promises.
fn problems(page: &str, tests: &[String]) -> Vec<String> {
    let mut wrong = Vec::new();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| promise"));
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [promise, file, held] = cells[..] else {
            wrong.push(format!("not three cells: {row}"));
            continue;
        };
        if !root().join(file.trim_matches('`')).is_file() {
            wrong.push(format!("{promise}: there is no {file}"));
        }
        let named: Vec<_> = held.split('`').skip(1).step_by(2).collect();
        if named.is_empty() {
            wrong.push(format!("{promise}: no test holds it"));
        }
        wrong.extend(
            named
                .iter()
                .filter(|name| !tests.iter().any(|test| test == *name))
                .map(|name| format!("{promise}: there is no test {name}")),
        );
    }
    wrong
}

#[test]
fn every_promise_names_a_file_and_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/guarantees.md")).expect("the page");
    let wrong = problems(&page, &tests());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(page.matches("\n| ").count() > 40, "the page has lost its promises");
}

#[test]
fn a_promise_whose_test_is_gone_is_noticed() {
    let page = fs::read_to_string(root().join("docs/guarantees.md")).expect("the page");
    for (from, to) in [
        ("`soak::thousands_of_calls", "`soak::millions_of_calls"),
        ("`rpc::a_request_with_a_null_id_is_refused_not_ignored`", "`rpc::gone`"),
        ("`crates/mcp/src/clean.rs`", "`crates/mcp/src/dirty.rs`"),
    ] {
        assert!(page.contains(from), "{from}");
        assert_eq!(problems(&page.replace(from, to), &tests()).len(), 1, "{from}");
    }
}

#[test]
fn every_trap_on_the_page_about_processes_names_a_test_that_exists() {
    let page = fs::read_to_string(root().join("docs/processes.md")).expect("the page");
    let tests = tests();
    let named: Vec<_> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|span| span.contains("::") && span.contains('_') && !span.contains([' ', '(']))
        .collect();
    let missing: Vec<_> = named.iter().filter(|name| !tests.iter().any(|test| test == *name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(named.len() > 20, "the page names only {} tests", named.len());
}
