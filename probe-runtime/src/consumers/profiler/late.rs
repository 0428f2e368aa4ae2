//! Functions whose probes appear while the profiler runs.
//!
//! A function joins in three steps, since a consumer that takes probes may not wait for its own
//! thread, which switches sites:
//!
//! ```text
//! Consumer::join     ▶ the sampler has the function: hits find it
//! ▸ the runtime adds the probes to the attachment; entries are counted from now on
//! ▸ take_in          ▶ it has a state, and is in reports
//! ▸ admit (surveys)  ▶ its probes have all joined: it may be timed
//! ```
//! Windows before that have none of its calls, and are not read for it. Its calls are those since
//! its probes joined. So its estimates are made as those of other functions.

use super::core::Running;
use super::function_state::FunctionState;
use super::plan::MeasureMode;
use super::sampler::Sampler;
use crate::control::Switch;
use crate::patch::Visibility;

impl Running {
    /// Gives states to functions that the sampler has got since the last call. Cost: a load, unless
    /// there are any.
    pub(super) fn take_in(&mut self, sampler: &Sampler) {
        for function in self.states.len()..sampler.len() {
            let added = self.since_began(sampler.added(function));
            self.states.push(FunctionState::joining(added));
            self.joining.push(function);
        }
        self.loads.extend(self.states.len());
    }

    /// Takes in functions, and lets those be timed whose probes have all joined.
    pub(super) fn admit(&mut self, sampler: &Sampler) {
        self.take_in(sampler);
        if self.joining.is_empty() {
            return;
        }
        let has_all = |function: &usize| {
            let (entries, exits) = sampler.probes(*function);
            self.switch.has(entries) && self.switch.has(exits)
        };
        let (joined, joining): (Vec<_>, Vec<_>) = self.joining.iter().copied().partition(has_all);
        self.joining = joining;
        if joined.is_empty() {
            return;
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
        if self.bucket.is_unlimited() {
            self.change(sampler, &joined, &vec![MeasureMode::Timed; self.states.len()]);
        }
    }
}
