//! One thread polls stdin, stdout and a wake-up socket. Nothing here blocks but the poll, and nothing sets
//! `O_NONBLOCK` on a description that others share.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::stdio::{stderr, stdin, stdout};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::poller::{Interest, Poller};
use super::{Event, Mailbox};
use crate::config::MAX_UNSENT;
use crate::lines::Lines;

/// Bytes asked of stdin at once.
const CHUNK: usize = 64 * 1024;

/// Everything the server hears and says.
pub(crate) struct Transport {
    lines: Lines,
    input: Input,
    output: Output,
    posted: Receiver<Event>,
    mailbox: Mailbox,
    wake: UnixStream,
    /// There was a wake-up since there was last found nothing posted. A post or a signal comes before its wake-up.
    woken: bool,
    poller: Poller,
    signal: Arc<AtomicUsize>,
}

enum Input {
    Open,
    /// Ended, and the last line may not have been taken.
    Ending,
    Ended,
}

/// What ended a wait.
enum Waited {
    /// The deadline.
    Out,
    Child,
    /// Anything else.
    In,
}

/// Makes the poll return.
#[derive(Clone)]
pub(super) struct Waker(Arc<UnixStream>);

impl Waker {
    pub(super) fn wake(&self) {
        // It fails only when there are wake-ups enough.
        drop((&*self.0).write(&[0]));
    }
}

impl Transport {
    /// Takes over stdin and stdout, and SIGTERM, SIGINT and SIGHUP.
    pub(crate) fn open() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        let signal = Arc::new(AtomicUsize::new(0));
        for (number, stored) in [(SIGTERM, 15), (SIGINT, 2), (SIGHUP, 1)] {
            // The number first: the wake-up must find it.
            signal_hook::flag::register_usize(number, Arc::clone(&signal), stored)?;
            signal_hook::low_level::pipe::register(number, waker.try_clone()?)?;
        }
        let (post, posted) = channel();
        Ok(Self {
            lines: Lines::default(),
            input: Input::Open,
            output: Output::open(),
            posted,
            mailbox: Mailbox { post, waker: Waker(Arc::new(waker)) },
            poller: Poller::new(&wake),
            wake,
            woken: true,
            signal,
        })
    }

    /// A way to reach this server from a call's thread.
    pub(crate) fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// Writes a line, or queues what the client does not take at once.
    pub(crate) fn send(&mut self, line: Vec<u8>) {
        self.output.send(line);
    }

    /// Whether so many replies wait that no more work should be taken on.
    pub(crate) fn is_congested(&self) -> bool {
        self.output.unsent > MAX_UNSENT
    }

    /// Whether every reply was handed to the operating system.
    pub(crate) fn is_flushed(&self) -> bool {
        self.output.unsent == 0
    }

    /// The next event; [`Event::Tick`] at the deadline. Lines are kept back while the client does not read. `handles`
    /// are those of a child.
    pub(crate) fn next(&mut self, deadline: Option<Instant>, handles: &[BorrowedFd]) -> Event {
        loop {
            if self.woken {
                match self.signal.swap(0, Ordering::Relaxed) {
                    0 => {}
                    number => return Event::Stop(i32::try_from(number).unwrap_or_default()),
                }
            }
            if self.output.lost {
                return Event::Lost;
            }
            if self.woken {
                match self.posted.try_recv() {
                    Ok(event) => return event,
                    Err(_) => self.woken = false,
                }
            }
            if !self.is_congested()
                && let Some(event) = self.take_line()
            {
                return event;
            }
            let (congested, flushed) = (self.is_congested(), self.is_flushed());
            match self.wait(deadline, handles) {
                Waited::Out => return Event::Tick,
                Waited::Child => return Event::Child,
                Waited::In => {}
            }
            if (congested && !self.is_congested()) || (!flushed && self.is_flushed()) {
                return Event::Sent;
            }
        }
    }

    /// The next event that a call posts, while replies that wait are still written; `None` at the deadline.
    pub(crate) fn next_posted(&mut self, deadline: Instant) -> Option<Event> {
        self.input = Input::Ended;
        loop {
            if let Ok(event) = self.posted.try_recv() {
                return Some(event);
            }
            if matches!(self.wait(Some(deadline), &[]), Waited::Out) {
                return None;
            }
        }
    }

    fn take_line(&mut self) -> Option<Event> {
        if let Some(line) = self.lines.next() {
            return Some(Event::Line(line));
        }
        match self.input {
            Input::Open | Input::Ended => None,
            Input::Ending => {
                let last = self.lines.finish().map(Event::Line);
                if last.is_none() {
                    self.input = Input::Ended;
                }
                Some(last.unwrap_or(Event::Eof))
            }
        }
    }

    /// Polls once and does what became possible.
    fn wait(&mut self, deadline: Option<Instant>, handles: &[BorrowedFd]) -> Waited {
        let patience = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if patience.is_some_and(|patience| patience.is_zero()) {
            return Waited::Out;
        }
        let room = if self.is_flushed() { PollFlags::empty() } else { PollFlags::OUT };
        let interest = Interest {
            stdin: matches!(self.input, Input::Open) && !self.is_congested(),
            // A lost client is noticed while idle, and then would be reported for ever.
            stdout: (!self.output.lost).then_some(room),
        };
        let ready = match self.poller.wait(&self.wake, interest, handles, patience) {
            Ok(Some(ready)) => ready,
            Ok(None) => return Waited::Out,
            Err(_) => return Waited::In,
        };
        if ready.woken {
            let mut bytes = [0; 64];
            while matches!((&self.wake).read(&mut bytes), Ok(64)) {}
            self.woken = true;
        }
        if ready.stdout.intersects(PollFlags::ERR | PollFlags::NVAL)
            || (ready.stdout.contains(PollFlags::HUP) && !ready.stdout.contains(PollFlags::OUT))
        {
            self.output.lost = true;
        } else if ready.stdout.contains(PollFlags::OUT) {
            self.output.flush(true);
        }
        if ready.stdin {
            self.read();
        }
        if ready.child { Waited::Child } else { Waited::In }
    }

    fn read(&mut self) {
        let space = self.lines.space(CHUNK);
        match rustix::io::read(stdin(), rustix::buffer::spare_capacity(space)) {
            Ok(1..) | Err(Errno::INTR | Errno::AGAIN) => {}
            Ok(0) | Err(_) => self.input = Input::Ending,
        }
    }
}

/// Replies on their way to the client.
struct Output {
    sink: Sink,
    lines: VecDeque<Vec<u8>>,
    /// Bytes of the first line that are written.
    written: usize,
    /// Bytes of all lines that are not.
    unsent: usize,
    lost: bool,
}

/// What stdout is, and so how it is written without blocking.
enum Sink {
    /// A pipe through a description of our own, which may be non-blocking.
    OwnPipe(File),
    /// A socket: non-blocking per call.
    Socket,
    /// Anything else. After poll reports room, so many bytes do not block.
    Other(usize),
}

impl Sink {
    fn of_stdout() -> Self {
        let kind = rustix::fs::fstat(stdout()).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::Socket) => Self::Socket,
            Ok(FileType::Fifo) => own_pipe().map_or(Self::Other(rustix::pipe::PIPE_BUF), Self::OwnPipe),
            Ok(FileType::RegularFile) => Self::Other(usize::MAX),
            _ => Self::Other(rustix::pipe::PIPE_BUF),
        }
    }
}

/// Linux opens a pipe anew by its path, with flags of its own; elsewhere, or without /proc, the next best way is taken.
fn own_pipe() -> Option<File> {
    if !cfg!(target_os = "linux") {
        return None;
    }
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open("/proc/self/fd/1", flags, Mode::empty()).ok().map(File::from)
}

impl Output {
    fn open() -> Self {
        Self { sink: Sink::of_stdout(), lines: VecDeque::new(), written: 0, unsent: 0, lost: false }
    }

    fn send(&mut self, line: Vec<u8>) {
        self.unsent += line.len();
        self.lines.push_back(line);
        if self.lines.len() == 1 {
            self.flush(false);
        }
    }

    /// Writes what fits. `ready` says that poll has just reported room.
    fn flush(&mut self, mut ready: bool) {
        while let Some(line) = self.lines.front() {
            let rest = line.get(self.written..).unwrap_or_default();
            match self.sink.write(rest, std::mem::take(&mut ready)) {
                Ok(count) => {
                    self.unsent -= count;
                    self.written += count;
                    if self.written == line.len() {
                        self.lines.pop_front();
                        self.written = 0;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.lost = true;
                    return;
                }
            }
        }
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8], ready: bool) -> io::Result<usize> {
        match self {
            Self::OwnPipe(pipe) => pipe.write(bytes),
            Self::Socket => Ok(rustix::net::send(stdout(), bytes, SendFlags::DONTWAIT)?),
            Self::Other(most) => {
                if !ready && !has_room() {
                    return Err(ErrorKind::WouldBlock.into());
                }
                let bytes = bytes.get(..*most).unwrap_or(bytes);
                Ok(rustix::io::write(stdout(), bytes)?)
            }
        }
    }
}

fn has_room() -> bool {
    let mut fds = [PollFd::from_borrowed_fd(stdout(), PollFlags::OUT)];
    let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    matches!(ready, Ok(1)) && fds.iter().all(|fd| fd.revents().contains(PollFlags::OUT))
}

/// Writes a line to stderr if that does not block. Nobody may be reading it.
pub(crate) fn say(line: &str) {
    let mut fds = [PollFd::from_borrowed_fd(stderr(), PollFlags::OUT)];
    let ready = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    if matches!(ready, Ok(1)) {
        let bytes = line.as_bytes();
        let _ = rustix::io::write(stderr(), bytes.get(..rustix::pipe::PIPE_BUF).unwrap_or(bytes));
    }
}

/// Calls `act` at the first SIGTERM, SIGINT or SIGHUP, for work without a server.
pub(crate) fn on_signal(act: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (mut wake, waker) = UnixStream::pair()?;
    for number in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(number, waker.try_clone()?)?;
    }
    let wait = move || drop(wake.read_exact(&mut [0]).map(|()| act()));
    std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}
