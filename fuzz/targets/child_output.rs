//! What a child wrote: no panic, and under every revision the answer is one line with one JSON object, which holds the
//! child's own text if that was an envelope, and one of our codes if it was not.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use serde_json::Value;

#[derive(serde::Deserialize)]
struct Reply<'a> {
    id: u64,
    #[serde(borrow)]
    result: Called<'a>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Called<'a> {
    content: [Text; 1],
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
    is_error: bool,
}

#[derive(serde::Deserialize)]
struct Text {
    text: String,
}

fuzz_target!(|data: &[u8]| {
    let [status, split, rest @ ..] = data else { return };
    let (stderr, stdout) = rest.split_at(usize::from(*split).min(rest.len()));
    let (is_envelope, answers) = cratefield_mcp::fuzzing::answers(stdout, stderr, i32::from(*status));
    assert_eq!(answers.len(), 5);
    for line in answers {
        let text = std::str::from_utf8(&line).expect("a line is UTF-8");
        let text = text.strip_suffix('\n').expect("a line ends");
        assert!(!text.contains(['\n', '\r', '\u{2028}', '\u{2029}']));
        let Reply { id, result } = serde_json::from_str(text).expect("a reply to a call");
        assert_eq!(id, 7);
        let [Text { text }] = result.content;
        let envelope: Value = serde_json::from_str(&text).expect("the text is JSON");
        assert_eq!(envelope["ok"], !result.is_error);
        assert!(envelope["schema"].is_number() && envelope["failures"].is_array());
        if let Some(object) = result.structured_content {
            assert_eq!(serde_json::from_str::<Value>(object.get()).expect("JSON"), envelope);
        }
        if is_envelope {
            let printed = std::str::from_utf8(stdout).expect("an envelope is UTF-8");
            let printed = printed.strip_suffix('\n').map_or(printed, |rest| rest.strip_suffix('\r').unwrap_or(rest));
            assert_eq!(text, printed);
        } else {
            assert_eq!(envelope["failures"][0]["code"], "mcp-fz-no-json");
        }
    }
});
