//! The protocol revisions served, one row each, and which row serves a request. Pure.
//!
//! Source: the schemas of the revisions at modelcontextprotocol.io; which key exists since when.

use serde_json::value::RawValue;

use crate::rpc::{self, RpcError};

/// What one revision has. Code reads these facts; it never compares names.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of facts, each read on its own")]
pub(crate) struct Revision {
    /// Its date, as it stands on the wire.
    pub(crate) name: &'static str,
    /// Whether each request carries its version, and each result says what it is and who gave it; else `initialize`
    /// opens a session.
    pub(crate) stateless: bool,
    /// Whether it allows several messages in one array.
    pub(crate) batches: bool,
    /// Whether a tool has `annotations`.
    pub(crate) annotations: bool,
    /// Whether a tool has `title` and `outputSchema`, and a result `structuredContent`.
    pub(crate) structured: bool,
    /// Whether `serverInfo` has a `title`.
    pub(crate) server_title: bool,
    /// Whether `serverInfo` has a `description` and a `websiteUrl`.
    pub(crate) server_details: bool,
    /// Whether a progress notification has a `message`.
    pub(crate) progress_message: bool,
}

/// All of them. The first is what `initialize` answers to a version that is not served.
pub(crate) static REVISIONS: [Revision; 5] = [
    Revision {
        name: "2025-11-25",
        stateless: false,
        batches: false,
        annotations: true,
        structured: true,
        server_title: true,
        server_details: true,
        progress_message: true,
    },
    Revision {
        name: "2025-06-18",
        stateless: false,
        batches: false,
        annotations: true,
        structured: true,
        server_title: true,
        server_details: false,
        progress_message: true,
    },
    Revision {
        name: "2025-03-26",
        stateless: false,
        batches: true,
        annotations: true,
        structured: false,
        server_title: false,
        server_details: false,
        progress_message: true,
    },
    Revision {
        name: "2024-11-05",
        stateless: false,
        batches: false,
        annotations: false,
        structured: false,
        server_title: false,
        server_details: false,
        progress_message: false,
    },
    Revision {
        name: "2026-07-28",
        stateless: true,
        batches: false,
        annotations: true,
        structured: true,
        server_title: true,
        server_details: true,
        progress_message: true,
    },
];

/// The revision of a session, from the version that `initialize` asked for: the same if it is served so, else the first.
pub(crate) fn negotiate(requested: Option<&str>) -> &'static Revision {
    let [preferred, ..] = &REVISIONS;
    let mut sessions = REVISIONS.iter().filter(|revision| !revision.stateless);
    sessions.find(|revision| Some(revision.name) == requested).unwrap_or(preferred)
}

/// The versions a request may carry.
pub(crate) fn stateless_names() -> Vec<&'static str> {
    REVISIONS.iter().filter(|revision| revision.stateless).map(|revision| revision.name).collect()
}

/// What a request says of itself in `params._meta`. A request that carries its version or the client's capabilities is
/// stateless, also within a session.
pub(crate) struct Claim<'a> {
    version: Option<&'a RawValue>,
    capabilities: Option<&'a RawValue>,
    client: Option<&'a RawValue>,
    log_level: Option<&'a RawValue>,
}

const LOG_LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

impl<'a> Claim<'a> {
    /// Reads the claim of a request that makes one.
    pub(crate) fn read(meta: Option<&'a RawValue>) -> Option<Self> {
        const NAMES: [&str; 4] = [
            "io.modelcontextprotocol/protocolVersion",
            "io.modelcontextprotocol/clientCapabilities",
            "io.modelcontextprotocol/clientInfo",
            "io.modelcontextprotocol/logLevel",
        ];
        let [version, capabilities, client, log_level] = rpc::members(meta?.get(), NAMES)?;
        version.or(capabilities)?;
        Some(Self { version, capabilities, client, log_level })
    }

    /// The revision claimed, if the claim is whole and the revision served.
    pub(crate) fn revision(&self) -> Result<&'static Revision, RpcError> {
        let Some(version) = self.version.and_then(rpc::string) else {
            return Err(RpcError::params("_meta needs io.modelcontextprotocol/protocolVersion, which is a string"));
        };
        if !self.capabilities.is_some_and(rpc::is_object) {
            return Err(RpcError::params("_meta needs io.modelcontextprotocol/clientCapabilities, which is an object"));
        }
        if !self.client.is_none_or(has_name_and_version) {
            return Err(RpcError::params("io.modelcontextprotocol/clientInfo is an object with a name and a version"));
        }
        let served = REVISIONS.iter().find(|revision| revision.stateless && revision.name == version);
        let revision = served.ok_or_else(|| {
            let data = serde_json::json!({"supported": stateless_names(), "requested": version});
            RpcError::new(rpc::UNSUPPORTED_VERSION, "this protocol version is not served per request").with_data(data)
        })?;
        let level = self.log_level.map(rpc::string);
        if level.is_some_and(|level| !level.is_some_and(|level| LOG_LEVELS.contains(&level.as_ref()))) {
            return Err(RpcError::params("io.modelcontextprotocol/logLevel is a syslog level from debug to emergency"));
        }
        Ok(revision)
    }
}

fn has_name_and_version(client: &RawValue) -> bool {
    rpc::members(client.get(), ["name", "version"])
        .is_some_and(|found| found.iter().all(|text| text.and_then(rpc::string).is_some()))
}

/// The revision that serves a request without a claim: that of the session, if there is one.
pub(crate) fn of_session(method: &str, session: Option<&'static Revision>) -> Result<&'static Revision, RpcError> {
    if matches!(method, "server/discover" | "subscriptions/listen") {
        return Err(RpcError::params(
            "this method needs _meta with io.modelcontextprotocol/protocolVersion and io.modelcontextprotocol/clientCapabilities",
        ));
    }
    session.ok_or_else(|| {
        RpcError::params(
            "no session: send initialize first, or put io.modelcontextprotocol/protocolVersion and \
             io.modelcontextprotocol/clientCapabilities in params._meta",
        )
    })
}
