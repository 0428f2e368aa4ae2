//! The forked children that have not reported.
//!
//! A process shares three numbers with its children: of the forks that it has begun, of the
//! children that run, and of those that have reported. Its own last report is followed by a line if
//! the last two differ. All calls are made under the list's lock (`env/output.rs`), which forks
//! take, too. So the locks here are free in a child.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::engine::os::process::SharedWords;
use crate::engine::os::stderr::print_line;

/// The numbers that a process shares with its children.
struct Family(SharedWords<3>);

impl Family {
    fn begun(&self) -> &AtomicU32 {
        &self.0[0]
    }

    fn run(&self) -> &AtomicU32 {
        &self.0[1]
    }

    fn reported(&self) -> &AtomicU32 {
        &self.0[2]
    }
}

/// Of this process and its children; `None` before its first fork, and after its line.
static CHILDREN: Mutex<Option<Family>> = Mutex::new(None);
/// Of this process's parent; `None` unless this process is to report.
static PARENT: Mutex<Option<Family>> = Mutex::new(None);

/// The time for a child to begin to run. A fork that has failed has none.
const BEGINNING: Duration = Duration::from_millis(100);

fn locked(family: &'static Mutex<Option<Family>>) -> MutexGuard<'static, Option<Family>> {
    family.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A fork begins in a process that has something to report. Nothing is known without memory.
pub(super) fn before() {
    let mut children = locked(&CHILDREN);
    if children.is_none() {
        *children = SharedWords::new().map(Family);
    }
    if let Some(family) = &*children {
        family.begun().fetch_add(1, Ordering::Relaxed);
    }
}

/// This process is a forked child, whose parent's report may be waiting for it.
pub(super) fn in_child(has_output: bool) {
    let family = locked(&CHILDREN).take().filter(|_| has_output);
    if let Some(family) = &family {
        family.run().fetch_add(1, Ordering::Relaxed);
    }
    *locked(&PARENT) = family;
}

/// This process has reported for the last time. Says how many of its children have not.
pub(super) fn end() {
    if let Some(family) = locked(&PARENT).take() {
        family.reported().fetch_add(1, Ordering::Relaxed);
    }
    if let Some(family) = locked(&CHILDREN).take() {
        match silent(&family) {
            0 => (),
            1 => print_line(
                "PROBES: 1 forked process has not reported so far; if it ends by `_exit`, `exec` or a signal, \
                      its hits are in no report",
            ),
            more => print_line(&format!(
                "PROBES: {more} forked processes have not reported so far; if one ends by `_exit`, `exec` or a \
                 signal, its hits are in no report"
            )),
        }
    }
}

/// Returns the number of children that have not reported.
fn silent(family: &Family) -> u32 {
    let begin = Instant::now();
    while family.run().load(Ordering::Relaxed) < family.begun().load(Ordering::Relaxed)
        && begin.elapsed() < BEGINNING
    {
        thread::sleep(Duration::from_micros(200));
    }
    let reported = family.reported().load(Ordering::Relaxed);
    family.run().load(Ordering::Relaxed).saturating_sub(reported)
}
