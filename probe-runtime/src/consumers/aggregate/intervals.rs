//! Intervals from one hit to another one of the same key, on one thread: `until` and `held`.
//!
//! ```text
//! a hit that begins ▸ its group, as of any hit ▸ the shared key ▸ open (this thread's)
//! a hit that ends   ▸ the shared key           ▸ open ▸ the time is added to that group
//! ```
//! A function begins an interval at its exit, and ends one at its entry, if both are selected.
//!
//! Nothing is guessed: an end without a beginning is counted, and nothing is paired across a switch
//! of sites ([generation](crate::Event::generation)), or with a thread that has ended.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use super::hit::KeySource;
use super::key::Key;
use super::open::{OPEN_WORDS, OpenCounts, OpenHead, OpenTable, Owner};
use super::roles::Roles;
use crate::consumers::filter::{CallFilter, HitContext};
use crate::engine::by_probe::ByProbe;
use crate::engine::clock::{Clock, Scale};
use crate::engine::control::{ForkSafe, ProbeSet, Switch};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, PerThread};
use crate::engine::registry::ProbeId;
use crate::engine::sites::Visibility;
use probe_lang::expression::{Fault, Program};
use probe_report::reports::OpenInterval;
use probe_report::was;

/// The data that hits of intervals use.
pub(super) struct Intervals {
    memory: PerThread<OpenHead, AtomicU64>,
    /// The probes that end intervals, and which of their hits do.
    ends: ByProbe<SharedKey>,
    pub(super) filter: CallFilter,
    /// Whether any probe is known that ends intervals.
    has_ends: AtomicBool,
    /// Of all probes so far.
    pub(super) roles: ForkSafe<Roles>,
    clock: Clock,
    scale: Scale,
    switch: OnceLock<Switch>,
    /// The generation that the last pause has ended.
    paused: AtomicU32,
    /// While paused: the last generation with hits, and the time up to which it was.
    readable: AtomicU32,
    readable_at: AtomicU64,
}

/// The key that the hits of an interval share, at one of them.
pub(super) struct SharedKey {
    /// A number for each module, so that keys of two modules differ.
    pub(super) subject: u32,
    /// See [`Key::room`].
    pub(super) room: usize,
    /// None if the thread alone is shared.
    pub(super) source: Option<KeySource>,
    /// The interval begins only if it holds.
    pub(super) condition: Option<Program>,
    /// If it holds, the interval is counted. Of `until`, the filter decides.
    pub(super) predicate: Option<Program>,
}

impl SharedKey {
    /// Begins the key.
    #[inline(always)]
    pub(super) fn key(&self) -> Key {
        Key::new(self.subject, self.room)
    }

    /// Returns whether a hit begins an interval.
    #[inline(always)]
    pub(super) fn holds(&self, event: &Event<'_>, context: &HitContext<'_>) -> Result<bool, Fault> {
        let Some(condition) = &self.condition else { return Ok(true) };
        condition.quick(event.values()).map_or_else(|| condition.passes(event.values(), context), Ok)
    }
}

impl Intervals {
    pub(super) fn of(probes: &ProbeSet) -> Result<Self, Error> {
        let clock = Clock::new();
        Ok(Self {
            memory: PerThread::new(OPEN_WORDS)?,
            ends: ByProbe::new(probes.numbers()),
            filter: CallFilter::new(),
            has_ends: AtomicBool::new(false),
            roles: ForkSafe::new(Roles::default()),
            clock,
            scale: clock.scale(),
            switch: OnceLock::new(),
            paused: AtomicU32::new(0),
            readable: AtomicU32::new(0),
            readable_at: AtomicU64::new(0),
        })
    }

    fn table<'a>(local: &Local<'a, OpenHead, AtomicU64>) -> OpenTable<'a> {
        OpenTable { head: local.head(), words: local.parts() }
    }

    pub(super) fn attached(&self, switch: &Switch) {
        self.filter.attached(switch);
        let _ = self.switch.set(switch.clone());
    }

    /// Adds probes that end intervals. One thread at a time calls it.
    pub(super) fn add_ends(&self, ends: Vec<(ProbeId, SharedKey)>) {
        self.has_ends.fetch_or(!ends.is_empty(), Relaxed);
        self.ends.add(ends);
    }

    /// Switches these probes on.
    pub(super) fn switch_on(&self, probes: &[ProbeId]) {
        if let Some(switch) = self.switch.get().filter(|_| !probes.is_empty()) {
            let _ = switch.on(probes, Visibility::Synchronous);
        }
    }

    /// Returns whether hits of a probe are needed for the ends of intervals.
    pub(super) fn needs(&self, probe: ProbeId) -> bool {
        self.ends.get(probe).is_some()
    }

    /// Returns the hits of threads without memory.
    pub(super) fn lost(&self) -> u64 {
        self.memory.lost()
    }

    /// Begins an interval of a group.
    #[inline(always)]
    pub(super) fn begin(&self, event: &Event<'_>, key: &Key, group: u64) {
        if let Some(local) = self.memory.of(event) {
            Self::table(&local).begin(owner(event), key, group, || self.clock.now());
        }
    }

    /// Counts a hit whose group has no key.
    #[cold]
    pub(super) fn without_key(&self, event: &Event<'_>) {
        if let Some(local) = self.memory.of(event) {
            Self::table(&local).without_key();
        }
    }

    /// Returns the key of a hit that ends intervals.
    #[inline(always)]
    pub(super) fn end_of(&self, event: &Event<'_>) -> Option<&SharedKey> {
        self.ends.get(event.probe())
    }

    #[inline(always)]
    pub(super) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Ends an interval. Returns the handle of its group, and its nanoseconds.
    #[inline(always)]
    pub(super) fn end(&self, event: &Event<'_>, key: &Key, now: u64) -> Option<(u64, i64)> {
        let ended = Self::table(&self.memory.of(event)?).end(owner(event), key, now)?;
        Some((ended.group, i64::try_from(self.scale.nanoseconds(ended.ticks)).unwrap_or(i64::MAX)))
    }

    /// Returns the open intervals, by the handles of their groups.
    pub(super) fn open(&self) -> HashMap<u64, Vec<OpenInterval>> {
        let (generation, until) = self.readable_state();
        let read = |local: Local<'_, OpenHead, AtomicU64>| {
            let (thread, is_alive, table) = (local.thread(), local.is_alive(), Self::table(&local));
            let (open, name) = (table.read(Owner { thread, generation }), local.thread_name());
            (thread, name, is_alive, open, table.last_unknown_ends())
        };
        let threads: Vec<_> = self.memory.iter().map(read).collect();
        let mut all = HashMap::<u64, Vec<OpenInterval>>::new();
        for (at, (thread, name, is_alive, open, _)) in threads.iter().enumerate() {
            let others = threads.iter().enumerate().filter(|(other, _)| *other != at);
            let ends: Vec<_> = others.map(|(_, it)| &it.4).collect();
            for read in open {
                all.entry(read.group).or_default().push(OpenInterval {
                    thread: *thread,
                    thread_name: name.clone(),
                    elapsed: self.scale.nanoseconds(until.saturating_sub(read.begun)),
                    has_thread_ended: !is_alive,
                    may_have_ended: ends.iter().any(|ends| ends.may_have(read)),
                });
            }
        }
        all
    }

    /// Notes the generation that a pause ends. A further pause ends one without hits.
    pub(super) fn pausing(&self) {
        let generation = self.generation().unwrap_or_default();
        if !self.is_paused(generation) {
            self.readable_at.store(self.clock.now(), Relaxed);
            self.readable.store(generation, Relaxed);
        }
        self.paused.store(generation, Release);
    }

    /// A pause begins a generation, and ends it when all sites are latent.
    fn is_paused(&self, generation: u32) -> bool {
        matches!(generation.wrapping_sub(self.paused.load(Acquire)), 1 | 2)
    }

    fn generation(&self) -> Option<u32> {
        self.switch.get().and_then(Switch::generation)
    }

    /// Returns the generation whose open intervals are known, and the time up to which they are:
    /// of a paused attachment, that of the pause.
    fn readable_state(&self) -> (u32, u64) {
        match self.generation() {
            Some(generation) if !self.is_paused(generation) => (generation, self.clock.now()),
            _ => (self.readable.load(Relaxed), self.readable_at.load(Relaxed)),
        }
    }

    /// Returns lines on hits that have measured nothing.
    pub(super) fn notes(&self) -> Vec<String> {
        let (mut all, (generation, _)) = (OpenCounts::default(), self.readable_state());
        for local in self.memory.iter() {
            let counts = Self::table(&local).counts(Owner { thread: local.thread(), generation });
            all.nested += counts.nested;
            all.no_room += counts.no_room;
            all.no_key += counts.no_key;
            all.switched += counts.switched;
            all.thread_ended += counts.thread_ended;
            all.unknown_ends += counts.unknown_ends;
        }
        let mut notes = self.filter.notes();
        let lines = [
            (
                all.unknown_ends,
                "end",
                "without a beginning: it was of another thread, before this was attached or switched, or \
                 left out",
            ),
            (all.nested, "beginning", "inside of an interval of the same key, whose outermost one counts"),
            (
                all.switched,
                "interval",
                "open while probes were switched, so that the end may have been missed",
            ),
            (all.thread_ended, "interval", "open at the end of the thread"),
            (all.no_key, "beginning", "left out: there is no room for their groups, which have their keys"),
            (all.no_room, "beginning", "left out: there is no room for more open intervals of a thread"),
        ];
        let counted = lines.into_iter().filter(|(count, ..)| *count != 0);
        notes.extend(counted.map(|(count, noun, what)| format!("{} {what}", was(count, noun))));
        if !self.has_ends.load(Relaxed) {
            notes.push("no selected probe ends intervals".to_owned());
        }
        notes
    }
}

#[inline(always)]
fn owner(event: &Event<'_>) -> Owner {
    Owner { thread: event.thread(), generation: event.generation() }
}
