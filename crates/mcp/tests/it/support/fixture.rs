//! Files for a test to work on.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// A copy of the sample venture as it is checked out, removed when dropped.
#[track_caller]
pub(crate) fn sample_venture() -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary directory");
    copy_into(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../venture"), copy.path());
    copy
}

/// Leaves out what a deployment recorded in the checkout: a copy has never been deployed.
#[track_caller]
fn copy_into(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("the sample venture can be read") {
        let entry = entry.expect("the sample venture can be read");
        let target = to.join(entry.file_name());
        if entry.file_name() == ".harness-deploy.json" {
            continue;
        }
        if entry.file_type().expect("the sample venture can be read").is_dir() {
            fs::create_dir(&target).expect("the copy can be written");
            copy_into(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("the copy can be written");
        }
    }
}
