//! The memory of calls in a process: one region, which is mapped by the first call and stays.
//!
//! A region is known by its code. One whose word says that a call is under way is left alone: its
//! caller may have died, and the call may still run. The call itself takes the word back. The next
//! caller waits for its end: the loader may be halfway through loading an object.

use std::ops::Range;

use super::stub::{BEGUN, BUSY, DONE, Entries, PAGE, SIZE, code};
use crate::memory::Memory;
use crate::process::Mapping;

/// Regions of calls that have not ended, of which no more are made.
const MOST_BUSY: usize = 4;
/// Bytes at least between a region and its neighbours, with which the kernel would join it.
const APART: u64 = 16 * PAGE;

/// A region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scratch {
    /// Its first address.
    pub base: u64,
    /// Whether its code may be executed already.
    pub is_ready: bool,
}

/// The regions in a process.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Regions {
    /// One that may be used.
    pub free: Option<Scratch>,
    /// The addresses of all.
    pub all: Vec<Range<u64>>,
    /// Whether another one may be made.
    pub has_room: bool,
    /// A thread that makes a call, or is about to.
    pub caller: Option<Caller>,
}

/// A thread that was told to make a call, which has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The thread.
    pub thread: u32,
    /// Whether it makes the call. If not, the one who told it may have died before.
    pub has_begun: bool,
}

impl Regions {
    /// Looks for them.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Self {
        let (bytes, _) = code();
        let mut regions = Self::default();
        let mut busy = 0;
        for it in maps.iter().filter(|it| it.is_anonymous()) {
            // Its code, or all of it before that was made executable.
            let is_ready = it.is_executable && !it.is_writable && it.end - it.start == PAGE;
            let is_new = it.is_writable && it.end - it.start == SIZE;
            let has_code = || memory.bytes(it.start, bytes.len()).is_ok_and(|it| it == bytes);
            if !(is_ready || is_new) || !has_code() {
                continue;
            }
            regions.all.push(it.start..it.start + SIZE);
            match memory.word(it.start + BUSY) {
                Ok(0) if regions.free.is_none() => {
                    regions.free = Some(Scratch { base: it.start, is_ready });
                }
                Ok(0) | Err(_) => (),
                Ok(thread) => {
                    busy += 1;
                    let is = |place| memory.word(it.start + place).is_ok_and(|it| it != 0);
                    let thread = u32::try_from(thread).unwrap_or(0);
                    let caller = Caller { thread, has_begun: is(BEGUN) };
                    if !is(DONE) && regions.caller.is_none_or(|it| !it.has_begun) {
                        regions.caller = Some(caller);
                    }
                }
            }
        }
        regions.has_room = busy < MOST_BUSY;
        regions
    }
}

/// Returns an address for a region: in the middle of the largest gap, where no mapping comes that
/// the kernel places beside others meanwhile.
pub fn place(maps: &[Mapping]) -> Option<u64> {
    let gaps = maps.windows(2).filter(|pair| pair[1].name != "[vsyscall]");
    let (begin, length) = gaps
        .map(|pair| (pair[0].end, pair[1].start.saturating_sub(pair[0].end)))
        .max_by_key(|(_, length)| *length)?;
    (length >= SIZE + 2 * APART).then(|| (begin + (length - SIZE) / 2) & !(PAGE - 1))
}

impl Scratch {
    /// Returns the addresses of its code.
    pub fn entries(self) -> Entries {
        let Entries { restorer, call, stub } = code().1;
        Entries { restorer: self.base + restorer, call: self.base + call, stub: self.base + stub }
    }

    /// Returns its addresses.
    pub fn range(self) -> Range<u64> {
        self.base..self.base + SIZE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_apart_from_others() {
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
        let middle = 0x50_0000 + (0x7000_0000 - 0x50_0000 - SIZE) / 2;
        assert_eq!(place(&maps), Some(middle & !0xfff));
        assert_eq!(place(&maps[1..3]), None);
        assert_eq!(place(&maps[..1]), None);
    }
}
