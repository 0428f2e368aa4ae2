//! From a hit to its consumers.
//!
//! Life cycle of a hit: the site jumps to its cold block ▸ stub ▸ the backend's `enter` ▸
//! (here) the thread's [`ThreadSlot`] is marked ▸ the probe's [`Hook`] is read ▸ each member
//! counts or calls its consumer ▸ the mark is cleared. A hook is a snapshot. `control` publishes a
//! new one and retires the old one, which is freed when no thread can still be reading it
//! ([`reclaimer`]). Only one flag per member changes in place: whether its hits are counted or
//! delivered.
//!
//! | [`HitMark`] | set by | a nested hit (signal handler, consumer's own probe) | waited for by |
//! |---|---|---|---|
//! | `IDLE` | – | – | no operation |
//! | `ENTERED` | the hit itself | counts and calls | all operations that take hits away; it lasts for some instructions |
//! | a subscription's | around its consumer's `hit` | counts; calls are suppressed, and that is counted | operations that take that consumer away |
//! | `IN_CALLBACK` | around the callback of discoveries | the same | operations that take the callback away |
//! | `NESTED` | a nested hit that only counts | the same | the same as `ENTERED` |
//! | `WORKING` | an operation of this crate | the same | no operation |
//!
//! A hit has no cancellation point (pthreads(7)) of its own, so a thread is never cancelled in a
//! hit that counts. A thread that ends inside a consumer leaves its mark set until the C library
//! reports its end. A consumer that leaves its hit by `longjmp` leaves the mark set for good. From
//! then on, calls on that thread are suppressed, and a detaching thread waits for that thread's
//! end. A signal handler that leaves by `siglongjmp` does the same to the hit that it interrupts,
//! even to one that only counts. That mark looks like the mark of a hit that a handler still
//! interrupts: handlers may have stacks of their own, so the stack does not tell which one is
//! further up.
//!
//! Cost: no lock, no locked instruction, no heap and no system call on a hit. A thread's first hit
//! maps memory for its slot.

pub(crate) mod calibration;
mod delivery;
mod event;
pub(crate) mod guard;
mod hit_state;
mod hook;
#[cfg(all(test, loom))]
mod interleavings;
#[cfg(probe_backend = "patched")]
pub(crate) mod layout;
mod listener;
mod ownership;
mod reclaimer;
#[cfg(probe_values)]
mod site_values;
mod slab;
mod subscription;
mod synchronize;
mod thread_slot;
mod wrapper;

pub(crate) use delivery::dispatch;
#[cfg(probe_values)]
pub(crate) use delivery::{deliver_captured, deliver_captured_to, dispatch_captured};
pub(crate) use event::FUTURE;
#[cfg(probe_values)]
pub(crate) use event::SiteRegisters;
pub use event::{Event, Fields, ProbeId};
pub(crate) use guard::{ReadGuard, ReentrancyGuard};
pub(crate) use hit_state::HitMark;
pub(crate) use hook::{Action, Hook, InlineHook};
pub(crate) use listener::{Listener, Quick, QuickListener, Recorder, head, quick};
pub(crate) use reclaimer::{Epoch, Reclaimer};
#[cfg(probe_values)]
pub(crate) use site_values::{
    MOST_FIELDS, ReadAs, ReadFrom, Reading, SiteFields, SiteReadings, SiteValues, ValueNames,
};
pub(crate) use slab::{HookBuilder, HookCapacity, Published, Unpublished};
pub(crate) use synchronize::{
    BarrierProof, Quiescent, WaitFor, forget_other_threads, is_in_hit, is_outside, synchronize,
};
pub use thread_slot::lost_hits;
pub(crate) use thread_slot::{COUNTERS, CounterAt, ThreadSlot, current_thread, prepare, slots};

pub(crate) use subscription::{Subscription, Transition, on_failure};
pub(crate) use wrapper::{Wrapper, Wrappers};

use std::sync::atomic::Ordering;

use crate::engine::entry::backend;
use probe_core::abi::Definition;

/// Returns the wrappers to run instead of the function. There are none inside of a consumer or of
/// this crate's own operations, where calls of consumers are suppressed, too.
pub(crate) fn wrappers(definition: &Definition) -> Option<Wrappers> {
    if definition.entry().load(Ordering::Acquire) != backend::entry(definition) {
        // The hook belongs to another runtime.
        return None;
    }
    let slot = ThreadSlot::current()?;
    if slot.mark().is_suppressing() {
        return None;
    }
    let outer = slot.enter();
    let hook = definition.hook().load(Ordering::Acquire).cast::<Hook>();
    let wrappers = Hook::read(hook, slot).and_then(Hook::wrappers).cloned();
    slot.leave(outer);
    wrappers
}
