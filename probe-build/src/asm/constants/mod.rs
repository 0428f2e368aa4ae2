//! The possible first arguments of each call: constant propagation over a function's control flow.
//!
//! The analysis goes forward through the function, along every possible path. Each register and
//! slot has the set of the symbols whose addresses it may hold (`state`), and each line changes
//! these sets (`transfer`, which also states the assumptions). A label is reached from the line
//! before it, from the function's jumps, and from the sources in `targets`.
//!
//! A set may be too large: if it has several symbols, the code compares the address at run time. A
//! set must not lack a symbol, so a value that is not understood may hold any symbol.
//!
//! Cost: a few rounds over a function's lines, only for functions with hooks.

mod operand;
mod state;
mod targets;
mod transfer;

use super::function::{Extent, Extents};
use super::line::{Instruction, Line, Statement, unquoted};
use super::statement::{ends, is_indirect, is_jump, returns_twice};
use operand::number;
pub(super) use state::{Load, Symbol};
use state::{Register, State, Value};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
pub(super) use targets::Targets;
use targets::labels_in;

/// A sequence of lines that control enters only at its top.
struct Block<'a> {
    /// Indices into the function's lines.
    start: usize,
    end: usize,
    labels: Vec<&'a str>,
    /// Whether the line before falls through to it.
    follows: bool,
    /// Whether the line before is a call that may return a second time.
    is_second_return: bool,
}

/// The states before the lines of a function; computed on demand.
pub(super) struct DataFlow<'f, 'a> {
    lines: &'f [Line<'a>],
    own: &'f HashSet<&'a str>,
    /// The function's lines, one part after the other.
    order: Vec<usize>,
    blocks: Vec<Block<'a>>,
    block_of_label: HashMap<&'a str, usize>,
    /// The landing pads of each line in `order`.
    pads: HashMap<usize, Vec<usize>>,
    /// The bytes of arguments that are on the stack at a line; a landing pad drops them.
    pushed: Vec<i64>,
    /// The blocks that any indirect jump may reach.
    by_jump: Vec<usize>,
    /// The blocks that any call may reach as well.
    by_call: Vec<usize>,
    /// The blocks that any instruction may reach.
    by_other: Vec<usize>,
    second_returns: Vec<usize>,
}

impl<'f, 'a> DataFlow<'f, 'a> {
    pub(super) fn new(
        extent: &Extent,
        extents: &Extents<'a>,
        lines: &'f [Line<'a>],
        own: &'f HashSet<&'a str>,
        targets: &Targets<'a>,
    ) -> Self {
        let mut flow = Self {
            lines,
            own,
            order: Vec::new(),
            blocks: Vec::new(),
            block_of_label: HashMap::new(),
            pads: HashMap::new(),
            pushed: Vec::new(),
            by_jump: Vec::new(),
            by_call: Vec::new(),
            by_other: Vec::new(),
            second_returns: Vec::new(),
        };
        let pads: Vec<[&'a str; 3]> =
            extent.parts.iter().filter_map(|part| targets.pads.get(part)).flatten().copied().collect();
        let reached = flow.reached(extent, extents, &pads);
        for part in &extent.parts {
            flow.split_into_blocks(&extents.parts[*part].lines, |label| {
                reached.contains(label) || targets.names(label)
            });
        }
        let named = |by: &HashSet<&str>| {
            let is_named = |block: &Block<'_>| block.labels.iter().any(|label| by.contains(label));
            (0..flow.blocks.len()).filter(|number| is_named(&flow.blocks[*number])).collect::<Vec<_>>()
        };
        let (table, own, other) =
            (named(&targets.by_table), named(&targets.by_own), named(&targets.by_other));
        flow.by_jump = [table, own.clone()].concat();
        flow.by_call = own;
        flow.by_other = other;
        flow.second_returns =
            (0..flow.blocks.len()).filter(|number| flow.blocks[*number].is_second_return).collect();
        flow.add_landing_pads(&pads);
        flow
    }

    /// Returns the labels that the function's jumps and its exception table name. Debug information
    /// has many more.
    fn reached(&self, extent: &Extent, extents: &Extents<'a>, pads: &[[&'a str; 3]]) -> HashSet<&'a str> {
        let mut reached: HashSet<&'a str> = pads.iter().flatten().copied().collect();
        for at in extent.parts.iter().flat_map(|part| &extents.parts[*part].lines) {
            match &self.lines[*at].statement {
                Statement::Instruction(it) if is_jump(it) || it.mnemonic.starts_with("call") => {
                    reached.extend(it.operands.first().map(|target| unquoted(target)));
                }
                Statement::Inline | Statement::Unclear(_) => reached.extend(labels_in(self.lines[*at].text)),
                _ => {}
            }
        }
        reached
    }

    /// Splits a part into blocks, at reached labels and after jumps.
    fn split_into_blocks(&mut self, part: &[usize], is_reached: impl Fn(&str) -> bool) {
        let (mut is_end, mut follows, mut is_second_return, mut pushed) = (true, false, false, 0);
        for &at in part {
            let line = &self.lines[at];
            let here = self.order.len();
            if is_end || line.labels.iter().any(|label| is_reached(label)) {
                let labels = line.labels.clone();
                self.block_of_label.extend(labels.iter().map(|label| (*label, self.blocks.len())));
                self.blocks.push(Block { start: here, end: here, labels, follows, is_second_return });
            }
            if let Statement::Directive { name: ".cfi_escape", arguments } = line.statement {
                pushed = pushed_bytes(arguments).unwrap_or(pushed);
            }
            self.order.push(at);
            self.pushed.push(pushed);
            (is_end, follows, is_second_return) = match &line.statement {
                Statement::Instruction(it) if ends(it) => (true, false, false),
                Statement::Instruction(it) if is_jump(it) => (true, true, false),
                Statement::Instruction(it) if returns_twice(it) => (true, true, true),
                _ => (false, true, false),
            };
            if let Some(block) = self.blocks.last_mut() {
                block.end = here + 1;
            }
        }
    }

    /// Finds the landing pads of lines.
    fn add_landing_pads(&mut self, pads: &[[&'a str; 3]]) {
        let block = |label: &str| self.block_of_label.get(label).copied();
        for &[first, last, pad] in pads {
            let Some(pad) = block(pad) else { continue };
            match (block(first), block(last)) {
                (Some(first), Some(last)) if first <= last => {
                    for at in self.blocks[first].start..self.blocks[last].start {
                        self.pads.entry(at).or_default().push(pad);
                    }
                }
                _ => {
                    self.by_jump.push(pad);
                    self.by_call.push(pad);
                }
            }
        }
    }

    /// Calls `see` with each instruction and the state before it.
    pub(super) fn walk(&self, mut see: impl FnMut(usize, &Instruction<'a>, &State<'a>)) {
        for (block, state) in self.blocks.iter().zip(self.solve()) {
            let mut state = state.unwrap_or_else(State::unknown);
            for index in block.start..block.end {
                let at = self.order[index];
                if let Statement::Instruction(it) = &self.lines[at].statement {
                    see(at, it, &state);
                }
                self.line(at, &mut state);
            }
        }
    }

    /// Returns the state at the top of each block; `None` for unreached blocks.
    fn solve(&self) -> Vec<Option<State<'a>>> {
        let ranks = self.ranks();
        let mut work = Work::of(&ranks);
        if !self.blocks.is_empty() {
            work.reach(0, &State::entry());
        }
        for &to in &self.by_other {
            work.reach(to, &State::unknown());
        }
        while let Some(number) = work.next() {
            let block = &self.blocks[number];
            let Some(state) = &mut work.known[number] else { continue };
            if let Some(before_longjmp) = work.before_longjmp.as_ref().filter(|_| block.is_second_return) {
                state.join_frame(before_longjmp);
            }
            let mut state = state.clone();
            let mut falls = true;
            for index in block.start..block.end {
                let at = self.order[index];
                if let Some(pads) = self.pads.get(&index) {
                    let mut thrown = state.clone();
                    thrown.call();
                    thrown.step(self.pushed[index]);
                    pads.iter().for_each(|pad| work.reach(*pad, &thrown));
                }
                self.line(at, &mut state);
                match &self.lines[at].statement {
                    Statement::Instruction(it) => {
                        self.propagate(it, &state, &mut work);
                        falls = !ends(it);
                    }
                    Statement::Inline => {
                        for to in labels_in(self.lines[at].text).filter_map(|it| self.block_of_label.get(it))
                        {
                            work.reach(*to, &state);
                        }
                    }
                    _ => {}
                }
            }
            if falls && self.blocks.get(number + 1).is_some_and(|next| next.follows) {
                work.reach(number + 1, &state);
            }
        }
        work.known
    }

    /// Numbers the blocks in reverse postorder: apart from loops, a block comes after its
    /// predecessors.
    fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![u32::MAX; self.blocks.len()];
        let mut next = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        let mut is_seen = vec![false; self.blocks.len()];
        for root in 0..self.blocks.len() {
            let mut open = Vec::new();
            if !std::mem::replace(&mut is_seen[root], true) {
                open.push((root, self.successors(root)));
            }
            while let Some((number, successors)) = open.last_mut() {
                match successors.pop() {
                    Some(to) if std::mem::replace(&mut is_seen[to], true) => {}
                    Some(to) => open.push((to, self.successors(to))),
                    None => {
                        next -= 1;
                        ranks[*number] = next;
                        open.pop();
                    }
                }
            }
        }
        ranks
    }

    /// Returns the blocks that a block reaches by jumps with named targets, by exceptions, and at
    /// its end.
    fn successors(&self, number: usize) -> Vec<usize> {
        let block = &self.blocks[number];
        let mut all = Vec::new();
        let mut falls = true;
        for index in block.start..block.end {
            if let Statement::Instruction(it) = &self.lines[self.order[index]].statement {
                falls = !ends(it);
                if is_jump(it) {
                    let target = it.operands.first().copied().map_or("", unquoted);
                    all.extend(self.block_of_label.get(target));
                }
            }
            all.extend(self.pads.get(&index).into_iter().flatten());
        }
        all.extend((falls && number + 1 < self.blocks.len()).then_some(number + 1));
        all
    }

    /// Propagates the state to the other targets of an instruction.
    fn propagate(&self, it: &Instruction<'a>, state: &State<'a>, work: &mut Work<'_, 'a>) {
        let target = it.operands.first().copied().unwrap_or_default();
        if it.mnemonic.starts_with("call") {
            self.by_call.iter().for_each(|to| work.reach(*to, state));
            if !self.second_returns.is_empty() {
                work.add_longjmp(state, &self.second_returns);
            }
            // gcc's inline thunks.
            if let Some(to) = self.block_of_label.get(target).filter(|_| target.starts_with(".L")) {
                work.reach(*to, &State::unknown());
            }
        } else if is_indirect(it) {
            self.by_jump.iter().for_each(|to| work.reach(*to, state));
        } else if is_jump(it)
            && let Some(to) = self.block_of_label.get(unquoted(target))
        {
            work.reach(*to, state);
        }
    }

    fn line(&self, at: usize, state: &mut State<'a>) {
        match &self.lines[at].statement {
            Statement::Instruction(it) if it.mnemonic.starts_with("loop") => {
                state.set(Register::RCX, Value::default());
            }
            Statement::Instruction(it) if is_jump(it) => {}
            Statement::Instruction(it) => transfer::apply(it, self.own, state),
            // Its results are never the compiler's constants, and it leaves the stack as it found
            // it.
            Statement::Inline => state.apply_opaque_code(),
            Statement::Unclear(_) | Statement::Debug => *state = State::unknown(),
            Statement::Empty | Statement::Directive { .. } | Statement::App | Statement::NoApp => {}
        }
    }
}

/// Returns the number of a `DW_CFA_GNU_args_size`, if the escape is one.
fn pushed_bytes(escape: &str) -> Option<i64> {
    let mut bytes = escape.split(',').map(|byte| number(byte.trim()));
    if bytes.next()?? != 0x2e {
        return None;
    }
    let (mut value, mut shift) = (0, 0);
    for byte in bytes {
        value |= (byte? & 0x7f) << shift;
        shift = (shift + 7).min(56);
    }
    Some(value)
}

/// The queue of blocks to visit again.
struct Work<'r, 'a> {
    known: Vec<Option<State<'a>>>,
    /// Ordered by rank: a block is visited after most of its predecessors.
    waiting: BinaryHeap<Reverse<(u32, usize)>>,
    ranks: &'r [u32],
    is_waiting: Vec<bool>,
    /// The possible contents of the frame when `longjmp` leaves a call.
    before_longjmp: Option<State<'a>>,
}

impl<'r, 'a> Work<'r, 'a> {
    fn of(ranks: &'r [u32]) -> Self {
        let known = std::iter::repeat_with(|| None).take(ranks.len()).collect();
        Self {
            known,
            waiting: BinaryHeap::new(),
            ranks,
            is_waiting: vec![false; ranks.len()],
            before_longjmp: None,
        }
    }

    fn next(&mut self) -> Option<usize> {
        let Reverse((_, number)) = self.waiting.pop()?;
        self.is_waiting[number] = false;
        Some(number)
    }

    /// Joins a state into a block's state.
    fn reach(&mut self, to: usize, state: &State<'a>) {
        let more = match &mut self.known[to] {
            Some(before) => before.join(state),
            none => {
                *none = Some(state.clone());
                true
            }
        };
        self.wait(to, more);
    }

    /// Records a call that `longjmp` may leave to these blocks.
    fn add_longjmp(&mut self, state: &State<'a>, to: &[usize]) {
        let more = match &mut self.before_longjmp {
            Some(before_longjmp) => before_longjmp.join_frame(state),
            none => {
                *none = Some(state.clone());
                true
            }
        };
        to.iter().for_each(|to| self.wait(*to, more));
    }

    fn wait(&mut self, to: usize, more: bool) {
        if more && !self.is_waiting[to] {
            self.is_waiting[to] = true;
            self.waiting.push(Reverse((self.ranks[to], to)));
        }
    }
}

/// Returns the functions that the first argument may be; empty if that is unknown. `is_no_function`
/// excludes symbols that are not functions.
pub(super) fn first_argument<'a>(
    state: &State<'a>,
    is_no_function: impl Fn(&str) -> bool,
) -> Vec<Symbol<'a>> {
    let mut symbols = state.get(Register::RDI).symbols.known().unwrap_or_default().to_vec();
    symbols.retain(|symbol| !is_no_function(symbol.name));
    symbols.dedup_by_key(|symbol| symbol.name);
    symbols
}
