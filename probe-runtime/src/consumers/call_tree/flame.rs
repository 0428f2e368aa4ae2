//! The flame graph: the tree as an SVG image, without scripts.

use std::fmt::Write;

use super::super::report::Time;
use super::tree::{Tree, TreeNode, share};

const WIDTH: f64 = 1200.0;
/// Left and right of the flames.
const MARGIN: f64 = 10.0;
const ROW: f64 = 18.0;
const HEADER: f64 = 34.0;
/// Of a letter, in the font that is asked for.
const LETTER: f64 = 6.7;
/// What is narrower is not drawn: nobody could see it.
const NARROWEST: f64 = 0.2;

/// The image.
#[expect(clippy::cast_precision_loss, reason = "pixels")]
pub(super) fn svg(tree: &Tree) -> String {
    let all = tree.total();
    let depth = tree.iter().map(TreeNode::depth).max().unwrap_or_default() + 1;
    let height = HEADER + (depth + 1) as f64 * ROW + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"11\">\n\
         <style>rect {{ stroke: #fff; stroke-width: 0.5 }} g:hover rect {{ stroke: #000 }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"22\" font-size=\"15\">Flame graph: {} in all</text>\n",
        Time(all)
    );
    let scale = (WIDTH - 2.0 * MARGIN) / all.max(1) as f64;
    let y = |depth: usize| height - MARGIN - (depth + 1) as f64 * ROW;
    let whole = Bar { x: MARGIN, y: y(0), width: WIDTH - 2.0 * MARGIN };
    whole.draw(&mut svg, "all", &format!("all: {}", Time(all)), "#d8d8d8");
    // Where the next node of each depth begins.
    let mut starts = vec![0_u64; depth + 1];
    for node in tree.iter() {
        let start = starts[node.depth()];
        starts[node.depth()] += node.total();
        starts[node.depth() + 1] = start;
        let bar = Bar {
            x: MARGIN + start as f64 * scale,
            y: y(node.depth() + 1),
            width: node.total() as f64 * scale,
        };
        if bar.width >= NARROWEST {
            bar.draw(&mut svg, node.name(), &tip(node, all), &colour(node));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// What it says where the mouse is.
fn tip(node: &TreeNode, all: u64) -> String {
    let (name, total, own) = (node.name(), Time(node.total()), Time(node.own()));
    let share = share(node.total(), all);
    if node.is_thread() {
        return format!("{name}: {total} ({share})");
    }
    let calls = if node.calls() == 1 { "1 call".to_owned() } else { format!("{} calls", node.calls()) };
    format!("{name}: {calls}, {total} ({share}), {own} in itself")
}

/// Warm, and the same for each function everywhere; threads are grey.
fn colour(node: &TreeNode) -> String {
    if node.is_thread() {
        return "#c8ccd4".to_owned();
    }
    // FNV-1a.
    let hash = node
        .name()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let (hue, lightness) = (8 + hash % 44, 62 + (hash >> 8) % 14);
    format!("hsl({hue},85%,{lightness}%)")
}

struct Bar {
    x: f64,
    y: f64,
    width: f64,
}

impl Bar {
    fn draw(&self, svg: &mut String, name: &str, tip: &str, colour: &str) {
        let Self { x, y, width } = self;
        // Writing to a `String` can't fail.
        let _ = write!(
            svg,
            "<g><title>{}</title><rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{ROW}\" rx=\"1.5\" fill=\"{colour}\"/>",
            escaped(tip)
        );
        if let Some(label) = label(name, (width - 6.0) / LETTER) {
            let _ = write!(svg, "<text x=\"{:.2}\" y=\"{}\">{}</text>", x + 3.0, y + 12.5, escaped(&label));
        }
        svg.push_str("</g>\n");
    }
}

/// As much of a name as there is room for: all of it, its last segment, or the beginning of that.
fn label(name: &str, letters: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "letters in an image")]
    let room = letters.max(0.0) as usize;
    let last = name.rsplit("::").next().unwrap_or(name);
    [name, last]
        .into_iter()
        .find(|it| it.chars().count() <= room)
        .map(str::to_owned)
        .or_else(|| (room >= 3).then(|| last.chars().take(room - 1).chain(['…']).collect()))
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // XML has no way to write these.
            c if c < ' ' && !['\t', '\n', '\r'].contains(&c) => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, depth: usize, total: u64, own: u64) -> TreeNode {
        TreeNode::new(name.to_owned(), false, depth, 1, total, own)
    }

    #[test]
    fn bars_are_as_wide_as_their_time_and_stand_on_their_callers() {
        let nodes = vec![node("a", 0, 750, 250), node("b<c>&d", 1, 500, 500), node("e", 0, 250, 250)];
        let svg = svg(&Tree::new(nodes, 0, Vec::new()));
        let rect = |x: &str, width: &str, y: u32| {
            format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"18\"")
        };
        // Three rows above the margin of 10; 1180 pixels are all.
        for expected in [
            rect("10.00", "1180.00", 70),
            rect("10.00", "885.00", 52),
            rect("10.00", "590.00", 34),
            rect("895.00", "295.00", 52),
        ] {
            assert!(svg.contains(&expected), "{expected}\n{svg}");
        }
        assert!(
            svg.contains("<title>b&lt;c&gt;&amp;d: 1 call, 500 ns (50.0 %), 500 ns in itself</title>"),
            "{svg}"
        );
        assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    }

    #[test]
    fn names_are_cut_where_there_is_no_room() {
        let label = |letters| label("net::handle", letters);
        assert_eq!(label(11.0).as_deref(), Some("net::handle"));
        assert_eq!(label(10.9).as_deref(), Some("handle"));
        assert_eq!(label(5.5).as_deref(), Some("hand…"));
        assert_eq!(label(2.9), None);
        assert_eq!(label(-1.0), None);
    }
}
