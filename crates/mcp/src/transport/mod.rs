//! stdin, stdout and wake-ups as one stream of events, and a capped queue of replies. Only `server` uses it. On Unix
//! the server's own thread polls all three; on Windows, where pipes cannot be polled, two threads stand behind the same
//! names.

use std::sync::mpsc::Sender;

use crate::lines::Line;

#[cfg(fuzzing)]
mod fuzzed;
#[cfg(all(unix, not(fuzzing)))]
mod poller;
#[cfg(all(unix, not(fuzzing)))]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(fuzzing)]
use fuzzed::Waker;
#[cfg(fuzzing)]
pub(crate) use fuzzed::{Transport, on_signal, say};
#[cfg(all(unix, not(fuzzing)))]
use unix::Waker;
#[cfg(all(unix, not(fuzzing)))]
pub(crate) use unix::{Transport, on_signal, say};
#[cfg(windows)]
use windows::Waker;
#[cfg(windows)]
pub(crate) use windows::{Transport, on_signal, say};

/// A call accepted by the server, by the order of its arrival.
pub(crate) type Key = u64;

/// What the server waits for.
#[cfg_attr(fuzzing, expect(dead_code, reason = "from memory nothing is lost and no signal comes"))]
pub(crate) enum Event {
    /// A line came in.
    Line(Line),
    /// stdin has ended. Comes once, after the last line.
    Eof,
    /// A call is over and its process tree gone; the line that answers it. `None` after a panic.
    Finished(Key, Option<Vec<u8>>),
    /// What a running call last wrote to stderr.
    Note(Key, String),
    /// A signal asks the server to end; its number.
    Stop(i32),
    /// Nobody reads stdout any more.
    Lost,
    /// One of the handles that were given is ready.
    #[cfg_attr(windows, expect(dead_code, reason = "nothing of a child can be waited for beside stdin there"))]
    Child,
    /// Replies went out: there is room for more, or all is said.
    Sent,
    /// The deadline passed.
    Tick,
}

/// How a call's thread reaches the server.
#[derive(Clone)]
pub(crate) struct Mailbox {
    post: Sender<Event>,
    waker: Waker,
}

impl Mailbox {
    /// The call is over.
    pub(crate) fn finished(&self, key: Key, line: Option<Vec<u8>>) {
        self.send(Event::Finished(key, line));
    }

    /// The call's child wrote this to stderr.
    pub(crate) fn note(&self, key: Key, line: String) {
        self.send(Event::Note(key, line));
    }

    fn send(&self, event: Event) {
        // It fails only when the server is gone.
        drop(self.post.send(event));
        self.waker.wake();
    }
}
