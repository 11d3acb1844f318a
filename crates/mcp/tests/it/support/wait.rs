//! Waiting for what another process does, with a deadline that only a hang reaches.

use std::path::Path;
use std::time::{Duration, Instant};

/// How long a test waits for what must happen; generous, since machines are shared.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited {DEADLINE:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a file, such as one that the stub writes, and reads it.
#[track_caller]
pub(crate) fn wait_for(path: &Path) -> Vec<u8> {
    wait_until(&format!("{} exists", path.display()), || path.exists());
    std::fs::read(path).expect("a file that exists can be read")
}
