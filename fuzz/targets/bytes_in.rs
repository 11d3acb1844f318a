//! Bytes on stdin: no panic, every line out is one JSON object (an array only where batches are served), and no
//! well-formed request has more than one reply.
#![no_main]

use std::collections::HashMap;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;

const SESSIONS: [&str; 6] = ["", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2099-01-01"];

fuzz_target!(|data: &[u8]| {
    let [session, size, input @ ..] = data else { return };
    let session = SESSIONS[usize::from(*session) % SESSIONS.len()];
    let mut bytes = Vec::new();
    if !session.is_empty() {
        let params = format!(r#"{{"protocolVersion":"{session}"}}"#);
        bytes.extend(format!(r#"{{"jsonrpc":"2.0","id":"session","method":"initialize","params":{params}}}"#).bytes());
        bytes.push(b'\n');
    }
    bytes.extend_from_slice(input);
    let chunks: Vec<Vec<u8>> = bytes.chunks(usize::from(*size) + 1).map(<[u8]>::to_vec).collect();

    let mut asked = HashMap::new();
    let mut messages = 0;
    for line in bytes.split(|&byte| byte == b'\n') {
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if let Ok(members) = serde_json::from_slice::<Vec<&RawValue>>(line) {
            messages += members.len().max(1);
            members.iter().for_each(|member| count(member.get().as_bytes(), &mut asked));
        } else {
            messages += 1;
            count(line, &mut asked);
        }
    }
    let mut replies = 0;
    for line in cratefield_mcp::fuzzing::serve(chunks) {
        let (last, line) = line.split_last().expect("a line is not empty");
        assert_eq!(*last, b'\n');
        let text = std::str::from_utf8(line).expect("a line is UTF-8");
        assert!(!text.contains(['\n', '\r', '\u{2028}', '\u{2029}']));
        if text.starts_with('[') {
            let members: Vec<&RawValue> = serde_json::from_str(text).expect("an array of replies");
            assert!(!members.is_empty());
            replies += members.len();
            members.iter().for_each(|member| answer(member.get(), &mut asked));
        } else {
            replies += usize::from(!text.contains(r#""method":"notifications/progress""#));
            answer(text, &mut asked);
        }
    }
    assert!(replies <= messages, "{replies} replies to {messages} messages");
});

/// Notes the id of what has one that can be echoed.
fn count(line: &[u8], asked: &mut HashMap<String, usize>) {
    if let Some(id) = id(line) {
        *asked.entry(id).or_default() += 1;
    }
}

/// Takes one reply: it is an object, and somebody asked for it and has no other.
fn answer(text: &str, asked: &mut HashMap<String, usize>) {
    let value: Value = serde_json::from_str(text).expect("a reply is JSON");
    let reply = value.as_object().expect("a reply is an object");
    assert_eq!(reply["jsonrpc"], "2.0");
    if reply.contains_key("method") {
        return;
    }
    assert!(reply.contains_key("result") != reply.contains_key("error"), "{text}");
    if reply["id"].is_null() {
        assert!(reply.contains_key("error"), "{text}");
        return;
    }
    let left = id(text.as_bytes()).and_then(|id| asked.get_mut(&id)).expect("a reply has the id of a request");
    *left = left.checked_sub(1).expect("a request has one reply");
}

/// The id of a message as one spelling: a string decoded, a number as its digits.
fn id(message: &[u8]) -> Option<String> {
    // Of two members with one name the last counts, as it does for the server.
    let members: HashMap<Lossy, &RawValue> = serde_json::from_slice(message).ok()?;
    let raw = members.get(&Lossy("id".into()))?.get();
    match serde_json::from_str::<Value>(raw) {
        Ok(Value::String(text)) => Some(format!("{text:?}")),
        Ok(Value::Number(_)) => Some(raw.to_owned()),
        // A number beyond what a value holds.
        Err(_) if raw.starts_with(['-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) => Some(raw.to_owned()),
        _ => None,
    }
}

/// A key that may hold half a surrogate pair.
#[derive(PartialEq, Eq, Hash)]
struct Lossy(String);

impl<'de> serde::Deserialize<'de> for Lossy {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Key;
        impl serde::de::Visitor<'_> for Key {
            type Value = Lossy;
            fn expecting(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
                f.write_str("a key")
            }
            fn visit_bytes<E>(self, key: &[u8]) -> Result<Lossy, E> {
                Ok(Lossy(String::from_utf8_lossy(key).into_owned()))
            }
        }
        reader.deserialize_bytes(Key)
    }
}
