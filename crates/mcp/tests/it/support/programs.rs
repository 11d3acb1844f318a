//! The programs under test and around it, built where they are missing.

use std::env::{self, consts::EXE_SUFFIX};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

/// The server under test.
pub(crate) fn fz_mcp() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_fz-mcp"))
}

/// The scriptable stand-in for `fz`.
#[track_caller]
pub(crate) fn stub() -> PathBuf {
    build();
    beside_the_server("fz-stub")
}

/// The real `fz` of the sample venture: `FZ_BIN`, or the one of this workspace.
#[track_caller]
pub(crate) fn fz() -> PathBuf {
    env::var_os("FZ_BIN").map_or_else(
        || {
            build();
            beside_the_server("fz")
        },
        PathBuf::from,
    )
}

fn beside_the_server(name: &str) -> PathBuf {
    profile_dir().join(format!("{name}{EXE_SUFFIX}"))
}

fn profile_dir() -> &'static Path {
    fz_mcp().parent().expect("a program lies in a directory")
}

/// Asks cargo on every run, not only where a file is missing: what is there may be older than its source.
#[track_caller]
fn build() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let profile = match profile_dir().file_name().and_then(OsStr::to_str) {
            Some("debug") | None => "dev",
            Some(name) => name,
        };
        let target = profile_dir().parent().expect("a profile's directory lies in the target directory");
        let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args(["build", "--quiet", "--locked", "--ignore-rust-version", "--profile", profile])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            // The target directory already says where the programs go, a directory for the target included.
            .env_remove("CARGO_BUILD_TARGET");
        if env::var_os("FZ_BIN").is_some() {
            cargo.args(["-p", "fz-stub"]);
        } else {
            // The whole workspace and a test give dependencies the features that the build of these tests gave them,
            // so that none is compiled a second time.
            cargo.args(["--workspace", "--bin", "fz-stub", "--bin", "fz", "--test", "checkout"]);
        }
        let status = cargo.status().expect("cargo can be started");
        assert!(status.success(), "cargo could not build what the tests need: {cargo:?}");
    });
}
