//! Finds the calls of hooks in loaded objects before they run.
//!
//! ```text
//! words that lead to the hooks ▸ references to them in the text ▸ the functions around those,
//! decoded from the file ▸ compared with the text ▸ published, as a first hit does
//! ```
//! A call that several functions share ([`assign`]) is published for each, and stays a real call
//! ([`shared_calls`]). A call that has no function is left to its first hit.
//!
//! Life: from [`begin`] on, each operation looks at the objects that have come since the last one,
//! once each. Words that the dynamic linker would bind here at their first use are bound. An object
//! that another thread is still loading is looked at by a later operation.
//! Cost: a pass over the text, and decoding each function that refers to a hook.

// Safety: relies on `Frozen`: text and words in a loaded object's segments stay mapped.
#![expect(unsafe_code, reason = "see above")]

use std::collections::HashMap;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::call::read_call;
use super::call_site::Hit;
use super::naming::Names;
use super::provider::ControlLocked;
use super::reconcile::{KnownObject, LoadedObjects, is_present};
use super::redirection::{self, Redirection};
use super::table::{self, CallEntry, FoundBy, publish};
use super::tail_jumps::{matches_loaded, value_in};
use super::{chunk, shared_calls};
use crate::engine::clock::counter;
use crate::engine::control::PeriodicDiscovery;
use crate::engine::dispatch::{ReadGuard, is_outside};
use crate::engine::os::objects::{Frozen, Generation, Object, freeze};
use crate::engine::registry::provider::{begin_look, has_ended, looks};
use probe_core::abi::Kind;
use probe_hooks::{Fragment, HookTargets, HookUse, assign, hook_uses};

const KINDS: [Kind; 2] = [Kind::Entry, Kind::Exit];

static IS_ON: AtomicBool = AtomicBool::new(false);
/// The addresses of the hooks, by their kinds.
static HOOKS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// Lets operations find calls of these hooks ahead from now on. The caller holds no lock.
pub(super) fn begin(hooks: [usize; 2]) {
    redirection::look_up(hooks);
    for (at, hook) in HOOKS.iter().zip(hooks) {
        at.store(hook, Ordering::Relaxed);
    }
    IS_ON.store(true, Ordering::Release);
}

/// Returns whether operations find calls ahead.
pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::Acquire)
}

/// Text of an object, and the number of the look that found calls of the hooks in it; 0 if the
/// object has no such calls.
struct Text {
    start: AtomicUsize,
    end: AtomicUsize,
    look: AtomicUsize,
}

/// The number of texts that can be published. Further ones count as known.
const MAX_TEXTS: usize = 256;

/// The text that looks have covered. Unused places are at the end, and have an `end` of 0.
static TEXTS: [Text; MAX_TEXTS] =
    [const { Text { start: AtomicUsize::new(0), end: AtomicUsize::new(0), look: AtomicUsize::new(0) } };
        MAX_TEXTS];

/// The number of looks at the moment when a thread last gave up waiting for one.
static GAVE_UP_AT_LOOK: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Limits how long a thread waits for a look to begin, in ticks of the processor's counter:
/// half a second at 4 GHz, a second at 2. A look is due every 300 ms.
const MAX_TICKS_WITHOUT_LOOK: u64 = 2_000_000_000;
/// Limits the whole wait, in the same ticks. A running look waits for no lock but the heap's.
const MAX_TICKS_OF_WAIT: u64 = 10 * MAX_TICKS_WITHOUT_LOOK;

/// The number of looks that are running.
static RUNNING_LOOKS: AtomicUsize = AtomicUsize::new(0);
/// The number of looks that have ended, with or without a finding.
static ENDED_LOOKS: AtomicUsize = AtomicUsize::new(0);

/// A running look, until it is dropped.
struct RunningLook(());

impl RunningLook {
    fn begin() -> Self {
        RUNNING_LOOKS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for RunningLook {
    fn drop(&mut self) {
        RUNNING_LOOKS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Publishes the text that looks have covered, for hooks. Hooks read the places at the same time.
/// So a known text stays in its place, and a place that changes holds an empty range for a moment.
fn publish_texts(mut texts: Vec<(Range<usize>, usize)>) {
    let range = |place: &Text| place.start.load(Ordering::Relaxed)..place.end.load(Ordering::Relaxed);
    let used = || TEXTS.iter().take_while(|it| it.end.load(Ordering::Relaxed) != 0);
    for place in used() {
        if let Some(known) = texts.iter().position(|(text, _)| *text == range(place)) {
            place.look.store(texts.swap_remove(known).1, Ordering::SeqCst);
        } else {
            place.start.store(usize::MAX, Ordering::SeqCst);
            // Places behind it are in use.
            place.end.store(1, Ordering::SeqCst);
        }
    }
    let free = TEXTS.iter().filter(|place| range(place).is_empty());
    for (place, (text, look)) in free.zip(texts) {
        place.start.store(usize::MAX, Ordering::SeqCst);
        place.look.store(look, Ordering::SeqCst);
        place.end.store(text.end, Ordering::SeqCst);
        place.start.store(text.start, Ordering::SeqCst);
    }
}

/// Returns the number of the look that covered the text of an address. Returns 0 if the text counts
/// as known, and `None` if no look has covered it.
fn look_at(addr: usize) -> Option<usize> {
    // If there are too many objects, the text of the others counts as known.
    let is_full = TEXTS[TEXTS.len() - 1].end.load(Ordering::Acquire) != 0;
    let texts = TEXTS.iter().take_while(|it| it.end.load(Ordering::Acquire) != 0);
    let mut of =
        texts.filter(|it| (it.start.load(Ordering::Acquire)..it.end.load(Ordering::Acquire)).contains(&addr));
    of.next().map(|it| it.look.load(Ordering::Acquire)).or(is_full.then_some(0))
}

/// Waits until another thread's operation has looked at the object of a call, if that object came
/// after the last look, and until consumers have its calls.
///
/// The wait makes no system call, so it can't request an operation. Threads that look periodically
/// do so every 300 ms. A thread that others may wait for does not wait. The wait ends when a look
/// that began after it has not found the object. It is limited: this thread may hold a lock that
/// the operation needs, the heap's or the dynamic linker's, and then no look begins.
pub(super) fn await_look(returns: usize, function: usize) {
    // A jump to a hook returns to anywhere, and a function may be named by another object's
    // address.
    let look = || look_at(returns).or_else(|| look_at(function));
    let is_known = || look().is_some_and(has_ended);
    if is_known()
        || !is_outside()
        || !PeriodicDiscovery::is_running()
        || GAVE_UP_AT_LOOK.load(Ordering::Relaxed) == looks()
    {
        return;
    }
    // The system's clock may take a system call. Ticks of any length bound the wait.
    let (ended_looks, begun) = (ENDED_LOOKS.load(Ordering::SeqCst), counter());
    let mut idle = begun;
    while !is_known() {
        let (now, is_found) = (counter(), look().is_some());
        if is_found || RUNNING_LOOKS.load(Ordering::SeqCst) != 0 {
            idle = now;
        }
        // The first of two that end may have begun before.
        let is_missed = !is_found && ENDED_LOOKS.load(Ordering::SeqCst) >= ended_looks + 2;
        let is_late = now.saturating_sub(idle) > MAX_TICKS_WITHOUT_LOOK
            || now.saturating_sub(begun) > MAX_TICKS_OF_WAIT;
        if is_missed || is_late || !PeriodicDiscovery::is_running() {
            return GAVE_UP_AT_LOOK.store(looks(), Ordering::Relaxed);
        }
        std::hint::spin_loop();
    }
}

fn hook(kind: Kind) -> usize {
    HOOKS[usize::from(kind == Kind::Exit)].load(Ordering::Relaxed)
}

/// The objects that were looked at, for the provider.
#[derive(Default)]
pub(super) struct Ahead {
    /// The generation of the last complete look; `None` if another look may find more.
    generation: Option<Generation>,
    last: Generation,
    /// The objects' hashes.
    seen: HashMap<u64, SeenObject>,
}

/// An object that was looked at.
#[derive(Default)]
struct SeenObject {
    /// The key of a call that was found there.
    key: Option<usize>,
    /// Its text, once no further look is needed.
    texts: Vec<Range<usize>>,
    look: usize,
}

/// An object with calls of the hooks.
struct CallingObject {
    hash: u64,
    hook_targets: HookTargets,
    /// Addresses in the text that refer to the hooks, ascending.
    references: Vec<usize>,
}

impl Ahead {
    /// Finds calls in objects that have come. Returns whether some were found.
    pub(super) fn look(
        &mut self,
        _locked: &ControlLocked,
        loaded: &mut LoadedObjects,
        names: &mut Names,
        redirection: &mut Redirection,
    ) -> bool {
        if !is_on() {
            return false;
        }
        let last = self.last;
        let calling = freeze(|frozen| {
            let _running = RunningLook::begin();
            self.calling(frozen, loaded, redirection)
        });
        let mut has_found = false;
        let has_come = !calling.is_empty();
        let look = if has_come { begin_look() } else { 0 };
        for CallingObject { hash, hook_targets, references } in calling {
            let running = RunningLook::begin();
            let known = loaded.all().iter().find(|known| known.hash == hash);
            let functions = known.map(|known| names.around(known, &references)).unwrap_or_default();
            let decoded = functions.into_iter().map(|fragments| {
                let mut uses = hook_uses(&fragments, |target| hook_targets.hook(target)).unwrap_or_default();
                uses.retain(|it| !it.functions.is_empty());
                (fragments, uses)
            });
            let decoded: Vec<_> = decoded.filter(|(_, uses)| !uses.is_empty()).collect();
            drop(running);
            has_found |= freeze(|frozen| {
                let _running = RunningLook::begin();
                loaded.renew(frozen);
                let known = loaded.all().iter().find(|known| known.hash == hash);
                known.is_some_and(|known| self.publish(frozen, known, &decoded))
            });
            if let Some((seen, known)) =
                self.seen.get_mut(&hash).zip(loaded.all().iter().find(|it| it.hash == hash))
            {
                let texts = known.object.segments.iter().filter(|segment| segment.is_text);
                (seen.texts, seen.look) = (texts.map(|it| it.range.clone()).collect(), look);
            }
        }
        if has_come {
            chunk::reserve();
            table::reserve();
        }
        if has_come || self.last != last {
            self.publish_texts();
        }
        ENDED_LOOKS.fetch_add(1, Ordering::SeqCst);
        has_found
    }

    /// Tells hooks the text that was looked at.
    fn publish_texts(&self) {
        publish_texts(
            self.seen.values().flat_map(|it| it.texts.iter().map(|text| (text.clone(), it.look))).collect(),
        );
    }

    /// Returns the objects that were not looked at yet, and that call the hooks.
    fn calling(
        &mut self,
        frozen: &Frozen,
        loaded: &mut LoadedObjects,
        redirection: &mut Redirection,
    ) -> Vec<CallingObject> {
        let generation = frozen.generation();
        if self.generation == Some(generation) {
            return Vec::new();
        }
        redirection.begin(frozen);
        loaded.renew(frozen);
        if !generation.has_lost_none_since(self.last) {
            self.forget_unloaded(frozen, loaded);
        }
        (self.generation, self.last) = (Some(generation), generation);
        let is_text = |addr| loaded.at(addr).is_some();
        let (words, unbound) = redirection::words_to_hooks(frozen, is_text);
        let mut calling = Vec::new();
        for KnownObject { object, hash } in loaded.all() {
            if self.seen.contains_key(hash) {
                continue;
            }
            if unbound.iter().any(|word| object.holds(*word)) {
                // The dynamic linker has yet to fill it.
                self.generation = None;
                continue;
            }
            self.seen.insert(*hash, SeenObject::default());
            let own = words.iter().copied().filter(|(word, _)| object.holds(*word));
            let hooks = KINDS.map(|kind| (hook(kind), kind)).into_iter();
            // Code that is linked with this crate calls it directly. A library with a copy of this
            // crate has no such code, or none that runs before it is loaded.
            let hooks = hooks.filter(|(hook, _)| object.is_main && object.holds(*hook));
            let mut hook_targets = HookTargets::new(own, hooks);
            let texts = object.segments.iter().filter(|segment| segment.is_text).map(|it| it.range.clone());
            if hook_targets.is_empty() {
                // Threads do not wait for another look at it. It may have found the hooks by
                // `dlsym`.
                self.seen.insert(*hash, SeenObject { texts: texts.collect(), ..SeenObject::default() });
                continue;
            }
            let texts: Vec<_> = texts.collect();
            for text in &texts {
                each_part(frozen, text, |code, base| hook_targets.add_entries(code, base));
            }
            let mut references = Vec::new();
            for text in &texts {
                each_part(frozen, text, |code, base| references.extend(hook_targets.references(code, base)));
            }
            references.sort_unstable();
            references.dedup();
            calling.push(CallingObject { hash: *hash, hook_targets, references });
        }
        calling
    }

    /// Forgets objects that are gone, or that may have been loaded anew.
    fn forget_unloaded(&mut self, frozen: &Frozen, loaded: &LoadedObjects) {
        self.seen.retain(|hash, SeenObject { key, .. }| {
            let Some(known) = loaded.all().iter().find(|known| known.hash == *hash) else { return false };
            let found = key.and_then(table::find).and_then(CallEntry::discovery);
            known.object.is_main || found.is_some_and(|found| is_present(frozen, found, known))
        });
    }

    /// Puts the found calls into the table. Returns whether there were any.
    fn publish(
        &mut self,
        _frozen: &Frozen,
        known: &KnownObject,
        decoded: &[(Vec<Fragment>, Vec<HookUse>)],
    ) -> bool {
        // A thread without memory for its slot finds nothing; the calls' first hits do.
        let Some(inside) = ReadGuard::new() else { return false };
        let object = &known.object;
        let mut has_found = false;
        // The file may have been replaced since the object was loaded.
        let is_loaded = |fragments: &[Fragment]| fragments.iter().all(|it| matches_loaded(it, object, &[]));
        let decoded = decoded.iter().filter(|(fragments, _)| is_loaded(fragments));
        let decoded = decoded
            .map(|(_, uses)| uses.iter().map(|it| (it, functions_told(object, it))).collect())
            .collect();
        for (hook_use, functions) in assign(decoded) {
            let hook = hook(hook_use.kind);
            // SAFETY: in the text of a loaded object, which the comparison has found there.
            let call = hook_use.returns().and_then(|returns| unsafe { read_call(returns, hook) });
            for (number, (function, at)) in functions.iter().enumerate() {
                let hit = Hit { function: *function, kind: hook_use.kind };
                // The first one owns the call.
                let call = call.filter(|_| number == 0);
                let by = FoundBy::Operation { at: *at };
                // SAFETY: the same.
                let found = unsafe { publish(&inside, hit, call, None, hook, by) };
                let Some((discovery, is_new)) = found else { continue };
                has_found |= is_new;
                if let (Some(call), Some(seen)) = (call, self.seen.get_mut(&known.hash)) {
                    seen.key.get_or_insert(call.returns());
                    if functions.len() > 1 {
                        shared_calls::mark_shared(discovery);
                    }
                }
            }
        }
        has_found
    }
}

/// Returns the functions that a use of a hook may pass as its argument.
fn functions_told(object: &Object, HookUse { functions, .. }: &HookUse) -> Vec<usize> {
    let mut functions_told: Vec<_> = functions.iter().filter_map(|it| value_in(object, *it)).collect();
    functions_told.sort_unstable();
    functions_told.dedup();
    functions_told
}

/// Calls `each` with copies of the parts of a loaded object's text, and their addresses. The
/// overlap of parts is longer than an instruction and than an entry of a linkage table.
fn each_part(_frozen: &Frozen, range: &Range<usize>, mut each: impl FnMut(&[u8], usize)) {
    const PART_LEN: usize = 1 << 16;
    const OVERLAP_LEN: usize = 32;
    const COPY_LEN: usize = 1024;
    let mut part = Vec::with_capacity(PART_LEN);
    for start in range.clone().step_by(PART_LEN - OVERLAP_LEN) {
        let end = (start + PART_LEN).min(range.end);
        part.clear();
        let mut at = start;
        while at + COPY_LEN <= end {
            // SAFETY: in a segment that stays mapped: `_frozen` says so.
            part.extend_from_slice(&unsafe { ptr::read_volatile(at as *const [u8; COPY_LEN]) });
            at += COPY_LEN;
        }
        // SAFETY: the same.
        part.extend((at..end).map(|at| unsafe { ptr::read_volatile(at as *const u8) }));
        each(&part, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_in_its_place_while_others_come_and_go() {
        let at = |number: usize| 0x100 * number..0x100 * number + 0x80;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            publish_texts(vec![(at(7), 70)]);
            let reader = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!((look_at(0x700), look_at(0x77f), look_at(0x780)), (Some(70), Some(70), None));
                }
            });
            for round in 0..2_000 {
                let others = (10..10 + round % 5).map(|it| (at(it + round % 3), it));
                publish_texts(others.chain([(at(7), 70)]).collect());
            }
            is_over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
        publish_texts(vec![(at(1), 5), (at(7), 71)]);
        assert_eq!([0x100, 0x700, 0xa00].map(look_at), [Some(5), Some(71), None]);
        publish_texts(Vec::new());
        assert_eq!([0x100, 0x700].map(look_at), [None; 2]);
    }
}
