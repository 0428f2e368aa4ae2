//! The beginnings and ends of machine functions, from the sorted table for unwinding that linkers
//! make (`PT_GNU_EH_FRAME`; Linux Standard Base, 10.6.2).

// Safety: relies on the dynamic linker's program headers, which describe the mapped memory while
// the iteration holds its lock.
#![expect(unsafe_code, reason = "see above")]
#![expect(clippy::unused_self, reason = "as long as this is borrowed, objects stay")]

use std::ops::Range;
use std::slice;

use super::iterate;
use super::objects::{Frozen, ProgramHeaders};

/// The table's encodings: a signed word from its own place, a number, signed words from the
/// table's beginning. Linkers make no others.
const ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// The lengths of the header before the table, and of an entry: where a function begins, and its
/// description.
const HEAD: usize = 12;
const ENTRY: usize = 8;

impl Frozen {
    /// Returns the machine function around each of these addresses, which ascend; `None` where no
    /// table knows it. Cost: a search for each function.
    pub(crate) fn functions_around(&self, addrs: &[usize]) -> Vec<Option<Range<usize>>> {
        let mut found = vec![None; addrs.len()];
        iterate(&mut |info| {
            let Some((text, table)) = text_and_table(info, addrs) else { return true };
            let first = addrs.partition_point(|addr| *addr < text.start);
            let mut last: Option<Range<usize>> = None;
            for (addr, found) in addrs.iter().zip(&mut found).skip(first) {
                if !text.contains(addr) {
                    break;
                }
                if last.as_ref().is_none_or(|last| !last.contains(addr)) {
                    last = table.around(*addr, text.end);
                }
                found.clone_from(&last);
            }
            true
        });
        found
    }
}

/// A sorted table, at this address.
struct Table<'a> {
    start: usize,
    entries: &'a [u8],
}

impl Table<'_> {
    /// Reads the table of this segment.
    fn new(start: usize, data: &[u8]) -> Option<Table<'_>> {
        let (head, entries) = data.split_at_checked(HEAD)?;
        if head[..4] != ENCODINGS {
            return None;
        }
        let len = u32::from_le_bytes(head[8..].try_into().ok()?);
        let entries = entries.get(..usize::try_from(len).ok()?.checked_mul(ENTRY)?)?;
        Some(Table { start, entries })
    }

    /// Returns the function around an address of a text that ends at `end`.
    fn around(&self, addr: usize, end: usize) -> Option<Range<usize>> {
        let begin = |at: usize| -> Option<usize> {
            let word = self.entries.get(at * ENTRY..at * ENTRY + 4)?;
            let distance = i32::from_le_bytes(word.try_into().ok()?);
            Some(self.start.wrapping_add_signed(distance as isize))
        };
        let (mut low, mut high) = (0, self.entries.len() / ENTRY);
        while low < high {
            let middle = low.midpoint(high);
            if begin(middle)? <= addr { low = middle + 1 } else { high = middle }
        }
        Some(begin(low.checked_sub(1)?)?..begin(low).unwrap_or(end).min(end))
    }
}

/// Returns an object's text, if it has any of these addresses, and its table.
fn text_and_table<'a>(info: &'a libc::dl_phdr_info, addrs: &[usize]) -> Option<(Range<usize>, Table<'a>)> {
    let headers = ProgramHeaders::of(info)?;
    let has_some = |text: &Range<usize>| {
        addrs.get(addrs.partition_point(|addr| *addr < text.start)).is_some_and(|addr| text.contains(addr))
    };
    let text = headers.ranges(libc::PT_LOAD, libc::PF_X).find(has_some)?;
    let (_, table) = headers.of_type(libc::PT_GNU_EH_FRAME).next()?;
    let is_mapped = (headers.ranges(libc::PT_LOAD, libc::PF_R))
        .any(|segment| segment.start <= table.start && table.end <= segment.end);
    // SAFETY: the bytes lie within a mapped segment.
    let data = is_mapped.then(|| unsafe { slice::from_raw_parts(table.start as *const u8, table.len()) })?;
    Some((text, Table::new(table.start, data)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::os::objects::freeze;

    #[inline(never)]
    fn one(x: u64) -> u64 {
        std::hint::black_box(x + 1)
    }

    #[inline(never)]
    fn other(x: u64) -> u64 {
        std::hint::black_box(x + 2)
    }

    #[test]
    fn functions_of_this_program_are_told_apart() {
        let [one, other] = [one as fn(u64) -> u64, other].map(|it| it as usize);
        let mut addrs = [one, one + 1, other];
        addrs.sort_unstable();
        let found = freeze(|frozen| frozen.functions_around(&addrs));
        let around = |addr: usize| found[addrs.iter().position(|it| *it == addr).unwrap()].clone().unwrap();
        assert_eq!((around(one).start, around(other).start), (one, other));
        assert_eq!(around(one), around(one + 1));
        assert_eq!(freeze(|frozen| frozen.functions_around(&[8])), [None], "in no object");
    }

    #[test]
    fn damaged_tables_are_refused() {
        let mut data = ENCODINGS.to_vec();
        data.extend([0; 4]);
        data.extend(2_u32.to_le_bytes());
        for begin in [0x100_i32, 0x180] {
            data.extend(begin.to_le_bytes());
            data.extend([0; 4]);
        }
        let around = |data: &[u8], addr| Table::new(0x1000, data).and_then(|it| it.around(addr, 0x1200));
        assert_eq!(around(&data, 0x1100), Some(0x1100..0x1180));
        assert_eq!(around(&data, 0x11ff), Some(0x1180..0x1200));
        assert_eq!(around(&data, 0x10ff), None);
        for len in 0..data.len() {
            assert_eq!(around(&data[..len], 0x1100), None, "{len}");
        }
        data[3] = 0x1b;
        assert_eq!(around(&data, 0x1100), None);
    }
}
