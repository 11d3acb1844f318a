//! Looking at other processes.

use std::path::Path;

use super::wait_for;

/// The process id and the process group that the stub's step `ids` wrote.
#[track_caller]
pub(crate) fn ids(path: &Path) -> (u32, u32) {
    let text = String::from_utf8(wait_for(path)).expect("two numbers");
    let (process, group) = text.split_once(' ').expect("two numbers");
    (process.parse().expect("a number"), group.parse().expect("a number"))
}

/// Whether a process still runs; one that only waits to be reaped does not.
#[cfg(target_os = "linux")]
pub(crate) fn alive(pid: u32) -> bool {
    // The state is the first word behind the name, which stands in parentheses and may hold any character.
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        !matches!(state, None | Some('Z' | 'X'))
    })
}

/// Whether a process still runs; one that only waits to be reaped does not.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn alive(pid: u32) -> bool {
    let listed =
        std::process::Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().expect("ps can be run");
    let state = String::from_utf8_lossy(&listed.stdout);
    !state.trim().is_empty() && !state.trim().starts_with('Z')
}

/// Whether a process still runs.
#[cfg(windows)]
pub(crate) fn alive(pid: u32) -> bool {
    let listed = std::process::Command::new("tasklist")
        .args(["/NH", "/FI", &format!("PID eq {pid}")])
        .output()
        .expect("tasklist can be run");
    String::from_utf8_lossy(&listed.stdout).split_whitespace().any(|word| word == pid.to_string())
}
