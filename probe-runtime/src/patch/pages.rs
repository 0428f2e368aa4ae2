//! Text that is writable while somebody needs it so.

use std::io;
use std::ops::Range;

use crate::os::text::{Access, pages, protect};

/// Text that is writable while this lives. Guards may overlap.
#[derive(Debug)]
pub struct OpenText {
    pages: Range<usize>,
}

impl OpenText {
    /// Makes the pages that hold these addresses writable.
    ///
    /// # Errors
    /// The system's.
    pub fn new(bytes: Range<usize>) -> io::Result<Self> {
        let pages = pages(bytes);
        protect(pages.clone(), Access::Open)?;
        Ok(Self { pages })
    }
}

impl Drop for OpenText {
    fn drop(&mut self) {
        let _ = protect(self.pages.clone(), Access::Sealed);
    }
}
