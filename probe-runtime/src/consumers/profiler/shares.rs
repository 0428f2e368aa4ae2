//! Shares of the CPU time, from a sampled clock: which function's code a thread was executing each
//! time it had used another period. A [`CodeMap`] finds the function of an address. Making it takes
//! a while for each site, once; the cost of samples does not depend on the number of sites.
//!
//! Samples lie at equal distances in a thread's own time, so the error of a share is at most that
//! of as many samples at random instants.
//!
//! # Which function's machine code is at an address
//! A machine function whose first site is an entry belongs to that function, from its beginning to
//! its end. Within it, the code between the entry and the last exit of an inlined copy of another
//! function belongs to that one; the innermost copy counts. In a machine function of a function
//! without probes, only such copies are known.
//!
//! ```text
//! f's machine function:  ├ f ─┬───── g ─────┬── f ──┬ …
//! sites:                   f↓   g↓  g↑   g↑   f↑
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::controller::SAMPLING_SHARE;
use super::estimate::Estimated;
use super::sampler::{Sampler, begins, is_of_call};
use crate::engine::control::{SitePlace, Switch, code_generation};
use crate::engine::dispatch::slots;
use crate::engine::os::cpu_samples::{CpuSamples, is_unfiltered, sample_cost};
use crate::engine::os::objects::Generation;

/// The CPU time of a thread between two samples, in nanoseconds: the shortest, and the longest one.
/// No round numbers, so that it is not in step with a program's own timers.
const MIN_PERIOD_NS: f64 = 1_009e3;
const MAX_PERIOD_NS: f64 = 20_011e3;
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
    code: CodeMap,
    /// The objects and the number of functions that `code` is of.
    as_of: Option<(Generation, usize)>,
    /// Samples in each function, and in all code.
    seen: Vec<u32>,
    all: u64,
    /// The functions of samples since they were last taken.
    recent: BTreeSet<usize>,
    /// Whether some threads were not sampled.
    is_partial: bool,
    /// The time that a sample takes, in nanoseconds, once it is known.
    cost: Option<f64>,
}

impl Shares {
    /// Starts without samples; `None` if the kernel does not permit sampling.
    pub(super) fn begin() -> Option<Self> {
        is_unfiltered().then(|| Self { threads: Some(BTreeMap::new()), ..Self::default() })
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
            self.code = CodeMap::new(&sites, functions, |site| {
                let act = sampler.act(site.probe);
                is_of_call(act).then(|| (act.function(), begins(act)))
            });
            self.as_of = Some((generation, functions));
            self.seen.resize(functions, 0);
        }
        self.all += addresses.len() as u64;
        for function in addresses.iter().filter_map(|address| self.code.function_at(*address)) {
            self.seen[function as usize] += 1;
            self.recent.insert(function as usize);
        }
    }

    /// Returns the functions that had samples since the last call.
    pub(super) fn take_recent(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.recent).into_iter().collect()
    }

    /// Returns whether the kernel permits samples.
    pub(super) fn is_sampling(&self) -> bool {
        self.threads.is_some()
    }

    /// Returns a function's part of the sampled time, from 0 to 1; `None` if nothing was sampled.
    pub(super) fn of(&self, function: usize) -> Option<Estimated> {
        (self.all != 0).then(|| wilson_interval(self.seen(function).into(), self.all))
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
fn wilson_interval(seen: u64, all: u64) -> Estimated {
    const STANDARD_ERRORS: f64 = 1.96;
    let (all, value) = (all as f64, seen as f64 / all as f64);
    let square = STANDARD_ERRORS * STANDARD_ERRORS / all;
    let median = (value + square / 2.0) / (1.0 + square);
    let half = STANDARD_ERRORS / (1.0 + square) * (value * (1.0 - value) / all + square / (4.0 * all)).sqrt();
    Estimated { value, error: (median + half - value).max(value - (median - half)) }
}

/// The farthest from the beginning of a machine function that its own entry is. Saving registers,
/// and touching each page of a large frame, comes before.
const MAX_ENTRY_OFFSET_BYTES: usize = 256;

/// The code of all functions, by address. Pure.
#[derive(Clone, Default, Debug)]
pub(super) struct CodeMap {
    /// Ranges of code and their functions, by their beginnings. Those of a machine function follow
    /// each other, the whole one first.
    ranges: Vec<(Range<usize>, u32)>,
    /// For each machine function with sites: its range, and its first in `ranges`.
    machine: Vec<(Range<usize>, usize)>,
}

impl CodeMap {
    /// Reads sites, by address. `part` returns the function of a site, and whether a call or a poll
    /// begins there; `None` if neither begins or ends there.
    pub(super) fn new(
        sites: &[SitePlace],
        functions: usize,
        part: impl Fn(&SitePlace) -> Option<(u32, bool)>,
    ) -> Self {
        let mut code = Self::default();
        // The last range that began of each function in the present machine function.
        let mut open = vec![usize::MAX; functions];
        for sites in sites.chunk_by(|a, b| a.around == b.around) {
            let (around, first) = (sites[0].around.clone(), code.ranges.len());
            let parts = || sites.iter().filter_map(|site| Some((site.addr, part(site)?)));
            let mut whole = parts()
                .next()
                .filter(|(addr, (_, begins))| *begins && addr - around.start <= MAX_ENTRY_OFFSET_BYTES);
            if parts().all(|(_, (_, begins))| !begins) {
                // The part of a function that is far from the rest, because it is seldom executed.
                whole = parts().last();
            }
            if let Some((_, (function, _))) = whole {
                code.ranges.push((around.clone(), function));
            }
            for (addr, (function, begins)) in parts() {
                let Some(open) = open.get_mut(function as usize) else { continue };
                if whole.is_some_and(|(_, (own, _))| own == function) {
                    continue;
                }
                if begins {
                    *open = code.ranges.len();
                    code.ranges.push((addr..addr, function));
                } else if *open >= first && *open < code.ranges.len() {
                    code.ranges[*open].0.end = addr;
                }
            }
            code.machine.push((around, first));
        }
        code
    }

    /// Returns the function whose code is at an address.
    pub(super) fn function_at(&self, addr: usize) -> Option<u32> {
        let at = self.machine.partition_point(|(around, _)| around.start <= addr).checked_sub(1)?;
        let (around, first) = &self.machine[at];
        let end = self.machine.get(at + 1).map_or(self.ranges.len(), |(_, first)| *first);
        let of_machine = self.ranges.get(*first..end).filter(|_| around.contains(&addr))?;
        of_machine.iter().rev().find(|(range, _)| range.contains(&addr)).map(|(_, function)| *function)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::registry::ProbeId;

    #[test]
    fn the_error_of_a_share_is_that_of_its_samples() {
        let is_about = |seen, all, value: f64, error: f64| {
            let part = wilson_interval(seen, all);
            assert!((part.value - value).abs() < 1e-3 && (part.error - error).abs() < 1e-3, "{part:?}");
        };
        is_about(0, 100, 0.0, 0.037);
        is_about(100, 100, 1.0, 0.037);
        is_about(50, 100, 0.5, 0.096);
        is_about(9, 100, 0.09, 0.072);
        is_about(900, 10_000, 0.09, 0.006);
    }

    /// Probe `2 n` is the entry of function `n`, and `2 n + 1` its exit.
    fn code(sites: &[(usize, usize, Range<usize>)]) -> CodeMap {
        let place = |(addr, probe, around): &(usize, usize, Range<usize>)| SitePlace {
            addr: *addr,
            probe: ProbeId::new(*probe),
            around: around.clone(),
        };
        let sites: Vec<_> = sites.iter().map(place).collect();
        let part = |site: &SitePlace| {
            let probe = site.probe.index();
            Some((u32::try_from(probe / 2).unwrap(), probe.is_multiple_of(2)))
        };
        CodeMap::new(&sites, 4, part)
    }

    fn at<const N: usize>(code: &CodeMap, addrs: [usize; N]) -> [Option<u32>; N] {
        addrs.map(|addr| code.function_at(addr))
    }

    #[test]
    fn code_between_the_sites_of_an_inlined_function_is_its_own() {
        let (one, other) = (100..200, 300..400);
        let code = code(&[
            // Function 0, with two copies of function 1 inside, the first of which has two exits.
            (104, 0, one.clone()),
            (110, 2, one.clone()),
            (120, 3, one.clone()),
            (130, 3, one.clone()),
            (150, 2, one.clone()),
            // In the second copy, one of function 2.
            (152, 4, one.clone()),
            (156, 5, one.clone()),
            (160, 3, one.clone()),
            (180, 1, one),
            // The exit of function 3, far from its entry.
            (310, 7, other),
        ]);
        assert_eq!(at(&code, [99, 100, 104, 109, 200, 250]), [None, Some(0), Some(0), Some(0), None, None]);
        assert_eq!(at(&code, [110, 125, 130, 149, 199]), [Some(1), Some(1), Some(0), Some(0), Some(0)]);
        assert_eq!(at(&code, [151, 152, 155, 156, 160]), [Some(1), Some(2), Some(2), Some(1), Some(0)]);
        assert_eq!(at(&code, [299, 300, 399, 400]), [None, Some(3), Some(3), None]);
    }

    #[test]
    fn code_without_probes_is_nobodys() {
        // Function 1 is inlined late in a function without probes, and has no exit in another.
        let code = code(&[(900, 2, 100..2000), (950, 3, 100..2000), (2500, 2, 2000..3000)]);
        assert_eq!(at(&code, [100, 899, 900, 949, 950]), [None, None, Some(1), Some(1), None]);
        assert_eq!(at(&code, [2000, 2500, 2501]), [None; 3]);
        assert_eq!(at(&CodeMap::default(), [7]), [None]);
    }
}
