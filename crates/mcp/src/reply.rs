//! Result shapes, given a row of the revision table: initialize, discover, list, call, progress. Pure.
//!
//! Source: the pages on lifecycle, tools and progress of each revision of the Model Context Protocol.

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::codes::{self, Code};
use crate::config::MAX_REPLY;
use crate::envelope::{Envelope, Failure};
use crate::revision::{self, Revision};
use crate::rpc::{self, Id};
use crate::tools::{Kind, Param, TABLE, Tool};

const INSTRUCTIONS: &str = "Each tool runs one verb of the venture's own fz and returns the JSON envelope it printed: schema, ok, failures \
(each with a code and a message), and more by verb. isError is true exactly when ok is false: read the failures, correct, call \
again. fz_error_codes explains any code. The usual order: fz_init for a new venture, fz_add for modules, fz_doctor, fz_plan, \
fz_deploy with the plan's digest, fz_verify. fz migrations collect is not a tool. After fz_add changed something, when a plan \
lists migrations.not_collected, or when doctor reports migration-not-collected, ask the operator to add the module to the code, to \
rebuild and to run it in a terminal before fz_deploy: no tool checks the manifest against the build.";

#[derive(Serialize)]
struct Capabilities {
    tools: Empty,
}

#[derive(Serialize)]
struct Empty {}

const CAPABILITIES: Capabilities = Capabilities { tools: Empty {} };

/// The result of `ping`: an object without members.
pub(crate) fn ping() -> impl Serialize {
    Empty {}
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Implementation {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    website_url: Option<&'static str>,
}

fn server_info(revision: &Revision) -> Implementation {
    Implementation {
        name: "fz-mcp",
        title: revision.server_title.then_some("fz for Cratefield ventures"),
        version: env!("CARGO_PKG_VERSION"),
        description: revision.server_details.then_some(env!("CARGO_PKG_DESCRIPTION")),
        website_url: revision.server_details.then_some(env!("CARGO_PKG_REPOSITORY")),
    }
}

/// The result of `initialize`.
pub(crate) fn initialize(revision: &Revision) -> impl Serialize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized {
        protocol_version: &'static str,
        capabilities: Capabilities,
        server_info: Implementation,
        instructions: &'static str,
    }
    Initialized {
        protocol_version: revision.name,
        capabilities: CAPABILITIES,
        server_info: server_info(revision),
        instructions: INSTRUCTIONS,
    }
}

/// The result of `server/discover`.
pub(crate) fn discover(revision: &'static Revision) -> impl Serialize {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered {
        supported_versions: Vec<&'static str>,
        capabilities: Capabilities,
        instructions: &'static str,
        #[serde(flatten)]
        stateless: Option<Stateless>,
    }
    Discovered {
        supported_versions: revision::stateless_names(),
        capabilities: CAPABILITIES,
        instructions: INSTRUCTIONS,
        stateless: Stateless::of(revision, Some(HOUR)),
    }
}

/// What a stateless revision adds to every result.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Stateless {
    result_type: &'static str,
    #[serde(flatten)]
    holds: Option<Holds>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

/// How long a result may be kept, and for whom.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Holds {
    ttl_ms: u32,
    cache_scope: &'static str,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server_info: Implementation,
}

/// For what is the same for every client as long as the server runs.
const HOUR: Holds = Holds { ttl_ms: 3_600_000, cache_scope: "public" };

impl Stateless {
    fn of(revision: &Revision, holds: Option<Holds>) -> Option<Self> {
        let meta = Meta { server_info: server_info(revision) };
        revision.stateless.then_some(Self { result_type: "complete", holds, meta })
    }
}

/// The results that never change, each encoded once per revision.
#[derive(Default)]
pub(crate) struct Constants {
    lists: Vec<(&'static str, Vec<u8>)>,
    catalogues: Vec<(&'static str, Vec<u8>)>,
}

impl Constants {
    /// The result of `tools/list`.
    pub(crate) fn list(&mut self, revision: &'static Revision) -> &[u8] {
        once(&mut self.lists, revision, list)
    }

    /// The result of a call of the catalogue.
    pub(crate) fn catalogue(&mut self, revision: &'static Revision) -> &[u8] {
        once(&mut self.catalogues, revision, |revision| {
            let mut result = Vec::new();
            called(&mut result, revision, &Envelope::trusted(codes::catalogue(), false));
            result
        })
    }
}

fn once<'c>(
    known: &'c mut Vec<(&'static str, Vec<u8>)>,
    revision: &'static Revision,
    encode: impl FnOnce(&'static Revision) -> Vec<u8>,
) -> &'c [u8] {
    let index = known.iter().position(|(name, _)| *name == revision.name).unwrap_or_else(|| {
        known.push((revision.name, encode(revision)));
        known.len() - 1
    });
    known.get(index).map_or(&[], |(_, result)| result)
}

fn list(revision: &'static Revision) -> Vec<u8> {
    #[derive(Serialize)]
    struct List {
        tools: Vec<Listed>,
        #[serde(flatten)]
        stateless: Option<Stateless>,
    }
    let tools = TABLE.iter().map(|tool| listed(tool, revision)).collect();
    rpc::encode(&List { tools, stateless: Stateless::of(revision, Some(HOUR)) })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    description: &'static str,
    input_schema: InputSchema,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InputSchema {
    r#type: &'static str,
    properties: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    required: Vec<&'static str>,
    additional_properties: bool,
}

fn listed(tool: &'static Tool, revision: &'static Revision) -> Listed {
    let hints = tool.hints;
    let annotations = json!({
        "title": tool.title,
        "readOnlyHint": hints.read_only,
        "destructiveHint": hints.destructive,
        "idempotentHint": hints.idempotent,
        "openWorldHint": false,
    });
    Listed {
        name: tool.name,
        title: revision.structured.then_some(tool.title),
        description: tool.description,
        input_schema: input_schema(tool.params),
        output_schema: revision.structured.then(output_schema),
        annotations: revision.annotations.then_some(annotations),
    }
}

fn input_schema(params: &'static [Param]) -> InputSchema {
    let property = |param: &Param| {
        let kind = if param.kind == Kind::Switch { "boolean" } else { "string" };
        (param.name.to_owned(), json!({"type": kind, "description": param.description}))
    };
    InputSchema {
        r#type: "object",
        properties: params.iter().map(property).collect(),
        required: params.iter().filter(|param| param.required).map(|param| param.name).collect(),
        additional_properties: false,
    }
}

/// What every result is, refusals included. Open beyond the three members: the envelope only grows.
fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "schema": {"type": "integer"},
            "ok": {"type": "boolean"},
            "failures": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                    "required": ["code", "message"],
                },
            },
        },
        "required": ["schema", "ok", "failures"],
    })
}

/// The line that answers a call.
pub(crate) fn call(revision: &'static Revision, id: &Id, envelope: &Envelope) -> Vec<u8> {
    // The object twice, one of them with its quotes escaped.
    let size = envelope.text().len() * 9 / 4 + 512;
    rpc::success_with(id, size, |line| called(line, revision, envelope))
}

/// Writes the result of a call. By hand, since the envelope can be megabytes and was judged already: it is copied, not
/// parsed once more.
fn called(line: &mut Vec<u8>, revision: &Revision, envelope: &Envelope) {
    line.extend_from_slice(br#"{"content":[{"type":"text","text":"#);
    rpc::push_string(line, envelope.text());
    line.extend_from_slice(b"}]");
    if revision.structured {
        line.extend_from_slice(br#","structuredContent":"#);
        rpc::push_json(line, envelope.object());
    }
    let failed = if envelope.failed() { "true" } else { "false" };
    line.extend_from_slice(br#","isError":"#);
    line.extend_from_slice(failed.as_bytes());
    if let Some(stateless) = Stateless::of(revision, None) {
        // The members of one more object, without its opening brace.
        line.push(b',');
        line.extend_from_slice(rpc::encode(&stateless).get(1..).unwrap_or_default());
    } else {
        line.push(b'}');
    }
}

/// The line that stands for an answer which the client could not read.
pub(crate) fn too_long(revision: &'static Revision, id: &Id) -> Vec<u8> {
    let message = format!(
        "fz printed an envelope whose reply would pass the {MAX_REPLY} bytes a client reads at once, so it is not passed \
         on; the program has done its work. Run the verb in a terminal to see all of it"
    );
    call(revision, id, &Failure::new(Code::NoJson, message).into())
}

/// The line of one heartbeat: `seconds` since the call was accepted.
pub(crate) fn progress(revision: &Revision, token: &RawValue, seconds: u64, message: &str) -> Vec<u8> {
    #[derive(Serialize)]
    struct Progress<'a> {
        #[serde(rename = "progressToken")]
        token: &'a RawValue,
        #[serde(rename = "progress")]
        seconds: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
    }
    let message = revision.progress_message.then_some(message);
    rpc::notification("notifications/progress", Progress { token, seconds, message })
}
