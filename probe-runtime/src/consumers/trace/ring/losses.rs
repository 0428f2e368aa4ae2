//! Events that find no room, as accounts of the threads that lose them.
//!
//! The thread that the current sub-buffer is of has an account in the head, which its next
//! sub-buffer tells. A thread that comes while an earlier one has left the ring full has another,
//! which its first sub-buffer tells in a record of its own. If it never gets one, its events count
//! as those of a thread without a ring.

use probe_trace::layout::control;

use super::super::atomic::AtomicU64;
use super::super::atomic::Ordering::Relaxed;
use super::{GAP_WORDS, Hit, Ring, Shape};

/// Events that a thread has lost before it has a sub-buffer of the ring.
#[derive(Default)]
#[repr(C)]
pub(super) struct Late {
    thread: AtomicU64,
    lost: AtomicU64,
    begin: AtomicU64,
    end: AtomicU64,
}

impl Ring<'_> {
    /// Counts a lost event.
    pub(super) fn lose(self, hit: Hit) {
        let head = self.head;
        if head.thread.load(Relaxed) != hit.thread {
            return self.lose_late(hit);
        }
        let lost_now = head.lost_now.load(Relaxed);
        if lost_now == 0 {
            head.gap_begin.store(hit.now, Relaxed);
        }
        head.gap_end.store(hit.now, Relaxed);
        // The next event begins a sub-buffer, so that lost events lie between two of them.
        head.end.store(head.position.load(Relaxed), Relaxed);
        head.lost_now.store(lost_now + 1, Relaxed);
        head.lost.store(head.lost.load(Relaxed) + 1, Relaxed);
    }

    fn lose_late(self, hit: Hit) {
        let Late { thread, lost, begin, end } = &self.head.late;
        if thread.load(Relaxed) != hit.thread {
            self.give_up_late();
            thread.store(hit.thread, Relaxed);
        }
        if lost.load(Relaxed) == 0 {
            begin.store(hit.now, Relaxed);
        }
        end.store(hit.now, Relaxed);
        lost.store(lost.load(Relaxed) + 1, Relaxed);
    }

    /// Tells the late events of this thread in its first sub-buffer, where there is room besides
    /// for so many words.
    pub(super) fn tell_late(self, shape: Shape, hit: Hit, wanted: u64) {
        let Late { thread, lost, begin, end } = &self.head.late;
        let told = [lost, begin, end].map(|it| it.load(Relaxed));
        if told[0] == 0 {
            return;
        }
        let wanted = wanted + GAP_WORDS;
        if thread.load(Relaxed) == hit.thread && (self.has_room(wanted) || self.clear(shape, wanted)) {
            self.control(hit, &[control::GAP, told[0], told[1], told[2]]);
            lost.store(0, Relaxed);
            self.head.lost.store(self.head.lost.load(Relaxed) + told[0], Relaxed);
        } else {
            self.give_up_late();
        }
    }

    /// Forgets what another process has lost.
    pub(super) fn forget_late(self) {
        let Late { thread, lost, begin, end } = &self.head.late;
        [thread, lost, begin, end, &self.head.ringless].into_iter().for_each(|of| of.store(0, Relaxed));
    }

    fn give_up_late(self) {
        let Self { head, .. } = self;
        head.ringless.store(self.ringless(), Relaxed);
        head.late.lost.store(0, Relaxed);
    }

    /// Returns the events of threads that came while the ring was full, and got no room yet.
    pub(in super::super) fn ringless(self) -> u64 {
        self.head.ringless.load(Relaxed) + self.head.late.lost.load(Relaxed)
    }
}
