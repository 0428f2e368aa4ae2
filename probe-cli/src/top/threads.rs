//! The threads of a program, as the kernel counts their time. The program takes no part in it.
//!
//! Life cycle: made when the page of threads is opened, and dropped when it is closed. Each reading
//! has the differences to the one before.
//!
//! Cost: two small files for each thread, once a second, or less often if that takes more than a
//! twentieth of the time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::proc_files::Stat;

/// One thread.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Thread {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// Its state: `running`, `sleeping`, …
    pub state: &'static str,
    /// The part of a processor that it used since the last reading.
    pub busy: Option<f64>,
    /// The part of that time in which it could run, and another thread had the processor.
    pub waiting: Option<f64>,
    /// Nanoseconds on processors since it began: in the program's code and the kernel's.
    pub used: Option<f64>,
}

/// Nanoseconds of a thread since it began.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Times {
    used: u64,
    waited: u64,
}

/// The least time between two readings. The kernel counts the time of a running thread in ticks of
/// some milliseconds.
const MIN_INTERVAL: Duration = Duration::from_millis(900);
/// The same, as a multiple of the time that a reading takes.
const MIN_INTERVAL_READINGS: u32 = 20;

/// The threads of a process.
#[derive(Debug)]
pub struct Threads {
    tasks: PathBuf,
    before: BTreeMap<u32, (Instant, Times)>,
    next: Option<Instant>,
}

impl Threads {
    /// The threads of a process.
    pub fn of(pid: u32) -> Self {
        Self::in_folder(format!("/proc/{pid}/task").into())
    }

    fn in_folder(tasks: PathBuf) -> Self {
        Self { tasks, before: BTreeMap::new(), next: None }
    }

    /// Reads the threads if it is time to, those that used most CPU time first.
    ///
    /// # Errors
    /// If the process is gone, or hidden.
    pub fn read_if_due(&mut self) -> Option<io::Result<Vec<Thread>>> {
        let begun = Instant::now();
        if self.next.is_some_and(|next| begun < next) {
            return None;
        }
        let read = self.read();
        self.next = Some(begun + MIN_INTERVAL.max(begun.elapsed() * MIN_INTERVAL_READINGS));
        Some(read)
    }

    fn read(&mut self) -> io::Result<Vec<Thread>> {
        let mut threads = Vec::new();
        let mut now = BTreeMap::new();
        for entry in fs::read_dir(&self.tasks)? {
            let path = entry?.path();
            // The thread exited while we were listing.
            let Some(mut thread) = thread(&path) else { continue };
            if let Some(times) = times(&path) {
                let at = Instant::now();
                if let Some((before, past)) = self.before.get(&thread.id) {
                    let passed = at.duration_since(*before).as_nanos().max(1) as f64;
                    let part = |now: u64, past: u64| (now.saturating_sub(past) as f64 / passed).min(1.0);
                    thread.busy = Some(part(times.used, past.used));
                    thread.waiting = Some(part(times.waited, past.waited));
                }
                thread.used = Some(times.used as f64);
                now.insert(thread.id, (at, times));
            }
            threads.push(thread);
        }
        self.before = now;
        let key = |it: &Thread| it.busy.unwrap_or(0.0);
        threads.sort_by(|a, b| key(b).total_cmp(&key(a)).then(a.id.cmp(&b.id)));
        Ok(threads)
    }
}

fn thread(task: &Path) -> Option<Thread> {
    let Stat { id, name, state, .. } = Stat::read(task)?;
    let state = match state {
        'R' => "running",
        'S' | 'I' => "sleeping",
        'D' => "waiting",
        'T' => "stopped",
        't' => "debugged",
        'Z' | 'X' => "ended",
        _ => "-",
    };
    Some(Thread { id, name, state, ..Thread::default() })
}

/// Reads a thread's `schedstat`, which kernels without `CONFIG_SCHED_INFO` lack.
fn times(task: &Path) -> Option<Times> {
    let text = fs::read_to_string(task.join("schedstat")).ok()?;
    let mut numbers = text.split_whitespace().map(str::parse);
    Some(Times { used: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn this_process_has_its_threads() {
        let mut threads = Threads::of(std::process::id());
        let (end, ended) = mpsc::channel::<()>();
        let spawned = thread::Builder::new().name("a) R (b".to_owned());
        let spawned = spawned.spawn(move || ended.recv()).unwrap();
        let named = |all: &[Thread]| all.iter().find(|it| it.name == "a) R (b").cloned();
        // It takes its name itself, and sleeps afterwards.
        let begun = Instant::now();
        let is_in_time = || assert!(begun.elapsed() < Duration::from_secs(60), "it does not come or go");
        let sleeps = |it: Thread| it.state == "sleeping";
        while !named(&threads.read().unwrap()).is_some_and(sleeps) {
            is_in_time();
        }
        threads = Threads::of(std::process::id());
        let first = named(&threads.read().unwrap()).unwrap();
        assert_eq!((first.busy, first.waiting), (None, None));
        let all = threads.read().unwrap();
        let second = named(&all).unwrap();
        assert!(second.busy < Some(1.0) && second.used >= first.used, "{second:?}");
        assert!(all.is_sorted_by(|a, b| a.busy.unwrap_or(0.0) >= b.busy.unwrap_or(0.0)), "{all:?}");
        drop(end);
        let _ = spawned.join();
        // The kernel may list it for a moment.
        while named(&threads.read().unwrap()).is_some() {
            is_in_time();
        }
        let due = [(); 2].map(|()| threads.read_if_due().is_some());
        assert_eq!(due, [true, false]);
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(Threads::in_folder("/proc/0/task".into()).read().is_err());
    }

    #[test]
    fn what_can_not_be_read_is_not_known() {
        let folder = std::env::temp_dir().join(format!("probe-threads-{}", std::process::id()));
        let write = |id: &str, stat: &str, times: &str| {
            fs::create_dir_all(folder.join(id)).unwrap();
            fs::write(folder.join(id).join("stat"), stat).unwrap();
            fs::write(folder.join(id).join("schedstat"), times).unwrap();
        };
        write("7", "7 (one) D 1 1", "1000 20 3\n");
        write("8", "8 (two) ? 1 1", "none");
        write("9", "9 (three", "1 1 1");
        let threads = Threads::in_folder(folder.clone()).read().unwrap();
        let seven = Thread {
            id: 7,
            name: "one".to_owned(),
            state: "waiting",
            used: Some(1000.0),
            ..Thread::default()
        };
        let eight = Thread { id: 8, name: "two".to_owned(), state: "-", ..Thread::default() };
        assert_eq!(threads, [seven, eight]);
        fs::remove_dir_all(folder).unwrap();
    }
}
