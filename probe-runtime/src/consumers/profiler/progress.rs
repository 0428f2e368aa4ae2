//! The progress of the program: the CPU time of its threads.
//!
//! The CPU time of the process includes all threads, also ended ones. But for threads on other
//! processors it is as of the last tick, some milliseconds ago. The CPU time of a thread is exact
//! to the microsecond, but is known only for threads that have hit a probe. So windows, which are
//! short, go by the threads. The time of others, and of threads after they were last asked, is
//! added bit by bit over [`SMOOTHED`].

use super::time::{Time, Used};
use crate::dispatch::threads;
use crate::os;

/// With more threads than this, asking each takes too long, and the time of the process has to do.
const MANY: usize = 64;
/// The nanoseconds over which the difference between the two is added.
const SMOOTHED: f64 = 50e6;
/// Not while somebody may be measuring.
const LONG: u64 = 2_000_000;

/// The CPU time used.
#[derive(Clone, Default, Debug)]
pub(super) struct Progress {
    threads: Vec<Thread>,
    /// By threads that have ended.
    ended: u64,
    /// By unknown threads.
    others: f64,
    /// By a parent, before this process.
    before: f64,
    /// By the process, at first.
    first: u64,
    /// The kernel's id of a thread that is not the program's.
    daemon: Option<u32>,
    /// The last answer.
    last: f64,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    number: u64,
    id: u32,
    first: u64,
    last: u64,
}

impl Thread {
    fn used(&self) -> u64 {
        self.last - self.first
    }
}

impl Progress {
    /// No time has been used yet.
    pub(super) fn new(used: Used) -> Self {
        Self { first: used.by_all, ..Self::default() }
    }

    /// The last answer.
    pub(super) fn last(&self) -> f64 {
        self.before + self.last
    }

    /// In a forked child: no time has been used since the parent's.
    pub(super) fn begin_anew(&mut self) {
        let before = self.last();
        *self = Self { before, ..Self::default() };
    }

    /// Notes that this thread is not the program's.
    pub(super) fn leave_out_this_thread(&mut self) {
        self.daemon = Some(os::thread::id());
    }

    /// Nanoseconds that the program's threads have used so far. `used` is as of now. `since` is the
    /// time since this was last asked, in nanoseconds.
    #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
    pub(super) fn now(&mut self, time: Time, used: Used, since: u64) -> f64 {
        let own = self.daemon.and_then(os::cpu::of_thread).unwrap_or_default();
        let all = used.by_all.saturating_sub(self.first).saturating_sub(own) as f64;
        let is_asked = matches!(time, Time::Machine(_)) && cfg!(target_os = "linux");
        let present: Vec<_> = threads().filter(|(_, id)| Some(*id) != self.daemon).collect();
        if is_asked && present.len() <= MANY {
            self.ask_threads(since, &present);
            let known = (self.ended + self.threads.iter().map(Thread::used).sum::<u64>()) as f64;
            if since >= LONG {
                let part = (since as f64 / SMOOTHED).min(1.0);
                self.others += part * (all - known - self.others);
            }
            self.last = self.last.max(known + self.others);
        } else {
            self.last = self.last.max(all);
        }
        self.last()
    }

    fn ask_threads(&mut self, since: u64, present: &[(u64, u32)]) {
        let (here, gone): (Vec<_>, Vec<_>) =
            self.threads.iter().partition(|it| present.contains(&(it.number, it.id)));
        self.threads = here;
        self.ended += gone.iter().map(Thread::used).sum::<u64>();
        for &(number, id) in present {
            let Some(now) = os::cpu::of_thread(id) else { continue };
            match self.threads.iter_mut().find(|thread| thread.number == number) {
                Some(thread) => thread.last = now.max(thread.last),
                // It has run since then, for as long as it can have.
                None => self.threads.push(Thread { number, id, first: now.saturating_sub(since), last: now }),
            }
        }
    }
}
