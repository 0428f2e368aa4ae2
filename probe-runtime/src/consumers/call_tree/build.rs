//! From the trees of all threads' memory to one.

use std::collections::HashMap;

use super::CallTree;
use super::nodes::What;
use super::tree::{Tree, TreeNode};
use crate::calls::Calls;
use crate::clock::Scale;

/// A place of the merged tree.
struct Merged {
    key: Key,
    parent: Option<usize>,
    calls: u64,
    own: u64,
    total: u64,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Key {
    Thread(u64, [u8; 16]),
    Function(usize),
}

/// Merges, sums up, and sorts.
pub(super) fn build(calls: &Calls<1, CallTree>, scale: Scale, by_thread: bool) -> Tree {
    let mut merged: Vec<Merged> = Vec::new();
    let mut known: HashMap<(Option<usize>, Key), usize> = HashMap::new();
    let mut lost = calls.lost();
    for local in calls.heads() {
        lost += local.head().lost();
        // Where each node of this memory has gone; a thread that is no place of its own: nowhere.
        let mut places: Vec<Option<usize>> = Vec::new();
        for found in local.head().iter() {
            let key = match found.what {
                What::Function(function) => Key::Function(function),
                What::Thread { number, name } if by_thread => Key::Thread(number, name),
                What::Thread { .. } => {
                    places.push(None);
                    continue;
                }
            };
            let parent = found.parent.and_then(|parent| places[parent]);
            let at = *known.entry((parent, key.clone())).or_insert_with(|| {
                merged.push(Merged { key, parent, calls: 0, own: 0, total: 0 });
                merged.len() - 1
            });
            merged[at].calls += found.calls;
            merged[at].own += found.own;
            places.push(Some(at));
        }
    }
    // Children come after their parents.
    for at in (0..merged.len()).rev() {
        merged[at].total += merged[at].own;
        if let Some(parent) = merged[at].parent {
            merged[parent].total += merged[at].total;
        }
    }
    let name = |key: &Key| match key {
        Key::Function(function) => calls.functions()[*function].path().to_owned(),
        Key::Thread(number, name) => {
            let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
            match &*String::from_utf8_lossy(&name[..len]) {
                "" => format!("thread {number}"),
                name => format!("{name} (thread {number})"),
            }
        }
    };
    let names: Vec<_> = merged.iter().map(|it| name(&it.key)).collect();
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); merged.len() + 1];
    for (at, it) in merged.iter().enumerate() {
        children[it.parent.map_or(0, |parent| parent + 1)].push(at);
    }
    for list in &mut children {
        // The last is taken first.
        list.sort_by(|a, b| merged[*a].total.cmp(&merged[*b].total).then_with(|| names[*b].cmp(&names[*a])));
    }
    let mut nodes = Vec::with_capacity(merged.len());
    let mut open: Vec<(usize, usize)> = children[0].iter().map(|at| (*at, 0)).collect();
    while let Some((at, depth)) = open.pop() {
        let it = &merged[at];
        let [total, own] = [it.total, it.own].map(|ticks| scale.nanoseconds(ticks));
        let is_thread = matches!(it.key, Key::Thread(..));
        nodes.push(TreeNode::new(names[at].clone(), is_thread, depth, it.calls, total, own));
        open.extend(children[at + 1].iter().map(|child| (*child, depth + 1)));
    }
    Tree::new(nodes, lost, calls.left_out().to_vec())
}
