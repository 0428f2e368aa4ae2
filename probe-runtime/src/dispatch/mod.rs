//! From a hit to its consumers.
//!
//! Life of a hit: the site jumps to its cold block ▸ stub ▸ the backend's `enter` ▸ (here) the thread's
//! [`Slot`] is marked ▸ the probe's [`Hook`] is read ▸ each member counts or calls its consumer ▸ the mark
//! is cleared. A hook is a snapshot; `control` publishes a new one and frees the old after
//! [`quiesce`], when no thread can still be reading it. What changes in place is one flag a member: whether its hits are counted or
//! delivered.
//!
//! | mark | set by | a nested hit (signal handler, consumer's own probe) |
//! |---|---|---|
//! | `IDLE` | – | – |
//! | `ENTERED` | the hit itself | counts and calls, and leaves the mark as it found it |
//! | `CONSUMING` | around a consumer's `hit` | counts; calls are suppressed, and that is counted |
//!
//! A hit has no cancellation point (pthreads(7)) of its own, so a thread is never cancelled in a hit that counts. A thread
//! that ends inside a consumer nevertheless leaves its mark set until the C library tells of its end. A consumer that
//! leaves its hit by `longjmp` leaves the mark set for good: from then on its thread's calls are suppressed, and whoever
//! detaches waits for that thread's end.
//!
//! Cost: no lock, no locked instruction, no heap and no system call on a hit; a thread's first hit maps
//! memory for its slot.

#[cfg(probe_discovers)]
mod early;
mod ended;
mod event;
mod guarded;
mod hook;
#[cfg(probe_discovers)]
mod inside;
#[cfg(all(test, loom))]
mod interleavings;
mod owner;
mod presence;
mod quiesce;
#[cfg(feature = "profiler")]
pub(crate) mod rehearsal;
mod slot;
mod sync;
mod wrapper;

#[cfg(probe_discovers)]
pub(crate) use early::Early;
use event::Place;
pub use event::{Event, Fields};
pub(crate) use guarded::Guarded;
pub(crate) use hook::{Action, Hook, Member, Subscription, Unsettled};
#[cfg(probe_discovers)]
pub(crate) use inside::Inside;
pub(crate) use presence::Mark;
#[cfg(probe_discovers)]
pub(crate) use quiesce::is_quiet;
pub(crate) use quiesce::{forget_other_threads, quiesce};
pub use slot::lost_hits;
#[cfg(feature = "profiler")]
pub(crate) use slot::threads;
pub(crate) use slot::{Slot, TALLIES, TallyAt, prepare, slots};

pub(crate) use wrapper::{Wrapper, Wrappers, wrappers};

use std::sync::atomic::Ordering;

use crate::abi::{Definition, Value};
#[cfg(probe_backend = "x86_64")]
use crate::arch::backend;
use crate::registry::ProbeId;

/// The long way of a hit: anything but one counter on a thread that is known and idle. `stack` is the stack pointer that called the
/// stub, 0 where that is not known.
pub(crate) fn dispatch(definition: &'static Definition, values: *const Value<'_>, stack: usize) {
    let Some(slot) = Slot::current() else { return };
    let outer = slot.enter();
    let hook = definition.hook().load(Ordering::Acquire).cast::<Hook>();
    if let Some(hook) = Hook::read(hook, slot) {
        for member in hook.members() {
            match member.action() {
                Action::Tally(at) => slot.tally(at),
                Action::Wrap => (),
                Action::Call { suppressed, .. } if outer == Mark::Consuming => slot.tally(suppressed),
                Action::Call { .. } => {
                    call(member.subscription(), definition, hook.probe(), values, stack, slot);
                    slot.set_mark(outer.max(Mark::Entered));
                }
            }
        }
    }
    slot.set_mark(outer);
}

/// The same on a thread that was idle, and whose slot the way in has marked.
#[cfg(probe_backend = "x86_64")]
#[inline(always)]
pub(crate) fn dispatch_marked(
    definition: &'static Definition,
    values: *const Value<'_>,
    stack: usize,
    slot: &'static Slot,
) {
    backend::light_barrier();
    let hook = definition.hook().load(Ordering::Acquire).cast::<Hook>();
    if let Some(hook) = Hook::read(hook, slot) {
        match hook.sole_call() {
            Some(subscription) => call(subscription, definition, hook.probe(), values, stack, slot),
            None => each(hook, definition, values, stack, slot),
        }
    }
    slot.set_mark(Mark::Idle);
}

/// Whatever there is to do, one after the other.
#[cfg(probe_backend = "x86_64")]
#[inline(never)]
fn each(
    hook: &Hook,
    definition: &'static Definition,
    values: *const Value<'_>,
    stack: usize,
    slot: &'static Slot,
) {
    for member in hook.members() {
        match member.action() {
            Action::Tally(at) => slot.tally(at),
            Action::Wrap => (),
            Action::Call { .. } => {
                call(member.subscription(), definition, hook.probe(), values, stack, slot);
                slot.set_mark(Mark::Entered);
            }
        }
    }
}

/// Calls a consumer; its thread's mark says so from here on.
#[inline(always)]
fn call(
    subscription: &Subscription,
    definition: &'static Definition,
    probe: ProbeId,
    values: *const Value<'_>,
    stack: usize,
    slot: &'static Slot,
) {
    slot.set_mark(Mark::Consuming);
    let errno = slot.errno();
    let at = Place { stack, slot, generation: subscription.generation() };
    subscription.call(&Event::new(definition, probe, values, at));
    errno.restore();
}
