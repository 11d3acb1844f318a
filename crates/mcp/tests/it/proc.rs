//! What the kernel says of a process.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::time::Duration;

fn file(pid: u32, name: &str) -> PathBuf {
    format!("/proc/{pid}/{name}").into()
}

#[track_caller]
fn status(pid: u32, field: &str) -> u64 {
    let text = std::fs::read_to_string(file(pid, "status")).expect("the process runs");
    let line = text.lines().find_map(|line| line.strip_prefix(field)).expect("the kernel tells it");
    line.trim_matches([':', '\t', ' ']).split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// Bytes of memory in use, without what is only mapped from files.
#[track_caller]
pub(crate) fn memory(pid: u32) -> u64 {
    status(pid, "RssAnon") * 1024
}

/// The most bytes of memory that were ever in use.
#[track_caller]
pub(crate) fn peak(pid: u32) -> u64 {
    status(pid, "VmHWM") * 1024
}

/// Open descriptors.
#[track_caller]
pub(crate) fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(file(pid, "fd")).expect("the process runs").count()
}

/// Threads.
#[track_caller]
pub(crate) fn threads(pid: u32) -> u64 {
    status(pid, "Threads")
}

/// Time on a processor so far.
#[track_caller]
pub(crate) fn busy(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(file(pid, "stat")).expect("the process runs");
    let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
    let ticks: u64 = rest.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    // Linux counts in hundredths of a second, whatever the kernel's own clock.
    Duration::from_millis(ticks * 10)
}
