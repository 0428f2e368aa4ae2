//! The memory of discoveries. It lies near the text that they are about, and has a stub and a
//! definition for each.
//!
//! ```text
//! chunk   stubs        1,024 of 32 bytes    readable and executable
//!         which are allocated, pending      readable and writable, like all that follows
//!         definitions  1,024
//!         discoveries  1,024
//! ```
//! A stub leads to the definition of the same number: see [`stub`](super::x86_64::stub).
//! All stubs of a chunk are written at once, before any thread can execute them. Then they are made
//! executable. So no page is ever writable and executable, and a first hit writes no code but at
//! its site.
//!
//! If memory can't be made executable (`PR_SET_MDWE`, a policy), or none is free in reach of a
//! site, the site's place is in a *bare* chunk, which has no stubs and may lie anywhere. The site
//! stays a real call ([`Reason::NoStub`](super::Reason::NoStub)). A refusal is remembered, so that
//! each such site costs no more than the others. A lack of memory is remembered only for a while.
//!
//! Life: a chunk is mapped when no chunk in reach of a site has room. It is never unmapped, since a
//! thread may be in a stub. Discoveries whose object is gone give their places to others
//! ([`free`]).
//! Cost: 490 KiB of address space for 1,024 call sites, of which only the touched pages take
//! memory. Mapping a chunk takes some 20 µs.

// Safety: relies on `os::memory`, which never maps over anything; on zeroed memory, which is free
// discoveries; and on chunks that are never given back. `map_near` relies on `fill`, which keeps
// only memory that it has filled.
#![expect(unsafe_code, reason = "see above")]

use std::cell::UnsafeCell;
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::call_site::Discovery;
use super::stub::{RET_OFFSET, STUB_SIZE, StubPlaces, stub};
use crate::engine::os;
use crate::engine::os::maps::Rights;
use crate::engine::os::text::page_size;
use crate::engine::sites::{Rel32, SITE_LEN, SiteAddr};
use probe_core::abi::Definition;

/// The number of discoveries in a chunk.
const PLACES_PER_CHUNK: usize = 1_024;
/// The maximum number of chunks.
const MAX_CHUNKS: usize = 4_096;

static CHUNKS: [AtomicPtr<Chunk>; MAX_CHUNKS] = [const { AtomicPtr::new(ptr::null_mut()) }; MAX_CHUNKS];

/// The index of the first chunk that may have a free place. It saves a first hit a search of
/// thousands of full chunks.
static FIRST_NOT_FULL: AtomicUsize = AtomicUsize::new(0);

/// A chunk, as the module's documentation draws it.
#[repr(C, align(4096))]
pub(super) struct Chunk {
    stubs: [[u8; STUB_SIZE]; PLACES_PER_CHUNK],
    allocated: [AtomicU64; PLACES_PER_CHUNK / 64],
    /// Places that the control has yet to look at: [`provider`](super::provider).
    pending: [AtomicU64; PLACES_PER_CHUNK / 64],
    /// The error number for which the system refused stubs; 0 if there are stubs.
    refusal: AtomicI32,
    definitions: [UnsafeCell<Definition>; PLACES_PER_CHUNK],
    discoveries: [Discovery; PLACES_PER_CHUNK],
}

const _: () = assert!(offset_of!(Chunk, allocated).is_multiple_of(4096));

// SAFETY: all fields are atomics but for the definitions, which change as `ChunkPlace::definition`
// says.
unsafe impl Sync for Chunk {}

/// A place for one discovery: its number in a chunk.
#[derive(Clone, Copy)]
pub(super) struct ChunkPlace {
    chunk: &'static Chunk,
    number: usize,
}

/// Allocates a place whose stub a CALL at `site` can reach. If there can be no such stub, it
/// allocates a place without one ([`ChunkPlace::refusal`]). `None` if there is no memory.
pub(super) fn allocate(site: SiteAddr) -> Option<ChunkPlace> {
    let near = |chunk: &Chunk| chunk.refusal() == 0 && chunk.is_near(site);
    let errno = match find(near).map_or_else(|| grow(near, || map_chunk(site)), Ok) {
        Ok(place) => return Some(place),
        Err(errno) => errno,
    };
    let bare = |chunk: &Chunk| chunk.refusal() == errno;
    find(bare).or_else(|| grow(bare, || map_bare(errno)).ok())
}

/// Allocates a place in any mapped chunk, without a system call.
pub(super) fn allocate_mapped() -> Option<ChunkPlace> {
    find(|_| true)
}

/// Makes sure that [`allocate_mapped`] finds places, unless there is no memory.
pub(super) fn reserve() {
    match allocate_mapped() {
        Some(place) => free(place),
        None => grow(|_| true, || map_bare(libc::ENOMEM)).into_iter().for_each(free),
    }
}

/// Maps a chunk in reach of a site.
fn map_chunk(site: SiteAddr) -> Result<*mut Chunk, i32> {
    map_near(site, |chunk: *mut Chunk| {
        // SAFETY: zeroed memory is a chunk: bytes, atomics, and definitions that are written before
        // they are read.
        let is_near = unsafe { &*chunk }.is_near(site);
        // SAFETY: no other thread knows it yet.
        is_near.then(|| unsafe { write_stubs(chunk) })
    })
}

/// Maps a chunk without stubs, for sites that can't have any.
fn map_bare(errno: i32) -> Result<*mut Chunk, i32> {
    let chunk: *mut Chunk = map_anywhere()?;
    // SAFETY: zeroed memory is a chunk, as above.
    unsafe { &*chunk }.refusal.store(errno, Ordering::Relaxed);
    Ok(chunk)
}

/// Allocates a place in one of the chunks that `suits` accepts.
fn find(suits: impl Fn(&Chunk) -> bool) -> Option<ChunkPlace> {
    let first = FIRST_NOT_FULL.load(Ordering::Acquire);
    let chunks = CHUNKS[first..].iter().map_while(load);
    chunks.enumerate().filter(|(_, chunk)| suits(chunk)).find_map(|(at, chunk)| {
        let place = chunk.allocate();
        if place.is_none() && at == 0 {
            // A place that becomes free between the search and this write is missed, until another
            // place becomes free.
            let _ = FIRST_NOT_FULL.compare_exchange(first, first + 1, Ordering::AcqRel, Ordering::Relaxed);
        }
        place
    })
}

/// Allocates a place in a new chunk, or in one that another thread has just added.
#[cold]
fn grow(
    suits: impl Fn(&Chunk) -> bool,
    map: impl Fn() -> Result<*mut Chunk, i32>,
) -> Result<ChunkPlace, i32> {
    for at in CHUNKS.iter().filter(|at| load(at).is_none()) {
        let chunk = map()?;
        if at.compare_exchange(ptr::null_mut(), chunk, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: just mapped, and no other thread knows of it.
            unsafe { os::memory::give_back(chunk.cast(), size_of::<Chunk>()) };
        }
        if let Some(place) = find(&suits) {
            return Ok(place);
        }
    }
    Err(libc::ENOMEM)
}

/// Returns all allocated places.
pub(super) fn all() -> impl Iterator<Item = ChunkPlace> {
    CHUNKS
        .iter()
        .map_while(load)
        .flat_map(|chunk| chunk.places(&chunk.allocated, |bits| bits.load(Ordering::Acquire)))
}

/// Takes the places that were marked as pending since the last call.
pub(super) fn take_pending() -> impl Iterator<Item = ChunkPlace> {
    CHUNKS.iter().map_while(load).flat_map(|chunk| {
        chunk.places(&chunk.pending, |bits| match bits.load(Ordering::SeqCst) {
            0 => 0,
            _ => bits.swap(0, Ordering::SeqCst),
        })
    })
}

/// Frees a place. No thread may be reading its discovery any more.
pub(super) fn free(place: ChunkPlace) {
    place.chunk.allocated[place.number / 64].fetch_and(!(1 << (place.number % 64)), Ordering::AcqRel);
    FIRST_NOT_FULL.store(0, Ordering::Release);
}

impl ChunkPlace {
    /// Returns the definition that its stub leads to.
    pub(super) fn definition(self) -> &'static Definition {
        // SAFETY: a definition, perhaps of zeroes. A thread that writes to it makes sure that
        // no thread reads that part.
        unsafe { &*self.definition_at() }
    }

    /// Returns the address of the definition.
    pub(super) fn definition_at(self) -> *mut Definition {
        self.chunk.definitions[self.number].get()
    }

    /// Returns the discovery.
    pub(super) fn discovery(self) -> &'static Discovery {
        &self.chunk.discoveries[self.number]
    }

    /// Returns the address of its stub, which an active site calls.
    pub(super) fn stub(self) -> usize {
        self.chunk.stubs[self.number].as_ptr().addr()
    }

    /// Returns a lone `ret` near it.
    pub(super) fn ret(self) -> usize {
        self.stub() + RET_OFFSET
    }

    /// Returns the error number for which it has no stub, if it has none.
    pub(super) fn refusal(self) -> Option<i32> {
        Some(self.chunk.refusal()).filter(|errno| *errno != 0)
    }

    /// Marks it as pending, for the next operation.
    pub(super) fn mark_pending(self) {
        let (bits, bit) = (&self.chunk.pending[self.number / 64], 1 << (self.number % 64));
        // The thread that takes the note looks afterwards, and so sees all that the caller has
        // done.
        if bits.load(Ordering::SeqCst) & bit == 0 {
            bits.fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Returns the place of a discovery, once it was taken.
    pub(super) fn of(discovery: &'static Discovery) -> Option<Self> {
        let chunk = load(&discovery.chunk)?;
        let offset = ptr::from_ref(discovery).addr() - chunk.discoveries.as_ptr().addr();
        Some(Self { chunk, number: offset / size_of::<Discovery>() })
    }
}

fn load(at: &AtomicPtr<Chunk>) -> Option<&'static Chunk> {
    // SAFETY: a stored pointer leads to a whole chunk, which is never freed.
    unsafe { at.load(Ordering::Acquire).as_ref() }
}

impl Chunk {
    fn refusal(&self) -> i32 {
        self.refusal.load(Ordering::Relaxed)
    }

    fn is_near(&self, site: SiteAddr) -> bool {
        let start = self.stubs.as_ptr().addr();
        [start, start + size_of::<Self>()].into_iter().all(|end| Rel32::between(site, end).is_some())
    }

    /// Returns the places whose bits are set in the words that `read` returns.
    fn places(
        &'static self,
        words: &'static [AtomicU64],
        read: impl Fn(&AtomicU64) -> u64,
    ) -> impl Iterator<Item = ChunkPlace> {
        words.iter().enumerate().flat_map(move |(at, word)| {
            let mut bits = read(word);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(ChunkPlace { chunk: self, number: at * 64 + bit })
            })
        })
    }

    fn allocate(&'static self) -> Option<ChunkPlace> {
        for (at, word) in self.allocated.iter().enumerate() {
            let mut bits = word.load(Ordering::Relaxed);
            while bits != u64::MAX {
                let bit = bits.trailing_ones();
                match word.compare_exchange(bits, bits | 1 << bit, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => {
                        let place = ChunkPlace { chunk: self, number: at * 64 + bit as usize };
                        place.discovery().chunk.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
                        return Some(place);
                    }
                    Err(now) => bits = now,
                }
            }
        }
        None
    }
}

/// Writes all stubs, and makes them executable, if the system lets them be.
///
/// # Safety
/// The chunk is new, writable, and owned by the caller alone.
unsafe fn write_stubs(chunk: *mut Chunk) -> Result<(), i32> {
    for number in 0..PLACES_PER_CHUNK {
        let code = offset_of!(Chunk, stubs) + number * STUB_SIZE;
        let definition = offset_of!(Chunk, definitions) + number * size_of::<Definition>();
        let discovery = offset_of!(Chunk, discoveries) + number * size_of::<Discovery>();
        let bytes = stub(&StubPlaces {
            code,
            definition,
            function: discovery + offset_of!(Discovery, function),
            hook: discovery + offset_of!(Discovery, hook),
        });
        // SAFETY: a stub of the chunk.
        unsafe { (&raw mut (*chunk).stubs[number]).write(bytes) };
    }
    // The chunk's first pages, which no thread writes any more.
    let start = chunk.addr();
    os::text::protect(&(start..start + size_of::<[[u8; STUB_SIZE]; PLACES_PER_CHUNK]>()), Rights::TEXT)
        .map_err(|error| error.raw_os_error().unwrap_or(libc::EACCES))
}

const _: () =
    assert!(SITE_LEN < STUB_SIZE && size_of::<[[u8; STUB_SIZE]; PLACES_PER_CHUNK]>().is_multiple_of(4096));

/// Distances from a site at which its chunk is tried. Below comes first, since the heap begins
/// above an executable.
const DISTANCES: [isize; 14] = [
    -(4 << 20),
    -(1 << 20),
    -(16 << 20),
    -(64 << 20),
    -(256 << 20),
    -(512 << 20),
    -(1 << 30),
    3 << 29,
    1 << 30,
    512 << 20,
    256 << 20,
    64 << 20,
    16 << 20,
    2 << 20,
];

/// The error number for which memory could not be made executable last; 0 if it could.
static LAST_REFUSAL: AtomicI32 = AtomicI32::new(0);
/// The number of sites for which no mapping is tried.
static SITES_TO_SKIP: AtomicU32 = AtomicU32::new(0);
/// How many sites are skipped after `ENOMEM`. Any other refusal is permanent.
const SITES_SKIPPED_AFTER_ENOMEM: u32 = 1_024;

fn refused() -> Option<i32> {
    let errno = Some(LAST_REFUSAL.load(Ordering::Relaxed)).filter(|errno| *errno != 0)?;
    let skip = |left: u32| left.checked_sub(1);
    let is_skipped = SITES_TO_SKIP.fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip).is_ok();
    (errno != libc::ENOMEM || is_skipped).then_some(errno)
}

fn refuse(errno: i32) -> i32 {
    SITES_TO_SKIP.store(SITES_SKIPPED_AFTER_ENOMEM, Ordering::Relaxed);
    LAST_REFUSAL.store(errno, Ordering::Relaxed);
    errno
}

/// Maps zeroed memory for a `T` in reach of a site, without the heap. The free addresses are not
/// known, so this tries several. `fill` gets memory that no other thread knows. It returns `None`
/// if the memory is out of reach, `Ok` once it has filled the memory, or the system's number of the
/// error.
///
/// The error is such a number; `EEXIST` if no address in reach is free.
fn map_near<T>(site: SiteAddr, fill: impl Fn(*mut T) -> Option<Result<(), i32>>) -> Result<*mut T, i32> {
    if let Some(errno) = refused() {
        return Err(errno);
    }
    // The system puts mappings near libraries. Often that is near enough.
    let first = map_anywhere().map_err(refuse)?;
    let near = |distance: &isize| Some(site.0.checked_add_signed(*distance)? & !(page_size() - 1));
    let places = DISTANCES.iter().filter_map(near).filter(|place| *place != 0);
    let mapped = places.filter_map(|place| map_at(place).ok());
    for memory in std::iter::once(first).chain(mapped) {
        let filled = fill(memory);
        if filled == Some(Ok(())) {
            return Ok(memory);
        }
        // SAFETY: no other thread knows it yet, and `fill` has not kept it.
        unsafe { os::memory::give_back(memory.cast(), size_of::<T>()) };
        if let Some(Err(errno)) = filled {
            return Err(refuse(errno));
        }
    }
    Err(libc::EEXIST)
}

/// Maps zeroed memory for a `T`.
fn map_anywhere<T>() -> Result<*mut T, i32> {
    // No place is asked for.
    map_at(0)
}

fn map_at<T>(place: usize) -> Result<*mut T, i32> {
    os::memory::zeroed_at(place, size_of::<T>()).map(<*mut u8>::cast)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_leads_to_its_definition_and_can_not_be_written() {
        use crate::engine::entry::backend::stub::{STUB_LEN, StubCode, decode};
        let site = SiteAddr(allocate as *const () as usize);
        let places: Vec<_> = (0..PLACES_PER_CHUNK + 3).map(|_| allocate(site).unwrap()).collect();
        for place in &places {
            // SAFETY: a stub, which can be read; the part of it that is like other stubs.
            let code = unsafe { std::slice::from_raw_parts((place.stub() + 9) as *const u8, STUB_LEN) };
            let definition = ptr::from_ref(place.definition()).addr();
            assert_eq!(decode(place.stub() + 9, code), Some(StubCode::Definition(definition)));
            let (function, hook) = (&place.discovery().function, &place.discovery().hook);
            for (end, named) in [(7, function), (25, hook)] {
                // SAFETY: the same.
                let distance = unsafe { ((place.stub() + end - 4) as *const i32).read_unaligned() };
                let there = (place.stub() + end).wrapping_add_signed(distance as isize);
                assert_eq!(there, ptr::from_ref(named).addr());
            }
            assert!(Rel32::between(site, place.stub()).is_some());
            assert_eq!(ChunkPlace::of(place.discovery()).map(ChunkPlace::stub), Some(place.stub()));
        }
        let mut stubs: Vec<_> = places.iter().map(|place| place.stub()).collect();
        stubs.sort_unstable();
        stubs.dedup();
        assert_eq!(stubs.len(), places.len());
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let first = stubs[0] & !4095;
        let line = maps.lines().find(|line| line.starts_with(&format!("{first:x}-"))).unwrap();
        assert!(line.contains(" r-xp "), "{line}");
        let freed = places[7];
        free(freed);
        assert_eq!(allocate(site).map(ChunkPlace::stub), Some(freed.stub()));
        places.into_iter().for_each(free);
    }

    #[test]
    fn far_text_gets_a_chunk_of_its_own() {
        let near = allocate(SiteAddr(allocate as *const () as usize)).unwrap();
        let far = SiteAddr(near.stub() ^ (1 << 40));
        let other = allocate(far).unwrap();
        assert!(Rel32::between(far, other.stub()).is_some());
        assert!(Rel32::between(far, near.stub()).is_none());
        free(near);
        free(other);
    }
}
