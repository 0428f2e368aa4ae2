//! From the registers at a site to the calls that led there.

// Safety: relies on zeroes being no rules; on the registers of a hit's site, and on the unwind
// tables of the code that is on the stack. Pages that the walk has not read yet are read by
// instructions that may fault.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::Ending;
use super::frame::{Kind, Rule};
use super::kept::StackNumber;
use super::objects::Objects;
use crate::engine::dispatch::SiteRegisters;
use crate::engine::os::guarded_read;
use crate::engine::per_thread::Zeroed;

/// Rules of a thread's cache; a power of two.
const RULES: usize = 512;
/// Calls of a stack, and a mark.
pub(super) const MOST_WORDS: usize = 16 + 1;
const PAGE: u64 = 4096;
/// A bit of the keys of depths in a thread's cache, which no address has.
const AT_SITE: u64 = 1 << 63;
/// The most functions between a site's function and its hit.
const MOST_INNER: u64 = 16;

/// Where the registers of an interrupted thread are in the kernel's `ucontext_t`: `rbp`, `rsp`,
/// `rip`.
const INTERRUPTED: [u64; 3] = [120, 160, 168];

/// One thread's rules, by the addresses of calls.
///
/// ```text
/// entry   the address, with the number of the list of objects in its upper bits │ the rule
///         the same of a site's call, with one bit more                          │ its depth
/// ```
pub(crate) struct Rules {
    entries: [[AtomicU64; 2]; RULES],
    pages: KnownPages,
}

// SAFETY: atomics only. No address is 0.
unsafe impl Zeroed for Rules {}

/// The pages of a thread's stack that system calls have found readable, where no read may fault.
/// While the thread is in one of them, or right below, those above it stay.
struct KnownPages {
    from: AtomicU64,
    until: AtomicU64,
    calls: AtomicU64,
}

/// System calls of a thread's life, for its stacks.
const MOST_CALLS: u64 = 1024;
/// The size of the largest frame.
const LARGEST: u64 = 1024 * 1024;

impl KnownPages {
    /// Adds the pages above these, as far as a place. Returns all that can be read.
    fn grow(&self, (start, mut end): (u64, u64), place: u64) -> Option<(u64, u64)> {
        let [from, until] = [&self.from, &self.until].map(|it| it.load(Relaxed));
        let is_known = from <= end && start <= until;
        if is_known {
            end = end.max(until);
        }
        if place < start || place.saturating_sub(end) > LARGEST {
            return None;
        }
        while end <= place {
            let calls = self.calls.load(Relaxed);
            if calls == MOST_CALLS {
                return None;
            }
            self.calls.store(calls + 1, Relaxed);
            guarded_read::is_readable(usize::try_from(end).ok()?, 8).then_some(())?;
            end = end.checked_add(PAGE)?;
            self.from.store(if is_known { from.min(start) } else { start }, Relaxed);
            self.until.store(end, Relaxed);
        }
        Some((start, end))
    }
}

/// The rules that a thread has seen, before the tables.
pub(super) struct Cache<'a> {
    rules: &'a Rules,
    objects: &'a Objects,
    /// In the bits above addresses.
    number: u64,
}

impl<'a> Cache<'a> {
    #[inline(always)]
    pub(super) fn new(rules: &'a Rules, objects: &'a Objects) -> Self {
        Self { rules, objects, number: (objects.number() as u64) << 48 }
    }

    #[inline(always)]
    fn rule(&self, addr: u64) -> Rule {
        let word = self.word(addr);
        Rule::of_word(word.unwrap_or_else(|| self.search(addr)))
    }

    #[inline(never)]
    fn search(&self, addr: u64) -> u64 {
        let found = Rule::of(self.objects.rule(addr)).word();
        self.put(addr, found);
        found
    }

    /// Returns how many functions the function of a site has called to make a hit, which is at
    /// `walk`; `None` if the stack between them can't be read now.
    #[inline(always)]
    fn depth(&self, walk: &Walk<'_>, definition: usize) -> Option<u64> {
        self.word(walk.at ^ AT_SITE).or_else(|| self.search_depth(walk, definition))
    }

    #[inline(never)]
    fn search_depth(&self, walk: &Walk<'_>, definition: usize) -> Option<u64> {
        let (mut inner, mut depth) = (walk.clone(), 0);
        while !self.objects.has_site(inner.at, definition) {
            depth += 1;
            // A provider's probe has no such site, nor has one whose object nobody has seen.
            let is_over = depth == MOST_INNER
                || match inner.step(self) {
                    Step::Caller => false,
                    // The stack differs the next time, and not the tables.
                    Step::Unknown if self.rule(inner.at).kind() != Kind::Unknown => return None,
                    Step::End | Step::Unknown => true,
                };
            if is_over {
                depth = 0;
                break;
            }
        }
        self.put(walk.at ^ AT_SITE, depth);
        Some(depth)
    }

    #[inline(always)]
    fn word(&self, key: u64) -> Option<u64> {
        let [known, word] = self.entry(key);
        (known.load(Relaxed) == key ^ self.number).then(|| word.load(Relaxed))
    }

    fn put(&self, key: u64, value: u64) {
        let [known, word] = self.entry(key);
        word.store(value, Relaxed);
        known.store(key ^ self.number, Relaxed);
    }

    #[inline(always)]
    fn entry(&self, key: u64) -> &'a [AtomicU64; 2] {
        #[expect(clippy::cast_possible_truncation, reason = "less than the number of rules")]
        let at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - RULES.ilog2())) as usize;
        &self.rules.entries[at]
    }
}

/// A place on the way from a site to its callers.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    /// The address of the frame's call, or of the instruction that a signal has interrupted.
    at: u64,
    stack_pointer: u64,
    frame_pointer: u64,
    /// The pages that can be read.
    readable: (u64, u64),
    pages: &'a KnownPages,
}

/// A step of a walk.
enum Step {
    Caller,
    /// The frame has no caller.
    End,
    Unknown,
}

impl<'a> Walk<'a> {
    /// Begins in the frame of a site's function.
    #[inline(always)]
    pub(super) fn at_site(registers: &SiteRegisters, rules: &'a Rules) -> Self {
        let stack_pointer = registers.stack_pointer as u64;
        let page = stack_pointer / PAGE * PAGE;
        Self {
            at: (registers.after as u64).wrapping_sub(1),
            stack_pointer,
            frame_pointer: registers.frame_pointer as u64,
            readable: (page, page + PAGE),
            pages: &rules.pages,
        }
    }

    /// Returns the address of the call that led to the frame's function.
    #[inline(always)]
    pub(super) fn caller(mut self, cache: &Cache<'_>) -> Option<u64> {
        let rule = cache.rule(self.at);
        let base = match rule.kind() {
            Kind::FromStackPointer => self.stack_pointer,
            Kind::FromFramePointer => self.frame_pointer,
            _ => return None,
        };
        let start = base.wrapping_add_signed(rule.offset());
        if start <= self.stack_pointer {
            return None;
        }
        Some(self.word(start - 8)?.wrapping_sub(1))
    }

    /// Goes to the frame of the site's function. A field of Rust may panic, so that function has
    /// called another one, which makes the hit. An optimised build has that inlined. Returns
    /// whether the stack up to there could be read.
    #[inline(always)]
    pub(super) fn go_to_site(&mut self, cache: &Cache<'_>, definition: usize) -> bool {
        let depth = cache.depth(self, definition);
        depth.is_some_and(|depth| (0..depth).all(|_| self.leave(cache)))
    }

    /// Steps to the frame of the caller. Returns whether that is known.
    #[inline(never)]
    fn leave(&mut self, cache: &Cache<'_>) -> bool {
        matches!(self.step(cache), Step::Caller)
    }

    /// Returns a stack of which nobody knows a call, as [`calls`](Self::calls) does.
    #[cold]
    pub(super) fn unknown(calls: &mut [u64; MOST_WORDS]) -> (usize, StackNumber) {
        let mut number = StackNumber::new();
        calls[0] = Ending::Unknown as u64;
        number.add(calls[0]);
        (1, number)
    }

    /// Fills in the calls that led to the frame's function, from the innermost one, and a mark
    /// where the stack is not whole. Returns how many words these are, and the stack's number. If
    /// `is_at_return`, the return address is at the stack pointer, in place of what the tables say.
    #[inline(always)]
    pub(super) fn calls(
        mut self,
        is_at_return: bool,
        cache: &Cache<'_>,
        calls: &mut [u64; MOST_WORDS],
    ) -> (usize, StackNumber) {
        let mut number = StackNumber::new();
        let mut step =
            if is_at_return { self.return_to(self.stack_pointer + 8, None) } else { self.step(cache) };
        for (at, call) in calls.iter_mut().enumerate() {
            *call = match step {
                Step::Caller if at == MOST_WORDS - 1 => Ending::Deeper as u64,
                Step::Caller => self.at,
                Step::End => return (at, number),
                Step::Unknown => Ending::Unknown as u64,
            };
            number.add(*call);
            if Ending::of(*call).is_some() {
                return (at + 1, number);
            }
            step = self.step(cache);
        }
        (MOST_WORDS, number)
    }

    /// Goes to the caller's frame.
    #[inline(always)]
    fn step(&mut self, cache: &Cache<'_>) -> Step {
        let rule = cache.rule(self.at);
        if rule.is_framed() {
            // Known without a load, so that a processor need not wait for the rule.
            let at = self.frame_pointer;
            return self.return_to(at.wrapping_add(16), Some(at));
        }
        let base = match rule.kind() {
            Kind::FromStackPointer => self.stack_pointer,
            Kind::FromFramePointer => self.frame_pointer,
            other => return self.other_step(other),
        };
        let start = base.wrapping_add_signed(rule.offset());
        let place = rule.frame_pointer();
        self.return_to(start, place.map(|place| start.wrapping_add_signed(place)))
    }

    /// Goes to the caller's frame, from the beginning of this one and from where it keeps the
    /// caller's frame pointer.
    #[inline(always)]
    fn return_to(&mut self, start: u64, frame_pointer_at: Option<u64>) -> Step {
        if start <= self.stack_pointer {
            return Step::Unknown;
        }
        let Some(returns_to) = self.word(start - 8) else { return Step::Unknown };
        if returns_to == 0 {
            return Step::End;
        }
        if let Some(at) = frame_pointer_at {
            let Some(frame_pointer) = self.word(at) else { return Step::Unknown };
            self.frame_pointer = frame_pointer;
        }
        (self.at, self.stack_pointer) = (returns_to.wrapping_sub(1), start);
        Step::Caller
    }

    #[inline(never)]
    fn other_step(&mut self, kind: Kind) -> Step {
        match kind {
            Kind::Outermost => Step::End,
            Kind::Signal => {
                let [frame_pointer, stack_pointer, at] =
                    INTERRUPTED.map(|offset| self.word(self.stack_pointer.wrapping_add(offset)));
                let (Some(frame_pointer), Some(stack_pointer), Some(at)) = (frame_pointer, stack_pointer, at)
                else {
                    return Step::Unknown;
                };
                (self.at, self.stack_pointer, self.frame_pointer) = (at, stack_pointer, frame_pointer);
                Step::Caller
            }
            _ => Step::Unknown,
        }
    }

    /// Reads a word of the stack, if it is aligned and can be read.
    #[inline(always)]
    fn word(&mut self, at: u64) -> Option<u64> {
        if !at.is_multiple_of(8) {
            return None;
        }
        if !(self.readable.0..self.readable.1).contains(&at) {
            self.see(at)?;
        }
        // SAFETY: the page can be read, and an aligned word is in one page.
        Some(unsafe { word(at) })
    }

    /// Makes sure that a word can be read.
    #[inline(never)]
    fn see(&mut self, at: u64) -> Option<()> {
        let page = at / PAGE * PAGE;
        self.readable = if guarded_read::is_by_fault() {
            guarded_read::is_readable(usize::try_from(at).ok()?, 8).then_some(())?;
            (page, page.checked_add(PAGE)?)
        } else {
            self.pages.grow(self.readable, at)?
        };
        Some(())
    }
}

/// Reads a word.
///
/// # Safety
/// It can be read.
#[inline(always)]
unsafe fn word(at: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "addresses have as many bits")]
    let at = ptr::with_exposed_provenance::<u64>(at as usize);
    // SAFETY: the caller's promise. Code of the frames above may change it after this hit.
    unsafe { at.read_volatile() }
}
