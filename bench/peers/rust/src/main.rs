//! The tools of fz-mcp on rmcp and tokio: each call spawns `fz --json` and passes its object on.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};

use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::transport::io::stdio_pipes;
use serde_json::Value;
use tokio::process::Command;

struct Peer {
    data: PathBuf,
    cwd: PathBuf,
    fz: PathBuf,
    tools: OnceLock<ListToolsResult>,
    codes: OnceLock<String>,
}

impl Peer {
    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.data.join(name)).expect("the bench wrote it")
    }

    async fn fz(&self, words: Vec<String>) -> Result<String, ErrorData> {
        let mut command = Command::new(&self.fz);
        command.args(words).current_dir(&self.cwd).stdin(Stdio::null());
        let output = command.output().await.map_err(internal)?;
        let mut text = String::from_utf8(output.stdout).map_err(internal)?;
        if text.ends_with('\n') {
            text.pop();
        }
        Ok(text)
    }
}

impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = || serde_json::from_str(&self.read("tools.json")).expect("a list of tools");
        Ok(self.tools.get_or_init(tools).clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "fz_error_codes" {
            return result(self.codes.get_or_init(|| self.read("codes.json")).clone());
        }
        result(self.fz(argv(&request.name, &request.arguments.unwrap_or_default())).await?)
    }
}

fn result(text: String) -> Result<CallToolResponse, ErrorData> {
    let envelope: Value = serde_json::from_str(&text).map_err(internal)?;
    let failed = envelope.get("ok") == Some(&Value::Bool(false));
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(envelope);
    result.is_error = Some(failed);
    Ok(result.into())
}

fn argv(name: &str, arguments: &JsonObject) -> Vec<String> {
    let verb = name.trim_start_matches("fz_").replace('_', "-");
    let mut words = vec![verb, "--json".to_owned()];
    if !["doctor", "client-ts"].contains(&words[0].as_str()) {
        words.push("--non-interactive".to_owned());
    }
    for (key, value) in arguments {
        let flag = format!("--{}", key.replace('_', "-"));
        match value {
            Value::String(text) if key != "module" => words.push(format!("{flag}={text}")),
            Value::Bool(true) => words.push(flag),
            _ => {}
        }
    }
    if let Some(Value::String(module)) = arguments.get("module") {
        words.extend(["--".to_owned(), module.clone()]);
    }
    words
}

fn internal(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args_os().skip(1).map(PathBuf::from);
    let mut next = || words.next().ok_or("usage: peer DATA CWD FZ");
    let peer = Peer { data: next()?, cwd: next()?, fz: next()?, tools: OnceLock::new(), codes: OnceLock::new() };
    Arc::new(peer).serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
