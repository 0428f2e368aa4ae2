//! Shares of the CPU time, from a sampled clock: which function's code a thread was executing each
//! time it had used another period. [`Code`] says whose an address is. Making it takes a while for
//! each site, once; the cost of samples does not depend on the number of sites.
//!
//! Samples lie at equal distances in a thread's own time, so the error of a share is at most that
//! of as many samples at random instants.

use std::collections::{BTreeMap, BTreeSet};

use super::code::Code;
use super::estimate::Estimated;
use super::sampler::{Sampler, begins, is_of_call};
use crate::engine::control::{Switch, code_generation};
use crate::engine::dispatch::slots;
use crate::engine::os::cpu_samples::{CpuSamples, is_unfiltered, sample_cost};
use crate::engine::os::objects::Generation;

/// The CPU time of a thread between two samples, in nanoseconds: the shortest, and the longest one.
/// No round numbers, so that it is not in step with a program's own timers.
const MIN_PERIOD_NS: f64 = 1_009e3;
const MAX_PERIOD_NS: f64 = 20_011e3;
/// The part of the budget for samples.
pub(super) const SAMPLING_SHARE: f64 = 0.35;
/// The time that a sample takes, in units of that for which it interrupts a thread: some caches are
/// cold afterwards.
const SAMPLE_COST_FACTOR: f64 = 1.5;
/// The largest number of threads that are sampled. Each takes 68 KiB of locked memory.
const MAX_SAMPLED_THREADS: usize = 128;

/// The samples so far.
#[derive(Default)]
pub(super) struct Shares {
    /// Samples of each thread, by its number: another thread may get the kernel's id of one that
    /// has ended. `None` once the kernel has refused one.
    threads: Option<BTreeMap<u64, CpuSamples>>,
    code: Code,
    /// The objects and the number of functions that `code` is of.
    as_of: Option<(Generation, usize)>,
    /// Samples in each function, and in all code.
    seen: Vec<u32>,
    all: u64,
    /// The functions of samples since they were last taken.
    lately: BTreeSet<usize>,
    /// Whether some threads were not sampled.
    is_partial: bool,
    /// The time that a sample takes, in nanoseconds, once it is known.
    cost: Option<f64>,
}

impl Shares {
    /// Begins, if the kernel permits it.
    pub(super) fn begin() -> Self {
        Self { threads: is_unfiltered().then(BTreeMap::new), ..Self::default() }
    }

    /// Reads the samples since the last call, and begins to sample threads that have hit since
    /// then. `budget` is a part of the CPU time. Returns how many nanoseconds these samples took.
    pub(super) fn read(&mut self, sampler: &Sampler, budget: f64) -> f64 {
        let Some(threads) = &mut self.threads else { return 0.0 };
        let Some(cost) = self.cost.or_else(|| Some(SAMPLE_COST_FACTOR * sample_cost()?)) else {
            self.threads = None;
            return 0.0;
        };
        self.cost = Some(cost);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
        let period = (cost / (SAMPLING_SHARE * budget)).clamp(MIN_PERIOD_NS, MAX_PERIOD_NS) as u64;
        let living: BTreeMap<_, _> =
            slots().filter_map(|slot| Some((slot.thread(), (slot, slot.tid()?)))).collect();
        let is_new = |(number, _): &(&u64, _)| !threads.contains_key(number);
        let new: Vec<_> = living.iter().filter(is_new).collect();
        let mut addresses = Vec::new();
        for of_thread in threads.values_mut() {
            self.is_partial |= of_thread.read(|address| addresses.push(address)) != 0;
        }
        threads.retain(|number, _| living.contains_key(number));
        // A filter of system calls may have been installed by now.
        if !new.is_empty() && is_unfiltered() {
            for (number, (slot, thread)) in new {
                let room = threads.len() < MAX_SAMPLED_THREADS;
                match room.then(|| CpuSamples::begin(*thread, period)) {
                    // Another thread may have the id by now, also one that makes no hits.
                    Some(Ok(_)) if (slot.thread(), slot.tid()) != (*number, Some(*thread)) => (),
                    Some(Ok(begun)) => _ = threads.insert(*number, begun),
                    // It has ended by now.
                    Some(Err(error)) if error.raw_os_error() == Some(libc::ESRCH) => (),
                    _ => self.is_partial = true,
                }
            }
        }
        self.add(sampler, &addresses);
        cost * addresses.len() as f64
    }

    fn add(&mut self, sampler: &Sampler, addresses: &[usize]) {
        if addresses.is_empty() {
            return;
        }
        let functions = sampler.len();
        if self.as_of != Some((code_generation(), functions)) {
            let all: Vec<_> = (0..functions).collect();
            let probes = [sampler.entries(&all), sampler.exits(&all)].concat();
            let (generation, sites) = Switch::places(&probes);
            self.code = Code::new(&sites, functions, |site| {
                let act = sampler.act(site.probe);
                is_of_call(act).then(|| (act.function(), begins(act)))
            });
            self.as_of = Some((generation, functions));
            self.seen.resize(functions, 0);
        }
        self.all += addresses.len() as u64;
        for function in addresses.iter().filter_map(|address| self.code.function_at(*address)) {
            self.seen[function as usize] += 1;
            self.lately.insert(function as usize);
        }
    }

    /// Returns the functions that had samples since the last call.
    pub(super) fn take_lately(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.lately).into_iter().collect()
    }

    /// Returns whether the kernel permits samples.
    pub(super) fn is_sampling(&self) -> bool {
        self.threads.is_some()
    }

    /// Returns a function's part of the sampled time, from 0 to 1; `None` if nothing was sampled.
    pub(super) fn of(&self, function: usize) -> Option<Estimated> {
        (self.all != 0).then(|| part(self.seen(function).into(), self.all))
    }

    /// Returns the number of samples in a function's code.
    pub(super) fn seen(&self, function: usize) -> u32 {
        self.seen.get(function).copied().unwrap_or_default()
    }

    /// Returns the number of samples, and that of samples in code of no function.
    pub(super) fn samples(&self) -> [u64; 2] {
        let seen: u64 = self.seen.iter().map(|it| u64::from(*it)).sum();
        [self.all, self.all - seen]
    }

    /// Returns whether some of the threads' time was not sampled.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }
}

/// Returns the part of all that `seen` of `all` samples tell, and its error: half the longer side
/// of the interval of 95 in 100 (Wilson, *Journal of the American Statistical Association* 22,
/// 1927).
fn part(seen: u64, all: u64) -> Estimated {
    const STANDARD_ERRORS: f64 = 1.96;
    let (all, value) = (all as f64, seen as f64 / all as f64);
    let square = STANDARD_ERRORS * STANDARD_ERRORS / all;
    let middle = (value + square / 2.0) / (1.0 + square);
    let half = STANDARD_ERRORS / (1.0 + square) * (value * (1.0 - value) / all + square / (4.0 * all)).sqrt();
    Estimated { value, error: (middle + half - value).max(value - (middle - half)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_share_is_that_of_its_samples() {
        let is_about = |seen, all, value: f64, error: f64| {
            let part = part(seen, all);
            assert!((part.value - value).abs() < 1e-3 && (part.error - error).abs() < 1e-3, "{part:?}");
        };
        is_about(0, 100, 0.0, 0.037);
        is_about(100, 100, 1.0, 0.037);
        is_about(50, 100, 0.5, 0.096);
        is_about(9, 100, 0.09, 0.072);
        is_about(900, 10_000, 0.09, 0.006);
    }
}
