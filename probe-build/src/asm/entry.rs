//! Finds the line of a function's entry, where its site goes.

use super::debug::is_data;
use super::directives::is_alignment;
use super::exits::ScannedFunction;
use super::line::Statement;
use crate::outcome::Cause;

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
