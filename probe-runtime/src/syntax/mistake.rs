//! What is wrong with a text that somebody wrote.

/// What is wrong with a text that somebody wrote, a variable or a part of it, and from which byte
/// of it on.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Mistake {
    pub(crate) at: usize,
    pub(crate) problem: String,
}

impl Mistake {
    /// The same in a text that has so many bytes before this one.
    pub(crate) fn after(self, bytes: usize) -> Self {
        Self { at: bytes + self.at, ..self }
    }
}
