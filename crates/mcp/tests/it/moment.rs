//! A call that is alone is started and watched by the server's own thread for its first moment. Nobody notices, but by
//! the thread that the kernel names as its child's parent.
#![cfg(target_os = "linux")]

use std::fs::{self, File};

use cratefield_mcp::config::MAX_QUICK;
use serde_json::json;

use crate::support::{OK, Server, Setup, ids, session};

/// Whether the child that wrote its number there was started by the server's first thread.
#[track_caller]
fn is_of_first_thread(server: &Server, name: &str) -> bool {
    let (child, _) = ids(&server.event(name));
    let first = server.pid().to_string();
    let children = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).expect("the server runs");
    children.split_whitespace().any(|number| number == child.to_string())
}

#[test]
fn a_call_that_is_alone_wakes_no_thread_and_company_takes_nothing_from_it() {
    let held = |name| format!("ids {name}\nwait go-{name}\n{OK}");
    let mut server = session(Setup::stub(OK).script("plan", &held("plan")).script("doctor", &held("doctor")));
    // After this the kernel knows the way to the program.
    assert_eq!(server.call("fz_verify", json!({}))["isError"], false);
    let plan = server.start_call("fz_plan", json!({}));
    assert!(is_of_first_thread(&server, "plan"));
    let doctor = server.start_call("fz_doctor", json!({}));
    assert!(!is_of_first_thread(&server, "doctor"));
    for (name, id) in [("doctor", doctor), ("plan", plan)] {
        server.give(&format!("go-{name}"));
        assert_eq!(server.recv()["id"], id);
    }
}

#[test]
fn a_call_with_a_path_to_follow_is_left_to_its_thread() {
    let mut server = session(Setup::stub(&format!("ids plan\nwait go\n{OK}")));
    let plan = server.start_call("fz_plan", json!({"manifest": "venture.toml"}));
    assert!(!is_of_first_thread(&server, "plan"));
    server.give("go");
    assert_eq!(server.recv_id(plan)["result"]["isError"], false);
}

#[test]
fn an_object_is_whole_on_either_side_of_what_a_moment_allows() {
    for size in [MAX_QUICK - 1, MAX_QUICK, MAX_QUICK + 1, 65_536, 65_537, 1_000_000] {
        let mut server = session(Setup::stub(&format!("json {size}")));
        let result = server.call("fz_plan", json!({}));
        assert_eq!(result["content"][0]["text"].as_str().map(str::len), Some(size));
        assert_eq!(result["structuredContent"]["ok"], true);
    }
}

#[test]
fn the_venture_is_free_when_the_answer_of_a_writer_is_there() {
    let mut server = session(Setup::stub(OK));
    let venture = File::open(server.venture()).expect("the venture's directory");
    for _ in 0..50 {
        assert_eq!(server.call("fz_deploy", json!({}))["isError"], false);
        venture.try_lock().expect("nobody holds the lock");
        venture.unlock().expect("it can be given back");
    }
}
