//! The tree of calls in one thread's memory.
//!
//! Only the thread writes; other threads may read at any time: a node is written before it is
//! counted, and never moves. If several threads used the same memory one after the other, each has
//! a root.

// Safety: relies on zeroes being an empty tree.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

#[cfg(feature = "perf")]
use crate::consumers::waits::{Numbers, WaitSums, Waited};
use crate::engine::calls::add_single_writer;
use crate::engine::per_thread::{Local, Zeroed};

/// The capacity of a tree, roots included. Node 0 means "no node".
const NODES: usize = 1 << 15;
/// The size of the table: twice as many, so that it never fills up.
const PLACES: usize = 2 * NODES;

/// The note of a call for which there was no room.
const NO_ROOM: u32 = u32::MAX;
/// The parent of roots.
const NONE: u32 = 0;

#[repr(C)]
pub struct Nodes {
    /// The number of nodes, without node 0.
    len: AtomicU32,
    /// The root of the present thread, and the number of that thread.
    root: AtomicU32,
    thread: AtomicU64,
    lost: AtomicU64,
    all: [Node; NODES],
    /// Numbers of nodes, at the hash of their parent and function.
    places: [AtomicU32; PLACES],
    /// The waits of each node itself, if time is split.
    #[cfg(feature = "perf")]
    waits: [WaitSums; NODES],
}

// SAFETY: atomics only.
unsafe impl Zeroed for Nodes {}

/// One place in the tree.
#[repr(C)]
struct Node {
    function: AtomicU32,
    parent: AtomicU32,
    calls: AtomicU64,
    polls: AtomicU64,
    own: AtomicU64,
    /// In a root: the thread's number and name. Elsewhere: 1 if a call was moved to another place.
    thread: AtomicU64,
    name: [AtomicU64; 2],
}

/// The kind of place that a reader finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Thread {
        number: u64,
        /// Its name, padded with zeros.
        name: [u8; 16],
    },
    Function(usize),
}

/// One place in the tree as a reader finds it. The parent, if any, has a smaller index.
#[derive(Clone, Copy, Debug)]
pub(super) struct FoundNode {
    pub(super) what: What,
    pub(super) parent: Option<usize>,
    pub(super) calls: u64,
    pub(super) polls: u64,
    pub(super) own: u64,
    #[cfg(feature = "perf")]
    pub(super) waits: Waited,
    /// Whether a call was moved to another place, and none has ended here.
    pub(super) is_left: bool,
}

impl Nodes {
    /// Adds a call inside of the call with this note. Returns the new call's note.
    #[inline]
    pub(super) fn call(&self, local: Local<'_, Self, ()>, function: usize, outer: u64) -> u64 {
        // Notes are node numbers.
        let outer = u32::try_from(outer).unwrap_or(NO_ROOM);
        let parent = if outer == NONE { self.root(local) } else { outer };
        let function = u32::try_from(function).unwrap_or(NO_ROOM);
        if parent == NO_ROOM { NO_ROOM.into() } else { self.child(parent, function).into() }
    }

    /// Moves a call with this note to inside of another one. Returns its new note.
    #[cold]
    pub(super) fn moved(&self, local: Local<'_, Self, ()>, function: usize, outer: u64, note: u64) -> u64 {
        let moved = self.call(local, function, outer);
        let before = usize::try_from(note).ok().and_then(|at| self.all.get(at));
        if let Some(before) = before.filter(|_| moved != note) {
            before.thread.store(1, Relaxed);
        }
        moved
    }

    /// Ends a call or a poll with this note. A poll may be the last one of its call.
    #[inline]
    pub(super) fn end(&self, note: u64, own: u64, is_poll: bool, is_whole: bool) {
        let Some(place) = usize::try_from(note).ok().and_then(|at| self.all.get(at)) else {
            return add_single_writer(&self.lost, 1);
        };
        if is_poll {
            add_single_writer(&place.polls, 1);
        }
        if is_whole {
            add_single_writer(&place.calls, 1);
        }
        add_single_writer(&place.own, own);
    }

    /// Adds the growth of the numbers in a call or a poll with this note itself.
    #[cfg(feature = "perf")]
    #[inline]
    pub(super) fn add_waits(&self, note: u64, own: Numbers) {
        if let Some(waits) = usize::try_from(note).ok().and_then(|at| self.waits.get(at)) {
            waits.add(own);
        }
    }

    #[inline]
    fn child(&self, parent: u32, function: u32) -> u32 {
        let key = u64::from(parent) << 32 | u64::from(function);
        // Fibonacci hashing: the upper bits of a product.
        let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2());
        let mut at = usize::try_from(hash).unwrap_or_default();
        loop {
            let place = &self.places[at % PLACES];
            let number = place.load(Relaxed);
            if number == NONE {
                let made = self.make(parent, function);
                if made != NO_ROOM {
                    place.store(made, Relaxed);
                }
                return made;
            }
            let node = &self.all[number as usize % NODES];
            if node.parent.load(Relaxed) == parent && node.function.load(Relaxed) == function {
                return number;
            }
            at += 1;
        }
    }

    #[cold]
    fn make(&self, parent: u32, function: u32) -> u32 {
        let number = self.len.load(Relaxed) + 1;
        let Some(node) = self.all.get(number as usize) else { return NO_ROOM };
        node.parent.store(parent, Relaxed);
        node.function.store(function, Relaxed);
        self.len.store(number, Release);
        number
    }

    /// Returns the root of the present thread.
    #[inline]
    fn root(&self, local: Local<'_, Self, ()>) -> u32 {
        if self.thread.load(Relaxed) == local.thread() { self.root.load(Relaxed) } else { self.plant(local) }
    }

    #[cold]
    fn plant(&self, local: Local<'_, Self, ()>) -> u32 {
        let number = self.len.load(Relaxed) + 1;
        let root = self.all.get(number as usize).map_or(NO_ROOM, |node| {
            node.thread.store(local.thread(), Relaxed);
            for (word, bytes) in node.name.iter().zip(local.thread_name_bytes().as_chunks::<8>().0) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
            self.len.store(number, Release);
            number
        });
        self.root.store(root, Relaxed);
        self.thread.store(local.thread(), Relaxed);
        root
    }

    /// Returns the number of calls for which there was no room.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Iterates over all nodes in order of creation. Parents are indices, from 0.
    pub(super) fn iter(&self) -> impl Iterator<Item = FoundNode> {
        let len = self.len.load(Acquire) as usize;
        self.all.iter().enumerate().skip(1).take(len).map(|(at, node)| {
            #[cfg(feature = "perf")]
            let waits = Waited::of(&self.waits[at]);
            #[cfg(not(feature = "perf"))]
            let _ = at;
            let parent = node.parent.load(Relaxed);
            let name = node.name.each_ref().map(|word| word.load(Relaxed).to_le_bytes());
            let mut bytes = [0; 16];
            bytes.as_chunks_mut::<8>().0.copy_from_slice(&name);
            let what = if parent == NONE {
                What::Thread { number: node.thread.load(Relaxed), name: bytes }
            } else {
                What::Function(node.function.load(Relaxed) as usize)
            };
            let parent = (parent as usize).checked_sub(1);
            let [calls, polls, own] =
                [&node.calls, &node.polls, &node.own].map(|number| number.load(Relaxed));
            let is_moved = parent.is_some() && node.thread.load(Relaxed) != 0;
            FoundNode {
                what,
                parent,
                calls,
                polls,
                own,
                #[cfg(feature = "perf")]
                waits,
                is_left: is_moved && calls + polls + own == 0,
            }
        })
    }
}
