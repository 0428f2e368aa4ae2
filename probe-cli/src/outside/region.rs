//! The memory of counters in a program: code, and behind it data.
//!
//! ```text
//! code (can't be written there)               data
//! MAGIC  number of sites  address of each …   stub of each …   | counter of each …
//! ```
//! It is known by its beginning, so a later command finds the sites that lead to it, also if their
//! `probectl` was killed. One region serves one object: a JMP reaches 2 GiB.

use probe_inject::{Mapping, Memory};

use super::stub::{STUB, jump, stub};

const PAGE: u64 = 4096;
const MAGIC: [u8; 16] = *b"probectl counts1";
/// The bytes before the addresses.
const HEAD: u64 = 24;
/// The address of a site that is none: no JMP reaches from there.
const NOWHERE: u64 = u64::MAX / 2;
/// The most sites of a region.
pub const MOST: u64 = 1 << 22;
/// How far a region may be from its sites, of 2 GiB.
const NEAR: u64 = 0x7000_0000;
/// Bytes at least between a region and its neighbours, with which the kernel would join it.
const APART: u64 = 16 * PAGE;

/// A region.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Region {
    /// Its first address.
    pub base: u64,
    /// The addresses of its sites.
    pub sites: Vec<u64>,
}

impl Region {
    fn stubs(&self) -> u64 {
        (HEAD + 8 * self.sites.len() as u64).next_multiple_of(STUB)
    }

    /// Returns the bytes of its code.
    pub fn code_length(&self) -> u64 {
        (self.stubs() + STUB * self.sites.len() as u64).next_multiple_of(PAGE)
    }

    /// Returns the bytes of its data.
    pub fn data_length(&self) -> u64 {
        (8 * self.sites.len() as u64).next_multiple_of(PAGE)
    }

    /// Returns the address of its data.
    pub fn data(&self) -> u64 {
        self.base + self.code_length()
    }

    /// Returns the address of a site's stub.
    pub fn stub(&self, site: usize) -> u64 {
        self.base + self.stubs() + STUB * site as u64
    }

    /// Returns the address of a site's counter.
    pub fn counter(&self, site: usize) -> u64 {
        self.data() + 8 * site as u64
    }

    /// Returns the site whose stub an address is in, and the place there.
    pub fn site_at(&self, address: u64) -> Option<(usize, u64)> {
        let place = address.checked_sub(self.base + self.stubs())?;
        let site = usize::try_from(place / STUB).ok()?;
        (site < self.sites.len()).then_some((site, place % STUB))
    }

    /// Returns the JMP of an active site; `None` if its stub is too far.
    pub fn jump(&self, site: usize) -> Option<[u8; 5]> {
        jump(self.sites[site], self.stub(site))
    }

    /// Returns its code; `None` if a site is too far.
    pub fn code(&self) -> Option<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.sites.len() as u64).to_le_bytes());
        self.sites.iter().for_each(|site| bytes.extend(site.to_le_bytes()));
        bytes.resize(usize::try_from(self.stubs()).ok()?, 0);
        for (at, site) in self.sites.iter().enumerate() {
            bytes.extend(stub(self.stub(at), self.counter(at), *site)?);
        }
        Some(bytes)
    }

    /// Finds those of a program, which may hold anything else: all of them have no more sites than
    /// one may have.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Vec<Self> {
        let is_code = |it: &&Mapping| it.is_anonymous() && it.is_executable && !it.is_writable;
        let mut left = MOST;
        let mut found = Vec::new();
        for mapping in maps.iter().filter(is_code) {
            if let Some(region) = Self::read(memory, mapping, left) {
                left -= region.sites.len() as u64;
                found.push(region);
            }
        }
        found
    }

    /// Reads one, of which each byte must be as its sites demand; a writer that was killed may have
    /// written its first pages only.
    fn read(memory: &Memory, mapping: &Mapping, most: u64) -> Option<Self> {
        let base = mapping.start;
        let head = memory.bytes(base, MAGIC.len()).ok()?;
        let number = memory.word(base + MAGIC.len() as u64).ok()?;
        if head != MAGIC || number > most {
            return None;
        }
        let bytes = memory.bytes(base + HEAD, usize::try_from(8 * number).ok()?).ok()?;
        let sites = bytes.chunks_exact(8).map(|it| u64::from_le_bytes(it.try_into().unwrap_or_default()));
        let mut region = Self { base, sites: sites.collect() };
        if region.data() > mapping.end {
            return None;
        }
        let whole = region.code().filter(|it| memory.bytes(base, it.len()).is_ok_and(|read| read == *it));
        if whole.is_none() {
            // No site leads to it yet: its writer was killed. All that it covers can go.
            region.sites = vec![NOWHERE; region.sites.len()];
        }
        Some(region)
    }
}

/// Returns an address for so many bytes near sites: in the middle half of the largest gap, at a
/// place that depends on `salt`.
pub fn place(maps: &[Mapping], first: u64, last: u64, length: u64, salt: u64) -> Option<u64> {
    let from = last.saturating_sub(NEAR);
    let to = first.saturating_add(NEAR);
    let begins = std::iter::once(PAGE * 16).chain(maps.iter().map(|it| it.end));
    let gaps = begins.zip(maps.iter().map(|it| it.start));
    let (begin, room) = gaps
        .map(|(begin, end)| {
            let begin = begin.saturating_add(APART).max(from);
            (begin, end.saturating_sub(APART).min(to).saturating_sub(begin))
        })
        .max_by_key(|(_, room)| *room)?;
    let spare = room.checked_sub(length).filter(|it| *it >= 4 * PAGE)?;
    Some((begin + spare / 4 + salt % (spare / 2)).next_multiple_of(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(number: u64) -> Region {
        Region { base: 0x50_0000, sites: (0..number).map(|it| 0x40_0000 + 8 * it).collect() }
    }

    #[test]
    fn parts_follow_each_other() {
        let region = region(200);
        assert_eq!(region.stub(0), 0x50_0000 + 1632);
        assert_eq!(region.data(), 0x50_0000 + 2 * PAGE);
        assert_eq!(region.data_length(), PAGE);
        assert_eq!(region.site_at(region.stub(7) + 6), Some((7, 6)));
        assert_eq!(region.site_at(region.stub(200)), None);
        assert_eq!(region.site_at(region.stub(0) - 1), None);
        assert_eq!(region.code().unwrap().len(), 1632 + 200 * 32);
    }

    #[test]
    fn a_region_is_read_again() {
        let mut bytes = vec![0; 4096];
        let base = bytes.as_ptr().addr() as u64;
        let region = Region { base, sites: (0..3).map(|it| base - 0x1000 + 8 * it).collect() };
        let code = region.code().unwrap();
        bytes[..code.len()].copy_from_slice(&code);
        let memory = Memory::open(std::process::id()).unwrap();
        let mapping = Mapping {
            start: base,
            end: base + PAGE,
            is_writable: false,
            is_executable: true,
            offset: 0,
            file: ("00:00".to_owned(), 0),
            name: String::new(),
        };
        let read = |mapping: &Mapping, most| Region::read(&memory, mapping, most);
        assert_eq!(read(&mapping, 3).as_ref(), Some(&region));
        assert_eq!(read(&mapping, 2), None);
        assert_eq!(read(&Mapping { end: base + 64, ..mapping.clone() }, 3), None);
        assert_eq!(read(&Mapping { start: base + 8, ..mapping.clone() }, 3), None);
        // Its writer was killed.
        bytes[code.len() - 32..code.len()].fill(0);
        assert_eq!(read(&mapping, 3), Some(Region { sites: vec![NOWHERE; 3], ..region }));
        assert_eq!(jump(NOWHERE, base), None);
    }

    #[test]
    fn a_place_is_near_and_apart() {
        let mapping = |start: u64, end: u64| Mapping {
            start,
            end,
            is_writable: false,
            is_executable: false,
            offset: 0,
            file: (String::new(), 0),
            name: String::new(),
        };
        let maps = [mapping(0x40_0000, 0x60_0000), mapping(0x70_0000, 0x80_0000)];
        let place_of = |length| place(&maps, 0x40_1000, 0x50_0000, length, 0);
        // The gap in front: from 0x2_0000 to 0x3f_0000.
        assert_eq!(place_of(PAGE), Some(0x11_4000));
        assert_eq!(place_of(0x40_0000), None);
        let far = [mapping(0x5555_0000_0000, 0x5555_0010_0000)];
        let at = place(&far, 0x5555_0000_1000, 0x5555_0000_2000, PAGE, 7_777_777).unwrap();
        assert!(0x5555_0000_2000 - at < NEAR && at < 0x5555_0000_0000 - APART, "{at:#x}");
    }
}
