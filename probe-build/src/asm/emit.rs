//! The assembly file again, with what was added to it.

/// Changes to lines, to be made all at once: the compiler's lines stay as they are, byte for byte, but for those
/// that are removed or replaced.
pub(super) struct Edits {
    before: Vec<Option<String>>,
    instead: Vec<Option<String>>,
}

impl Edits {
    pub(super) fn new(lines: usize) -> Self {
        // One more: what comes after the last line.
        Self { before: vec![None; lines + 1], instead: vec![None; lines] }
    }

    /// Adds whole lines before a line; what was added earlier comes first.
    pub(super) fn before(&mut self, line: usize, text: &str) {
        self.before[line].get_or_insert_default().push_str(text);
    }

    pub(super) fn remove(&mut self, line: usize) {
        self.replace(line, String::new());
    }

    pub(super) fn replace(&mut self, line: usize, text: String) {
        self.instead[line] = Some(text);
    }

    /// The text, between a head and a foot.
    pub(super) fn apply(&self, lines: &[super::line::Line<'_>], head: &str, foot: &str) -> String {
        let length: usize = lines.iter().map(|line| line.text.len()).sum();
        let mut text = String::with_capacity(length + length / 8 + head.len() + foot.len());
        text.push_str(head);
        for (at, line) in lines.iter().enumerate() {
            text.push_str(self.before[at].as_deref().unwrap_or_default());
            text.push_str(self.instead[at].as_deref().unwrap_or(line.text));
        }
        // A line before which something is added ends, even if it is the last one.
        let last = self.before[lines.len()].as_deref().unwrap_or_default();
        let more = !last.is_empty() || !foot.is_empty();
        if more && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(last);
        text.push_str(foot);
        text
    }
}
