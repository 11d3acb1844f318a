//! The sample venture: one real Cratefield harness, from which its own `fz` is built.
//!
//! `fz doctor` judges what [`harness`] composes; `fz plan`, `fz verify` and `fz deploy` read `venture.json` beside it.
//! The two must name the same venture and the same modules, which is why the name and the host are constants here.

use cratefield::waitlist::{Waitlist, default_templates};
use cratefield::{Harness, Port, Runtime, Venture};

/// The venture's name, as `venture.json` has it.
pub const NAME: &str = "venture";

/// The host the venture answers on, as `venture.json` has it.
pub const HOST: &str = "api.example.com";

/// The runtime `fz` composes with.
///
/// `fz` only looks at a harness and never serves it, so it is enough to say that every port would be provided.
struct Toolbox;

impl Runtime for Toolbox {
    fn provides(&self) -> Vec<Port> {
        Port::ALL.to_vec()
    }
}

/// The venture, composed: its identity, its modules and the templates they send.
///
/// A module added here must be added to the manifest (`fz add`) and its migrations collected (`fz migrations collect`).
///
/// # Panics
///
/// Where the parts do not fit together, such as a module that needs a port nobody provides. `fz doctor` then ends with
/// that message instead of an envelope.
#[must_use]
pub fn harness() -> Harness {
    Harness::builder()
        .venture(
            Venture::new(NAME, HOST).public_url(format!("https://{HOST}")).cors_origins([format!("https://{HOST}")]),
        )
        .module(Waitlist::new())
        .templates(default_templates())
        .runtime(Toolbox)
        .build()
        .unwrap_or_else(|error| panic!("the venture does not compose: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_harness_and_the_manifest_name_the_same_venture_and_modules() {
        let harness = harness();
        let modules: Vec<&str> = harness.modules().iter().map(|module| module.name()).collect();
        let manifest: String = include_str!("../venture.json").split_whitespace().collect();
        for stated in [
            format!(r#""name":"{NAME}""#),
            format!(r#""host":"{HOST}""#),
            format!(r#""modules":["{}"]"#, modules.join(r#"",""#)),
        ] {
            assert!(manifest.contains(&stated), "venture.json lacks {stated}");
        }
    }
}
