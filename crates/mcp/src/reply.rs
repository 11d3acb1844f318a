//! Result shapes, given a row of the revision table: initialize, discover, list, call, progress. Pure.
//!
//! Source: the pages on lifecycle, tools and progress of each revision of the Model Context Protocol.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::codes::{self, Code};
use crate::config::MAX_REPLY;
use crate::envelope::{Envelope, Failure};
use crate::revision::{self, Revision};
use crate::rpc::{self, Id};
use crate::tools::{Kind, Param, TABLE, Tool};

const INSTRUCTIONS: &str = "Each tool runs one verb of the venture's own fz and returns the JSON envelope it printed: schema, ok, failures \
(each with a code and a message), and more by verb. isError is true exactly when ok is false: read the failures, correct, call \
again. fz_error_codes explains any code. The usual order: fz_init for a new venture, fz_add for modules, fz_doctor, fz_plan, \
fz_deploy with the plan's digest, fz_verify. fz migrations collect is not a tool: when doctor reports uncollected migrations, or \
the compiled harness is older than the manifest, ask the operator to run it or to rebuild in a terminal.";

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
    struct Discovered(&'static Revision);
    impl Serialize for Discovered {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            map.serialize_entry("supportedVersions", &revision::stateless_names())?;
            map.serialize_entry("capabilities", &CAPABILITIES)?;
            map.serialize_entry("instructions", INSTRUCTIONS)?;
            close(&mut map, self.0, Holds::ForAll)?;
            map.end()
        }
    }
    Discovered(revision)
}

/// How long a result may be kept, and for whom.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// An hour, for every client.
    ForAll,
    Once,
}

/// What a stateless revision adds to every result.
fn close<M: SerializeMap>(map: &mut M, revision: &Revision, holds: Holds) -> Result<(), M::Error> {
    #[derive(Serialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/serverInfo")]
        server_info: Implementation,
    }
    if !revision.stateless {
        return Ok(());
    }
    map.serialize_entry("resultType", "complete")?;
    if holds == Holds::ForAll {
        map.serialize_entry("ttlMs", &3_600_000)?;
        map.serialize_entry("cacheScope", "public")?;
    }
    map.serialize_entry("_meta", &Meta { server_info: server_info(revision) })
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
        once(&mut self.lists, revision, |revision| rpc::encode(&List { revision }))
    }

    /// The result of a call of the catalogue.
    pub(crate) fn catalogue(&mut self, revision: &'static Revision) -> &[u8] {
        once(&mut self.catalogues, revision, |revision| {
            let envelope = Envelope::trusted(codes::catalogue(), false);
            rpc::encode(&Called { revision, envelope: &envelope })
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

struct List {
    revision: &'static Revision,
}

impl Serialize for List {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tools: Vec<_> = TABLE.iter().map(|tool| Listed { tool, revision: self.revision }).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("tools", &tools)?;
        close(&mut map, self.revision, Holds::ForAll)?;
        map.end()
    }
}

struct Listed {
    tool: &'static Tool,
    revision: &'static Revision,
}

impl Serialize for Listed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { tool, revision } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", tool.name)?;
        if revision.structured {
            map.serialize_entry("title", tool.title)?;
        }
        map.serialize_entry("description", tool.description)?;
        map.serialize_entry("inputSchema", &InputSchema(tool.params))?;
        if revision.structured {
            map.serialize_entry("outputSchema", &output_schema())?;
        }
        if revision.annotations {
            map.serialize_entry(
                "annotations",
                &serde_json::json!({
                    "title": tool.title,
                    "readOnlyHint": tool.hints.read_only,
                    "destructiveHint": tool.hints.destructive,
                    "idempotentHint": tool.hints.idempotent,
                    "openWorldHint": false,
                }),
            )?;
        }
        map.end()
    }
}

struct InputSchema(&'static [Param]);

impl Serialize for InputSchema {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Property {
            r#type: &'static str,
            description: &'static str,
        }
        let properties: serde_json::Map<_, _> = self
            .0
            .iter()
            .map(|param| {
                let kind = if param.kind == Kind::Switch { "boolean" } else { "string" };
                let property = Property { r#type: kind, description: param.description };
                (param.name.to_owned(), serde_json::to_value(property).unwrap_or_default())
            })
            .collect();
        let required: Vec<_> = self.0.iter().filter(|param| param.required).map(|param| param.name).collect();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "object")?;
        map.serialize_entry("properties", &properties)?;
        if !required.is_empty() {
            map.serialize_entry("required", &required)?;
        }
        map.serialize_entry("additionalProperties", &false)?;
        map.end()
    }
}

/// What every result is, refusals included. Open beyond the three members: the envelope only grows.
fn output_schema() -> serde_json::Value {
    serde_json::json!({
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

struct Called<'a> {
    revision: &'static Revision,
    envelope: &'a Envelope,
}

impl Serialize for Called<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Text<'a> {
            r#type: &'static str,
            text: &'a str,
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("content", &[Text { r#type: "text", text: self.envelope.text() }])?;
        if self.revision.structured {
            let object: &RawValue = serde_json::from_str(self.envelope.object()).map_err(serde::ser::Error::custom)?;
            map.serialize_entry("structuredContent", object)?;
        }
        map.serialize_entry("isError", &self.envelope.failed())?;
        close(&mut map, self.revision, Holds::Once)?;
        map.end()
    }
}

/// The line that answers a call.
pub(crate) fn call(revision: &'static Revision, id: &Id, envelope: &Envelope) -> Vec<u8> {
    // The object twice, one of them with its quotes escaped.
    let size = envelope.text().len() * 9 / 4 + 512;
    rpc::success_of_size(id, &Called { revision, envelope }, size)
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
