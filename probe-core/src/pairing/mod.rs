//! The rule of pairing: which open calls a hit shows to be over, and which of them it ends.
//!
//! Consumers pair hits by it as they happen, and `probe-trace` pairs those of a trace. It is pure:
//! it reads the open calls of one thread, and changes nothing.
//!
//! | a call of | ends | its exit has |
//! |---|---|---|
//! | [`Plain`](CallKind::Plain), [`Poll`](CallKind::Poll) | always by an exit | about the entry's stack pointer |
//! | [`Hooked`](CallKind::Hooked) | by an exit, or by `longjmp` or an exception | about the entry's; after the epilogue, that of the caller |
//! | [`Framed`](CallKind::Framed) | likewise | the entry's, which no other open call has |
//!
//! - **Stacks grow down.** A hit from further up than the entry of a call that may skip its exit
//!   shows that this call is over, with all that began in it.
//! - **The innermost fitting call ends.** A stack pointer that no call of the function fits shows
//!   an exit without an entry: the call began before the first hit, or already counts as over.
//! - **A thread may have many stacks**, as coroutines do. Two stack pointers further apart than
//!   [`MAX_FRAME_BYTES`] are of two calls.
//! - A hit without a stack pointer ends the innermost call of its function.

#[cfg(feature = "model")]
pub mod model;

/// The most bytes between the stack pointers of an entry and its exit: the largest frame that
/// pairing accepts. Stack pointers further apart are of two stacks.
pub const MAX_FRAME_BYTES: u64 = 16 << 10;

/// The most bytes between the stack pointers of an entry and its exit at which the innermost call
/// of the function ends, even if another one is nearer.
pub const SAME_CALL_BYTES: u64 = 512;

/// How calls of a function end, and what their stack pointers say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CallKind {
    /// Every way out passes an exit.
    Plain,
    /// The poll of a future at this address. Every way out passes an exit or a suspension.
    Poll(u64),
    /// A call may end without an exit. Functions that were inlined share a stack pointer.
    Hooked,
    /// A call may end without an exit. All of its hits have one stack pointer, its own.
    Framed,
}

/// An open call, or the hit that begins or ends one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the function.
    pub function: u32,
    pub kind: CallKind,
    /// 0 if it is not known.
    pub stack_pointer: u64,
}

/// The open calls of one thread, the outermost first.
pub trait OpenCalls {
    fn count(&self) -> usize;
    /// Returns a call; `index` is less than the count.
    fn call(&self, index: usize) -> Place;
}

impl Place {
    /// Returns whether the call may end without an exit.
    #[inline(always)]
    pub fn may_skip_exit(self) -> bool {
        matches!(self.kind, CallKind::Hooked | CallKind::Framed)
    }
}

#[inline]
fn distance(one: Place, other: Place) -> u64 {
    one.stack_pointer.abs_diff(other.stack_pointer)
}

/// Returns how many of the outermost calls are still open where this call begins.
pub fn open_at_entry(open: &impl OpenCalls, entry: Place) -> usize {
    let replaces = entry.kind == CallKind::Framed;
    outside(open, |at| at < entry.stack_pointer || (replaces && at == entry.stack_pointer))
}

/// Returns how many of the outermost calls are still open at an exit that ends none of them.
pub fn open_at_exit(open: &impl OpenCalls, exit: Place) -> usize {
    outside(open, |at| at < exit.stack_pointer)
}

/// Returns the number of calls outside of the outermost one that was left. A call that always has
/// an exit is over only if one around it is: only forbidden code jumps over it.
fn outside(open: &impl OpenCalls, is_left: impl Fn(u64) -> bool) -> usize {
    let mut outside = open.count();
    for index in (0..outside).rev() {
        let call = open.call(index);
        let is_known = call.stack_pointer != 0;
        if is_known && is_left(call.stack_pointer) {
            outside = if call.may_skip_exit() { index } else { outside };
        } else if is_known || !call.may_skip_exit() {
            break;
        }
    }
    outside
}

/// Returns the index of the call that an exit, or the end of a poll, ends.
pub fn match_exit(open: &impl OpenCalls, exit: Place) -> Option<usize> {
    let own = (0..open.count()).rev().map(|index| (index, open.call(index)));
    let mut own = own.filter(|(_, call)| call.function == exit.function);
    match exit.kind {
        CallKind::Poll(_) => own.find(|(_, call)| call.kind == exit.kind),
        CallKind::Framed => {
            own.find(|(_, call)| call.kind == exit.kind && call.stack_pointer == exit.stack_pointer)
        }
        CallKind::Plain => match_plain(own.filter(|(_, call)| call.kind == exit.kind), exit),
        CallKind::Hooked => {
            own.find(|(index, call)| call.kind == exit.kind && matches_hooked(open, *index, *call, exit))
        }
    }
    .map(|(index, _)| index)
}

/// Returns the innermost call within [`SAME_CALL_BYTES`]; else the innermost one within
/// [`MAX_FRAME_BYTES`].
fn match_plain(mut own: impl Iterator<Item = (usize, Place)>, exit: Place) -> Option<(usize, Place)> {
    let mut within = None;
    let near = own.find(|(index, call)| {
        let distance =
            if call.stack_pointer == 0 || exit.stack_pointer == 0 { 0 } else { distance(*call, exit) };
        if distance < MAX_FRAME_BYTES && within.is_none() {
            within = Some((*index, *call));
        }
        distance <= SAME_CALL_BYTES
    });
    near.or(within)
}

/// Returns whether an exit can be this call's: the exit has the entry's stack pointer, or another
/// one of the same frame. If a call of the function further out has entered with a stack pointer
/// between the two, the exit is that call's. A call on the same stack that entered further up than
/// the exit ends the search.
fn matches_hooked(open: &impl OpenCalls, index: usize, call: Place, exit: Place) -> bool {
    if call.stack_pointer == 0 || exit.stack_pointer == 0 {
        return true;
    }
    let is_elsewhere = |outer: &Place| outer.stack_pointer != 0 && distance(*outer, call) >= MAX_FRAME_BYTES;
    let around = (0..index).rev().map(|index| open.call(index)).filter(|outer| !is_elsewhere(outer));
    // A call that always has an exit is still open, and so are those around it.
    let around = around.take_while(|outer| outer.may_skip_exit());
    let mut further_up = around.filter(|outer| outer.stack_pointer > call.stack_pointer);
    let is_beyond = |outer: Place| outer.stack_pointer > exit.stack_pointer;
    let is_own = |outer: Place| (outer.function, outer.kind) == (call.function, call.kind);
    let decides = further_up.find(|outer| is_beyond(*outer) || is_own(*outer));
    distance(call, exit) < MAX_FRAME_BYTES && decides.is_none_or(is_beyond)
}
