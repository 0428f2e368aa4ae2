//! Merges the trees of all threads into one.

use std::collections::HashMap;

use super::Shape;
use super::nodes::{FoundNode, Nodes, What};
#[cfg(feature = "perf")]
use crate::consumers::waits::Waited;
use crate::engine::calls::{Calls, Function, Meter};
use crate::engine::clock::Scale;
use probe_report::Place;
#[cfg(feature = "perf")]
use probe_report::Split;
use probe_report::reports::Tree;

/// A place of the merged tree.
struct Merged {
    key: NodeKey,
    parent: Option<usize>,
    calls: u64,
    polls: u64,
    own: u64,
    total: u64,
    /// The waits of `own`, and of `total`.
    #[cfg(feature = "perf")]
    waits: [Waited; 2],
    /// The calls that were made inside of another call at this place, and the greatest number of
    /// them inside of each other.
    recursive: u64,
    levels: usize,
}

/// The place of the merged tree to which a thread's node belongs.
struct Placed {
    at: usize,
    parent: Option<usize>,
    function: Option<usize>,
    /// The number of calls of the same function around it.
    level: usize,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum NodeKey {
    Thread(u64, [u8; 16]),
    Function(usize),
}

impl NodeKey {
    fn name(&self, functions: &[Function]) -> String {
        match self {
            Self::Function(function) => functions[*function].path().to_owned(),
            Self::Thread(number, name) => {
                let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
                match &*String::from_utf8_lossy(&name[..len]) {
                    "" => format!("thread {number}"),
                    name => format!("{name} (thread {number})"),
                }
            }
        }
    }
}

/// Merges the trees, sums them up, and sorts the places. `nodes` finds the tree in a thread's
/// memory.
pub(super) fn build<const N: usize, M: Meter<N>>(
    calls: &Calls<N, M>,
    nodes_of: impl for<'a> Fn(&'a M::Head) -> &'a Nodes,
    scale: Scale,
    by_thread: bool,
    shape: Shape,
) -> Tree {
    let mut merged: Vec<Merged> = Vec::new();
    let mut known: HashMap<(Option<usize>, NodeKey), usize> = HashMap::new();
    let mut lost = calls.lost();
    for local in calls.heads() {
        let tree = nodes_of(local.head());
        lost += tree.lost();
        let all: Vec<_> = tree.iter().collect();
        let shown = shown(&all);
        // Indexed by this thread's nodes; `None` for one that is no place of its own.
        let mut placed: Vec<Option<Placed>> = Vec::new();
        for (found, is_shown) in all.into_iter().zip(shown) {
            if !is_shown {
                placed.push(None);
                continue;
            }
            let (key, function) = match found.what {
                What::Function(function) => (NodeKey::Function(function), Some(function)),
                What::Thread { number, name } if by_thread => (NodeKey::Thread(number, name), None),
                What::Thread { .. } => {
                    placed.push(None);
                    continue;
                }
            };
            let parent = found.parent.and_then(|parent| placed[parent].as_ref());
            let outer = if shape.is_unfolded { None } else { outer(&merged, parent.map(|it| it.at), &key) };
            let (at, level) = if let Some(at) = outer {
                // The nearest outer call of the same function determines the level.
                let mut above = parent;
                while let Some(it) = above.filter(|it| it.function != function) {
                    above = it.parent.and_then(|parent| placed[parent].as_ref());
                }
                (at, above.map_or(0, |it| it.level + 1))
            } else {
                let parent = parent.map(|it| it.at);
                let at = *known.entry((parent, key.clone())).or_insert_with(|| {
                    merged.push(Merged::new(key, parent));
                    merged.len() - 1
                });
                (at, 0)
            };
            let it = &mut merged[at];
            it.calls += found.calls;
            it.polls += found.polls;
            it.own += found.own;
            #[cfg(feature = "perf")]
            it.waits[0].add(found.waits);
            if level > 0 {
                it.recursive += found.calls;
                it.levels = it.levels.max(level);
            }
            placed.push(Some(Placed { at, parent: found.parent, function, level }));
        }
    }
    sum_up(&mut merged);
    let nodes = places(&merged, calls.functions(), scale, shape);
    Tree::new(nodes, lost, calls.left_out(), calls.period())
}

/// Sums up what lies below each place.
fn sum_up(merged: &mut [Merged]) {
    // Children come after their parents.
    for at in (0..merged.len()).rev() {
        merged[at].total += merged[at].own;
        #[cfg(feature = "perf")]
        {
            let own = merged[at].waits[0];
            merged[at].waits[1].add(own);
        }
        if let Some(parent) = merged[at].parent {
            merged[parent].total += merged[at].total;
            #[cfg(feature = "perf")]
            {
                let total = merged[at].waits[1];
                merged[parent].waits[1].add(total);
            }
        }
    }
}

/// Lists the places: each with those below it, the longest first.
fn places(merged: &[Merged], functions: &[Function], scale: Scale, shape: Shape) -> Vec<Place<'static>> {
    let place = |key: &NodeKey| match key {
        NodeKey::Function(function) => (functions[*function].file().to_owned(), functions[*function].line()),
        NodeKey::Thread(..) => Default::default(),
    };
    let names: Vec<_> = merged.iter().map(|it| it.key.name(functions)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); merged.len() + 1];
    for (at, it) in merged.iter().enumerate() {
        children[it.parent.map_or(0, |parent| parent + 1)].push(at);
    }
    for list in &mut children {
        // The last one is taken first.
        crate::engine::order::sort_by(list, |a, b| {
            merged[*a].total.cmp(&merged[*b].total).then_with(|| names[*b].cmp(&names[*a]))
        });
    }
    let mut nodes: Vec<Place<'static>> = Vec::with_capacity(merged.len());
    // The last node of each depth.
    let mut path: Vec<usize> = Vec::new();
    let mut open: Vec<(usize, usize)> = children[0].iter().map(|at| (*at, 0)).collect();
    while let Some((at, depth)) = open.pop() {
        open.extend(children[at + 1].iter().map(|child| (*child, depth + 1)));
        if let Some(deepest) = shape.depth.filter(|levels| depth >= *levels) {
            nodes[path[deepest - 1]].below += 1;
            continue;
        }
        path.truncate(depth);
        path.push(nodes.len());
        let it = &merged[at];
        let (file, line) = place(&it.key);
        nodes.push(Place {
            name: names[at].clone().into(),
            file: file.into(),
            line,
            is_thread: matches!(it.key, NodeKey::Thread(..)),
            depth,
            calls: it.calls,
            polls: it.polls,
            total: scale.nanoseconds(it.total),
            own: scale.nanoseconds(it.own),
            #[cfg(feature = "perf")]
            splits: shape.is_split.then(|| it.splits(scale)),
            #[cfg(not(feature = "perf"))]
            splits: None,
            recursive: it.recursive,
            levels: it.levels,
            below: 0,
        });
    }
    nodes
}

/// Returns which nodes are shown: not those that were left, with all below them.
fn shown(nodes: &[FoundNode]) -> Vec<bool> {
    let mut shown = vec![false; nodes.len()];
    // Children come after their parents.
    for (at, node) in nodes.iter().enumerate().rev() {
        shown[at] |= !node.is_left;
        if let Some(parent) = node.parent {
            shown[parent] |= shown[at];
        }
    }
    shown
}

/// Returns the place of the outer call of the same function, where a recursive call counts.
fn outer(merged: &[Merged], parent: Option<usize>, key: &NodeKey) -> Option<usize> {
    std::iter::successors(parent, |at| merged[*at].parent).find(|at| merged[*at].key == *key)
}

impl Merged {
    fn new(key: NodeKey, parent: Option<usize>) -> Self {
        Self {
            key,
            parent,
            calls: 0,
            polls: 0,
            own: 0,
            total: 0,
            #[cfg(feature = "perf")]
            waits: Default::default(),
            recursive: 0,
            levels: 0,
        }
    }

    /// Returns where the time in itself and below went, and that in itself.
    #[cfg(feature = "perf")]
    fn splits(&self, scale: Scale) -> [Split; 2] {
        [self.waits[1].split(self.total, scale), self.waits[0].split(self.own, scale)]
    }
}
