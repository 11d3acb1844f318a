//! The public surface: what `tools/list` says in each revision, as files that a review sees change.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{LEGACY, MODERN, Server, Setup};

/// Every client reads the list before it does anything, and some pay for it with each request.
const MAX_LIST: usize = 12_000;

/// The result of `tools/list`, and the bytes of the line it came in.
fn list(server: &mut Server, revision: &str) -> (Value, usize) {
    let response = if revision == MODERN {
        server.modern("tools/list", json!({}))
    } else {
        server.handshake(revision);
        server.request("tools/list", json!({}))
    };
    (server.result_of(response), server.last_line().len())
}

/// Lines taken out and put in, each with what stands around it.
fn difference(old: &str, new: &str) -> String {
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    // The longest common run of lines of each pair of tails.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for o in (0..old.len()).rev() {
        for n in (0..new.len()).rev() {
            common[o][n] =
                if old[o] == new[n] { common[o + 1][n + 1] + 1 } else { common[o + 1][n].max(common[o][n + 1]) };
        }
    }
    let (mut o, mut n) = (0, 0);
    let mut lines = Vec::new();
    while o < old.len() || n < new.len() {
        if o < old.len() && n < new.len() && old[o] == new[n] {
            lines.push((' ', old[o]));
            (o, n) = (o + 1, n + 1);
        } else if o < old.len() && (n == new.len() || common[o + 1][n] >= common[o][n + 1]) {
            lines.push(('-', old[o]));
            o += 1;
        } else {
            lines.push(('+', new[n]));
            n += 1;
        }
    }
    let is_near = |index: usize| {
        let near = lines.iter().skip(index.saturating_sub(3)).take(7.min(index + 4));
        near.into_iter().any(|(mark, _)| *mark != ' ')
    };
    let mut shown = String::new();
    for index in (0..lines.len()).filter(|&index| is_near(index)) {
        let (mark, line) = lines[index];
        writeln!(shown, "{mark} {line}").expect("a string takes all");
    }
    shown
}

#[track_caller]
fn holds(revision: &str) {
    let mut server = Setup::stub("").start();
    let (mut result, _) = list(&mut server, revision);
    if let Some(version) = result.pointer_mut("/_meta/io.modelcontextprotocol~1serverInfo/version") {
        *version = "...".into();
    }
    let new = format!("{result:#}\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts").join(revision).join("tools.json");
    if env::var_os("UPDATE_SNAPSHOTS").is_some_and(|value| value == "1") {
        fs::write(&path, &new).expect("a snapshot can be written");
    }
    let old = fs::read_to_string(&path).unwrap_or_default().replace("\r\n", "\n");
    assert!(
        old == new,
        "tools/list of {revision} is no longer {}:\n{}\nIf that is meant, run the tests with UPDATE_SNAPSHOTS=1 and commit the file.",
        path.display(),
        difference(&old, &new)
    );
}

#[test]
fn the_list_of_2026_07_28_is_as_committed() {
    holds(MODERN);
}

#[test]
fn the_list_of_2025_11_25_is_as_committed() {
    holds(LEGACY[0]);
}

#[test]
fn the_list_of_2025_06_18_is_as_committed() {
    holds(LEGACY[1]);
}

#[test]
fn the_list_of_2025_03_26_is_as_committed() {
    holds(LEGACY[2]);
}

#[test]
fn the_list_of_2024_11_05_is_as_committed() {
    holds(LEGACY[3]);
}

#[test]
fn the_list_stays_small_in_every_revision() {
    for revision in LEGACY.into_iter().chain([MODERN]) {
        let (_, length) = list(&mut Setup::stub("").start(), revision);
        assert!(length < MAX_LIST, "tools/list of {revision} takes {length} bytes of {MAX_LIST}");
    }
}

#[test]
fn a_difference_shows_what_went_and_what_came() {
    let old = "a\nb\nc\nd\ne\nf\ng\nh\ni";
    let new = "a\nb\nc\nd\nX\nf\ng\nh\ni";
    assert_eq!(difference(old, new), "  b\n  c\n  d\n- e\n+ X\n  f\n  g\n  h\n");
    assert_eq!(difference("", "a"), "+ a\n");
    assert_eq!(difference(old, old), "");
}
