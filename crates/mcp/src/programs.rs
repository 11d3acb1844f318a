//! Where programs lie: this one, by a path that lasts, and others on PATH.

use std::env::{self, consts::EXE_SUFFIX};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The path by which this program was called: what a profile or a Homebrew prefix links to changes with every upgrade,
/// the link stays.
pub(crate) fn own_path() -> PathBuf {
    let exe = env::current_exe().unwrap_or_default();
    let called = env::args_os().next().unwrap_or_default();
    let by_path = (Path::new(&called).components().count() > 1).then(|| std::path::absolute(&called).ok()).flatten();
    let names = [called.as_os_str(), OsStr::new("fz-mcp")];
    let found: Vec<_> = by_path.into_iter().chain(names.into_iter().flat_map(on_path)).collect();
    let itself = exe.canonicalize().ok();
    let mut same = found.into_iter().filter(|path| path.canonicalize().ok() == itself).collect::<Vec<_>>();
    same.sort_by_key(|path| !lasts(path));
    same.into_iter().next().unwrap_or(exe)
}

/// Whether an upgrade leaves the path in its place.
pub(crate) fn lasts(path: &Path) -> bool {
    let passing = |part: &OsStr| part == "Cellar" || part == "_npx";
    !path.starts_with("/nix/store") && !path.iter().any(passing)
}

/// The programs of that name on PATH, in its order.
fn on_path(name: &OsStr) -> Vec<PathBuf> {
    let is_name = Path::new(name).components().count() == 1;
    let path = env::var_os("PATH").filter(|_| is_name).unwrap_or_default();
    let dirs = env::split_paths(&path).filter(|dir| dir.is_absolute()).collect::<Vec<_>>();
    let mut suffixed = name.to_owned();
    suffixed.push(EXE_SUFFIX);
    let mut found = Vec::new();
    for dir in dirs {
        found.extend([dir.join(name), dir.join(&suffixed)].into_iter().find(|path| is_program(path)));
    }
    found
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

/// The file that a program's name leads to.
pub(crate) fn find(name: &OsStr) -> Option<PathBuf> {
    let is_name = Path::new(name).components().count() == 1;
    if is_name { on_path(name).into_iter().next() } else { Some(PathBuf::from(name)).filter(|path| is_program(path)) }
}
