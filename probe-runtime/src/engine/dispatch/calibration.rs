//! The cost of hits on this machine, measured with a function that does not belong to the program.
//!
//! The function has two definitions, of an entry and an exit. No table lists them, and they have no
//! sites. Their hits are made by calling the code that an active site leads to. They count with
//! counters that no report reads, or are delivered to a consumer: those of the entry as probe 0,
//! those of the exit as probe 1. The result is the median of several rounds, since some rounds are
//! interrupted.
//!
//! Cost: some 100 µs each time.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{
    Action, CounterAt, Epoch, HitMark, HookBuilder, HookCapacity, Listener, ProbeId, Subscription,
    ThreadSlot, Transition,
};
use crate::engine::entry::backend;
use crate::engine::entry::backend::calibration::{CALL, call, count_in_place};
use crate::engine::os::process::TryLock;

/// Number of calls in a round.
const CALLS_PER_ROUND: u32 = 64;
const ROUNDS: usize = 5;

/// The turns to hook the definitions. A forked child may take over from a thread of its parent.
static LOCK: TryLock = TryLock::new();

/// Returns the ticks of the clock `now` for a call whose two hits are counted; `None` if another
/// thread measures, or if this thread is inside a hit.
pub(crate) fn cost_of_counted_hits(now: impl Fn() -> u64) -> Option<f64> {
    measure(now, &[], || ())
}

/// Returns the same for hits that blocks count.
pub(crate) fn cost_of_blocks(now: impl Fn() -> u64) -> Option<f64> {
    ThreadSlot::current().map(|_| middle(|| round(&now, count_in_place)))
}

/// Returns the same for hits that are delivered to a listener; `each` is called after each round.
pub(crate) fn cost_of_delivered_hits<L: Listener>(
    now: impl Fn() -> u64,
    listener: Arc<L>,
    each: impl FnMut(),
) -> Option<f64> {
    // The thread is idle, so no call is suppressed.
    let action = Action::Call { suppressed: CounterAt::new(0), counted: None };
    let subscription = Subscription::new(listener);
    subscription.commit(Transition::FIRST);
    measure(now, &[(action, Arc::new(subscription))], each)
}

fn measure(
    now: impl Fn() -> u64,
    members: &[(Action, Arc<Subscription>)],
    mut each: impl FnMut(),
) -> Option<f64> {
    let _alone = LOCK.try_lock()?;
    if ThreadSlot::current()?.mark() != HitMark::IDLE {
        return None;
    }
    let round = || {
        let ticks = round(&now, call);
        each();
        ticks
    };
    Some(hooked(members, || middle(round)))
}

/// Calls `work` while the function's hits are handled by `members`.
fn hooked<T>(members: &[(Action, Arc<Subscription>)], work: impl FnOnce() -> T) -> T {
    let room = HookCapacity { hooks: 2, extras: 2, members: 2 * members.len() };
    let mut hooks = HookBuilder::with_capacity(room, Epoch::UNKNOWN);
    let listening = || members.iter().map(|(action, subscription)| (*action, subscription, false));
    let published = [0, 1].map(|number| hooks.add(ProbeId::new(number), None, listening()));
    for (definition, hook) in CALL.iter().zip(&published) {
        definition.entry().store(backend::entry(definition), Ordering::Relaxed);
        definition.hook().store(hook.as_ptr(), Ordering::Release);
    }
    let found = work();
    CALL.iter().for_each(|definition| definition.hook().store(ptr::null_mut(), Ordering::Release));
    // Only this thread's hits read it, and they have ended.
    drop(published);
    found
}

fn round(now: impl Fn() -> u64, call: fn()) -> u64 {
    let start = now();
    (0..CALLS_PER_ROUND).for_each(|_| call());
    now().saturating_sub(start)
}

/// Returns the ticks of a call in the median round.
fn middle(round: impl FnMut() -> u64) -> f64 {
    let mut ticks: Vec<_> = std::iter::repeat_with(round).take(ROUNDS).collect();
    crate::engine::order::sort_by(&mut ticks, Ord::cmp);
    ticks[ticks.len() / 2] as f64 / f64::from(CALLS_PER_ROUND)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::dispatch::Event;
    use crate::engine::os::process::TryLockGuard;
    use std::iter;
    use std::sync::atomic::AtomicU64;
    use std::time::{Duration, Instant};

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

    /// Waits until no other test measures.
    fn alone() -> TryLockGuard<'static> {
        iter::repeat_with(|| LOCK.try_lock()).find_map(|alone| alone).unwrap()
    }

    #[test]
    fn hits_take_time_and_leave_nothing() {
        let counts = Arc::new(Counts::default());
        let mut rounds = 0;
        let mut call = || cost_of_delivered_hits(now(), Arc::<Counts>::clone(&counts), || rounds += 1);
        // Another test may be at it, of the profiler or of latencies.
        let ticks = iter::repeat_with(&mut call).find_map(|ticks| ticks).unwrap();
        assert!(ticks > 0.0, "64 hits take more than the clock's nanosecond");
        assert_eq!(rounds, ROUNDS);
        let hits = counts.0.each_ref().map(|hits| hits.load(Ordering::Relaxed));
        assert_eq!(hits, [u64::from(CALLS_PER_ROUND) * ROUNDS as u64; 2], "of the entry, and of the exit");
        while cost_of_counted_hits(now()).is_none_or(|ticks| ticks == 0.0) {}
        while cost_of_blocks(now()).is_none_or(|ticks| ticks == 0.0) {}
        let _alone = alone();
        assert!(CALL.iter().all(|definition| !definition.is_hooked()));
        assert_eq!(ThreadSlot::current().unwrap().mark(), HitMark::IDLE);
    }

    #[test]
    fn one_at_a_time() {
        let alone = alone();
        assert_eq!([cost_of_counted_hits(now()), cost_of_counted_hits(now())], [None; 2]);
        drop(alone);
        // Another test may be faster; it ends.
        let limit = Instant::now() + Duration::from_secs(60);
        let tries = iter::from_fn(|| (Instant::now() < limit).then(|| cost_of_counted_hits(now())));
        assert!(tries.flatten().next().is_some());
    }
}
