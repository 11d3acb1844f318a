//! The transport of the fuzz targets: bytes from memory come in as chunks, lines go out to memory.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use super::{Event, Mailbox};
use crate::lines::Lines;

/// Everything the server hears and says.
pub(crate) struct Transport {
    lines: Lines,
    chunks: VecDeque<Vec<u8>>,
    ended: bool,
    output: Sender<Vec<u8>>,
    posted: Receiver<Event>,
    mailbox: Mailbox,
}

/// Whatever is posted is waited for: nobody has to be woken.
#[derive(Clone)]
pub(super) struct Waker;

impl Waker {
    #[expect(clippy::unused_self, reason = "the name that the others have")]
    pub(super) fn wake(&self) {}
}

impl Transport {
    /// Serves from memory, and sends each line that is written.
    pub(crate) fn over(chunks: impl IntoIterator<Item = Vec<u8>>, output: Sender<Vec<u8>>) -> Self {
        let (post, posted) = channel();
        let mailbox = Mailbox { post, waker: Waker };
        Self { lines: Lines::default(), chunks: chunks.into_iter().collect(), ended: false, output, posted, mailbox }
    }

    pub(crate) fn open() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    pub(crate) fn send(&mut self, line: Vec<u8>) {
        drop(self.output.send(line));
    }

    #[expect(clippy::unused_self, reason = "the name that the others have")]
    pub(crate) fn is_congested(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "the name that the others have")]
    pub(crate) fn is_flushed(&self) -> bool {
        true
    }

    pub(crate) fn next(&mut self, deadline: Option<Instant>, handles: &[BorrowedFd]) -> Event {
        loop {
            if let Ok(event) = self.posted.try_recv() {
                return event;
            }
            if let Some(line) = self.lines.next() {
                return Event::Line(line);
            }
            let Some(chunk) = self.chunks.pop_front() else { break };
            self.lines.space(chunk.len()).extend_from_slice(&chunk);
        }
        if !self.ended {
            let last = self.lines.finish().map(Event::Line);
            self.ended = last.is_none();
            return last.unwrap_or(Event::Eof);
        }
        if !handles.is_empty() {
            // Not polled but asked again and again.
            return self.wait(Instant::now() + Duration::from_millis(1)).unwrap_or(Event::Child);
        }
        self.wait(deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(60))).unwrap_or(Event::Tick)
    }

    pub(crate) fn next_posted(&mut self, deadline: Instant) -> Option<Event> {
        self.wait(deadline)
    }

    fn wait(&self, deadline: Instant) -> Option<Event> {
        match self.posted.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }
}

pub(crate) fn on_signal(_: impl FnOnce() + Send + 'static) -> io::Result<()> {
    Ok(())
}

pub(crate) fn say(_: &str) {}
