//! What the fuzz targets reach of the private modules: bytes in, lines and texts out. Compiled for them alone.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::LazyLock;
use std::sync::mpsc::channel;

use crate::config::{self, Config, MAX_EXCERPT, MAX_NOTE};
use crate::envelope::{self, Envelope};
use crate::revision::REVISIONS;
use crate::rpc::Id;
use crate::transport::Transport;
use crate::{clean, reply, server};

/// The lines that a server writes to some input, which it reads in these chunks. Its directory does not exist, so that
/// a call is answered without a child.
#[must_use]
pub fn serve(chunks: impl IntoIterator<Item = Vec<u8>>) -> Vec<Vec<u8>> {
    static CONFIG: LazyLock<Option<Config>> = LazyLock::new(|| {
        let matches = config::command().try_get_matches_from(["fz-mcp", "--cwd", "/dev/null/venture"]).ok()?;
        Config::read(&matches).ok()
    });
    let Some(config) = &*CONFIG else { return Vec::new() };
    let (output, lines) = channel();
    server::run(config.clone(), Transport::over(chunks, output));
    lines.into_iter().collect()
}

/// The line that answers a call whose child wrote this and ended with a wait status, under each revision; and whether
/// its output was taken for an envelope.
#[must_use]
pub fn answers(stdout: &[u8], stderr: &[u8], status: i32) -> (bool, Vec<Vec<u8>>) {
    let read = Envelope::read(stdout.to_vec());
    let is_one = read.is_ok();
    let envelope =
        read.unwrap_or_else(|not| envelope::no_json("fz", &not, stderr, Some(ExitStatus::from_raw(status))).into());
    let Some(id) = serde_json::from_str("7").ok().and_then(Id::read) else { return (is_one, Vec::new()) };
    (is_one, REVISIONS.iter().map(|revision| reply::call(revision, &id, &envelope)).collect())
}

/// The end of some text, and its last line, as the server quotes them; and how long each may be, in characters.
#[must_use]
pub fn quoted(text: &[u8]) -> [(String, usize); 2] {
    let last_line = clean::last_line(text, MAX_NOTE).unwrap_or_default();
    [(clean::excerpt(text, MAX_EXCERPT), MAX_EXCERPT), (last_line, MAX_NOTE)]
}
