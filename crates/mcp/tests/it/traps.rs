//! `docs/processes.md` names a test for every trap, and these tests exist.

use std::fs;
use std::path::Path;

#[test]
fn every_trap_names_tests_that_exist() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(crate_dir.join("../../docs/processes.md")).expect("the page can be read");
    for trap in page.split("\n**").skip(1) {
        let trap = trap.split("\n## ").next().unwrap_or_default();
        let title = trap.split("**").next().unwrap_or_default();
        let tests: Vec<_> = trap.split('`').skip(1).step_by(2).filter_map(|code| code.split_once("::")).collect();
        assert!(!tests.is_empty(), "{title}: no test");
        for (file, test) in tests {
            let source = fs::read_to_string(crate_dir.join(format!("tests/it/{file}.rs"))).unwrap_or_default();
            let is_there = source.contains(&format!("#[test]\nfn {test}()"))
                || source.contains(&format!("    #[test]\n    fn {test}()"));
            assert!(is_there, "{title}: there is no {file}::{test}");
        }
    }
}
