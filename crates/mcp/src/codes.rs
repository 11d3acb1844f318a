//! The wrapper's own four codes, and the catalogue of all codes. Pure.

use serde::Serialize;

/// A failure that the wrapper reports. Append-only, like fz's own codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    /// The program could not be started, or not now.
    Unavailable,
    /// The program wrote something else than one envelope.
    NoJson,
    /// The program was stopped at the limit.
    Timeout,
    /// An argument was refused before anything ran.
    ArgumentInvalid,
}

impl Code {
    /// All of them, in the order of the catalogue.
    pub(crate) const ALL: [Self; 4] = [Self::Unavailable, Self::NoJson, Self::Timeout, Self::ArgumentInvalid];

    /// The code as it stands in an envelope.
    pub(crate) fn name(self) -> &'static str {
        self.text().0
    }

    /// Code, title and description.
    fn text(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Unavailable => (
                "mcp-fz-unavailable",
                "fz cannot be used now",
                "The configured program or directory cannot be used, or too many calls wait. The message names which; \
                 nothing ran.",
            ),
            Self::NoJson => (
                "mcp-fz-no-json",
                "fz printed no envelope",
                "Its stdout was not exactly one JSON envelope, or too large. The message has the exit status, the likely \
                 cause and the end of the output. It may have done its work: check first.",
            ),
            Self::Timeout => (
                "mcp-fz-timeout",
                "fz was stopped at the time limit",
                "The program was stopped, and its process group with it. What was written before stays: check first.",
            ),
            Self::ArgumentInvalid => (
                "mcp-argument-invalid",
                "Argument refused",
                "An argument is unknown, missing, mistyped or unsafe to pass on. The message names it; nothing ran.",
            ),
        }
    }
}

#[derive(Serialize)]
struct Entry {
    code: &'static str,
    title: &'static str,
    description: &'static str,
    source: &'static str,
}

#[derive(Serialize)]
struct Catalogue {
    schema: u32,
    ok: bool,
    failures: [(); 0],
    codes: Vec<Entry>,
}

/// The catalogue as an envelope: fz's codes in the order of its registry, then the wrapper's.
pub(crate) fn catalogue() -> String {
    let fz = cratefield_cli::codes::registry().into_iter().map(|known| Entry {
        code: known.code,
        title: known.title,
        description: known.description,
        source: "fz",
    });
    let own = Code::ALL.into_iter().map(|code| {
        let (code, title, description) = code.text();
        Entry { code, title, description, source: "mcp" }
    });
    let catalogue =
        Catalogue { schema: cratefield_cli::workflow::SCHEMA, ok: true, failures: [], codes: fz.chain(own).collect() };
    serde_json::to_string(&catalogue).unwrap_or_default()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed unwrap is a failed test")]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_is_fz_s_registry_and_then_the_four_codes_of_the_wrapper() {
        let catalogue: serde_json::Value = serde_json::from_str(&catalogue()).unwrap();
        let registry = cratefield_cli::codes::registry();
        let codes = catalogue["codes"].as_array().unwrap();
        assert_eq!(codes.len(), registry.len() + 4);
        for (entry, known) in codes.iter().zip(&registry) {
            assert_eq!(entry["code"], known.code);
            assert_eq!(entry["description"], known.description);
            assert_eq!(entry["source"], "fz");
        }
        let own: Vec<_> = codes[registry.len()..].iter().map(|entry| entry["code"].as_str().unwrap()).collect();
        assert_eq!(own, ["mcp-fz-unavailable", "mcp-fz-no-json", "mcp-fz-timeout", "mcp-argument-invalid"]);
    }

    #[test]
    fn no_code_of_fz_begins_like_the_wrapper_s() {
        assert!(cratefield_cli::codes::registry().iter().all(|known| !known.code.starts_with("mcp-")));
    }
}
