//! Ten ways a child can go wrong, crossed with six ways a call can end. Prints the table also when all is well.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{OK, Setup, alive, ids, wait_for, wait_until};
use crate::wire::Wire;

/// What a child does. Its script says `started` when it is where the ending strikes, and then waits for `go`.
struct Fault {
    name: &'static str,
    script: String,
    /// The script of what the child itself starts; it records its ids as `grandchild`.
    grandchild: Option<&'static str>,
    /// When the ending strikes.
    when: When,
    /// How a call ends that nothing strikes.
    answer: Expect,
}

#[derive(Clone, Copy, PartialEq)]
enum When {
    /// While it works; it would go on for ever.
    Endless,
    /// While it works; it comes to its end by itself.
    Working,
    /// After it is over: it cannot be struck earlier.
    Over,
}

#[derive(Clone, Copy)]
enum Expect {
    Success,
    Code(&'static str),
}

const NO_JSON: Expect = Expect::Code("mcp-fz-no-json");

fn faults() -> [Fault; 10] {
    let fault = |name, script: &str, when, answer| {
        let script = format!("ids child\n{script}");
        Fault { name, script, grandchild: None, when, answer }
    };
    let with_grandchild = |name, grandchild| Fault {
        grandchild: Some(grandchild),
        ..fault(
            name,
            &format!("spawn grandchild\nwait grandchild\ntouch started\nwait go\n{OK}"),
            When::Endless,
            Expect::Success,
        )
    };
    let failure = r#"out {"schema":1,"ok":false,"failures":[{"code":"c","message":"m"}]}"#;
    [
        fault("success", &format!("{OK}\ntouch started\nwait go"), When::Working, Expect::Success),
        fault("failure", &format!("{failure}\ntouch started\nwait go\nexit 1"), When::Working, Expect::Code("c")),
        fault("hang", &format!("touch started\nwait go\n{OK}"), When::Endless, Expect::Success),
        fault("TERM ignored", &format!("ignore-term\ntouch started\nwait go\n{OK}"), When::Endless, Expect::Success),
        with_grandchild("grandchild holds stdout", "ids grandchild\nhang"),
        with_grandchild("grandchild leaves group", "setsid\nids grandchild\nhang"),
        fault(
            "flood on stdout",
            "flood out 3000000\ntouch started\nwait go\nflood out 999999999999",
            When::Working,
            NO_JSON,
        ),
        fault(
            "flood on stderr",
            &format!("touch started\nflood err 200000000\nwait go\n{OK}"),
            When::Endless,
            Expect::Success,
        ),
        fault("death by signal", "touch started\nsignal 9", When::Over, NO_JSON),
        fault("exit before reading", "touch started\nexit 0", When::Over, NO_JSON),
    ]
}

#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Finish,
    Timeout,
    Cancel,
    Eof,
    Sigterm,
    ClientGone,
}

const ENDINGS: [(Ending, &str); 6] = [
    (Ending::Finish, "finish"),
    (Ending::Timeout, "timeout"),
    (Ending::Cancel, "cancel"),
    (Ending::Eof, "EOF"),
    (Ending::Sigterm, "SIGTERM"),
    (Ending::ClientGone, "client gone"),
];

const CALL: u64 = 7;
const NEXT: u64 = 8;

/// Plays one cell. Says how long the end took, from the strike until the answer or the server's exit.
fn play(fault: &Fault, ending: Ending) -> Duration {
    let limit = match (ending, fault.when) {
        (_, When::Over) => "600",
        (Ending::Timeout, _) | (Ending::Eof, When::Endless) => "2",
        _ => "600",
    };
    let mut setup = Setup::stub(OK).script("doctor", &fault.script).flag("--timeout-secs").flag(limit);
    if let Some(script) = fault.grandchild {
        setup = setup.script("grandchild", script);
    }
    let mut wire = Wire::pipes(setup);
    wire.handshake();
    wire.call(CALL, "fz_doctor");
    wait_for(&wire.setup.event("started"));
    let mut seen = Vec::new();
    if fault.when == When::Over {
        let answer = wire.recv_id(CALL, &mut seen);
        judge(&answer, fault.answer);
        seen.push(answer);
    }

    let strikes = fault.when != When::Over;
    let begun = Instant::now();
    let mut took = None;
    match ending {
        Ending::Finish | Ending::Timeout if strikes => {
            let expect = if ending == Ending::Finish {
                give(&wire);
                fault.answer
            } else {
                Expect::Code("mcp-fz-timeout")
            };
            let answer = wire.recv_id(CALL, &mut seen);
            took = Some(begun.elapsed());
            judge(&answer, expect);
            seen.push(answer);
        }
        Ending::Finish | Ending::Timeout => {}
        Ending::Cancel => wire.cancel(CALL),
        Ending::Eof => {
            wire.close_stdin();
            if fault.when == When::Working {
                give(&wire);
            }
        }
        Ending::Sigterm => wire.signal(Signal::TERM),
        Ending::ClientGone => {
            wire.close_stdin();
            wire.close_stdout();
        }
    }

    // The server goes on, and its queue is free.
    if matches!(ending, Ending::Finish | Ending::Timeout | Ending::Cancel) {
        wire.send(&json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}));
        wire.call(NEXT, "fz_verify");
        let next = wire.recv_id(NEXT, &mut seen);
        assert!(next["result"]["structuredContent"]["ok"].is_boolean(), "{next}");
        assert!(limit != "600" || next["result"]["isError"] == false, "{next}");
        wire.close_stdin();
    }
    if ending != Ending::ClientGone {
        seen.extend(wire.rest());
    }
    let status = wire.wait_exit();
    let took = took.unwrap_or_else(|| begun.elapsed());

    let answers: Vec<&Value> = seen.iter().filter(|message| message["id"] == CALL).collect();
    let expected = match ending {
        Ending::Cancel | Ending::Sigterm | Ending::ClientGone if strikes => 0,
        _ => 1,
    };
    assert_eq!(answers.len(), expected, "{answers:?}");
    if ending == Ending::Eof && strikes {
        let expect = if fault.when == When::Endless { Expect::Code("mcp-fz-timeout") } else { fault.answer };
        judge(answers[0], expect);
    }
    let expected = if ending == Ending::Sigterm { 128 + 15 } else { 0 };
    assert_eq!(status.code(), Some(expected), "the server's exit");

    let (child, group) = ids(&wire.setup.event("child"));
    assert_eq!(child, group, "the child leads its group");
    wait_until("the child is gone", || !alive(child));
    if fault.grandchild.is_some() {
        let (grandchild, of_group) = ids(&wire.setup.event("grandchild"));
        if of_group == group {
            wait_until("the grandchild is gone", || !alive(grandchild));
        } else {
            // It left the group on purpose, and outlives the call: docs/processes.md.
            let pid = Pid::from_raw(grandchild.try_into().expect("a process id")).expect("a process id");
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    took
}

#[track_caller]
fn give(wire: &Wire) {
    std::fs::write(wire.setup.event("go"), "").expect("a temporary directory can be written");
}

#[track_caller]
fn judge(answer: &Value, expect: Expect) {
    let envelope = &answer["result"]["structuredContent"];
    match expect {
        Expect::Success => assert_eq!(envelope["ok"], true, "{answer}"),
        Expect::Code(code) => assert_eq!(envelope["failures"][0]["code"], code, "{answer}"),
    }
}

#[test]
fn faults_crossed_with_endings_leave_no_process_and_no_request_open() {
    let faults = faults();
    let cells = faults.len() * ENDINGS.len();
    let (next, (played, outcomes)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..12 {
            let (next, played, faults) = (&next, played.clone(), &faults);
            scope.spawn(move || {
                loop {
                    let cell = next.fetch_add(1, Ordering::Relaxed);
                    if cell >= cells {
                        break;
                    }
                    let (fault, (ending, _)) = (&faults[cell / ENDINGS.len()], ENDINGS[cell % ENDINGS.len()]);
                    let outcome = catch_unwind(AssertUnwindSafe(|| play(fault, ending)));
                    played.send((cell, outcome.ok())).expect("the outcomes are awaited");
                }
            });
        }
    });
    drop(played);
    let done: BTreeMap<usize, Option<Duration>> = outcomes.into_iter().collect();

    let mut table = format!("\n{:<24}", "seconds to the end");
    for (_, name) in ENDINGS {
        write!(table, "{name:>13}").expect("a string can be written");
    }
    for (row, fault) in faults.iter().enumerate() {
        write!(table, "\n{:<24}", fault.name).expect("a string can be written");
        for column in 0..ENDINGS.len() {
            let took = done[&(row * ENDINGS.len() + column)];
            let cell = took.map_or("FAILED".into(), |took| format!("ok {:.2}", took.as_secs_f64()));
            write!(table, "{cell:>13}").expect("a string can be written");
        }
    }
    // Past the capture of the test harness: the table is what one wants to see.
    writeln!(std::io::stdout(), "{table}\n").expect("stdout can be written");
    let failed = done.values().filter(|took| took.is_none()).count();
    assert_eq!(failed, 0, "of {cells} cells");
}
