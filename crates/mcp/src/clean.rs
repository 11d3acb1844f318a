//! What the wrapper quotes of other programs, made fit to show: no terminal sequences, no control characters, no
//! credential-shaped values, bounded. Pure. fz's own envelope never passes through here.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

const MASK: &str = "[redacted]";

/// Text without terminal sequences and control characters (tab and line feed stay), credential-shaped values masked.
pub(crate) fn clean(text: &str) -> String {
    // A carriage return before a line feed is an ending; alone it overwrote the line, and what it hid stays visible.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    // Line by line: a sequence that never ends must not take the lines after it along.
    let lines: Vec<_> = text.split('\n').map(|line| anstream::adapter::strip_str(line).to_string()).collect();
    let text = lines.join("\n");
    let text: String =
        text.chars().filter(|&c| matches!(c, '\t' | '\n') || !(c.is_control() || is_invisible(c))).collect();
    mask(text)
}

/// A name from outside, cleaned and short enough for a message.
pub(crate) fn name(name: &str) -> String {
    let start: String = name.chars().take(256).collect();
    clean(&start).chars().take(64).collect()
}

/// The end of `text`, cleaned, at most `most` characters, from the start of a line where it had to be cut.
pub(crate) fn excerpt(text: &[u8], most: usize) -> String {
    let text = clean(&String::from_utf8_lossy(end(text)));
    let text = text.trim_end().trim_start_matches('\n');
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().skip(length - most).collect();
    match kept.split_once('\n') {
        Some((_, lines)) if !lines.trim().is_empty() => lines.to_owned(),
        _ => kept,
    }
}

/// The last line of `text` that is not blank, cleaned, its first `most` characters.
pub(crate) fn last_line(text: &[u8], most: usize) -> Option<String> {
    let text = clean(&String::from_utf8_lossy(end(text)));
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    Some(line.chars().take(most).collect())
}

/// Cleaning costs time for each byte, and only the end is shown: whole lines of it, so that no secret is cut in two.
fn end(text: &[u8]) -> &[u8] {
    const ENOUGH: usize = 16 * 1024;
    let Some(end) = text.len().checked_sub(ENOUGH).and_then(|from| text.get(from..)) else { return text };
    let line = memchr::memchr(b'\n', end).and_then(|at| end.get(at..)).unwrap_or_default();
    if line.trim_ascii().is_empty() { end } else { line }
}

/// Format characters that change how the text around them is shown: bidirectional overrides, zero-width ones, tags.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{2069}' | '\u{FEFF}' | '\u{E0000}'..='\u{E007F}')
}

/// What a credential looks like. `hints` are in every text that can match, in lower case: without one the pattern is
/// not even built, which start-up and most excerpts are spared. The group `secret` is masked, the rest of a match stays.
struct Pattern {
    hints: &'static [&'static str],
    regex: LazyLock<Option<Regex>>,
}

macro_rules! pattern {
    ($hints:expr, $regex:expr) => {
        Pattern { hints: &$hints, regex: LazyLock::new(|| Regex::new($regex).ok()) }
    };
}

static PATTERNS: [Pattern; 9] = [
    // Authorization headers, and their schemes alone.
    pattern!(
        ["authorization"],
        r#"(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate)\s+)?(?<secret>[^\s"',;]+)"#
    ),
    pattern!(["bearer", "basic"], r"(?i)\b(?:bearer|basic)\s+(?<secret>[A-Za-z0-9._~+/=-]{8,})"),
    // A name that says secret, an equals sign and a value.
    pattern!(
        ["pass", "secret", "token", "credential", "key"],
        r#"(?i)(?:password|passwd|passphrase|\bpass|secret|token|credentials?|apikey|(?:^|[^A-Za-z0-9])key)(?:[_-][A-Za-z0-9]+)*["']?\s*=\s*(?<secret>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"',;&}\])]+)"#
    ),
    // The same with a colon, where it cannot be prose: behind a quoted name, or a value as long as a token.
    pattern!(
        ["pass", "secret", "token", "credential", "key"],
        r#"(?i)["'][a-z0-9_-]*(?:password|passwd|passphrase|secret|token|credentials?|api[_-]?key|private[_-]?key)["']\s*:\s*(?<secret>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"',;&}\])]+)"#
    ),
    pattern!(
        ["password", "passphrase", "secret", "token", "api"],
        r#"(?i)\b[a-z0-9_-]*(?:password|passphrase|secret|token|api[_-]?key):\s*(?<secret>"[^"\n]*"|'[^'\n]*'|[A-Za-z0-9._~+/=-]{16,})"#
    ),
    pattern!(
        ["password", "secret", "token", "key"],
        r"(?i)--(?:[a-z-]*(?:password|secret|token|api-key|key))\s+(?<secret>[^\s-]\S*)"
    ),
    // user:password@ in a URL.
    pattern!(["://"], r"\b[A-Za-z][A-Za-z0-9+.-]*://(?<secret>[^\s/?#]+)@"),
    // Well-known prefixes, at a word's start and with 16 characters behind them.
    pattern!(
        [
            "sk_", "sk-", "pk_", "rk_", "gh", "glpat", "xox", "npm_", "pypi-", "whsec_", "shpat_", "hf_", "dop_v1",
            "akia", "asia", "aiza", "ya29", "sg.", "eyj"
        ],
        r"\b(?<secret>(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|(?:gh[opusr]|npm|whsec|shpat|hf|dop_v1)_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{16,}|pypi-[A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16,}|AIza[A-Za-z0-9_-]{16,}|ya29\.[A-Za-z0-9_-]{16,}|SG\.[A-Za-z0-9_.-]{16,}|eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,2})"
    ),
    pattern!(
        ["private key"],
        r"(?s)(?<secret>-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|$))"
    ),
];

fn mask(mut text: String) -> String {
    let lower = text.to_ascii_lowercase();
    let may_match = |pattern: &&Pattern| pattern.hints.iter().any(|hint| lower.contains(hint));
    for regex in PATTERNS.iter().filter(may_match).filter_map(|pattern| pattern.regex.as_ref()) {
        if let std::borrow::Cow::Owned(masked) = regex.replace_all(&text, hide) {
            text = masked;
        }
    }
    text
}

fn hide(found: &Captures) -> String {
    let (Some(whole), Some(secret)) = (found.get(0), found.name("secret")) else { return String::new() };
    let (before, rest) = whole.as_str().split_at(secret.start() - whole.start());
    format!("{before}{MASK}{}", rest.get(secret.len()..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_a_pattern() {
        assert!(PATTERNS.iter().all(|pattern| pattern.regex.is_some()));
    }

    #[test]
    fn terminal_sequences_and_control_characters_go_and_the_text_stays() {
        assert_eq!(
            clean("\x1b[31merror\x1b[0m: \x1b]8;;http://x\x07no\x1b]8;;\x1b\\\0\x08 \u{9b}\u{202e}go\tab\n"),
            "error: no go\tab\n"
        );
        assert_eq!(clean("10%\r20%\r\ndone"), "10%\n20%\ndone");
    }

    #[test]
    fn credential_shaped_values_are_masked_and_their_names_stay() {
        for (text, shown) in [
            ("Authorization: Bearer abc.def.ghi-jkl", "Authorization: Bearer [redacted]"),
            ("authorization=Basic dXNlcjpwYXNz", "authorization=Basic [redacted]"),
            ("sent bearer abcdefgh12345678", "sent bearer [redacted]"),
            ("API_KEY=abc123 next", "API_KEY=[redacted] next"),
            ("STRIPE_SECRET_KEY=abc123", "STRIPE_SECRET_KEY=[redacted]"),
            ("{\"password\": \"hunter 2\", \"a\": 1}", "{\"password\": [redacted], \"a\": 1}"),
            ("token: 'x y'", "token: [redacted]"),
            ("password=pass", "password=[redacted]"),
            ("https://s@host/", "https://[redacted]@host/"),
            ("postgres://user:p@ss@host/x", "postgres://[redacted]@host/x"),
            ("Authorization: a", "Authorization: [redacted]"),
            (
                "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4\n\nab-c\n-----END RSA PRIVATE KEY-----\nx",
                "[redacted]\nx",
            ),
            ("key=value", "key=[redacted]"),
            ("--token abcdef", "--token [redacted]"),
            ("postgres://user:pa55@db.example/x", "postgres://[redacted]@db.example/x"),
            ("https://ghx@host/", "https://[redacted]@host/"),
            ("ghp_0123456789abcdef0123", "[redacted]"),
            ("sk-proj-0123456789abcdefgh", "[redacted]"),
            ("id AKIA0123456789ABCDEF.", "id [redacted]."),
            ("eyJhbGciOiJIUzI1NiIsIn.eyJzdWIi.sig", "[redacted]"),
        ] {
            assert_eq!(clean(text), shown);
        }
    }

    #[test]
    fn digests_codes_names_and_short_look_alikes_are_not_masked() {
        for text in [
            "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "payments-webhook-secret-missing",
            "unexpected token, expected one of",
            "unexpected token: `;`",
            "duplicate key: modules",
            "bypass=true",
            "pk_organization_members",
            "npm_config_registry_value",
            "risk-0123456789abcdef0123",
            "ghp_short",
            "monkey=banana",
            "Blocking waiting for file lock on package cache",
            "https://docs.example/a@b",
        ] {
            assert_eq!(clean(text), text);
        }
    }

    #[test]
    fn an_excerpt_is_the_end_from_the_start_of_a_line() {
        assert_eq!(excerpt(b"one\ntwo\nthree\n", 8), "three");
        assert_eq!(excerpt(b"one\ntwo\nthree\n", 100), "one\ntwo\nthree");
        assert_eq!(excerpt("éééé".as_bytes(), 2), "éé");
    }

    #[test]
    fn a_secret_is_masked_before_the_cut_could_hide_its_name() {
        assert_eq!(excerpt(b"password=abcdefghijklmnop", 12), "d=[redacted]");
    }

    #[test]
    fn an_excerpt_of_one_long_line_is_its_end_and_an_unfinished_sequence_ends_with_its_line() {
        let long = format!("{}\nthe cause\n", "x".repeat(17_000));
        assert_eq!(excerpt(long.as_bytes(), 20), "the cause");
        let long = format!("{} the cause\n", "x".repeat(17_000));
        assert_eq!(excerpt(long.as_bytes(), 9), "the cause");
        assert_eq!(clean("\x1b]0;building\nerror: the real cause\n\x1bPq\nmore"), "\nerror: the real cause\n\nmore");
    }

    #[test]
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last_line(b"a\n\x1b[1mb\x1b[0m\n \n", 10).as_deref(), Some("b"));
        assert_eq!(last_line(b" \n", 10), None);
    }
}
