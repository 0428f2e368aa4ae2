//! The process's one map of open pages, its mutex, and the system calls that follow from it.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::nonblocking::HeldMappings;
use super::rights::{
    IfUnknown, Known, are_writable, ask, errno_of, parts_with, push, rights_unknown, text_with_same_rights,
};
use super::runs::{Epoch, PageRights, Runs};
use crate::engine::error::TextError;
use crate::engine::protocol;
use crate::lifecycle::{AcrossForks, HeldAcrossFork, Rank, Ready};
use crate::os::cancel::Uncancellable;
#[cfg(not(all(test, loom)))]
use crate::os::{maps::Maps, text::protect};
// The model checker's kernel.
#[cfg(all(test, loom))]
use super::interleavings::{Maps, protect};

static PAGES: Mutex<Pages> = Mutex::new(Pages::new());

/// The data that the mutex guards.
pub(super) struct Pages {
    pub(super) runs: Runs,
    pub(super) known: Known,
    /// Mappings that are open for first hits.
    pub(super) held: HeldMappings,
}

/// The mutex's guard.
pub(super) struct Locked {
    // Releases the mutex before the crates above may call their users again.
    pages: MutexGuard<'static, Pages>,
    _no_reentry: NoReentry,
    // The system calls under the mutex may be cancellation points.
    _uncancellable: Uncancellable,
}

impl std::ops::Deref for Locked {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.pages
    }
}

impl std::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }
}

/// Hooks that keep a crate above this one from calling its users' code on a thread that holds the
/// mutex.
///
/// Memory is allocated under the mutex, and patched code in the program's allocator may lead to
/// such a crate, which calls its users' code. That code could ask for the mutex again, and would
/// wait for its own thread. So the crate is told when a thread takes the mutex, and when the thread
/// has released it.
pub struct ReentrancyHooks {
    /// From this call on, the crate calls no user code on this thread. The result is handed to
    /// `end`.
    pub begin: fn() -> usize,
    /// The crate calls user code again, if it did so before `begin`.
    pub end: fn(usize),
}

static REENTRANCY_HOOKS: OnceLock<ReentrancyHooks> = OnceLock::new();

/// While it lives, the crate above, if there is one, calls no user code on this thread.
struct NoReentry {
    begun: Option<(&'static ReentrancyHooks, usize)>,
    // It ends on the thread that it began on.
    not_send: PhantomData<*mut ()>,
}

impl NoReentry {
    fn new() -> Self {
        let mut guard = Self { begun: None, not_send: PhantomData };
        guard.renew();
        guard
    }

    /// Calls `begin` under the lock, if the crate above installed its hooks while this thread
    /// waited for it.
    fn renew(&mut self) {
        if self.begun.is_none() {
            self.begun = REENTRANCY_HOOKS.get().map(|hooks| (hooks, (hooks.begin)()));
        }
    }
}

impl Drop for NoReentry {
    fn drop(&mut self) {
        if let Some((hooks, begun)) = self.begun {
            (hooks.end)(begun);
        }
    }
}

/// Takes the mutex. A thread that also takes the control lock has taken that before.
pub(super) fn lock() -> Locked {
    let uncancellable = Uncancellable::new();
    READY.prepare();
    let mut no_reentry = NoReentry::new();
    // A panic under the mutex is a bug of this crate. The map is consistent between steps even so.
    let pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    no_reentry.renew();
    Locked { pages, _no_reentry: no_reentry, _uncancellable: uncancellable }
}

/// Installs hooks to run around the mutex, and waits for a thread that holds it without them. So
/// the crate above may call its users when this returns. This room is ready, or can't be.
pub fn set_reentrancy_hooks(hooks: ReentrancyHooks) {
    // The first hooks stay; later ones are ignored.
    let _ = REENTRANCY_HOOKS.set(hooks);
    drop(lock());
}

/// Takes the mutex, unless any thread holds it, this one included. The caller knows that this crate
/// is ready.
pub(super) fn try_lock() -> Option<Locked> {
    let uncancellable = Uncancellable::new();
    let mut no_reentry = NoReentry::new();
    let pages = match PAGES.try_lock() {
        Ok(pages) => pages,
        Err(std::sync::TryLockError::Poisoned(error)) => error.into_inner(),
        Err(std::sync::TryLockError::WouldBlock) => return None,
    };
    no_reentry.renew();
    Some(Locked { pages, _no_reentry: no_reentry, _uncancellable: uncancellable })
}

/// Forks take the mutex, so that the child finds the map and every instruction whole.
pub static READY: Ready = Ready::new(Rank::Text, ACROSS_FORKS, || ());

const ACROSS_FORKS: AcrossForks = AcrossForks { before: before_fork, in_parent: after_fork, in_child };

thread_local! {
    static ACROSS_FORK: HeldAcrossFork<Locked> = const { HeldAcrossFork::new() };
}

fn before_fork() {
    let locked = lock();
    ACROSS_FORK.with(|kept| kept.keep(locked));
}

fn after_fork() {
    drop(ACROSS_FORK.with(HeldAcrossFork::take));
}

/// Releases the mutex in the child. Its only thread also ends the patches that other threads had
/// under way.
fn in_child() {
    after_fork();
    protocol::end_in_child();
}

impl Pages {
    pub(super) const fn new() -> Self {
        Self { runs: Runs::new(), known: Known::new(), held: HeldMappings::new() }
    }

    /// Makes pages writable, and counts one more opener. It opens all of them, or none.
    pub(super) fn open(&mut self, pages: &Range<usize>) -> Result<Epoch, TextError> {
        self.renew(pages)?;
        self.reopen(pages)?;
        let gaps = self.runs.gaps(pages);
        let found = if gaps.is_empty() { Vec::new() } else { self.ask(&gaps)? };
        self.make_writable(&found)?;
        Ok(self.runs.open(pages, &found))
    }

    /// Writes to pages of loaded objects' text, and restores their rights. No other thread opens or
    /// seals pages meanwhile, so pages that no guard holds open need no counting. The inner result
    /// is that of restoring.
    pub(super) fn write(
        &mut self,
        pages: &Range<usize>,
        write: impl FnOnce(),
    ) -> Result<Result<(), TextError>, TextError> {
        if let (true, Some(all)) = (self.runs.is_clear(pages), self.known.all(pages)) {
            let all = [all];
            self.make_writable(&all)?;
            write();
            return Ok(self.restore(&all));
        }
        self.renew(pages)?;
        self.reopen(pages)?;
        let gaps = self.runs.gaps(pages);
        let found = self.look_up(&gaps)?;
        self.make_writable(&found)?;
        let epoch = self.runs.open(pages, &found);
        write();
        // This also retries pages that could not be restored before.
        Ok(self.close(pages, epoch))
    }

    /// Reopens pages that were writable before they were opened here. The code that made them
    /// writable, such as another copy of this crate, may have sealed them since.
    pub(super) fn renew(&mut self, pages: &Range<usize>) -> Result<(), TextError> {
        let doubtful = self.runs.found_writable(pages);
        if doubtful.is_empty() { Ok(()) } else { self.renew_found(&doubtful) }
    }

    #[cold]
    fn renew_found(&mut self, doubtful: &[Range<usize>]) -> Result<(), TextError> {
        let found = match self.ask(doubtful) {
            // Their rights are unknown, but they are open.
            Err(TextError::Unknown { .. }) if doubtful.iter().all(are_writable) => return Ok(()),
            found => found?,
        };
        for (part, rights) in found.into_iter().filter(|(_, rights)| !rights.write) {
            protect(&part, rights.and_write())
                .map_err(|error| TextError::Protected { pages: part.clone(), errno: errno_of(&error) })?;
            // They get these rights back: the code that had opened them has sealed them since.
            self.runs.set_former(&part, rights);
        }
        Ok(())
    }

    /// Makes pages writable that could not be restored. They may still be writable, or not.
    fn reopen(&mut self, pages: &Range<usize>) -> Result<(), TextError> {
        for (part, former) in self.runs.left(pages) {
            if let Err(error) = protect(&part, former.and_write())
                && !are_writable(&part)
            {
                return Err(TextError::Protected { pages: part, errno: errno_of(&error) });
            }
        }
        Ok(())
    }

    /// Makes parts that the map does not know writable: all of them, or none.
    fn make_writable(&mut self, found: &[PageRights]) -> Result<(), TextError> {
        for (at, (part, rights)) in found.iter().enumerate().filter(|(_, (_, rights))| !rights.write) {
            if let Err(error) = protect(part, rights.and_write()) {
                // The last part may have been changed in part.
                let _ = self.restore(&found[..=at]);
                return Err(TextError::Protected { pages: part.clone(), errno: errno_of(&error) });
            }
        }
        Ok(())
    }

    /// Counts one opener out, and restores pages that no opener holds any more.
    pub(super) fn close(&mut self, pages: &Range<usize>, epoch: Epoch) -> Result<(), TextError> {
        let left = self.runs.close(pages, epoch);
        self.restore(&left)
    }

    /// Gives parts that the map does not know their former rights. Remembers parts that could not
    /// be restored and that are writable, or may be.
    fn restore(&mut self, parts: &[PageRights]) -> Result<(), TextError> {
        let mut result = Ok(());
        for (part, former) in parts.iter().filter(|(_, former)| !former.write) {
            if protect(part, *former).is_ok() {
                continue;
            }
            // One of several mappings may be gone, or sealed as before.
            for piece in parts_with(part, |rights| rights.write, IfUnknown::Include) {
                if let Err(error) = protect(&piece, *former) {
                    self.runs.insert(piece.clone(), *former);
                    let errno = errno_of(&error);
                    result = result.and(Err(TextError::Unrestored { pages: piece, errno }));
                }
            }
        }
        result
    }

    /// Returns the parts of the gaps, with their rights, from the kernel.
    fn ask(&mut self, gaps: &[Range<usize>]) -> Result<Vec<PageRights>, TextError> {
        let mut maps = Maps::open().map_err(|error| rights_unknown(&error))?;
        let mut found = Vec::with_capacity(gaps.len());
        for gap in gaps {
            self.known.forget(gap);
            ask(&mut maps, gap, &mut found)?;
        }
        Ok(found)
    }

    /// Returns the parts of the gaps, with their rights, from known mappings. It asks the kernel
    /// for unknown mappings, and remembers these.
    fn look_up(&mut self, gaps: &[Range<usize>]) -> Result<Vec<PageRights>, TextError> {
        let mut found = Vec::with_capacity(gaps.len());
        let mut maps = None;
        for gap in gaps {
            let mut at = gap.start;
            while at < gap.end {
                let (part, rights) = match self.known.from(at, gap.end) {
                    Some(part) => part,
                    None => self.learn(&mut maps, at..gap.end)?,
                };
                at = part.end;
                push(&mut found, (part, rights));
            }
        }
        Ok(found)
    }

    fn learn(&mut self, maps: &mut Option<Maps>, gap: Range<usize>) -> Result<PageRights, TextError> {
        let asked = match maps {
            Some(maps) => maps.holding(gap.start),
            None => Maps::open().and_then(|opened| maps.insert(opened).holding(gap.start)),
        };
        let mapping = match asked {
            Ok(answer) => answer.ok_or(TextError::Unmapped { addr: gap.start })?,
            Err(error) => return text_with_same_rights(&gap, &error),
        };
        if !mapping.rights.read {
            return Err(TextError::NotReadable { addr: gap.start });
        }
        self.known.learn(&mapping);
        Ok((gap.start..gap.end.min(mapping.range.end), mapping.rights))
    }

    /// Forgets unloaded pages, and pages without the rights that opening gave them, since these
    /// were mapped anew.
    pub(super) fn forget_gone(&mut self, unloaded: &[Range<usize>]) {
        self.known.clear();
        for pages in unloaded {
            self.runs.forget(pages);
        }
        for (pages, former) in self.runs.parts() {
            let mut at = pages.start;
            for still in parts_with(&pages, |rights| rights == former.and_write(), IfUnknown::Exclude) {
                self.runs.forget(&(at..still.start));
                at = still.end;
            }
            self.runs.forget(&(at..pages.end));
        }
        HeldMappings::give_up(self);
    }

    pub(super) fn unrestored(&self) -> usize {
        self.runs.unrestored()
    }
}
