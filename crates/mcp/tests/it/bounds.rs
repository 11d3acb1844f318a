//! Every bound of the server: what is at the limit passes, and what is one past it is refused while memory stays flat.

use std::io::Write;

use cratefield_mcp::config::{
    MAX_ARGUMENTS, MAX_EXCERPT, MAX_LINE, MAX_REPLY, MAX_STDERR, MAX_STDOUT, MAX_UNSENT, MAX_VALUE,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{OK, Setup, session};

const MIB: u64 = 1024 * 1024;

#[track_caller]
fn refusal(response: &Value, code: &str) -> String {
    let failure = &response["result"]["structuredContent"]["failures"][0];
    assert_eq!(failure["code"], code, "{response}");
    failure["message"].as_str().expect("a message").to_owned()
}

/// A ping of exactly so many bytes, without its newline.
fn ping_of(length: usize, id: u64) -> String {
    let (head, tail) = (format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping","x":""#), r#""}"#);
    format!("{head}{}{tail}", "x".repeat(length - head.len() - tail.len()))
}

#[test]
fn a_request_line_at_the_limit_is_answered_and_one_byte_more_is_refused_unread() {
    let mut server = session(Setup::stub(OK));
    server.send(ping_of(MAX_LINE, 1));
    assert_eq!(server.recv_id(1)["result"], json!({}));
    server.send(ping_of(MAX_LINE + 1, 2));
    let refused = server.recv();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&Value::Null, &json!(-32600)));
    server.send(ping_of(MAX_LINE, 3));
    assert_eq!(server.recv()["id"], 3);
    server.eof();
    assert_eq!(server.rest(), [] as [Value; 0]);
}

#[test]
fn encoded_arguments_at_the_limit_pass_and_one_byte_more_is_refused() {
    let mut server = session(Setup::stub(OK));
    let mut call = |length: usize| {
        let (id, arguments) = (server.next_id(), format!("{{{}}}", " ".repeat(length - 2)));
        let params = format!(r#"{{"name":"fz_plan","arguments":{arguments}}}"#);
        server.send(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#));
        server.recv_id(id)
    };
    assert_eq!(call(MAX_ARGUMENTS)["result"]["isError"], false);
    let message = refusal(&call(MAX_ARGUMENTS + 1), "mcp-argument-invalid");
    assert!(message.contains(&MAX_ARGUMENTS.to_string()), "{message}");
}

#[test]
fn a_value_at_the_limit_reaches_the_child_and_one_byte_more_is_refused() {
    let mut server = session(Setup::stub(&format!("argv argv\n{OK}")));
    let value = "m".repeat(MAX_VALUE);
    assert_eq!(server.call("fz_add", json!({"module": value}))["isError"], false);
    assert_eq!(server.argv("argv").last(), Some(&value));
    let response = server.request("tools/call", json!({"name": "fz_add", "arguments": {"module": value + "m"}}));
    let message = refusal(&response, "mcp-argument-invalid");
    assert!(message.starts_with("module: ") && message.contains(&MAX_VALUE.to_string()), "{message}");
}

#[test]
fn stderr_is_kept_from_its_end_up_to_the_limit() {
    let mark = "panicked at";
    for (behind, is_kept) in [(MAX_STDERR - mark.len(), true), (MAX_STDERR - mark.len() + 1, false)] {
        let mut server = session(Setup::stub(&format!("flood err 300000\nerr {mark}\nflood err {behind}\nexit 101")));
        let response = server.request("tools/call", json!({"name": "fz_plan"}));
        let message = refusal(&response, "mcp-fz-no-json");
        assert_eq!(message.contains("it panicked"), is_kept, "{behind} bytes behind the mark");
    }
}

#[test]
fn an_excerpt_at_the_limit_is_whole_and_one_character_more_cuts_it() {
    for length in [MAX_EXCERPT, MAX_EXCERPT + 1] {
        let script = format!("err A\nrepeat err {} \\xc3\\xa9\nexit 1", length - 1);
        let mut server = session(Setup::stub(&script));
        let response = server.request("tools/call", json!({"name": "fz_plan"}));
        let message = refusal(&response, "mcp-fz-no-json");
        let excerpt = message.rsplit('\n').next().expect("an excerpt");
        assert_eq!(excerpt.chars().count(), MAX_EXCERPT);
        assert_eq!(excerpt.starts_with('A'), length == MAX_EXCERPT);
    }
}

/// A child whose envelope takes twelve bytes of its reply for each separator, and two for each letter.
fn swelling(separators: usize, letters: usize) -> String {
    let head = r#"out {"schema":1,"ok":true,"failures":[],"p":""#;
    format!("{head}\nrepeat out {separators} \\xe2\\x80\\xa8\nflood out {letters}\nout \"}}")
}

#[test]
fn a_reply_at_the_limit_is_sent_and_one_byte_more_is_replaced_by_a_refusal() {
    let reply = |separators: usize, letters: usize, id: u64| {
        let mut server = session(Setup::stub(&swelling(separators, letters)));
        let params = json!({"name": "fz_plan"});
        server.send(json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
        let response = server.recv_id(id);
        (server.last_line().len() + 1, response)
    };
    // Letters come in pairs, so the digits of the id make up what is odd.
    let odd = (MAX_REPLY - reply(0, 0, 1).0) % 2;
    let (fits, exceeds) = if odd == 0 { (1, 10) } else { (10, 100) };
    let left = MAX_REPLY - reply(0, 0, fits).0;
    let (separators, letters) = (left / 12, left % 12 / 2);

    let (length, response) = reply(separators, letters, fits);
    assert_eq!((length, &response["result"]["isError"]), (MAX_REPLY, &json!(false)));
    let (_, response) = reply(separators, letters, exceeds);
    let message = refusal(&response, "mcp-fz-no-json");
    assert!(message.contains(&MAX_REPLY.to_string()), "{message}");
}

#[cfg(target_os = "linux")]
mod memory {
    use super::*;
    use crate::proc::{busy, peak};
    use crate::support::wait_until;
    use crate::wire::Wire;

    #[track_caller]
    fn grew(pid: u32, before: u64, most: u64, what: &str) {
        let grown = peak(pid) - before;
        writeln!(std::io::stdout(), "{what}: the peak of memory rose by {} KiB", grown / 1024).expect("stdout");
        assert!(grown < most, "{what}: {grown} bytes");
    }

    #[test]
    fn a_line_of_sixty_four_mebibytes_is_refused_once_and_never_held() {
        let mut wire = Wire::pipes(Setup::stub(OK));
        wire.handshake();
        let before = peak(wire.pid());
        wire.send_raw(br#"{"jsonrpc":"2.0","id":1,"method":"ping","x":""#);
        let chunk = vec![b'x'; 1024 * 1024];
        for _ in 0..64 {
            wire.send_raw(&chunk);
        }
        // It is refused while it is still being written.
        assert_eq!(wire.recv().expect("a refusal")["error"]["code"], -32600);
        wire.send_raw(b"\"}\n");
        wire.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        assert_eq!(wire.recv().expect("an answer")["id"], 2);
        grew(wire.pid(), before, 4 * MIB, "a line of 64 MiB");
    }

    #[test]
    fn a_child_that_never_stops_writing_is_stopped_and_its_output_is_not_kept() {
        let mut server = session(Setup::stub(OK).script("plan", "flood out 999999999999"));
        server.call("fz_verify", json!({}));
        let before = peak(server.pid());
        let response = server.request("tools/call", json!({"name": "fz_plan"}));
        let message = refusal(&response, "mcp-fz-no-json");
        assert!(message.contains(&MAX_STDOUT.to_string()), "{message}");
        grew(server.pid(), before, 24 * MIB, "an endless stdout");
    }

    #[test]
    fn a_chatty_stderr_neither_stalls_the_child_nor_fills_the_memory() {
        let script = format!("flood err 200000000\n{OK}");
        let mut server = session(Setup::stub(OK).script("plan", &script));
        server.call("fz_verify", json!({}));
        let before = peak(server.pid());
        assert_eq!(server.call("fz_plan", json!({}))["isError"], false);
        grew(server.pid(), before, 4 * MIB, "200 MB on stderr");
    }

    const ASKED: u64 = 1_000;

    /// Whether a process did nothing for a while, though it has something to do.
    fn stands_still(pid: u32) -> bool {
        let before = busy(pid);
        std::thread::sleep(std::time::Duration::from_millis(300));
        busy(pid) == before
    }

    #[test]
    fn a_client_that_does_not_read_is_read_no_further_and_can_still_stop_the_server() {
        // Long, so that the pipes on the way hold few of them.
        let padding = "x".repeat(1_000);
        let ask = |id: u64| format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "tools/list", "x": padding}));
        for drains in [true, false] {
            let mut wire = Wire::pipes(Setup::stub(OK));
            wire.handshake();
            let before = peak(wire.pid());
            // More than the queue and both pipes hold; what is asked too much waits in the writer's hands.
            let input: String = (1..=ASKED).map(ask).collect();
            let writer = wire.write_aside(input.into_bytes());
            wait_until("the server reads no more", || stands_still(wire.pid()));
            assert!(!writer.is_finished(), "the server took everything in");
            grew(wire.pid(), before, 4 * MAX_UNSENT as u64, "a client that does not read");
            if drains {
                for id in 1..=ASKED {
                    assert_eq!(wire.recv().expect("an answer")["id"], id);
                }
            } else {
                wire.signal(Signal::TERM);
                assert_eq!(wire.wait_exit().code(), Some(128 + 15));
            }
        }
    }
}
