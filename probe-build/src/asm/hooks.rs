//! The calls of `__cyg_profile_func_enter` and `_exit`: whose they are, and what becomes of them.

use super::constants::{Flow, Named, first_argument};
use super::definition::{Convention, Identity, Kind};
use super::function::Extent;
use super::line::{Instruction, Line, Statement};
use super::section::Sections;
use super::{File, Function, Unplaced, name};
use crate::outcome::{Cause, Exclusion, Outcome, Reason};
use std::collections::{HashMap, HashSet};

const ENTER: &str = "__cyg_profile_func_enter";
const EXIT: &str = "__cyg_profile_func_exit";
/// What both begin with.
const HOOK: &str = "__cyg_profile_func_";

/// A call of a hook.
struct Hook<'a> {
    line: usize,
    kind: Kind,
    /// A jump: it returns, too.
    tail: bool,
    /// The function it speaks of, if that is known.
    of: Option<&'a str>,
}

/// What happens to the hooks of one function.
#[derive(Default)]
struct Tally {
    entries: usize,
    exits: usize,
    excluded: Option<Exclusion>,
    unfit: Option<Reason>,
    function: Option<Function>,
}

/// The hook that an instruction calls, or jumps to.
fn hook(it: &Instruction<'_>) -> Option<(Kind, bool)> {
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

impl<'a> File<'a> {
    /// Makes sites of the hooks.
    pub(super) fn hooks(&mut self, sections: &Sections<'a>) -> Result<Vec<(Function, Outcome)>, Unplaced> {
        let extents = core::mem::take(&mut self.extents.functions);
        let bodies: HashMap<&str, &Extent> =
            extents.iter().rev().map(|extent| (self.extents.parts[extent.parts[0]].symbol, extent)).collect();
        // Clones stand in for a function that is not there itself.
        let clones: HashMap<String, &Extent> = extents
            .iter()
            .rev()
            .map(|extent| (name::path(self.extents.parts[extent.parts[0]].symbol), extent))
            .collect();
        self.extents.functions.clone_from(&extents);
        let named = Named::read(self.lines, sections, &self.extents);

        let mut tallies: HashMap<&'a str, Tally> = HashMap::new();
        let mut order = Vec::new();
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        for extent in &extents {
            let hooks = self.hooks_in(extent, &named);
            for hook in &hooks {
                seen.insert(hook.line);
                if let Some(symbol) = hook.of {
                    let tally = tallies.entry(symbol).or_insert_with(|| {
                        order.push(symbol);
                        let body =
                            bodies.get(symbol).copied().or_else(|| clones.get(&name::path(symbol)).copied());
                        self.tally(symbol, body, hook.line)
                    });
                    tally.count(hook.kind);
                }
            }
            for hook in &hooks {
                let tally = hook.of.and_then(|symbol| tallies.get(symbol));
                self.replace(hook, tally, sections);
            }
            let lost: Vec<usize> =
                hooks.iter().filter(|hook| hook.of.is_none()).map(|hook| hook.line).collect();
            unknown.push((lost, hooks.len()));
        }
        for (at, line) in self.lines.iter().enumerate() {
            if matches!(line.statement, Statement::Directive { name: ".addrsig_sym", arguments } if arguments.starts_with(HOOK))
            {
                seen.insert(at);
                self.edits.remove(at);
            }
        }
        self.no_hook_is_left(&seen)?;

        let mut all: Vec<(Function, Outcome)> = Vec::new();
        for (extent, (lost, hooks)) in extents.iter().zip(unknown) {
            let function = self.function(extent);
            let outcome = match (tallies.remove(function.symbol.as_str()), lost.first()) {
                (Some(tally), _) => tally.outcome(lost.len()),
                (None, Some(line)) => {
                    Outcome::LeftOut(Reason { cause: Cause::Hooks(lost.len()), line: line + 1 })
                }
                // A clone: its hooks speak of the function that it is a clone of.
                (None, None) if hooks > 0 => continue,
                (None, None) => Outcome::Excluded(Exclusion::NoHooks),
            };
            all.push((function, outcome));
        }
        for symbol in order {
            let Some(mut tally) = tallies.remove(symbol) else { continue };
            if let Some(function) = tally.function.take() {
                all.push((function, tally.outcome(0)));
            }
        }
        Ok(all)
    }

    /// The hooks that a function calls, those of functions inlined into it as well.
    fn hooks_in(&self, extent: &Extent, named: &Named<'a>) -> Vec<Hook<'a>> {
        let lines = extent.parts.iter().flat_map(|part| &self.extents.parts[*part].lines);
        let calls = lines.into_iter().any(|at| match &self.lines[*at].statement {
            Statement::Instruction(it) => hook(it).is_some(),
            _ => false,
        });
        let mut hooks = Vec::new();
        if calls {
            Flow::new(extent, &self.extents, self.lines).walk(named, |line, it, state| {
                if let Some((kind, tail)) = hook(it) {
                    hooks.push(Hook { line, kind, tail, of: first_argument(state) });
                }
            });
        }
        hooks
    }

    /// The account of a function that a hook on `line` speaks of.
    fn tally(&self, symbol: &str, body: Option<&Extent>, line: usize) -> Tally {
        let mut function = body.map_or_else(|| self.bodiless(symbol, line), |body| self.function(body));
        symbol.clone_into(&mut function.symbol);
        function.path = name::path(symbol);
        let bytes = function.path.len() + function.file.len();
        let unfit =
            (bytes > usize::from(u16::MAX)).then(|| Reason { cause: Cause::Name(bytes), line: line + 1 });
        Tally {
            excluded: (self.request.wants)(&function).err(),
            unfit,
            function: Some(function),
            ..Tally::default()
        }
    }

    /// A function of which there is no code but what was inlined: its place is that of the hook.
    fn bodiless(&self, symbol: &str, line: usize) -> Function {
        let place = self.lines[..line].iter().rev().find_map(|line| self.files.place(line));
        Function {
            symbol: symbol.to_owned(),
            path: name::path(symbol),
            line: place.as_ref().map_or(0, |place| place.line),
            file: place.map_or_else(|| self.files.main().to_owned(), |place| place.file),
            instructions: 0,
        }
    }

    fn replace(&mut self, hook: &Hook<'_>, tally: Option<&Tally>, sections: &Sections<'a>) {
        let mut text = labels(&self.lines[hook.line]);
        if let Some(Tally { excluded: None, unfit: None, function: Some(function), .. }) = tally {
            let identity = Identity {
                package: self.package(&function.symbol),
                path: function.path.clone(),
                file: function.file.clone(),
                line: function.line,
                kind: hook.kind,
                convention: Convention::Call,
            };
            text.push_str(&self.definitions.site(&identity, sections.of(hook.line)));
        }
        if hook.tail {
            text.push_str("\tret\n");
        }
        self.edits.replace(hook.line, text);
    }

    /// Every reference to a hook must be a call that was replaced: the program that this is linked into has none.
    fn no_hook_is_left(&self, seen: &HashSet<usize>) -> Result<(), Unplaced> {
        let left = self.lines.iter().enumerate().find(|(at, line)| {
            let code = line.text.len() - if line.comment.is_empty() { 0 } else { line.comment.len() };
            !seen.contains(at)
                && line.text.get(..code).unwrap_or(line.text).contains(HOOK)
                && !is_debug_text(line)
        });
        match left {
            None => Ok(()),
            Some((at, _)) => {
                Err(Unplaced { what: "a reference to a hook that is not a call".to_owned(), line: at + 1 })
            }
        }
    }
}

/// The name of a hook as text, in debug information.
fn is_debug_text(line: &Line<'_>) -> bool {
    matches!(line.statement, Statement::Directive { name: ".string" | ".asciz" | ".ascii", .. })
}

/// The labels of a line, as lines of their own.
fn labels(line: &Line<'_>) -> String {
    let end = line
        .labels
        .last()
        .and_then(|last| line.text.rfind(&format!("{last}:")).map(|at| at + last.len() + 1));
    end.map_or_else(String::new, |end| format!("{}\n", &line.text[..end]))
}

impl Tally {
    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Entry => self.entries += 1,
            Kind::Exit => self.exits += 1,
        }
    }

    fn outcome(self, unknown_hooks: usize) -> Outcome {
        match (self.excluded, self.unfit) {
            (Some(why), _) => Outcome::Excluded(why),
            (None, Some(reason)) => Outcome::LeftOut(reason),
            (None, None) => {
                Outcome::Placed { entries: self.entries, exits: self.exits, dead_ends: 0, unknown_hooks }
            }
        }
    }
}
