//! Patching one instruction, or many with shared waits.

// Safety: relies on the callers of `patch`, `replace`, `start` and `replace_each` to name an
// instruction in text that stays mapped.
#![expect(unsafe_code, reason = "see above")]

use std::io;

use super::pending::{Pending, Writable};
use super::trap;
use crate::arch::{BREAKPOINT, this_thread};
use crate::engine::bytes::{Bytes, MAX_LEN};
use crate::engine::error::PatchError;
use crate::engine::poke::{read, write};
use crate::engine::protocol::{
    NotStarted, Phase, Plan, Text, Wait, WordEntry, find, find_or_insert, is_straddler,
};
use crate::os::cancel::Uncancellable;
use crate::text::TextPolicy;

/// The ways in which instructions are patched.
///
/// ```
/// use probe_patch::TextPolicy;
/// use probe_patch::word::{Ticks, Wait, WordOptions};
/// let fast = WordOptions::new().text_policy(TextPolicy::Open).wait(Wait::Tmax(Ticks(3_000)));
/// let careful = WordOptions::new().strict(true);
/// # let _ = (fast, careful);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct WordOptions {
    wait: Wait,
    strict: bool,
    text: TextPolicy,
}

impl WordOptions {
    /// Returns the defaults: [`Wait::Barrier`], not strict, [`TextPolicy::Sealed`].
    pub const fn new() -> Self {
        Self { wait: Wait::Barrier, strict: false, text: TextPolicy::Sealed }
    }

    /// Sets how to wait until all threads have seen a write.
    #[must_use]
    pub const fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Sets whether to go through `int3` even if one aligned write would do. That path relies on
    /// the processor only for writing one byte whole, and for the wait.
    #[must_use]
    pub const fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Sets for how long text is writable.
    /// - [`TextPolicy::Sealed`] opens its pages for the patch.
    /// - With [`TextPolicy::Open`] the caller keeps the text writable, with an
    ///   [`OpenText`](crate::OpenText) or as memory of its own. It takes no system call.
    /// - [`TextPolicy::Alias`] always goes through `int3`, and waits by barriers.
    #[must_use]
    pub const fn text_policy(mut self, text: TextPolicy) -> Self {
        self.text = text;
        self
    }

    /// Patches as [`patch`](super::patch()) does, with these options.
    ///
    /// # Safety
    /// The same as for [`patch`](super::patch()).
    ///
    /// # Errors
    /// The same as those of [`patch`](super::patch()).
    ///
    /// ```
    /// use probe_patch::PatchError;
    /// use probe_patch::word::WordOptions;
    ///
    /// #[unsafe(naked)]
    /// extern "C" fn level() -> u32 {
    ///     std::arch::naked_asm!("mov eax, 1", "ret")
    /// }
    ///
    /// let at = level as *const () as usize;
    /// // SAFETY: `mov eax, imm32` becomes another one.
    /// unsafe { WordOptions::new().strict(true).patch(at, [0xb8, 2, 0, 0, 0].into()) }?;
    /// assert_eq!(level(), 2);
    /// # Ok::<(), PatchError>(())
    /// ```
    pub unsafe fn patch(&self, addr: usize, value: Bytes) -> Result<(), PatchError> {
        // SAFETY: as the caller says.
        unsafe { self.start(addr, value) }?.wait()
    }

    /// Replaces the instruction `expected` by `value`. Returns whether that took a write: `false`
    /// if `value` was there already.
    ///
    /// # Safety
    /// The same as for [`patch`](super::patch()).
    ///
    /// # Errors
    /// The same as those of [`patch`](super::patch()), and [`PatchError::Foreign`] if neither
    /// instruction is there.
    ///
    /// ```
    /// use probe_patch::{Bytes, PatchError};
    /// use probe_patch::word::WordOptions;
    ///
    /// #[unsafe(naked)]
    /// extern "C" fn depth() -> u32 {
    ///     std::arch::naked_asm!("mov eax, 1", "ret")
    /// }
    ///
    /// let at = depth as *const () as usize;
    /// let (one, two) = (Bytes::from([0xb8, 1, 0, 0, 0]), Bytes::from([0xb8, 2, 0, 0, 0]));
    /// // SAFETY: `mov eax, imm32` becomes another one.
    /// let replace = || unsafe { WordOptions::new().replace(at, one, two) };
    /// assert!(replace()?);
    /// assert_eq!(depth(), 2);
    /// assert!(!replace()?); // it is there already
    /// # Ok::<(), PatchError>(())
    /// ```
    pub unsafe fn replace(&self, addr: usize, expected: Bytes, value: Bytes) -> Result<bool, PatchError> {
        let plan = Plan::new(addr, expected, value).ok_or(PatchError::Length { expected, value })?;
        let _uncancellable = Uncancellable::new();
        let writable = Writable::new(self.text, addr, value.len())?;
        // SAFETY: as the caller says.
        if unsafe { read_instruction(addr, value.len()) } == value {
            return Ok(false);
        }
        // SAFETY: as the caller says; the text is open.
        unsafe { self.begin(plan, writable) }?.wait()?;
        Ok(true)
    }

    /// Starts a patch as [`start_patch`](super::start_patch) does, with these options.
    ///
    /// # Safety
    /// The same as for [`patch`](super::patch()), until the patch is over.
    ///
    /// # Errors
    /// The same as those of [`patch`](super::patch()).
    ///
    /// ```
    /// use probe_patch::PatchError;
    /// use probe_patch::word::WordOptions;
    ///
    /// #[unsafe(naked)]
    /// extern "C" fn width() -> u32 {
    ///     std::arch::naked_asm!("mov eax, 80", "ret")
    /// }
    ///
    /// let at = width as *const () as usize;
    /// // SAFETY: `mov eax, imm32` becomes another one.
    /// unsafe { WordOptions::new().strict(true).start(at, [0xb8, 100, 0, 0, 0].into()) }?.wait()?;
    /// assert_eq!(width(), 100);
    /// # Ok::<(), PatchError>(())
    /// ```
    pub unsafe fn start(&self, addr: usize, value: Bytes) -> Result<Pending, PatchError> {
        let _uncancellable = Uncancellable::new();
        let writable = Writable::new(self.text, addr, value.len())?;
        loop {
            // SAFETY: as the caller says.
            let found = unsafe { read_instruction(addr, value.len()) };
            if found == value {
                return Ok(Pending::over(addr, found));
            }
            let plan = Plan::new(addr, found, value).ok_or(PatchError::Length { expected: found, value })?;
            // SAFETY: as the caller says; the text is open.
            match unsafe { self.begin(plan, writable.clone()) } {
                // Another patch came first: try again on the new bytes.
                Err(PatchError::Foreign { found: now, .. })
                    if now != found && !now.starts_with(&BREAKPOINT) => {}
                result => return result,
            }
        }
    }

    /// # Safety
    /// The same as for [`patch`](super::patch()), and the text is writable in the way that
    /// `writable` names.
    pub(crate) unsafe fn begin(&self, plan: Plan, writable: Writable) -> Result<Pending, PatchError> {
        let (addr, expected, value) = (plan.addr(), plan.expected(), plan.value());
        if value.starts_with(&BREAKPOINT) {
            return Err(PatchError::Trap { value });
        }
        // SAFETY: as the caller says.
        let taken = || unsafe { taken(addr, expected) };
        if expected.starts_with(&BREAKPOINT) {
            return Err(taken());
        }
        if let (Some(whole), false) = (plan.whole(), self.strict || !writable.has_whole_words()) {
            // SAFETY: a word of mapped and writable text.
            let written = unsafe { write(whole) };
            return written.map(|()| Pending::over(addr, expected)).map_err(|_| taken());
        }
        trap::prepare()?;
        let entry = find_or_insert(addr).ok_or(PatchError::Memory)?;
        match entry.start(&plan, writable.method(self.wait), this_thread(), &Text) {
            Ok(ticket) => Ok(Pending::new(addr, expected, entry, ticket, writable)),
            Err(NotStarted::Busy) => Err(PatchError::Busy { addr }),
            Err(NotStarted::Found) => Err(taken()),
            Err(NotStarted::Unwritable(errno)) => {
                Err(PatchError::Alias { addr, error: io::Error::from_raw_os_error(errno) })
            }
        }
    }
}

/// Number of patches that are under way at once. They share two barriers.
const AT_ONCE: usize = 4_096;

/// Carries out plans strictly. Returns the result of each, with the address of its instruction.
///
/// # Safety
/// The same as for [`patch`](super::patch()), for each plan. The text is writable in the way that
/// `writable` names.
pub unsafe fn replace_each(
    plans: &[Plan],
    writable: &Writable,
    mut tell: impl FnMut(usize, Result<(), PatchError>),
) {
    if plans.is_empty() {
        return;
    }
    if let Err(PatchError::Signal { problem }) = trap::check() {
        let refuse = |plan: &Plan| tell(plan.addr(), Err(PatchError::Signal { problem: problem.clone() }));
        return plans.iter().for_each(refuse);
    }
    let options = WordOptions::new().strict(true);
    let mut under_way = Vec::with_capacity(AT_ONCE.min(plans.len()));
    for plans in plans.chunks(AT_ONCE) {
        for plan in plans {
            // SAFETY: as the caller says.
            match unsafe { options.begin(*plan, writable.clone()) } {
                Ok(patch) => under_way.push(patch),
                Err(error) => tell(plan.addr(), Err(error)),
            }
        }
        // One after the other, each patch would run its own barriers.
        for _ in 0..2 {
            under_way.iter_mut().for_each(|patch| _ = patch.finish());
        }
        under_way.drain(..).for_each(|patch: Pending| tell(patch.addr(), patch.wait()));
    }
}

/// Returns the error for an instruction that is not as expected: a patch of it is under way, or
/// foreign code has changed it.
///
/// # Safety
/// Its text is mapped.
pub unsafe fn taken(addr: usize, expected: Bytes) -> PatchError {
    let entry = find(addr);
    let version = || entry.map(WordEntry::version);
    let (before, is_under_way) = (version(), entry.is_some_and(|entry| entry.phase() != Phase::Idle));
    // SAFETY: as the caller says.
    let found = unsafe { read_instruction(addr, expected.len()) };
    if found.starts_with(&BREAKPOINT) && (is_under_way || version() != before) {
        PatchError::Busy { addr }
    } else {
        PatchError::Foreign { addr, expected, found }
    }
}

/// Returns the bytes of an instruction. If it lies in two words, and its second word changes and
/// changes back meanwhile, the two parts may come from different moments. The lock step then finds
/// out.
///
/// # Safety
/// Its text is mapped.
pub unsafe fn read_instruction(addr: usize, len: usize) -> Bytes {
    let word = addr & !(MAX_LEN - 1);
    let shift = 8 * (addr - word);
    loop {
        // SAFETY: as the caller says.
        let first = unsafe { read(word) };
        let mut number = first.0 >> shift;
        if is_straddler(addr, len) {
            // SAFETY: as above; the instruction continues there.
            number |= unsafe { read(word + MAX_LEN) }.0 << (64 - shift);
            // SAFETY: as above.
            if unsafe { read(word) } != first {
                continue;
            }
        }
        return Bytes::from_number(number, len);
    }
}
