//! The pages of counters in a program: code, and behind it data.
//!
//! ```text
//! code (can't be written there)                               data
//! MAGIC  number  address and instruction of each …  stub of each … | counter of each …
//! ```
//! A region is known by its first bytes, so a later command finds the instructions that lead to it,
//! and what stood in their place, also if their `probectl` was killed. One region serves one
//! object: a JMP reaches 2 GiB. [`instruction`](super::instruction) has the stubs.
//!
//! The increment has a lock, since nobody knows how a program without a runtime tells its threads
//! apart. A stub has no call. Its address is nowhere but in the instruction that leads to it, and
//! behind its own code for a call through a pointer. So a thread in a stub stands at one of few
//! places, and [`Counted::remainder`] tells the work that remains.

use probe_inject::{Mapping, Memory};

use super::instruction::{Code, Counted, STUB_LEN};

const PAGE: u64 = 4096;
const MAGIC: [u8; 16] = *b"probectl counts3";
/// Bytes before the sites.
const HEADER_LEN: u64 = 24;
/// Marks an empty slot. No JMP can reach from this address.
const EMPTY_SLOT: Counted = Counted::site(u64::MAX / 2);
/// Most sites of a program that are counted.
pub const MAX_SITES: u64 = 1 << 22;
/// Most regions of a program.
pub const MAX_REGIONS: usize = 1 << 12;
/// Greatest distance in bytes between a region and its sites, within the 2 GiB of a JMP.
const MAX_DISTANCE: u64 = 0x7000_0000;
/// Least distance in bytes between a region and its neighbours, with which the kernel would join
/// it.
const MIN_GAP: u64 = 16 * PAGE;

/// The counters of one object's sites, and the stubs that increment them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CounterRegion {
    /// Its first address.
    pub base: u64,
    /// Its sites, in the order of their addresses.
    pub sites: Vec<Counted>,
}

/// Returns the offset of the first stub in a region with this number of sites.
fn stubs(sites: u64) -> u64 {
    (HEADER_LEN + Counted::LEN * sites).next_multiple_of(STUB_LEN)
}

/// Returns the length of the code of a region with this number of sites.
fn code_length(sites: u64) -> u64 {
    (stubs(sites) + STUB_LEN * sites).next_multiple_of(PAGE)
}

impl CounterRegion {
    fn stubs(&self) -> u64 {
        stubs(self.sites.len() as u64)
    }

    /// Returns the length of its code in bytes.
    pub fn code_length(&self) -> u64 {
        code_length(self.sites.len() as u64)
    }

    /// Returns the length of its data in bytes.
    pub fn data_length(&self) -> u64 {
        (8 * self.sites.len() as u64).next_multiple_of(PAGE)
    }

    /// Returns the address of its data.
    pub fn data(&self) -> u64 {
        self.base + self.code_length()
    }

    /// Returns the address of a site's stub.
    pub fn stub(&self, site: usize) -> u64 {
        self.base + self.stubs() + STUB_LEN * site as u64
    }

    /// Returns the address of a site's counter.
    pub fn counter(&self, site: usize) -> u64 {
        self.data() + 8 * site as u64
    }

    /// Returns the site whose stub contains an address, and the offset in the stub.
    pub fn site_at(&self, address: u64) -> Option<(usize, u64)> {
        let place = address.checked_sub(self.base + self.stubs())?;
        let site = usize::try_from(place / STUB_LEN).ok()?;
        (site < self.sites.len()).then_some((site, place % STUB_LEN))
    }

    /// Returns the instruction of an active site; `None` if its stub is too far away.
    pub fn active(&self, site: usize) -> Option<Code> {
        self.sites[site].active(self.stub(site))
    }

    /// Returns its code; `None` if a site is too far away.
    pub fn code(&self) -> Option<Vec<u8>> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.sites.len() as u64).to_le_bytes());
        self.sites.iter().for_each(|site| bytes.extend(site.to_bytes()));
        bytes.resize(usize::try_from(self.stubs()).ok()?, 0);
        for (at, site) in self.sites.iter().enumerate() {
            bytes.extend(site.stub(self.stub(at), self.counter(at))?);
        }
        Some(bytes)
    }

    /// Finds the regions of a program, which may hold anything else: at most [`MAX_REGIONS`] of
    /// them, with at most [`MAX_SITES`] sites in all. A mapping that only begins as a region
    /// counts, too, so a hostile program can't make this read more.
    pub fn find(memory: &Memory, maps: &[Mapping]) -> Vec<Self> {
        Self::find_up_to(MAX_SITES, memory, maps)
    }

    fn find_up_to(mut left: u64, memory: &Memory, maps: &[Mapping]) -> Vec<Self> {
        let is_code = |it: &&Mapping| it.is_anonymous() && it.is_executable && !it.is_writable;
        let mut found = Vec::new();
        for mapping in maps.iter().filter(is_code) {
            let Some(number) = Self::site_count(memory, mapping).filter(|it| *it <= left) else { continue };
            left -= number;
            found.extend(Self::read(memory, mapping.start, number));
            if found.len() == MAX_REGIONS {
                break;
            }
        }
        found
    }

    /// Returns the number of sites in a mapping's header, if it begins as a region does and has
    /// room for them.
    fn site_count(memory: &Memory, mapping: &Mapping) -> Option<u64> {
        let head = memory.bytes(mapping.start, usize::try_from(HEADER_LEN).ok()?).ok()?;
        let number = u64::from_le_bytes(head.strip_prefix(&MAGIC)?.try_into().ok()?);
        let has_room = || code_length(number) <= mapping.end - mapping.start;
        ((1..=MAX_SITES).contains(&number) && has_room()).then_some(number)
    }

    /// Reads a region. Each byte of its code must be as its sites demand, and the sites must be in
    /// order. A writer that was killed may have written the first pages only.
    fn read(memory: &Memory, base: u64, number: u64) -> Option<Self> {
        let len = usize::try_from(Counted::LEN * number).ok()?;
        let bytes = memory.bytes(base + HEADER_LEN, len).ok()?;
        let read = |it: &[u8]| Counted::from_bytes(it.try_into().ok()?);
        let sites = bytes.chunks_exact(16).map(|it| read(it).unwrap_or(EMPTY_SLOT));
        let mut region = Self { base, sites: sites.collect() };
        let is_sorted = region.sites.is_sorted_by(|one, next| one.end() <= next.addr);
        let code = if is_sorted { region.code() } else { None };
        if !code.is_some_and(|it| memory.bytes(base, it.len()).is_ok_and(|read| read == it)) {
            // Its writer was killed before a site led to it, so all of it can be unmapped.
            region.sites.fill(EMPTY_SLOT);
        }
        Some(region)
    }
}

/// Returns an address for `length` bytes near the sites from `first` to `last`: in the middle half
/// of the largest gap, at a place that depends on `salt`.
pub fn choose_address(maps: &[Mapping], first: u64, last: u64, length: u64, salt: u64) -> Option<u64> {
    let from = last.saturating_sub(MAX_DISTANCE);
    let to = first.saturating_add(MAX_DISTANCE);
    let begins = std::iter::once(PAGE * 16).chain(maps.iter().map(|it| it.end));
    let gaps = begins.zip(maps.iter().map(|it| it.start));
    let (begin, room) = gaps
        .map(|(begin, end)| {
            let begin = begin.saturating_add(MIN_GAP).max(from);
            (begin, end.saturating_sub(MIN_GAP).min(to).saturating_sub(begin))
        })
        .max_by_key(|(_, room)| *room)?;
    let spare = room.checked_sub(length).filter(|it| *it >= 4 * PAGE)?;
    Some((begin + spare / 4 + salt % (spare / 2)).next_multiple_of(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(number: u64) -> CounterRegion {
        let sites = (0..number).map(|it| Counted::site(0x40_0000 + 8 * it)).collect();
        CounterRegion { base: 0x50_0000, sites }
    }

    #[test]
    fn parts_follow_each_other() {
        let region = region(200);
        assert_eq!(region.stub(0), 0x50_0000 + 3232);
        assert_eq!(region.data(), 0x50_0000 + 3 * PAGE);
        assert_eq!(region.data_length(), PAGE);
        assert_eq!(region.site_at(region.stub(7) + 6), Some((7, 6)));
        assert_eq!(region.site_at(region.stub(200)), None);
        assert_eq!(region.site_at(region.stub(0) - 1), None);
        assert_eq!(region.code().unwrap().len(), 3232 + 200 * 32);
    }

    /// A region's code in this process, from the begin of a page on.
    struct Made {
        bytes: Vec<u8>,
        from: usize,
        memory: Memory,
    }

    impl Made {
        fn new(pages: usize) -> Self {
            let page = usize::try_from(PAGE).unwrap();
            let bytes = vec![0; (pages + 1) * page];
            let from = bytes.as_ptr().align_offset(page);
            Self { bytes, from, memory: Memory::open(std::process::id()).unwrap() }
        }

        fn base(&self) -> u64 {
            self.bytes[self.from..].as_ptr().addr() as u64
        }

        fn write(&mut self, at: usize, bytes: &[u8]) {
            self.bytes[self.from + at..][..bytes.len()].copy_from_slice(bytes);
        }

        /// Writes the code of a region with these sites, as distances from its begin.
        fn region(&mut self, sites: impl Iterator<Item = u64>) -> CounterRegion {
            let base = self.base();
            let sites = sites.map(|it| Counted::site(base - 0x1000 + it));
            let region = CounterRegion { base, sites: sites.collect() };
            self.write(0, &region.code().unwrap());
            region
        }

        fn mapping(&self, length: u64) -> Mapping {
            Mapping {
                start: self.base(),
                end: self.base() + length,
                is_writable: false,
                is_executable: true,
                offset: 0,
                file: ("00:00".to_owned(), 0),
                name: String::new(),
            }
        }

        fn find(&self, maps: &[Mapping]) -> Vec<CounterRegion> {
            CounterRegion::find(&self.memory, maps)
        }
    }

    #[test]
    fn a_region_is_read_again() {
        let mut made = Made::new(1);
        let region = made.region((0..3).map(|it| 8 * it));
        let mapping = made.mapping(PAGE);
        assert_eq!(made.find(std::slice::from_ref(&mapping)), std::slice::from_ref(&region));
        let others = [
            Mapping { end: mapping.start + 64, ..mapping.clone() },
            Mapping { start: mapping.start + 8, ..mapping.clone() },
            Mapping { is_writable: true, ..mapping.clone() },
            Mapping { name: "[vdso]".to_owned(), ..mapping.clone() },
        ];
        assert_eq!(made.find(&others), []);
        // The writer was killed.
        made.write(region.code().unwrap().len() - 32, &[0; 32]);
        assert_eq!(made.find(&[mapping]), [CounterRegion { sites: vec![EMPTY_SLOT; 3], ..region }]);
        assert_eq!(EMPTY_SLOT.active(made.base()), None);
    }

    #[test]
    fn a_region_has_no_site_twice() {
        let mut made = Made::new(1);
        for sites in [[0, 8, 8], [0, 16, 8]] {
            let region = made.region(sites.into_iter());
            assert_eq!(
                made.find(&[made.mapping(PAGE)]),
                [CounterRegion { sites: vec![EMPTY_SLOT; 3], ..region }]
            );
        }
    }

    #[test]
    fn a_hostile_program_has_no_more_regions_than_others() {
        let mut made = Made::new(1);
        made.region((0..3).map(|it| 8 * it));
        assert_eq!(made.find(&vec![made.mapping(PAGE); MAX_REGIONS + 1]).len(), MAX_REGIONS);
        // A region without sites would count for nothing, so it is not one.
        made.region(std::iter::empty());
        assert_eq!(made.find(&[made.mapping(PAGE)]), []);
    }

    #[test]
    fn a_hostile_program_has_no_more_sites_than_others() {
        let mut made = Made::new(1);
        let maps = vec![made.mapping(PAGE); 3];
        let region = made.region((0..3).map(|it| 8 * it));
        let of = |made: &Made, most| CounterRegion::find_up_to(most, &made.memory, &maps);
        assert_eq!(of(&made, 6), [region.clone(), region.clone()]);
        assert_eq!(of(&made, 5), [region]);
        assert_eq!(of(&made, 2), []);
        // Regions that a writer has not finished count, too.
        let region = made.region([0, 8, 8].into_iter());
        assert_eq!(
            of(&made, 6),
            [(); 2].map(|()| CounterRegion { sites: vec![EMPTY_SLOT; 3], ..region.clone() })
        );
    }

    /// Returns the bytes that this thread has read by system calls, and those that this call adds.
    fn read_bytes() -> Option<(u64, u64)> {
        let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        let before = text.lines().find_map(|it| it.strip_prefix("rchar: "))?.parse().ok()?;
        Some((before, text.len() as u64))
    }

    /// One page says that millions of sites follow, and memory of something else does.
    #[test]
    fn a_mapping_without_room_for_its_sites_is_not_read() {
        let sites = MAX_SITES / 8;
        let mut made = Made::new(usize::try_from(code_length(sites) / PAGE).unwrap());
        made.write(0, &MAGIC);
        made.write(MAGIC.len(), &sites.to_le_bytes());
        let maps = vec![made.mapping(PAGE); 10];
        let Some((before, own)) = read_bytes() else { return println!("left out: the kernel does not tell") };
        assert_eq!(made.find(&maps), []);
        assert_eq!(read_bytes().unwrap().0 - before - own, 10 * HEADER_LEN);
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
        let place_of = |length| choose_address(&maps, 0x40_1000, 0x50_0000, length, 0);
        // The gap in front: from 0x2_0000 to 0x3f_0000.
        assert_eq!(place_of(PAGE), Some(0x11_4000));
        assert_eq!(place_of(0x40_0000), None);
        let far = [mapping(0x5555_0000_0000, 0x5555_0010_0000)];
        let at = choose_address(&far, 0x5555_0000_1000, 0x5555_0000_2000, PAGE, 7_777_777).unwrap();
        assert!(0x5555_0000_2000 - at < MAX_DISTANCE && at < 0x5555_0000_0000 - MIN_GAP, "{at:#x}");
    }
}
