//! Calls without end, many of them cancelled at random: what they leave behind is nothing.
#![cfg(target_os = "linux")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Instant;

use cratefield_mcp::config::MAX_READERS;
use serde_json::json;

use crate::proc::{descriptors, memory, peak, threads};
use crate::support::{OK, Setup, alive, wait_until};
use crate::wire::Wire;

/// The short form; `FZ_MCP_SOAK` asks for another number of calls, `FZ_MCP_SOAK_SEED` for the same ones again.
const CALLS: u64 = 1_000;
/// Requests in flight.
const SIDE_BY_SIDE: usize = 24;

/// What the calls do, each with how often it comes in a hundred.
const KINDS: [(&str, u64); 8] = [
    ("fz_plan", 50),
    ("fz_add", 6),
    ("fz_deploy", 2),
    ("fz_verify", 20),
    ("fz_doctor", 16),
    ("fz_init", 4),
    ("fz_error_codes", 1),
    ("fz_nothing", 1),
];

fn setup() -> Setup {
    let pid = "append pids %p";
    let failed = r#"out {"schema":1,"ok":false,"failures":[{"code":"c","message":"m"}]}"#;
    Setup::stub(OK)
        .script("plan", &format!("{pid}\n{OK}"))
        .script("add", &format!("{pid}\n{OK}"))
        .script("deploy", &format!("{pid}\nerr no envelope\\n\nexit 101"))
        .script("verify", &format!("{pid}\nflood err 100000\n{failed}\nexit 1"))
        // These two end only by a cancellation, which is always sent for them.
        .script("doctor", &format!("{pid}\nspawn grandchild\nhang"))
        .script("init", &format!("{pid}\nspawn-quiet grandchild\nhang"))
        .script("grandchild", &format!("{pid}\nhang"))
}

/// Numbers that only look random: the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    fn kind(&mut self) -> &'static str {
        let mut left = self.below(100);
        for (tool, share) in KINDS {
            match left.checked_sub(share) {
                Some(rest) => left = rest,
                None => return tool,
            }
        }
        "fz_plan"
    }
}

struct Soak {
    wire: Wire,
    dice: Dice,
    /// Calls not answered, each with whether it ends by a cancellation only.
    open: BTreeMap<u64, bool>,
    /// Cancelled, and the server may not have read it yet.
    doubtful: BTreeSet<u64>,
    /// Each ping, with the calls that were cancelled before it: once it is answered, no reply to them may come.
    pings: BTreeMap<String, Vec<u64>>,
    silent: BTreeSet<u64>,
    next: u64,
    answered: u64,
    cancelled: u64,
}

impl Soak {
    fn call(&mut self) {
        let tool = self.dice.kind();
        let arguments = match tool {
            "fz_add" => json!({"module": "m"}),
            "fz_init" => json!({"name": "n", "host": "h"}),
            _ => json!({}),
        };
        self.next += 1;
        let mut params = json!({"name": tool, "arguments": arguments});
        if self.dice.below(4) == 0 {
            params["_meta"] = json!({"progressToken": self.next});
        }
        self.wire.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params}));
        self.open.insert(self.next, matches!(tool, "fz_doctor" | "fz_init"));
    }

    /// Cancels what would never end, and of the others one here and there.
    fn cancel(&mut self, all: bool) {
        let mut chosen = Vec::new();
        for (&id, &endless) in &self.open {
            let chance = if endless { 3 } else { 200 };
            if (all && endless) || self.dice.below(chance) == 0 {
                chosen.push(id);
            }
        }
        if chosen.is_empty() {
            return;
        }
        for &id in &chosen {
            self.wire.cancel(id);
            self.open.remove(&id);
            self.doubtful.insert(id);
            self.cancelled += 1;
        }
        let ping = format!("ping behind {}", self.cancelled);
        self.wire.send(&json!({"jsonrpc": "2.0", "id": ping, "method": "ping"}));
        self.pings.insert(ping, chosen);
    }

    /// Takes one message.
    #[track_caller]
    fn take(&mut self) {
        let message = self.wire.recv().expect("the server goes on");
        if message["method"] == "notifications/progress" {
            let token = message["params"]["progressToken"].as_u64().expect("our token");
            assert!(self.open.contains_key(&token) || self.doubtful.contains(&token), "{message} behind its end");
        } else if let Some(ping) = message["id"].as_str() {
            for id in self.pings.remove(ping).expect("asked once") {
                self.doubtful.remove(&id);
                self.silent.insert(id);
            }
        } else {
            let id = message["id"].as_u64().expect("our id");
            assert!(!self.silent.contains(&id), "{message} behind its cancellation");
            assert!(self.open.remove(&id).is_some() || self.doubtful.remove(&id), "{message} a second time");
            self.answered += 1;
        }
    }

    #[track_caller]
    fn run(&mut self, calls: u64) {
        let end = self.next + calls;
        while self.next < end {
            while self.open.len() < SIDE_BY_SIDE && self.next < end {
                self.call();
            }
            self.cancel(false);
            if !self.open.is_empty() {
                self.take_or_cancel();
            }
        }
        while !self.open.is_empty() || !self.pings.is_empty() {
            self.cancel(true);
            self.take();
        }
    }

    /// Waits until nothing runs: a writer starts only then, and holds nothing any more when it is answered.
    #[track_caller]
    fn settle(&mut self) {
        self.next += 1;
        let params = json!({"name": "fz_add", "arguments": {"module": "m"}});
        self.wire.send(&json!({"jsonrpc": "2.0", "id": self.next, "method": "tools/call", "params": params}));
        self.open.insert(self.next, false);
        while !self.open.is_empty() {
            self.take();
        }
    }

    /// Where everything open is endless, only a cancellation brings the next message.
    #[track_caller]
    fn take_or_cancel(&mut self) {
        if self.pings.is_empty() && self.open.values().all(|&endless| endless) {
            self.cancel(true);
        }
        self.take();
    }
}

#[test]
fn thousands_of_calls_with_random_cancellations_leave_nothing_behind() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let calls = number("FZ_MCP_SOAK").unwrap_or(CALLS);
    let seed = number("FZ_MCP_SOAK_SEED").unwrap_or_else(|| u64::from(std::process::id()) << 20 | 1);
    let mut report = format!("soak: {calls} calls, FZ_MCP_SOAK_SEED={seed}\n");
    // Said at once, so that it is known also of a run that fails.
    say(&report);

    let begun = Instant::now();
    let mut wire = Wire::pipes(setup());
    wire.handshake();
    let mut soak = Soak {
        wire,
        dice: Dice(seed.max(1)),
        open: BTreeMap::new(),
        doubtful: BTreeSet::new(),
        pings: BTreeMap::new(),
        silent: BTreeSet::new(),
        next: 0,
        answered: 0,
        cancelled: 0,
    };
    let pid = soak.wire.pid();
    // What is opened and allocated once is there by then.
    soak.run(calls / 5);
    soak.settle();
    let before = (descriptors(pid), memory(pid));
    soak.run(calls - calls / 5);
    soak.settle();
    let after = (descriptors(pid), memory(pid));

    let pids = std::fs::read_to_string(soak.wire.setup.event("pids")).expect("children ran");
    let pids: BTreeSet<u32> = pids.lines().map(|pid| pid.parse().expect("a number")).collect();
    wait_until("no process is left", || !pids.iter().any(|&pid| is_ours(pid, &soak.wire)));

    report.clear();
    let (answered, cancelled, processes) = (soak.answered, soak.cancelled, pids.len());
    writeln!(report, "  {answered} answered, {cancelled} cancelled in {:.1} s", begun.elapsed().as_secs_f64())
        .expect("a string can be written");
    writeln!(report, "  processes started {processes}, left 0").expect("a string can be written");
    let (threads, most_threads) = (threads(pid), 2 + u64::try_from(MAX_READERS).expect("a number"));
    writeln!(report, "  descriptors {} before, {} after, threads {threads}", before.0, after.0)
        .expect("a string can be written");
    let [before_kib, after_kib, most_kib] = [before.1, after.1, peak(pid)].map(|bytes| bytes / 1024);
    writeln!(report, "  memory {before_kib} KiB before, {after_kib} KiB after, {most_kib} KiB at most")
        .expect("a string can be written");
    say(&report);
    assert_eq!(before.0, after.0, "descriptors");
    assert!(threads <= most_threads, "{threads} threads");
    assert!(after.1 < before.1 + 8 * 1024 * 1024, "the memory grows");

    soak.wire.close_stdin();
    assert!(soak.wire.rest().is_empty());
    assert_eq!(soak.wire.wait_exit().code(), Some(0));
}

/// Whether a number is still that of a process of this test: the kernel gives numbers again.
fn is_ours(pid: u32, wire: &Wire) -> bool {
    let mark = wire.setup.event("").into_os_string().into_encoded_bytes();
    alive(pid)
        && std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.windows(mark.len()).any(|part| part == mark))
}

fn say(text: &str) {
    // Past the capture of the test harness.
    std::io::stdout().write_all(text.as_bytes()).expect("stdout can be written");
}
