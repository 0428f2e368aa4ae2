//! Trees of calls whose time is split into CPU time and waits.

// Safety: relies on zeroes being no measurement.
#![expect(unsafe_code, reason = "see above")]

use super::nodes::Nodes;
use super::{Shape, build};
use crate::consumers::waits::{Numbers, Refused, WaitClock};
use crate::engine::calls::{CallEnd, Calls, LazyCalls, Meter};
use crate::engine::clock::Clock;
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::{Local, Zeroed};
use crate::engine::waits::{NUMBERS, ThreadWaits};
use probe_report::reports::Tree;

/// The calls, and what reads their numbers.
#[derive(Debug)]
pub(super) struct SplitCalls {
    waits: WaitClock,
    calls: LazyCalls<NUMBERS, Self>,
}

/// The memory of one thread.
#[repr(C)]
pub(super) struct SplitHead {
    waits: ThreadWaits,
    nodes: Nodes,
}

// SAFETY: it consists of such parts.
unsafe impl Zeroed for SplitHead {}

impl SplitCalls {
    pub(super) fn new(clock: Clock) -> Self {
        Self { waits: WaitClock::new(clock), calls: LazyCalls::new() }
    }

    pub(super) fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.waits.prepare()?;
        self.calls.prepare(probes)
    }

    pub(super) fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.calls.join(probes)
    }

    #[inline]
    pub(super) fn hit(&self, event: &Event<'_>) {
        self.calls.hit(event, self);
    }

    pub(super) fn build(&self, by_thread: bool, shape: Shape) -> Tree {
        let Some(calls) = self.calls.get() else { return Tree::default() };
        let tree = build::build(calls, |head| &head.nodes, self.waits.clock().scale(), by_thread, shape);
        tree.noting(Refused::of(self.heads()).note())
    }

    fn heads(&self) -> impl Iterator<Item = Local<'_, ThreadWaits, ()>> {
        let heads = self.calls.get().into_iter().flat_map(Calls::heads);
        heads.map(|local| local.map(|head| &head.waits))
    }
}

impl Meter<NUMBERS> for SplitCalls {
    type Head = SplitHead;
    type Part = ();

    const NOTES: bool = true;
    const READS_LOCALLY: bool = true;

    #[inline]
    fn read(&self, local: Local<'_, SplitHead, ()>) -> Numbers {
        self.waits.read(local.map(|head| &head.waits))
    }

    #[inline]
    fn begin(&self, local: Local<'_, SplitHead, ()>, function: usize, outer: u64) -> u64 {
        local.head().nodes.call(local.map(|head| &head.nodes), function, outer)
    }

    fn moved(&self, local: Local<'_, SplitHead, ()>, function: usize, outer: u64, note: u64) -> u64 {
        local.head().nodes.moved(local.map(|head| &head.nodes), function, outer, note)
    }

    #[inline]
    fn end(&self, ended: &CallEnd<'_, NUMBERS, SplitHead, ()>) {
        let (nodes, own) = (&ended.head.nodes, ended.own());
        nodes.end(ended.note, own[0], ended.is_poll, ended.completed.is_some());
        nodes.add_waits(ended.note, own);
    }
}

impl Drop for SplitCalls {
    fn drop(&mut self) {
        self.waits.close(self.heads());
    }
}
