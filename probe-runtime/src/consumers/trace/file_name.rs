//! The name of a process's file: a pattern, which a forked child fills in without the heap.

use std::ffi::CStr;
use std::io;
use std::path::{Path, PathBuf};

/// A path in which `%p` stands for the process's id, and `%%` for `%`. If there is no `%p`, a
/// child's path has `-ID` before its ending.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct FileName {
    /// The texts before, between and behind the ids.
    own: Vec<String>,
    child: Vec<String>,
}

impl FileName {
    /// Reads a pattern. A relative one starts from the present working directory, also after the
    /// program has changed that.
    ///
    /// # Errors
    /// If the path is empty, no UTF-8, or has a zero or another `%`.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        Self::relative(&std::path::absolute(path)?)
    }

    /// Reads a pattern as it is. A relative path starts from the working directory of that time.
    ///
    /// # Errors
    /// If the path is no UTF-8, or has a zero or another `%`.
    pub(super) fn relative(path: &Path) -> io::Result<Self> {
        let wrong = |problem| Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        let Some(text) = path.to_str() else { return wrong("the name is no UTF-8") };
        if text.contains('\0') {
            return wrong("the name has a zero byte");
        }
        let (mut own, mut last) = (Vec::new(), String::new());
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (letter, letter == '%') {
                (letter, false) => last.push(letter),
                _ => match letters.next() {
                    Some('p') => own.push(std::mem::take(&mut last)),
                    Some('%') => last.push('%'),
                    _ => return wrong("`%` is followed by neither `p`, for the process's id, nor `%`"),
                },
            }
        }
        own.push(last);
        let mut child = own.clone();
        if let [whole] = &own[..] {
            let ending = Path::new(whole).extension().map_or(0, |ending| ending.len() + 1);
            let (before, behind) = whole.split_at(whole.len() - ending);
            child = vec![format!("{before}-"), behind.to_owned()];
        }
        Ok(Self { own, child })
    }

    fn texts(&self, is_child: bool) -> &[String] {
        if is_child { &self.child } else { &self.own }
    }

    /// Returns the path of this process's file.
    pub(super) fn path(&self, process: u32, is_child: bool) -> PathBuf {
        self.texts(is_child).join(&process.to_string()).into()
    }

    /// Returns the same for the system, without the heap; `None` if it is too long.
    pub(super) fn in_place(&self, process: u32, is_child: bool) -> Option<CPath> {
        let mut path = CPath { bytes: [0; 4096], len: 0 };
        let mut digits = [b'0'; 10];
        let mut rest = process;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count().min(digits.len() - 1);
        for (number, text) in self.texts(is_child).iter().enumerate() {
            let id = if number == 0 { &[] } else { &digits[zeros..] };
            path.push(id)?;
            path.push(text.as_bytes())?;
        }
        Some(path)
    }
}

/// A path, ended by a zero.
pub(super) struct CPath {
    bytes: [u8; 4096],
    len: usize,
}

impl CPath {
    /// Adds bytes, if a zero has room behind them.
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end).filter(|_| end < 4096)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    pub(super) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(pattern: &str) -> [String; 2] {
        let name = FileName::new(Path::new(pattern)).unwrap();
        [(12, false), (1_034, true)].map(|(process, is_child)| {
            let path = name.path(process, is_child).into_os_string().into_string().unwrap();
            let in_place = name.in_place(process, is_child).unwrap();
            assert_eq!(in_place.as_c_str().to_str(), Ok(&*path));
            path
        })
    }

    #[test]
    fn a_child_has_a_name_of_its_own() {
        assert_eq!(paths("/tmp/run-%p.probetrace"), ["/tmp/run-12.probetrace", "/tmp/run-1034.probetrace"]);
        assert_eq!(paths("/tmp/run.probetrace"), ["/tmp/run.probetrace", "/tmp/run-1034.probetrace"]);
        assert_eq!(paths("/t.d/%%run"), ["/t.d/%run", "/t.d/%run-1034"]);
        assert_eq!(paths("/%p/%p"), ["/12/12", "/1034/1034"]);
    }

    #[test]
    fn unusable_names_are_refused() {
        let problem = |path: &str| FileName::new(Path::new(path)).unwrap_err().to_string();
        assert_eq!(problem("/tmp/%x"), "`%` is followed by neither `p`, for the process's id, nor `%`");
        assert_eq!(problem("/tmp/a%"), problem("/tmp/%x"));
        assert_eq!(problem("/tmp/\0"), "the name has a zero byte");
        let long = FileName::new(Path::new(&format!("/{}", "a".repeat(4095)))).unwrap();
        assert!(long.in_place(7, false).is_none());
    }
}
