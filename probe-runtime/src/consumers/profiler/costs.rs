//! The cost of hits, rehearsed on the machine at hand with a sampler like the one in use.
//!
//! No clock tells the cost of a hit of the program, since most of it lies outside of the readings.
//! So the profiler makes hits of its own ([`rehearsal`](crate::dispatch::rehearsal)), now and then,
//! from the thread that looks, as far as the budget pays for it. That runs beside the program, since
//! a processor that two threads share takes longer. The cost is the median of the last rehearsals.
//!
//! In a program, a hit takes longer than here if its code has left the caches ([`AMONG_MANY`]). It
//! takes less if the processor executes it beside the function's own work ([`BESIDE`]). Delivered hits
//! are [in order](crate::Consumer::needs_order), so they take the same beside any work, within a
//! tenth. Without such order, [`DOUBT`] holds for them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::sampler::Sampler;
use super::time::Time;
use crate::clock::Clock;
use crate::consumer::Consumer;
use crate::control::Switch;
use crate::dispatch::Event;
use crate::dispatch::rehearsal::{hits_in_place, hits_that_call, hits_that_count};
use crate::error::Error;

/// Relative uncertainty of the cost of a hit that is not in order.
const DOUBT: f64 = 0.4;
/// Relative uncertainty of the time that is subtracted from a timed call. All work between its
/// readings is in order, if the machine has order.
const DOUBT_OF_TIMES: f64 = if cfg!(probe_backend = "x86_64") { 0.1 } else { DOUBT };

/// The part of its time that a hit takes which a site's own code counts, beside other work: all that
/// it does may be done meanwhile. (Measured with the example `options`, 100 million of them a second,
/// on an AMD EPYC.)
const BESIDE: f64 = 0.3;
/// How many times as much such a hit takes, of many functions that take turns: their code and their
/// counters leave the caches. Budgets go by that. (Between 1 and 8 in the bench `coverage`.)
const AMONG_MANY: f64 = 3.0;

/// How many rehearsals are remembered.
const KEPT: usize = 15;
/// Without any, [`Costs`] are guessed, in nanoseconds.
const GUESS: [f64; 5] = [0.5, 1.5, 15.0, 15.0, 20.0];

/// The costs of hits, in ticks.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Costs {
    /// A counted hit, of few functions, and of many.
    pub(super) counted: f64,
    pub(super) counted_among_many: f64,
    /// A delivered hit, without reading the clock.
    pub(super) delivered: f64,
    /// Additional work at either hit of a timed call: reading the clock.
    pub(super) reading: f64,
    /// The time that is measured for a call of no length: half of each of its hits, and a reading.
    pub(super) inside: f64,
    /// The uncertainty of that.
    pub(super) doubt: f64,
}

impl Costs {
    /// What a hit of a timed call takes.
    pub(super) fn hit(self) -> f64 {
        self.delivered + self.reading
    }

    /// What the two hits of a timed call take of the call around it.
    pub(super) fn outside(self) -> f64 {
        2.0 * self.hit() - self.inside
    }

    fn of([counted, counted_among_many, delivered, reading, inside]: [f64; 5]) -> Self {
        Self { counted, counted_among_many, delivered, reading, inside, doubt: 0.0 }
    }

    fn numbers(self) -> [f64; 5] {
        [self.counted, self.counted_among_many, self.delivered, self.reading, self.inside]
    }
}

/// The costs of hits, as known by now.
#[derive(Debug)]
pub(super) struct Rehearsed {
    /// `None` for a given clock: hits take no time there.
    rehearsal: Option<Rehearsal>,
    besides: f64,
    /// What is known by now.
    costs: Costs,
}

impl Rehearsed {
    /// Costs for ticks of so many nanoseconds.
    pub(super) fn new(time: Time, scale: f64) -> Result<Self, Error> {
        let rehearsal =
            if let Time::Machine(clock) = time { Some(Rehearsal::new(clock, scale)?) } else { None };
        Ok(Self { rehearsal, besides: 0.0, costs: Costs::default() }.and_besides(0.0))
    }

    /// The costs with additional work at either hit of a timed call, in ticks.
    pub(super) fn and_besides(self, besides: f64) -> Self {
        let mut with = Self { besides, ..self };
        with.work_out();
        with
    }

    /// Rehearses once more.
    pub(super) fn again(&mut self) {
        self.rehearsal.iter_mut().for_each(Rehearsal::again);
        self.work_out();
    }

    /// Whether costs are not guessed any more.
    pub(super) fn is_known(&self) -> bool {
        self.rehearsal.as_ref().is_none_or(|it| !it.last.is_empty())
    }

    /// What hits cost, as known by now.
    pub(super) fn costs(&self) -> Costs {
        self.costs
    }

    fn work_out(&mut self) {
        let costs = self.rehearsal.as_ref().map(Rehearsal::costs).unwrap_or_default();
        let doubt = DOUBT_OF_TIMES * costs.inside + DOUBT * self.besides;
        let (reading, inside) = (costs.reading + self.besides, costs.inside + self.besides);
        // Once more, inside.
        self.costs = Costs { reading, inside, doubt, ..costs };
    }
}

/// The consumer that rehearses.
#[derive(Debug)]
struct Rehearsal {
    clock: Clock,
    /// Neither of them times, or all calls are timed.
    idle: Arc<Alone>,
    busy: Arc<Alone>,
    last: VecDeque<Costs>,
    guess: Costs,
}

/// A sampler of its own.
struct Alone(Sampler);

impl fmt::Debug for Alone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Alone")
    }
}

impl Consumer for Alone {
    fn needs_order(&self) -> bool {
        true
    }

    fn hit(&self, event: &Event<'_>) {
        let _ = self.0.hit(event);
    }
}

impl Rehearsal {
    fn new(clock: Clock, scale: f64) -> Result<Self, Error> {
        let alone =
            |is_timed| Sampler::rehearsed(is_timed, Time::Machine(clock)).map(|it| Arc::new(Alone(it)));
        let in_ticks = |nanoseconds| nanoseconds / scale;
        let guess = Costs::of(GUESS.map(in_ticks));
        Ok(Self { clock, idle: alone(false)?, busy: alone(true)?, last: VecDeque::new(), guess })
    }

    /// Rehearses once more. If that is impossible now, nothing changes.
    fn again(&mut self) {
        if let Some(costs) = self.rehearse() {
            self.last.push_back(costs);
            if self.last.len() > KEPT {
                self.last.pop_front();
            }
        }
    }

    fn rehearse(&self) -> Option<Costs> {
        let clock = self.clock;
        let [counted, counted_among_many] = if Switch::counts_in_place() {
            let counted = BESIDE * hits_in_place(clock)? / 2.0;
            [counted, AMONG_MANY * counted]
        } else {
            [hits_that_count(clock)? / 2.0; 2]
        };
        let delivered = hits_that_call(clock, Arc::clone(&self.idle), || ())? / 2.0;
        let seen = || self.busy.0.seen(&[0])[0];
        let (mut before, mut inside) = (seen(), Vec::new());
        #[expect(clippy::cast_precision_loss, reason = "some thousands of calls")]
        let round = || {
            let after = seen();
            let (ended, time) = (after.ended - before.ended, after.time - before.time);
            inside.push(time as f64 / ended.max(1) as f64);
            before = after;
        };
        let timed = hits_that_call(clock, Arc::clone(&self.busy), round)? / 2.0;
        Some(Costs {
            counted,
            counted_among_many,
            delivered,
            reading: (timed - delivered).max(0.0),
            inside: middle(inside)?,
            doubt: 0.0,
        })
    }

    /// The costs as known.
    fn costs(&self) -> Costs {
        let of_all = |at: usize| middle(self.last.iter().map(|costs| costs.numbers()[at]).collect());
        let all = [0, 1, 2, 3, 4].map(of_all);
        if all.contains(&None) { self.guess } else { Costs::of(all.map(Option::unwrap_or_default)) }
    }
}

/// The median; of two in the middle, the lower one.
fn middle(mut numbers: Vec<f64>) -> Option<f64> {
    crate::order::sort_by(&mut numbers, f64::total_cmp);
    numbers.get(numbers.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_take_time() {
        let mut rehearsal = Rehearsal::new(Clock::new(), 0.5).unwrap();
        (0..20).for_each(|_| rehearsal.again());
        let Costs { counted, delivered, inside, .. } = rehearsal.costs();
        assert!(counted > 0.0 && delivered > 0.0 && inside > 0.0, "{rehearsal:?}");
        assert!(rehearsal.last.len() <= KEPT);
        rehearsal.last.clear();
        assert!((rehearsal.costs().counted - 1.0).abs() < 1e-9, "0.5 ns, a guess");
    }

    #[test]
    fn what_is_besides_is_once_inside() {
        let rehearsed = Rehearsed::new(Time::Given(|| 0), 1.0).unwrap();
        assert_eq!(rehearsed.costs(), Costs::default());
        let rehearsed = rehearsed.and_besides(10.0);
        let doubt = DOUBT * 10.0;
        assert_eq!(rehearsed.costs(), Costs { reading: 10.0, inside: 10.0, doubt, ..Costs::default() });
    }
}
