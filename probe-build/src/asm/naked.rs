//! Removes hooks from naked functions: a hook clobbers registers that a naked function does not
//! save.
//!
//! Neither gcc nor clang (14) marks a naked function. A function may be naked if it has inline
//! assembly and calls a hook, and yet none of the compiler's instructions moves the stack pointer
//! or returns. The same file without hooks decides: if the compiler has no instruction in the
//! function there, all of its instructions here belong to the hooks.

use super::exits::is_trap;
use super::function::{Extent, Extents};
use super::hooks::hook;
use super::line::{self, Instruction, Line, Statement};
use super::section::Sections;
use super::{File, Unplaced};
use std::collections::HashSet;

impl File<'_> {
    /// Returns the functions that are naked and call hooks.
    pub(super) fn naked(&self, extents: &[Extent]) -> Result<HashSet<usize>, Unplaced> {
        let may_be = |extent: &Extent| may_be_naked(&self.extents.instructions(extent, self.lines));
        let suspects: Vec<usize> = (0..extents.len())
            .filter(|at| has_inline(&extents[*at], &self.extents, self.lines) && may_be(&extents[*at]))
            .collect();
        if suspects.is_empty() {
            return Ok(HashSet::new());
        }
        let plain = (self.request.without_hooks)().unwrap_or_default();
        let bare = bare_functions(&plain);
        for &at in &suspects {
            let part = &self.extents.parts[extents[at].parts[0]];
            if !bare.contains(part.symbol) {
                let what = format!("hooks in `{}`, which may be naked but has code of its own", part.symbol);
                return Err(Unplaced { what, line: part.label + 1 });
            }
        }
        Ok(suspects.into_iter().collect())
    }

    /// Removes the hooks and their arguments from a naked function. Returns the lines that called
    /// hooks.
    pub(super) fn without_hooks(&mut self, extent: &Extent) -> Vec<usize> {
        let mut calls = Vec::new();
        for &at in extent.parts.iter().flat_map(|part| &self.extents.parts[*part].lines) {
            let Statement::Instruction(it) = &self.lines[at].statement else { continue };
            if !is_filler(it) {
                self.edits.replace(at, super::hooks::labels(&self.lines[at]));
            }
            calls.extend(hook(it).map(|_| at));
        }
        calls
    }
}

impl<'a> Extents<'a> {
    /// Returns the compiler's instructions in a function.
    fn instructions<'l>(&self, extent: &Extent, lines: &'l [Line<'a>]) -> Vec<&'l Instruction<'a>> {
        let lines = extent.parts.iter().flat_map(|part| &self.parts[*part].lines).map(|at| &lines[*at]);
        let instructions = lines.filter_map(|line| match &line.statement {
            Statement::Instruction(it) => Some(it),
            _ => None,
        });
        instructions.collect()
    }
}

fn has_inline(extent: &Extent, extents: &Extents<'_>, lines: &[Line<'_>]) -> bool {
    let mut all = extent.parts.iter().flat_map(|part| &extents.parts[*part].lines);
    all.any(|at| lines[*at].statement == Statement::Inline)
}

/// Returns whether a function may be naked. Any other function that calls a hook aligns its stack
/// first, or returns after it.
fn may_be_naked(instructions: &[&Instruction<'_>]) -> bool {
    let has_frame = |it: &&Instruction<'_>| {
        ["push", "pop", "ret", "leave", "enter"].iter().any(|name| it.mnemonic.starts_with(name))
            || it.operands.last() == Some(&"%rsp")
    };
    instructions.iter().any(|it| hook(it).is_some()) && !instructions.iter().any(has_frame)
}

/// Returns whether an instruction may precede inline assembly, or follow inline assembly that does
/// not return.
fn is_filler(it: &Instruction<'_>) -> bool {
    is_trap(it.mnemonic) || matches!(it.mnemonic, "nop" | "endbr64" | "int3")
}

/// Returns the functions of a file that consist of inline assembly only.
fn bare_functions(source: &str) -> HashSet<&str> {
    let lines = line::lines(source);
    let extents = Extents::read(&lines, &Sections::read(&lines));
    let bare = extents.functions.iter().filter(|extent| {
        has_inline(extent, &extents, &lines)
            && extents.instructions(extent, &lines).into_iter().all(is_filler)
    });
    bare.map(|extent| extents.parts[extent.parts[0]].symbol).collect()
}
