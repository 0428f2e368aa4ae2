//! Text of a field, read up to a limit: a string of C may have any length.

use super::{Type, Value, bytes, of_c};

/// The beginning of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextStart<'a> {
    pub bytes: &'a [u8],
    /// Whether the text ends there.
    pub is_whole: bool,
}

impl<'a> TextStart<'a> {
    fn of(text: &'a [u8], most: usize) -> Self {
        Self { bytes: &text[..text.len().min(most)], is_whole: text.len() <= most }
    }
}

impl Value<'_> {
    /// Returns text of a known length, and bytes; `None` if the value is neither, or can't be read.
    #[inline(always)]
    pub fn slice(&self) -> Option<&[u8]> {
        let [low, high] = self.words;
        let is_slice =
            self.ty == Type::Str as u64 || (self.ty == Type::Bytes as u64 && of_c::can_read(self.words));
        // SAFETY: the words are the pointer and length of a slice that the value borrows.
        is_slice.then(|| unsafe { bytes(low, high) })
    }

    /// Returns at most this many bytes of text; `None` if it is another type, or unreadable.
    /// Reads one byte after them at most.
    pub fn text_start(&self, most: usize) -> Option<TextStart<'_>> {
        if let Some(text) = self.slice() {
            return Some(TextStart::of(text, most));
        }
        let low = self.words[0];
        match self.ty()? {
            Type::CStr if low == 0 => Some(TextStart::of(b"(null)", most)),
            Type::CStr => {
                // One more, which is the NUL of a text that ends there.
                // SAFETY: the word is the address of a string that the value borrows, or of none.
                let text = unsafe { of_c::text(low, most + 1) }?;
                Some(TextStart { bytes: &text[..text.len().min(most)], is_whole: text.len() <= most })
            }
            _ => None,
        }
    }
}
