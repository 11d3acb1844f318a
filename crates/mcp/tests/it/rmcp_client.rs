//! The Rust SDK's client drives the server: by handshake, and by discovery with stateless requests.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rmcp::handler::client::ClientHandler;
use rmcp::model::{CallToolRequestParams, CallToolResult, ProgressNotificationParam, ProtocolVersion};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, NotificationContext, RoleClient, RunningService};
use rmcp::transport::TokioChildProcess;
use serde_json::{Value, json};

use crate::support::{DEADLINE, Setup, alive, ids, wait_for, wait_until};

/// A client that passes on the progress it hears of.
struct Listener(Sender<ProgressNotificationParam>);

impl ClientHandler for Listener {
    async fn on_progress(&self, progress: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let _ = self.0.send(progress);
    }
}

fn lifecycles() -> [(ClientLifecycleMode, &'static str); 2] {
    let version = |name: &str| serde_json::from_value::<ProtocolVersion>(json!(name)).expect("a version");
    [
        (ClientLifecycleMode::Initialize, "by handshake"),
        (ClientLifecycleMode::Discover { preferred_versions: vec![version("2026-07-28")] }, "by discovery"),
    ]
}

fn run(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(DEADLINE, work).await.expect("the deadline") });
}

async fn connect<H: ClientHandler>(
    setup: &Setup,
    handler: H,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, H> {
    let transport =
        TokioChildProcess::new(tokio::process::Command::from(setup.command())).expect("fz-mcp can be started");
    handler.serve_with_lifecycle(transport, lifecycle).await.expect("the server answers")
}

fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(arguments.as_object().cloned().expect("an object"))
}

fn first_code(result: &CallToolResult) -> Option<&str> {
    result.structured_content.as_ref()?["failures"][0]["code"].as_str()
}

#[test]
fn the_rust_client_lists_calls_and_reads_refusals() {
    for (lifecycle, how) in lifecycles() {
        run(async {
            let setup = Setup::fz();
            let client = connect(&setup, (), lifecycle).await;
            assert_eq!(client.list_all_tools().await.expect("a list").len(), 8, "{how}");
            let plan = client.call_tool(call("fz_plan", json!({}))).await.expect("a result");
            assert_eq!(plan.is_error, Some(false), "{how}");
            assert!(plan.structured_content.expect("an envelope")["digest"].is_string(), "{how}");
            let refused = client.call_tool(call("fz_deploy", json!({}))).await.expect("a result");
            assert_eq!((refused.is_error, first_code(&refused)), (Some(true), Some("deploy-plan-required")), "{how}");
            let bad = client.call_tool(call("fz_add", json!({"module": "-h"}))).await.expect("a result");
            assert_eq!((bad.is_error, first_code(&bad)), (Some(true), Some("mcp-argument-invalid")), "{how}");
            assert!(client.call_tool(call("fz_nothing", json!({}))).await.is_err(), "{how}");
            client.cancel().await.expect("a clean end");
        });
    }
}

#[test]
fn the_rust_client_sees_progress_and_leaves_no_process_when_it_goes() {
    for (lifecycle, how) in lifecycles() {
        run(async {
            let setup = Setup::stub("ids child\nhang");
            let (heard, progress) = channel();
            let client = connect(&setup, Listener(heard), lifecycle).await;
            // The SDK gives each of its requests a token of its own.
            let pending = tokio::spawn({
                let peer = client.peer().clone();
                async move { peer.call_tool(call("fz_doctor", json!({}))).await }
            });
            let first = tokio::task::spawn_blocking(move || progress.recv_timeout(Duration::from_secs(30)));
            let first = first.await.expect("a thread").expect("a heartbeat");
            assert!(first.progress >= 2.0, "{how}");
            wait_for(&setup.event("child"));
            let (child, _) = ids(&setup.event("child"));
            client.cancel().await.expect("a clean end");
            pending.abort();
            wait_until("the child is gone", || !alive(child));
        });
    }
}
