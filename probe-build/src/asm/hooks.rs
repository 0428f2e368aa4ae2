//! The calls of `__cyg_profile_func_enter` and `_exit`: finds their functions, and replaces them by
//! sites.
//!
//! A call becomes a site of the function whose address it passes (`constants`). Compilers merge
//! calls. If a call may pass several functions, added code compares the address with each, and
//! there is a site for each. `%rax` and the flags are free for that, because a function of two
//! arguments is called there. The comparison also runs while the sites are latent. clang -O2
//! produces such a call in one of 100 cases in SQLite, gcc in none.
//!
//! A naked function loses its hooks: a hook clobbers registers that a naked function does not save.
//! Neither gcc nor clang (14) marks a naked function. A function may be naked if it has inline
//! assembly and calls a hook, and yet none of the compiler's instructions moves the stack pointer
//! or returns. The same file without hooks decides: if the compiler has no instruction in the
//! function there, all of its instructions here belong to the hooks.

use super::constants::{DataFlow, Load, Symbol, Targets, first_argument};
use super::file::{File, Function, Unplaced};
use super::function::{Extent, Extents};
use super::line::{self, Instruction, Line, Statement, operands, symbolic, unquoted};
use super::name;
use super::output::{Convention, Identity, Kind};
use super::section::Sections;
use super::statement::{HOOK, hook, is_trap};
use crate::outcome::{Cause, Exclusion, Outcome, Reason};
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// A call of a hook.
struct Hook<'a> {
    line: usize,
    kind: Kind,
    /// Whether the hook is reached by a jump, so that it also returns.
    tail: bool,
    /// The functions that the call may pass. If two functions were inlined, compilers may merge
    /// their calls. Empty if unknown.
    of: Vec<Symbol<'a>>,
}

/// The largest number of functions for one call. If there are more, its function is unknown.
const MAX_FUNCTIONS: usize = 16;

impl<'a> Symbol<'a> {
    /// Returns the function's name: clang has separate names for functions of this file.
    fn function(self) -> &'a str {
        self.name.strip_prefix(".L").and_then(|name| name.strip_suffix("$local")).unwrap_or(self.name)
    }

    /// Loads the address again, into a register without a live value before a call.
    fn load_again(self) -> String {
        let Self { name, load } = self;
        let name = if name.chars().all(symbolic) { name.to_owned() } else { format!("\"{name}\"") };
        match load {
            Load::Relative => format!("\tleaq\t{name}(%rip), %rax\n"),
            Load::Table => format!("\tmovq\t{name}@GOTPCREL(%rip), %rax\n"),
            Load::Absolute32 => format!("\tmovl\t${name}, %eax\n"),
            Load::Absolute => format!("\tmovabsq\t${name}, %rax\n"),
        }
    }
}

/// The facts that the functions of a file share.
struct Program<'a> {
    targets: Targets<'a>,
    /// Functions that are defined in this file.
    own: HashSet<&'a str>,
    objects: HashSet<&'a str>,
}

impl<'a> Program<'a> {
    /// Returns whether a hook can't pass this symbol.
    fn is_no_function(&self, symbol: &str) -> bool {
        (symbol.starts_with(".L") && !symbol.ends_with("$local")) || self.objects.contains(symbol)
    }

    fn read(file: &File<'a>, sections: &Sections<'a>) -> Self {
        let types = file.lines.iter().filter_map(|line| match line.statement {
            Statement::Directive { name: ".type", arguments } => match operands(arguments)[..] {
                [symbol, kind] if kind.ends_with("object") => Some(unquoted(symbol)),
                _ => None,
            },
            _ => None,
        });
        let own = file.extents.parts.iter().map(|part| part.symbol);
        let aliases = file.extents.aliases.keys().copied();
        let local = file.extents.labels.keys().copied().filter(|label| label.ends_with("$local"));
        Self {
            targets: Targets::read(file.lines, sections, &file.extents),
            own: own.chain(aliases).chain(local).collect(),
            objects: types.collect(),
        }
    }
}

/// The counts and sites of one function's hooks.
#[derive(Default)]
struct FunctionHooks {
    entries: usize,
    exits: usize,
    excluded: Option<Exclusion>,
    unfit: Option<Reason>,
    function: Option<Function>,
    /// The hashes of its entry and exit probes, once they exist.
    probes: [Cell<Option<u64>>; 2],
}

impl<'a> File<'a> {
    /// Replaces the hooks by sites.
    pub(super) fn hooks(&mut self, sections: &Sections<'a>) -> Result<Vec<(Function, Outcome)>, Unplaced> {
        let extents = core::mem::take(&mut self.extents.functions);
        let bodies: HashMap<&str, &Extent> =
            extents.iter().rev().map(|extent| (self.extents.parts[extent.parts[0]].symbol, extent)).collect();
        // Clones represent a function that is not in the file itself.
        let clones: HashMap<String, &Extent> = extents
            .iter()
            .rev()
            .map(|extent| (name::path(self.extents.parts[extent.parts[0]].symbol), extent))
            .collect();
        self.extents.functions.clone_from(&extents);
        let program = Program::read(self, sections);

        let mut hooks_by_symbol: HashMap<&'a str, FunctionHooks> = HashMap::new();
        let mut order = Vec::new();
        let mut unknown = Vec::new();
        let mut seen = HashSet::new();
        let naked = self.naked(&extents)?;
        for (number, extent) in extents.iter().enumerate() {
            if naked.contains(&number) {
                seen.extend(self.without_hooks(extent));
                unknown.push((Vec::new(), 0));
                continue;
            }
            let hooks = self.hooks_in(extent, &program);
            for hook in &hooks {
                seen.insert(hook.line);
                for symbol in hook.of.iter().map(|it| it.function()) {
                    let function_hooks = hooks_by_symbol.entry(symbol).or_insert_with(|| {
                        order.push(symbol);
                        let body =
                            bodies.get(symbol).copied().or_else(|| clones.get(&name::path(symbol)).copied());
                        self.function_hooks(symbol, body, hook.line)
                    });
                    function_hooks.count(hook.kind);
                }
            }
            for hook in &hooks {
                self.replace(extent, hook, &hooks_by_symbol, sections);
            }
            let lost: Vec<usize> =
                hooks.iter().filter(|hook| hook.of.is_empty()).map(|hook| hook.line).collect();
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
        for (number, (extent, (lost, hooks))) in extents.iter().zip(unknown).enumerate() {
            let function = self.function(extent);
            if naked.contains(&number) {
                let line = self.extents.parts[extent.parts[0]].label + 1;
                let left_out = Outcome::LeftOut(Reason { cause: Cause::Naked, line });
                let outcome = (self.request.wants)(&function).map_or_else(Outcome::Excluded, |()| left_out);
                all.push((function, outcome));
                continue;
            }
            let outcome = match (hooks_by_symbol.remove(function.symbol.as_str()), lost.first()) {
                (Some(function_hooks), _) => function_hooks.outcome(lost.len()),
                (None, Some(line)) => {
                    Outcome::LeftOut(Reason { cause: Cause::Hooks(lost.len()), line: line + 1 })
                }
                // A clone: its hooks pass the original function.
                (None, None) if hooks > 0 => continue,
                (None, None) => Outcome::Excluded(Exclusion::NoHooks),
            };
            all.push((function, outcome));
        }
        for symbol in order {
            let Some(mut function_hooks) = hooks_by_symbol.remove(symbol) else { continue };
            if let Some(function) = function_hooks.function.take() {
                all.push((function, function_hooks.outcome(0)));
            }
        }
        Ok(all)
    }

    /// Returns the hooks that a function calls, including those of functions inlined into it.
    fn hooks_in(&self, extent: &Extent, program: &Program<'a>) -> Vec<Hook<'a>> {
        let lines = extent.parts.iter().flat_map(|part| &self.extents.parts[*part].lines);
        let calls = lines.into_iter().any(|at| match &self.lines[*at].statement {
            Statement::Instruction(it) => hook(it).is_some(),
            _ => false,
        });
        let mut hooks = Vec::new();
        if calls {
            let Program { targets, own, .. } = program;
            DataFlow::new(extent, &self.extents, self.lines, own, targets).walk(|line, it, state| {
                if let Some((kind, tail)) = hook(it) {
                    let mut of = first_argument(state, |symbol| program.is_no_function(symbol));
                    of.truncate(if of.len() > MAX_FUNCTIONS { 0 } else { MAX_FUNCTIONS });
                    hooks.push(Hook { line, kind, tail, of });
                }
            });
        }
        hooks
    }

    /// Creates the counts of a function that a hook on `line` passes.
    fn function_hooks(&self, symbol: &str, body: Option<&Extent>, line: usize) -> FunctionHooks {
        // If it exists only inlined, its place is that of the hook.
        let inlined = || {
            let place = self.lines[..line].iter().rev().find_map(|line| self.files.place(line));
            self.described(symbol, place, 0)
        };
        let mut function = body.map_or_else(inlined, |body| self.function(body));
        symbol.clone_into(&mut function.symbol);
        function.path = name::path(symbol);
        FunctionHooks {
            excluded: (self.request.wants)(&function).err(),
            unfit: function.check_len(line).err(),
            function: Some(function),
            ..FunctionHooks::default()
        }
    }

    /// Replaces a hook's call by a site. If the call may pass several functions, the passed address
    /// decides at run time.
    fn replace(
        &mut self,
        extent: &Extent,
        hook: &Hook<'a>,
        hooks_by_symbol: &HashMap<&'a str, FunctionHooks>,
        sections: &Sections<'a>,
    ) {
        let first = self.extents.begin_at(&extent.parts, hook.line, self.lines);
        let mut text = labels(&self.lines[hook.line]);
        let mut sites = Vec::new();
        for symbol in &hook.of {
            let Some(FunctionHooks { excluded: None, unfit: None, function: Some(function), probes, .. }) =
                hooks_by_symbol.get(symbol.function())
            else {
                continue;
            };
            let known = &probes[usize::from(hook.kind == Kind::Exit)];
            let probe = known.get().unwrap_or_else(|| {
                let identity = Identity {
                    package: self.package(function),
                    path: function.path.clone(),
                    file: function.file.clone(),
                    line: function.line,
                    kind: hook.kind,
                    convention: Convention::Call,
                };
                self.definitions.probe(&identity, None)
            });
            known.set(Some(probe));
            sites.push((*symbol, self.definitions.site_of(probe, sections.of(hook.line), first)));
        }
        let end = format!(".Lprobe_hook_{}", hook.line);
        let is_last_sure = sites.len() == hook.of.len();
        let count = sites.len();
        for (number, (symbol, site)) in sites.into_iter().enumerate() {
            if is_last_sure && number + 1 == count {
                text.push_str(&site);
                continue;
            }
            let next = if number + 1 == count { end.clone() } else { format!("{end}_{number}") };
            text.push_str(&symbol.load_again());
            text.extend(["\tcmpq\t%rax, %rdi\n\tjne\t", &next, "\n", &site]);
            if number + 1 < count {
                text.extend(["\tjmp\t", &end, "\n", &next, ":\n"]);
            }
        }
        if hook.of.len() > 1 && count > 0 {
            text.extend([&end, ":\n"]);
        }
        if hook.tail {
            text.push_str("\tret\n");
        }
        self.edits.replace(hook.line, text);
    }

    /// Checks that every reference to a hook was a replaced call: the final program does not define
    /// the hooks.
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

/// Returns whether a line is the name of a hook as text, in debug information.
fn is_debug_text(line: &Line<'_>) -> bool {
    matches!(line.statement, Statement::Directive { name: ".string" | ".asciz" | ".ascii", .. })
}

/// Returns the labels of a line, as lines of their own.
pub(super) fn labels(line: &Line<'_>) -> String {
    let end = line
        .labels
        .last()
        .and_then(|last| line.text.rfind(&format!("{last}:")).map(|at| at + last.len() + 1));
    end.map_or_else(String::new, |end| format!("{}\n", &line.text[..end]))
}

impl FunctionHooks {
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
                self.edits.replace(at, labels(&self.lines[at]));
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
