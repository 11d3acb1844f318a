//! Plays the conversations in `tests/transcripts`. The README there describes their form.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::support::{LEGACY, MODERN, OK, Server, Setup, alive, ids, wait_for, wait_until};

const ANY_SESSION: &str = "any-session";
const NO_SESSION: &str = "no-session";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn is_transcript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "txt")
}

/// Plays every conversation of a directory and tells of all that went otherwise than written.
fn play(directory: &str, revision: &str) {
    let mut failures = Vec::new();
    let mut played = 0;
    for path in files(&root().join(directory)) {
        if !is_transcript(&path) {
            continue;
        }
        let text = fs::read_to_string(&path).expect("a transcript is text").replace("{revision}", revision);
        let name = format!("crates/mcp/tests/transcripts/{directory}/{}", path.file_name().expect("a name").display());
        let talks = conversations(&text);
        assert_eq!(talks.len(), text.lines().filter(|line| line.starts_with("== ")).count(), "{name}");
        assert!(!talks.is_empty(), "{name} holds no conversation");
        for talk in talks {
            played += 1;
            let at = Cell::new(talk[0].0);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| Conversation::new(&at).play(&talk))) {
                let why = panic.downcast_ref::<String>().cloned();
                let why = why.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                let title = talk[0].1.trim_start_matches("== ");
                failures.push(format!("{name}:{}: {title} ({revision})\n{}", at.get(), why.unwrap_or_default()));
            }
        }
    }
    assert!(played > 0, "{directory} holds no transcript");
    assert!(failures.is_empty(), "{} of {played} went otherwise:\n\n{}\n", failures.len(), failures.join("\n\n"));
}

/// Lines with their numbers, comments left out, cut at the headings.
fn conversations(text: &str) -> Vec<Vec<(usize, &str)>> {
    let mut talks: Vec<Vec<(usize, &str)>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with("== ") {
            talks.push(Vec::new());
        }
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        talks.last_mut().unwrap_or_else(|| panic!("line {}: before any heading", index + 1)).push((index + 1, line));
    }
    talks
}

struct Conversation<'a> {
    /// The line being played, for whoever has to say where it failed.
    at: &'a Cell<usize>,
    /// Such lines may come at any time.
    meanwhile: Option<&'a str>,
    never: Vec<&'a str>,
    signalled: bool,
    /// The last progress of each token.
    progress: HashMap<String, f64>,
}

impl<'a> Conversation<'a> {
    fn new(at: &'a Cell<usize>) -> Self {
        Self { at, meanwhile: None, never: Vec::new(), signalled: false, progress: HashMap::new() }
    }

    fn play(mut self, talk: &[(usize, &'a str)]) {
        if cfg!(not(unix)) && talk.iter().any(|(_, line)| line.starts_with("@signal")) {
            eprintln!("skipped, since only Unix has signals: {}", talk[0].1);
            return;
        }
        assert!(talk.iter().any(|(_, line)| line.starts_with('>')), "nothing is sent");
        let setup = talk.iter().take_while(|(_, line)| line.starts_with("== ") || line.starts_with("@child "));
        let setup = setup.count();
        let mut server = start(&talk[1..setup]);

        let mut rest = &talk[setup..];
        while let Some(&(number, line)) = rest.first() {
            self.at.set(number);
            let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
            // A group is as long as the lines with its mark.
            let length = if matches!(mark, "<*" | "<[") {
                rest.iter().take_while(|(_, line)| line.starts_with(&format!("{mark} "))).count()
            } else {
                1
            };
            let group = rest[..length].iter().map(|(_, line)| line[mark.len()..].trim_start()).collect();
            rest = &rest[length..];
            match mark {
                ">" => server.send(expanded(text)),
                ">=" => server.send_raw(expanded(text)),
                ">hex" => server.send_raw(bytes(text)),
                "<" => self.expect(&mut server, text),
                "<*" => self.expect_all(&mut server, group),
                "<[" => self.expect_array(&mut server, group),
                "<+" => {
                    self.expect(&mut server, text);
                    self.meanwhile = Some(text);
                }
                _ => self.direct(&mut server, mark, text),
            }
        }

        server.eof();
        if let Some(line) = self.next(&mut server) {
            panic!("a line that nothing expects:\n  {line}");
        }
        let status = server.wait_exit();
        assert!(self.signalled || status.success(), "{status}");
        for name in self.never {
            assert!(!server.event(name).exists(), "{name} was written, so a program was run");
        }
    }

    fn direct(&mut self, server: &mut Server, mark: &str, text: &'a str) {
        match mark {
            "@session" => {
                server.handshake(text);
            }
            "@give" => server.give(text),
            "@await" => {
                wait_for(&server.event(text));
            }
            "@gone" => {
                let (process, _) = ids(&server.event(text));
                wait_until("the child is gone", || !alive(process));
            }
            "@never" => self.never.push(text),
            "@eof" => server.eof(),
            "@exit" => {
                assert!(self.next(server).is_none());
                server.wait_exit();
            }
            #[cfg(unix)]
            "@signal" => {
                self.signalled = true;
                server.signal(match text {
                    "TERM" => rustix::process::Signal::TERM,
                    "INT" => rustix::process::Signal::INT,
                    _ => panic!("no such signal: {text}"),
                });
            }
            _ => panic!("no line of a transcript: {mark} {text}"),
        }
    }

    /// The next line as the server wrote it, without what may come meanwhile; nothing at the end.
    fn next(&mut self, server: &mut Server) -> Option<String> {
        loop {
            let line = server.next_line()?;
            self.check_progress(&line);
            if !self.meanwhile.is_some_and(|pattern| matches(pattern, &line)) {
                return Some(line);
            }
        }
    }

    fn must_come(&mut self, server: &mut Server, patterns: &[&str]) -> String {
        let line = self.next(server);
        line.unwrap_or_else(|| panic!("the server closed its stdout and owes\n  {}", patterns.join("\n  ")))
    }

    fn expect(&mut self, server: &mut Server, pattern: &str) {
        let line = self.must_come(server, &[pattern]);
        assert!(matches(pattern, &line), "  expected {pattern}\n  received {line}");
    }

    fn expect_all(&mut self, server: &mut Server, mut patterns: Vec<&str>) {
        while !patterns.is_empty() {
            let line = self.must_come(server, &patterns);
            strike(&mut patterns, &line);
        }
    }

    fn expect_array(&mut self, server: &mut Server, mut patterns: Vec<&str>) {
        let line = self.must_come(server, &patterns);
        let members: Vec<&RawValue> =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("  expected an array\n  received {line}"));
        for member in members {
            strike(&mut patterns, member.get());
        }
        assert!(patterns.is_empty(), "missing\n  {}\nin\n  {line}", patterns.join("\n  "));
    }

    fn check_progress(&mut self, line: &str) {
        let message: serde_json::Value = serde_json::from_str(line).expect("a line is JSON");
        if message["method"] != "notifications/progress" {
            return;
        }
        let progress = message["params"]["progress"].as_f64().expect("progress is a number");
        let before = self.progress.insert(message["params"]["progressToken"].to_string(), progress);
        assert!(before.is_none_or(|before| before < progress), "progress does not grow: {line}");
    }
}

/// Takes the pattern that a line satisfies off the list.
fn strike(patterns: &mut Vec<&str>, line: &str) {
    let found = patterns.iter().position(|pattern| matches(pattern, line));
    let found = found.unwrap_or_else(|| panic!("  expected {}\n  received {line}", patterns.join("\n        or ")));
    patterns.remove(found);
}

/// A server over the stub: `@child VERB STEP` adds to the script of one verb, `@child * STEP` to that of all others.
fn start(setup: &[(usize, &str)]) -> Server {
    let mut scripts: Vec<(&str, String)> = Vec::new();
    for (_, line) in setup {
        let (verb, step) = line["@child ".len()..].split_once(' ').expect("@child VERB STEP");
        match scripts.iter_mut().find(|(known, _)| *known == verb) {
            Some((_, script)) => script.extend(["\n", step]),
            None => scripts.push((verb, step.to_owned())),
        }
    }
    let all = scripts.iter().find(|(verb, _)| *verb == "*").map_or(OK, |(_, script)| script);
    let mut setup = Setup::stub(all);
    for (verb, script) in scripts.iter().filter(|(verb, _)| *verb != "*") {
        setup = setup.script(verb, script);
    }
    setup.start()
}

/// `<x*1000>` in a line that is sent stands for a thousand times x.
fn expanded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        let run = after.split_once('>').and_then(|(run, tail)| {
            let (unit, count) = run.rsplit_once('*')?;
            Some((unit.repeat(count.parse().ok()?), tail))
        });
        out += before;
        let (run, tail) = run.unwrap_or_else(|| ("<".to_owned(), after));
        out += &run;
        rest = tail;
    }
    out + rest
}

fn bytes(text: &str) -> Vec<u8> {
    let pairs = text.split_ascii_whitespace();
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("no byte: {pair}"))).collect()
}

/// Whether a line is as written. `...` stands for any characters within a string, for any one value outside of strings,
/// and alone in the brackets of an object or an array for whatever they hold; all else stands for itself.
fn matches(pattern: &str, line: &str) -> bool {
    fits(pattern.as_bytes(), line.as_bytes(), false)
}

fn fits(mut pattern: &[u8], mut line: &[u8], mut in_string: bool) -> bool {
    loop {
        if let Some(rest) = pattern.strip_prefix(b"...") {
            return if in_string { fits_within_string(rest, line) } else { skip_value(line, rest) };
        }
        if !in_string && (pattern.starts_with(b"{...}") || pattern.starts_with(b"[...]")) {
            return pattern.first() == line.first() && skip_value(line, &pattern[5..]);
        }
        match (pattern, line) {
            ([], []) => return true,
            ([wanted, ..], [given, ..]) if wanted == given => {
                let width = if in_string && *wanted == b'\\' { 2 } else { 1 };
                if pattern.len() < width || pattern.get(..width) != line.get(..width) {
                    return false;
                }
                in_string ^= *wanted == b'"';
                (pattern, line) = (&pattern[width..], &line[width..]);
            }
            _ => return false,
        }
    }
}

fn fits_within_string(pattern: &[u8], mut line: &[u8]) -> bool {
    loop {
        if fits(pattern, line, true) {
            return true;
        }
        match line {
            [b'"', ..] | [] => return false,
            [b'\\', _, rest @ ..] | [_, rest @ ..] => line = rest,
        }
    }
}

fn skip_value(line: &[u8], pattern: &[u8]) -> bool {
    let mut values = serde_json::Deserializer::from_slice(line).into_iter::<IgnoredAny>();
    matches!(values.next(), Some(Ok(_))) && fits(pattern, &line[values.byte_offset()..], false)
}

#[test]
fn requests_that_name_their_own_revision() {
    play(MODERN, MODERN);
}

#[test]
fn sessions_of_2025_11_25() {
    play(LEGACY[0], LEGACY[0]);
}

#[test]
fn sessions_of_2025_06_18() {
    play(LEGACY[1], LEGACY[1]);
}

#[test]
fn sessions_of_2025_03_26() {
    play(LEGACY[2], LEGACY[2]);
}

#[test]
fn sessions_of_2024_11_05() {
    play(LEGACY[3], LEGACY[3]);
}

#[test]
fn what_holds_in_every_session() {
    for revision in LEGACY {
        play(ANY_SESSION, revision);
    }
}

#[test]
fn what_holds_before_any_session() {
    play(NO_SESSION, MODERN);
}

#[test]
fn no_transcript_lies_where_no_test_plays_it() {
    let played: Vec<_> = [ANY_SESSION, NO_SESSION, MODERN].into_iter().chain(LEGACY).collect();
    let mut seen = 0;
    for entry in files(&root()) {
        let name = entry.file_name().expect("a name").to_string_lossy().into_owned();
        if name == "README.md" {
            continue;
        }
        assert!(played.contains(&name.as_str()), "no test plays {name}");
        seen += 1;
        for file in files(&entry) {
            let name = file.file_name().expect("a name").to_string_lossy().into_owned();
            assert!(is_transcript(&file) || name == "tools.json", "no test reads {}", file.display());
        }
    }
    assert_eq!(seen, played.len(), "a directory of {played:?} is gone");
}

#[test]
fn a_pattern_stands_for_itself_but_for_its_dots() {
    for (pattern, line) in [
        (r#"{"a":"..."}"#, r#"{"a":"x\"y"}"#),
        (r#"{"a":"no ... here"}"#, r#"{"a":"no such thing here"}"#),
        (r#"{"a":...,"b":1}"#, r#"{"a":12.5,"b":1}"#),
        (r#"{"a":{...},"b":[...]}"#, r#"{"a":{"c":[1,2]},"b":[]}"#),
    ] {
        assert!(matches(pattern, line), "{pattern} against {line}");
    }
    for (pattern, line) in [
        (r#"{"a":"..."}"#, r#"{"a":"x","b":"y"}"#),
        (r#"{"a":"..."}"#, r#"{"a":1}"#),
        (r#"{"a":...}"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":{...}}"#, r#"{"a":[]}"#),
        (r#"{"id":7}"#, r#"{"id":"7"}"#),
        (r#"{"id":7}"#, r#"{"id":70}"#),
        (r#"{"id":7}"#, r#"{"id":7} "#),
    ] {
        assert!(!matches(pattern, line), "{pattern} against {line}");
    }
}
