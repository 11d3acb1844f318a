//! What the server uses of `cratefield-cli`: its table of codes, here with one row, and the schema's number.

/// The codes of failures.
pub mod codes {
    /// One code.
    pub struct DoctorCodeDef {
        /// The code.
        pub code: &'static str,
        /// Its title.
        pub title: &'static str,
        /// What it means.
        pub description: &'static str,
    }

    /// Every code.
    #[must_use]
    pub fn registry() -> Vec<&'static DoctorCodeDef> {
        vec![&DoctorCodeDef { code: "manifest-unreadable", title: "A title", description: "A description" }]
    }
}

/// The envelope.
pub mod workflow {
    /// Its number.
    pub const SCHEMA: u32 = 1;
}
