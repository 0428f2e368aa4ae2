//! The cost of hits, rehearsed on the machine at hand with a sampler like the one in use.
//!
//! Most of a hit lies outside of its readings of the clock. So the profiler makes hits of its own
//! ([`calibration`](crate::engine::dispatch::calibration)), now and then, from the thread that
//! polls, as far as the budget pays for it: beside the program, since a processor that two threads
//! share takes longer. The cost is the mean of the last rehearsals: where the two share it now and
//! then, each takes one of two times, and so do the program's hits. In a program, a hit takes
//! longer if its code has left the caches ([`CACHE_MISS_NS`]), and less if the processor executes
//! it beside the function's own work ([`OVERLAP_FACTOR`]). Delivered hits are [in
//! order](crate::Consumer::needs_order), so they take the same beside any work.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rebalance::MeasureMode;
use super::sampler::Sampler;
use super::time::TimeSource;
use crate::engine::clock::Clock;
use crate::engine::control::Consumer;
use crate::engine::dispatch::Event;
use crate::engine::dispatch::calibration::{cost_of_blocks, cost_of_counted_hits, cost_of_delivered_hits};
use crate::engine::error::Error;

/// Relative uncertainty of the cost of a hit that is not in order.
const HIT_COST_DOUBT: f64 = 0.4;
/// Relative uncertainty of the time that is subtracted from a timed call. All work between its
/// readings is in order, if the machine has order.
const TIMED_CALL_DOUBT: f64 = if cfg!(probe_backend = "patched") { 0.1 } else { HIT_COST_DOUBT };

/// The part of its rehearsed time that a hit takes beside other work, if its site's own code counts
/// it. (In the bench `coverage`, the programs' hits take between 0.4 and 0.9 of a rehearsed one, on
/// an AMD EPYC.)
const OVERLAP_FACTOR: f64 = 0.8;
/// The additional time of such a hit if its code and its counter have left the nearest cache, in
/// nanoseconds: two loads from the next cache, and more if that is full.
const CACHE_MISS_NS: f64 = 10.0;
/// The additional time of a counted hit, in nanoseconds, for each function that was called since
/// the last hit of its own, but for the first ones: its data has left one cache after the other.
/// And the most: all comes from memory. (With 3,000 and 30,000 functions of C in turns, a hit took
/// 20 to 60 and 260 ns, on an AMD EPYC.)
const FAR_NS_PER_FUNCTION: f64 = 0.01;
const NEAR_FUNCTIONS: f64 = 1_000.0;
const MAX_FAR_NS: f64 = 300.0;

/// The number of rehearsals that are remembered.
const MAX_REHEARSALS: usize = 15;
/// The [`Costs`] before the first rehearsal, in nanoseconds.
const GUESSED_NS: [f64; 5] = [1.5, 5.0, 15.0, 15.0, 20.0];

/// The costs of hits, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Costs {
    /// A hit that its site's own code counts; the additional time if nothing is in the nearest
    /// cache; and a hit that is counted by the shared code: of futures and C code.
    pub(super) counted: f64,
    pub(super) cold: f64,
    pub(super) shared: f64,
    /// The additional time for a function that was called in between.
    pub(super) far: f64,
    /// A delivered hit, without reading the clock.
    pub(super) delivered: f64,
    /// Additional work at either hit of a timed call: reading the clock.
    pub(super) reading: f64,
    /// The time that is measured for a call of no length: half of each of its hits, and a reading.
    pub(super) inside: f64,
    /// The uncertainty of `inside`.
    pub(super) doubt: f64,
}

impl Costs {
    /// Returns the time of a hit of a timed call.
    pub(super) fn hit(self) -> f64 {
        self.delivered + self.reading
    }

    /// Returns the time of a timed call's two hits that belongs to its caller.
    pub(super) fn outside(self) -> f64 {
        2.0 * self.hit() - self.inside
    }

    /// Returns the costs where functions evict each other from the nearest cache: from 0 to 1. The
    /// shared code also loads the hook, and the processor does not foresee from where it comes.
    pub(super) fn under_pressure(self, cache_pressure: f64) -> Self {
        let cold = self.cold * cache_pressure;
        Self { counted: self.counted + cold, shared: self.shared + 2.0 * cold, ..self }
    }

    /// Returns the time of a counted hit, counted in place or by the shared code, with this many
    /// other functions between it and the last one.
    pub(super) fn counted(self, is_in_place: bool, between: f64) -> f64 {
        let near = if is_in_place { self.counted } else { self.shared };
        near + (self.far * (between - NEAR_FUNCTIONS)).clamp(0.0, MAX_FAR_NS)
    }
}

/// The costs of hits, as far as they are known.
pub(super) struct RehearsedCosts {
    /// `None` for a given clock, in whose time hits take none.
    sampler: Option<RehearsalSampler>,
    /// Additional work at either hit of a timed call, in nanoseconds.
    extra_hit_ns: f64,
    last: VecDeque<[f64; 5]>,
    pub(super) costs: Costs,
}

/// The sampler for rehearsals. A tick takes `scale` nanoseconds.
struct RehearsalSampler {
    clock: Clock,
    scale: f64,
    sampler: Arc<Sampler>,
}

impl Consumer for Sampler {
    fn needs_order(&self) -> bool {
        true
    }

    fn hit(&self, event: &Event<'_>) {
        let _ = self.sample(event);
    }
}

impl RehearsedCosts {
    /// Starts with a guess. `extra_hit_ns` is the additional work at either hit of a timed call.
    pub(super) fn new(time: TimeSource, scale: f64, extra_hit_ns: f64) -> Result<Self, Error> {
        let sampler = match time {
            TimeSource::Machine(clock) => {
                Some(RehearsalSampler { clock, scale, sampler: Arc::new(Sampler::for_rehearsal(time)?) })
            }
            TimeSource::Given(_) => None,
        };
        let guess = if sampler.is_some() { GUESSED_NS } else { [0.0; 5] };
        let mut new = Self { sampler, extra_hit_ns, last: VecDeque::new(), costs: Costs::default() };
        new.set_costs(guess);
        Ok(new)
    }

    /// Returns whether the costs have been measured at least once.
    pub(super) fn is_known(&self) -> bool {
        self.sampler.is_none() || !self.last.is_empty()
    }

    /// Rehearses once more. If that is impossible now, the costs stay as they are.
    pub(super) fn rehearse(&mut self) {
        let Some(costs) = self.sampler.as_ref().and_then(RehearsalSampler::rehearse) else { return };
        self.last.push_back(costs);
        if self.last.len() > MAX_REHEARSALS {
            self.last.pop_front();
        }
        let of_all = |at: usize| self.last.iter().map(|costs| costs[at]).sum::<f64>();
        self.set_costs([0, 1, 2, 3, 4].map(|at| of_all(at) / self.last.len() as f64));
    }

    fn set_costs(&mut self, [counted, shared, delivered, reading, inside]: [f64; 5]) {
        let doubt = TIMED_CALL_DOUBT * inside + HIT_COST_DOUBT * self.extra_hit_ns;
        // One of the two hits' additional work is inside of the call.
        let (reading, inside) = (reading + self.extra_hit_ns, inside + self.extra_hit_ns);
        let [cold, far] =
            if self.sampler.is_some() { [CACHE_MISS_NS, FAR_NS_PER_FUNCTION] } else { [0.0; 2] };
        self.costs = Costs { counted, cold, shared, far, delivered, reading, inside, doubt };
    }
}

impl RehearsalSampler {
    fn rehearse(&self) -> Option<[f64; 5]> {
        let Self { clock, scale, ref sampler } = *self;
        let now = || clock.now();
        let counted = OVERLAP_FACTOR * cost_of_blocks(now)? / 2.0;
        let shared = cost_of_counted_hits(now)? / 2.0;
        sampler.set_mode(0, MeasureMode::Counted);
        let delivered = cost_of_delivered_hits(now, Arc::clone(sampler), || ())? / 2.0;
        sampler.set_mode(0, MeasureMode::Timed);
        let seen = || sampler.seen(1.0)(0);
        let (mut before, mut inside) = (seen(), Vec::new());
        let round = || {
            let after = seen();
            inside.push((after.time - before.time) / (after.ended - before.ended).max(1.0));
            before = after;
        };
        let timed = cost_of_delivered_hits(now, Arc::clone(sampler), round)? / 2.0;
        let reading = (timed - delivered).max(0.0);
        Some([counted, shared, delivered, reading, median(inside)?].map(|ticks| ticks * scale))
    }
}

/// Returns the median.
fn median(mut numbers: Vec<f64>) -> Option<f64> {
    crate::engine::order::sort_by(&mut numbers, f64::total_cmp);
    let last = numbers.len().checked_sub(1)?;
    Some(f64::midpoint(numbers[last / 2], numbers[last.div_ceil(2)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_take_time() {
        let mut rehearsed = RehearsedCosts::new(TimeSource::Machine(Clock::new()), 0.5, 0.0).unwrap();
        assert!((rehearsed.costs.counted - 1.5).abs() < 1e-9, "a guess");
        let far = [0.0, 1e3, 11e3, 1e9].map(|between| rehearsed.costs.counted(false, between) - 5.0);
        assert!(far.iter().zip([0.0, 0.0, 100.0, 300.0]).all(|(far, is)| (far - is).abs() < 1e-9), "{far:?}");
        (0..20).for_each(|_| rehearsed.rehearse());
        let Costs { counted, delivered, inside, .. } = rehearsed.costs;
        assert!(counted > 0.0 && delivered > 0.0 && inside > 0.0, "{:?}", rehearsed.costs);
        assert!(rehearsed.last.len() <= MAX_REHEARSALS);
    }

    #[test]
    fn hits_of_many_functions_take_longer_wherever_they_are_counted() {
        let costs = Costs { counted: 1.0, cold: 10.0, shared: 5.0, ..Costs::default() };
        let in_turns =
            |cache_pressure| [true, false].map(|it| costs.under_pressure(cache_pressure).counted(it, 0.0));
        assert_eq!((in_turns(0.0), in_turns(1.0)), ([1.0, 5.0], [11.0, 25.0]));
    }

    #[test]
    fn additional_work_is_inside_once() {
        let costs =
            |extra_hit_ns| RehearsedCosts::new(TimeSource::Given(|| 0), 0.5, extra_hit_ns).unwrap().costs;
        assert_eq!(costs(0.0), Costs::default());
        let doubt = HIT_COST_DOUBT * 10.0;
        assert_eq!(costs(10.0), Costs { reading: 10.0, inside: 10.0, doubt, ..Costs::default() });
    }
}
