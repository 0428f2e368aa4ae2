//! A built code base, loaded: its workload and its counters.

use crate::library::Library;
use crate::text::Text;

use super::Built;

/// A library that was built and loaded. It stays loaded until it is closed.
#[derive(Debug)]
pub struct Loaded {
    /// The build.
    pub built: Built,
    library: Library,
}

impl Loaded {
    pub(super) fn new(built: Built) -> Self {
        let library = Library::open(&built.library);
        Self { built, library }
    }

    /// Does so much work; returns a digest of all results.
    ///
    /// # Panics
    /// If any of it failed.
    #[must_use]
    pub fn workload(&self, amount: u64) -> u64 {
        let digest = (self.workload_function())(amount);
        assert_ne!(digest, 0, "{} fails", self.built.library.display());
        digest
    }

    /// The function itself.
    #[must_use]
    pub fn workload_function(&self) -> extern "C" fn(u64) -> u64 {
        self.library.function("workload")
    }

    /// Returns the values of the counters of [`Way::Counted`](super::Way::Counted).
    ///
    /// # Panics
    /// If this is another build.
    #[must_use]
    pub fn counters(&self) -> Vec<u64> {
        let start = self.library.symbol(super::counters::NAME).cast::<u64>();
        let read = |at| {
            // SAFETY: the counted build exports one counter for each of these functions; nobody
            // counts meanwhile.
            unsafe { start.add(at).read() }
        };
        (0..self.built.counted).map(read).collect()
    }

    /// The library's text in its file and in memory.
    #[must_use]
    pub fn text(&self) -> Text {
        Text::of(&self.built.library)
    }

    /// Unloads it.
    ///
    /// # Panics
    /// If that fails.
    pub fn close(self) {
        self.library.close();
    }
}
