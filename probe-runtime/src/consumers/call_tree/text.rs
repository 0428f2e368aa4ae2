//! The tree as text: a table whose last column is drawn as a tree.

use std::borrow::Cow;
use std::fmt;

use super::tree::{Tree, TreeNode, share};
use crate::report::{Table, Time, count, labels, shortened};

/// Columns by which each level is indented.
const INDENT: usize = 3;
/// Names are not cut below this many letters.
const SHORTEST: usize = 20;
/// Levels that are indented. Deeper levels share one column and state their depth, so the length of
/// the text grows with the number of its lines only.
const DRAWN: usize = 100;

/// Writes the tree, within the formatter's width.
pub(super) fn write(tree: &Tree, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let all = tree.total();
    let long: Vec<_> = tree.iter().filter(|node| node.total().saturating_mul(1000) >= all).collect();
    let has_polls = long.iter().any(|node| node.polls() != 0);
    let cells: Vec<_> = long.iter().map(|node| numbers(node, all, has_polls)).collect();
    let room = f.width().map(|width| width.saturating_sub(columns(&cells, has_polls)));
    let levels = room.map(|room| room.saturating_sub(SHORTEST) / INDENT + 1);
    let shown: Vec<_> = long.iter().zip(cells).filter(|(node, _)| is_shown(node, levels)).collect();
    let has_brother = brothers(shown.iter().map(|(node, _)| node.depth()));
    let mut table = Table::new(&[heading(has_polls), &["call tree"]].concat());
    // Whether a sibling follows, for each depth down to the present node.
    let mut follows: Vec<bool> = Vec::new();
    let labels = labels(shown.iter().map(|(node, _)| node.defined()).collect());
    for (((node, cells), has_brother), label) in shown.iter().zip(has_brother).zip(labels) {
        let depth = node.depth();
        follows.truncate(depth);
        follows.push(has_brother);
        let mut line = String::new();
        if depth > 0 {
            let bars = follows[1..depth.min(DRAWN + 1)].iter();
            line.extend(bars.map(|follows| if *follows { "│  " } else { "   " }));
            line.push_str(match has_brother {
                _ if depth > DRAWN => "┄┄ ",
                true => "├─ ",
                false => "└─ ",
            });
        }
        let deep = (depth > DRAWN).then(|| format!("depth {depth}"));
        let remarks: Vec<_> = deep.into_iter().chain(node.remarks()).collect();
        let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
        let room = room.map(|room| room.saturating_sub(drawn(node) * INDENT));
        // Remarks without room are for wider terminals.
        let remarks = if room.is_some_and(|room| room < SHORTEST + remarks.len()) { "" } else { &remarks };
        line.push_str(&cut(&label, room.map(|room| room.saturating_sub(remarks.len()))));
        line.push_str(remarks);
        table.row([&cells[..], &[line]].concat());
    }
    write!(f, "{table}")?;
    let (short, deep) = (tree.len() - long.len(), long.len() - shown.len());
    if short != 0 {
        write!(f, "\n{} with less than 0.1 % each not shown", count(short as u64, "place"))?;
    }
    if deep != 0 {
        write!(f, "\n{} too deep for this width not shown", count(deep as u64, "place"))?;
    }
    Ok(())
}

fn is_shown(node: &TreeNode, levels: Option<usize>) -> bool {
    levels.is_none_or(|levels| drawn(node) < levels)
}

fn drawn(node: &TreeNode) -> usize {
    node.depth().min(DRAWN + 1)
}

/// Returns for each node whether a sibling follows: another node at the same depth below the same
/// caller. Walks from the last node to the first, so that it looks at each once.
fn brothers(depths: impl DoubleEndedIterator<Item = usize>) -> Vec<bool> {
    // Indexed by depth: whether a later node has the same caller.
    let mut later: Vec<bool> = Vec::new();
    let has_brother = |depth: usize| {
        later.resize(depth + 1, false);
        std::mem::replace(&mut later[depth], true)
    };
    let mut all: Vec<_> = depths.rev().map(has_brother).collect();
    all.reverse();
    all
}

fn heading(has_polls: bool) -> &'static [&'static str] {
    if has_polls {
        &["total", "share", "self", "calls", "polls"]
    } else {
        &["total", "share", "self", "calls"]
    }
}

/// Returns the cells before a node's name.
fn numbers(node: &TreeNode, all: u64, has_polls: bool) -> Vec<String> {
    let calls = if node.is_thread() { "-".to_owned() } else { node.calls().to_string() };
    let times = [Time(node.total()).to_string(), share(node.total(), all), Time(node.own()).to_string()];
    let mut numbers = Vec::from(times);
    numbers.push(calls);
    if has_polls {
        numbers.push(if node.polls() == 0 { "-".to_owned() } else { node.polls().to_string() });
    }
    numbers
}

/// Returns the width of all columns but the last, with the gap before that.
fn columns(rows: &[Vec<String>], has_polls: bool) -> usize {
    let heading = heading(has_polls).iter().map(|name| name.len());
    let width = |(column, heading): (usize, usize)| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default().max(heading) + 2
    };
    heading.enumerate().map(width).sum()
}

/// Keeps the end of a name that does not fit, because functions differ there.
fn cut(name: &str, room: Option<usize>) -> Cow<'_, str> {
    room.map_or(name.into(), |room| shortened(name, room.max(SHORTEST)))
}

#[cfg(test)]
mod tests {
    use super::super::tree::tests::tree;
    use super::*;

    #[test]
    fn text() {
        assert_eq!(
            tree().to_string(),
            "  total   share     self  calls  call tree\n\
             10.0 µs  95.2 %  1.00 µs      1  app::run\n\
             7.00 µs  66.7 %  4.00 µs     20  ├─ app::parse<A;B>\n\
             3.00 µs  28.6 %  3.00 µs    300  │  └─ app::lex\n\
             2.00 µs  19.0 %  2.00 µs      2  └─ app::print\n \
              500 ns   4.8 %   500 ns      1  app::other\n\
             1 place with less than 0.1 % each not shown"
        );
    }

    #[test]
    fn polls_recursion_and_limits_are_shown() {
        let node = |name: &str, total| TreeNode {
            name: name.to_owned(),
            calls: 7,
            total,
            own: total,
            ..TreeNode::default()
        };
        let recursive = TreeNode { recursive: 6, levels: 3, below: 1, ..node("app::walk", 500) };
        let polled = TreeNode { polls: 9, ..node("app::poll", 400) };
        assert_eq!(
            Tree::new(vec![recursive, polled], 0, Vec::new()).to_string(),
            " total   share    self  calls  polls  call tree\n\
             500 ns  55.6 %  500 ns      7      -  app::walk (recursive: 6 calls, 3 deep; 1 place below)\n\
             400 ns  44.4 %  400 ns      7      9  app::poll"
        );
    }

    fn chain(len: usize) -> Tree {
        let node = |depth| TreeNode {
            name: "app::descend".to_owned(),
            depth,
            calls: 1,
            total: 1_000,
            ..TreeNode::default()
        };
        Tree::new((0..len).map(node).collect(), 0, Vec::new())
    }

    #[test]
    fn deep_levels_share_one_column_and_state_their_depth() {
        let text = chain(104).to_string();
        let column = text.find("call tree").unwrap();
        let trees: Vec<String> =
            text.lines().skip(98).map(|line| line.chars().skip(column).collect()).collect();
        let indented = |levels: usize, rest: &str| format!("{}{rest}", "   ".repeat(levels));
        let expected = [
            indented(96, "└─ app::descend"),
            indented(97, "└─ app::descend"),
            indented(98, "└─ app::descend"),
            indented(99, "└─ app::descend"),
            indented(100, "┄┄ app::descend (depth 101)"),
            indented(100, "┄┄ app::descend (depth 102)"),
            indented(100, "┄┄ app::descend (depth 103)"),
        ];
        assert_eq!(trees, expected, "{text}");
    }

    /// A chain of twice as many calls takes twice as many bytes, and each node is looked at once.
    #[test]
    fn the_text_of_a_deep_chain_grows_with_its_nodes() {
        let bytes = |len| chain(len).to_string().len();
        // From 1000 on, depths have four digits.
        let [one, two, three] = [2_000, 4_000, 6_000].map(bytes);
        assert_eq!(two - one, three - two);
        assert!((two - one) / 2_000 < 400);
        let mut looks = 0;
        let found = brothers((0..8_192).inspect(|_| looks += 1));
        assert_eq!((looks, found.len(), found.contains(&true)), (8_192, 8_192, false));
    }

    proptest::proptest! {
        #[test]
        fn brothers_follow_below_the_same_caller(steps in proptest::collection::vec(0..5_usize, 0..40)) {
            // Each node is at most one level deeper than the one before.
            let mut depth = 0_usize;
            let deeper = |step: usize| {
                depth = if step > 2 { depth + 1 } else { depth.saturating_sub(step) };
                depth
            };
            let depths: Vec<_> = std::iter::once(0).chain(steps.into_iter().map(deeper)).collect();
            let naive = |at: usize| {
                let mut later = depths[at + 1..].iter().take_while(|depth| **depth >= depths[at]);
                later.any(|depth| *depth == depths[at])
            };
            let expected: Vec<_> = (0..depths.len()).map(naive).collect();
            proptest::prop_assert_eq!(brothers(depths.iter().copied()), expected);
        }
    }

    #[test]
    fn the_text_keeps_within_a_width() {
        let nodes = (0..30).map(|depth| TreeNode {
            name: format!("a::quite::long::module::of::function_{depth}"),
            depth,
            calls: 1,
            total: 1_000,
            ..TreeNode::default()
        });
        let nodes: Vec<_> = nodes.collect();
        let recursive: Vec<_> =
            nodes.iter().map(|it| TreeNode { recursive: 7, levels: 3, ..it.clone() }).collect();
        let text = format!("{:80}", Tree::new(recursive, 0, Vec::new()));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("  …ule::of::function_0 (recursive: 7 calls, 3 deep)\n"), "{text}");
        let tree = Tree::new(nodes, 0, Vec::new());
        let text = format!("{tree:80}");
        let widths = text.lines().map(|line| line.chars().count());
        assert_eq!(widths.max(), Some(80), "{text}");
        // The other columns take 33; names keep at least 20 of the remaining 47.
        assert_eq!(text.lines().count(), 1 + 10 + 1, "{text}");
        assert!(
            text.contains("└─ …odule::of::function_9\n20 places too deep for this width not shown"),
            "{text}"
        );
    }
}
