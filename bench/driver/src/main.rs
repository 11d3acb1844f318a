//! Measures fz-mcp, three peers and the limit in interleaved rounds. Started by `bench/run`, which builds all of them.

mod drawing;
mod figures;
mod report;
mod server;

use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use figures::Figures;
use rustix::thread::CpuSet;
use serde_json::Value;
use server::{CODES, DOCTOR, LIST, PING, PLAN, Recipe, Request, Server, VERIFY};

pub const FLOOR: &str = "floor";
pub const FZ_MCP: &str = "fz-mcp";
pub const PEERS: [&str; 3] = ["rmcp", "TypeScript", "Python"];
/// Bytes of the envelopes by which the cost of size is measured; the last is 2.9 MiB.
pub const SIZES: [usize; 4] = [1 << 10, 16 << 10, 256 << 10, 3_040_870];
/// Calls at once.
pub const FLIGHTS: [usize; 4] = [1, 2, 4, 8];
const CALLS_FOR_GROWTH: usize = 2_000;
/// Requests of each kind before replies from memory are timed.
const WARM: usize = 300;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What stands on the command line, as `name=value`.
struct Options {
    rounds: usize,
    /// Repository, where the built programs are, and what this run writes.
    root: PathBuf,
    built: PathBuf,
    scratch: PathBuf,
    node: PathBuf,
    python: PathBuf,
    /// Whether the table and the drawing go into docs/, too.
    write: bool,
}

fn options() -> Result<Options> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let get = |name: &str| words.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let need = |name: &str| get(name).map(PathBuf::from).ok_or(format!("{name}= is missing"));
    Ok(Options {
        rounds: get("rounds").map_or(Ok(30), str::parse)?,
        root: need("root")?,
        built: need("built")?,
        scratch: need("scratch")?,
        node: need("node")?,
        python: need("python")?,
        write: get("write") == Some("docs"),
    })
}

struct Bench {
    recipes: Vec<Recipe>,
    /// The real one and the trivial one.
    fz: PathBuf,
    trivial: PathBuf,
    floor: PathBuf,
    /// A copy of the sample venture, and what the trivial child and the peers read.
    venture: PathBuf,
    data: PathBuf,
    figures: Figures,
    /// Whose turn comes first.
    begins: usize,
}

fn main() -> Result<()> {
    let options = options()?;
    let mut bench = Bench::prepare(&options)?;
    eprintln!("{} rounds", options.rounds);
    let every = CpuSet::clone(&rustix::thread::sched_getaffinity(None)?);
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).rev().find(|&core| every.is_set(core)).ok_or("no core")?);

    let start = |bench: &Bench, fz: &Path, cwd: &Path| -> Result<Vec<Server>> {
        bench.recipes.iter().map(|recipe| Ok(recipe.start(cwd, fz)?)).collect()
    };
    rustix::thread::sched_setaffinity(None, &one)?;
    let mut pinned = start(&bench, &bench.trivial, &bench.data)?;
    let mut real_pinned = start(&bench, &bench.fz, &bench.venture)?;
    let mut floor = bench.start_floor()?;
    rustix::thread::sched_setaffinity(None, &every)?;
    let mut real = start(&bench, &bench.fz, &bench.venture)?;
    let mut trivial = start(&bench, &bench.trivial, &bench.data)?;
    bench.compare_answers(&mut real)?;
    Bench::warm_up(&[&PING, &LIST, &CODES], WARM, &mut pinned)?;
    for servers in [&mut real, &mut real_pinned, &mut trivial] {
        Bench::warm_up(&[&PLAN], 20, servers)?;
    }

    for round in 0..options.rounds {
        bench.cold(round)?;
        bench.plans("plan", round, &mut real)?;
        bench.trivial_plans(round, &mut trivial)?;
        bench.at_once(round, &mut real)?;
        bench.objects(round, &mut trivial)?;
        rustix::thread::sched_setaffinity(None, &one)?;
        bench.restart_binaries(&mut pinned, &mut floor)?;
        bench.replies(round, &mut pinned, &mut floor)?;
        bench.hanging(round, &mut pinned)?;
        bench.plans("plan on one core", round, &mut real_pinned)?;
        rustix::thread::sched_setaffinity(None, &every)?;
        eprint!("\r{}", round + 1);
    }
    eprintln!();
    drop((real, real_pinned, trivial, pinned, floor));
    let memory = bench.memory()?;
    let docs = options.write.then(|| options.root.join("docs"));
    report::write(&bench.figures, &memory, &options.scratch, options.rounds, docs.as_deref())
}

/// What memory was seen of one server, KiB, and the bytes of its binary.
pub struct Memory {
    pub server: &'static str,
    pub values: Vec<(&'static str, f64)>,
}

impl Bench {
    fn prepare(options: &Options) -> Result<Self> {
        let Options { root, built, scratch, .. } = options;
        let (venture, data) = (scratch.join("venture"), scratch.join("data"));
        for dir in [&venture, &data] {
            if dir.exists() {
                fs::remove_dir_all(dir)?;
            }
        }
        fs::create_dir_all(&data)?;
        let copied = Command::new("cp").arg("-r").arg(root.join("venture")).arg(&venture).status()?;
        if !copied.success() {
            return Err("the venture could not be copied".into());
        }
        let with_data = |words: &[&Path]| words.iter().copied().chain([&*data]).map(Into::into).collect();
        let recipes = vec![
            Recipe::fz_mcp(&built.join("fz-mcp")),
            Recipe::peer(PEERS[0], with_data(&[&built.join("peer")])),
            Recipe::peer(PEERS[1], with_data(&[&options.node, &scratch.join("typescript/server.mjs")])),
            Recipe::peer(PEERS[2], with_data(&[&options.python, &root.join("bench/peers/python/server.py")])),
        ];
        let bench = Self {
            recipes,
            fz: built.join("fz"),
            trivial: built.join("trivial"),
            floor: built.join("floor"),
            venture,
            data,
            figures: Figures::default(),
            begins: 0,
        };
        bench.write_data()?;
        Ok(bench)
    }

    /// The peers serve the same tools and the same catalogue as fz-mcp, and the floor its very replies.
    fn write_data(&self) -> Result<()> {
        let mut server = self.recipes[0].start(&self.venture, &self.fz)?;
        for (request, result, tail) in [(&LIST, "tools.json", "list.tail"), (&CODES, "codes.json", "codes.tail")] {
            let reply = server.result(request)?;
            fs::write(self.data.join(tail), format!(",\"result\":{reply}}}\n"))?;
            let text = reply["content"][0]["text"].as_str().map_or_else(|| reply.to_string(), str::to_owned);
            fs::write(self.data.join(result), text)?;
        }
        let plan = self.command(&self.fz, &self.venture, "plan").output()?;
        fs::write(self.data.join("envelope"), plan.stdout)?;
        self.write_object(SIZES[3])
    }

    /// An envelope of about so many bytes, of the kind a plan is: short names, a text now and then.
    fn write_object(&self, size: usize) -> Result<()> {
        let mut text = String::from(r#"{"schema":1,"ok":true,"failures":[],"modules":["#);
        let mut number = 0;
        while text.len() + 2 < size {
            let comma = if number > 0 { "," } else { "" };
            text += &format!(
                r#"{comma}{{"slug":"module-{number:05}","version":"0.10.{number}","selected":true,"config":null,"weight":{number}.5,"sql":"INSERT INTO seed VALUES ('a \"quoted\" name — {number}');\n"}}"#
            );
            number += 1;
        }
        text += "]}\n";
        Ok(fs::write(self.data.join("object"), text)?)
    }

    /// All must do the same work: list the same tools, and answer with what fz printed and with the catalogue.
    fn compare_answers(&self, real: &mut [Server]) -> Result<()> {
        let plan = fs::read_to_string(self.data.join("envelope"))?;
        let codes = fs::read_to_string(self.data.join("codes.json"))?;
        let tools: Value = serde_json::from_str(&fs::read_to_string(self.data.join("tools.json"))?)?;
        for (server, recipe) in real.iter_mut().zip(&self.recipes) {
            for (request, text) in [(&PLAN, &*plan), (&CODES, &*codes)] {
                let result = server.result(request)?;
                let structured: Value = serde_json::from_str(text)?;
                if result["content"][0]["text"] != text.trim_end() || result["structuredContent"] != structured {
                    return Err(format!("{} answers with something else than {text}", recipe.name).into());
                }
            }
            if server.result(&LIST)?["tools"] != tools["tools"] {
                return Err(format!("{} lists other tools", recipe.name).into());
            }
        }
        Ok(())
    }

    fn command(&self, fz: &Path, cwd: &Path, verb: &str) -> Command {
        let mut command = Command::new(fz);
        command.args([verb, "--json", "--non-interactive"]).current_dir(cwd).stdin(Stdio::null());
        command
    }

    fn start_floor(&self) -> io::Result<Server> {
        let mut command = Command::new(&self.floor);
        command.arg(&self.data);
        Server::start(command)
    }

    /// What nothing that spawns the child can beat.
    fn bare(&self, fz: &Path, cwd: &Path, verb: &str) -> Result<Duration> {
        let mut command = self.command(fz, cwd, verb);
        let began = Instant::now();
        let output = command.output()?;
        let took = began.elapsed();
        if output.stdout.is_empty() || !output.status.success() {
            return Err(format!("{} {verb} failed: {output:?}", fz.display()).into());
        }
        Ok(took)
    }

    fn warm_up(requests: &[&Request], times: usize, servers: &mut [Server]) -> Result<()> {
        for request in requests {
            for server in &mut *servers {
                for _ in 0..times {
                    server.ask(request)?;
                }
            }
        }
        Ok(())
    }

    /// Where the memory of a process happens to lie moves its pings by up to a tenth, so what starts fast is started anew
    /// each round. The interpreters keep what they have compiled.
    fn restart_binaries(&self, pinned: &mut [Server], floor: &mut Server) -> Result<()> {
        for (server, recipe) in pinned.iter_mut().zip(&self.recipes).filter(|(_, recipe)| recipe.binary().is_some()) {
            *server = recipe.start(&self.data, &self.trivial)?;
            Self::warm_up(&[&PING, &LIST, &CODES], WARM, std::slice::from_mut(server))?;
        }
        *floor = self.start_floor()?;
        Ok(())
    }

    /// Everybody's turn, the floor's last; who begins changes each time.
    fn turns(&mut self) -> Vec<usize> {
        let count = self.recipes.len() + 1;
        self.begins = (self.begins + 1) % count;
        (0..count).map(|turn| (turn + self.begins) % count).collect()
    }

    fn cold(&mut self, round: usize) -> Result<()> {
        for turn in self.turns() {
            // Node and Python take hundreds of times as long: now and then is enough.
            let is_slow = turn == 2 || turn == 3;
            let times = if !is_slow { 5 } else { usize::from(round.is_multiple_of(4)) };
            for _ in 0..times {
                let (name, took) = match self.recipes.get(turn) {
                    Some(recipe) => (recipe.name, recipe.start(&self.venture, &self.fz)?.cold),
                    None => (FLOOR, self.start_floor()?.cold),
                };
                self.figures.add("cold", name, round, took);
            }
        }
        Ok(())
    }

    /// Everybody does the same so many times in a row. The first time is not counted: it would pay for what the one
    /// before has driven out of the caches.
    fn compare(
        &mut self,
        (measure, round, times): (&str, usize, usize),
        servers: &mut [Server],
        ask: impl Fn(&mut Server) -> io::Result<Duration>,
        mut bare: impl FnMut(&Self) -> Result<Duration>,
    ) -> Result<()> {
        for turn in self.turns() {
            // Kept aside, so that no bookkeeping comes between two requests.
            let mut took = Vec::with_capacity(times + 1);
            for _ in 0..=times {
                took.push(match servers.get_mut(turn) {
                    Some(server) => ask(server)?,
                    None => bare(self)?,
                });
            }
            let name = self.recipes.get(turn).map_or(FLOOR, |recipe| recipe.name);
            for took in took.into_iter().skip(1) {
                self.figures.add(measure, name, round, took);
            }
        }
        Ok(())
    }

    fn plans(&mut self, measure: &str, round: usize, real: &mut [Server]) -> Result<()> {
        for _ in 0..4 {
            let bare = |bench: &Self| bench.bare(&bench.fz, &bench.venture, "plan");
            self.compare((measure, round, 8), real, |server| server.ask(&PLAN), bare)?;
        }
        Ok(())
    }

    fn trivial_plans(&mut self, round: usize, trivial: &mut [Server]) -> Result<()> {
        let bare = |bench: &Self| bench.bare(&bench.trivial, &bench.data, "plan");
        self.compare(("trivial plan", round, 16), trivial, |server| server.ask(&PLAN), bare)
    }

    fn at_once(&mut self, round: usize, real: &mut [Server]) -> Result<()> {
        for count in FLIGHTS {
            let measure = format!("plans at once: {count}");
            let bare = |bench: &Self| bench.bare_at_once(count);
            self.compare((&measure, round, 3), real, |server| server.ask_at_once(&PLAN, count), bare)?;
        }
        Ok(())
    }

    fn bare_at_once(&self, count: usize) -> Result<Duration> {
        let began = Instant::now();
        let mut children = Vec::new();
        for _ in 0..count {
            let mut command = self.command(&self.fz, &self.venture, "plan");
            children.push(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?);
        }
        for child in children {
            if child.wait_with_output()?.stdout.is_empty() {
                return Err("plan printed nothing".into());
            }
        }
        Ok(began.elapsed())
    }

    fn objects(&mut self, round: usize, trivial: &mut [Server]) -> Result<()> {
        for size in SIZES {
            self.write_object(size)?;
            let (measure, times) = (format!("object: {size}"), if size > 1 << 20 { 1 } else { 3 });
            let bare = |bench: &Self| bench.bare(&bench.trivial, &bench.data, "verify");
            self.compare((&measure, round, times), trivial, |server| server.ask(&VERIFY), bare)?;
        }
        Ok(())
    }

    /// What is answered from memory.
    fn replies(&mut self, round: usize, pinned: &mut [Server], floor: &mut Server) -> Result<()> {
        for (measure, request) in [("ping", &PING), ("list", &LIST), ("codes", &CODES)] {
            self.compare((measure, round, 200), pinned, |server| server.ask(request), |_| Ok(floor.ask(request)?))?;
        }
        Ok(())
    }

    /// Pings while eight children hang. Each tells that it hangs by holding a connection, and ends when that is closed.
    fn hanging(&mut self, round: usize, pinned: &mut [Server]) -> Result<()> {
        let place = self.data.join("leash");
        let _ = fs::remove_file(&place);
        let listener = UnixListener::bind(&place)?;
        for (server, recipe) in pinned.iter_mut().zip(&self.recipes) {
            server.send(&DOCTOR, 8)?;
            let leashes = (0..8).map(|_| listener.accept()).collect::<io::Result<Vec<_>>>()?;
            for _ in 0..100 {
                let took = server.ask(&PING)?;
                self.figures.add("ping while eight hang", recipe.name, round, took);
            }
            drop(leashes);
            for _ in 0..8 {
                server.read()?;
            }
        }
        Ok(())
    }

    /// On servers of their own, since peaks cannot be taken back.
    fn memory(&self) -> Result<Vec<Memory>> {
        self.write_object(SIZES[3])?;
        let mut all = Vec::new();
        for recipe in &self.recipes {
            let mut server = recipe.start(&self.data, &self.trivial)?;
            server.ask(&PING)?;
            let mut values = vec![("idle", server.memory("VmRSS")?)];
            for _ in 0..CALLS_FOR_GROWTH / 10 {
                server.ask(&PLAN)?;
            }
            let before = server.memory("VmRSS")?;
            for _ in 0..CALLS_FOR_GROWTH {
                server.ask(&PLAN)?;
            }
            values.push(("growth", server.memory("VmRSS")? - before));
            values.push(("peak", server.memory("VmHWM")?));
            let mut server = recipe.start(&self.data, &self.trivial)?;
            for _ in 0..3 {
                server.ask(&VERIFY)?;
            }
            values.push(("peak with object", server.memory("VmHWM")?));
            if let Some(binary) = recipe.binary() {
                values.push(("binary", fs::metadata(binary)?.len() as f64 / 1024.0));
            }
            all.push(Memory { server: recipe.name, values });
        }
        Ok(all)
    }
}
