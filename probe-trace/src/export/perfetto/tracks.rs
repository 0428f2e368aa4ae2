//! Tracks: processes, threads, futures, counters.

use std::{cell::Cell, collections::HashMap};

use super::message::{CounterDescriptor, ProcessDescriptor, ThreadDescriptor, TrackDescriptor};
use crate::calls::{FutureId, Track};
use crate::export::name;
use crate::item::{Definition, Thread, ThreadId};

/// The ids of all tracks that are in use, from 1. Perfetto wants a descriptor of each before the
/// track's first event.
#[derive(Default)]
pub(super) struct Tracks {
    latest: u64,
    processes: HashMap<(usize, u64), u64>,
    threads: HashMap<ThreadId, u64>,
    /// The thread that was asked for last, which is mostly that of the next event, too.
    last: Cell<Option<(ThreadId, u64)>>,
    futures: HashMap<FutureId, u64>,
    /// By file, process, and number of the probe.
    counters: HashMap<(usize, u64, u32), u64>,
}

impl Tracks {
    fn next(&mut self) -> u64 {
        self.latest += 1;
        self.latest
    }

    /// Returns the descriptors that a thread needs: its process's, if that is new, and its own.
    pub(super) fn thread(&mut self, thread: &Thread) -> Vec<TrackDescriptor> {
        let ThreadId { file, process, tid, .. } = thread.id;
        let mut descriptors = Vec::new();
        let pid = Some(i32::try_from(process).unwrap_or(i32::MAX));
        if !self.processes.contains_key(&(file, process)) {
            let uuid = self.next();
            self.processes.insert((file, process), uuid);
            descriptors.push(TrackDescriptor {
                uuid: Some(uuid),
                process: Some(ProcessDescriptor { pid, process_name: text(&thread.program) }),
                ..TrackDescriptor::default()
            });
        }
        let uuid = self.next();
        self.threads.insert(thread.id, uuid);
        descriptors.push(TrackDescriptor {
            uuid: Some(uuid),
            parent_uuid: self.processes.get(&(file, process)).copied(),
            thread: Some(ThreadDescriptor {
                pid,
                tid: Some(i64::try_from(tid).unwrap_or(i64::MAX)),
                thread_name: text(&thread.name),
            }),
            ..TrackDescriptor::default()
        });
        descriptors
    }

    /// Adds the track of a future, below its process.
    pub(super) fn future(&mut self, id: FutureId, probe: &Definition) -> TrackDescriptor {
        let uuid = self.next();
        self.futures.insert(id, uuid);
        TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name::short_path(&probe.path).to_owned()),
            parent_uuid: self.processes.get(&(id.file, id.process)).copied(),
            ..TrackDescriptor::default()
        }
    }

    pub(super) fn end_future(&mut self, id: FutureId) {
        self.futures.remove(&id);
    }

    /// Returns the counter of a probe's field, and the descriptor if it is new.
    pub(super) fn counter(
        &mut self,
        thread: ThreadId,
        probe: &Definition,
        field: &str,
    ) -> (u64, Option<TrackDescriptor>) {
        let key = (thread.file, thread.process, probe.probe);
        if let Some(uuid) = self.counters.get(&key) {
            return (*uuid, None);
        }
        let uuid = self.next();
        self.counters.insert(key, uuid);
        let descriptor = TrackDescriptor {
            uuid: Some(uuid),
            name: Some(format!("{} {field}", name::short_path(&probe.path))),
            parent_uuid: self.processes.get(&(thread.file, thread.process)).copied(),
            counter: Some(CounterDescriptor {}),
            ..TrackDescriptor::default()
        };
        (uuid, Some(descriptor))
    }

    pub(super) fn id(&self, track: Track) -> Option<u64> {
        match track {
            Track::Thread(id) => match self.last.get() {
                Some((last, uuid)) if last == id => Some(uuid),
                _ => {
                    let uuid = self.threads.get(&id).copied()?;
                    self.last.set(Some((id, uuid)));
                    Some(uuid)
                }
            },
            Track::Future(id) => self.futures.get(&id).copied(),
        }
    }
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}
