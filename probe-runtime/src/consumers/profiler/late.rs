//! Functions whose probes appear while the profiler runs.
//!
//! A function joins in three steps, since a consumer that takes probes may not wait for its own
//! thread, which switches sites:
//!
//! ```text
//! Consumer::join     ▶ the sampler has the function: hits find it
//! ▸ the runtime adds the probes to the attachment, and counts the function's entries, but for one
//!   that joined before the function's other probes
//! ▸ take_in          ▶ it has a state, and is in reports
//! ▸ admit (surveys)  ▶ its probes have all joined: entries are counted, and it may be timed
//! ```
//! Until then its mode is `Counted`, and no window has it, so its estimates are made as those of
//! other functions. If its other probes don't come until the second survey, its entries become
//! latent, until they come.

use super::core::Running;
use super::function_state::FunctionState;
use super::sampler::Sampler;
use crate::engine::control::Switch;
use crate::engine::sites::Visibility;

impl Running {
    /// Gives states to functions that the sampler has got since the last call. Cost: a load, unless
    /// there are any.
    pub(super) fn take_in(&mut self, sampler: &Sampler) {
        for function in self.states.len()..sampler.len() {
            let (ticks, by_all) = sampler.added(function);
            self.states.push(FunctionState::joining(self.moment_at(ticks, by_all)));
            self.joining.push(function);
        }
        if self.sites.len() < self.states.len() {
            self.sites.extend(sampler.sites(self.sites.len()..self.states.len()));
        }
        self.loads.extend(self.states.len());
    }

    /// Takes in functions, and lets those be timed whose probes have all joined. Returns these.
    pub(super) fn admit(&mut self, sampler: &Sampler) -> Vec<usize> {
        self.take_in(sampler);
        if self.joining.is_empty() {
            return Vec::new();
        }
        let probes: Vec<_> = self.joining.iter().map(|it| sampler.probes(*it)).collect();
        let probes: Vec<_> = probes.iter().map(|(entries, exits)| [*entries, *exits].concat()).collect();
        let has_all = self.switch.has_all(&probes);
        let mut has_all = has_all.into_iter();
        let (joined, joining): (Vec<_>, Vec<_>) =
            self.joining.iter().partition(|_| has_all.next() == Some(true));
        self.joining = joining;
        // Of one that waits since before the last survey, some probes may never come.
        let is_old = |it: &&usize| self.states[**it].added.time < self.surveys.last.time;
        let old: Vec<_> = self.joining.iter().filter(is_old).copied().collect();
        self.switch_off(&sampler.entries(&old));
        if joined.is_empty() {
            return joined;
        }
        // An entry that was there before the function's other probes is still latent.
        let entries = sampler.entries(&joined);
        self.switch.count(&entries);
        self.switch_on(&entries, Visibility::Eventual);
        let in_place = Switch::counted_in_place(&sampler.first_entries(joined.iter().copied()));
        for (function, is_in_place) in joined.iter().zip(in_place) {
            let state = &mut self.states[*function];
            (state.is_in_place, state.is_joining) = (is_in_place, false);
        }
        joined
    }
}
