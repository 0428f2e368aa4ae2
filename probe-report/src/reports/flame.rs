//! The flame graph: the tree as an SVG image, with callers above their callees, so that it opens at
//! its roots. The image contains a script that zooms and searches; it is complete without the
//! script.

use std::fmt::Write;

use super::tree::{Tree, TreeNode};
use crate::call_tree::percent_in_tenths;
use crate::names::count;
use probe_lang::selector::split_last;
use probe_lang::units::Time;

/// The drawn width, in pixels. The script adapts the image to the window.
const WIDTH: f64 = 1184.0;
/// The margin left and right of the flames.
const MARGIN: f64 = 10.0;
const ROW: f64 = 18.0;
const HEADER: f64 = 52.0;
/// The width of a letter in the requested font.
const LETTER: f64 = 6.7;
/// The smallest width that is drawn: narrower places would be visible only when zoomed in twenty
/// times. The image says how many places are left out.
const NARROWEST: f64 = 0.01;

/// Draws the image.
pub(super) fn svg(tree: &Tree) -> String {
    let all = tree.total();
    let depth = tree.iter().map(TreeNode::depth).max().unwrap_or_default() + 1;
    let height = HEADER + (depth + 1) as f64 * ROW + MARGIN;
    let scale = (WIDTH - 2.0 * MARGIN) / all.max(1) as f64;
    let mut bars = String::new();
    Bar { start: 0, total: all, depth: 0, scale }.draw(
        &mut bars,
        "all",
        &format!("all: {}", Time(all)),
        "#d8d8d8",
    );
    // The start of the next node at each depth.
    let mut starts = vec![0_u64; depth + 1];
    let mut narrow = 0;
    for node in tree {
        let start = starts[node.depth()];
        starts[node.depth()] += node.total();
        starts[node.depth() + 1] = start;
        let bar = Bar { start, total: node.total(), depth: node.depth() + 1, scale };
        if bar.width() >= NARROWEST {
            bar.draw(&mut bars, node.name(), &tip(node, all), &colour(node));
        } else {
            narrow += 1;
        }
    }
    let narrow = match narrow {
        0 => String::new(),
        more => format!(", {} too short to be seen", count(more, "place")),
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         data-width=\"{WIDTH}\" data-margin=\"{MARGIN}\" data-letter=\"{LETTER}\" \
         font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" font-size=\"11\">\n\
         <style>g rect {{ stroke: #fff; stroke-width: 0.5 }} g {{ cursor: pointer }} g text {{ pointer-events: none }} \
         g:hover rect {{ stroke: #000 }} .hit rect {{ fill: #e0218a }} .hit text {{ fill: #fff }}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{MARGIN}\" y=\"22\" font-size=\"15\">Flame graph: {} in all{narrow}</text>\n\
         <text x=\"{MARGIN}\" y=\"42\" id=\"info\"></text>\n\
         {bars}<script><![CDATA[\n{}]]></script>\n</svg>\n",
        Time(all),
        include_str!("flame.js"),
    )
}

/// Returns the text that appears when the mouse is on a node.
fn tip(node: &TreeNode, all: u64) -> String {
    let (name, total, own) = (node.name(), Time(node.total()), Time(node.own()));
    let share = percent_in_tenths(node.total(), all);
    if node.is_thread() {
        return format!("{name}: {total} ({share})");
    }
    let calls = count(node.calls(), "call");
    let polls = if node.polls() == 0 { String::new() } else { format!(" ({} polls)", node.polls()) };
    let remarks = node.place().remarks().fold(String::new(), |remarks, remark| remarks + "; " + &remark);
    format!("{name}: {calls}{polls}, {total} ({share}), {own} in itself{remarks}")
}

/// Returns the colour of a node. The hue depends on the module, the lightness on the function; both
/// are the same in all images. Threads are grey.
fn colour(node: &TreeNode) -> String {
    if node.is_thread() {
        return "#c8ccd4".to_owned();
    }
    let (hue, lightness) = (fnv(split_last(node.name()).0) % 360, 66 + fnv(node.name()) % 14);
    format!("hsl({hue},65%,{lightness}%)")
}

/// Returns the FNV-1a hash.
fn fnv(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The bar of a node: start and length in nanoseconds, and its row.
struct Bar {
    start: u64,
    total: u64,
    depth: usize,
    /// Pixels per nanosecond.
    scale: f64,
}

impl Bar {
    fn width(&self) -> f64 {
        self.total as f64 * self.scale
    }

    fn draw(&self, svg: &mut String, name: &str, tip: &str, colour: &str) {
        let Self { start, total, depth, scale } = self;
        let (x, y) = (MARGIN + *start as f64 * scale, HEADER + *depth as f64 * ROW);
        let width = self.width();
        // Writing to a `String` can't fail.
        let _ = write!(
            svg,
            "<g data-s=\"{start}\" data-t=\"{total}\" data-d=\"{depth}\" data-n=\"{}\"><title>{}</title>\
             <rect x=\"{x:.2}\" y=\"{y}\" width=\"{width:.2}\" height=\"{ROW}\" rx=\"1.5\" fill=\"{colour}\"/>",
            escaped(name),
            escaped(tip)
        );
        if let Some(label) = label(name, (width - 6.0) / LETTER) {
            let _ = write!(svg, "<text x=\"{:.2}\" y=\"{}\">{}</text>", x + 3.0, y + 12.5, escaped(&label));
        }
        svg.push_str("</g>\n");
    }
}

/// Returns as much of a name as fits: all of it, its last segment, or the beginning of that.
fn label(name: &str, letters: f64) -> Option<String> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "letters in an image")]
    let room = letters.max(0.0) as usize;
    let (_, last) = split_last(name);
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
            '"' => escaped.push_str("&quot;"),
            // XML can't represent these.
            c if c < ' ' && !['\t', '\n', '\r'].contains(&c) => escaped.push('\u{fffd}'),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_tree::Place;
    use crate::source::Period;

    fn node(name: &str, depth: usize, total: u64, own: u64) -> Place<'static> {
        Place { name: name.to_owned().into(), depth, calls: 1, total, own, ..Place::default() }
    }

    fn tree(nodes: Vec<Place<'static>>) -> Tree {
        Tree::new(nodes, 0, Vec::new(), Period::default())
    }

    fn colour(name: &str) -> String {
        super::colour(&tree(vec![node(name, 0, 1, 1)])[0])
    }

    #[test]
    fn bars_are_as_wide_as_their_time_and_hang_below_their_callers() {
        let nodes = vec![node("a", 0, 750, 250), node("b<\"c\">&d", 1, 500, 500), node("e", 0, 250, 250)];
        let svg = svg(&tree(nodes));
        let rect = |x: &str, width: &str, y: u32| {
            format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"18\"")
        };
        // Three rows below the header of 52 pixels; the width is 1164 pixels.
        for expected in [
            rect("10.00", "1164.00", 52),
            rect("10.00", "873.00", 70),
            rect("10.00", "582.00", 88),
            rect("883.00", "291.00", 70),
        ] {
            assert!(svg.contains(&expected), "{expected}\n{svg}");
        }
        let name = "b&lt;&quot;c&quot;&gt;&amp;d";
        assert!(
            svg.contains(&format!("<title>{name}: 1 call, 500 ns (50.0 %), 500 ns in itself</title>")),
            "{svg}"
        );
        assert!(
            svg.contains(&format!("data-s=\"0\" data-t=\"500\" data-d=\"2\" data-n=\"{name}\"")),
            "{svg}"
        );
        assert_eq!(svg.matches("<g ").count(), svg.matches("</g>").count());
        // The script does not contain the marker that ends it.
        assert_eq!(svg.matches("]]>").count(), 1);
    }

    #[test]
    fn places_too_narrow_to_draw_are_counted() {
        let nodes = vec![node("long", 0, 1_000_000, 1_000_000), node("short", 0, 8, 8)];
        let svg = svg(&tree(nodes));
        assert!(svg.contains("in all, 1 place too short to be seen</text>"), "{svg}");
        assert!(!svg.contains("short:"), "{svg}");
    }

    #[test]
    fn modules_have_one_hue() {
        let hue = |name: &str| colour(name).split(',').next().map(str::to_owned);
        assert_eq!(hue("net::http::get"), hue("net::http::put"));
        assert_ne!(hue("net::http::get"), hue("net::tcp::get"));
        assert_ne!(colour("net::http::get"), colour("net::http::put"));
        assert_eq!(hue("geo::push<a::b>"), hue("geo::pop"));
    }

    #[test]
    fn names_are_cut_if_they_do_not_fit() {
        let label = |letters| label("net::handle", letters);
        assert_eq!(label(11.0).as_deref(), Some("net::handle"));
        assert_eq!(label(10.9).as_deref(), Some("handle"));
        assert_eq!(label(5.5).as_deref(), Some("hand…"));
        assert_eq!(super::label("geo::push<a::b>", 10.9).as_deref(), Some("push<a::b>"));
        assert_eq!(label(2.9), None);
        assert_eq!(label(-1.0), None);
    }
}
