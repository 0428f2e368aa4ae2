//! Finds a function's entry and exits.

use super::file::Family;
use super::function::{Extent, Extents};
use super::inline;
use super::line::{Instruction, Line, Statement, symbolic, unquoted};
use super::name::whole_of;
use super::section::Sections;
use super::statement::{
    RETURN_THUNK, is_alignment, is_data, is_harmless, is_tail_call, is_thunk, is_trap, opposite, pattern,
};
use crate::outcome::{Cause, Reason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// The site goes before this line.
    Before(usize),
    /// A conditional tail call.
    Conditional(usize),
}

/// The places of a function's sites.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Exits {
    /// The entry's site goes before this line.
    pub entry: usize,
    pub leaving: Vec<Exit>,
    pub dead_ends: usize,
    /// Whether control may fall through the end of a part.
    falls_through: bool,
}

/// The effect of an instruction on control flow, as far as sites are concerned.
#[derive(Debug, PartialEq, Eq)]
enum ControlFlow {
    Stays,
    Leaves,
    LeavesIf,
}

/// Finds entry and exits, or returns why it can't.
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
    let function = ScannedFunction { extent, extents, lines, sections, family };
    let entry = function.entry().map_err(reason)?;
    let mut found = Exits { entry, leaving: Vec::new(), dead_ends: 0, falls_through: false };
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
    if found.falls_through && found.leaving.is_empty() && found.dead_ends == 0 {
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

/// A function, during the pass over its lines.
pub(super) struct ScannedFunction<'f, 'a> {
    pub extent: &'f Extent,
    pub extents: &'f Extents<'a>,
    pub lines: &'f [Line<'a>],
    sections: &'f Sections<'a>,
    family: Family,
}

impl ScannedFunction<'_, '_> {
    /// Goes through the lines of a part. Returns the number of the compiler's instructions in it.
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
                    inline::check(inside[..length].iter().map(|at| &self.lines[*at]), home)
                        .map_err(|cause| (cause, at))?;
                    index += length;
                    last = None;
                }
                Statement::Inline => return Err((Cause::InlineAssembly(String::new()), at)),
                Statement::Debug => return Err((Cause::Directive("debug information".to_owned()), at)),
                Statement::Unclear(why) => return Err((Cause::Line((*why).to_owned()), at)),
                Statement::Directive { name, arguments } => {
                    if is_data(name) && !is_alignment(name) {
                        // Data within the call of `__tls_get_addr`, and `ud2`.
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
                    if flow != ControlFlow::Stays && (prefix || labelled) {
                        return Err((Cause::Prefix, at));
                    }
                    match flow {
                        ControlFlow::Stays => {}
                        ControlFlow::Leaves => found.leaving.push(Exit::Before(at)),
                        ControlFlow::LeavesIf => found.leaving.push(Exit::Conditional(at)),
                    }
                    prefix = false;
                    // An `int3` after an exit only stops speculation; it is not an end of its own.
                    if it.mnemonic != "int3" {
                        last = Some(it.mnemonic);
                    }
                }
            }
        }
        let ends = last.is_some_and(|it| it.starts_with("call") || is_trap(it) || it == "hlt");
        found.dead_ends += usize::from(ends);
        found.falls_through |= last.is_some_and(|it| !ends && !it.starts_with('j') && !it.starts_with("ret"));
        Ok(seen)
    }

    fn flow(
        &self,
        it: &Instruction<'_>,
        line: &Line<'_>,
        part: &[usize],
        index: usize,
    ) -> Result<ControlFlow, Cause> {
        match it.mnemonic {
            "ret" | "retq" => self.returns(line, part, index),
            "jmp" | "jmpq" => self.jump(it, line, part, index),
            "call" | "callq" => called(it).map(|()| ControlFlow::Stays),
            "xbegin" => self.inside(target(it)?).then_some(ControlFlow::Stays).ok_or_else(|| jump(it)),
            mnemonic if mnemonic.starts_with('j') => {
                let target = target(it)?;
                if self.inside(target) {
                    Ok(ControlFlow::Stays)
                } else if opposite(mnemonic).is_some() && self.is_tail_call(target, line) {
                    Ok(ControlFlow::LeavesIf)
                } else {
                    Err(jump(it))
                }
            }
            mnemonic if mnemonic.starts_with("loop") => {
                self.inside(target(it)?).then_some(ControlFlow::Stays).ok_or_else(|| jump(it))
            }
            mnemonic if is_special(mnemonic) => Err(Cause::SpecialReturn(mnemonic.to_owned())),
            _ => Ok(ControlFlow::Stays),
        }
    }

    /// Classifies a return. An error if `__builtin_eh_return` has moved the stack pointer for it.
    fn returns(&self, line: &Line<'_>, part: &[usize], index: usize) -> Result<ControlFlow, Cause> {
        let moved =
            self.instruction_before(part, index).is_some_and(|it| match (it.mnemonic, &it.operands[..]) {
                ("mov" | "movq", [from, "%rsp"]) => from.starts_with('%'),
                ("lea" | "leaq", [from, "%rsp"]) => from.contains("(%rsp,"),
                _ => false,
            });
        if moved || line.comment.contains("eh_return") {
            Err(Cause::ExceptionReturn)
        } else {
            Ok(ControlFlow::Leaves)
        }
    }

    fn jump(
        &self,
        it: &Instruction<'_>,
        line: &Line<'_>,
        part: &[usize],
        index: usize,
    ) -> Result<ControlFlow, Cause> {
        let target = target(it)?;
        let thunk = target.starts_with("__x86_indirect_thunk") || target.starts_with("__llvm_");
        if target.starts_with('*') || thunk {
            if below_stack_pointer(target) {
                return Err(Cause::BelowStackPointer);
            }
            let within = match self.family {
                Family::Gnu => matches!(pattern(line.comment), Some("*tablejump_1" | "*indirect_jump")),
                // Without comments, clang would not mark a tail call. `lfence; jmp *` may be a
                // return.
                Family::Clang => !thunk && self.is_verbose() && !self.follows_fence(part, index),
            };
            return match is_tail_call(line.comment) {
                true => Ok(ControlFlow::Leaves),
                false if within => Ok(ControlFlow::Stays),
                false => Err(Cause::IndirectJump),
            };
        }
        if target == RETURN_THUNK {
            return self.returns(line, part, index);
        }
        if self.inside(target) && !is_tail_call(line.comment) {
            return Ok(ControlFlow::Stays);
        }
        if self.is_tail_call(target, line) { Ok(ControlFlow::Leaves) } else { Err(jump(it)) }
    }

    /// Returns whether a direct jump out of the function is a tail call. If the compiler marks each
    /// tail call, only marked jumps are. A part of a function is not another function, unless it is
    /// called somewhere.
    fn is_tail_call(&self, target: &str, line: &Line<'_>) -> bool {
        let says_all = match self.family {
            Family::Gnu => pattern(line.comment).is_some(),
            Family::Clang => self.is_verbose(),
        };
        is_tail_call(line.comment) || (!says_all && whole_of(target).is_none() && self.is_function(target))
    }

    /// Returns whether a label belongs to this function and is not its start: such a jump is a
    /// loop.
    fn inside(&self, target: &str) -> bool {
        let target = unquoted(target);
        let Some(part) = self.extents.labels.get(target) else { return false };
        let starts = *part == self.extent.parts[0] && self.heads(target);
        self.extent.parts.contains(part) && !starts
    }

    /// Returns whether the target is a function: not a label, unless that is an alias of a
    /// function.
    fn is_function(&self, target: &str) -> bool {
        let target = target.strip_suffix("@PLT").unwrap_or(target);
        let quoted = target.starts_with('"');
        let plain = quoted || (!target.is_empty() && target.chars().all(symbolic));
        let symbol = self.extents.resolve(unquoted(target));
        plain
            && (!symbol.starts_with(".L") || symbol.ends_with("$local"))
            && !symbol.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Returns whether clang printed optional comments: the name of the function beside its label.
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

impl ScannedFunction<'_, '_> {
    /// Returns the line before which the entry's site goes. It is after the label, the start of the
    /// unwind table, the first `.loc` (so that the site has the function's line) and `endbr64`, and
    /// before any label that is a jump target.
    pub(super) fn entry(&self) -> Result<usize, (Cause, usize)> {
        let part = &self.extents.parts[self.extent.parts[0]];
        let (mut after, mut places) = (part.label, 0);
        for (index, &at) in part.lines.iter().enumerate() {
            let line = &self.lines[at];
            if !line.labels.iter().all(|label| self.heads(label)) {
                break;
            }
            match &line.statement {
                Statement::Empty if line.labels.is_empty() => {}
                Statement::Empty
                | Statement::Directive {
                    name: ".cfi_startproc" | ".cfi_personality" | ".cfi_lsda", ..
                } => after = at,
                Statement::Directive { name: ".loc", .. } => {
                    places += 1;
                    if places == 1 {
                        after = at;
                    }
                }
                Statement::Directive { .. } if self.is_signature(&part.lines, index) => after = at,
                Statement::Directive { name, .. } if is_data(name) && !is_alignment(name) => {
                    return Err((Cause::Directive((*name).to_owned()), at));
                }
                Statement::Directive { name, .. } if is_alignment(name) => break,
                Statement::Directive { .. } => {}
                Statement::Instruction(it) if it.mnemonic == "endbr64" && index > 0 => {
                    after = at;
                    break;
                }
                _ => break,
            }
        }
        Ok(after + 1)
    }

    /// Returns whether a line belongs to the eight bytes that clang's `-fsanitize=function` checks
    /// before an indirect call: a jump over them, and a number.
    pub(super) fn is_signature(&self, part: &[usize], index: usize) -> bool {
        let long = |at: usize| match self.lines[at].statement {
            Statement::Directive { name: ".long", arguments } => Some(arguments),
            _ => None,
        };
        let jump = |index: usize| part.get(index).and_then(|at| long(*at)) == Some("846595819");
        let first = |index: usize| {
            part[..index].iter().all(|at| {
                matches!(self.lines[*at].statement, Statement::Empty | Statement::Directive { .. })
                    && long(*at).is_none()
            })
        };
        match index.checked_sub(1) {
            _ if jump(index) => first(index),
            Some(before) => {
                part.get(index).is_some_and(|at| long(*at).is_some()) && jump(before) && first(before)
            }
            None => false,
        }
    }

    /// Returns whether a label is the function's start, rather than a loop's head there.
    pub(super) fn heads(&self, label: &str) -> bool {
        let part = &self.extents.parts[self.extent.parts[0]];
        label == part.symbol
            || [".LFB", ".LVL", ".Lfunc_begin"].iter().any(|it| label.starts_with(it))
            || label.ends_with("$local")
            || !label.starts_with('.')
    }
}

fn jump(it: &Instruction<'_>) -> Cause {
    Cause::Jump(it.operands.join(", "))
}

/// Returns the only operand of a jump.
fn target<'a>(it: &Instruction<'a>) -> Result<&'a str, Cause> {
    match it.operands[..] {
        [target] if !target.is_empty() => Ok(target),
        _ => Err(jump(it)),
    }
}

/// Rejects calls that change where returns go.
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

/// Returns whether the operand lies at a negative offset from the stack pointer.
fn below_stack_pointer(target: &str) -> bool {
    target.contains("(%rsp") && target.trim_start_matches('*').trim_start().starts_with('-')
}

fn is_special(mnemonic: &str) -> bool {
    ["iret", "lret", "sysret", "sysexit", "uiret", "ljmp", "lcall", "retf", "retw", "retl", "rsm", "eret"]
        .iter()
        .any(|it| mnemonic.starts_with(it))
}
