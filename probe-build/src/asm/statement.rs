//! Statements: directives by their effects, and instructions by theirs on control flow.

use super::line::Instruction;
use super::output::Kind;

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

/// Returns whether an instruction may jump, other than by a call or a return.
pub(super) fn is_jump(it: &Instruction<'_>) -> bool {
    it.mnemonic.starts_with('j') || it.mnemonic.starts_with("loop") || it.mnemonic == "xbegin"
}

/// Returns whether a jump's target is in a register or memory, directly or through a thunk. A
/// return thunk reaches no label.
pub(super) fn is_indirect(it: &Instruction<'_>) -> bool {
    let target = it.operands.first().copied().unwrap_or_default();
    let by_thunk = is_thunk(target) && target != RETURN_THUNK;
    is_jump(it) && (target.starts_with('*') || by_thunk)
}

/// Returns whether control never falls through this instruction.
pub(super) fn ends(it: &Instruction<'_>) -> bool {
    matches!(it.mnemonic, "jmp" | "jmpq" | "ret" | "retq" | "hlt")
        || is_trap(it.mnemonic)
        || (it.mnemonic.starts_with("call")
            && it.operands.first().is_some_and(|target| never_returns(target.trim_end_matches("@PLT"))))
}

const NEVER_RETURN: [&str; 11] = [
    "abort", "exit", "__stack_chk_fail", "_Unwind_Resume", "__cxa_throw", "__cxa_rethrow",
    "__cxa_throw_bad_array_new_length", "__cxa_bad_cast", "__clang_call_terminate", "_ZSt9terminatev",
    "__assert_fail",
];

/// Returns whether compilers insert calls of this function and it never returns, so that any code
/// may follow.
fn never_returns(symbol: &str) -> bool {
    NEVER_RETURN.contains(&symbol)
}

/// Returns whether a call may return a second time.
pub(super) fn returns_twice(it: &Instruction<'_>) -> bool {
    let target = it.operands.first().copied().unwrap_or_default();
    it.mnemonic.starts_with("call")
        && ["setjmp", "vfork", "getcontext"].iter().any(|name| target.contains(name))
}

/// Returns whether an instruction is permanently invalid: `ud2`, or `ud1`, which ends clang's
/// checks of undefined behaviour and names the check.
pub(super) fn is_trap(mnemonic: &str) -> bool {
    matches!(
        mnemonic,
        "ud0" | "ud1" | "ud2" | "ud0l" | "ud1l" | "ud0q" | "ud1q" | "ud0w" | "ud1w" | "ud2a" | "ud2b"
    )
}

/// The thunk that returns for its caller (`-mfunction-return=thunk`).
pub(super) const RETURN_THUNK: &str = "__x86_return_thunk";

/// Returns whether a symbol is a thunk of the compiler, which returns or jumps on behalf of other
/// functions.
pub(super) fn is_thunk(symbol: &str) -> bool {
    ["__x86_indirect_", RETURN_THUNK, "__llvm_retpoline_", "__llvm_lvi_thunk", "__x86.get_pc_thunk"]
        .iter()
        .any(|prefix| symbol.starts_with(prefix))
}

/// Returns whether the compiler's comment marks an instruction as a tail call.
pub(super) fn is_tail_call(comment: &str) -> bool {
    comment.contains("TAILCALL") || pattern(comment).is_some_and(|name| name.starts_with("*sibcall"))
}

/// Returns the name of the instruction's pattern. gcc prints it after its cost
/// (`[c=4 l=2]  *tablejump_1`), older versions before its length (`*tablejump_1  [length = 2]`).
pub(super) fn pattern(comment: &str) -> Option<&str> {
    let name = if let Some((_, rest)) = comment.split_once("[c=") {
        rest.split_once(']')?.1.split_whitespace().next()?
    } else {
        comment.split_once("[length =")?.0.split_whitespace().next_back()?
    };
    Some(name.split('/').next().unwrap_or(name))
}

/// Returns the jump with the opposite condition.
pub(super) fn opposite(mnemonic: &str) -> Option<&'static str> {
    Some(match mnemonic {
        "ja" | "jnbe" => "jbe",
        "jae" | "jnb" | "jnc" => "jb",
        "jb" | "jnae" | "jc" => "jae",
        "jbe" | "jna" => "ja",
        "je" | "jz" => "jne",
        "jne" | "jnz" => "je",
        "jg" | "jnle" => "jle",
        "jge" | "jnl" => "jl",
        "jl" | "jnge" => "jge",
        "jle" | "jng" => "jg",
        "jo" => "jno",
        "jno" => "jo",
        "js" => "jns",
        "jns" => "js",
        "jp" | "jpe" => "jnp",
        "jnp" | "jpo" => "jp",
        _ => return None,
    })
}

/// The hook at the entry of a function, with `-finstrument-functions`, and the one at its exits.
const ENTER: &str = "__cyg_profile_func_enter";
const EXIT: &str = "__cyg_profile_func_exit";
/// The common prefix of both names.
pub(super) const HOOK: &str = "__cyg_profile_func_";

/// Returns the hook that an instruction calls or jumps to.
pub(super) fn hook(it: &Instruction<'_>) -> Option<(Kind, bool)> {
    let tail = match it.mnemonic {
        "call" | "callq" => false,
        "jmp" | "jmpq" => true,
        _ => return None,
    };
    let [target] = it.operands[..] else { return None };
    let symbol = match target.strip_prefix('*') {
        Some(pointer) => pointer.strip_suffix("@GOTPCREL(%rip)")?,
        None => target.strip_suffix("@PLT").unwrap_or(target),
    };
    match symbol {
        ENTER => Some((Kind::Entry, tail)),
        EXIT => Some((Kind::Exit, tail)),
        _ => None,
    }
}
