//! The one wait of the server's thread, for stdin, stdout and wake-ups. On Linux they stay registered with an epoll, so
//! that a wait does not announce each of them anew. All are polled where epoll refuses one, as it does a file, and while
//! a child is waited for, too.

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(target_os = "linux")]
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};

/// What is waited for, wake-ups aside.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Interest {
    /// More input.
    pub(super) stdin: bool,
    /// Room; without it, only errors and hang-ups are reported, and not even those of a stdout that is lost.
    pub(super) stdout: Option<PollFlags>,
}

/// What a wait brought.
#[derive(Clone, Copy)]
pub(super) struct Ready {
    pub(super) woken: bool,
    pub(super) stdin: bool,
    pub(super) stdout: PollFlags,
    pub(super) child: bool,
}

/// Waits.
pub(super) struct Poller {
    #[cfg(target_os = "linux")]
    epoll: Option<epoll::Registered>,
}

impl Poller {
    #[cfg(target_os = "linux")]
    pub(super) fn new(wake: &UnixStream) -> Self {
        Self { epoll: epoll::Registered::new(wake).ok() }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn new(_: &UnixStream) -> Self {
        Self {}
    }

    /// Waits until something is ready, one of a child's handles among it; `None` after `patience`.
    pub(super) fn wait(
        &mut self,
        wake: &UnixStream,
        interest: Interest,
        handles: &[BorrowedFd],
        patience: Option<Duration>,
    ) -> io::Result<Option<Ready>> {
        let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
        #[cfg(target_os = "linux")]
        if let Some(epoll) = self.epoll.as_mut().filter(|_| handles.is_empty()) {
            match epoll.wait(interest, timeout.as_ref()) {
                Err(error) if error != Errno::INTR => self.epoll = None,
                ready => return Ok(ready?),
            }
        }
        let none = PollFlags::empty();
        let mut fds = Vec::with_capacity(3 + handles.len());
        fds.push(PollFd::new(wake, PollFlags::IN));
        fds.extend(interest.stdout.map(|flags| PollFd::from_borrowed_fd(stdout(), flags)));
        fds.extend(interest.stdin.then(|| PollFd::from_borrowed_fd(stdin(), PollFlags::IN)));
        fds.extend(handles.iter().map(|&handle| PollFd::from_borrowed_fd(handle, PollFlags::IN)));
        if poll(&mut fds, timeout.as_ref())? == 0 {
            return Ok(None);
        }
        let mut found = fds.iter().map(PollFd::revents);
        let mut next = |is_asked: bool| if is_asked { found.next().unwrap_or(none) } else { none };
        let (woken, stdout, stdin) = (next(true), next(interest.stdout.is_some()), next(interest.stdin));
        let child = found.any(|flags| !flags.is_empty());
        Ok(Some(Ready { woken: !woken.is_empty(), stdin: !stdin.is_empty(), stdout, child }))
    }
}

#[cfg(target_os = "linux")]
mod epoll {
    use std::os::fd::{BorrowedFd, OwnedFd};

    use rustix::buffer::spare_capacity;
    use rustix::event::epoll::{CreateFlags, Event, EventData, EventFlags, add, create, delete, modify, wait};
    use rustix::io;

    use super::{Interest, PollFlags, Ready, Timespec, UnixStream, stdin, stdout};

    const WAKE: u64 = 0;
    const STDOUT: u64 = 1;
    const STDIN: u64 = 2;

    /// The three of them with the kernel.
    pub(super) struct Registered {
        epoll: OwnedFd,
        interest: Interest,
        events: Vec<Event>,
    }

    impl Registered {
        pub(super) fn new(wake: &UnixStream) -> io::Result<Self> {
            let epoll = create(CreateFlags::CLOEXEC)?;
            add(&epoll, wake, EventData::new_u64(WAKE), EventFlags::IN)?;
            add(&epoll, stdout(), EventData::new_u64(STDOUT), EventFlags::empty())?;
            add(&epoll, stdin(), EventData::new_u64(STDIN), EventFlags::IN)?;
            let interest = Interest { stdin: true, stdout: Some(PollFlags::empty()) };
            Ok(Self { epoll, interest, events: Vec::with_capacity(3) })
        }

        pub(super) fn wait(&mut self, interest: Interest, timeout: Option<&Timespec>) -> io::Result<Option<Ready>> {
            if self.interest != interest {
                let wants_input = |interest: Interest| interest.stdin.then_some(PollFlags::IN);
                self.change(stdin(), STDIN, wants_input(self.interest), wants_input(interest))?;
                self.change(stdout(), STDOUT, self.interest.stdout, interest.stdout)?;
                self.interest = interest;
            }
            wait(&self.epoll, spare_capacity(&mut self.events), timeout)?;
            if self.events.is_empty() {
                return Ok(None);
            }
            let mut ready = Ready { woken: false, stdin: false, stdout: PollFlags::empty(), child: false };
            for event in self.events.drain(..) {
                match event.data.u64() {
                    WAKE => ready.woken = true,
                    STDIN => ready.stdin = true,
                    _ => ready.stdout = to_poll(event.flags),
                }
            }
            Ok(Some(ready))
        }

        /// Hang-ups are reported of all that is registered, so what nobody asks for must go.
        fn change(&self, fd: BorrowedFd, name: u64, from: Option<PollFlags>, to: Option<PollFlags>) -> io::Result<()> {
            let name = EventData::new_u64(name);
            match (from, to) {
                _ if from == to => Ok(()),
                (None, Some(flags)) => add(&self.epoll, fd, name, to_epoll(flags)),
                (_, Some(flags)) => modify(&self.epoll, fd, name, to_epoll(flags)),
                (_, None) => delete(&self.epoll, fd),
            }
        }
    }

    // The two share the bits of their flags.
    fn to_epoll(flags: PollFlags) -> EventFlags {
        EventFlags::from_bits_truncate(flags.bits().into())
    }

    fn to_poll(flags: EventFlags) -> PollFlags {
        PollFlags::from_bits_truncate(flags.bits().try_into().unwrap_or_default())
    }
}
