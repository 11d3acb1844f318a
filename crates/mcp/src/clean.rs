//! What the wrapper quotes of other programs, made fit to show: no terminal sequences, no control characters, no
//! credential-shaped values, bounded. Pure. fz's own envelope never passes through here.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

const MASK: &str = "[redacted]";

/// Text without terminal sequences and control characters (tab and line feed stay), credential-shaped values masked.
pub(crate) fn clean(text: &str) -> String {
    // A carriage return before a line feed is an ending; alone it overwrote the line, and what it hid stays visible.
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let text = anstream::adapter::strip_str(&text).to_string();
    let text: String =
        text.chars().filter(|&c| matches!(c, '\t' | '\n') || !(c.is_control() || is_invisible(c))).collect();
    mask(text)
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
    let line = memchr::memchr(b'\n', end).map_or(0, |at| at + 1);
    end.get(line..).unwrap_or(end)
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

static PATTERNS: [Pattern; 7] = [
    // Authorization headers, and their schemes alone.
    pattern!(
        ["authorization"],
        r#"(?i)\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|negotiate)\s+)?(?<secret>[^\s"',;]+)"#
    ),
    pattern!(["bearer", "basic"], r"(?i)\b(?:bearer|basic)\s+(?<secret>[A-Za-z0-9._~+/=-]{8,})"),
    // A name that says secret, then a value: key=..., "api_key": "...", --token ....
    pattern!(
        ["pass", "secret", "token", "credential", "key"],
        r#"(?i)(?:pass(?:word|wd|phrase)?|secret|token|credentials?|(?:api|access|auth|private|secret|signing|encryption|webhook|account|service|client)[_-]?key|(?:^|[^A-Za-z0-9])key)(?:[_-]?[A-Za-z0-9]+)?["']?\s*(?:=|:)\s*(?<secret>"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"',;&}\])]+)"#
    ),
    pattern!(
        ["password", "secret", "token", "key"],
        r"(?i)--(?:[a-z-]*(?:password|secret|token|api-key|key))\s+(?<secret>[^\s-]\S*)"
    ),
    // user:password@ in a URL.
    pattern!(["://"], r"\b[A-Za-z][A-Za-z0-9+.-]*://(?<secret>[^\s/?#@]+)@"),
    // Well-known prefixes, at a word's start and with 16 characters behind them.
    pattern!(
        [
            "sk_", "sk-", "pk_", "pk-", "rk_", "rk-", "gh", "glpat", "xox", "npm", "pypi", "whsec", "shpat", "hf",
            "dop_v1", "sq0", "akia", "asia", "aiza", "ya29", "sg.", "eyj"
        ],
        r"\b(?<secret>(?:sk|pk|rk)[_-](?:live|test|proj|ant)?[_-]?[A-Za-z0-9_-]{16,}|(?:ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abeoprs]|npm|pypi|whsec|shpat|hf|dop_v1|sq0[a-z]{3})[_-][A-Za-z0-9_-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16,}|AIza[A-Za-z0-9_-]{16,}|ya29\.[A-Za-z0-9_-]{16,}|SG\.[A-Za-z0-9_.-]{16,}|eyJ[A-Za-z0-9_-]{16,}(?:\.[A-Za-z0-9_-]+){0,2})"
    ),
    pattern!(
        ["private key"],
        r"(?<secret>-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?)"
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
    let whole = found.get(0).map_or("", |whole| whole.as_str());
    let secret = found.name("secret").map_or("", |secret| secret.as_str());
    whole.replacen(secret, MASK, 1)
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
    fn the_last_line_is_the_last_that_says_something() {
        assert_eq!(last_line(b"a\n\x1b[1mb\x1b[0m\n \n", 10).as_deref(), Some("b"));
        assert_eq!(last_line(b" \n", 10), None);
    }
}
