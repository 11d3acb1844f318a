//! Every promise names the file that enforces it and the tests that hold it, and all of them exist.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The tests of this binary and the unit tests of the crate, as `file::name`. Read from the sources, so that a test for
/// one system is known on the others too; a file of tests counts only where `main.rs` takes it in.
fn tests() -> Vec<String> {
    let main = fs::read_to_string(root().join("crates/mcp/tests/it/main.rs")).expect("the list of files");
    let mut names = tests_in("crates/mcp/tests/it");
    names.retain(|name| name.split("::").next().is_some_and(|file| main.contains(&format!("\nmod {file};"))));
    names.extend(tests_in("crates/mcp/src"));
    names
}

fn tests_in(dir: &str) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join(dir)).expect("the sources can be listed") {
        let path = entry.expect("the sources can be listed").path();
        if path.is_file() {
            let file = path.file_stem().expect("a source has a name").to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).expect("a source can be read");
            let functions = text.split("#[test]\n").skip(1);
            let functions = functions.filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
            names.extend(functions.map(|name| format!("{file}::{name}")));
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
fn every_trap_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/processes.md")).expect("the page");
    let tests = tests();
    let mut count = 0;
    for trap in page.split("\n**").skip(1) {
        let trap = trap.split("\n## ").next().unwrap_or_default();
        let title = trap.split("**").next().unwrap_or_default();
        let named: Vec<_> = trap.split('`').skip(1).step_by(2).filter(|code| code.contains("::")).collect();
        assert!(!named.is_empty(), "{title}: no test");
        let missing: Vec<_> = named.iter().filter(|name| !tests.iter().any(|test| test == *name)).collect();
        assert!(missing.is_empty(), "{title}: there is no {missing:?}");
        count += named.len();
    }
    assert!(count > 20, "the page names only {count} tests");
}
