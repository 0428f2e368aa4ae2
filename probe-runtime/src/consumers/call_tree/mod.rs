//! Who calls whom, and for how long.

mod build;
mod flame;
mod nodes;
mod tree;

use std::fmt;

use nodes::Nodes;
pub use tree::{Tree, TreeNode};

use super::shown::Shown;
use crate::calls::{Ended, Meter, OnceCalls};
use crate::clock::Clock;
use crate::consumer::Consumer;
use crate::control::ProbeSet;
use crate::dispatch::Event;
use crate::error::Error;
use crate::per_thread::Local;

/// Builds the tree of calls of the selected functions, from the nesting of entries and exits: for each thread, and merged.
///
/// Entries and exits are paired as [`calls`](crate::calls) says; select both (`net::*`, without a `kind`). Of a future, each poll is a
/// call, below whatever has polled it. Its attachment prints as a text tree; [`tree`](Self::tree) gives it as folded stacks, a flame graph,
/// JSON and CSV, too.
///
/// Calls that have not ended are in the tree, with a time of their own as soon as they end; the calls inside of them are there before.
///
/// Cost: as [`Calls`](crate::calls::Calls), and a look into a table at each entry. Memory: for each thread that hits, two megabytes of addresses, of which
/// the pages that are touched are real; room for 32,767 places in the tree, calls beyond that are [counted](Tree::lost).
///
/// ```
/// use probe_runtime::{CallTree, probe, select};
///
/// #[probe]
/// fn outer() {
///     inner();
///     inner();
/// }
///
/// #[probe]
/// fn inner() {}
///
/// let calls = select("**::outer, **::inner")?.attach(CallTree::new())?;
/// outer();
/// let tree = calls.tree();
/// let found: Vec<_> = tree.iter().map(|node| (node.depth(), node.calls())).collect();
/// assert_eq!(found, [(0, 1), (1, 2)]);
/// println!("{calls}");
/// # let flames =
/// tree.to_svg();
/// # assert!(flames.starts_with("<svg"));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Default, Debug)]
pub struct CallTree {
    clock: Clock,
    calls: OnceCalls<1, Self>,
}

impl CallTree {
    /// A new one, with the best [`Clock`] of this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// The tree so far, of all threads as one, also of those that have ended.
    pub fn tree(&self) -> Tree {
        self.build(false)
    }

    /// The tree so far, with the threads as its first level, by their names.
    pub fn threads(&self) -> Tree {
        self.build(true)
    }

    fn build(&self, by_thread: bool) -> Tree {
        self.calls
            .get()
            .map_or_else(Tree::default, |calls| build::build(calls, self.clock.scale(), by_thread))
    }
}

impl Meter<1> for CallTree {
    type Head = Nodes;
    type Part = ();

    const NOTES: bool = true;

    #[inline(always)]
    fn read(&self, _: Local<'_, Nodes, ()>) -> [u64; 1] {
        [self.clock.now()]
    }

    #[inline(always)]
    fn glance(&self) -> Option<[u64; 1]> {
        self.clock.counter().map(|now| [now])
    }

    #[inline]
    fn begin(&self, local: Local<'_, Nodes, ()>, function: usize, outer: u64) -> u64 {
        local.head().call(local, function, outer)
    }

    #[inline]
    fn end(&self, ended: &Ended<'_, 1, Nodes, ()>) {
        ended.head.end(ended.note, ended.own()[0]);
    }
}

impl Consumer for CallTree {
    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        self.calls.prepare(probes)
    }

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        self.calls.hit(event, self);
    }
}

impl Shown for CallTree {
    fn shown(&self) -> impl fmt::Display {
        self.tree()
    }
}
