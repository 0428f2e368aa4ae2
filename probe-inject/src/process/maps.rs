//! The mappings of a process, `/proc/PID/maps`.

use std::fs;
use std::io;

use super::status::threads;

/// A part of a process's addresses.
///
/// ```
/// let own = probe_inject::maps(std::process::id())?;
/// assert!(own.iter().any(|it| it.name == "[stack]" && it.is_writable));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address after its last one.
    pub end: u64,
    /// Whether the process may write it.
    pub is_writable: bool,
    /// Whether the process may execute it.
    pub is_executable: bool,
    /// The offset of its first byte in its file.
    pub offset: u64,
    /// The device and the number of its file; the number is 0 if it has none.
    pub file: (String, u64),
    /// The file's path, as the process knows it, or a name such as `[stack]`; empty for memory of
    /// no file.
    pub name: String,
}

impl Mapping {
    /// Returns whether it holds an address.
    pub fn holds(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Returns whether it is memory without a file or a name.
    pub fn is_anonymous(&self) -> bool {
        self.file.1 == 0 && self.name.is_empty()
    }

    fn parse(line: &str) -> Option<Self> {
        let mut rest = line;
        let mut word = || {
            let (word, after) = rest.split_once(' ').unwrap_or((rest, ""));
            rest = after.trim_start();
            word
        };
        let (range, rights, offset, device, number) = (word(), word(), word(), word(), word());
        let hex = |text| u64::from_str_radix(text, 16).ok();
        let (start, end) = range.split_once('-')?;
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            is_writable: rights.contains('w'),
            is_executable: rights.contains('x'),
            offset: hex(offset)?,
            file: (device.to_owned(), number.parse().ok()?),
            name: rest.to_owned(),
        })
    }
}

/// Returns the mappings of a process, in the order of their addresses.
///
/// # Errors
/// The system's.
///
/// ```
/// assert!(!probe_inject::maps(std::process::id())?.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn maps(pid: u32) -> io::Result<Vec<Mapping>> {
    let mut bytes = fs::read(format!("/proc/{pid}/maps"))?;
    if bytes.is_empty() {
        // The first thread has ended, but others have not.
        let mut others = threads(pid).into_iter().filter(|it| *it != pid);
        let other = others.find_map(|it| fs::read(format!("/proc/{pid}/task/{it}/maps")).ok());
        bytes = other.unwrap_or_default();
    }
    // A path need not be UTF-8.
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(Mapping::parse).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_five_words_and_a_name_that_may_have_more() {
        let read = Mapping::parse("7f00-7f10 r-xp 00001000 fe:00 42                 /a b (deleted)").unwrap();
        assert_eq!((read.start, read.end, read.offset), (0x7f00, 0x7f10, 0x1000));
        assert_eq!((read.is_writable, read.is_executable), (false, true));
        assert_eq!((read.file, read.name), (("fe:00".to_owned(), 42), "/a b (deleted)".to_owned()));
        let read = Mapping::parse("7f00-7f10 rw-p 00000000 00:00 0 ").unwrap();
        assert!(read.is_anonymous() && read.is_writable && read.holds(0x7f0f) && !read.holds(0x7f10));
        assert_eq!(Mapping::parse("no mapping"), None);
    }
}
