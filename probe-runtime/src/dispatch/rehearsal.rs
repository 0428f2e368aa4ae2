//! What hits take on this machine: told from some of a function that is none of the program's.
//!
//! The function has two definitions, an entry's and an exit's, which no table lists, and no sites:
//! its hits are made by calling what an active site leads to. They count, where nobody asks for the
//! counts, or are delivered to a consumer: the entry's as those of the probe 0, the exit's of the
//! probe 1. Of several rounds the one in the middle is taken: some are interrupted.
//!
//! Cost: some 100 µs each time.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Action, Era, Hooks, Listener, Mark, ProbeId, Room, Slot, Subscription, TallyAt, Unsettled};
use crate::arch::backend;
use crate::arch::backend::rehearsal::{CALL, call, count_in_place};
use crate::os::fork::process;

/// Calls in a round, and rounds.
const CALLS: u32 = 64;
const ROUNDS: usize = 11;

/// The process whose thread has hooked the definitions. A forked child takes over from a thread that
/// it does not have.
static REHEARSING: AtomicU64 = AtomicU64::new(0);

/// Nobody else rehearses meanwhile.
struct Alone(&'static AtomicU64);

impl Alone {
    fn new(process_at_it: &'static AtomicU64) -> Option<Self> {
        let (before, own) = (process_at_it.load(Ordering::Relaxed), process());
        let is_free = before != own;
        let taken =
            || process_at_it.compare_exchange(before, own, Ordering::Acquire, Ordering::Relaxed).is_ok();
        (is_free && taken()).then_some(Self(process_at_it))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
    }
}

/// What a call takes whose two hits are counted, in ticks of the clock `now`; `None` where another
/// thread rehearses, or this one is inside a hit.
pub(crate) fn hits_that_count(now: impl Fn() -> u64) -> Option<f64> {
    rehearse(now, &[], || ())
}

/// The same where both are counted by blocks.
pub(crate) fn hits_in_place(now: impl Fn() -> u64) -> Option<f64> {
    Slot::current().map(|_| middle(|| round(&now, count_in_place)))
}

/// The same where they are delivered to a listener; `each` is called after each round.
pub(crate) fn hits_that_call<L: Listener>(
    now: impl Fn() -> u64,
    listener: Arc<L>,
    each: impl FnMut(),
) -> Option<f64> {
    // Nothing is suppressed on a thread that is idle.
    let action = Action::Call { suppressed: TallyAt::new(0), counted: None };
    let subscription = Subscription::new(listener);
    subscription.settle(Unsettled::FIRST);
    rehearse(now, &[(action, Arc::new(subscription))], each)
}

fn rehearse(
    now: impl Fn() -> u64,
    members: &[(Action, Arc<Subscription>)],
    mut each: impl FnMut(),
) -> Option<f64> {
    let _alone = Alone::new(&REHEARSING)?;
    if Slot::current()?.mark() != Mark::IDLE {
        return None;
    }
    let round = || {
        let ticks = round(&now, call);
        each();
        ticks
    };
    Some(hooked(members, || middle(round)))
}

/// The function's hits do so meanwhile.
fn hooked<T>(members: &[(Action, Arc<Subscription>)], work: impl FnOnce() -> T) -> T {
    let room = Room { hooks: 2, rests: 2, members: 2 * members.len() };
    let mut hooks = Hooks::with_room(room, Era::UNKNOWN);
    let listening = || members.iter().map(|(action, subscription)| (*action, subscription, false));
    let published = [0, 1].map(|number| hooks.add(ProbeId::new(number), None, listening()));
    for (definition, hook) in CALL.iter().zip(&published) {
        definition.entry().store(backend::entry(definition), Ordering::Relaxed);
        definition.hook().store(hook.as_ptr(), Ordering::Release);
    }
    let found = work();
    CALL.iter().for_each(|definition| definition.hook().store(ptr::null_mut(), Ordering::Release));
    // Read by this thread's hits only, which are over.
    drop(published);
    found
}

/// Ticks of a round.
fn round(now: impl Fn() -> u64, call: fn()) -> u64 {
    let start = now();
    (0..CALLS).for_each(|_| call());
    now().saturating_sub(start)
}

/// Ticks of a call, of the round in the middle.
#[expect(clippy::cast_precision_loss, reason = "ticks of a round")]
fn middle(round: impl FnMut() -> u64) -> f64 {
    let mut ticks: Vec<_> = std::iter::repeat_with(round).take(ROUNDS).collect();
    crate::order::sort_by(&mut ticks, Ord::cmp);
    ticks[ticks.len() / 2] as f64 / f64::from(CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::Event;
    use std::sync::atomic::AtomicU64;
    use std::time::Instant;

    fn now() -> impl Fn() -> u64 {
        let start = Instant::now();
        move || start.elapsed().as_nanos().try_into().unwrap()
    }

    #[derive(Default)]
    struct Counts([AtomicU64; 2]);

    impl Listener for Counts {
        fn hit(&self, event: &Event<'_>) {
            self.0[event.probe().index()].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until no other test rehearses.
    fn alone() -> Alone {
        std::iter::repeat_with(|| Alone::new(&REHEARSING)).find_map(|alone| alone).unwrap()
    }

    #[test]
    fn hits_take_time_and_leave_nothing() {
        let counts = Arc::new(Counts::default());
        let mut rounds = 0;
        let mut call = || hits_that_call(now(), Arc::<Counts>::clone(&counts), || rounds += 1);
        // Another test may be at it, of the profiler or of latencies.
        let ticks = std::iter::repeat_with(&mut call).find_map(|ticks| ticks).unwrap();
        assert!(ticks > 0.0, "64 hits take more than the clock's nanosecond");
        assert_eq!(rounds, ROUNDS);
        let hits = counts.0.each_ref().map(|hits| hits.load(Ordering::Relaxed));
        assert_eq!(hits, [u64::from(CALLS) * ROUNDS as u64; 2], "of the entry, and of the exit");
        while hits_that_count(now()).is_none_or(|ticks| ticks == 0.0) {}
        while hits_in_place(now()).is_none_or(|ticks| ticks == 0.0) {}
        let _alone = alone();
        assert!(CALL.iter().all(|definition| !definition.is_hooked()));
        assert_eq!(Slot::current().unwrap().mark(), Mark::IDLE);
    }

    #[test]
    fn one_at_a_time() {
        let alone = alone();
        assert_eq!(hits_that_count(now()), None);
        drop(alone);
    }

    #[test]
    fn a_forked_child_takes_over() {
        static AT_IT: AtomicU64 = AtomicU64::new(0);
        let parents = Alone::new(&AT_IT).unwrap();
        assert!(Alone::new(&AT_IT).is_none());
        // As in a forked child, whose process is another one.
        AT_IT.store(process() ^ 1, Ordering::Relaxed);
        let own = Alone::new(&AT_IT).unwrap();
        assert!(Alone::new(&AT_IT).is_none());
        drop(own);
        assert_eq!(AT_IT.load(Ordering::Relaxed), 0);
        drop(parents);
    }
}
