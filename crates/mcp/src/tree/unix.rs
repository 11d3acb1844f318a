//! A child and all it starts, as a process group.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, ResolveFlags, StatxFlags};
use rustix::fs::{Mode, OFlags};
#[cfg(target_os = "linux")]
use rustix::process::PidfdFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use wait_timeout::ChildExt;

use super::{Drained, Output};

/// Bytes read at once, as much as a pipe holds.
const CHUNK: usize = 64 * 1024;

/// A running child. Dropped while it runs, it is killed with its group.
pub(crate) struct Tree {
    child: Child,
    group: Option<Pid>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    reaped: bool,
    /// Becomes readable when the child ends; opened when its pipes have ended.
    end: Option<OwnedFd>,
}

/// What can be polled.
pub(crate) type Handle<'a> = BorrowedFd<'a>;

impl Tree {
    /// Starts a command whose stdio is set, as the leader of a new group.
    pub(crate) fn spawn(mut command: Command) -> io::Result<Self> {
        own_sigchld();
        let mut child = command.process_group(0).spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Self { child, group, stdout, stderr, reaped: false, end: None })
    }

    /// Waits at most `patience` for output and takes what is there.
    pub(crate) fn drain(&mut self, output: &mut Output, patience: Duration) -> Drained {
        let (mut out_ready, mut err_ready) = (false, false);
        {
            let mut fds = Vec::with_capacity(2);
            fds.extend(self.stdout.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            fds.extend(self.stderr.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
            if fds.is_empty() {
                return Drained::Ended;
            }
            let timeout = Timespec::try_from(patience).ok();
            // An interrupted poll is an empty one: the caller comes back.
            if poll(&mut fds, timeout.as_ref()).is_ok_and(|ready| ready > 0) {
                let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
                out_ready = self.stdout.is_some() && ready.next().unwrap_or(false);
                err_ready = self.stderr.is_some() && ready.next().unwrap_or(false);
            }
        }
        if out_ready {
            make_room(&mut output.stdout);
            let taken = self
                .stdout
                .as_ref()
                .map(|pipe| rustix::io::read(pipe, rustix::buffer::spare_capacity(&mut output.stdout)));
            close_at_end(&mut self.stdout, taken);
        }
        if err_ready {
            let bytes = output.stderr.buffer();
            make_room(bytes);
            let taken = self.stderr.as_ref().map(|pipe| rustix::io::read(pipe, rustix::buffer::spare_capacity(bytes)));
            output.stderr.trim();
            close_at_end(&mut self.stderr, taken);
        }
        match (out_ready || err_ready, self.stdout.is_some() || self.stderr.is_some()) {
            (_, false) => Drained::Ended,
            (true, true) => Drained::Some,
            (false, true) => Drained::Nothing,
        }
    }

    /// What is waited for next: output, or the child's end after it.
    pub(crate) fn handles(&mut self) -> Vec<Handle<'_>> {
        if self.stdout.is_none() && self.stderr.is_none() {
            return self.end().into_iter().collect();
        }
        let pipes = [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)];
        pipes.into_iter().flatten().collect()
    }

    /// Whether the child itself has ended. It is not reaped, so its group's number stays its own.
    pub(crate) fn has_ended(&mut self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match self.group {
            Some(pid) if !self.reaped => !matches!(rustix::process::waitid(WaitId::Pid(pid), options), Ok(None)),
            _ => true,
        }
    }

    /// Waits at most `patience` for the child's end, and reaps it.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        // It has mostly ended already, and asking that first is much the cheaper way.
        let status = match self.child.try_wait() {
            Ok(None) if self.await_end(patience) => self.child.try_wait(),
            Ok(None) => self.child.wait_timeout(patience),
            ended => ended,
        };
        self.reaped |= !matches!(status, Ok(None));
        status
    }

    /// Waits for the child's end without any signal, where the system can. A handler of SIGCHLD would interrupt the
    /// server's own thread at the end of every child.
    fn await_end(&mut self, patience: Duration) -> bool {
        let Some(end) = self.end() else { return false };
        // At the deadline, or when interrupted, the caller finds it running still and comes back.
        let timeout = Timespec::try_from(patience).ok();
        let _ = poll(&mut [PollFd::from_borrowed_fd(end, PollFlags::IN)], timeout.as_ref());
        true
    }

    #[cfg(target_os = "linux")]
    fn end(&mut self) -> Option<BorrowedFd<'_>> {
        if self.end.is_none() {
            self.end = self.group.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok());
        }
        self.end.as_ref().map(AsFd::as_fd)
    }

    #[cfg(not(target_os = "linux"))]
    fn end(&self) -> Option<BorrowedFd<'_>> {
        self.end.as_ref().map(AsFd::as_fd)
    }

    /// Asks the whole group to end.
    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
    }

    /// Kills the whole group and reaps the child.
    pub(crate) fn kill(&mut self) -> Option<ExitStatus> {
        self.signal(Signal::KILL);
        let status = self.child.wait().ok();
        self.reaped = true;
        status
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group.filter(|_| !self.reaped) {
            // It fails only when nothing is left to signal.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
        }
    }
}

/// Opens a directory, to lock it. Anything else fails at once: a named pipe would wait for its other end.
pub(crate) fn open_directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Looks a path up and fails where that, or a use of what is found, may have to wait for a disk, for a network, or for
/// the program behind a file system.
#[cfg(target_os = "linux")]
pub(crate) fn look_up(path: &Path) -> io::Result<()> {
    let file = rustix::fs::openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::CACHED)?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let found = rustix::fs::statx(file, c"", flags, StatxFlags::MNT_ID)?;
    if is_local(found.stx_mnt_id) { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Elsewhere nothing tells.
#[cfg(not(target_os = "linux"))]
pub(crate) fn look_up(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether a mount, by its number, is one of a kind that the kernel itself keeps on this machine. What is mounted after
/// the first question is not.
#[cfg(target_os = "linux")]
fn is_local(mount: u64) -> bool {
    const KINDS: [&str; 11] =
        ["bcachefs", "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"];
    static LOCAL: OnceLock<Vec<u64>> = OnceLock::new();
    // Number first, and behind a lone dash the kind: proc_pid_mountinfo(5).
    let number = |line: &str| {
        let (head, tail) = line.split_once(" - ")?;
        let is_local = tail.split(' ').next().is_some_and(|kind| KINDS.contains(&kind));
        head.split(' ').next().filter(|_| is_local)?.parse().ok()
    };
    let read =
        || std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default().lines().filter_map(number).collect();
    LOCAL.get_or_init(read).contains(&mount)
}

/// A parent may have left SIGCHLD ignored, and that is inherited: the system would reap children behind our back, and
/// the handler of `wait-timeout` would call the address that stands for "ignored". Any handler of ours undoes both.
fn own_sigchld() {
    static OWNED: Once = Once::new();
    OWNED.call_once(|| {
        if is_sigchld_ignored() {
            // It fails only for signals that no process may handle.
            drop(signal_hook::flag::register(signal_hook::consts::SIGCHLD, Arc::default()));
        }
    });
}

/// Linux tells; where nothing does, it is taken to be.
fn is_sigchld_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("SigIgn:")?.trim(), 16).ok());
    mask.is_none_or(|mask| mask >> (signal_hook::consts::SIGCHLD - 1) & 1 == 1)
}

/// Keeps a buffer that has room as it is: the read that only finds the end needs none.
fn make_room(buffer: &mut Vec<u8>) {
    if buffer.capacity() - buffer.len() < CHUNK / 4 {
        buffer.reserve(CHUNK);
    }
}

fn close_at_end<T>(pipe: &mut Option<T>, taken: Option<rustix::io::Result<usize>>) {
    use rustix::io::Errno;
    if !matches!(taken, Some(Ok(1..) | Err(Errno::INTR | Errno::AGAIN))) {
        *pipe = None;
    }
}
