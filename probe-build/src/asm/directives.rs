//! The effects of directives within a function.

pub(super) fn is_alignment(directive: &str) -> bool {
    matches!(directive, ".align" | ".balign" | ".p2align")
}

/// Returns whether a directive puts nothing into the function.
pub(super) fn is_harmless(directive: &str) -> bool {
    let known = matches!(
        directive,
        ".align"
            | ".balign"
            | ".p2align"
            | ".loc"
            | ".file"
            | ".text"
            | ".section"
            | ".pushsection"
            | ".popsection"
            | ".previous"
            | ".subsection"
            | ".data"
            | ".bss"
            | ".size"
            | ".type"
            | ".globl"
            | ".global"
            | ".weak"
            | ".hidden"
            | ".internal"
            | ".protected"
            | ".local"
            | ".set"
            | ".equ"
            | "="
            | ".symver"
            | ".ident"
            | ".weakref"
            | ".comm"
            | ".lcomm"
            | ".addrsig"
            | ".addrsig_sym"
            | ".pseudoprobe"
            | ".loc_mark_labels"
    );
    known || directive.starts_with(".cfi_")
}
