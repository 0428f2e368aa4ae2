//! Switching one call site.

// Safety: relies on its callers to name a site of five bytes whose words are mapped, and, with
// `Open`, writable.
#![expect(unsafe_code, reason = "see above")]

use super::trampolines::TRAMPOLINES;
use crate::arch::{CallPlan, Opcode, SiteAddr, Wanted, Words, call_plan, site_range};
use crate::engine::error::PatchError;
use crate::engine::pages::{OpenText, check_readable};
use crate::engine::poke::{poke, read};
use crate::engine::word::{self, WordOptions};
use crate::os::cancel::Uncancellable;
use crate::text::TextPolicy;

/// The ways in which call sites are switched.
///
/// ```
/// use probe_patch::call::CallOptions;
/// use probe_patch::{PatchError, TextPolicy};
///
/// #[repr(align(8))]
/// struct Code([u8; 16]);
///
/// // A CALL, 2|3 across two aligned words, in memory that is writable anyway.
/// let mut code = Code([0x90; 16]);
/// code.0[6..11].copy_from_slice(&[0xe8, 0x00, 0x01, 0x00, 0x00]);
/// let site = (&raw mut code.0[6]) as usize;
/// let options = CallOptions::new().text_policy(TextPolicy::Open);
/// // SAFETY: five bytes of a CALL in memory of our own, which no thread executes.
/// assert!(unsafe { options.deactivate_call(site) }?);
/// // SAFETY: as above.
/// assert_eq!(unsafe { (site as *const [u8; 5]).read() }, [0xeb, 0x03, 0x01, 0x00, 0x00]);
/// // SAFETY: as above.
/// assert!(unsafe { options.activate_call(site, site + 5 + 0x100) }?);
/// // SAFETY: as above.
/// assert_eq!(unsafe { (site as *const [u8; 5]).read() }, [0xe8, 0x00, 0x01, 0x00, 0x00]);
/// # Ok::<(), PatchError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CallOptions {
    text: TextPolicy,
    strict: bool,
}

impl CallOptions {
    /// Returns the defaults: [`TextPolicy::Sealed`], which opens text for each write, and not
    /// strict.
    pub const fn new() -> Self {
        Self { text: TextPolicy::Sealed, strict: false }
    }

    /// Sets for how long text is writable. With [`TextPolicy::Open`], the caller keeps it writable,
    /// with an [`OpenText`] or as its own memory, and switching takes no system call and no lock.
    /// [`TextPolicy::Alias`] goes through `int3`.
    #[must_use]
    pub const fn text_policy(mut self, text: TextPolicy) -> Self {
        self.text = text;
        self
    }

    /// Sets whether to go through `int3`, as [`word`](crate::word) patches do, instead of one
    /// write. This is for processors that promise nothing about such a write. It waits for two
    /// barriers, and may fail with [`PatchError::Busy`].
    #[must_use]
    pub const fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Switches as [`activate_call`](super::activate_call) does, with these options.
    ///
    /// # Errors
    /// The same as those of [`activate_call`](super::activate_call).
    ///
    /// # Safety
    /// The same as for [`activate_call`](super::activate_call). With [`TextPolicy::Open`], the
    /// aligned 8-byte words that hold the site are mapped and writable.
    #[inline]
    pub unsafe fn activate_call(self, addr: usize, target: usize) -> Result<bool, PatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.switch(addr, Wanted::Active(Opcode::Call, target)) }
    }

    /// Switches as [`activate_jump`](super::activate_jump) does, with these options.
    ///
    /// # Errors
    /// The same as those of [`activate_jump`](super::activate_jump).
    ///
    /// # Safety
    /// As for [`activate_call`](Self::activate_call).
    ///
    /// ```
    /// use probe_patch::call::CallOptions;
    /// use probe_patch::{PatchError, TextPolicy};
    ///
    /// #[repr(align(8))]
    /// struct Code([u8; 8]);
    ///
    /// // A NOP of five bytes, in memory that is writable anyway.
    /// let mut code = Code([0x0f, 0x1f, 0x44, 0x00, 0x08, 0x90, 0x90, 0x90]);
    /// let site = (&raw mut code) as usize;
    /// let options = CallOptions::new().text_policy(TextPolicy::Open).strict(true); // through `int3`
    /// // SAFETY: five bytes of a NOP in memory of our own, which no thread executes.
    /// assert!(unsafe { options.activate_jump(site, site + 5) }?);
    /// // SAFETY: as above.
    /// assert_eq!(unsafe { (site as *const [u8; 5]).read() }, [0xe9, 0, 0, 0, 0]);
    /// # Ok::<(), PatchError>(())
    /// ```
    #[inline]
    pub unsafe fn activate_jump(self, addr: usize, target: usize) -> Result<bool, PatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.switch(addr, Wanted::Active(Opcode::Jump, target)) }
    }

    /// Switches as [`deactivate_call`](super::deactivate_call) does, with these options.
    ///
    /// # Errors
    /// The same as those of [`deactivate_call`](super::deactivate_call).
    ///
    /// # Safety
    /// As for [`activate_call`](Self::activate_call).
    #[inline]
    pub unsafe fn deactivate_call(self, addr: usize) -> Result<bool, PatchError> {
        // SAFETY: the caller's promise.
        unsafe { self.switch(addr, Wanted::Latent) }
    }

    /// Switches a site under any of the text policies.
    #[inline]
    unsafe fn switch(self, addr: usize, wanted: Wanted) -> Result<bool, PatchError> {
        let site = SiteAddr(addr);
        match self.text {
            // SAFETY: the caller's promise.
            _ if self.strict => unsafe { self.switch_trapped(site, wanted) },
            // SAFETY: the caller keeps the text writable.
            TextPolicy::Open => unsafe { write(site, wanted) },
            TextPolicy::Sealed => {
                let open = open(site)?;
                // SAFETY: the text is mapped, or it could not be opened; it is writable for as long
                // as the guard lives.
                let is_written = unsafe { write(site, wanted) }?;
                // The site is as wanted. The caller also learns that its text could not be sealed.
                open.close().map_err(|error| PatchError::Text { addr, error })?;
                Ok(is_written)
            }
            // SAFETY: the caller's promise.
            TextPolicy::Alias => unsafe { self.switch_trapped(site, wanted) },
        }
    }

    /// Switches a site by a word patch.
    ///
    /// # Safety
    /// The same as for [`activate_call`](Self::activate_call).
    #[cold]
    unsafe fn switch_trapped(self, site: SiteAddr, wanted: Wanted) -> Result<bool, PatchError> {
        // A word patch opens files and waits, which are cancellation points.
        let _uncancellable = Uncancellable::new();
        let options = WordOptions::new().strict(true).text_policy(self.text);
        if self.text != TextPolicy::Open {
            check_readable(site_range(site)).map_err(|error| PatchError::Text { addr: site.0, error })?;
        }
        loop {
            // SAFETY: mapped, as was just seen, or as the caller says.
            let words = unsafe { words(site) };
            let found = words.instruction(site).bytes().into();
            let step = match call_plan(site, words, wanted, &TRAMPOLINES) {
                // SAFETY: as above.
                Err(PatchError::NotACall { .. }) => match unsafe { word::options::taken(site.0, found) } {
                    // The other patch is over by now: look again.
                    PatchError::Foreign { found: now, .. } if now != found => continue,
                    PatchError::Foreign { .. } => return Err(PatchError::NotACall { addr: site.0, found }),
                    busy => return Err(busy),
                },
                step => step?,
            };
            let after = match step {
                CallPlan::Unchanged => return Ok(false),
                CallPlan::Provide => {
                    TRAMPOLINES
                        .provide(site)
                        .map_err(|error| PatchError::Trampoline { addr: site.0, error })?;
                    continue;
                }
                CallPlan::Write { addr, new, .. } if addr == site.word() => Words { first: new, ..words },
                CallPlan::Write { new, .. } => Words { second: new, ..words },
            };
            // SAFETY: the site's instruction, and what the caller allows in its place.
            match unsafe { options.replace(site.0, found, after.instruction(site).bytes().into()) } {
                // Another thread was faster: look again.
                Err(PatchError::Foreign { .. }) => {}
                result => return result,
            }
        }
    }
}

/// Opens the site's pages, one or two. It does so before the site is read, so that an address that
/// is not mapped is an error rather than a fault.
fn open(site: SiteAddr) -> Result<OpenText, PatchError> {
    let refused = |error| PatchError::Text { addr: site.0, error };
    OpenText::new(site_range(site)).map_err(refused)
}

/// Switches a site in text that is writable. Returns whether that took a write.
///
/// # Safety
/// The site's words are mapped and writable.
#[inline]
unsafe fn write(site: SiteAddr, wanted: Wanted) -> Result<bool, PatchError> {
    loop {
        // SAFETY: as promised.
        let words = unsafe { words(site) };
        match call_plan(site, words, wanted, &TRAMPOLINES)? {
            CallPlan::Unchanged => return Ok(false),
            CallPlan::Provide => {
                TRAMPOLINES.provide(site).map_err(|error| PatchError::Trampoline { addr: site.0, error })?;
            }
            CallPlan::Write { addr, expected, new } => {
                // SAFETY: a word of the site, mapped and writable.
                if unsafe { poke(addr, expected, new) }.is_ok() {
                    return Ok(true);
                }
                // Other code has written to this word in between: look again.
            }
        }
    }
}

/// Reads a site's words.
///
/// # Safety
/// The site's words are mapped.
#[inline]
unsafe fn words(site: SiteAddr) -> Words {
    // SAFETY: multiples of 8; mapped.
    Words::read(site, |word| unsafe { read(word) })
}
