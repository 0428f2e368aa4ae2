//! Memory for chunks: in reach of a site's call, or anywhere.

// Safety: relies on `os::memory`, which never maps over anything. Relies on `fill`, which keeps
// only memory that it has filled.
#![expect(unsafe_code, reason = "see above")]

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::engine::os;
use crate::engine::os::text::page_size;
use crate::engine::sites::SiteAddr;

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
static REFUSAL: AtomicI32 = AtomicI32::new(0);
/// The number of sites that still go without a try.
static SKIP: AtomicU32 = AtomicU32::new(0);
/// The number of sites that go without a try after memory was short. Any other refusal is for good.
const PAUSE: u32 = 1_024;

fn refused() -> Option<i32> {
    let errno = Some(REFUSAL.load(Ordering::Relaxed)).filter(|errno| *errno != 0)?;
    let skip = |left: u32| left.checked_sub(1);
    let is_skipped = SKIP.fetch_update(Ordering::Relaxed, Ordering::Relaxed, skip).is_ok();
    (errno != libc::ENOMEM || is_skipped).then_some(errno)
}

fn refuse(errno: i32) -> i32 {
    SKIP.store(PAUSE, Ordering::Relaxed);
    REFUSAL.store(errno, Ordering::Relaxed);
    errno
}

/// Maps zeroed memory for a `T` in reach of a site, without the heap. The free addresses are not
/// known, so this tries several. `fill` gets memory that no other thread knows. It returns `None`
/// if the memory is out of reach, `Ok` once it has filled the memory, or the system's number of the
/// error.
///
/// The error is such a number; `EEXIST` if no address in reach is free.
pub(super) fn map_near<T>(
    site: SiteAddr,
    fill: impl Fn(*mut T) -> Option<Result<(), i32>>,
) -> Result<*mut T, i32> {
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
pub(super) fn map_anywhere<T>() -> Result<*mut T, i32> {
    // No place is asked for.
    map_at(0)
}

fn map_at<T>(place: usize) -> Result<*mut T, i32> {
    os::memory::zeroed_at(place, size_of::<T>()).map(<*mut u8>::cast)
}
