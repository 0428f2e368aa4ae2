//! Slots of threads that have ended unnoticed, found by asking the kernel.
//!
//! The C library reports a thread's end before the thread's last instruction. Destructors of other
//! keys run later, and so does the library's own clean-up, which calls `free`. A hit there takes a
//! slot that no destructor gives back. Such a slot looks like any other: the thread's first hit may
//! be the one in `free`. If no key is left that needs no heap, no end is reported at all.
//!
//! So a thread that needs a slot and finds none free asks the kernel which owners still exist. It
//! does so only if there are twice as many slots as there were owners the last time. So the number
//! of slots never exceeds [`FEW`], or twice the greatest number of threads with slots that lived at
//! once.
//!
//! Cost: on average up to two queries (`tgkill` of signal 0) for each slot that is taken, and none
//! for the first [`FEW`] slots. An operation looks at every slot, so its cost grows with the
//! threads that live, not with those that have lived.
//!
//! An owner is never queried if its id could belong to another process: in a child by `vfork`,
//! `posix_spawn` or a bare `clone`, in which no fork handler of ours has run. A slot that is taken
//! there has no owner that can be queried, and only the exit hook ends its ownership. Such a child
//! is recognised by its process id. This leaves one exception: the first process of a namespace
//! that makes the first process of another namespace (`CLONE_NEWPID`) by a bare `clone` that shares
//! its memory. Such a child must not hit probes.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::thread_slot::{ThreadSlot, made, slots};
use crate::engine::os;

/// Up to this number of slots, no owner is queried.
const FEW: usize = 8;

/// Number of slots at which owners are queried.
static LIMIT: AtomicUsize = AtomicUsize::new(FEW);

/// The process whose threads have known ids; 0 before the first operation.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Records this process, so that its threads' ids are known from here on: after the program's
/// start, or after a fork.
pub(super) fn know_process() {
    PROCESS.store(os::thread::process(), Ordering::Relaxed);
}

/// Returns whether the kernel can be asked for owners by their ids.
pub(super) fn is_process_known() -> bool {
    PROCESS.load(Ordering::Relaxed) == os::thread::process()
}

/// Gives back the slots of threads that no longer exist, if the number of slots has reached the
/// limit.
pub(super) fn free_the_dead() {
    if made() < LIMIT.load(Ordering::Relaxed) || !is_process_known() {
        return;
    }
    let living = slots().filter(|slot| !slot.give_back_of_dead() && slot.is_owned()).count();
    LIMIT.store(limit(living), Ordering::Relaxed);
}

fn limit(living: usize) -> usize {
    FEW.max(2 * living)
}

impl ThreadSlot {
    /// Gives the slot back if its owner no longer exists; returns whether it did.
    pub(super) fn give_back_of_dead(&self) -> bool {
        // The order matters: the birth that is read next belongs to this owner, or is not known
        // yet.
        let owner = self.owner();
        let birth = self.birth();
        let is_dead = owner.asked_for().is_some_and(|id| !os::thread::is_alive(id, birth));
        if is_dead {
            self.give_back(owner);
        }
        is_dead
    }
}

#[cfg(all(test, probe_backend = "patched"))]
#[expect(unsafe_code, reason = "a process that no hook is told of")]
mod tests {
    use super::*;

    #[test]
    fn a_few_slots_or_twice_the_living_are_kept() {
        assert_eq!([0, 3, 4, 5, 1000].map(limit), [8, 8, 8, 10, 2000]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "makes a process")]
    fn an_unknown_child_takes_no_thread_for_dead() {
        super::super::prepare();
        assert!(is_process_known());
        let parent = ThreadSlot::current().unwrap();
        // SAFETY: the child looks at slots; it takes no lock and no heap.
        let child = unsafe { libc::syscall(libc::SYS_fork) };
        if child == 0 {
            LIMIT.store(0, Ordering::Relaxed);
            let owners = || slots().filter(|slot| slot.is_owned()).count();
            let before = owners();
            free_the_dead();
            let is_right = !is_process_known() && parent.is_owned() && owners() == before;
            // SAFETY: ends this process at once.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = -1;
        // SAFETY: a place for the result.
        assert_eq!(i64::from(unsafe { libc::waitpid(child.try_into().unwrap(), &raw mut status, 0) }), child);
        assert_eq!(status, 0);
    }
}
