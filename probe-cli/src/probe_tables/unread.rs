//! Parts of tables that could not be read.

/// Descriptions that are kept; the others are counted.
const SHOWN: usize = 100;

/// Parts of the tables that could not be read, and why.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Unread {
    /// The first ones, each with its address.
    pub shown: Vec<String>,
    /// The number of all.
    pub count: u64,
}

impl Unread {
    /// Adds a part. Its description is made only if it is kept.
    pub(super) fn add(&mut self, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push(describe());
        }
    }
}
