//! Trees of calls: a table whose last column is drawn as a tree.

use std::borrow::Cow;
use std::fmt;

use probe_lang::units::Time;

use crate::names::{Definition, count, labels, shortened};
use crate::split::Split;
use crate::table::{Table, TableCell};

/// Columns by which each level is indented.
const INDENT: usize = 3;
/// Names are not cut below this many letters.
const SHORTEST: usize = 20;
/// Levels that are indented. Deeper levels share one column and state their depth, so the length of
/// the text grows with the number of its lines only.
const DRAWN: usize = 100;

/// A function at one place of the tree, or a thread. The places below it follow it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Place<'a> {
    pub name: Cow<'a, str>,
    /// The place of the function's definition; empty and 0 for a thread.
    pub file: Cow<'a, str>,
    pub line: u32,
    pub is_thread: bool,
    /// Number of places above it.
    pub depth: usize,
    pub calls: u64,
    pub polls: u64,
    /// Nanoseconds in it and below it.
    pub total: u64,
    /// Nanoseconds in itself.
    pub own: u64,
    /// Where the total time went, and that in itself, if that is measured.
    pub splits: Option<[Split; 2]>,
    /// Calls inside of another call at this place, and how many of them are inside of each other.
    pub recursive: u64,
    pub levels: usize,
    /// Number of places below it that are left out.
    pub below: usize,
}

impl Place<'_> {
    fn defined(&self) -> Definition<'_> {
        Definition { path: &self.name, file: &self.file, line: self.line }
    }

    /// Remarks about recursion and about places that are left out.
    pub fn remarks(&self) -> impl Iterator<Item = String> {
        let recursive = (self.levels != 0)
            .then(|| format!("recursive: {}, {} deep", count(self.recursive, "call"), self.levels));
        let below = (self.below != 0).then(|| format!("{} below", count(self.below as u64, "place")));
        recursive.into_iter().chain(below)
    }
}

/// Formats a part of the whole as a percentage.
pub fn percent_in_tenths(part: u64, whole: u64) -> String {
    let tenths =
        (u128::from(part) * 1000 + u128::from(whole) / 2).checked_div(whole.into()).unwrap_or_default();
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Draws the tree, within the formatter's width.
pub(crate) fn draw(places: &[Place<'_>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    // A place is at most one level below the one before, whatever a program has sent.
    let mut deepest = 0;
    let depths = places.iter().map(|place| {
        let depth = place.depth.min(deepest);
        deepest = depth + 1;
        depth
    });
    let all = places.iter().filter(|it| it.depth == 0).fold(0_u64, |sum, it| sum.saturating_add(it.total));
    let long: Vec<_> =
        places.iter().zip(depths).filter(|(it, _)| it.total.saturating_mul(1000) >= all).collect();
    let has_polls = long.iter().any(|(place, _)| place.polls != 0);
    let is_split = long.iter().any(|(place, _)| place.splits.is_some());
    let has_unknown = long.iter().filter_map(|(it, _)| it.splits).any(|[all, _]| all.unknown != 0);
    let heading = heading(has_polls, is_split, has_unknown);
    let cells: Vec<_> = long.iter().map(|(place, _)| numbers(place, all, &heading)).collect();
    let room = f.width().map(|width| width.saturating_sub(columns(&cells, &heading)));
    let levels = room.map(|room| room.saturating_sub(SHORTEST) / INDENT + 1);
    let shown: Vec<_> = long.iter().zip(cells).filter(|((_, depth), _)| is_shown(*depth, levels)).collect();
    let has_brother = brothers(shown.iter().map(|((_, depth), _)| *depth));
    let mut table = Table::new(heading.iter().copied().chain(["call tree"]));
    // Whether a sibling follows, for each depth down to the present place.
    let mut follows: Vec<bool> = Vec::new();
    let labels = labels(shown.iter().map(|((place, _), _)| place.defined()).collect());
    for ((((place, depth), cells), has_brother), label) in shown.iter().zip(has_brother).zip(labels) {
        let depth = *depth;
        follows.resize(depth, false);
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
        let remarks: Vec<_> = deep.into_iter().chain(place.remarks()).collect();
        let remarks = if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join("; ")) };
        let room = room.map(|room| room.saturating_sub(drawn(depth) * INDENT));
        // Remarks without room are for wider terminals.
        let remarks = if room.is_some_and(|room| room < SHORTEST + remarks.len()) { "" } else { &remarks };
        line.push_str(&cut(&label, room.map(|room| room.saturating_sub(remarks.len()))));
        line.push_str(remarks);
        table.row(cells.iter().cloned().chain([line.into()]));
    }
    write!(f, "{table}")?;
    let (short, deep) = (places.len() - long.len(), long.len() - shown.len());
    if short != 0 {
        write!(f, "\n{} with less than 0.1 % each not shown", count(short as u64, "place"))?;
    }
    if deep != 0 {
        write!(f, "\n{} too deep for this width not shown", count(deep as u64, "place"))?;
    }
    Ok(())
}

fn is_shown(depth: usize, levels: Option<usize>) -> bool {
    levels.is_none_or(|levels| drawn(depth) < levels)
}

fn drawn(depth: usize) -> usize {
    depth.min(DRAWN + 1)
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

/// Returns the columns before a place's name.
fn heading(has_polls: bool, is_split: bool, has_unknown: bool) -> Vec<&'static str> {
    let all = [
        ("total", true),
        ("share", true),
        ("cpu", is_split),
        ("blocked", is_split),
        ("ready", is_split),
        ("unknown", has_unknown),
        ("self", true),
        ("self cpu", is_split),
        ("calls", true),
        ("polls", has_polls),
    ];
    all.into_iter().filter(|(_, is_shown)| *is_shown).map(|(name, _)| name).collect()
}

/// Returns the cells before a place's name.
fn numbers(place: &Place<'_>, all: u64, heading: &[&str]) -> Vec<TableCell<'static>> {
    let split = |of: fn(&[Split; 2]) -> u64| place.splits.as_ref().map(|splits| Time(of(splits))).into();
    let cell = |name: &&str| match *name {
        "total" => Time(place.total).into(),
        "share" => percent_in_tenths(place.total, all).into(),
        "cpu" => split(|[all, _]| all.cpu),
        "blocked" => split(|[all, _]| all.blocked),
        "ready" => split(|[all, _]| all.ready),
        "unknown" => split(|[all, _]| all.unknown),
        "self" => Time(place.own).into(),
        "self cpu" => split(|[_, own]| own.cpu),
        "calls" => (!place.is_thread).then_some(place.calls).into(),
        _ => (place.polls != 0).then_some(place.polls).into(),
    };
    heading.iter().map(cell).collect()
}

/// Returns the width of all columns but the last, with the gap before that.
fn columns(rows: &[Vec<TableCell<'_>>], heading: &[&str]) -> usize {
    let heading = heading.iter().map(|name| name.len());
    let width = |(column, heading): (usize, usize)| {
        let cells = rows.iter().map(|row| row[column].to_string().chars().count());
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
    use super::*;
    use crate::{Body, View};

    fn tree(places: Vec<Place<'_>>) -> View<'_> {
        View::new(Body::CallTree(places), Vec::new())
    }

    #[test]
    fn text() {
        let place = |name: &'static str, depth, calls, total, own| Place {
            name: name.into(),
            depth,
            calls,
            total,
            own,
            ..Place::default()
        };
        let places = vec![
            place("app::run", 0, 1, 10_000, 1_000),
            place("app::parse<A;B>", 1, 20, 7_000, 4_000),
            place("app::lex", 2, 300, 3_000, 3_000),
            place("app::tiny", 2, 1, 4, 4),
            place("app::print", 1, 2, 2_000, 2_000),
            place("app::other", 0, 1, 500, 500),
        ];
        assert_eq!(
            tree(places).to_string(),
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
        let node = |name: &str, total| Place {
            name: name.to_owned().into(),
            calls: 7,
            total,
            own: total,
            ..Place::default()
        };
        let recursive = Place { recursive: 6, levels: 3, below: 1, ..node("app::walk", 500) };
        let polled = Place { polls: 9, ..node("app::poll", 400) };
        assert_eq!(
            tree(vec![recursive, polled]).to_string(),
            " total   share    self  calls  polls  call tree\n\
             500 ns  55.6 %  500 ns      7      -  app::walk (recursive: 6 calls, 3 deep; 1 place below)\n\
             400 ns  44.4 %  400 ns      7      9  app::poll"
        );
    }

    #[test]
    fn time_that_is_split_has_columns() {
        let all = Split { cpu: 300, blocked: 100, ready: 50, unknown: 50 };
        let own = Split { cpu: 200, ..Split::default() };
        let place = Place { total: 500, own: 250, calls: 7, splits: Some([all, own]), ..Place::default() };
        assert_eq!(
            tree(vec![Place { name: "app::run".into(), ..place }]).to_string(),
            " total    share     cpu  blocked  ready  unknown    self  self cpu  calls  call tree\n\
             500 ns  100.0 %  300 ns   100 ns  50 ns    50 ns  250 ns    200 ns      7  app::run"
        );
    }

    fn chain(len: usize) -> View<'static> {
        let node =
            |depth| Place { name: "app::descend".into(), depth, calls: 1, total: 1_000, ..Place::default() };
        tree((0..len).map(node).collect())
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
        let nodes = (0..30).map(|depth| Place {
            name: format!("a::quite::long::module::of::function_{depth}").into(),
            depth,
            calls: 1,
            total: 1_000,
            ..Place::default()
        });
        let nodes: Vec<_> = nodes.collect();
        let recursive: Vec<_> =
            nodes.iter().map(|it| Place { recursive: 7, levels: 3, ..it.clone() }).collect();
        let text = format!("{:80}", tree(recursive));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("  …ule::of::function_0 (recursive: 7 calls, 3 deep)\n"), "{text}");
        let text = format!("{:80}", tree(nodes));
        let widths = text.lines().map(|line| line.chars().count());
        assert_eq!(widths.max(), Some(80), "{text}");
        // The other columns take 33; names keep at least 20 of the remaining 47.
        assert_eq!(text.lines().count(), 1 + 10 + 1, "{text}");
        assert!(
            text.contains("└─ …odule::of::function_9\n20 places too deep for this width not shown"),
            "{text}"
        );
    }

    #[test]
    fn depths_that_no_tree_has_are_drawn() {
        let place = |depth| Place { name: "a".into(), depth, total: u64::MAX, ..Place::default() };
        let text = tree(vec![place(usize::MAX), place(7), place(1)]).to_string();
        let lines: Vec<_> = text.lines().skip(1).map(|line| line.rsplit("  ").next().unwrap()).collect();
        assert_eq!(lines, ["a", "├─ a", "└─ a"], "{text}");
    }
}
