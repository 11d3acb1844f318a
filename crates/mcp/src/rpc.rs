//! JSON-RPC 2.0: bytes to [`Incoming`], and replies to one line. Pure; knows nothing of MCP's methods.
//!
//! Source: JSON-RPC 2.0, sections 4 to 6, as narrowed by the Model Context Protocol (ids are strings or integers,
//! parameters are objects).

use std::borrow::Cow;
use std::fmt;
use std::io;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The line is not JSON.
pub(crate) const PARSE_ERROR: i32 = -32700;
/// The line is JSON, but no request this server may get.
pub(crate) const INVALID_REQUEST: i32 = -32600;
/// No such method in the revision that serves the request.
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
/// The parameters have the wrong shape, or name no tool.
pub(crate) const INVALID_PARAMS: i32 = -32602;
/// A fault of the server itself.
pub(crate) const INTERNAL_ERROR: i32 = -32603;
/// The request carries a protocol version that is not served per request.
pub(crate) const UNSUPPORTED_VERSION: i32 = -32022;

/// A request id as it is written in a reply: JSON text fit for one line, strings in one spelling. Two ids are equal when
/// their JSON types and values are; an integer keeps all its digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id(Vec<u8>);

impl Id {
    /// Reads a string or an integer; anything else is no id.
    pub(crate) fn read(raw: &RawValue) -> Option<Self> {
        if is_integer(raw.get()) {
            return Some(Self(raw.get().into()));
        }
        Some(Self(encode(&string(raw)?)))
    }
}

/// Whether a JSON number is written without fraction and exponent.
pub(crate) fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The text of a JSON string; `None` for any other value and for half a surrogate pair.
pub(crate) fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let inner = raw.get().strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inner));
    }
    serde_json::from_str(raw.get()).ok().map(Cow::Owned)
}

/// Whether a value is an object.
pub(crate) fn is_object(raw: &RawValue) -> bool {
    raw.get().starts_with('{')
}

/// The named members of a JSON object, each as it was written. A member that is `null` is present; of two of one name
/// the last counts; others are passed over. `None` if the value is no object.
pub(crate) fn members<'a, const N: usize>(json: &'a str, names: [&str; N]) -> Option<[Option<&'a RawValue>; N]> {
    read_members(json, names).ok().filter(|_| json.trim_ascii_start().starts_with('{'))
}

fn read_members<'a, const N: usize>(json: &'a str, names: [&str; N]) -> serde_json::Result<[Option<&'a RawValue>; N]> {
    let mut reader = serde_json::Deserializer::from_str(json);
    let found = Members(names).deserialize(&mut reader)?;
    reader.end()?;
    Ok(found)
}

struct Members<'n, const N: usize>([&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Members<'_, N> {
    type Value = [Option<&'de RawValue>; N];
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Members<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(index) = map.next_key_seed(Name(&self.0))? {
            match index.and_then(|index| found.get_mut(index)) {
                Some(place) => *place = Some(map.next_value()?),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Reads a key as the index of a known name. Keys are taken as bytes: half a surrogate pair in one must not make the
/// whole line unreadable.
struct Name<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Self::Value, D::Error> {
        reader.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a member name")
    }

    fn visit_bytes<E>(self, key: &[u8]) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| name.as_bytes() == key))
    }
}

/// One message from the client.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    /// Wants one reply.
    Request(Request<'a>),
    /// Wants none.
    Notification {
        /// Its method.
        method: Cow<'a, str>,
        /// Its parameters, if they are an object.
        params: Option<&'a RawValue>,
    },
    /// Several messages in one array, not yet read.
    Batch(Vec<&'a RawValue>),
    /// A response, though this server asks nothing.
    Response,
}

/// A request whose id, method and parameters have the right types.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// What the reply must carry.
    pub(crate) id: Id,
    /// The method asked for.
    pub(crate) method: Cow<'a, str>,
    /// An object, where there are any.
    pub(crate) params: Option<&'a RawValue>,
}

/// A message that could not be understood, to be answered under the id it was read with.
#[derive(Debug)]
pub(crate) struct Rejected {
    /// `None` where no id could be read: the answer carries `null` (JSON-RPC 2.0, section 5).
    pub(crate) id: Option<Id>,
    /// Why.
    pub(crate) error: RpcError,
}

/// An error object of JSON-RPC.
#[derive(Debug, Serialize)]
pub(crate) struct RpcError {
    code: i32,
    message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Box<serde_json::Value>>,
}

impl RpcError {
    /// An error without data.
    pub(crate) fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same error with data for the client's program.
    pub(crate) fn with_data(self, data: serde_json::Value) -> Self {
        Self { data: Some(Box::new(data)), ..self }
    }

    /// The parameters of a known method are wrong.
    pub(crate) fn params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    fn under(self, id: Option<Id>) -> Rejected {
        Rejected { id, error: self }
    }
}

/// Reads one line.
pub(crate) fn parse(line: &[u8]) -> Result<Incoming<'_>, Rejected> {
    let text = std::str::from_utf8(line).map_err(|error| {
        let at = error.valid_up_to();
        RpcError::new(PARSE_ERROR, format!("the line is not UTF-8 at byte {at}")).under(None)
    })?;
    if text.starts_with('[') {
        return serde_json::from_str(text).map(Incoming::Batch).map_err(not_json);
    }
    if !text.starts_with('{') {
        serde_json::from_str::<IgnoredAny>(text).map_err(not_json)?;
    }
    parse_message(text)
}

/// Reads one message: a whole line, or one member of a batch.
pub(crate) fn parse_message(text: &str) -> Result<Incoming<'_>, Rejected> {
    const NAMES: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];
    let invalid = |message: &'static str, id| Err(RpcError::new(INVALID_REQUEST, message).under(id));
    if !text.starts_with('{') {
        return invalid("a message is a JSON object", None);
    }
    let [jsonrpc, id, method, params, result, error] = read_members(text, NAMES).map_err(not_json)?;
    if method.is_none() && (result.is_some() || error.is_some()) {
        return Ok(Incoming::Response);
    }
    let name = method.and_then(string);
    // Almost always written so; an escape in it is allowed.
    let version_is_right =
        jsonrpc.is_some_and(|version| version.get() == r#""2.0""# || string(version).as_deref() == Some("2.0"));
    let Some(raw_id) = id else {
        return match name {
            Some(method) if version_is_right => {
                Ok(Incoming::Notification { method, params: params.filter(|params| is_object(params)) })
            }
            // No id, so its sender waits for nothing.
            Some(_) => Ok(Incoming::Response),
            None => invalid("a request needs a method, which is a string", None),
        };
    };
    let Some(id) = Id::read(raw_id) else {
        return invalid("an id is a string or an integer", None);
    };
    if !version_is_right {
        return invalid("jsonrpc must be \"2.0\"", Some(id));
    }
    let Some(method) = name else {
        return invalid("a request needs a method, which is a string", Some(id));
    };
    let params = params.filter(|params| params.get() != "null");
    if params.is_some_and(|params| !is_object(params)) {
        return Err(RpcError::params("params must be an object").under(Some(id)));
    }
    Ok(Incoming::Request(Request { id, method, params }))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn not_json(error: serde_json::Error) -> Rejected {
    RpcError::new(PARSE_ERROR, format!("the line is not JSON: {error}")).under(None)
}

/// The line that answers a request.
pub(crate) fn success(id: &Id, result: &impl Serialize) -> Vec<u8> {
    success_with(id, 256, |line| encode_into(line, result))
}

/// The same, for a result that was encoded before.
pub(crate) fn success_encoded(id: &Id, result: &[u8]) -> Vec<u8> {
    success_with(id, result.len(), |line| line.extend_from_slice(result))
}

/// The same, for a result that `write` writes as one line and that takes about `size` bytes.
pub(crate) fn success_with(id: &Id, size: usize, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut line = answer(Some(id), "result", size);
    write(&mut line);
    close(line)
}

/// The line that refuses a message.
pub(crate) fn failure(id: Option<&Id>, error: &RpcError) -> Vec<u8> {
    let mut line = answer(id, "error", 256);
    encode_into(&mut line, error);
    close(line)
}

fn answer(id: Option<&Id>, member: &str, size: usize) -> Vec<u8> {
    let id = id.map_or(&b"null"[..], |id| &id.0);
    let mut line = Vec::with_capacity(size + id.len() + 48);
    for part in [br#"{"jsonrpc":"2.0","id":"#, id, br#",""#, member.as_bytes(), br#"":"#] {
        line.extend_from_slice(part);
    }
    line
}

fn close(mut line: Vec<u8>) -> Vec<u8> {
    line.extend_from_slice(b"}\n");
    line
}

/// The line of a notification.
pub(crate) fn notification(method: &'static str, params: impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<T> {
        jsonrpc: &'static str,
        method: &'static str,
        params: T,
    }
    let mut line = encode(&Notification { jsonrpc: "2.0", method, params });
    line.push(b'\n');
    line
}

/// Compact JSON without a line break.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut json = Vec::with_capacity(128);
    encode_into(&mut json, value);
    json
}

fn encode_into(line: &mut Vec<u8>, value: &impl Serialize) {
    let start = line.len();
    if value.serialize(&mut serde_json::Serializer::with_formatter(&mut *line, OneLine)).is_err() {
        // Nothing that is encoded here can fail; the line must be JSON all the same.
        line.truncate(start);
        line.extend_from_slice(b"null");
    }
}

/// Writes text as a JSON string, whole runs of plain bytes at once.
pub(crate) fn push_string(line: &mut Vec<u8>, text: &str) {
    let is_special = |byte: &u8| matches!(byte, 0x00..=0x1F | b'"' | b'\\' | 0xE2);
    line.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, found) = rest.split_at(rest.iter().position(is_special).unwrap_or(rest.len()));
        line.extend_from_slice(plain);
        let [special, after @ ..] = found else { break };
        rest = after;
        match special {
            b'"' | b'\\' => line.extend_from_slice(&[b'\\', *special]),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            b'\t' => line.extend_from_slice(b"\\t"),
            0xE2 => match separator(after) {
                Some((escape, after)) => {
                    line.extend_from_slice(escape);
                    rest = after;
                }
                None => line.push(*special),
            },
            control => line.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
        }
    }
    line.push(b'"');
}

/// Writes JSON as it stands, but on one line: line breaks between its tokens become spaces, and the two Unicode
/// separators that some readers split on are escaped.
pub(crate) fn push_json(line: &mut Vec<u8>, json: &str) {
    let mut rest = json.as_bytes();
    let mut from = 0;
    while let Some(at) = rest.get(from..).and_then(|tail| memchr::memchr3(b'\n', b'\r', 0xE2, tail)) {
        let (before, found) = rest.split_at(from + at);
        let (replacement, after) = match found {
            [b'\n' | b'\r', after @ ..] => (&b" "[..], after),
            [_, after @ ..] if let Some(separator) = separator(after) => separator,
            _ => {
                from += at + 1;
                continue;
            }
        };
        line.extend_from_slice(before);
        line.extend_from_slice(replacement);
        (rest, from) = (after, 0);
    }
    line.extend_from_slice(rest);
}

/// The escape of a Unicode line or paragraph separator, from its second byte on, and what follows it.
fn separator(after_e2: &[u8]) -> Option<(&'static [u8], &[u8])> {
    match after_e2 {
        [0x80, 0xA8, rest @ ..] => Some((b"\\u2028", rest)),
        [0x80, 0xA9, rest @ ..] => Some((b"\\u2029", rest)),
        _ => None,
    }
}

/// Keeps what serde writes on one line.
struct OneLine;

impl serde_json::ser::Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        self.write_raw_fragment(writer, fragment)
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        if memchr::memchr3(b'\n', b'\r', 0xE2, fragment.as_bytes()).is_none() {
            return writer.write_all(fragment.as_bytes());
        }
        let mut line = Vec::with_capacity(fragment.len() + 16);
        push_json(&mut line, fragment);
        writer.write_all(&line)
    }
}

/// The line of a batch: the lines of its replies as one array.
pub(crate) fn array(lines: &[Vec<u8>]) -> Vec<u8> {
    let mut array = Vec::with_capacity(lines.iter().map(Vec::len).sum::<usize>() + 2);
    array.push(b'[');
    for (index, line) in lines.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        array.extend_from_slice(line.trim_ascii_end());
    }
    array.extend_from_slice(b"]\n");
    array
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    fn rejected(line: &str) -> String {
        let rejected = parse(line.as_bytes()).unwrap_err();
        String::from_utf8(failure(rejected.id.as_ref(), &rejected.error)).unwrap()
    }

    fn echoed(id: &str) -> String {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        match parse(line.as_bytes()).unwrap() {
            Incoming::Request(request) => String::from_utf8(success(&request.id, &())).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_id_comes_back_digit_for_digit() {
        for id in [
            "0",
            "-1",
            "9007199254740993",
            "18446744073709551615",
            "123456789012345678901234567890",
            r#""""#,
            r#""1""#,
            r#""é""#,
        ] {
            assert!(echoed(id).contains(&format!(r#""id":{id},"#)), "{id}");
        }
    }

    #[test]
    fn two_spellings_of_one_string_are_one_id() {
        let id = |text: &str| Id::read(serde_json::from_str(text).unwrap()).unwrap();
        assert_eq!(id(r#""é\"""#), id(r#""\u00e9\u0022""#));
        assert_ne!(id(r#""1""#), id("1"));
    }

    #[test]
    fn a_request_with_a_null_id_is_refused_not_ignored() {
        for id in ["null", "1.5", "1e3", "true", "{}", "[]", r#""\ud800""#] {
            let answer = rejected(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
            assert!(answer.contains(r#""id":null,"error":{"code":-32600"#), "{answer}");
        }
    }

    #[test]
    fn what_is_no_json_is_a_parse_error_and_what_is_no_object_an_invalid_request() {
        for line in ["{not json", "nonsense", "{\"a\":1}x", "[1,", "\"\\q\""] {
            assert!(rejected(line).contains("-32700"), "{line}");
        }
        for line in ["42", "\"x\"", "null", "{}", r#"{"jsonrpc":"2.0","method":7}"#] {
            assert!(rejected(line).contains("-32600"), "{line}");
        }
        assert!(parse(b"\xff\xfe").unwrap_err().error.message.contains("byte 0"));
    }

    #[test]
    fn half_a_surrogate_pair_in_the_parameters_does_not_spoil_the_line() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"\ud800":"\udc00"},"\ud800":1}"#;
        assert!(matches!(parse(line), Ok(Incoming::Request(_))));
    }

    #[test]
    fn of_two_members_with_one_name_the_last_counts() {
        let [value] = members(r#"{"a":1,"b":2,"a":null}"#, ["a"]).unwrap();
        assert_eq!(value.unwrap().get(), "null");
    }

    #[test]
    fn notifications_and_responses_need_no_answer() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"method":"x"}"#,
        ] {
            assert!(matches!(parse(line.as_bytes()), Ok(Incoming::Response)), "{line}");
        }
        assert!(matches!(parse(br#"{"jsonrpc":"2.0","method":"\u0078"}"#), Ok(Incoming::Notification { .. })));
    }

    #[test]
    fn a_string_written_by_hand_is_what_serde_reads_back() {
        let text = (0..=0x20)
            .map(char::from)
            .chain("\"\\/é—\u{2027}\u{2028}\u{2029}\u{202a}\u{7f}𝄞".chars())
            .collect::<String>();
        let mut line = Vec::new();
        push_string(&mut line, &text);
        assert_eq!(serde_json::from_slice::<String>(&line).unwrap(), text);
        assert!(!line.windows(3).any(|bytes| matches!(bytes, [0xE2, 0x80, 0xA8 | 0xA9])) && !line.contains(&b'\n'));
    }

    #[test]
    fn a_reply_stays_on_one_line_whatever_it_embeds() {
        let pretty: &RawValue = serde_json::from_str("{\n\t\"a\":\r\n\"\u{2028}é—\u{2029}\"}").unwrap();
        let id = Id("7".into());
        let line = String::from_utf8(success(&id, &(pretty, "\u{2028}\n—"))).unwrap();
        let expected =
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":[{ \t\"a\":  \"\\u2028é—\\u2029\"},\"\\u2028\\n—\"]}\n";
        assert_eq!(line, expected);
    }
}
