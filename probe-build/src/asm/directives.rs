//! The effects of directives within a function.

use super::section::is_switch;

pub(super) fn is_alignment(directive: &str) -> bool {
    matches!(directive, ".align" | ".balign" | ".p2align")
}

/// Directives that leave the code around them alone, besides alignment,
/// switches of sections and `.cfi_…`.
const HARMLESS: [&str; 23] = [
    ".loc", ".file", ".size", ".type", ".globl", ".global", ".weak", ".hidden", ".internal", ".protected",
    ".local", ".set", ".equ", "=", ".symver", ".ident", ".weakref", ".comm", ".lcomm", ".addrsig",
    ".addrsig_sym", ".pseudoprobe", ".loc_mark_labels",
];

/// Returns whether a directive puts nothing into the function.
pub(super) fn is_harmless(directive: &str) -> bool {
    HARMLESS.contains(&directive)
        || is_alignment(directive)
        || is_switch(directive)
        || directive.starts_with(".cfi_")
}
