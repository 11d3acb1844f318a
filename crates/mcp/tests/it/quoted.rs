//! What the server quotes of other programs is clean wherever it appears, and fz's own envelope is never touched.

use serde_json::{Value, json};

use crate::support::{OK, Setup, session};

/// Control sequences around secrets, as a script's text, and what of it may be shown.
const DIRTY: &str = "\\x1b[31mwarning\\x1b[0m: \\x1b]0;title\\x07token=abc123def456 at https://me:pa55word@host/x, \
                     Authorization: Bearer abcdefgh.ijklmnop ghp_0123456789abcdefABCD\\x08\\x00 end";
const SHOWN: &str = "warning: token=[redacted] at https://[redacted]@host/x, Authorization: Bearer [redacted] \
                     [redacted] end";

#[track_caller]
fn message(result: &Value, code: &str) -> String {
    let failure = &result["structuredContent"]["failures"][0];
    assert_eq!(failure["code"], code, "{result}");
    failure["message"].as_str().expect("a message").to_owned()
}

#[test]
fn the_end_of_stderr_and_of_stdout_is_quoted_clean() {
    for stream in ["err", "out"] {
        let mut server = session(Setup::stub(&format!("{stream} {DIRTY}\nexit 1")));
        let message = message(&server.call("fz_plan", json!({})), "mcp-fz-no-json");
        assert!(message.ends_with(SHOWN), "{message:?}");
    }
}

#[test]
fn a_timeout_quotes_clean() {
    let mut server = session(Setup::stub(&format!("err {DIRTY}\nhang")).flag("--timeout-secs").flag("1"));
    let message = message(&server.call("fz_plan", json!({})), "mcp-fz-timeout");
    assert!(message.ends_with(SHOWN), "{message:?}");
}

#[test]
fn a_heartbeat_quotes_clean() {
    let mut server = session(Setup::stub(&format!("err {DIRTY}\nwait go\n{OK}")));
    let id = server.next_id();
    let params = json!({"name": "fz_plan", "_meta": {"progressToken": 1}});
    server.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    let beat = server.recv();
    let shown = beat["params"]["message"].as_str().expect("a message");
    assert!(shown.ends_with(SHOWN), "{shown:?}");
    server.give("go");
    server.recv_id(id);
}

#[test]
fn a_command_with_a_secret_in_it_is_named_without_it() {
    let mut server = session(Setup::stub("").child(["no-such-program", "--api-key=abcdefgh12345678"]));
    server.call("fz_error_codes", json!({}));
    assert!(!server.stderr().contains("abcdefgh"), "{}", server.stderr());

    let stub = crate::support::stub();
    let mut server = session(Setup::stub("").child([stub.as_os_str(), "--api-key=abcdefgh12345678".as_ref()]));
    let message = message(&server.call("fz_plan", json!({})), "mcp-fz-no-json");
    assert!(message.contains("--api-key=[redacted]") && !message.contains("abcdefgh"), "{message}");
}

#[test]
fn an_envelope_of_fz_is_passed_on_whatever_it_holds() {
    let printed = r#"{"schema":1,"ok":false,"failures":[{"code":"c","message":"\u001b[31mtoken=abc123def456 ghp_0123456789abcdefABCD"}],"url":"https://me:pa55word@host/"}"#;
    let script = format!("out {}\\n", printed.replace('\\', "\\\\"));
    let mut server = session(Setup::stub(&script));
    let result = server.call("fz_plan", json!({}));
    assert_eq!(result["content"][0]["text"], printed);
    assert!(server.last_line().contains(&format!(r#""structuredContent":{printed}"#)), "{}", server.last_line());
}

#[test]
fn names_from_the_client_are_quoted_clean() {
    let mut server = session(Setup::stub(OK));
    let dirty = "\u{1b}[31mfz\u{7}\u{202e}_plan";
    let response = server.request("tools/call", json!({"name": dirty}));
    let told = response["error"]["message"].as_str().expect("a message");
    assert!(told.contains("fz_plan") && !told.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{told:?}");
}
