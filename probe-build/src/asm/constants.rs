//! What each call of a function's passes as its first argument: constant propagation over the control flow.
//!
//! Sound: whatever is not understood is unknown. A label is reached by the lines before it, by the function's jumps to
//! it, and, if something else names it, as follows:
//!
//! | named by | reached with |
//! |---|---|
//! | a table (a switch, a computed `goto`, an exception table) | what is known at any indirect jump or call |
//! | an instruction, inline assembly, another function | nothing known |
//!
//! Cost: a few rounds over a function's lines, for the functions that have hooks only.

use super::function::{Extent, Extents};
use super::line::{Instruction, Line, Statement, symbolic, unquoted};
use super::section::Sections;
use super::state::{Register, State, Value};
use super::transfer;
use std::collections::{HashMap, HashSet};

/// The labels of a file that something else than a jump names.
pub(super) struct Named<'a> {
    by_table: HashSet<&'a str>,
    by_code: HashSet<&'a str>,
}

impl<'a> Named<'a> {
    pub(super) fn read(lines: &[Line<'a>], sections: &Sections<'a>, extents: &Extents<'a>) -> Self {
        let mut part_of_line = HashMap::new();
        for (number, part) in extents.parts.iter().enumerate() {
            part_of_line.extend(part.lines.iter().map(|line| (*line, number)));
        }
        let function_of_part: HashMap<usize, usize> = extents
            .functions
            .iter()
            .enumerate()
            .flat_map(|(function, extent)| extent.parts.iter().map(move |part| (*part, function)))
            .collect();
        let function = |part: Option<&usize>| part.and_then(|part| function_of_part.get(part));
        let mut named = Self { by_table: HashSet::new(), by_code: HashSet::new() };
        for (at, line) in lines.iter().enumerate() {
            match &line.statement {
                Statement::Directive { name, arguments } => {
                    let table =
                        super::debug::is_data(name) && !sections.name(sections.of(at)).starts_with(".debug_");
                    if table || matches!(*name, ".set" | ".equ" | "=") {
                        // The bounds of gcc's call sites in exception tables; nothing goes there.
                        let bound = |label: &&str| label.starts_with(".LEHB") || label.starts_with(".LEHE");
                        named.by_table.extend(labels_in(arguments).filter(|label| !bound(label)));
                    }
                }
                Statement::Instruction(it) => {
                    let from = function(part_of_line.get(&at));
                    let target = it.operands.first().copied().map_or("", unquoted);
                    let own = is_jump(it) && from.is_some() && function(extents.labels.get(target)) == from;
                    if !own {
                        named.by_code.extend(it.operands.iter().flat_map(|operand| labels_in(operand)));
                    }
                }
                Statement::Inline | Statement::Unclear(_) => named.by_code.extend(labels_in(line.text)),
                Statement::Empty | Statement::App | Statement::NoApp => {}
            }
        }
        named
    }
}

/// The words of a text that may be labels.
fn labels_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !symbolic(c)).filter(|word| word.starts_with(".L"))
}

fn is_jump(it: &Instruction<'_>) -> bool {
    it.mnemonic.starts_with('j') || it.mnemonic.starts_with("loop") || it.mnemonic == "xbegin"
}

/// A run of lines that is entered at its top only.
struct Block<'a> {
    /// Indices into the function's lines.
    start: usize,
    end: usize,
    labels: Vec<&'a str>,
    /// Whether the line before falls through to it.
    follows: bool,
}

/// What is known before each line of a function, where that was asked for.
pub(super) struct Flow<'f, 'a> {
    lines: &'f [Line<'a>],
    /// The function's lines, part by part.
    order: Vec<usize>,
    blocks: Vec<Block<'a>>,
    block_of_label: HashMap<&'a str, usize>,
}

impl<'f, 'a> Flow<'f, 'a> {
    pub(super) fn new(extent: &Extent, extents: &Extents<'a>, lines: &'f [Line<'a>]) -> Self {
        let mut flow = Self { lines, order: Vec::new(), blocks: Vec::new(), block_of_label: HashMap::new() };
        for part in &extent.parts {
            flow.cut(&extents.parts[*part].lines);
        }
        flow
    }

    /// Cuts a part into blocks: at labels, and after jumps.
    fn cut(&mut self, part: &[usize]) {
        let (mut cut, mut follows) = (true, false);
        for &at in part {
            let line = &self.lines[at];
            let here = self.order.len();
            if cut || !line.labels.is_empty() {
                self.blocks.push(Block { start: here, end: here, labels: line.labels.clone(), follows });
                self.block_of_label.extend(line.labels.iter().map(|label| (*label, self.blocks.len() - 1)));
            }
            self.order.push(at);
            (cut, follows) = match &line.statement {
                Statement::Instruction(it) if ends(it) => (true, false),
                Statement::Instruction(it) if is_jump(it) => (true, true),
                _ => (false, true),
            };
            if let Some(block) = self.blocks.last_mut() {
                block.end = here + 1;
            }
        }
    }

    /// Calls `see` with each instruction and what is known before it.
    pub(super) fn walk(&self, named: &Named<'_>, mut see: impl FnMut(usize, &Instruction<'a>, &State<'a>)) {
        for (block, state) in self.blocks.iter().zip(self.solve(named)) {
            let mut state = state.unwrap_or_else(|| State::unknown(None));
            for &at in &self.order[block.start..block.end] {
                if let Statement::Instruction(it) = &self.lines[at].statement {
                    see(at, it, &state);
                }
                self.line(at, &mut state);
            }
        }
    }

    /// What is known at the top of each block; nothing for those that are not reached.
    fn solve(&self, named: &Named<'_>) -> Vec<Option<State<'a>>> {
        let mut known: Vec<Option<State<'a>>> = vec![None; self.blocks.len()];
        let mut work = Vec::new();
        for (number, block) in self.blocks.iter().enumerate() {
            let entry = number == 0;
            if entry || block.labels.iter().any(|label| named.by_code.contains(label)) {
                known[number] = Some(State::unknown(entry.then_some(0)));
                work.push(number);
            }
        }
        let tabled: Vec<usize> = (0..self.blocks.len())
            .filter(|number| self.blocks[*number].labels.iter().any(|label| named.by_table.contains(label)))
            .collect();
        while let Some(number) = work.pop() {
            let Some(mut state) = known[number].clone() else { continue };
            let block = &self.blocks[number];
            let mut falls = true;
            for &at in &self.order[block.start..block.end] {
                let Statement::Instruction(it) = &self.lines[at].statement else {
                    self.line(at, &mut state);
                    continue;
                };
                self.line(at, &mut state);
                let target = it.operands.first().copied().unwrap_or_default();
                let somewhere = it.mnemonic.starts_with("call") || (is_jump(it) && target.starts_with('*'));
                if somewhere || target.contains("_thunk_") {
                    for to in &tabled {
                        reach(&mut known, &mut work, *to, &state);
                    }
                } else if is_jump(it)
                    && let Some(to) = self.block_of_label.get(unquoted(target))
                {
                    reach(&mut known, &mut work, *to, &state);
                }
                falls = !ends(it);
            }
            if falls && self.blocks.get(number + 1).is_some_and(|next| next.follows) {
                reach(&mut known, &mut work, number + 1, &state);
            }
        }
        known
    }

    /// What a line does to what is known.
    fn line(&self, at: usize, state: &mut State<'a>) {
        match &self.lines[at].statement {
            Statement::Instruction(it) if it.mnemonic.starts_with("loop") => state.set(Register::RCX, None),
            Statement::Instruction(it) if is_jump(it) || ends(it) => {}
            Statement::Instruction(it) => transfer::apply(it, state),
            Statement::Inline => inline(self.lines[at].text, state),
            Statement::Unclear(_) => *state = State::unknown(None),
            Statement::Empty | Statement::Directive { .. } | Statement::App | Statement::NoApp => {}
        }
    }
}

/// What a line of inline assembly does: each of its statements may be executed or not, in any order.
fn inline<'a>(text: &'a str, state: &mut State<'a>) {
    let Ok(statements) = super::inline::statements(text) else {
        *state = State::unknown(None);
        return;
    };
    let mut less = true;
    while less {
        less = false;
        for text in &statements {
            let mut after = State::unknown(None);
            let lines = super::line::lines(text);
            match lines.first().map(|line| &line.statement) {
                None | Some(Statement::Empty | Statement::Directive { .. }) => continue,
                Some(Statement::Instruction(it)) if is_jump(it) => continue,
                Some(Statement::Instruction(it)) if !it.mnemonic.starts_with("loop") => {
                    after = state.clone();
                    transfer::apply(it, &mut after);
                }
                Some(_) => {}
            }
            less |= state.join(&after);
        }
    }
}

/// After it comes nothing.
fn ends(it: &Instruction<'_>) -> bool {
    matches!(it.mnemonic, "jmp" | "jmpq" | "ret" | "retq" | "ud2" | "hlt")
}

/// Joins a state into a block's.
fn reach<'a>(known: &mut [Option<State<'a>>], work: &mut Vec<usize>, to: usize, state: &State<'a>) {
    let less = match &mut known[to] {
        Some(before) => before.join(state),
        none => {
            *none = Some(state.clone());
            true
        }
    };
    if less && !work.contains(&to) {
        work.push(to);
    }
}

/// The symbol whose address is passed as the first argument.
pub(super) fn first_argument<'a>(state: &State<'a>) -> Option<&'a str> {
    match state.get(Register::RDI)? {
        Value::Symbol(symbol) => Some(symbol),
        Value::Stack(_) => None,
    }
}
