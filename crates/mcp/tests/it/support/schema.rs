//! Every line that any test reads from a server passes through here: it is held against the official schema of its
//! revision, and a tool's structured result against the schema that the tool advertises.
//!
//! The official schemas are no part of the project: `MCP_SCHEMA_DIR` names a folder with `<revision>/schema.json`. Where
//! it is unset the lines are not held against them, unless `MCP_SCHEMA_REQUIRED=1` says that they must be.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use jsonschema::Validator;
use serde_json::{Value, json};

use super::{LEGACY, MODERN, Setup};

/// One definition of one revision's schema.
struct Check {
    revision: &'static str,
    definition: &'static str,
    compiled: OnceLock<Validator>,
    held: AtomicUsize,
}

/// What a server over pipes writes, as each revision's schema calls it.
const COMMON: [&str; 7] = [
    "JSONRPCMessage",
    "JSONRPCResponse",
    "JSONRPCNotification",
    "ProgressNotification",
    "ListToolsResult",
    "CallToolResult",
    "Implementation",
];
const SESSION: [&str; 2] = ["InitializeResult", "EmptyResult"];
const SPLIT: [&str; 2] = ["JSONRPCResultResponse", "JSONRPCErrorResponse"];
const STATELESS: [&str; 8] = [
    "DiscoverResult",
    "DiscoverResultResponse",
    "ListToolsResultResponse",
    "CallToolResultResponse",
    "UnsupportedProtocolVersionError",
    "MethodNotFoundError",
    "InvalidParamsError",
    "InvalidRequestError",
];

fn definitions(revision: &str) -> Vec<&'static str> {
    let mut names = COMMON.to_vec();
    match revision {
        "2024-11-05" | "2025-06-18" => names.extend([&SESSION[..], &["JSONRPCError"]].concat()),
        "2025-03-26" => names.extend([&SESSION[..], &["JSONRPCError", "JSONRPCBatchResponse"]].concat()),
        "2025-11-25" => names.extend([SESSION, SPLIT].concat()),
        _ => names.extend([&STATELESS[..], &SPLIT].concat()),
    }
    names
}

fn checks() -> &'static [Check] {
    static CHECKS: OnceLock<Vec<Check>> = OnceLock::new();
    CHECKS.get_or_init(|| {
        let revisions = LEGACY.into_iter().chain([MODERN]);
        let named = revisions.flat_map(|revision| definitions(revision).into_iter().map(move |name| (revision, name)));
        named
            .map(|(revision, definition)| Check {
                revision,
                definition,
                compiled: OnceLock::new(),
                held: AtomicUsize::new(0),
            })
            .collect()
    })
}

/// Whether lines must be held against the official schemas.
pub(crate) fn required() -> bool {
    env::var_os("MCP_SCHEMA_REQUIRED").is_some_and(|value| value == "1")
}

/// The folder of the official schemas, if there is one to use.
#[track_caller]
pub(crate) fn folder() -> Option<&'static PathBuf> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = env::var_os("MCP_SCHEMA_DIR").filter(|folder| !folder.is_empty()).map(PathBuf::from);
        if folder.is_none() {
            // Not `eprintln!`, which a passing test keeps to itself.
            let note = b"skipped: MCP_SCHEMA_DIR is unset, so no line is held against the official schemas\n";
            let _ = io::stderr().write_all(note);
        }
        folder
    });
    assert!(folder.is_some() || !required(), "MCP_SCHEMA_REQUIRED is 1 and MCP_SCHEMA_DIR names no folder");
    folder.as_ref()
}

/// The definitions that no line of this process was held against, as `revision definition`.
pub(crate) fn untouched() -> Vec<String> {
    let checks = checks().iter().filter(|check| check.held.load(Ordering::Relaxed) == 0);
    checks.map(|check| format!("{} {}", check.revision, check.definition)).collect()
}

fn document(revision: &str) -> Value {
    static DOCUMENTS: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    let folder = folder().expect("only asked for where there is a folder");
    let documents = DOCUMENTS.get_or_init(|| {
        let read = |revision: &str| {
            let path = folder.join(revision).join("schema.json");
            let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (revision.to_owned(), serde_json::from_str(&text).expect("a schema is JSON"))
        };
        LEGACY.into_iter().chain([MODERN]).map(read).collect()
    });
    let found = documents.iter().find(|(name, _)| name == revision);
    found.unwrap_or_else(|| panic!("no schema of {revision}")).1.clone()
}

/// The whole document with the one definition as its root, so that references resolve.
fn compile(revision: &str, definition: &str) -> Validator {
    let mut document = document(revision);
    let (members, draft) = if document.get("$defs").is_some() {
        ("$defs", jsonschema::Draft::Draft202012)
    } else {
        ("definitions", jsonschema::Draft::Draft7)
    };
    assert!(document[members].get(definition).is_some(), "the schema of {revision} has no {definition}");
    document["$ref"] = format!("#/{members}/{definition}").into();
    let options = jsonschema::options().with_draft(draft).should_validate_formats(true);
    options.build(&document).unwrap_or_else(|error| panic!("{revision} {definition}: {error}"))
}

#[track_caller]
fn holds(revision: &str, definition: &str, value: &Value) {
    if folder().is_none() {
        return;
    }
    let check = checks().iter().find(|check| check.revision == revision && check.definition == definition);
    let check = check.unwrap_or_else(|| panic!("{definition} is not a definition that {revision} is known to have"));
    let validator = check.compiled.get_or_init(|| compile(revision, definition));
    let errors: Vec<_> =
        validator.iter_errors(value).map(|error| format!("  {}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "no {definition} of {revision}:\n{}\n{value}", errors.join("\n"));
    check.held.fetch_add(1, Ordering::Relaxed);
}

/// Looks at one line as the server wrote it, without its newline.
///
/// `asked` gives the method and the revision of the request that an id belongs to; `session` is the revision that a
/// message without such an id belongs to, if an `initialize` was sent.
#[track_caller]
pub(crate) fn seen(line: &str, session: Option<&str>, asked: &dyn Fn(&Value) -> Option<(String, String)>) {
    assert!(!line.contains(['\u{2028}', '\u{2029}', '\r']), "a reader may split this line: {line}");
    let value: Value = serde_json::from_str(line).expect("the harness parsed it");
    match &value {
        Value::Array(replies) => {
            let revision = session.expect("an array answers a session");
            let answered = replies.iter().cloned().map(with_an_id).collect();
            holds(revision, "JSONRPCBatchResponse", &Value::Array(answered));
            for reply in replies {
                message(reply, session, asked);
            }
        }
        value => message(value, session, asked),
    }
}

#[track_caller]
fn message(value: &Value, session: Option<&str>, asked: &dyn Fn(&Value) -> Option<(String, String)>) {
    let request = value.get("id").and_then(asked);
    let revision = match &request {
        Some((_, revision)) => revision,
        None => session.unwrap_or(MODERN),
    };
    let known = with_an_id(value.clone());
    holds(revision, "JSONRPCMessage", &known);
    if let Some(method) = value.get("method") {
        assert!(value.get("id").is_none(), "the server asks nothing: {value}");
        assert_eq!(method, "notifications/progress", "{value}");
        holds(revision, "JSONRPCNotification", value);
        holds(revision, "ProgressNotification", value);
    } else if let Some(error) = value.get("error") {
        refusal(revision, &known, error);
    } else {
        assert!(!value["id"].is_null(), "a result without an id: {value}");
        success(revision, value, request.as_ref().map(|(method, _)| method.as_str()));
    }
}

/// The one deviation from the schemas, which have no form for it: what answers a line whose id cannot be read carries
/// `null`. All else of such a line is held against them.
fn with_an_id(mut message: Value) -> Value {
    if message.get("id") == Some(&Value::Null) && message.get("error").is_some() {
        message["id"] = json!(0);
    }
    message
}

fn is_split(revision: &str) -> bool {
    definitions(revision).contains(&SPLIT[0])
}

#[track_caller]
fn refusal(revision: &str, message: &Value, error: &Value) {
    holds(revision, if is_split(revision) { "JSONRPCErrorResponse" } else { "JSONRPCError" }, message);
    if is_split(revision) {
        holds(revision, "JSONRPCResponse", message);
    }
    let code = error["code"].as_i64();
    let emitted = [-32700, -32600, -32601, -32602, -32603, -32022];
    assert!(code.is_some_and(|code| emitted.contains(&code)), "a code of no contract: {message}");
    if revision != MODERN {
        return;
    }
    match code {
        Some(-32022) => holds(revision, "UnsupportedProtocolVersionError", message),
        Some(-32600) => holds(revision, "InvalidRequestError", error),
        Some(-32601) => holds(revision, "MethodNotFoundError", error),
        Some(-32602) => holds(revision, "InvalidParamsError", error),
        _ => {}
    }
}

#[track_caller]
fn success(revision: &str, message: &Value, method: Option<&str>) {
    holds(revision, "JSONRPCResponse", message);
    if is_split(revision) {
        holds(revision, SPLIT[0], message);
    }
    let result = &message["result"];
    let (definition, response) = match method {
        Some("initialize") => ("InitializeResult", None),
        Some("ping") => ("EmptyResult", None),
        Some("server/discover") => ("DiscoverResult", Some("DiscoverResultResponse")),
        Some("tools/list") => ("ListToolsResult", Some("ListToolsResultResponse")),
        Some("tools/call") => ("CallToolResult", Some("CallToolResultResponse")),
        // An id that the harness could not read belongs to a request it does not know.
        None => return,
        Some(method) => panic!("{method} has no result: {message}"),
    };
    holds(revision, definition, result);
    if let Some(response) = response.filter(|_| revision == MODERN) {
        holds(revision, response, message);
    }
    match definition {
        "InitializeResult" => holds(revision, "Implementation", &result["serverInfo"]),
        "EmptyResult" => assert_eq!(result, &json!({}), "{message}"),
        "CallToolResult" => structured(revision, result),
        _ => {}
    }
    if revision == MODERN {
        holds(revision, "Implementation", &result["_meta"]["io.modelcontextprotocol/serverInfo"]);
        assert_eq!(result["resultType"], "complete", "{message}");
    }
}

#[track_caller]
fn structured(revision: &str, result: &Value) {
    let structured = result.get("structuredContent");
    if ["2024-11-05", "2025-03-26"].contains(&revision) {
        assert!(structured.is_none(), "{revision} has no structuredContent: {result}");
        return;
    }
    let structured = structured.unwrap_or_else(|| panic!("every result is structured: {result}"));
    let errors: Vec<_> = advertised().iter_errors(structured).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "not what the tools advertise: {}\n{structured}", errors.join("\n"));
    assert_eq!(result["isError"], !structured["ok"].as_bool().expect("ok is a boolean"), "{result}");
}

/// The output schema that all tools advertise alike, asked from a server of its own.
fn advertised() -> &'static Validator {
    static ADVERTISED: OnceLock<Validator> = OnceLock::new();
    ADVERTISED.get_or_init(|| {
        let setup = Setup::over(tempfile::tempdir().expect("a temporary directory"), ["fz"]);
        let mut server = setup
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("fz-mcp can be started");
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}});
        let mut stdin = server.stdin.take().expect("stdin is piped");
        stdin.write_all(format!("{request}\n").as_bytes()).expect("the server reads");
        drop(stdin);
        let output = server.wait_with_output().expect("the server ends with its input");
        let answer: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
        let tools = answer["result"]["tools"].as_array().expect("a list of tools");
        let schema = &tools[0]["outputSchema"];
        assert!(tools.iter().all(|tool| &tool["outputSchema"] == schema), "one output schema for all tools");
        jsonschema::validator_for(schema).expect("an output schema is a JSON schema")
    })
}
