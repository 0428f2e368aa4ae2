//! The tree of calls, with their times.

mod build;
mod nodes;
#[cfg(feature = "perf")]
mod split;

use nodes::Nodes;

use crate::engine::calls::{CallEnd, LazyCalls, Meter};
use crate::engine::clock::Clock;
use crate::engine::control::{Consumer, ProbeSet};
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::Local;
use probe_lang::{ParseError, Setting};
use probe_report::reports::Tree;

/// Builds the tree of calls of the selected functions, from the nesting of entries and exits: for
/// each thread, and merged.
///
/// Entries and exits are paired as described in [`calls`](crate::calls); select both (`net::*`,
/// without a `kind`). The attachment prints as a text tree; `format!("{attachment:100}")` keeps it
/// within 100 columns. [`tree`](Self::tree) also has it as folded stacks, a flame graph, JSON and
/// CSV. All times are wall time.
///
/// | column | meaning |
/// |---|---|
/// | `total` | the time in the function and everything below it; for a future, in its polls |
/// | `share` | the part of all time |
/// | `self` | the time in the function, and in no other function of the tree |
/// | `calls` | calls that have ended; all polls of a future are one call, counted at the place of the last poll |
/// | `polls` | polls of futures that have ended, below the function that polled them; only if there are any |
///
/// A call gets its time when it ends. Until then it is in the tree without a time, with the times
/// of inner calls that have ended.
///
/// Cost: that of [`Calls`](crate::calls::Calls), and a table lookup at each entry. Memory: for each
/// thread that hits, two megabytes of addresses, of which only the touched pages take memory. The
/// tree has room for 32,767 places; calls beyond that are [counted](Tree::lost).
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
    calls: LazyCalls<1, Self>,
    /// In place of `calls`, if the time is split.
    #[cfg(feature = "perf")]
    split: Option<split::SplitCalls>,
    shape: Shape,
}

/// The calls that become places of the tree.
#[derive(Clone, Copy, Default, Debug)]
struct Shape {
    /// The greatest depth, if it is limited.
    depth: Option<usize>,
    /// Whether a recursive call has a place of its own.
    is_unfolded: bool,
    /// Whether the time of each is split.
    #[cfg(feature = "perf")]
    is_split: bool,
}

impl CallTree {
    /// Creates a tree with the best [`Clock`] of this machine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits the tree to this many levels, at least one. A place at the last level has all of its
    /// time, and [counts](probe_report::reports::TreeNode::below) the places below it.
    ///
    /// ```
    /// use probe_runtime::{CallTree, probe, select};
    ///
    /// #[probe]
    /// fn outer() {
    ///     inner();
    /// }
    ///
    /// #[probe]
    /// fn inner() {}
    ///
    /// let calls = select("**::outer, **::inner")?.attach(CallTree::new().depth(1))?;
    /// outer();
    /// let tree = calls.tree();
    /// assert_eq!(tree.len(), 1);
    /// assert_eq!(tree[0].below(), 1);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn depth(mut self, levels: usize) -> Self {
        self.shape.depth = Some(levels.max(1));
        self
    }

    /// Gives each level of a recursion a place of its own. By default, recursion is folded: a
    /// recursive call counts at the place of the outer call, which [counts such
    /// calls](probe_report::reports::TreeNode::recursive_calls).
    ///
    /// ```
    /// use probe_runtime::{CallTree, probe, select};
    ///
    /// #[probe]
    /// fn factorial(n: u64) -> u64 {
    ///     if n < 2 { 1 } else { n * factorial(n - 1) }
    /// }
    ///
    /// let folded = select("**::factorial")?.attach(CallTree::new())?;
    /// let unfolded = select("**::factorial")?.attach(CallTree::new().unfolded())?;
    /// assert_eq!(factorial(4), 24);
    /// let tree = folded.tree();
    /// assert_eq!(tree.len(), 1);
    /// assert_eq!((tree[0].calls(), tree[0].recursive_calls()), (4, 3));
    /// assert_eq!(unfolded.tree().len(), 4);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn unfolded(mut self) -> Self {
        self.shape.is_unfolded = true;
        self
    }

    /// Splits the time of each place into CPU time and waits, as `Latency::cpu` does, with the same
    /// columns, at the same cost and under the same conditions.
    ///
    /// ```
    /// use std::time::Duration;
    /// use probe_runtime::{CallTree, probe, select};
    ///
    /// #[probe]
    /// fn nap() {
    ///     std::thread::sleep(Duration::from_millis(1));
    /// }
    ///
    /// match select("**::nap")?.attach(CallTree::new().cpu()) {
    ///     Ok(calls) => {
    ///         nap();
    ///         let tree = calls.tree();
    ///         let split = tree[0].split().unwrap();
    ///         assert!(split.blocked > 0 && split.cpu < tree[0].total());
    ///         println!("{tree}");
    ///     }
    ///     Err(error) => println!("the system does not permit it: {error}"),
    /// }
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[cfg(feature = "perf")]
    #[must_use]
    pub fn cpu(mut self) -> Self {
        self.split = Some(split::SplitCalls::new(self.clock));
        self.shape.is_split = true;
        self
    }

    /// Creates a tree with the options of `PROBES`: `call-tree(depth=8, recursion=full, cpu)`.
    pub(crate) fn with_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
        settings.iter().try_fold(Self::new(), |tree, it| match (it.name(), it.value()) {
            ("depth", levels) => match levels.parse() {
                Ok(levels) if levels > 0 => Ok(tree.depth(levels)),
                _ => Err(it.invalid_value(format!("`{levels}` is not a depth; write `depth=8`"))),
            },
            #[cfg(feature = "perf")]
            ("cpu", "") => Ok(tree.cpu()),
            #[cfg(feature = "perf")]
            ("cpu", _) => Err(it.invalid_value("`cpu` has no value; write `call-tree(cpu)`")),
            (_, "full") => Ok(tree.unfolded()),
            (_, "folded") => Ok(tree),
            (_, other) => Err(it.invalid_value(format!("recursion is `folded` or `full`, not `{other}`"))),
        })
    }

    /// Returns the tree so far, merged over all threads, ended threads included.
    pub fn tree(&self) -> Tree {
        self.build(false)
    }

    /// Returns the tree so far, with the threads as its first level, by their names.
    pub fn threads(&self) -> Tree {
        self.build(true)
    }

    fn build(&self, by_thread: bool) -> Tree {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.build(by_thread, self.shape);
        }
        self.calls.get().map_or_else(Tree::default, |calls| {
            build::build(calls, |nodes| nodes, self.clock.scale(), by_thread, self.shape)
        })
    }
}

impl Meter<1> for CallTree {
    type Head = Nodes;
    type Part = ();

    const NOTES: bool = true;

    reads_clock!(clock);

    #[inline]
    fn begin(&self, local: Local<'_, Nodes, ()>, function: usize, outer: u64) -> u64 {
        local.head().call(local, function, outer)
    }

    fn moved(&self, local: Local<'_, Nodes, ()>, function: usize, outer: u64, note: u64) -> u64 {
        local.head().moved(local, function, outer, note)
    }

    #[inline]
    fn end(&self, ended: &CallEnd<'_, 1, Nodes, ()>) {
        ended.head.end(ended.note, ended.own()[0], ended.is_poll, ended.completed.is_some());
    }
}

hits_quickly!(CallTree);

impl Consumer for CallTree {
    fn pairs_calls(&self) -> bool {
        true
    }

    fn prepare(&self, probes: &ProbeSet) -> Result<(), Error> {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.prepare(probes);
        }
        self.calls.prepare(probes)
    }

    fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.join(probes);
        }
        self.calls.join(probes)
    }

    // Where the time is split, the quick part finds no calls, and leaves each hit to `hit`.
    hits_quickly!();

    #[inline]
    fn hit(&self, event: &Event<'_>) {
        #[cfg(feature = "perf")]
        if let Some(split) = &self.split {
            return split.hit(event);
        }
        self.calls.hit(event, self);
    }
}

impl_display!(CallTree: tree);

#[cfg(test)]
mod tests {
    use super::*;
    use probe_lang::options::settings;

    fn read(options: &str) -> Result<(Option<usize>, bool), (usize, String)> {
        let settings: Vec<_> = settings(options).collect();
        let tree = CallTree::with_settings(&settings).map_err(|it| (it.at, it.problem))?;
        Ok((tree.shape.depth, tree.shape.is_unfolded))
    }

    #[test]
    fn options_are_read() {
        assert_eq!(read("depth=8"), Ok((Some(8), false)));
        assert_eq!(read("recursion=full, depth = 1"), Ok((Some(1), true)));
        assert_eq!(read("recursion=folded"), Ok((None, false)));
    }

    #[test]
    fn an_error_points_at_its_option() {
        for depth in ["0", "-1", "deep", ""] {
            let error = (6, format!("`{depth}` is not a depth; write `depth=8`"));
            assert_eq!(read(&format!("depth={depth}")), Err(error));
        }
        assert_eq!(read("recursion=no"), Err((10, "recursion is `folded` or `full`, not `no`".to_owned())));
    }
}
