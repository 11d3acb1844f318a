//! Links the unwinder into the program on Linux with glibc. Loading it as `libgcc_s.so.1` takes a seventh of the time in
//! which the server answers its first message, and a minimal image may not have it.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_LINKER");
    let of_target = |name| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_static = of_target("FEATURE").split(',').any(|feature| feature == "crt-static");
    if of_target("OS") == "linux" && of_target("ENV") == "gnu" && !is_static && has_unwinder() {
        // Whole, so that it is there before the linker is told of the shared one, which it then leaves out.
        println!("cargo::rustc-link-lib=static:+whole-archive,-bundle=gcc_eh");
    }
}

/// Whether the C compiler that links knows the archive: it answers with a path then, else with the bare name.
fn has_unwinder() -> bool {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let asked = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output();
    asked.is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_absolute())
}
