//! Assembly that the user wrote.
//!
//! A function's inline assembly is safe for the rest of the function if control enters at its top
//! and leaves at its bottom or to labels of the function, and if it leaves the state of the
//! assembler unchanged for the following lines.
//!
//! Functions that are written in assembly, in a file's `asm("…")`, are named and left alone. Such a
//! function may use an unknown convention: it may return flags, or expect a register to survive.

use super::line::{Line, PREFIXES, Statement, operands, statements, symbolic, unquoted};
use super::section;
use super::statement::is_data;
use crate::outcome::Cause;
use std::collections::HashSet;

/// Checks the lines between `#APP` and `#NO_APP`. `home` holds the arguments of the function's
/// `.section`: clang prints `.pushsection` and `.popsection` as a switch there and back.
pub(super) fn check<'a>(lines: impl Iterator<Item = &'a Line<'a>>, home: Option<&str>) -> Result<(), Cause> {
    let mut switches = SectionSwitches { home, pushed: 0, switched: false };
    for line in lines {
        for statement in statements(line.text)? {
            switches.statement(statement)?;
        }
    }
    if switches.pushed > 0 || switches.switched {
        return Err(Cause::InlineAssembly(".section".into()));
    }
    Ok(())
}

/// The section switches of inline assembly.
struct SectionSwitches<'h> {
    home: Option<&'h str>,
    pushed: usize,
    switched: bool,
}

impl SectionSwitches<'_> {
    fn statement(&mut self, statement: &str) -> Result<(), Cause> {
        let bad = || Err(Cause::InlineAssembly(statement.chars().take(60).collect()));
        let statement = after_labels(statement);
        let mut words = statement.split_whitespace().skip_while(|word| PREFIXES.contains(word));
        let Some(name) = words.next() else { return Ok(()) };
        let rest = statement[statement.find(name).unwrap_or(0) + name.len()..].trim();
        if let Some(directive) = name.strip_prefix('.') {
            match directive {
                "pushsection" => self.pushed += 1,
                "popsection" if self.pushed > 0 => self.pushed -= 1,
                "section" if self.pushed == 0 => {
                    self.switched = !self.home.is_some_and(|home| section::is_same(home, rest));
                }
                "subsection" if self.pushed == 0 => self.switched = true,
                "previous" | "text" if self.switched && self.pushed == 0 => self.switched = false,
                "section" | "subsection" | "previous" | "align" | "balign" | "p2align" | "globl"
                | "global" | "weak" | "hidden" | "type" | "size" | "set" | "local" | "loc" | "symver"
                // Both branches of a conditional are checked.
                | "ident" | "extern" | "equ" | "else" | "endif" | "error" => {}
                _ if directive.starts_with("if") => {}
                _ if directive.starts_with("cfi_") => {}
                _ if is_data(name) && (self.pushed > 0 || self.switched) => {}
                "skip" if is_nops(rest) => {}
                _ => return bad(),
            }
            return Ok(());
        }
        if name.contains('=') || rest.starts_with('=') {
            return Ok(());
        }
        // Outside the instruction stream, no code falls through to the following lines.
        if leaves(name, rest) { bad() } else { Ok(()) }
    }
}

/// Returns whether an instruction may leave the function, other than by a call.
fn leaves(mnemonic: &str, operands_text: &str) -> bool {
    let mnemonic = mnemonic.to_ascii_lowercase();
    let special = [
        "ret", "iret", "lret", "sysret", "sysexit", "uiret", "ljmp", "lcall", "retf", "eretu", "erets", "rsm",
    ];
    if special.iter().any(|it| mnemonic.starts_with(it)) {
        return true;
    }
    let target = operands(operands_text).pop().unwrap_or_default().trim();
    let near = is_local(target);
    if mnemonic.starts_with("call") {
        // The code after a call of a label may return to anywhere.
        return near;
    }
    let jump = mnemonic.starts_with('j') || mnemonic.starts_with("loop") || mnemonic.starts_with("xbegin");
    jump && !near
}

/// Returns whether a `.skip` is filled with one-byte NOPs, as in `probe.h`: control passes them,
/// like an alignment's.
fn is_nops(skipped: &str) -> bool {
    skipped.rsplit_once(',').is_some_and(|(_, fill)| fill.trim() == "0x90")
}

/// Returns whether a target is `1f`, `2b`, or a label of the compiler's.
fn is_local(target: &str) -> bool {
    let digits = target.trim_end_matches(['f', 'b']);
    let numeric =
        digits.len() + 1 == target.len() && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    numeric || (target.starts_with(".L") && !target.contains(['+', '-', '@', '(']))
}

fn after_labels(mut statement: &str) -> &str {
    while let Some((label, rest)) = statement.split_once(':') {
        let plain = !label.trim().is_empty() && label.trim().chars().all(symbolic);
        if !plain {
            break;
        }
        statement = rest.trim();
    }
    statement.trim()
}

/// Returns whether inline assembly leaves the assembler in Intel syntax, in 16- or 32-bit code, or
/// with other macro rules. The compiler's own lines after it would then have another meaning.
pub(super) fn changes_the_language<'a>(lines: impl Iterator<Item = &'a Line<'a>>) -> Option<&'static str> {
    let (mut intel, mut other) = (false, None);
    for line in lines {
        for word in line.text.split([' ', '\t', ';', '\n', ':']) {
            match word {
                ".intel_syntax" => intel = true,
                ".att_syntax" => intel = false,
                ".code32" | ".code16" | ".code16gcc" => other = Some("another mode of the processor"),
                ".altmacro" => other = Some("alternate macro syntax"),
                ".code64" | ".noaltmacro" => other = None,
                _ => {}
            }
        }
    }
    if intel { Some("Intel syntax") } else { other }
}

/// A function that is written in assembly.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written<'a> {
    pub symbol: &'a str,
    /// The line of its label, from 0.
    pub label: usize,
    pub instructions: usize,
}

/// Returns the functions of a file's inline assembly: labels that a `.type` declares as functions.
pub(super) fn functions<'a>(lines: &[Line<'a>]) -> Vec<Written<'a>> {
    let inline = || lines.iter().enumerate().filter(|(_, line)| line.statement == Statement::Inline);
    let mut types = HashSet::new();
    for (_, line) in inline() {
        for statement in named_statements(line.text) {
            if let Some([symbol, kind]) = statement.strip_prefix(".type").map(operands).as_deref()
                && matches!(kind.trim_start_matches(['@', '%', '#']), "function" | "STT_FUNC")
            {
                types.insert(unquoted(symbol));
            }
        }
    }
    if types.is_empty() {
        return Vec::new();
    }
    let mut functions: Vec<Written<'a>> = Vec::new();
    let mut is_open = false;
    for (at, line) in lines.iter().enumerate() {
        if line.statement != Statement::Inline {
            is_open = false;
            continue;
        }
        for mut statement in named_statements(line.text) {
            while let Some((label, rest)) = statement.split_once(':')
                && !label.contains(char::is_whitespace)
            {
                statement = rest.trim_start();
                let symbol = unquoted(label);
                if types.remove(symbol) {
                    is_open = true;
                    functions.push(Written { symbol, label: at, instructions: 0 });
                }
            }
            is_open &= !statement.starts_with(".size");
            let is_instruction = is_open && statement.starts_with(|c: char| c.is_ascii_alphabetic());
            if let Some(last) = functions.last_mut().filter(|_| is_instruction) {
                last.instructions += 1;
            }
        }
    }
    functions
}

/// Splits a text into statements, as far as names are concerned.
fn named_statements(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split('#').next().unwrap_or(text);
    code.split(';').map(str::trim).filter(|statement| !statement.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::asm::line::lines;

    fn check_text(text: &str) -> Result<(), Cause> {
        check(
            lines(&format!("#APP\n{text}\n#NO_APP\n"))[1..]
                .iter()
                .take_while(|line| line.text != "#NO_APP\n"),
            Some(".text.f,\"axG\",@progbits,f,comdat"),
        )
    }

    #[test]
    fn harmless_inline_assembly_is_allowed() {
        for text in [
            "",
            "# 3 \"a.c\" 1\n\tcpuid",
            "lock; cmpxchgl %eax, (%rdi)",
            "1: pause; jne 1b; jmp 2f; 2:",
            "jmp .L7",
            "call foo",
            ".pushsection .note.x, \"a\"; .byte 3; .popsection",
            ".section .x; .long 1b; .previous",
            ".section .x,\"a\",@note; .long 1b; .section .text.f,\"axG\",@progbits,f,comdat; nop",
            "xchg %ax, %ax # ret",
            "1: .p2align 3, , 5; 2: .skip !(2b - 1b), 0x90",
        ] {
            assert_eq!(check_text(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn inline_assembly_that_leaves_is_rejected() {
        for text in [
            "ret",
            "rep; ret",
            "cs ret",
            "1: iretq",
            "jmp foo",
            "jmp *%rax",
            "jne foo",
            "call 1f",
            "jmp .L7+2",
            ".byte 0xc3",
            ".macro m",
            ".section .x",
            ".section .x; .section .text.g,\"axG\",@progbits,g,comdat",
            ".pushsection .x",
            "nop /* x */",
            ".rept 3",
            ".skip 4",
            ".skip 1, 0xc3",
        ] {
            assert!(check_text(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_labels_with_a_function_type_are_functions() {
        let text = "\
#APP
.type a, @function; .type b,%function
.type d,@object
a: btq $0,%rdi; ret # isodd:
.size a, .-a
 nop
b: x:
 ret
d: .long 3
#NO_APP
a:
";
        let [a, b] = &functions(&lines(text))[..] else { panic!("two functions") };
        assert_eq!(a, &Written { symbol: "a", label: 3, instructions: 2 });
        assert_eq!(b, &Written { symbol: "b", label: 6, instructions: 1 });
        assert_eq!(functions(&lines("\t.type f, @function\nf:\n\tret\n")), []);
    }
}
