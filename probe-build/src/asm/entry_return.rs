//! `EntryReturn`: puts sites at a function's entry and before its exits.

use super::exits::{self, Exit, Exits};
use super::file::{File, Function};
use super::function::Extent;
use super::line::{self, Line, Statement};
use super::output::{Convention, Identity, Kind};
use super::section::{Section, Sections};
use super::statement::opposite;
use crate::outcome::Outcome;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

impl<'a> File<'a> {
    /// Places the sites of all functions.
    pub(super) fn entries_and_returns(&mut self, sections: &Sections<'a>) -> Vec<(Function, Outcome)> {
        let extents = core::mem::take(&mut self.extents.functions);
        let mut skips = 0;
        let functions = extents.iter().map(|extent| {
            let function = self.function(extent);
            let outcome = if let Err(why) = (self.request.wants)(&function) {
                Outcome::Excluded(why)
            } else {
                let label = self.extents.parts[extent.parts[0]].label;
                match exits::find(extent, &self.extents, self.lines, sections, self.request.compiler)
                    .and_then(|exits| function.check_len(label).map(|()| exits))
                {
                    Ok(exits) => self.place(extent, &function, &exits, sections, &mut skips),
                    Err(reason) => Outcome::LeftOut(reason),
                }
            };
            (function, outcome)
        });
        functions.collect()
    }

    /// Returns unwind tables that are valid at an exit's site and at the exit: the registers that
    /// the function has saved hold their original values. Compilers leave the tables pointing at
    /// the slots below the stack pointer from which the registers were restored, and the site's
    /// CALL overwrites the first of these slots.
    fn around_exit(&self, extent: &Extent) -> (String, &'static str) {
        let lines = extent.parts.iter().flat_map(|part| &self.extents.parts[*part].lines);
        let mut saved = BTreeSet::new();
        for at in lines {
            let Statement::Directive { name, arguments } = self.lines[*at].statement else { continue };
            match name {
                ".cfi_offset" | ".cfi_rel_offset" => saved.extend(line::operands(arguments).first().copied()),
                // Registers of a realigned frame: rbx, rbp, r10, r12 to r15.
                ".cfi_escape" => saved.extend(["3", "6", "10", "12", "13", "14", "15"]),
                _ => {}
            }
        }
        if saved.is_empty() {
            return (String::new(), "");
        }
        let mut before = format!("\t.cfi_remember_state{MARK}");
        for register in saved {
            before.extend(["\t.cfi_restore ", register, MARK]);
        }
        (before, concat!("\t.cfi_restore_state", "\t# probe\n"))
    }

    /// Returns the function's section, if no other file has the same function.
    fn pool(&self, extent: &Extent, function: &Function, sections: &Sections<'a>) -> Option<Section> {
        let label = self.extents.parts[extent.parts[0]].label;
        let name = |file: &str| Path::new(file).file_name().map(OsStr::to_owned);
        let is_shared = |arguments| line::operands(arguments).len() > 3;
        let is_own = !sections.arguments(label).is_some_and(is_shared)
            && name(&function.file) == name(self.files.main());
        is_own.then(|| sections.of(label))
    }

    fn place(
        &mut self,
        extent: &Extent,
        function: &Function,
        found: &Exits,
        sections: &Sections<'a>,
        skips: &mut usize,
    ) -> Outcome {
        let package = self.package(function);
        let identity = |kind| Identity {
            package: package.clone(),
            path: function.path.clone(),
            file: function.file.clone(),
            line: function.line,
            kind,
            convention: Convention::KeepAll,
        };
        let pool = self.pool(extent, function, sections);
        let first = self.extents.begin_at(&extent.parts[..1], found.entry, self.lines);
        let entry = self.definitions.site(&identity(Kind::Entry), pool, sections.of(found.entry - 1), first);
        self.edits.before(found.entry, &entry);
        let (before_exit, after_exit) = self.around_exit(extent);
        for exit in &found.leaving {
            let (Exit::Before(line) | Exit::Conditional(line)) = *exit;
            // In the first part, the entry's site comes before it.
            let first = self.extents.begin_at(&extent.parts[1..], line, self.lines);
            let site = self.definitions.site(&identity(Kind::Exit), pool, sections.of(line), first);
            let (before, after) =
                if self.in_unwind_table[line] { (&*before_exit, after_exit) } else { ("", "") };
            let site = format!("{before}{site}");
            match *exit {
                Exit::Before(line) => {
                    self.edits.before(line, &site);
                    let leaves = |line: &Line<'_>| matches!(line.statement, Statement::Instruction(_));
                    let way = self.lines[line..].iter().position(leaves).unwrap_or(0);
                    self.edits.before(line + way + 1, after);
                }
                Exit::Conditional(line) => {
                    let around = conditional(&self.lines[line], &site, after, *skips);
                    self.edits.replace(line, around);
                    *skips += 1;
                }
            }
        }
        Outcome::Placed {
            entries: 1,
            exits: found.leaving.len(),
            dead_ends: found.dead_ends,
            unknown_hooks: 0,
        }
    }
}

/// The end of lines that are added to unwind tables.
pub(super) const MARK: &str = "\t# probe\n";

/// Returns a conditional tail call as a jump around a site and an unconditional tail call.
fn conditional(line: &Line<'_>, site: &str, after: &str, number: usize) -> String {
    let Statement::Instruction(it) = &line.statement else { return line.text.to_owned() };
    let Some(opposite) = opposite(it.mnemonic) else { return line.text.to_owned() };
    let target = it.operands.join(", ");
    format!("\t{opposite}\t.Lprobe_skip_{number}\n{site}\tjmp\t{target}\n{after}.Lprobe_skip_{number}:\n")
}
