//! A line of text of limited length, without heap. Longer text ends with `…`.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use probe_lang::error::floor_char_boundary;

/// A buffer of `N` bytes; the used part is valid UTF-8.
pub(super) struct Line<const N: usize> {
    bytes: Cell<[u8; N]>,
    len: Cell<usize>,
}

const CUT: &str = "…";

impl<const N: usize> Line<N> {
    pub(super) const fn new() -> Self {
        Self { bytes: Cell::new([0; N]), len: Cell::new(0) }
    }

    pub(super) fn clear(&self) {
        self.len.set(0);
    }

    /// Appends as much as fits.
    pub(super) fn show(&self, text: fmt::Arguments<'_>) {
        // The formatter gets an error where the text is cut off.
        let _ = fmt::write(&mut LineWriter(self), text);
    }

    pub(super) fn with<T>(&self, read: impl FnOnce(&str) -> T) -> T {
        read(std::str::from_utf8(&self.bytes.get()[..self.len.get()]).unwrap_or_default())
    }

    /// Moves the text into words: its length first, then its bytes, eight per word.
    pub(super) fn take_into(&self, words: &[AtomicU64]) {
        let len = self.len.replace(0);
        words[0].store(len as u64, Relaxed);
        if len != 0 {
            let bytes = self.bytes.get();
            for (word, bytes) in words[1..].iter().zip(bytes.as_chunks::<8>().0).take(len.div_ceil(8)) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
        }
    }
}

struct LineWriter<'a, const N: usize>(&'a Line<N>);

impl<const N: usize> fmt::Write for LineWriter<'_, N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let Line { bytes, len } = self.0;
        let (mut all, start) = (bytes.get(), len.get());
        let is_whole = start + text.len() + CUT.len() <= N;
        let kept = if is_whole {
            text
        } else {
            &text[..floor_char_boundary(text, (N - CUT.len()).saturating_sub(start))]
        };
        let mut end = start;
        for part in [kept, if is_whole { "" } else { CUT }] {
            if end + part.len() <= N {
                all[end..end + part.len()].copy_from_slice(part.as_bytes());
                end += part.len();
            }
        }
        bytes.set(all);
        len.set(end);
        if is_whole { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A text whose control characters are escaped as in Rust's literals.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in self.0.split_inclusive(char::is_control) {
            let control = part.chars().next_back().filter(|it| it.is_control());
            f.write_str(part.strip_suffix(char::is_control).unwrap_or(part))?;
            if let Some(control) = control {
                write!(f, "{}", control.escape_debug())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_cut_between_characters() {
        let line = Line::<12>::new();
        line.show(format_args!("n = {}", 42));
        assert_eq!(line.with(str::to_owned), "n = 42");
        line.show(format_args!("éé"));
        assert_eq!(line.with(str::to_owned), "n = 42é…");
        line.clear();
        line.show(format_args!("123456789"));
        assert_eq!(line.with(str::to_owned), "123456789");
    }

    proptest::proptest! {
        #[test]
        fn a_line_holds_a_beginning_of_its_text(texts: Vec<String>) {
            let line = Line::<24>::new();
            texts.iter().for_each(|text| line.show(format_args!("{text}")));
            let (whole, shown) = (texts.concat(), line.with(str::to_owned));
            if whole.len() <= 21 {
                proptest::prop_assert_eq!(shown, whole);
            } else {
                proptest::prop_assert!(shown.len() <= 24 && shown.contains('…'));
            }
        }
    }
}
