//! Which lines of a function are its entry and its exits.

use super::debug::is_data;
use super::directives::{is_alignment, is_harmless};
use super::function::{Extent, Extents};
use super::inline;
use super::line::{Instruction, Line, Statement, unquoted};
use super::name::whole_of;
use super::section::Sections;
use crate::outcome::{Cause, Reason};

/// The compiler that printed the assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// gcc, called with `-dp`: each instruction is followed by the name of its pattern.
    Gnu,
    /// clang: tail calls are followed by `TAILCALL`.
    Clang,
}

/// An exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The site goes before this line.
    Before(usize),
    /// A conditional tail call.
    Conditional(usize),
}

/// Where a function's sites go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exits {
    /// The entry's site goes before this line.
    pub entry: usize,
    pub leaving: Vec<Exit>,
    pub dead_ends: usize,
    /// Whether what comes after a part may be executed after it.
    runs_on: bool,
}

/// What an instruction does to control, as far as sites are concerned.
#[derive(Debug, PartialEq, Eq)]
enum Flow {
    Stays,
    Leaves,
    LeavesIf,
}

/// Finds entry and exits, or says why it can't.
pub(super) fn find(
    extent: &Extent,
    extents: &Extents<'_>,
    lines: &[Line<'_>],
    sections: &Sections<'_>,
    family: Family,
) -> Result<Exits, Reason> {
    let first = &extents.parts[extent.parts[0]];
    let reason = |(cause, at): (Cause, usize)| Reason { cause, line: at + 1 };
    if !extent.has_start {
        return Err(reason((Cause::NoStart, first.label)));
    }
    if extents.indirect.contains(first.symbol) {
        return Err(reason((Cause::IndirectFunction, first.label)));
    }
    if is_thunk(first.symbol) {
        return Err(reason((Cause::Thunk, first.label)));
    }
    let function = Function { extent, extents, lines, sections, family };
    let entry = function.entry().map_err(reason)?;
    let mut found = Exits { entry, leaving: Vec::new(), dead_ends: 0, runs_on: false };
    let mut seen = 0;
    for part in &extent.parts {
        let part = &extents.parts[*part];
        if let Some(flaw) = &part.flaw {
            return Err(reason(flaw.clone()));
        }
        seen += function.part(&part.lines, &mut found).map_err(reason)?;
    }
    let inline =
        |part: &usize| extents.parts[*part].lines.iter().any(|at| lines[*at].statement == Statement::Inline);
    if found.runs_on && found.leaving.is_empty() && found.dead_ends == 0 {
        return Err(reason((Cause::NoExit, first.label)));
    }
    if seen == 0 && extent.parts.iter().any(inline) {
        return Err(reason((Cause::Naked, first.label)));
    }
    if family == Family::Clang && !extents.all_announced {
        return Err(reason((Cause::Unannounced, first.label)));
    }
    Ok(found)
}

/// Who jumps there returns (`-mfunction-return=thunk`).
pub(super) const RETURN_THUNK: &str = "__x86_return_thunk";

/// The compiler's own thunks return, or jump, on behalf of others.
pub(super) fn is_thunk(symbol: &str) -> bool {
    ["__x86_indirect_", RETURN_THUNK, "__llvm_retpoline_", "__llvm_lvi_thunk", "__x86.get_pc_thunk"]
        .iter()
        .any(|prefix| symbol.starts_with(prefix))
}

/// A function, while its lines are gone through.
pub(super) struct Function<'f, 'a> {
    pub extent: &'f Extent,
    pub extents: &'f Extents<'a>,
    pub lines: &'f [Line<'a>],
    sections: &'f Sections<'a>,
    family: Family,
}

impl Function<'_, '_> {
    /// Goes through the lines of a part. Returns how many instructions of the compiler's it has.
    fn part(&self, part: &[usize], found: &mut Exits) -> Result<usize, (Cause, usize)> {
        let (mut seen, mut last, mut prefix, mut index) = (0, None, false, 0);
        while let Some(&at) = part.get(index) {
            index += 1;
            match &self.lines[at].statement {
                Statement::Empty | Statement::NoApp => {}
                Statement::App => {
                    let inside = &part[index..];
                    let length =
                        inside.iter().take_while(|at| self.lines[**at].statement != Statement::NoApp).count();
                    let home = self.sections.arguments(at);
                    inline::judge(inside[..length].iter().map(|at| &self.lines[*at]), home)
                        .map_err(|cause| (cause, at))?;
                    index += length;
                    last = None;
                }
                Statement::Inline => return Err((Cause::InlineAssembly(String::new()), at)),
                Statement::Debug => return Err((Cause::Directive("debug information".to_owned()), at)),
                Statement::Unclear(why) => return Err((Cause::Line((*why).to_owned()), at)),
                Statement::Directive { name, arguments } => {
                    if is_data(name) && !is_alignment(name) {
                        // Parts of the call of `__tls_get_addr`, and `ud2`.
                        let signature = self.is_signature(part, index - 1);
                        if !signature
                            && !matches!(
                                (*name, *arguments),
                                (".byte", "0x66") | (".value", "0x6666" | "0x0b0f")
                            )
                        {
                            return Err((Cause::Directive((*name).to_owned()), at));
                        }
                        prefix = !signature;
                    } else if !is_harmless(name) {
                        return Err((Cause::Directive((*name).to_owned()), at));
                    }
                }
                Statement::Instruction(it) if it.mnemonic.is_empty() => prefix = true,
                Statement::Instruction(it) => {
                    seen += usize::from(
                        !(is_trap(it.mnemonic) || matches!(it.mnemonic, "nop" | "endbr64" | "int3")),
                    );
                    let flow =
                        self.flow(it, &self.lines[at], part, index - 1).map_err(|cause| (cause, at))?;
                    let labelled = !self.lines[at].labels.is_empty();
                    if flow != Flow::Stays && (prefix || labelled) {
                        return Err((Cause::Prefix, at));
                    }
                    match flow {
                        Flow::Stays => {}
                        Flow::Leaves => found.leaving.push(Exit::Before(at)),
                        Flow::LeavesIf => found.leaving.push(Exit::Conditional(at)),
                    }
                    prefix = false;
                    // What stops a processor that speculates past an exit is no end of its own.
                    if it.mnemonic != "int3" {
                        last = Some(it.mnemonic);
                    }
                }
            }
        }
        let ends = last.is_some_and(|it| it.starts_with("call") || is_trap(it) || it == "hlt");
        found.dead_ends += usize::from(ends);
        found.runs_on |= last.is_some_and(|it| !ends && !it.starts_with('j') && !it.starts_with("ret"));
        Ok(seen)
    }

    fn flow(
        &self,
        it: &Instruction<'_>,
        line: &Line<'_>,
        part: &[usize],
        index: usize,
    ) -> Result<Flow, Cause> {
        match it.mnemonic {
            "ret" | "retq" => self.returns(line, part, index),
            "jmp" | "jmpq" => self.jump(it, line, part, index),
            "call" | "callq" => called(it).map(|()| Flow::Stays),
            "xbegin" => self.inside(target(it)?).then_some(Flow::Stays).ok_or_else(|| jump(it)),
            mnemonic if mnemonic.starts_with('j') => {
                let target = target(it)?;
                if self.inside(target) {
                    Ok(Flow::Stays)
                } else if opposite(mnemonic).is_some() && self.is_tail_call(target, line) {
                    Ok(Flow::LeavesIf)
                } else {
                    Err(jump(it))
                }
            }
            mnemonic if mnemonic.starts_with("loop") => {
                self.inside(target(it)?).then_some(Flow::Stays).ok_or_else(|| jump(it))
            }
            mnemonic if is_special(mnemonic) => Err(Cause::SpecialReturn(mnemonic.to_owned())),
            _ => Ok(Flow::Stays),
        }
    }

    /// A return, unless it goes to where `__builtin_eh_return` has put the stack pointer.
    fn returns(&self, line: &Line<'_>, part: &[usize], index: usize) -> Result<Flow, Cause> {
        let moved =
            self.instruction_before(part, index).is_some_and(|it| match (it.mnemonic, &it.operands[..]) {
                ("mov" | "movq", [from, "%rsp"]) => from.starts_with('%'),
                ("lea" | "leaq", [from, "%rsp"]) => from.contains("(%rsp,"),
                _ => false,
            });
        if moved || line.comment.contains("eh_return") {
            Err(Cause::ExceptionReturn)
        } else {
            Ok(Flow::Leaves)
        }
    }

    fn jump(
        &self,
        it: &Instruction<'_>,
        line: &Line<'_>,
        part: &[usize],
        index: usize,
    ) -> Result<Flow, Cause> {
        let target = target(it)?;
        let thunk = target.starts_with("__x86_indirect_thunk") || target.starts_with("__llvm_");
        if target.starts_with('*') || thunk {
            if below_stack_pointer(target) {
                return Err(Cause::BelowStackPointer);
            }
            let within = match self.family {
                Family::Gnu => matches!(pattern(line.comment), Some("*tablejump_1" | "*indirect_jump")),
                // Without comments clang would not say of a tail call, either. `lfence; jmp *` may
                // be a return.
                Family::Clang => !thunk && self.is_verbose() && !self.follows_fence(part, index),
            };
            return match is_tail_call(line.comment) {
                true => Ok(Flow::Leaves),
                false if within => Ok(Flow::Stays),
                false => Err(Cause::IndirectJump),
            };
        }
        if target == RETURN_THUNK {
            return self.returns(line, part, index);
        }
        if self.inside(target) && !is_tail_call(line.comment) {
            return Ok(Flow::Stays);
        }
        if self.is_tail_call(target, line) { Ok(Flow::Leaves) } else { Err(jump(it)) }
    }

    /// Whether a direct jump out of the function calls another one. Where the compiler says of each
    /// tail call that it is one, only those are. No part of a function is another one, unless it is
    /// called somewhere.
    fn is_tail_call(&self, target: &str, line: &Line<'_>) -> bool {
        let says_all = match self.family {
            Family::Gnu => pattern(line.comment).is_some(),
            Family::Clang => self.is_verbose(),
        };
        is_tail_call(line.comment) || (!says_all && whole_of(target).is_none() && self.is_function(target))
    }

    /// Whether a label is one of this function's, other than its start: jumping there is going
    /// round.
    fn inside(&self, target: &str) -> bool {
        let target = unquoted(target);
        let Some(part) = self.extents.labels.get(target) else { return false };
        let starts = *part == self.extent.parts[0] && self.heads(target);
        self.extent.parts.contains(part) && !starts
    }

    /// Whether the target is a function: not a label, unless that is another name of one.
    fn is_function(&self, target: &str) -> bool {
        let target = target.strip_suffix("@PLT").unwrap_or(target);
        let quoted = target.starts_with('"');
        let plain = quoted || (!target.is_empty() && target.chars().all(super::line::symbolic));
        let symbol = self.extents.resolve(unquoted(target));
        plain
            && (!symbol.starts_with(".L") || symbol.ends_with("$local"))
            && !symbol.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Whether clang said more than it had to: the name of the function beside its label.
    fn is_verbose(&self) -> bool {
        let part = &self.extents.parts[self.extent.parts[0]];
        self.lines[part.label].comment.starts_with('@')
    }

    fn follows_fence(&self, part: &[usize], index: usize) -> bool {
        self.instruction_before(part, index).is_some_and(|it| it.mnemonic == "lfence")
    }

    fn instruction_before(&self, part: &[usize], index: usize) -> Option<&Instruction<'_>> {
        part[..index].iter().rev().find_map(|at| match &self.lines[*at].statement {
            Statement::Instruction(it) => Some(it),
            _ => None,
        })
    }
}

/// Whether a compiler says of an instruction, in its comment, that it is a tail call.
pub(super) fn is_tail_call(comment: &str) -> bool {
    comment.contains("TAILCALL") || pattern(comment).is_some_and(|name| name.starts_with("*sibcall"))
}

fn jump(it: &Instruction<'_>) -> Cause {
    Cause::Jump(it.operands.join(", "))
}

/// The only operand of a jump.
fn target<'a>(it: &Instruction<'a>) -> Result<&'a str, Cause> {
    match it.operands[..] {
        [target] if !target.is_empty() => Ok(target),
        _ => Err(jump(it)),
    }
}

/// Calls that do something to where returns go.
fn called(it: &Instruction<'_>) -> Result<(), Cause> {
    let target = target(it)?;
    if target.starts_with(".L") && !target.ends_with("$local") {
        return Err(Cause::CallOfLabel);
    }
    if target.starts_with("__morestack") {
        return Err(Cause::SplitStack);
    }
    Ok(())
}

/// Instructions that are invalid for good: `ud2`; clang's checks of undefined behaviour end in
/// `ud1`, which says which it was.
pub(super) fn is_trap(mnemonic: &str) -> bool {
    matches!(
        mnemonic,
        "ud0" | "ud1" | "ud2" | "ud0l" | "ud1l" | "ud0q" | "ud1q" | "ud0w" | "ud1w" | "ud2a" | "ud2b"
    )
}

/// Whether the operand lies at a negative offset from the stack pointer.
fn below_stack_pointer(target: &str) -> bool {
    target.contains("(%rsp") && target.trim_start_matches('*').trim_start().starts_with('-')
}

fn is_special(mnemonic: &str) -> bool {
    ["iret", "lret", "sysret", "sysexit", "uiret", "ljmp", "lcall", "retf", "retw", "retl", "rsm", "eret"]
        .iter()
        .any(|it| mnemonic.starts_with(it))
}

/// The name of the instruction's pattern, which gcc prints after its cost
/// (`[c=4 l=2]  *tablejump_1`), older ones before its length (`*tablejump_1  [length = 2]`).
fn pattern(comment: &str) -> Option<&str> {
    let name = if let Some((_, rest)) = comment.split_once("[c=") {
        rest.split_once(']')?.1.split_whitespace().next()?
    } else {
        comment.split_once("[length =")?.0.split_whitespace().next_back()?
    };
    Some(name.split('/').next().unwrap_or(name))
}

/// The jump that is taken where the given one is not.
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
