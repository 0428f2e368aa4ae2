//! From a hit to its consumers.
//!
//! Life of a hit: the site jumps to its cold block ▸ stub ▸ the backend's `enter` ▸ (here) the
//! thread's [`Slot`] is marked ▸ the probe's [`Hook`] is read ▸ each member counts or calls its
//! consumer ▸ the mark is cleared. A hook is a snapshot; `control` publishes a new one and retires
//! the old one, which is freed when no thread can still be reading it ([`limbo`]). What changes in
//! place is one flag a member: whether its hits are counted or delivered.
//!
//! | [`Mark`] | set by | a nested hit (signal handler, consumer's own probe) | who waits for it |
//! |---|---|---|---|
//! | `IDLE` | – | – | nobody |
//! | `ENTERED` | the hit itself | counts and calls | whoever takes hits away: it is some instructions |
//! | a subscription's | around its consumer's `hit` | counts; calls are suppressed, and that is counted | whoever takes that consumer away |
//! | `TELLING` | around the callback of discoveries | the same | whoever takes the callback away |
//! | `NESTED` | a nested hit that only counts | the same | as `ENTERED` |
//! | `WORKING` | an operation of this crate | the same | nobody |
//!
//! A hit has no cancellation point (pthreads(7)) of its own, so a thread is never cancelled in a
//! hit that counts. A thread that ends inside a consumer nevertheless leaves its mark set until the
//! C library tells of its end. A consumer that leaves its hit by `longjmp` leaves the mark set for
//! good: from then on its thread's calls are suppressed, and whoever detaches waits for that
//! thread's end. A signal handler that leaves by `siglongjmp` does the same to the hit that it
//! interrupts, also to one that only counts: nothing tells its mark from that of a hit that a
//! handler still interrupts, since who is further up the stack can't be told where handlers have
//! stacks of their own.
//!
//! Cost: no lock, no locked instruction, no heap and no system call on a hit; a thread's first hit
//! maps memory for its slot.

mod delivery;
mod ended;
mod event;
pub(crate) mod guarded;
mod hook;
mod id;
#[cfg(probe_discovers)]
mod inline_hook;
#[cfg(probe_discovers)]
mod inside;
#[cfg(all(test, loom))]
mod interleavings;
mod limbo;
mod listener;
mod owner;
mod ownership;
mod presence;
mod quiesce;
#[cfg(feature = "profiler")]
pub(crate) mod rehearsal;
mod slab;
mod slot;
mod subscription;
mod sync;
mod wrapper;

#[cfg(probe_backend = "x86_64")]
pub(crate) use delivery::UNMARKED;
pub use event::{Event, Fields};
pub(crate) use guarded::Guarded;
pub(crate) use hook::{Action, Hook};
pub use id::ProbeId;
#[cfg(probe_discovers)]
pub(crate) use inline_hook::InlineHook;
#[cfg(probe_discovers)]
pub(crate) use inside::Inside;
pub(crate) use limbo::{Era, Limbo};
pub(crate) use listener::Listener;
pub(crate) use presence::Mark;
pub(crate) use quiesce::{Awaited, Fenced, Left, forget_other_threads, wait};
pub(crate) use slab::{Hooks, Published, Room, Unpublished};
pub use slot::lost_hits;
#[cfg(all(feature = "profiler", probe_backend = "x86_64"))]
pub(crate) use slot::{ALSO_UNREAD, UNREAD};
pub(crate) use slot::{Slot, TALLIES, TallyAt, prepare, slots};

pub(crate) use subscription::{Subscription, Unsettled, on_failure};
pub(crate) use wrapper::{Wrapper, Wrappers, wrappers};

use std::sync::atomic::Ordering;

use crate::abi::{Definition, Value};

/// The long way of a hit: on a thread that is new, or inside of a hit, and wherever the way in
/// marks nothing. `frame` is where its values are, or where the way in has left word of them, and
/// then also the stack pointer that called the stub; null where neither is known.
pub(crate) fn dispatch(definition: &'static Definition, frame: *const Value<'_>) {
    let Some(slot) = Slot::current() else { return };
    let outer = slot.enter();
    let hook = definition.hook().load(Ordering::Acquire).cast::<Hook>();
    if let Some(hook) = Hook::read(hook, slot) {
        delivery::tell(definition, frame, slot, hook, outer.is_suppressing());
    }
    slot.leave(outer);
}
