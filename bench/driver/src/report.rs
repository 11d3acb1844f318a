//! The figures as a table of ratios, as JSON and as a drawing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::figures::Figures;
use crate::{FLIGHTS, FLOOR, FZ_MCP, Memory, PEERS, Result, SIZES};

/// What the table stands between in docs/performance.md.
const BEGIN: &str = "<!-- the table of bench/run -->";
const END: &str = "<!-- its end -->";

/// KiB over 2,000 calls that are no growth: the allocator's own ups and downs.
const GROWTH: f64 = 64.0;

/// One row: what was measured, against what, and the most that fz-mcp may take of it.
struct Row {
    title: String,
    measure: String,
    /// The same work without a wrapper, or another measure of the same server.
    against: Option<String>,
    part: f64,
    at_most: Option<f64>,
}

fn rows() -> Vec<Row> {
    let row = |title: &str, measure: &str, part, at_most| Row {
        title: title.into(),
        measure: measure.into(),
        against: None,
        part,
        at_most,
    };
    let mut rows = vec![
        row("cold start to the initialize reply", "cold", 0.5, Some(1.4)),
        row("ping", "ping", 0.5, Some(1.25)),
        row("tools/list", "list", 0.5, Some(1.5)),
        row("fz_error_codes", "codes", 0.5, Some(1.5)),
        row("fz_plan", "plan", 0.5, Some(1.05)),
        row("fz_plan, p95", "plan", 0.95, None),
        row("fz_plan, p99", "plan", 0.99, Some(1.10)),
        row("fz_plan, on one core", "plan on one core", 0.5, Some(1.05)),
        row("fz_plan, on one core, p99", "plan on one core", 0.99, Some(1.10)),
        row("fz_plan, trivial child", "trivial plan", 0.5, None),
    ];
    for count in FLIGHTS {
        let at_most = (count == 8).then_some(1.03);
        rows.push(row(&format!("fz_plan, {count} at once"), &format!("plans at once: {count}"), 0.5, at_most));
    }
    for size in SIZES {
        let at_most = (size == SIZES[3]).then_some(6.0);
        rows.push(row(&format!("object of {}", bytes(size)), &format!("object: {size}"), 0.5, at_most));
    }
    rows.push(Row {
        against: Some("ping".into()),
        ..row("ping while eight children hang, to an idle ping", "ping while eight hang", 0.5, Some(2.0))
    });
    rows
}

fn bytes(size: usize) -> String {
    match size {
        0..0x10_0000 => format!("{} KiB", size >> 10),
        _ => format!("{}.{} MiB", size >> 20, ((size & 0xf_ffff) * 10 + 0x8_0000) >> 20),
    }
}

fn time(nanos: f64) -> String {
    match nanos {
        n if n < 1e6 => format!("{:.1} us", n / 1e3),
        n if n < 1e8 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.0} ms", n / 1e6),
    }
}

fn short(ratio: f64) -> String {
    if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") }
}

impl Row {
    fn ratio(&self, figures: &Figures, server: &'static str) -> Option<f64> {
        figures.ratio((&self.measure, server), self.base(server), self.part)
    }

    /// The ratio of the fastest tenths, which a busy machine spoils least.
    fn quiet(&self, figures: &Figures, server: &'static str) -> Option<f64> {
        (self.part <= 0.5).then(|| figures.ratio((&self.measure, server), self.base(server), 0.1))?
    }

    fn base(&self, server: &'static str) -> (&str, &'static str) {
        self.against.as_deref().map_or((&self.measure, FLOOR), |measure| (measure, server))
    }
}

pub fn write(figures: &Figures, memory: &[Memory], out: &Path, rounds: usize, docs: Option<&Path>) -> Result<()> {
    let table = table(figures, memory);
    println!("{table}");
    fs::write(out.join("results.md"), &table)?;
    fs::write(out.join("results.json"), format!("{:#}\n", data(figures, memory, rounds)))?;
    let drawing = crate::drawing::draw(&points(figures));
    fs::write(out.join("performance.svg"), &drawing)?;
    if let Some(docs) = docs {
        fs::write(docs.join("performance.svg"), &drawing)?;
        let page = docs.join("performance.md");
        let text = fs::read_to_string(&page)?;
        let (head, rest) = text.split_once(BEGIN).ok_or("the page has no place for the table")?;
        let (_, tail) = rest.split_once(END).ok_or("the page has no end of the table")?;
        fs::write(page, format!("{head}{BEGIN}\n\n{table}\n{END}{tail}"))?;
    }
    Ok(())
}

fn table(figures: &Figures, memory: &[Memory]) -> String {
    let servers = || [FZ_MCP].into_iter().chain(PEERS);
    let mut table = format!(
        "| | floor | {} | quiet | at most |\n|---|---|---|---|---|---|---|---|\n",
        servers().collect::<Vec<_>>().join(" | ")
    );
    for row in rows() {
        let floor = figures.get(&row.measure, FLOOR).map_or("-".into(), |samples| time(samples.quantile(row.part)));
        let _ = write!(table, "| {} | {floor} |", row.title);
        for server in servers() {
            let took = figures.get(&row.measure, server).map_or("-".into(), |samples| time(samples.quantile(row.part)));
            let ratio = row.ratio(figures, server).map_or(String::new(), |ratio| format!(" ({})", short(ratio)));
            let _ = write!(table, " {took}{ratio} |");
        }
        let quiet = row.quiet(figures, FZ_MCP).map_or("-".into(), short);
        let at_most = row.at_most.map_or(String::new(), |limit| {
            let met = row.ratio(figures, FZ_MCP).is_some_and(|ratio| ratio <= limit);
            format!("{limit} {}", if met { "met" } else { "MISSED" })
        });
        let _ = writeln!(table, " {quiet} | {at_most} |");
    }
    let object = SIZES[3] as f64 / 1024.0;
    let limits = [
        ("idle", 3.0 * 1024.0),
        ("growth", GROWTH),
        ("peak", f64::NAN),
        ("peak with object", 5.0 * object),
        ("binary", f64::NAN),
    ];
    let titles = [
        "resident memory, idle",
        "its growth over 2,000 calls",
        "its peak after them",
        "its peak after three such objects",
        "size of the binary",
    ];
    for ((key, limit), title) in limits.into_iter().zip(titles) {
        let _ = write!(table, "| {title} | - |");
        let of = |memory: &Memory| memory.values.iter().find(|(name, _)| *name == key).map(|(_, kib)| *kib);
        for memory in memory {
            let _ = write!(table, " {} |", of(memory).map_or("-".into(), |kib| format!("{:.2} MiB", kib / 1024.0)));
        }
        let at_most = if limit.is_nan() {
            String::new()
        } else {
            let met = memory.first().and_then(of).is_some_and(|kib| kib <= limit);
            format!("{:.1} MiB {}", limit / 1024.0, if met { "met" } else { "MISSED" })
        };
        let _ = writeln!(table, " - | {at_most} |");
    }
    table
}

fn data(figures: &Figures, memory: &[Memory], rounds: usize) -> Value {
    let times = figures.iter().map(|((measure, server), samples)| {
        json!({
            "measure": measure,
            "server": server,
            "p10_ns": samples.quantile(0.1).round(),
            "median_ns": samples.quantile(0.5).round(),
            "p95_ns": samples.quantile(0.95).round(),
            "p99_ns": samples.quantile(0.99).round(),
        })
    });
    let ratios = rows().into_iter().map(|row| {
        let mut ratios = json!({"row": row.title, "at_most": row.at_most});
        for server in [FZ_MCP].into_iter().chain(PEERS) {
            ratios[server] = json!({"ratio": row.ratio(figures, server), "quiet": row.quiet(figures, server)});
        }
        ratios
    });
    let memory = memory.iter().map(|memory| {
        let mut values = json!({"server": memory.server});
        for (name, kib) in &memory.values {
            values[*name] = json!(kib);
        }
        values
    });
    json!({
        "rounds": rounds,
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "times": times.collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
        "memory_kib": memory.collect::<Vec<_>>(),
    })
}

/// What is drawn: of each row with a limit and a floor, the ratio of every server.
fn points(figures: &Figures) -> Vec<(String, Vec<(&'static str, f64)>)> {
    let drawn = rows().into_iter().filter(|row| row.at_most.is_some() && row.against.is_none());
    drawn
        .map(|row| {
            let servers = [FZ_MCP].into_iter().chain(PEERS);
            let ratios = servers.filter_map(|server| Some((server, row.ratio(figures, server)?))).collect();
            (row.title, ratios)
        })
        .collect()
}
