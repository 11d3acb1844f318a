//! Every line that any test reads from a server passes through here.

use serde_json::Value;

/// Looks at one line as the server wrote it, without its newline.
///
/// `asked` gives the method and the revision of the request that an id belongs to; `session` is the revision that a
/// message without such an id belongs to, if an `initialize` was sent.
#[track_caller]
pub(crate) fn seen(_line: &str, _session: Option<&str>, _asked: &dyn Fn(&Value) -> Option<(String, String)>) {}
