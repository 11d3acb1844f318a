//! Pipes cannot be polled here: a reader and a writer thread stand between them and the server.

use std::io::{self, Read, Write};
use std::os::windows::io::BorrowedHandle;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use super::{Event, Mailbox};
use crate::config::MAX_UNSENT;
use crate::lines::Lines;

/// Bytes asked of stdin at once.
const CHUNK: usize = 64 * 1024;

/// Everything the server hears and says.
pub(crate) struct Transport {
    lines: Lines,
    input: Input,
    /// Asks the reader for one more piece, so that it reads no further than the server wants.
    more: Sender<()>,
    pieces: Receiver<Vec<u8>>,
    unsent: usize,
    lines_out: Sender<Vec<u8>>,
    written: Receiver<io::Result<usize>>,
    lost: bool,
    posted: Receiver<Event>,
    /// A posting without an event, so that one wait hears of everything.
    woken: Receiver<()>,
    mailbox: Mailbox,
}

#[derive(PartialEq, Eq)]
enum Input {
    Open,
    /// A piece was asked for and is not there.
    Asked,
    Ending,
    Ended,
}

/// Makes the wait return.
#[derive(Clone)]
pub(super) struct Waker(Sender<()>);

impl Waker {
    pub(super) fn wake(&self) {
        let _ = self.0.send(());
    }
}

impl Transport {
    /// Takes over stdin and stdout, and Ctrl-C.
    pub(crate) fn open() -> io::Result<Self> {
        let (wake, woken) = channel();
        let waker = Waker(wake);
        let (post, posted) = channel();
        let (more, asked) = channel();
        let (piece, pieces) = channel();
        let (lines_out, lines) = channel();
        let (report, written) = channel();
        let reader = waker.clone();
        thread::Builder::new().name("stdin".into()).spawn(move || read(&asked, &piece, &reader))?;
        let writer = waker.clone();
        thread::Builder::new().name("stdout".into()).spawn(move || write(&lines, &report, &writer))?;
        let mailbox = Mailbox { post, waker };
        let interrupt = mailbox.clone();
        // The number of SIGINT, for the exit status.
        ctrlc::set_handler(move || interrupt.send(Event::Stop(2))).map_err(io::Error::other)?;
        Ok(Self {
            lines: Lines::default(),
            input: Input::Open,
            more,
            pieces,
            unsent: 0,
            lines_out,
            written,
            lost: false,
            posted,
            woken,
            mailbox,
        })
    }

    /// A way to reach this server from a call's thread.
    pub(crate) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// Queues a line for the writer.
    pub(crate) fn send(&mut self, line: Vec<u8>) {
        self.unsent += line.len();
        self.lost |= self.lines_out.send(line).is_err();
    }

    /// Whether so many replies wait that no more work should be taken on.
    pub(crate) fn is_congested(&self) -> bool {
        self.unsent > MAX_UNSENT
    }

    /// Whether every reply was handed to the operating system.
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent == 0
    }

    /// The next event; [`Event::Tick`] at the deadline. Lines are kept back while the client does not read.
    pub(crate) fn next(&mut self, deadline: Option<Instant>, _: &[BorrowedHandle]) -> Event {
        loop {
            let (congested, flushed) = (self.is_congested(), self.is_flushed());
            self.take_reports();
            if (congested && !self.is_congested()) || (!flushed && self.is_flushed()) {
                return Event::Sent;
            }
            if self.lost {
                return Event::Lost;
            }
            if let Ok(event) = self.posted.try_recv() {
                return event;
            }
            if !self.is_congested()
                && let Some(event) = self.take_line()
            {
                return event;
            }
            if self.wait(deadline) {
                return Event::Tick;
            }
        }
    }

    /// The next event that a call posts, while replies that wait are still written; `None` at the deadline.
    pub(crate) fn next_posted(&mut self, deadline: Instant) -> Option<Event> {
        loop {
            if let Ok(event) = self.posted.try_recv() {
                return Some(event);
            }
            if self.wait(Some(deadline)) {
                return None;
            }
        }
    }

    fn take_reports(&mut self) {
        for report in self.written.try_iter() {
            match report {
                Ok(count) => self.unsent -= count,
                Err(_) => self.lost = true,
            }
        }
        if let Ok(piece) = self.pieces.try_recv() {
            self.input = if piece.is_empty() { Input::Ending } else { Input::Open };
            self.lines.space(piece.len()).extend_from_slice(&piece);
        }
    }

    fn take_line(&mut self) -> Option<Event> {
        if let Some(line) = self.lines.next() {
            return Some(Event::Line(line));
        }
        match self.input {
            Input::Open => {
                self.input = if self.more.send(()).is_ok() { Input::Asked } else { Input::Ending };
                None
            }
            Input::Asked | Input::Ended => None,
            Input::Ending => {
                let last = self.lines.finish().map(Event::Line);
                if last.is_none() {
                    self.input = Input::Ended;
                }
                Some(last.unwrap_or(Event::Eof))
            }
        }
    }

    /// Waits until something happened. Says whether the deadline has passed.
    fn wait(&mut self, deadline: Option<Instant>) -> bool {
        if self.input == Input::Ending && !self.is_congested() {
            return false;
        }
        match deadline {
            None => self.woken.recv().is_err(),
            Some(deadline) => {
                let patience = deadline.saturating_duration_since(Instant::now());
                self.woken.recv_timeout(patience) == Err(RecvTimeoutError::Timeout)
            }
        }
    }
}

fn read(asked: &Receiver<()>, piece: &Sender<Vec<u8>>, waker: &Waker) {
    let mut stdin = io::stdin().lock();
    while asked.recv().is_ok() {
        let mut bytes = vec![0; CHUNK];
        let count = loop {
            match stdin.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other.unwrap_or(0),
            }
        };
        bytes.truncate(count);
        if piece.send(bytes).is_err() {
            return;
        }
        waker.wake();
    }
}

fn write(lines: &Receiver<Vec<u8>>, report: &Sender<io::Result<usize>>, waker: &Waker) {
    let mut stdout = io::stdout().lock();
    for line in lines {
        let done = stdout.write_all(&line).and_then(|()| stdout.flush()).map(|()| line.len());
        if report.send(done).is_err() {
            return;
        }
        waker.wake();
    }
}

/// Writes a line to stderr.
pub(crate) fn say(line: &str) {
    drop(io::stderr().write_all(line.as_bytes()));
}

/// Calls `act` at Ctrl-C, for work without a server.
pub(crate) fn on_signal(act: impl Fn() + Send + 'static) -> io::Result<()> {
    ctrlc::set_handler(act).map_err(io::Error::other)
}
