//! Histories of threads for tests: their hits, and which entry each exit really belongs to.
//!
//! A machine with a few stacks runs random functions. They call each other, directly or inlined;
//! they return, by a jump to a hook, too; they call in tail position; `longjmp` and exceptions
//! leave them; coroutines take turns. A function of C with hooks is inlined always or never: the
//! exit of one that was called can't be told from that of an inlined one that was left in its
//! caller.

use proptest::prelude::*;

use super::{CallKind, MAX_FRAME_BYTES, Place, SAME_CALL_BYTES};

/// One hit of a history.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub place: Place,
    /// The index of the entry that this exit belongs to; `None` for an entry.
    pub ends: Option<usize>,
}

/// The next action of a program.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Calls a function, in tail position or not.
    Call { function: u32, is_tail: bool },
    /// Executes the inlined code of a function.
    Inline { function: u32 },
    /// Returns. The number places the exit in the frame.
    Return { place: u64 },
    /// Leaves at most this many calls of C.
    Leave { most: usize },
    /// Switches to another coroutine.
    Switch { stack: usize },
}

/// A call under way.
#[derive(Clone, Copy)]
struct Activation {
    function: u32,
    entry: usize,
    /// The stack pointer in its body, and where its return address lies.
    body: u64,
    returns_at: u64,
    is_inlined: bool,
    entered_at: u64,
}

const FUNCTIONS: usize = 6;

/// Functions whose number is 0 modulo 3 are of Rust, or all if there are coroutines.
fn kind(function: u32, is_rust: bool) -> CallKind {
    match function % 3 {
        _ if is_rust => CallKind::Plain,
        0 => CallKind::Plain,
        1 => CallKind::Hooked,
        _ => CallKind::Framed,
    }
}

struct Machine {
    /// Bytes of each function's frame.
    frames: [u64; FUNCTIONS],
    stacks: Vec<(u64, Vec<Activation>)>,
    current: usize,
    hits: Vec<Hit>,
    is_rust: bool,
}

impl Machine {
    fn call(&mut self, function: u32, is_inlined: bool) {
        let frame = self.frames[function as usize];
        let kind = kind(function, self.is_rust);
        let (top, open) = &mut self.stacks[self.current];
        let caller = open.last().copied();
        let (returns_at, body) = match caller {
            Some(caller) if is_inlined => (caller.returns_at, caller.body),
            _ => {
                let returns_at = caller.map_or(*top, |caller| caller.body) - 8;
                (returns_at, returns_at - frame)
            }
        };
        // A site of Rust may come before the frame is made.
        let is_early =
            kind == CallKind::Plain && !is_inlined && frame.is_multiple_of(3) && frame < SAME_CALL_BYTES;
        let entered_at = if kind == CallKind::Framed || is_early { returns_at } else { body };
        open.push(Activation { function, entry: self.hits.len(), body, returns_at, is_inlined, entered_at });
        self.hits.push(Hit { place: Place { function, kind, stack_pointer: entered_at }, ends: None });
    }

    fn leave_by_exit(&mut self, place: u64) {
        let Some(call) = self.stacks[self.current].1.pop() else { return };
        let kind = kind(call.function, self.is_rust);
        let stack_pointer = match kind {
            CallKind::Framed => call.entered_at,
            // After its epilogue, a function jumps to the hook.
            CallKind::Hooked if !call.is_inlined && place.is_multiple_of(2) => call.returns_at,
            CallKind::Hooked => call.body,
            // A guard's drop that was not inlined.
            _ => call.body - place % 200,
        };
        let place = Place { function: call.function, kind, stack_pointer };
        self.hits.push(Hit { place, ends: Some(call.entry) });
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Call { function, is_tail } => {
                // Inlined code has no tail of its own.
                if is_tail && self.stacks[self.current].1.last().is_some_and(|call| !call.is_inlined) {
                    self.leave_by_exit(1);
                }
                self.call(function, false);
            }
            Action::Inline { function } => {
                if !self.stacks[self.current].1.is_empty() {
                    self.call(function, true);
                }
            }
            Action::Return { place } => self.leave_by_exit(place),
            Action::Leave { most } => {
                let is_rust = self.is_rust;
                let open = &mut self.stacks[self.current].1;
                let mut left = 0;
                let mut is_within_frame = false;
                // `longjmp` goes to another frame: nothing that is inlined there is left alone.
                while left < most || is_within_frame {
                    match open.last() {
                        Some(call) if kind(call.function, is_rust) != CallKind::Plain => {
                            is_within_frame = call.is_inlined;
                            open.pop();
                            left += 1;
                        }
                        _ => break,
                    }
                }
            }
            Action::Switch { stack } => self.current = stack % self.stacks.len(),
        }
    }
}

type Program = ([u64; FUNCTIONS], Vec<Action>);

fn programs() -> impl Strategy<Value = Program> {
    let frame = prop_oneof![1..16_u64, 1..MAX_FRAME_BYTES / 40].prop_map(|words| words * 16);
    let action = (0..20_u32, 0..6_u32, 0..400_u64).prop_map(|(what, function, place)| match what {
        0..8 => Action::Call { function: function % 4, is_tail: false },
        8 => Action::Call { function: function % 4, is_tail: true },
        9..11 => Action::Inline { function: [0, 3, 4][function as usize % 3] },
        11..17 => Action::Return { place },
        17 => Action::Leave { most: function as usize },
        _ => Action::Switch { stack: function as usize },
    });
    (prop::array::uniform6(frame), prop::collection::vec(action, 0..150))
}

fn run((frames, actions): Program, stacks: &[u64], is_rust: bool) -> Vec<Hit> {
    let stacks = stacks.iter().map(|top| (*top, Vec::new())).collect();
    let mut machine = Machine { frames, stacks, current: 0, hits: Vec::new(), is_rust };
    actions.into_iter().for_each(|action| machine.act(action));
    machine.hits
}

/// Any history of a thread with one stack, in Rust and C.
pub fn one_stack() -> impl Strategy<Value = Vec<Hit>> {
    programs().prop_map(|program| run(program, &[1 << 40], false))
}

/// Any history of a thread whose coroutines run functions of Rust.
pub fn coroutines() -> impl Strategy<Value = Vec<Hit>> {
    programs().prop_map(|program| run(program, &[1 << 40, (1 << 40) + (2 << 20), 1 << 39], true))
}

/// The pairs of a history: indices of an entry and its exit, in the order of the exits.
pub fn pairs(history: &[Hit]) -> Vec<(usize, usize)> {
    history.iter().enumerate().filter_map(|(exit, hit)| Some((hit.ends?, exit))).collect()
}
