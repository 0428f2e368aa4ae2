//! The tree at one moment, as a report.

use std::fmt::Write;

use super::flame;
use crate::call_tree::Place;
use crate::csv::Csv;
use crate::row::Row;
use crate::source::{LeftOut, Period, ReportSource, Rows, head, json, left_out, missing};
use crate::split::Split;
use crate::view::Body;

/// A function at one place of the tree: its calls from the caller above it, which was itself called
/// from there. Or a thread, see `CallTree::threads`.
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
/// let calls = select("**::outer, **::inner")?.attach(CallTree::new())?;
/// outer();
/// for node in &calls.tree() {
///     println!("{:>width$}{}: {} calls", "", node.name(), node.calls(), width = 2 * node.depth());
/// }
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TreeNode(Place<'static>);

impl TreeNode {
    /// Returns the function's path; for a thread, its name and number.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns whether the node is a thread.
    pub fn is_thread(&self) -> bool {
        self.0.is_thread
    }

    /// Returns the number of nodes above it in the tree.
    pub fn depth(&self) -> usize {
        self.0.depth
    }

    /// Returns the number of calls that have ended. All polls of a future are one call, which
    /// counts at the place of the last poll. 0 for a thread.
    pub fn calls(&self) -> u64 {
        self.0.calls
    }

    /// Returns the number of polls of a future that have ended. 0 for other functions.
    pub fn polls(&self) -> u64 {
        self.0.polls
    }

    /// Returns the number of calls made inside of another call at this place: the function is
    /// recursive, directly or through others.
    pub fn recursive_calls(&self) -> u64 {
        self.0.recursive
    }

    /// Returns the greatest number of recursive calls inside of each other.
    pub fn recursion_depth(&self) -> usize {
        self.0.levels
    }

    /// Returns the number of places below it that are not in the tree, because of its
    /// limit, `CallTree::depth`.
    pub fn below(&self) -> usize {
        self.0.below
    }

    /// Returns the place that is drawn for it.
    pub(super) fn place(&self) -> Place<'_> {
        Place { name: (&*self.0.name).into(), file: (&*self.0.file).into(), ..self.0 }
    }

    /// Returns the time in it and in everything below it, in nanoseconds, of calls that have ended.
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// Returns where the time of [`total`](Self::total) went; `None` unless the tree was asked to
    /// tell, by `CallTree::cpu`.
    pub fn split(&self) -> Option<Split> {
        self.0.splits.map(|[all, _]| all)
    }

    /// Returns the same of [`own`](Self::own).
    pub fn own_split(&self) -> Option<Split> {
        self.0.splits.map(|[_, own]| own)
    }

    /// Returns the time in itself and in nothing below it, in nanoseconds, of calls that have
    /// ended.
    pub fn own(&self) -> u64 {
        self.0.own
    }
}

/// A tree of calls, from `CallTree`. It is a list of nodes; each is followed by
/// the nodes below it, which have a greater [depth](TreeNode::depth), those with more time first.
///
/// It prints as a text tree. Nodes with less than a thousandth of all time are left out and
/// counted. Nodes below more than a hundred callers are not indented further, and state their
/// depth. `format!("{tree:100}")` keeps lines within 100 columns: it leaves out levels that are too
/// deep, and cuts the beginning of long names.
///
/// ```
/// use probe_runtime::{CallTree, probe, select};
///
/// #[probe]
/// fn visit() {}
///
/// let calls = select("**::visit")?.attach(CallTree::new())?;
/// visit();
/// let tree = calls.tree();
/// assert_eq!(tree.len(), 1);
/// println!("{tree:100}");
/// let _file = tree.to_svg();
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tree {
    nodes: Vec<TreeNode>,
    lost: u64,
    left_out: Vec<LeftOut>,
    period: Period,
    note: Option<String>,
}

impl Tree {
    #[doc(hidden)]
    pub fn new(places: Vec<Place<'static>>, lost: u64, left_out: Vec<LeftOut>, period: Period) -> Self {
        Self { nodes: places.into_iter().map(TreeNode).collect(), lost, left_out, period, note: None }
    }

    #[doc(hidden)]
    #[must_use]
    pub fn noting(mut self, note: Option<String>) -> Self {
        self.note = note;
        self
    }

    /// Returns the total time, in nanoseconds.
    pub fn total(&self) -> u64 {
        self.nodes.iter().filter(|node| node.depth() == 0).map(TreeNode::total).sum()
    }

    /// Returns the number of calls that are not in the tree, for want of room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns the functions that are not in the tree, because not all of their probes were
    /// selected.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns the tree as folded stacks, for tools that draw flame graphs. A line has
    /// `caller;callee nanoseconds`, for each place with time of its own. A semicolon in a name
    /// becomes a colon.
    pub fn to_folded(&self) -> String {
        let mut folded = String::new();
        for (stack, node) in self.stacks() {
            if node.own() != 0 {
                let names: Vec<_> = stack.iter().map(|node| node.name().replace(';', ":")).collect();
                // Writing to a `String` can't fail.
                let _ = writeln!(folded, "{} {}", names.join(";"), node.own());
            }
        }
        folded
    }

    /// Returns the tree as a flame graph, an SVG file for browsers: callers above, each bar as wide
    /// as its time, in the colour of its module. A click zooms in, the mouse shows calls and times,
    /// and names can be searched. The file is self-contained; without scripts, it shows the whole
    /// tree.
    pub fn to_svg(&self) -> String {
        flame::svg(self)
    }

    /// Returns the tree as JSON: an object with the program, the time of measurement, and the nodes
    /// as `rows` in the order of the tree. It also has the paths of the functions that were
    /// `left_out`, and the number of calls that were `lost`. A row's `parent` is the index of
    /// another row; roots have none.
    pub fn to_json(&self) -> String {
        json(self, &[])
    }

    /// Returns the nodes as comma-separated values (RFC 4180), a line each, under a heading. The
    /// column `stack` has the names from the outermost caller on, joined by semicolons.
    pub fn to_csv(&self) -> String {
        let mut heading = vec![
            "stack", "depth", "calls", "total_ns", "self_ns", "polls", "recursive_calls", "recursion_depth",
            "below",
        ];
        if self.nodes.iter().any(|node| node.0.splits.is_some()) {
            heading.extend(SPLIT_COLUMNS);
        }
        let mut csv = Csv::new(&heading);
        for (stack, node) in self.stacks() {
            let names: Vec<_> = stack.iter().map(|node| node.name().replace(';', ":")).collect();
            let Place { depth, calls, polls, total, own, recursive, levels, below, .. } = &node.0;
            let numbers =
                [*depth as u64, *calls, *total, *own, *polls, *recursive, *levels as u64, *below as u64];
            numbers.into_iter().chain(node.splits()).fold(csv.cell(&names.join(";")), Csv::number).end();
        }
        csv.finish()
    }

    /// Iterates over all nodes, each with the nodes from its root down to it.
    fn stacks(&self) -> impl Iterator<Item = (Vec<&TreeNode>, &TreeNode)> {
        let mut open: Vec<&TreeNode> = Vec::new();
        self.nodes.iter().map(move |node| {
            open.truncate(node.depth());
            open.push(node);
            (open.clone(), node)
        })
    }
}

impl TreeNode {
    /// Returns the node as a row. `parent` is the index of the node above it, which only the tree
    /// knows.
    pub(crate) fn row(&self, parent: Option<usize>) -> Row<'_> {
        let row = Row::new().with(if self.0.is_thread { "thread" } else { "function" }, self.name());
        let row = parent.into_iter().fold(row, |row, parent| row.with("parent", parent));
        let row = row
            .with("depth", self.0.depth)
            .with("calls", self.0.calls)
            .with("total_ns", self.0.total)
            .with("self_ns", self.0.own)
            .with("polls", self.0.polls)
            .with("recursive_calls", self.0.recursive)
            .with("recursion_depth", self.0.levels)
            .with("below", self.0.below);
        SPLIT_COLUMNS.into_iter().zip(self.splits()).fold(row, |row, (name, number)| row.with(name, number))
    }

    /// Returns the numbers of [`SPLIT_COLUMNS`], if the time is split.
    fn splits(&self) -> impl Iterator<Item = u64> + use<> {
        let numbers = |split: Split| [split.cpu, split.blocked, split.ready, split.unknown];
        self.0.splits.into_iter().flatten().flat_map(numbers)
    }
}

/// Further columns if the time is split: that in it and everything below it, and that in itself.
const SPLIT_COLUMNS: [&str; 8] = [
    "cpu_ns", "blocked_ns", "ready_ns", "unknown_ns", "self_cpu_ns", "self_blocked_ns", "self_ready_ns",
    "self_unknown_ns",
];

impl ReportSource for Tree {
    fn head(&self) -> Row<'static> {
        head("call-tree", self.period)
    }

    fn rows(&self) -> Rows<'_> {
        let mut open: Vec<usize> = Vec::new();
        Box::new(self.iter().enumerate().map(move |(at, node)| {
            open.truncate(node.depth());
            let parent = open.last().copied();
            open.push(at);
            node.row(parent)
        }))
    }

    fn rest(&self) -> Row<'_> {
        Row::new().with("left_out", left_out(&self.left_out)).with("lost", self.lost)
    }

    fn body(&self) -> Body<'_> {
        Body::CallTree(self.nodes.iter().map(TreeNode::place).collect())
    }

    fn notes(&self) -> Vec<String> {
        self.note.iter().cloned().chain(ReportSource::missing(self)).collect()
    }

    fn missing(&self) -> Vec<String> {
        missing(self.lost, &self.left_out)
    }

    fn csv(&self) -> String {
        self.to_csv()
    }
}

list!(Tree, nodes, TreeNode, "nodes");

shown!(Tree);

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        let node = |name: &str, depth, calls, total, own| Place {
            name: name.to_owned().into(),
            depth,
            calls,
            total,
            own,
            ..Place::default()
        };
        Tree::new(
            vec![
                node("app::run", 0, 1, 10_000, 1_000),
                node("app::parse<A;B>", 1, 20, 7_000, 4_000),
                node("app::lex", 2, 300, 3_000, 3_000),
                node("app::tiny", 2, 1, 4, 4),
                node("app::print", 1, 2, 2_000, 2_000),
                node("app::other", 0, 1, 500, 500),
            ],
            0,
            Vec::new(),
            Period::default(),
        )
    }

    #[test]
    fn folded() {
        assert_eq!(
            tree().to_folded(),
            "app::run 1000\n\
             app::run;app::parse<A:B> 4000\n\
             app::run;app::parse<A:B>;app::lex 3000\n\
             app::run;app::parse<A:B>;app::tiny 4\n\
             app::run;app::print 2000\n\
             app::other 500\n"
        );
    }

    #[test]
    fn json_and_csv() {
        let json = tree().to_json();
        let nodes: Vec<_> = json.lines().filter(|line| line.starts_with("{\"function\"")).collect();
        let parents = [None, Some(0), Some(1), Some(1), Some(0), None];
        assert_eq!(nodes.len(), parents.len());
        for (node, parent) in nodes.iter().zip(parents) {
            let member = parent.map(|parent| format!("\"parent\":{parent},"));
            assert_eq!(node.contains("\"parent\":"), parent.is_some(), "{node}");
            assert!(node.contains(&member.unwrap_or_default()), "{node}");
        }
        let parse = r#"{"function":"app::parse<A;B>","parent":0,"depth":1,"calls":20,"total_ns":7000,"self_ns":4000,"polls":0,"recursive_calls":0,"recursion_depth":0,"below":0},"#;
        assert_eq!(nodes[1], parse);
        let csv = tree().to_csv();
        assert_eq!(csv.lines().count(), 7);
        assert_eq!(csv.lines().nth(3), Some("app::run;app::parse<A:B>;app::lex,2,300,3000,3000,0,0,0,0"));
    }

    #[test]
    fn nothing() {
        let none = Tree::default();
        assert_eq!(none.to_string(), "total  share  self  calls  call tree");
        assert_eq!(none.to_folded(), "");
        assert!(none.to_svg().ends_with("</svg>\n"));
    }
}
