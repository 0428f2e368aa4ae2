//! Directives, by their effects.

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

/// Directives that emit data.
const DATA: [&str; 28] = [
    ".byte", ".2byte", ".4byte", ".8byte", ".octa", ".value", ".short", ".hword", ".word", ".int", ".long",
    ".quad", ".ascii", ".asciz", ".string", ".uleb128", ".sleb128", ".zero", ".skip", ".space", ".fill",
    ".align", ".balign", ".p2align", ".float", ".double", ".single", ".tfloat",
];

/// Returns whether a directive puts bytes into the section, or aligns it. The other directives in a
/// debug section concern symbols, or come from the end of the file, and stay.
pub(super) fn is_data(directive: &str) -> bool {
    DATA.contains(&directive)
}

const SWITCHES: [&str; 8] =
    [".text", ".data", ".bss", ".section", ".pushsection", ".popsection", ".previous", ".subsection"];

/// Returns whether a directive may switch to another section.
pub(super) fn is_switch(directive: &str) -> bool {
    SWITCHES.contains(&directive)
}

/// Returns whether a section of this name holds debug information.
pub(super) fn is_debug(section: &str) -> bool {
    section.starts_with(".debug_") && !section.starts_with(".debug_gdb_scripts")
}
