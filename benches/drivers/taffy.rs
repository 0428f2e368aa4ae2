//! Lays out pages of nested rows, columns, grids and blocks for several widths, and again after a
//! change.

use taffy::prelude::*;

pub fn work(_: &str, times: u64) -> usize {
    (0..times).map(|round| page(round as usize)).sum()
}

fn page(round: usize) -> usize {
    let mut tree: TaffyTree<()> = TaffyTree::new();
    let mut leaves = Vec::new();
    let root = part(&mut tree, &mut leaves, 5, round);
    let mut sum = 0;
    for width in [320.0, 800.0, 1_280.0] {
        let space = Size { width: AvailableSpace::Definite(width), height: AvailableSpace::MaxContent };
        tree.compute_layout(root, space).expect("a layout");
        sum += height(&tree, root);
        let leaf = leaves[(round * 7 + sum) % leaves.len()];
        let size = Size { width: length(width / 9.0), height: length(31.0) };
        tree.set_style(leaf, Style { size, ..Default::default() }).expect("a leaf");
        tree.compute_layout(root, space).expect("a layout");
        sum += height(&tree, leaf);
    }
    sum
}

fn height(tree: &TaffyTree<()>, node: NodeId) -> usize {
    tree.layout(node).expect("it has one").size.height as usize
}

/// Creates a row, column, grid or block of such parts, `depth` levels deep.
fn part(tree: &mut TaffyTree<()>, leaves: &mut Vec<NodeId>, depth: usize, number: usize) -> NodeId {
    if depth == 0 {
        let size = Size { width: length((10 + number % 50) as f32), height: length((5 + number % 30) as f32) };
        let leaf = tree.new_leaf(Style { size, flex_grow: (number % 3) as f32, ..Default::default() });
        leaves.push(leaf.expect("a leaf"));
        return leaves[leaves.len() - 1];
    }
    let children: Vec<_> =
        (0..3 + number % 2).map(|child| part(tree, leaves, depth - 1, 5 * number + child)).collect();
    let gap = Size { width: length(2.0), height: length(3.0) };
    let style = match (depth + number) % 4 {
        0 => Style { display: Display::Flex, flex_wrap: FlexWrap::Wrap, gap, ..Default::default() },
        1 => Style { display: Display::Flex, flex_direction: FlexDirection::Column, gap, ..Default::default() },
        2 => Style {
            display: Display::Grid,
            grid_template_columns: vec![fr(1.0), fr(2.0)],
            gap,
            ..Default::default()
        },
        _ => Style { display: Display::Block, ..Default::default() },
    };
    tree.new_with_children(style, &children).expect("a part")
}
