//! A child and all it starts, as a job object. There is no polite request to end: a stop kills.

use std::fs::File;
use std::io::{self, Read};
use std::os::windows::io::BorrowedHandle;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use process_wrap::std::{ChildWrapper, CommandWrap, JobObject};

use super::{Drained, Output};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A running child. Dropped while it runs, it is killed with its job.
pub(crate) struct Tree {
    child: Box<dyn ChildWrapper>,
    pieces: Receiver<Piece>,
    /// Pipes that have not ended.
    open: usize,
    status: Option<ExitStatus>,
}

enum Piece {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    End,
}

/// What can be waited for.
pub(crate) type Handle<'a> = BorrowedHandle<'a>;

impl Tree {
    /// Starts a command whose stdio is set, in a new job.
    pub(crate) fn spawn(command: Command) -> io::Result<Self> {
        let mut child = CommandWrap::from(command).wrap(JobObject).spawn()?;
        let (sender, pieces) = sync_channel(4);
        let (stdout, stderr) = (child.stdout().take(), child.stderr().take());
        let tree = Self { child, pieces, open: 2, status: None };
        read_all(stdout, sender.clone(), Piece::Stdout)?;
        read_all(stderr, sender, Piece::Stderr)?;
        Ok(tree)
    }

    /// Waits at most `patience` for output and takes what is there.
    pub(crate) fn drain(&mut self, output: &mut Output, patience: Duration) -> Drained {
        if self.open == 0 {
            return Drained::Ended;
        }
        match self.pieces.recv_timeout(patience) {
            Ok(Piece::Stdout(bytes)) => output.stdout.extend_from_slice(&bytes),
            Ok(Piece::Stderr(bytes)) => {
                output.stderr.buffer().extend_from_slice(&bytes);
                output.stderr.trim();
            }
            Ok(Piece::End) => self.open -= 1,
            Err(RecvTimeoutError::Timeout) => return Drained::Nothing,
            Err(RecvTimeoutError::Disconnected) => self.open = 0,
        }
        if self.open == 0 { Drained::Ended } else { Drained::Some }
    }

    /// Its output comes from threads: there is nothing else to wait for.
    #[expect(clippy::unused_self, reason = "the name that the other has")]
    pub(crate) fn handles(&mut self) -> Vec<Handle<'_>> {
        Vec::new()
    }

    /// Whether the child itself has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        !matches!(self.wait(Duration::ZERO), Ok(None))
    }

    /// Waits at most `patience` for the child's end. Its handle stays open, so that its number stays its own.
    pub(crate) fn wait(&mut self, patience: Duration) -> io::Result<Option<ExitStatus>> {
        let until = Instant::now() + patience;
        loop {
            if self.status.is_none() {
                self.status = self.child.try_wait()?;
            }
            if self.status.is_some() || Instant::now() >= until {
                return Ok(self.status);
            }
            thread::park_timeout(Duration::from_millis(1));
        }
    }

    /// Ends the whole job.
    pub(crate) fn terminate(&mut self) {
        drop(self.child.start_kill());
    }

    /// Ends the whole job and waits for the child.
    pub(crate) fn kill(&mut self) -> Option<ExitStatus> {
        self.terminate();
        self.wait(Duration::from_secs(1)).ok().flatten()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.kill();
        }
    }
}

/// Directories cannot be locked.
pub(crate) fn open_directory(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing looks without asking the disk.
pub(crate) fn look_up(_: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn read_all(
    pipe: Option<impl Read + Send + 'static>,
    sender: SyncSender<Piece>,
    wrap: fn(Vec<u8>) -> Piece,
) -> io::Result<()> {
    thread::Builder::new().name("drain".into()).spawn(move || {
        let Some(mut pipe) = pipe else { return };
        let mut bytes = vec![0; CHUNK];
        loop {
            match pipe.read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break drop(sender.send(Piece::End)),
                Ok(count) => {
                    let piece = bytes.get(..count).unwrap_or_default().to_vec();
                    if sender.send(wrap(piece)).is_err() {
                        break;
                    }
                }
            }
        }
    })?;
    Ok(())
}
