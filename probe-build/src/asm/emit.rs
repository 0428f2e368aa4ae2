//! The output: the assembly file with the additions.

use std::collections::BTreeMap;

/// Changes to lines, applied all at once. The compiler's lines stay byte for byte as they are,
/// except for removed or replaced ones. The cost depends on the changes only.
#[derive(Default)]
pub(super) struct Edits {
    before: BTreeMap<usize, String>,
    instead: BTreeMap<usize, String>,
    /// A bit for each line.
    removed: Vec<u64>,
}

impl Edits {
    pub(super) fn new(lines: usize) -> Self {
        Self { removed: vec![0; lines.div_ceil(64)], ..Self::default() }
    }

    /// Adds whole lines before a line, or after the last one, behind earlier additions.
    pub(super) fn before(&mut self, line: usize, text: &str) {
        self.before.entry(line).or_default().push_str(text);
    }

    pub(super) fn remove(&mut self, line: usize) {
        self.instead.remove(&line);
        self.removed[line / 64] |= 1 << (line % 64);
    }

    pub(super) fn replace(&mut self, line: usize, text: String) {
        self.instead.insert(line, text);
    }

    fn is_removed(&self, line: usize) -> bool {
        self.removed[line / 64] & (1 << (line % 64)) != 0
    }

    /// Returns the text, between a head and a foot.
    pub(super) fn apply(&self, lines: &[super::line::Line<'_>], head: &str, foot: &str) -> String {
        let added = |texts: &BTreeMap<usize, String>| texts.values().map(String::len).sum::<usize>();
        let kept: usize = lines
            .iter()
            .enumerate()
            .filter(|(at, _)| !self.is_removed(*at))
            .map(|(_, line)| line.text.len())
            .sum();
        let length = kept + added(&self.before) + added(&self.instead) + head.len() + foot.len() + 1;
        let mut text = String::with_capacity(length);
        text.push_str(head);
        let (mut before, mut instead) = (self.before.iter().peekable(), self.instead.iter().peekable());
        for (at, line) in lines.iter().enumerate() {
            if let Some((_, added)) = before.next_if(|(line, _)| **line == at) {
                text.push_str(added);
            }
            match instead.next_if(|(line, _)| **line == at) {
                Some((_, other)) => text.push_str(other),
                None if self.is_removed(at) => {}
                None => text.push_str(line.text),
            }
        }
        // A line before which something is added ends, even if it is the last one.
        let last = self.before.get(&lines.len()).map_or("", String::as_str);
        let more = !last.is_empty() || !foot.is_empty();
        if more && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(last);
        text.push_str(foot);
        text
    }
}
