//! The protocol revisions served, one row each, and which row serves a request. Pure.
//!
//! Source: the schemas of the revisions at modelcontextprotocol.io; which key exists since when.

/// What one revision has. Code reads these facts; it never compares names.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a row of facts, each read on its own")]
pub(crate) struct Revision {
    /// Its date, as it stands on the wire.
    pub(crate) name: &'static str,
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
pub(crate) static REVISIONS: [Revision; 4] = [
    Revision {
        name: "2025-11-25",
        batches: false,
        annotations: true,
        structured: true,
        server_title: true,
        server_details: true,
        progress_message: true,
    },
    Revision {
        name: "2025-06-18",
        batches: false,
        annotations: true,
        structured: true,
        server_title: true,
        server_details: false,
        progress_message: true,
    },
    Revision {
        name: "2025-03-26",
        batches: true,
        annotations: true,
        structured: false,
        server_title: false,
        server_details: false,
        progress_message: true,
    },
    Revision {
        name: "2024-11-05",
        batches: false,
        annotations: false,
        structured: false,
        server_title: false,
        server_details: false,
        progress_message: false,
    },
];

/// The revision of a session, from the version that `initialize` asked for: the same if it is served, else the first.
pub(crate) fn negotiate(requested: Option<&str>) -> &'static Revision {
    let [preferred, ..] = &REVISIONS;
    REVISIONS.iter().find(|revision| Some(revision.name) == requested).unwrap_or(preferred)
}
