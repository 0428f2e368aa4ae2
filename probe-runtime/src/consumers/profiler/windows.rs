//! Executes windows step by step ([`stretch`](super::stretch) plans them).
//!
//! Order of switching: exits become active before entries, and all threads see both before the
//! window opens. The window closes before any site becomes latent. So the exit of each timed call
//! is active for the whole call, or the call is forgotten.

use super::core::Running;
use super::estimate::Untimed;
use super::function_state::Moment;
use super::part::FunctionTotals;
use super::plan::MeasureMode;
use super::sampler::Sampler;
use super::stretch::Phase;
use crate::engine::registry::ProbeId;
use crate::engine::sites::Visibility;

/// The weight of the last window in running means over windows.
const LAST_WINDOW_WEIGHT: f64 = 0.25;

/// The part of its rehearsed cost that a counted hit takes of a window's time: between 0.2 and 1.6.
const WINDOW_HIT_FACTOR: f64 = 0.9;

impl Running {
    /// Executes the steps that are due.
    pub(super) fn step(&mut self, sampler: &Sampler) {
        let now = self.now();
        let is_resting = self.windows.phase == Phase::Rest;
        if is_resting && now >= self.surveys.next() {
            self.survey(sampler);
        } else if is_resting && now >= self.surveys.next_look() {
            self.glance(sampler);
        }
        if now < self.windows.next() {
            return;
        }
        self.refused = 0;
        match std::mem::replace(&mut self.windows.phase, Phase::Rest) {
            Phase::Rest => self.begin_window(sampler),
            Phase::Warming(_) => self.begin_counting(sampler),
            Phase::Counting(since, calls) => {
                self.end_counting(sampler, since, &calls);
                self.begin_timing(sampler);
            }
            Phase::Timing(_) => self.end_timing(sampler),
        }
    }

    /// Returns the time of the next poll.
    pub(super) fn next(&self) -> f64 {
        let next = self.windows.next();
        if self.windows.phase == Phase::Rest { next.min(self.surveys.next_look()) } else { next }
    }

    /// Plans the next stretch.
    pub(super) fn plan(&mut self) {
        self.windows.plan(self.now(), self.income, self.owed());
    }

    fn begin_window(&mut self, sampler: &Sampler) {
        let now = self.now();
        self.book(sampler);
        // A large debt may come from a function that is timed at each call, and is called often by
        // now. A survey does not help against one that comes from attaching or from windows.
        if self.owed() >= 1.0 && self.surveys.is_old(self.now()) && self.has_dear_hits() {
            self.survey(sampler);
        }
        if !self.windows.is_due(now) {
            return;
        }
        self.windows.began_at = self.bucket.spent;
        if self.in_windows.is_empty() {
            return self.plan();
        }
        self.windows.begin(&self.in_windows);
        for (function, weight) in self.windows.weights() {
            #[expect(clippy::cast_possible_truncation, reason = "a number that is whole, or rounded")]
            let weight = weight as f32;
            self.states[function].weight = weight;
        }
        let is_estimated = |it: &usize| self.states[*it].mode == MeasureMode::Sampled;
        self.estimated = self.windows.inside.iter().copied().filter(is_estimated).collect();
        if self.estimated.is_empty() {
            return self.begin_timing(sampler);
        }
        self.switch_on(&sampler.entries(&self.estimated), Visibility::Synchronous);
        self.cost.toggles += self.estimated.len() as u64;
        self.windows.warm_up(self.estimated.len());
        self.windows.phase = Phase::Warming(self.now());
    }

    fn begin_counting(&mut self, sampler: &Sampler) {
        let (since, readings) = self.read_at(sampler, &self.estimated);
        let calls = readings.map(|seen| [seen.calls, seen.calls - seen.resumed]).collect();
        self.windows.phase = Phase::Counting(since, calls);
    }

    fn end_counting(&mut self, sampler: &Sampler, since: Moment, before: &[[f64; 2]]) {
        let (now, readings) = self.read_at(sampler, &self.estimated);
        let took = (now.time - since.time).max(1.0);
        let calls = readings
            .zip(before)
            .map(|(seen, before)| [seen.calls - before[0], seen.calls - seen.resumed - before[1]]);
        let calls: Vec<_> = calls.collect();
        let costs = self.costs();
        let of_each = |(function, calls): (&usize, &[f64; 2])| {
            calls[0] * costs.counted(self.states[*function].is_in_place, self.loads.between(*function))
        };
        let time = self.estimated.iter().zip(&calls).map(of_each).sum::<f64>();
        for (function, calls) in self.estimated.iter().zip(&calls) {
            let state = &mut self.states[*function];
            let weight = f64::from(state.weight) / took;
            state.measured().add_window(weight, *calls, [since, now], WINDOW_HIT_FACTOR * time);
            state.rate += LAST_WINDOW_WEIGHT * (calls[0] / took - state.rate);
        }
        let counts = self.windows.counts();
        let calls: f64 = calls.iter().map(|it| it[0]).sum();
        self.spend(counts * calls, counts * time);
    }

    fn begin_timing(&mut self, sampler: &Sampler) {
        let inside = &self.windows.inside;
        let (functions, entries, exits) = (inside.len(), sampler.entries(inside), sampler.exits(inside));
        self.switch_on(&exits, Visibility::Eventual);
        // They are on: they count. All threads see that they don't any more.
        self.switch.deliver(&entries);
        self.refused += self.switch.on(&[], Visibility::Synchronous).refused();
        self.cost.toggles += functions as u64;
        self.windows.warm_up(functions);
        let [soon, length, weight] = self.windows.opening(self.scale);
        sampler.open(soon, length, weight);
        self.windows.phase = Phase::Timing(self.now());
    }

    fn end_timing(&mut self, sampler: &Sampler) {
        let inside = std::mem::take(&mut self.windows.inside);
        sampler.close();
        // In this order: a latent site is redirected without a write.
        self.switch_off(&[sampler.exits(&inside), sampler.entries(&self.estimated)].concat());
        self.switch.count(&sampler.entries(&inside));
        let (now, readings) = self.read_at(sampler, &inside);
        for (function, seen) in inside.iter().zip(readings) {
            let state = &mut self.states[*function];
            state.read(seen, now);
            state.measured().note_window();
        }
        self.book(sampler);
        let spent = self.bucket.spent - self.windows.began_at;
        let sites = inside.iter().map(|it| u64::from(self.sites[*it])).sum();
        self.windows.note_cost(sites, spent, self.income);
        self.windows.timed += 1.0;
        self.plan();
    }

    /// Returns whether hits since the last survey have cost half of the income or more.
    fn has_dear_hits(&self) -> bool {
        let hits = self.cost.hits - self.surveys.hits;
        self.bucket.price(hits, f64::INFINITY) >= 0.5 * self.income * (self.now() - self.surveys.last.time)
    }

    /// Returns how long calls may have gone untimed, and the number of windows so far. It is NaN if
    /// windows can't tell what ran meanwhile.
    pub(super) fn untimed(&self, sampler: &Sampler, now: f64) -> Untimed {
        let of_mode = |mode| (0..self.states.len()).filter(move |it| self.states[*it].mode == mode);
        let is_called = || {
            let counted: Vec<_> = of_mode(MeasureMode::Counted).collect();
            // In parts: one of the first has most often been called.
            counted.chunks(64).any(|some| {
                let readings = self.read(sampler, some);
                some.iter().zip(readings).any(|(it, seen)| self.states[*it].has_untimed(&seen))
            })
        };
        // In most cases, this needs no reading.
        let lately = of_mode(MeasureMode::Sampled).next().is_some() || is_called();
        // As a survey would find it. There are few of these.
        let mut joining = self.joining.iter().zip(self.read(sampler, &self.joining));
        let last = self.surveys.last.time;
        let has_new = joining.any(|(it, seen)| {
            let state = &self.states[*it];
            state.added.time > last || state.has_untimed(&seen)
        });
        let since = |is_so| if is_so { now - last } else { 0.0 };
        Untimed {
            time: self.surveys.untimed + since(lately || has_new),
            unwatched: self.surveys.unwatched + since(has_new),
            windows: if self.windows.is_partial { f64::NAN } else { self.windows.timed },
        }
    }

    /// Reads the sums of these functions, with the moment of the reading.
    pub(super) fn read_at<'a>(
        &self,
        sampler: &'a Sampler,
        functions: &'a [usize],
    ) -> (Moment, impl Iterator<Item = FunctionTotals> + use<'a>) {
        (self.moment(), self.read(sampler, functions))
    }

    pub(super) fn switch_on(&mut self, probes: &[ProbeId], visibility: Visibility) {
        if !probes.is_empty() {
            self.refused += self.switch.on(probes, visibility).refused();
        }
    }

    pub(super) fn switch_off(&mut self, probes: &[ProbeId]) {
        if !probes.is_empty() {
            self.refused += self.switch.off(probes, Visibility::Eventual).refused();
        }
    }
}
