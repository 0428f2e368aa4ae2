//! The words that lead calls to functions of modules, and the wrappers that they hold while a probe
//! is active.
//!
//! | a word holds | latent | active |
//! |---|---|---|
//! | the function's address | the same | the address of a wrapper of that function |
//! | an address in its own object: not bound yet | the same | a wrapper of the function to which the dynamic linker would bind it |
//! | an address that other code has written | the same: it is the function | left alone when the probe is latent again; the operation's report names it |
//!
//! One store changes a word, so threads find either. Its page gets the right to be written for that
//! time, where the dynamic linker has taken it away (RELRO). Pages that are yet to be sealed so
//! belong to an object that is being loaded, and are left to the next operation.
//!
//! Cost: two `mprotect` for each run of pages, and a look at the kernel's table of mappings.

// Safety: relies on the words being those of loaded objects, which can't be unloaded meanwhile.
// Calls load them whole.
#![expect(unsafe_code, reason = "see above")]

use std::collections::HashMap;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::look::Version;
use super::set::ModuleSet;
use crate::engine::entry::backend::wrapper::{WRAPPERS, Wrapper};
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::imports::ObjectImports;
use crate::engine::os::maps::Maps;
use crate::engine::os::objects::{Frozen, Object};
use crate::engine::os::text::pages;
use crate::engine::sites::{OpenText, Refusal, RefusalReason, Report, SiteAddr};

/// One word.
struct Slot {
    addr: usize,
    /// The function that it leads to.
    function: usize,
    /// Which of its names the object uses, and which version.
    version: Version,
    /// The number of its object.
    object: usize,
}

/// A word that holds a wrapper.
struct Armed {
    wrapper: Wrapper,
    /// Its value before.
    latent: usize,
}

/// All words of loaded objects, and the wrappers in use.
#[derive(Default)]
pub(super) struct Slots {
    words: Vec<Slot>,
    objects: Vec<ObjectImports>,
    /// The text of all objects.
    text: Vec<Range<usize>>,
    armed: HashMap<usize, Armed>,
    /// By the function's number, and its address.
    wrappers: HashMap<(usize, usize), Wrapper>,
    /// The functions to which the dynamic linker would bind words.
    addresses: HashMap<Version, usize>,
}

/// A word that is to change.
struct Due {
    slot: usize,
    from: usize,
    to: usize,
}

impl Slots {
    /// Looks for the words of loaded objects. Returns the objects that have some.
    pub(super) fn refresh(&mut self, set: &ModuleSet, frozen: &Frozen) -> Vec<Object> {
        let own = (pages as *const ()).addr();
        self.objects = frozen.imports(&|symbol| set.number_of(symbol), own);
        self.words.clear();
        for (number, object) in self.objects.iter_mut().enumerate() {
            let imports = mem::take(&mut object.imports).into_iter();
            self.words.extend(imports.map(|it| Slot {
                addr: it.slot.addr,
                function: set.symbols[it.name].1,
                version: (it.name, it.version),
                object: number,
            }));
        }
        self.words.sort_unstable_by_key(|slot| slot.addr);
        self.words.dedup_by_key(|slot| slot.addr);
        let is_there = |addr: &usize| self.words.binary_search_by_key(addr, |slot| slot.addr).is_ok();
        self.armed.retain(|addr, _| is_there(addr));
        let mut places = vec![0; set.functions.len()];
        self.words.iter().for_each(|slot| places[slot.function] += 1);
        for (function, places) in set.functions.iter().zip(places) {
            function.entry.set_places(places);
            function.exit.set_places(places);
        }
        let every = frozen.every();
        let segments = every.iter().flat_map(|object| &object.segments);
        self.text = segments.filter(|it| it.is_text).map(|it| it.range.clone()).collect();
        let has_slots = |object: &Object| {
            let starts = self.objects.iter().filter_map(|it| it.segments.first());
            starts.into_iter().any(|segment| object.holds(segment.start))
        };
        every.into_iter().filter(has_slots).collect()
    }

    /// Adds what the dynamic linker would bind words to.
    pub(super) fn learn(&mut self, addresses: HashMap<Version, usize>) {
        self.addresses.extend(addresses);
    }

    /// Brings the wrappers and words of these functions, by their numbers, into the state that
    /// their probes want. Returns whether some are left to the next operation.
    pub(super) fn bring(&mut self, set: &ModuleSet, functions: &[usize], report: &mut Report) -> bool {
        let _whole = Uncancellable::new();
        for ((number, _), wrapper) in &self.wrappers {
            let function = &set.functions[*number];
            wrapper.switch(function.entry.is_active(), function.exit.is_active());
        }
        let mut is_left = false;
        let mut due = Vec::new();
        for at in 0..self.words.len() {
            let number = self.words[at].function;
            if !functions.contains(&number) {
                continue;
            }
            let wanted =
                if set.functions[number].is_active() { self.wrapped(set, at) } else { self.restored(at) };
            match wanted {
                Ok(found) => due.extend(found),
                Err(None) => is_left = true,
                Err(Some(problem)) => self.refuse(at, problem, report),
            }
        }
        self.write(&due, report, &mut is_left);
        is_left
    }

    /// Returns how a word is led to a wrapper, if it is not. An error has a problem, or
    /// none if the next operation may succeed.
    fn wrapped(&mut self, set: &ModuleSet, at: usize) -> Result<Option<Due>, Option<String>> {
        let from = self.read(at);
        if Wrapper::at(from).is_some() {
            return Ok(None);
        }
        let Slot { function: number, version, object, .. } = &self.words[at];
        let number = *number;
        let is_own = self.objects[*object].segments.iter().any(|segment| segment.contains(&from));
        let address = if is_own { self.addresses.get(version).copied() } else { Some(from) };
        let address = address.filter(|it| self.text.iter().any(|text| text.contains(it))).ok_or(None)?;
        let known = self.wrappers.get(&(number, address)).copied();
        let wrapper = known.map_or_else(|| self.new_wrapper(set, number, address), Ok).map_err(Some)?;
        Ok(Some(Due { slot: at, from, to: wrapper.address() }))
    }

    /// Makes a wrapper of the function at this address.
    fn new_wrapper(&mut self, set: &ModuleSet, number: usize, address: usize) -> Result<Wrapper, String> {
        let next = Wrapper::new(self.wrappers.len());
        let new = next.ok_or_else(|| format!("all {WRAPPERS} wrappers are in use"))?;
        let function = &set.functions[number];
        new.begin(address, function.words, [function.entry.definition, function.exit.definition]);
        new.switch(function.entry.is_active(), function.exit.is_active());
        self.wrappers.insert((number, address), new);
        Ok(new)
    }

    /// Returns how a word gets its latent value back, if it has another one.
    fn restored(&mut self, at: usize) -> Result<Option<Due>, Option<String>> {
        let from = self.read(at);
        let Some(armed) = self.armed.get(&self.words[at].addr) else { return Ok(None) };
        let Armed { wrapper, latent } = *armed;
        if from == wrapper.address() {
            return Ok(Some(Due { slot: at, from, to: latent }));
        }
        self.armed.remove(&self.words[at].addr);
        // The dynamic linker was about to bind it.
        if from == latent || from == wrapper.function() {
            return Ok(None);
        }
        Err(Some(format!("other code has written {from:#x} there")))
    }

    fn write(&mut self, due: &[Due], report: &mut Report, is_left: &mut bool) {
        if due.is_empty() {
            return;
        }
        let mut maps = Maps::open().ok();
        let of = |all: &Self, due: &Due| all.words[due.slot].addr;
        let whole = |all: &Self, due: &Due| pages(of(all, due)..of(all, due) + 8);
        let runs: Vec<_> =
            due.chunk_by(|one, next| whole(self, one).end >= whole(self, next).start).collect();
        for run in runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let bytes = of(self, first)..of(self, last) + 8;
            let is_sealed = |due: &Due| {
                let slot = &self.words[due.slot];
                self.objects[slot.object].sealed.contains(&slot.addr)
            };
            let is_writable = |addr| {
                let mapping = maps.as_mut().and_then(|maps| maps.holding(addr).ok().flatten());
                mapping.is_some_and(|mapping| mapping.rights.write)
            };
            if run.iter().find(|due| is_sealed(due)).map(|due| of(self, due)).is_some_and(is_writable) {
                *is_left = true;
                continue;
            }
            match OpenText::new(bytes) {
                Ok(open) => {
                    run.iter().for_each(|due| self.store(due, report));
                    if open.close().is_err() {
                        report.add_unsealed();
                    }
                }
                Err(error) => {
                    let errno = error.errno().unwrap_or_default();
                    for due in run {
                        let at = SiteAddr(of(self, due));
                        report.refuse(Refusal::new(at, RefusalReason::Protected { errno }));
                    }
                }
            }
        }
    }

    /// Changes a word, unless other code has changed it just now.
    fn store(&mut self, due: &Due, report: &mut Report) {
        let addr = self.words[due.slot].addr;
        // SAFETY: an aligned word of a loaded object, which is writable now.
        let word = unsafe { AtomicUsize::from_ptr(addr as *mut usize) };
        if let Err(found) = word.compare_exchange(due.from, due.to, Ordering::SeqCst, Ordering::SeqCst) {
            return self.refuse(due.slot, format!("other code has just written {found:#x} there"), report);
        }
        match Wrapper::at(due.to) {
            Some(wrapper) => _ = self.armed.insert(addr, Armed { wrapper, latent: due.from }),
            None => _ = self.armed.remove(&addr),
        }
    }

    fn refuse(&self, at: usize, problem: String, report: &mut Report) {
        report.refuse(Refusal::new(SiteAddr(self.words[at].addr), RefusalReason::Slot { problem }));
    }

    fn read(&self, at: usize) -> usize {
        // SAFETY: an aligned word of a loaded object.
        unsafe { AtomicUsize::from_ptr(self.words[at].addr as *mut usize) }.load(Ordering::Acquire)
    }
}
