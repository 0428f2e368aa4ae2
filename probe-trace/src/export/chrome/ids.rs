//! Ids of processes and threads that are distinct in one export.

use std::collections::{HashMap, HashSet};

use crate::item::ThreadId;

/// Numbers from here stand for ids that another process or thread of the export has. No system has
/// ids that large.
const FIRST_SUBSTITUTE_ID: u64 = 10_000_000;

/// Viewers tell threads apart by the system's ids, which the system may give again, and which
/// containers give independently. The first one keeps its id.
#[derive(Default)]
pub(super) struct Ids {
    processes: HashMap<(usize, u64), u64>,
    threads: HashMap<ThreadId, u64>,
    used_processes: HashSet<u64>,
    used_threads: HashSet<(u64, u64)>,
    substitutes: u64,
}

impl Ids {
    /// Returns the id of a process; the second value tells whether it is new.
    pub(super) fn process(&mut self, file: usize, process: u64) -> (u64, bool) {
        if let Some(id) = self.processes.get(&(file, process)) {
            return (*id, false);
        }
        let id = if self.used_processes.insert(process) { process } else { self.substitute() };
        self.processes.insert((file, process), id);
        (id, true)
    }

    /// Returns the ids of a thread's process and of the thread.
    pub(super) fn thread(&mut self, thread: ThreadId) -> (u64, u64) {
        let (process, _) = self.process(thread.file, thread.process);
        if let Some(id) = self.threads.get(&thread) {
            return (process, *id);
        }
        let is_free = self.used_threads.insert((process, thread.tid));
        let id = if is_free { thread.tid } else { self.substitute() };
        self.threads.insert(thread, id);
        (process, id)
    }

    fn substitute(&mut self) -> u64 {
        self.substitutes += 1;
        FIRST_SUBSTITUTE_ID + self.substitutes - 1
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;
    use crate::fixtures::id;

    #[test]
    fn ids_that_the_system_gave_again_are_replaced() {
        let mut ids = Ids::default();
        let mut again = id(2);
        again.tid = 101;
        let mut other_file = id(1);
        other_file.file = 1;
        assert_eq!(ids.thread(id(1)), (7, 101));
        assert_eq!(ids.thread(again), (7, 10_000_000));
        assert_eq!(ids.thread(other_file), (10_000_001, 101));
        assert_eq!(ids.thread(again), (7, 10_000_000));
        assert_eq!(ids.process(1, 7), (10_000_001, false));
    }
}
