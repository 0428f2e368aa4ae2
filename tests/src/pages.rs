//! Pages of a test's own, and what the kernel says of the rights of any.

use std::fs;
use std::ops::Range;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// May not be touched.
pub const NONE: i32 = libc::PROT_NONE;
/// May be read.
pub const R: i32 = libc::PROT_READ;
/// May be read and written.
pub const RW: i32 = R | libc::PROT_WRITE;
/// May be read and executed.
pub const RX: i32 = R | libc::PROT_EXEC;
/// May be read, written and executed.
pub const RWX: i32 = RW | libc::PROT_EXEC;

/// Pages of this test's own, one for each of `rights`; given back at the end.
pub struct Pages(pub Range<usize>);

impl Pages {
    /// # Panics
    /// If the system refuses.
    #[must_use]
    pub fn new(rights: &[i32]) -> Self {
        let (len, flags) = (rights.len() * PAGE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping overlaps nothing.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, NONE, flags, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        let pages = Self(start.addr()..start.addr() + len);
        for (at, rights) in rights.iter().enumerate() {
            pages.protect(at, *rights);
        }
        pages
    }

    /// Returns the start of a page.
    #[must_use]
    pub fn at(&self, page: usize) -> usize {
        self.0.start + page * PAGE
    }

    /// Sets the rights of a page.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn protect(&self, page: usize, rights: i32) {
        // SAFETY: a page of this test's own.
        assert_eq!(unsafe { libc::mprotect(self.at(page) as *mut _, PAGE, rights) }, 0);
    }

    /// Gives a page back.
    ///
    /// # Panics
    /// If the system refuses.
    pub fn unmap(&self, page: usize) {
        // SAFETY: a page of this test's own.
        assert_eq!(unsafe { libc::munmap(self.at(page) as *mut _, PAGE) }, 0);
    }

    /// The rights of each page, by the kernel; `""` for one that is not mapped.
    #[must_use]
    pub fn rights(&self) -> Vec<String> {
        rights(&self.0)
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: a mapping of this test's own, which nobody refers to any more.
        unsafe { libc::munmap(self.0.start as *mut _, self.0.len()) };
    }
}

/// The rights of each page of a range, as in `/proc/self/maps`.
///
/// # Panics
/// If the file can't be read.
#[must_use]
pub fn rights(range: &Range<usize>) -> Vec<String> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let lines: Vec<(Range<usize>, &str)> = (maps.lines())
        .map(|line| {
            let mut words = line.split_whitespace();
            let (start, end) = words.next().unwrap().split_once('-').unwrap();
            let number = |digits| usize::from_str_radix(digits, 16).unwrap();
            (number(start)..number(end), words.next().unwrap())
        })
        .collect();
    let of =
        |page: usize| lines.iter().find(|(pages, _)| pages.contains(&page)).map_or("", |(_, rights)| rights);
    range.clone().step_by(PAGE).map(|page| of(page).to_owned()).collect()
}
