//! What a child printed, as an [`Envelope`]; and the wrapper's own refusals in the same shape. Pure.
//!
//! Source: the envelope of `cratefield-cli` (`schema`, `ok`, `failures`, open beyond them).

use std::fmt;
use std::process::ExitStatus;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use crate::clean;
use crate::codes::Code;
use crate::config::{MAX_DEPTH, MAX_EXCERPT, MAX_STDOUT};
use crate::tools::Refusal;

/// One JSON object that has the envelope's members and that every client's parser takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Envelope {
    /// The text as it was printed, without its final line feed.
    text: String,
    failed: bool,
}

impl Envelope {
    /// Reads what a child printed on stdout.
    pub(crate) fn read(stdout: Vec<u8>) -> Result<Self, NotOne> {
        let mut text = String::from_utf8(stdout).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            NotOne { why: format!("its stdout is not UTF-8 at byte {at}"), stdout: error.into_bytes(), stopped: false }
        })?;
        let failed = match check(&text) {
            Ok(failed) => failed,
            Err(why) => return Err(NotOne { why, stdout: text.into_bytes(), stopped: false }),
        };
        let end = text.strip_suffix('\n').map_or(text.len(), |rest| rest.strip_suffix('\r').unwrap_or(rest).len());
        text.truncate(end);
        Ok(Self { text, failed })
    }

    /// An envelope that is known to be one.
    pub(crate) fn trusted(text: String, failed: bool) -> Self {
        Self { text, failed }
    }

    /// As it was printed.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The object alone, without the white space around it.
    pub(crate) fn object(&self) -> &str {
        self.text.trim_ascii()
    }

    /// Whether `ok` is false.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    fn of_failures(code: Code, messages: &[String]) -> Self {
        #[derive(Serialize)]
        struct Failure<'a> {
            code: &'static str,
            message: &'a str,
        }
        #[derive(Serialize)]
        struct Refused<'a> {
            schema: u32,
            ok: bool,
            failures: Vec<Failure<'a>>,
        }
        let failures = messages.iter().map(|message| Failure { code: code.name(), message }).collect();
        let refused = Refused { schema: cratefield_cli::workflow::SCHEMA, ok: false, failures };
        Self { text: serde_json::to_string(&refused).unwrap_or_default(), failed: true }
    }
}

impl From<Refusal> for Envelope {
    fn from(Refusal(messages): Refusal) -> Self {
        Self::of_failures(Code::ArgumentInvalid, &messages)
    }
}

/// A call that has no envelope of fz's.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// One of the four codes.
    pub(crate) code: Code,
    /// What failed, where, and what to do.
    pub(crate) message: String,
}

impl Failure {
    /// A failure with its message.
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<Failure> for Envelope {
    fn from(failure: Failure) -> Self {
        Self::of_failures(failure.code, &[failure.message])
    }
}

/// Output that is not exactly one envelope.
#[derive(Debug)]
pub(crate) struct NotOne {
    why: String,
    stdout: Vec<u8>,
    /// The program was stopped for it: its exit status says nothing of it.
    stopped: bool,
}

/// Puts into words that a program printed no envelope: what it did, the likely cause, and the end of what it wrote.
pub(crate) fn no_json(command: &str, not: &NotOne, stderr: &[u8], status: Option<ExitStatus>) -> Failure {
    let ended = match status {
        _ if not.stopped => String::new(),
        Some(status) => format!("; it ended with {status}"),
        None => "; its exit status is not known".to_owned(),
    };
    let cause = likely_cause(status, stderr, &not.stdout).filter(|_| !not.stopped);
    let cause = cause.map(|cause| format!("; {cause}")).unwrap_or_default();
    let mut name = "stderr";
    let mut shown = clean::excerpt(stderr, MAX_EXCERPT);
    if shown.is_empty() {
        (name, shown) = ("stdout", clean::excerpt(&not.stdout, MAX_EXCERPT));
    }
    let quote = if shown.is_empty() { String::new() } else { format!("\nthe end of its {name}:\n{shown}") };
    let why = &not.why;
    let message =
        format!("`{command}` printed no envelope: {why}{ended}{cause}. Run it in a terminal to see all of it.{quote}");
    Failure::new(Code::NoJson, message)
}

fn likely_cause(status: Option<ExitStatus>, stderr: &[u8], stdout: &[u8]) -> Option<&'static str> {
    let stderr = String::from_utf8_lossy(stderr);
    let has = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    let code = status.and_then(|status| status.code());
    if has(&["panicked at"]) {
        return Some("it panicked: the venture's harness or fz itself is at fault");
    }
    // Cargo's own status for whatever went wrong in it; a panic has the same and was told above.
    if code == Some(101) {
        return Some("cargo failed before fz ran: mend the build in a terminal, then call again");
    }
    if code == Some(2) && has(&["Usage:", "usage:", "--help"]) {
        return Some("a usage error: the program is another one, or of another release than this server expects");
    }
    if stdout.is_empty() && code == Some(1) && has(&["compiled-in", "inside a venture", "standalone"]) {
        return Some(
            "this looks like the standalone cratefield-cli, which has no harness: name the venture's own fz after --",
        );
    }
    (status.is_some() && code.is_none()).then_some("it was killed by a signal")
}

/// Whether the envelope's `ok` is false, or why the text is not one envelope.
fn check(text: &str) -> Result<bool, String> {
    if text.trim_ascii().is_empty() {
        return Err("its stdout is empty".into());
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let facts = match (Value { level: 1 }).deserialize(&mut reader) {
        Ok(facts) => facts,
        Err(error) if error.is_eof() => return Err(format!("its stdout ends in the middle of the JSON ({error})")),
        Err(error) => return Err(explain(text, &error)),
    };
    if reader.end().is_err() {
        return Err("its stdout holds more than one JSON value".into());
    }
    let Facts::Object { schema, ok, failures, .. } = facts else {
        return Err("its stdout is JSON, but no object".into());
    };
    match ok {
        Some(ok) if schema && failures => Ok(!ok),
        _ => Err("its stdout is an object without the envelope's schema (an integer), ok (a boolean) and failures \
                  (objects with code and message)"
            .into()),
    }
}

/// A banner line before or after the object is the commonest way to spoil it.
fn explain(text: &str, error: &serde_json::Error) -> String {
    let whole = text.trim_ascii().len();
    let has_envelope = text.lines().any(|line| line.starts_with('{') && line.len() < whole && check(line).is_ok());
    if has_envelope {
        format!("its stdout holds more than the one JSON object ({error})")
    } else {
        format!("its stdout is not JSON ({error})")
    }
}

/// What must be known of a value to judge the envelope it is part of.
enum Facts {
    Bool(bool),
    Integer,
    Text,
    /// Whether every entry is a failure.
    Array(bool),
    Object {
        schema: bool,
        ok: Option<bool>,
        failures: bool,
        /// Has a `code` and a `message`.
        is_failure: bool,
    },
    Other,
}

/// Reads a value whole: half a surrogate pair and a number beyond an f64 fail in `serde_json`, too many levels here.
struct Value {
    level: usize,
}

impl<'de> DeserializeSeed<'de> for Value {
    type Value = Facts;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Facts, D::Error> {
        reader.deserialize_any(self)
    }
}

impl Value {
    fn inner<E: Error>(&self) -> Result<usize, E> {
        if self.level > MAX_DEPTH {
            return Err(E::custom(format_args!("more than {MAX_DEPTH} levels of nesting")));
        }
        Ok(self.level + 1)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = Facts;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Facts, E> {
        Ok(Facts::Bool(value))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Facts, E> {
        Ok(Facts::Integer)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Facts, E> {
        Ok(Facts::Integer)
    }

    fn visit_f64<E>(self, value: f64) -> Result<Facts, E> {
        // JSON Schema calls 1.0 an integer.
        Ok(if value.fract() == 0.0 { Facts::Integer } else { Facts::Other })
    }

    fn visit_str<E>(self, _: &str) -> Result<Facts, E> {
        Ok(Facts::Text)
    }

    fn visit_unit<E>(self) -> Result<Facts, E> {
        Ok(Facts::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Facts, A::Error> {
        let level = self.inner()?;
        let mut all = true;
        while let Some(entry) = seq.next_element_seed(Value { level })? {
            all &= matches!(entry, Facts::Object { is_failure: true, .. });
        }
        Ok(Facts::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Facts, A::Error> {
        let level = self.inner()?;
        let (mut schema, mut ok, mut failures, mut code, mut message) = (false, None, false, false, false);
        while let Some(key) = map.next_key_seed(Key)? {
            let value = map.next_value_seed(Value { level })?;
            match key {
                Some(Member::Schema) => schema = matches!(value, Facts::Integer),
                Some(Member::Ok) => ok = if let Facts::Bool(ok) = value { Some(ok) } else { None },
                Some(Member::Failures) => failures = matches!(value, Facts::Array(true)),
                Some(Member::Code) => code = matches!(value, Facts::Text),
                Some(Member::Message) => message = matches!(value, Facts::Text),
                None => {}
            }
        }
        Ok(Facts::Object { schema, ok, failures, is_failure: code && message })
    }
}

enum Member {
    Schema,
    Ok,
    Failures,
    Code,
    Message,
}

struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Option<Member>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Key {
    type Value = Option<Member>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(match key {
            "schema" => Some(Member::Schema),
            "ok" => Some(Member::Ok),
            "failures" => Some(Member::Failures),
            "code" => Some(Member::Code),
            "message" => Some(Member::Message),
            _ => None,
        })
    }
}

/// The program wrote more to stdout than is read.
pub(crate) fn too_much(stdout: Vec<u8>) -> NotOne {
    NotOne { why: format!("it wrote more than {MAX_STDOUT} bytes to stdout and was stopped"), stdout, stopped: true }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    const OK: &str = r#"{"schema":1,"ok":true,"failures":[]}"#;

    fn read(text: &str) -> Result<Envelope, String> {
        Envelope::read(text.as_bytes().to_vec()).map_err(|not| not.why)
    }

    #[test]
    fn the_text_is_what_was_printed_without_its_final_line_feed() {
        for (printed, text) in [("\n", ""), ("", ""), (" \n\n", " \n"), ("\r\n", "")] {
            assert_eq!(read(&format!("{OK}{printed}")).unwrap().text(), format!("{OK}{text}"));
        }
        assert_eq!(read(&format!("  {OK}  ")).unwrap().object(), OK);
    }

    #[test]
    fn failed_is_what_ok_says_and_the_last_ok_counts() {
        let failed = r#"{"ok":true,"ok":false,"failures":[{"code":"c","message":"m","x":1}],"schema":2,"more":[1,{}]}"#;
        assert!(read(failed).unwrap().failed());
        assert!(!read(OK).unwrap().failed());
    }

    #[test]
    fn what_is_not_exactly_one_envelope_is_told_apart() {
        for (text, why) in [
            ("", "empty"),
            (" \n", "empty"),
            ("hello", "not JSON"),
            ("Compiling\n{\"schema\":1,\"ok\":true,\"failures\":[]}\n", "more than the one JSON object"),
            ("{\"schema\":1,\"ok\":true,\"failures\":[]}\ndone\n", "more than one JSON value"),
            ("{\"schema\":1,\"ok\":true,\"failures\":[]}{}", "more than one JSON value"),
            ("[]", "no object"),
            ("{\"schema\":1", "in the middle"),
            ("{\"schema\":1,\"ok\":true}", "without the envelope's"),
            (r#"{"schema":"1","ok":true,"failures":[]}"#, "without the envelope's"),
            (r#"{"schema":1.5,"ok":true,"failures":[]}"#, "without the envelope's"),
            (r#"{"schema":1,"ok":"true","failures":[]}"#, "without the envelope's"),
            (r#"{"schema":1,"ok":true,"failures":["x"]}"#, "without the envelope's"),
            (r#"{"schema":1,"ok":true,"failures":[{"code":"c"}]}"#, "without the envelope's"),
            (r#"{"schema":1,"ok":true,"failures":[],"x":"\ud800"}"#, "not JSON"),
            (r#"{"schema":1,"ok":true,"failures":[],"x":1e999}"#, "not JSON"),
        ] {
            let told = read(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
        assert!(Envelope::read(b"{\"a\xff".to_vec()).unwrap_err().why.contains("byte 3"));
    }

    #[test]
    fn nesting_passes_at_the_limit_and_fails_past_it() {
        let nested = |levels: usize| {
            let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
            read(&format!(r#"{{"schema":1,"ok":true,"failures":[],"x":{open}{close}}}"#))
        };
        assert!(nested(MAX_DEPTH).is_ok());
        assert!(nested(MAX_DEPTH + 1).unwrap_err().contains("100 levels"));
    }

    #[test]
    fn numbers_beyond_sixty_four_bits_pass() {
        assert!(read(r#"{"schema":1,"ok":true,"failures":[],"x":123456789012345678901234567890,"y":1e308}"#).is_ok());
    }

    #[test]
    fn a_failure_of_the_wrapper_is_an_envelope_itself() {
        let envelope = Envelope::from(Failure::new(Code::Timeout, "a \"quoted\" message"));
        assert!(envelope.failed());
        assert_eq!(read(envelope.text()).unwrap(), envelope);
    }
}
