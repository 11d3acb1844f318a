//! `cargo demo`: a real client starts the built `fz-mcp` on a copy of the sample venture, with the venture's own `fz`,
//! and walks through the tools. Every step says what was asked, what came back and how long it took; the last line says
//! that every step behaved, or the tour fails.
#![expect(clippy::print_stdout, reason = "a tour is for a person to read")]

use std::env::{self, consts::EXE_SUFFIX};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

use rmcp::model::CallToolRequestParams;
use rmcp::service::{RoleClient, RunningService, ServiceExt};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(walk())) {
        Ok(steps) => {
            println!("\nall {steps} steps behaved");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("\nthe tour stopped: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn walk() -> Outcome<usize> {
    let (server, fz) = programs()?;
    let scratch = tempfile::tempdir()?;
    let venture = scratch.path().join("venture");
    copy(&sample(), &venture)?;

    let mut command = tokio::process::Command::new(&server);
    command.arg("--cwd").arg(&venture).arg("--").arg(&fz);
    let begun = Instant::now();
    let client = ().serve(TokioChildProcess::new(command)?).await?;
    println!("started fz-mcp on a copy of the sample venture ({} ms)\n", begun.elapsed().as_millis());

    let mut tour = Tour { client, steps: 0 };
    tour.list().await?;
    tour.step("fz_doctor", json!({}), Expect::Ok).await?;
    let plan = tour.step("fz_plan", json!({}), Expect::Ok).await?;
    tour.step("fz_deploy", json!({}), Expect::Code("deploy-plan-required")).await?;
    tour.step("fz_deploy", json!({"plan": digest(&plan)?}), Expect::Ok).await?;
    tour.step("fz_verify", json!({}), Expect::Ok).await?;
    tour.step("fz_add", json!({"module": "cms"}), Expect::Ok).await?;
    tour.step("fz_verify", json!({}), Expect::Code("composition-drift")).await?;
    tour.step("fz_add", json!({"module": "--help"}), Expect::Code("mcp-argument-invalid")).await?;
    tour.step("fz_error_codes", json!({}), Expect::Ok).await?;
    tour.client.cancel().await?;
    Ok(tour.steps)
}

fn digest(plan: &Value) -> Outcome<&str> {
    plan.get("digest").and_then(Value::as_str).ok_or_else(|| "the plan has no digest".into())
}

struct Tour {
    client: RunningService<RoleClient, ()>,
    steps: usize,
}

#[derive(Clone, Copy)]
enum Expect {
    Ok,
    /// The first failure's code.
    Code(&'static str),
}

impl Tour {
    async fn list(&mut self) -> Outcome<()> {
        let tools = self.client.list_all_tools().await?;
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
        println!("tools/list\n    {}", names.join(", "));
        self.steps += 1;
        if names.is_empty() { Err("no tools".into()) } else { Ok(()) }
    }

    /// Calls a tool and shows the envelope; fails where it is not the expected one.
    async fn step(&mut self, tool: &'static str, arguments: Value, expect: Expect) -> Outcome<Value> {
        let params =
            CallToolRequestParams::new(tool).with_arguments(arguments.as_object().cloned().unwrap_or_default());
        let begun = Instant::now();
        let result = self.client.call_tool(params).await?;
        let elapsed = begun.elapsed();
        let envelope = result.structured_content.ok_or("a result without structuredContent")?;
        let codes: Vec<_> = envelope
            .get("failures")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|failure| failure.get("code").and_then(Value::as_str))
            .collect();
        let told = match (expect, envelope.get("digest").and_then(Value::as_str)) {
            (Expect::Code(_), _) => format!("refused, as it should be: {}", codes.join(", ")),
            (Expect::Ok, Some(digest)) => format!("ok, digest {digest}"),
            (Expect::Ok, None) if codes.is_empty() => "ok".to_owned(),
            (Expect::Ok, None) => codes.join(", "),
        };
        println!("{tool} {arguments}\n    {told} ({:.1} ms)", elapsed.as_secs_f64() * 1000.0);
        let is_ok = envelope.get("ok") == Some(&Value::Bool(true)) && result.is_error == Some(false);
        let behaved = match expect {
            Expect::Ok => is_ok,
            Expect::Code(code) => !is_ok && result.is_error == Some(true) && codes.first() == Some(&code),
        };
        self.steps += 1;
        if behaved { Ok(envelope) } else { Err(format!("{tool} answered {envelope}").into()) }
    }
}

/// The built `fz-mcp` and the venture's `fz`: `FZ_MCP_BIN` and `FZ_BIN`, or those beside this example, which cargo
/// builds where they are missing or old.
fn programs() -> Outcome<(PathBuf, PathBuf)> {
    if let (Some(server), Some(fz)) = (env::var_os("FZ_MCP_BIN"), env::var_os("FZ_BIN")) {
        return Ok((server.into(), fz.into()));
    }
    let example = env::current_exe()?;
    let profile = example.ancestors().nth(2).ok_or("this example lies outside a target directory")?;
    println!("building fz-mcp and the sample venture's fz ...");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--locked",
        "--ignore-rust-version",
        "--quiet",
        "--package",
        "cratefield-mcp",
        "--package",
        "venture",
    ]);
    // The example too, so that dependencies keep the features they were just built with.
    cargo.args(["--bin", "fz-mcp", "--bin", "fz", "--example", "tour"]).current_dir(env!("CARGO_MANIFEST_DIR"));
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    if !cargo.status()?.success() {
        return Err("cargo could not build them".into());
    }
    let program = |name: &str| profile.join(format!("{name}{EXE_SUFFIX}"));
    Ok((program("fz-mcp"), program("fz")))
}

/// The sample venture of this checkout, or the one that `FZ_VENTURE` names.
fn sample() -> PathBuf {
    env::var_os("FZ_VENTURE").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../venture"), PathBuf::from)
}

fn copy(from: &Path, to: &Path) -> Outcome<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else if entry.file_name() != ".harness-deploy.json" {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
