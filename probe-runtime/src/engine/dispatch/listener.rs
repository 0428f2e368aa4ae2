//! The receiver of hits, and its two short cuts: quick functions and recorders.
//!
//! # Quick functions
//! The part of a consumer that handles most hits. It changes few registers, so the way in need not
//! keep all of them in C code.
//!
//! ```text
//!  the way in, of a site that keeps vector registers
//!  1. mark = entered, read the hook
//!  2. keep few registers, call the quick function:
//!       mark = the consumer's; unless it is disabled, handle the hit
//!       if that is not done: calls + 1, mark = entered
//!  3. done: sequence + 1, mark = idle
//!  4. else: read the hook again, keep everything, and call the hook's function
//! ```
//! Marks change as in any call of a consumer (`hit_state`). The hook's function does all that takes
//! code of other libraries: it maps memory, begins a generation, looks for a call.
//! `tests/tests/patching/quick` follows the machine code of each quick function, and finds no other
//! library's code and no wider register.
//!
//! # Recorders
//! The way in of a patched backend can record a hit by itself, for a consumer that keeps a word for
//! each hit. Such a consumer says by a [`Recorder`] where its memory for the thread is. If it is a
//! probe's only consumer, the way in stores the words: one for the hit, and if it has fields, one
//! with their types and one for each field. It calls the consumer whenever anything else is to be
//! done: memory to map, a part of the ring to begin, another generation, a time or a field that
//! does not fit, more than eight fields.
//!
//! ```text
//!  the way in                              the same as in `deliver`, which calls the consumer
//!  1. mark = entered                       1.
//!  2. read the hook: a recorder            2.
//!  3. mark = the consumer's                3.
//!  4. unless it is disabled, read where    4. unless it is disabled
//!     the ring is; if generation,
//!     blocked flags, thread are as it says:
//!  5. read the clock, store the word,      5. call the consumer
//!     then the position behind it
//!  6. sequence + 1, mark = idle            6.
//!  7. else: calls + 1, mark = entered, and the ordinary way, from its reading of the hook on
//! ```
//! So operations wait for a hit that records as for one that is in the consumer (`hit_state`), and
//! a signal handler's hits in between are suppressed, and counted. Step 7 ends the call as
//! `HitState::end_call` does, since the ordinary way reads the hook again.
//!
//! Step 4 checks the blocked flags before it follows any address of the consumer's. A thread may
//! have been interrupted between 2 and 3 by a handler whose hits were in another consumer; then the
//! one that takes this consumer away has not waited for it (`hit_state`). The hook and the
//! subscription are still there (`reclaimer`), the ring may not be. A consumer that is closed after
//! step 3 is waited for.
//!
//! It uses general registers alone, so it serves every kind of site. Hits at entries and exits of C
//! code store their stack pointer as well, before anything else.

// Safety: relies on the way in, as `delivery` does, and on the makers of quick functions and
// recorders.
#![expect(unsafe_code, reason = "see above")]

use super::event::HitPlace;
use super::hook::Hook;
use super::{CounterAt, Event, Subscription, ThreadSlot};
use probe_core::abi::{Definition, Value};

/// The quick function of a consumer, and the listener that it is called for.
#[derive(Clone, Copy, Debug)]
pub struct Quick {
    pub(super) run: *const (),
    pub(super) listener: *const (),
}

/// Receives hits. Each consumer is one.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Returns whether it needs a thread of its own, which a forked child does not have.
    fn needs_thread(&self) -> bool {
        false
    }

    /// Returns whether hits must be delivered in the order of the program's own instructions.
    fn needs_order(&self) -> bool {
        false
    }

    /// Learns that objects have come or gone, before their sites are active.
    fn look_at_objects(&self) {}

    /// Handles a hit, on its thread.
    fn hit(&self, event: &Event<'_>);
}

/// Handles most hits quickly.
pub(crate) trait QuickListener: Send + Sync + 'static {
    /// Handles the hit, or changes nothing and returns `false`. It must not panic.
    fn hit_quickly(&self, event: &Event<'_>) -> bool;
}

/// Creates a consumer's quick function.
///
/// # Safety
/// The listener must be alive while the consumer whose subscription gets this may be called. Its
/// method must call no code of other libraries.
pub(crate) unsafe fn quick<Q: QuickListener>(listener: &Q) -> Quick {
    Quick { run: run::<Q> as *const (), listener: std::ptr::from_ref(listener).cast() }
}

/// As a function that a hook names, but returns whether it has handled the hit.
unsafe extern "C" fn run<Q: QuickListener>(
    definition: &'static Definition,
    frame: *const Value<'static>,
    _: usize,
    subscription: *const Subscription,
    slot: *const ThreadSlot,
    hook: *const Hook,
) -> bool {
    // SAFETY: as in `delivery::deliver`.
    let (slot, hook, subscription) = unsafe { (&*slot, &*hook, &*subscription) };
    slot.hit_state().begin_call(subscription.mark());
    let is_done = !subscription.is_disabled() && {
        // SAFETY: the maker of the quick function has promised that it lives as long as the
        // consumer, which was not closed after the mark.
        let listener = unsafe { &*subscription.listener().cast::<Q>() };
        let at = HitPlace::new(frame, slot, subscription.generation());
        listener.hit_quickly(&Event::new(definition, hook.probe(), at))
    };
    if !is_done {
        slot.hit_state().end_call();
    }
    is_done
}

/// Offsets, in bytes, in a thread's memory: seven words that only the thread itself writes.
pub(crate) mod head {
    /// Number of the next word. It is moved on behind each word that was stored.
    pub(crate) const POSITION: usize = 0;
    /// The position from which on the consumer is called.
    pub(crate) const END: usize = 8;
    /// The address of the word with number 0, though memory may begin later.
    pub(crate) const ORIGIN: usize = 16;
    /// The time stamp that is subtracted from a word's, which has 32 bits.
    pub(crate) const BASE: usize = 24;
    /// The number of the thread that writes.
    pub(crate) const THREAD: usize = 32;
    /// The generation of the hits that are stored.
    pub(crate) const GENERATION: usize = 40;
    /// The number of hits that were stored.
    pub(crate) const WRITTEN: usize = 48;
    /// In a word that is stored: the lowest bit of the number of words that follow, above the time.
    pub(crate) const PAYLOAD_SHIFT: usize = 32;
    /// In a word that is stored: the lowest bit of the probe's number, counted from 1.
    pub(crate) const PROBE_SHIFT: usize = 42;
}

/// The word of each slot that leads to a consumer's memory for the thread: the address of a
/// [head], or 0 or 1 while there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Recorder(CounterAt);

impl Recorder {
    /// Makes the recorder of a consumer.
    ///
    /// # Safety
    /// While the consumer may be called, a word other than 0 and 1 must be the address of a head
    /// that only the slot's thread writes, in that consumer. All words from the head's position to
    /// its end must be the thread's to write, at their numbers from the origin. Time stamps must be
    /// those of the processor's counter.
    #[expect(unsafe_code, reason = "see above")]
    pub(crate) unsafe fn new(at: CounterAt) -> Self {
        Self(at)
    }

    /// Returns the number by which a hook says that the way in records: negative, and less than
    /// that of a consumer that needs order.
    pub(super) fn dispatch_word(self) -> usize {
        self.0.offset().wrapping_neg()
    }
}
