//! How far the program has come: what the threads that hit have used on processors.

use super::sampler::Sampler;
use super::time::{Time, Used};
use crate::os;

/// With more threads than that, asking each takes too long: the process's time has to do, which lags by a tick.
const MANY: usize = 64;

/// What each thread has used.
#[derive(Clone, Default, Debug)]
pub(super) struct Progress {
    threads: Vec<Thread>,
    /// Where threads are not asked, what the process had used first.
    first: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    number: u64,
    id: u32,
    first: u64,
    last: u64,
}

impl Progress {
    /// Nanoseconds that the program's threads have used so far. `used` is as of now, `since` so many nanoseconds ago that was asked last: a
    /// thread that is new has run since then, as far as it can have.
    pub(super) fn now(&mut self, time: Time, used: Used, since: u64, sampler: &Sampler) -> u64 {
        let is_asked = matches!(time, Time::Machine(_)) && self.first.is_none() && cfg!(target_os = "linux");
        if !is_asked || self.threads.len() > MANY {
            let all = used.by_all;
            // Goes on from where it was.
            let before = self.sum();
            return all.saturating_sub(*self.first.get_or_insert(all.saturating_sub(before)));
        }
        for (number, id) in sampler.threads() {
            if !self.threads.iter().any(|thread| thread.number == number)
                && let Some(last) = os::cpu::of_thread(id)
            {
                self.threads.push(Thread { number, id, first: last.saturating_sub(since), last });
            }
        }
        for thread in &mut self.threads {
            // One that has ended has used what it had. Its id may be another's by now, which is no less.
            thread.last = os::cpu::of_thread(thread.id).map_or(thread.last, |last| last.max(thread.last));
        }
        self.sum()
    }

    fn sum(&self) -> u64 {
        self.threads.iter().map(|thread| thread.last - thread.first).sum()
    }
}
