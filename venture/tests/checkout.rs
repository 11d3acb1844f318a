//! The sample venture as it is checked out is in order, by the word of its own `fz`.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs this venture's `fz` and gives the one line it printed.
#[track_caller]
fn fz(dir: &Path, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fz"));
    // What doctor would judge beside the venture itself.
    for name in ["ENV", "ADMIN_TOKEN", "HARNESS_SIDECARS", "HARNESS_ONE_WORKER"] {
        command.env_remove(name);
    }
    let output = command.args(words).current_dir(dir).output().expect("fz can be started");
    String::from_utf8(output.stdout).expect("fz prints UTF-8")
}

#[track_caller]
fn is_ok(printed: &str) {
    assert!(printed.starts_with(r#"{"schema":1,"ok":true,"failures":[]"#), "{printed}");
}

#[test]
fn doctor_and_plan_are_green_in_the_checkout() {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    is_ok(&fz(checkout, &["doctor", "--json"]));
    is_ok(&fz(checkout, &["plan", "--json"]));
}

#[test]
fn verify_is_green_after_one_deployment() {
    let copy = fresh_copy();
    let plan = fz(&copy, &["plan", "--json"]);
    let (_, rest) = plan.split_once(r#""digest":""#).expect("a plan has a digest");
    let (digest, _) = rest.split_once('"').expect("a digest ends");
    is_ok(&fz(&copy, &["deploy", "--json", "--plan", digest]));
    is_ok(&fz(&copy, &["verify", "--json"]));
}

/// What `fz` reads, in a directory where a deployment may be recorded.
fn fresh_copy() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR"));
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("venture");
    if copy.exists() {
        fs::remove_dir_all(&copy).expect("the last copy can be removed");
    }
    fs::create_dir_all(copy.join("migrations")).expect("a copy can be made");
    fs::copy(checkout.join("venture.json"), copy.join("venture.json")).expect("a copy can be made");
    for file in fs::read_dir(checkout.join("migrations")).expect("migrations") {
        let file = file.expect("a migration");
        fs::copy(file.path(), copy.join("migrations").join(file.file_name())).expect("a copy can be made");
    }
    copy
}
