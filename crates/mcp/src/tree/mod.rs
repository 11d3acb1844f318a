//! A child process with everything it starts, stopped as a whole: a process group on Unix, a job object on Windows,
//! behind equal names. Only `call` uses it.

use crate::config::MAX_STDERR;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{Handle, Tree, look_up, open_directory};
#[cfg(windows)]
pub(crate) use windows::{Handle, Tree, look_up, open_directory};

/// What a wait for output brought.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Drained {
    /// Some output, and more may come.
    Some,
    /// None in that time.
    Nothing,
    /// Both streams have ended.
    Ended,
}

/// What a child has written so far.
#[derive(Default)]
pub(crate) struct Output {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Tail,
}

/// The last [`MAX_STDERR`] bytes of a stream.
#[derive(Default)]
pub(crate) struct Tail {
    bytes: Vec<u8>,
    /// How many bytes came in all.
    seen: u64,
    kept: usize,
}

impl Tail {
    /// The buffer to append to; [`Tail::trim`] comes after.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Lets go of what is too old. Twice the size is allowed, so that bytes are moved seldom.
    pub(crate) fn trim(&mut self) {
        self.seen += (self.bytes.len() - self.kept) as u64;
        if self.bytes.len() > 2 * MAX_STDERR {
            self.bytes.drain(..self.bytes.len() - MAX_STDERR);
        }
        self.kept = self.bytes.len();
    }

    /// How many bytes were written in all.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// The end of what was written.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.bytes.len().saturating_sub(MAX_STDERR)..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_keeps_the_last_bytes_and_stays_bounded() {
        let mut tail = Tail::default();
        for index in 0..1000_u32 {
            tail.buffer().extend_from_slice(&[u8::try_from(index % 251).unwrap_or_default(); 1024]);
            tail.trim();
            assert!(tail.bytes.capacity() <= 4 * MAX_STDERR);
        }
        assert_eq!((tail.bytes().len(), tail.seen()), (MAX_STDERR, 1_024_000));
        assert_eq!(tail.bytes().last().copied().map(u32::from), Some(999 % 251));
    }
}
