//! The memory for calls in a process: one region, which the first call maps and which stays.
//!
//! A region is recognised by its code. A region whose word [`BUSY`] is set is left alone: its
//! caller may have died, and the call may still run. The stub clears the word when the call ends.
//! The next caller waits for that: the loader may be halfway through loading an object.

use std::ops::Range;

use super::stub::{BEGUN, BUSY, DONE, Entries, PAGE_BYTES, REGION_BYTES, stub_code};
use crate::process::{Mapping, Memory};

/// The most regions with calls that have not ended.
const MAX_BUSY_REGIONS: usize = 4;
/// The least distance from other mappings, with which the kernel would merge a region.
const MIN_GAP_BYTES: u64 = 16 * PAGE_BYTES;

/// A region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first address.
    pub base: u64,
    /// Whether its code is executable.
    pub is_executable: bool,
}

/// The regions in a process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Regions {
    /// A region without a call.
    pub free: Option<Region>,
    /// The addresses of all regions.
    pub all: Vec<Range<u64>>,
    /// Whether another region may be mapped.
    pub has_room: bool,
    /// A call that has not ended.
    pub pending: Option<PendingCall>,
}

/// A call that has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PendingCall {
    /// The thread that was chosen to make it.
    pub thread: u32,
    /// Whether the thread makes it. If not, the caller may have died before it hijacked the thread.
    pub has_begun: bool,
}

impl Regions {
    /// Finds the regions.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Self {
        let (bytes, _) = stub_code();
        let mut regions = Self::default();
        let mut busy = 0;
        for it in maps.iter().filter(|it| it.is_anonymous()) {
            // The region's code, or the whole region before that is made executable.
            let is_ready = it.is_executable && !it.is_writable && it.end - it.start == PAGE_BYTES;
            let is_new = it.is_writable && it.end - it.start == REGION_BYTES;
            let has_code = || memory.bytes(it.start, bytes.len()).is_ok_and(|it| it == bytes);
            if !(is_ready || is_new) || !has_code() {
                continue;
            }
            regions.all.push(it.start..it.start + REGION_BYTES);
            match memory.word(it.start + BUSY) {
                Ok(0) if regions.free.is_none() => {
                    regions.free = Some(Region { base: it.start, is_executable: is_ready });
                }
                Ok(0) | Err(_) => (),
                Ok(thread) => {
                    busy += 1;
                    let is_set = |place| memory.word(it.start + place).is_ok_and(|it| it != 0);
                    let thread = u32::try_from(thread).unwrap_or(0);
                    if !is_set(DONE) && regions.pending.is_none_or(|it| !it.has_begun) {
                        regions.pending = Some(PendingCall { thread, has_begun: is_set(BEGUN) });
                    }
                }
            }
        }
        regions.has_room = busy < MAX_BUSY_REGIONS;
        regions
    }
}

/// Chooses an address for a region: in the middle of the largest gap, since the kernel places new
/// mappings beside others.
pub fn choose_address(maps: &[Mapping]) -> Option<u64> {
    let gaps = maps.windows(2).filter(|pair| pair[1].name != "[vsyscall]");
    let (begin, length) = gaps
        .map(|pair| (pair[0].end, pair[1].start.saturating_sub(pair[0].end)))
        .max_by_key(|(_, length)| *length)?;
    (length >= REGION_BYTES + 2 * MIN_GAP_BYTES)
        .then(|| (begin + (length - REGION_BYTES) / 2) & !(PAGE_BYTES - 1))
}

impl Region {
    /// Returns the addresses of its code.
    pub fn entries(self) -> Entries {
        let Entries { restorer, syscall, stub } = stub_code().1;
        Entries { restorer: self.base + restorer, syscall: self.base + syscall, stub: self.base + stub }
    }

    /// Returns its addresses.
    pub fn range(self) -> Range<u64> {
        self.base..self.base + REGION_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_apart_from_other_mappings() {
        let mapping = |start: u64, end: u64, name: &str| Mapping {
            start,
            end,
            is_writable: false,
            is_executable: false,
            offset: 0,
            file: (String::new(), 0),
            name: name.to_owned(),
        };
        let maps = [
            mapping(0x40_0000, 0x50_0000, "/a"),
            mapping(0x7000_0000, 0x7010_0000, "/libc.so"),
            mapping(0x7010_8000, 0x7020_0000, ""),
            mapping(0x7ff0_0000, 0x7fff_f000, "[stack]"),
            mapping(0xffff_ffff_ff60_0000, 0xffff_ffff_ff60_1000, "[vsyscall]"),
        ];
        let middle = 0x50_0000 + (0x7000_0000 - 0x50_0000 - REGION_BYTES) / 2;
        assert_eq!(choose_address(&maps), Some(middle & !0xfff));
        assert_eq!(choose_address(&maps[1..3]), None);
        assert_eq!(choose_address(&maps[..1]), None);
    }
}
