//! Slots of threads that have ended unnoticed, found by asking the kernel.
//!
//! The C library tells of a thread's end before the thread's last instruction. Destructors of other
//! keys run later, and so does the library's own clean-up, which calls `free`. A hit there takes a
//! slot, and nobody gives that back. Nothing tells such a slot from others: the thread's first hit
//! may be the one in `free`. Where no key is left that takes no heap, no end is told at all.
//!
//! So a thread that needs a slot and finds none free asks the kernel which owners are still there,
//! but not before there are twice as many slots as there were owners the last time. There are never
//! more slots, then, than [`FEW`], or twice as many as threads with slots lived at once.
//!
//! Cost: up to two questions (`tgkill` of signal 0) for each slot that is taken, on average, and
//! none for the first [`FEW`] slots. An operation looks at every slot, so it costs as much as
//! threads live, not as have lived.
//!
//! An owner is never asked for where the answer could be another process's: in a child by `vfork`,
//! `posix_spawn` or a bare `clone`, which told no hook of ours that it is one. What is taken there
//! has no owner that could be asked for, and the exit hook alone ends it. It is told by its id, so
//! one exception is left: the first process of a namespace that makes the first of another
//! (`CLONE_NEWPID`) by a bare `clone` that shares its memory. Such a child must not hit probes.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use super::slot::{Slot, made, slots};
use crate::os;

/// Up to as many slots, nobody is asked for.
const FEW: usize = 8;

/// How many slots there are to be before owners are asked for.
static LIMIT: AtomicUsize = AtomicUsize::new(FEW);

/// The process whose threads are known by their ids; 0 before the first operation.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// This process's threads are known by their ids from here on: after the program's start, or a
/// fork.
pub(super) fn know_process() {
    PROCESS.store(os::thread::process(), Ordering::Relaxed);
}

/// Whether the kernel can be asked for owners by their ids.
pub(super) fn is_process_known() -> bool {
    PROCESS.load(Ordering::Relaxed) == os::thread::process()
}

/// Gives back the slots of threads that are no more, if there are so many slots that there may be
/// some.
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

impl Slot {
    /// Takes the slot back if its owner no longer exists; returns whether it did.
    pub(super) fn give_back_of_dead(&self) -> bool {
        // In this order: the birth is then this owner's, or not known yet.
        let owner = self.owner();
        let birth = self.birth();
        let is_dead = owner.asked_for().is_some_and(|id| !os::thread::is_alive(id, birth));
        if is_dead {
            self.give_back(owner);
        }
        is_dead
    }
}

#[cfg(all(test, probe_backend = "x86_64"))]
#[expect(unsafe_code, reason = "a process that no hook is told of")]
mod tests {
    use super::*;

    #[test]
    fn few_are_kept_and_twice_as_many_as_live() {
        assert_eq!([0, 3, 4, 5, 1000].map(limit), [8, 8, 8, 10, 2000]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "makes a process")]
    fn a_child_that_no_hook_knows_of_takes_nobody_for_dead() {
        super::super::prepare();
        assert!(is_process_known());
        let parent = Slot::current().unwrap();
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
