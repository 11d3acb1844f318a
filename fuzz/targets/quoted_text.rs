//! What another program wrote and the server quotes: no panic, no control character left, never longer than allowed.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    for (shown, most) in cratefield_mcp::fuzzing::quoted(text) {
        assert!(shown.chars().count() <= most);
        assert!(!shown.chars().any(|c| c.is_control() && !matches!(c, '\t' | '\n')), "{shown:?}");
        for secret in ["ghp_0123456789abcdefABCD", "AKIA0123456789ABCDEF"] {
            let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
            let whole = shown.match_indices(secret).any(|(at, _)| {
                !shown[..at].ends_with(is_word) && !shown[at + secret.len()..].starts_with(is_word)
            });
            assert!(!whole, "{shown:?}");
        }
    }
});
