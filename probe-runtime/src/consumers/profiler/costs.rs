//! What hits take: rehearsed, on the machine that it is, with a sampler like the one that is at
//! work.
//!
//! No clock says what a hit of the program takes: most of it lies outside of what could read one.
//! So some are made that are none of the program's ([`rehearsal`](crate::dispatch::rehearsal)),
//! first before it is attached, and then now and then by who looks, beside the program, since a
//! processor that two threads share takes longer. What is known is the middle of the last of them.
//!
//! In a program, a hit takes more than here where its code has left the caches, and less where a
//! processor does it beside the function's own work. On the examples' programs a call that is
//! counted takes between 0.6 times of that and 1.3 times: [`DOUBT`]. Hits that are delivered are
//! [in order](crate::Consumer::needs_order), and so take as long beside any work, within a tenth;
//! where there is no such order, [`DOUBT`] is theirs, too.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::sampler::Sampler;
use super::time::Time;
use super::times::Times;
use crate::clock::Clock;
use crate::consumer::Consumer;
use crate::dispatch::Event;
use crate::dispatch::rehearsal::{hits_that_call, hits_that_count};
use crate::error::Error;

/// By how much what is taken for a hit that is counted may be off, as a part of it.
pub(super) const DOUBT: f64 = 0.4;
/// The same of what is taken off a call that is timed, between whose readings all is done in order,
/// where that is so.
const DOUBT_OF_TIMES: f64 = if cfg!(probe_backend = "x86_64") { 0.1 } else { DOUBT };

/// Rehearsals that are remembered.
const KEPT: usize = 15;
/// As often one is tried at first; and what hits are taken to cost while none came about:
/// [`Costs`], in nanoseconds, as on a slow machine.
const TRIES: usize = 200;
const GUESS: [f64; 4] = [4.0, 15.0, 15.0, 20.0];

/// What hits take, in ticks.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(super) struct Costs {
    /// One that is counted.
    pub(super) counted: f64,
    /// One that is delivered, but for reading the clock.
    pub(super) delivered: f64,
    /// What is done besides at either hit of a call that is timed: the clock is read.
    pub(super) reading: f64,
    /// What a call that takes no time is timed as: half of each of its hits, and a reading.
    pub(super) inside: f64,
    /// By how much that may be off.
    pub(super) doubt: f64,
}

impl Costs {
    fn numbers(self) -> [f64; 4] {
        [self.counted, self.delivered, self.reading, self.inside]
    }
}

/// What hits take, as known by now.
#[derive(Debug)]
pub(super) struct Rehearsed {
    /// None on a clock that is given: hits take no time there.
    rehearsal: Option<Rehearsal>,
    besides: f64,
}

impl Rehearsed {
    /// A tick is so many nanoseconds.
    pub(super) fn new(time: Time, scale: f64) -> Result<Self, Error> {
        let rehearsal =
            if let Time::Machine(clock) = time { Some(Rehearsal::new(clock, scale)?) } else { None };
        Ok(Self { rehearsal, besides: 0.0 })
    }

    /// The same where something else is done, too, at either hit of a call that is timed, in ticks.
    pub(super) fn and_besides(self, besides: f64) -> Self {
        Self { besides, ..self }
    }

    /// Rehearses once more.
    pub(super) fn again(&mut self) {
        self.rehearsal.iter_mut().for_each(Rehearsal::again);
    }

    pub(super) fn costs(&self) -> Costs {
        let costs = self.rehearsal.as_ref().map(Rehearsal::costs).unwrap_or_default();
        let doubt = DOUBT_OF_TIMES * costs.inside + DOUBT * self.besides;
        // Once inside.
        Costs { reading: costs.reading + self.besides, inside: costs.inside + self.besides, doubt, ..costs }
    }
}

/// The one that rehearses.
#[derive(Debug)]
struct Rehearsal {
    clock: Clock,
    /// Neither times, and all are timed.
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
            |quota| Sampler::rehearsed(quota, Time::Machine(clock)).map(|sampler| Arc::new(Alone(sampler)));
        let in_ticks = |nanoseconds| nanoseconds / scale;
        let [counted, delivered, reading, inside] = GUESS.map(in_ticks);
        let guess = Costs { counted, delivered, reading, inside, doubt: 0.0 };
        let mut rehearsal =
            Self { clock, idle: alone(0)?, busy: alone(u32::MAX)?, last: VecDeque::new(), guess };
        // Another may be at it. Caches, and the processor's guesses, are cold at first.
        for _ in 0..TRIES {
            rehearsal.again();
            if rehearsal.last.len() > 1 {
                rehearsal.last.pop_front();
                break;
            }
        }
        Ok(rehearsal)
    }

    /// Once more. Where it can't be done now, nothing changes.
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
        let counted = hits_that_count(clock)? / 2.0;
        let delivered = hits_that_call(clock, Arc::clone(&self.idle), || ())? / 2.0;
        let seen = || self.busy.0.seen(&[0])[0];
        let (mut before, mut inside) = (seen(), Vec::new());
        #[expect(clippy::cast_precision_loss, reason = "some thousands of calls")]
        let round = || {
            let after = seen();
            let Times { samples, time, .. } = after.times.usual - before.times.usual;
            inside.push(time as f64 / samples.max(1) as f64);
            before = after;
        };
        let timed = hits_that_call(clock, Arc::clone(&self.busy), round)? / 2.0;
        Some(Costs {
            counted,
            delivered,
            reading: (timed - delivered).max(0.0),
            inside: middle(inside)?,
            doubt: 0.0,
        })
    }

    /// What is known.
    fn costs(&self) -> Costs {
        let of_all = |at: usize| middle(self.last.iter().map(|costs| costs.numbers()[at]).collect());
        match (of_all(0), of_all(1), of_all(2), of_all(3)) {
            (Some(counted), Some(delivered), Some(reading), Some(inside)) => {
                Costs { counted, delivered, reading, inside, doubt: 0.0 }
            }
            _ => self.guess,
        }
    }
}

/// The one in the middle, or the lower of the two there.
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
        assert!((rehearsal.costs().counted - 8.0).abs() < 1e-9, "4 ns, a guess");
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
