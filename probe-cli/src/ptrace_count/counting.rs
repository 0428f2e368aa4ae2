//! Counting hits in a running program, from the first switch of its sites to the last.
//!
//! ```text
//! start:           objects ▸ probes ▸ regions are mapped and written ▸ sites lead to them
//! disarm, release: sites are latent ▸ threads leave the stubs ▸ counts ▸ regions are unmapped
//! ```
//! A region is whole before a site leads to it, and no site and no thread is in it when it goes. So
//! a command that is killed in between leaves a program that counts, and [`Counting::found`] takes
//! that over. A command that is killed after its first `mmap`, before it has written the region's
//! first bytes, leaves zeros that nothing uses and no later command finds.
//!
//! A library that is unloaded takes its sites with it. Another library that is loaded there later
//! has no site that leads to a region, so nothing is written to it. The other library may be loaded
//! in the milliseconds between reading the tables and switching. If it has a latent site at the
//! same address, hits of that site get the name of the first library's probe.

use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use probe_inject::{InjectError, Memory, Process};
use probe_lang::Selector;
use probe_protocol::{Client, ClientError};
use rustix::process::{getpriority_process, setpriority_process};

use super::counter_page::{CounterRegion, MAX_REGIONS, MAX_SITES, choose_address};
use super::detach_stub::{STACK_SCAN_LIMIT, detach};
use super::instruction::{Code, Counted};
use super::select::{LoadedProbe, LoadedProbes, read_probes};
use super::switch::{Change, is_in_one_page, is_under_breakpoint, switch};
use crate::elf::Runtime;
use crate::output::Failure;
use crate::progress::Progress;
use crate::site_list::SiteList;
use crate::text::count;

/// The time for signal handlers that have interrupted a stub to end.
const HANDLER_TIMEOUT: Duration = Duration::from_secs(2);

/// The most probes that a note names.
const MAX_NAMES: usize = 3;

/// A program whose hits are counted.
pub struct Counting {
    process: Process,
    regions: Vec<CounterRegion>,
    /// A flag per region, once [`disarm`](Self::disarm) has ended: true if no thread can come back.
    are_free: Vec<bool>,
    probes: LoadedProbes,
    /// The sites that lead to counters.
    counted: HashSet<u64>,
    /// Lines about sites that are not counted.
    pub notes: Vec<String>,
}

/// The counters of each region, at one moment.
pub type Counters = Vec<Vec<u64>>;

/// The hits of a probe.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hits<'a> {
    /// The probe.
    pub row: &'a LoadedProbe,
    /// Number of its sites that are counted.
    pub sites: u64,
    /// Number of its hits.
    pub count: u64,
}

impl Counting {
    /// Opens a program, and begins to count the hits of a selector's probes, with those of a list.
    ///
    /// # Errors
    /// If it can't be traced, has no such probe, has an agent, or is counted already. All sites are
    /// latent then, unless the error tells otherwise.
    pub fn start(pid: u32, selector: &Selector, list: Option<&SiteList>) -> Result<Self, Failure> {
        let _progress = waiting(pid);
        let process = open_without_agent(pid)?;
        let mut counting = {
            let _priority = raise_priority();
            Self::open(process, list)?
        };
        if !counting.regions.is_empty() {
            let sites = count(counting.counters(), "site");
            return Err(Failure::Input(format!(
                "{sites} of process {pid} are counted from outside already; end that first: probectl disable -p {pid} --ptrace"
            )));
        }
        if !counting.probes.keep(selector) {
            let terms = selector.unmatched(counting.probes.rows().map(|it| &it.probe)).join(", ");
            let mut error = format!("no probe of process {pid} matches `{terms}`");
            for note in &counting.notes {
                let _ = write!(error, "; {note}");
            }
            return Err(Failure::NoMatch(error));
        }
        let error = match counting.arm() {
            Ok(()) if !counting.counted.is_empty() => return Ok(counting),
            Ok(()) => {
                let why = counting.notes.join("; ");
                Failure::Input(format!("no site of process {pid} can be counted: {why}"))
            }
            Err(error) => Failure::input(error),
        };
        Err(match counting.disarm().and_then(|()| counting.release()) {
            Ok(()) => error,
            Err(other) => Failure::Input(format!("{error}; {other}")),
        })
    }

    /// Opens a program whose hits an earlier command counts.
    ///
    /// # Errors
    /// If it can't be traced, or nothing is counted.
    pub fn found(pid: u32, list: Option<&SiteList>) -> Result<Self, Failure> {
        let _progress = waiting(pid);
        let mut counting = Self::open(open_without_agent(pid)?, list)?;
        if counting.regions.is_empty() {
            return Err(Failure::Input(format!("nothing of process {pid} is counted from outside")));
        }
        let memory = counting.process.memory();
        let active = counting.regions.iter().flat_map(active_sites).filter(|it| leads_to_stub(memory, it));
        counting.counted = active.map(|(site, _)| site.addr).collect();
        Ok(counting)
    }

    fn open(process: Process, list: Option<&SiteList>) -> Result<Self, Failure> {
        let pid = process.pid();
        let probes = read_probes(pid, process.memory(), list)?;
        let mut notes = probes.notes.clone();
        match &probes.owner {
            Some((object, Runtime { entry: Some(_), .. })) => {
                return Err(Failure::Input(format!(
                    "process {pid} has a runtime of its own, whose agent can be started; leave out --ptrace ({object})"
                )));
            }
            Some((object, _)) => notes.push(format!(
                "{object} has a runtime of its own, which can't attach to these sites meanwhile"
            )),
            None => (),
        }
        let maps = process.maps().map_err(Failure::input)?;
        let regions = CounterRegion::find(process.memory(), &maps);
        Ok(Self { process, regions, are_free: Vec::new(), probes, counted: HashSet::new(), notes })
    }

    /// Returns the process's id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the number of sites that are counted.
    pub fn sites(&self) -> u64 {
        self.counted.len() as u64
    }

    /// Returns the number of counters in all regions.
    fn counters(&self) -> u64 {
        self.regions.iter().map(|it| it.sites.len() as u64).sum()
    }

    fn arm(&mut self) -> Result<(), InjectError> {
        let _priority = raise_priority();
        let mut changes = Vec::new();
        let (mut refused, mut across) = (0, Vec::new());
        for object in 0..self.probes.objects.len() {
            let rows = &self.probes.objects[object];
            refused +=
                rows.iter().map(|it| it.probe.sites.len().saturating_sub(it.sites.len()) as u64).sum::<u64>();
            let mut sites: Vec<Counted> = Vec::new();
            for row in rows {
                for site in &row.sites {
                    if is_in_one_page(site) {
                        sites.push(*site);
                    } else {
                        across.push(format!("{} {}", row.probe.path, row.probe.kind.name()));
                    }
                }
            }
            sites.sort_unstable();
            // Functions that the linker has folded into one share a site.
            sites.dedup_by(|next, one| next.addr < one.end());
            match self.map_region(sites)? {
                Ok(region) => {
                    changes.extend(active_sites(&region).map(|(it, to)| Change {
                        site: it.addr,
                        from: it.code,
                        to,
                        restores: false,
                    }));
                    self.regions.push(region);
                }
                Err(sites) => {
                    refused += sites;
                    self.notes.push(format!(
                        "{} have no room for counters near them, or are too many",
                        count(sites, "site")
                    ));
                }
            }
        }
        let kept = switch(&mut self.process, &changes)?.refused;
        refused += kept.len() as u64;
        self.counted = changes.iter().map(|it| it.site).collect();
        kept.iter().for_each(|it| _ = self.counted.remove(&it.site));
        if !across.is_empty() {
            let more = if across.len() > MAX_NAMES { ", …" } else { "" };
            self.notes.push(format!(
                "not counted: {} across two pages, which can't be written at once ({}{more})",
                count(across.len() as u64, "site"),
                across[..across.len().min(MAX_NAMES)].join(", ")
            ));
        }
        if refused != 0 {
            self.notes
                .push(format!("{} are not counted: other code has written them", count(refused, "site")));
        }
        Ok(())
    }

    /// Maps a region for sites of one object. The inner error is the number of sites that can't
    /// have a region.
    fn map_region(&mut self, sites: Vec<Counted>) -> Result<Result<CounterRegion, u64>, InjectError> {
        let number = sites.len() as u64;
        let (Some(first), Some(last)) = (sites.first().map(|it| it.addr), sites.last().map(|it| it.addr))
        else {
            return Ok(Err(0));
        };
        let mut region = CounterRegion { base: 0, sites };
        let maps = self.process.maps()?;
        let length = region.code_length() + region.data_length();
        // A thread that got no processor may still be about to unmap another region's old place.
        let salt = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.subsec_nanos());
        let code = choose_address(&maps, first, last, length, salt.into()).and_then(|base| {
            region.base = base;
            region.code()
        });
        // A later command finds no more.
        let is_found = self.counters() + number <= MAX_SITES && self.regions.len() < MAX_REGIONS;
        let Some(code) = code.filter(|_| is_found) else { return Ok(Err(number)) };
        // A later command knows the region by the first bytes of its code, and unmaps its data with
        // it. So the data is there first.
        self.process.map(region.data(), region.data_length(), false)?;
        if let Err(error) = self.process.map(region.base, region.code_length(), true) {
            self.process.unmap(region.data(), region.data_length())?;
            return Err(error);
        }
        if let Err(error) = self.process.memory().write(region.base, &code) {
            self.process.unmap(region.base, length)?;
            let step = "its memory can't be written";
            return Err(InjectError::System { pid: self.process.pid(), step, error });
        }
        Ok(Ok(region))
    }

    /// Reads all counters. Nothing stops for that.
    ///
    /// # Errors
    /// If the process is gone.
    pub fn read(&self) -> Result<Counters, Failure> {
        let memory = self.process.memory();
        let counters = self.regions.iter().map(|region| {
            let bytes = memory.bytes(region.data(), 8 * region.sites.len());
            let bytes = bytes.map_err(|_| Failure::input(InjectError::NoProcess(self.process.pid())))?;
            let words = bytes.chunks_exact(8);
            Ok(words.map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default())).collect())
        });
        counters.collect()
    }

    /// Returns the hits of each probe that has counted sites.
    pub fn hits(&self, counters: &Counters) -> Vec<Hits<'_>> {
        let regions = self.regions.iter().zip(counters);
        let counts: HashMap<_, _> = regions
            .flat_map(|(it, counters)| it.sites.iter().map(|it| it.addr).zip(counters.iter().copied()))
            .collect();
        let hits = self.probes.rows().filter_map(|row| {
            let counted = row.sites.iter().filter(|site| self.counted.contains(&site.addr));
            let own: Vec<u64> = counted.filter_map(|site| counts.get(&site.addr).copied()).collect();
            (!own.is_empty()).then(|| Hits { row, sites: own.len() as u64, count: own.iter().sum() })
        });
        hits.collect()
    }

    /// Returns the number of counted sites that no known probe has, and that of their hits.
    pub fn unnamed(&self, counters: &Counters) -> (u64, u64) {
        let named: HashSet<_> = self.probes.rows().flat_map(|it| &it.sites).map(|it| it.addr).collect();
        let all = self.regions.iter().zip(counters).flat_map(|(it, counters)| it.sites.iter().zip(counters));
        let unnamed = all.filter(|(it, _)| self.counted.contains(&it.addr) && !named.contains(&it.addr));
        unnamed.fold((0, 0), |(sites, hits), (_, counter)| (sites + 1, hits + counter))
    }

    /// Restores all sites and all calls of hooks, and leads all threads out of the stubs. All hits
    /// are counted then, but for those of a thread in a signal handler that has interrupted a stub.
    ///
    /// # Errors
    /// If threads can't be stopped, or the text can't be written.
    pub fn disarm(&mut self) -> Result<(), Failure> {
        let _priority = raise_priority();
        let active = self.regions.iter().flat_map(active_sites);
        let change =
            |(it, from): (Counted, Code)| Change { site: it.addr, from, to: it.code, restores: true };
        let changes: Vec<_> = active.map(change).collect();
        // Sites that never became active, or that somebody else has written, are left alone.
        let detached = switch(&mut self.process, &changes).and_then(|switched| {
            if switched.under_breakpoints != 0 {
                self.notes.push(format!(
                    "hits of {} may be missing: a uprobe or a breakpoint came onto the instruction meanwhile",
                    count(switched.under_breakpoints, "site")
                ));
            }
            self.detach_threads()
        });
        detached.map_err(|error| {
            Failure::Input(format!(
                "{error}; its sites may be active still, which harms nothing: `probectl disable --ptrace` tries again"
            ))
        })
    }

    /// Leads threads out of all stubs, and notes which regions are free then.
    fn detach_threads(&mut self) -> Result<(), InjectError> {
        let maps = self.process.maps()?;
        let (process, regions) = (&mut self.process, &self.regions[..]);
        // A thread without registers is one that has ended.
        let left = process.halt(|halted| detach(halted, regions, &maps).ok())?;
        self.are_free = left.unwrap_or_default();
        Ok(())
    }

    /// Unmaps the regions, once no thread can come back to them. None comes back while their sites
    /// are latent. If a thread may come back for too long, a note says that the memory stays.
    ///
    /// # Errors
    /// If threads can't be stopped.
    pub fn release(&mut self) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            self.unmap_free()?;
            if self.regions.is_empty() {
                return Ok(());
            }
            if begun.elapsed() > HANDLER_TIMEOUT {
                self.notes.push(format!(
                    "the memory of {} stays: a site leads to it, a thread may come back to it from the \
                     handler of a signal, or all stacks can't be read within {STACK_SCAN_LIMIT:?}; \
                     `probectl disable --ptrace` tries again",
                    count(self.counters(), "counter")
                ));
                return Ok(());
            }
            // Back off for as long as the program was stopped.
            thread::sleep(STACK_SCAN_LIMIT);
            self.detach_threads().map_err(Failure::input)?;
        }
    }

    /// Unmaps each region that is free and to which no site leads.
    fn unmap_free(&mut self) -> Result<(), Failure> {
        for at in (0..self.regions.len()).rev() {
            let region = &self.regions[at];
            if self.are_free.get(at) == Some(&true) && self.is_latent(region) {
                let (base, length) = (region.base, region.code_length() + region.data_length());
                let _priority = raise_priority();
                self.process.unmap(base, length).map_err(Failure::input)?;
                self.regions.swap_remove(at);
                self.are_free.swap_remove(at);
            }
        }
        Ok(())
    }

    /// Returns whether no site leads to a region. A site that can't be read was in an object that
    /// is unloaded.
    fn is_latent(&self, region: &CounterRegion) -> bool {
        !active_sites(region).any(|it| leads_to_stub(self.process.memory(), &it))
    }

    /// Returns the longest time for which a thread was stopped.
    pub fn longest_stop(&self) -> Duration {
        self.process.longest_stop()
    }
}

/// Shows that a process is waited for: for another command, or for its threads.
pub fn waiting(pid: u32) -> Progress {
    Progress::start(&format!("waiting for process {pid}"), 0)
}

/// Opens a process without an agent.
fn open_without_agent(pid: u32) -> Result<Process, Failure> {
    match Client::connect(pid) {
        Err(ClientError::NoAgent { .. }) => Process::open(pid).map_err(Failure::input),
        Err(error @ ClientError::NoProcess(_)) => Err(Failure::input(error)),
        Err(error) => Err(Failure::Input(format!("process {pid} may have an agent: {error}"))),
        Ok(_) => Err(Failure::Input(format!(
            "process {pid} has an agent, which switches its sites; leave out --ptrace"
        ))),
    }
}

/// Returns whether an instruction leads to its stub, or will once a uprobe has left it.
fn leads_to_stub(memory: &Memory, it: &(Counted, Code)) -> bool {
    let (site, active) = it;
    let bytes = memory.bytes(site.addr, active.bytes().len());
    bytes.is_ok_and(|bytes| bytes == active.bytes() || is_under_breakpoint(&bytes, active.bytes()))
}

/// Returns the sites of a region, and the instruction that leads each to its stub.
fn active_sites(region: &CounterRegion) -> impl Iterator<Item = (Counted, Code)> {
    region.sites.iter().enumerate().filter_map(|(at, site)| Some((*site, region.active(at)?)))
}

/// The nice value of the highest priority.
const HIGHEST: i32 = -20;

/// Lets this thread run before other threads of its session and control group, until it is dropped.
/// Threads that it starts meanwhile keep the priority.
///
/// It is no real-time priority. The work reads tables and lists of mappings before sites are
/// switched. A hostile program may have made these large, so that it takes long, and other threads
/// still get a part of the processor.
struct RaisedPriority {
    /// The nice value that the thread had.
    before: i32,
}

/// Raises the thread's priority; `None` without the right (`CAP_SYS_NICE`, or `RLIMIT_NICE`). Linux
/// has a nice value for each thread, so others keep theirs.
fn raise_priority() -> Option<RaisedPriority> {
    let before = getpriority_process(None).ok()?;
    setpriority_process(None, HIGHEST).ok()?;
    Some(RaisedPriority { before })
}

impl Drop for RaisedPriority {
    fn drop(&mut self) {
        // A value that is not lower needs no right.
        let _ = setpriority_process(None, self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_priority_back() {
        let nice = || getpriority_process(None).unwrap();
        let before = nice();
        let raised = raise_priority();
        assert_eq!(nice(), if raised.is_some() { HIGHEST } else { before });
        drop(raised);
        assert_eq!(nice(), before);
    }
}
