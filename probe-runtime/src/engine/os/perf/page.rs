//! An event's page, from which its thread reads without a system call, as `linux/perf_event.h`
//! describes.
//!
//! The kernel writes the page when it puts the event on a processor, or takes it off. It never does
//! so during a load of the event's thread, but perhaps between two loads. It changes `lock` each
//! time, so a reader that finds `lock` changed reads again. The rest of the count is in a counter
//! of the processor; the rest of the time is in its time stamp counter.

// Safety: relies on the kernel's page staying mapped until it is unmapped here, on loads of aligned
// words that the kernel writes whole, and on the kernel's permission to ask the processor.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

use perf_event_open_sys::bindings::perf_event_mmap_page as Layout;

use crate::engine::entry::cpu;
use crate::engine::os::process::page_size;

/// Reads a field of a page, which the kernel may write at any moment.
macro_rules! word {
    ($page:expr, $($field:tt)+) => {
        ptr::read_volatile(&raw const (*$page).$($field)+)
    };
}

/// The nanoseconds for which an event was enabled, and for which it counted. If events took turns,
/// the latter is less.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct EventTimes {
    pub(crate) enabled: u64,
    pub(crate) running: u64,
}

/// The address of a mapped page. Only [`unmap`](Self::unmap) unmaps it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Page(pub(crate) usize);

/// The processor's counters.
trait Processor {
    fn counter(&self, number: u32) -> u64;
    fn time_stamp(&self) -> u64;
}

struct This;

/// The kernel's flags: `rdpmc` is allowed; the time's multiplier is valid; it needs a mask.
const MAY_COUNT: u64 = 1 << 2;
const MAY_TIME: u64 = 1 << 3;
const MASKED_TIME: u64 = 1 << 5;

impl Page {
    /// Unmaps the page. No thread may read it any more.
    pub(crate) fn unmap(self) {
        // SAFETY: a mapping of ours.
        unsafe { libc::syscall(libc::SYS_munmap, self.0, page_size()) };
    }

    /// Returns the event's count; `None` if that takes a system call.
    ///
    /// # Safety
    /// The page is mapped, and belongs to this thread.
    pub(crate) unsafe fn count(self) -> Option<u64> {
        // SAFETY: as the caller says.
        unsafe { count(self.layout(), &This) }
    }

    /// Returns the nanoseconds that this thread has been on a processor since the event was opened;
    /// `None` if that takes a system call.
    ///
    /// # Safety
    /// The page is mapped, and belongs to this thread.
    pub(crate) unsafe fn time(self) -> Option<u64> {
        // SAFETY: as the caller says.
        unsafe { time(self.layout(), &This) }
    }

    /// Returns whether the event has a counter of the processor at this moment, which may be read.
    ///
    /// # Safety
    /// Same as [`count`](Self::count).
    pub(crate) unsafe fn is_counting(self) -> bool {
        let page = self.layout();
        // SAFETY: as the caller says.
        unsafe { word!(page, __bindgen_anon_1.capabilities) & MAY_COUNT != 0 && word!(page, index) != 0 }
    }

    /// Returns the event's times, as of when it was last put on a processor.
    ///
    /// # Safety
    /// Same as [`count`](Self::count).
    pub(crate) unsafe fn times(self) -> EventTimes {
        let page = self.layout();
        // SAFETY: as the caller says.
        unsafe {
            unchanged(page, || EventTimes {
                enabled: word!(page, time_enabled),
                running: word!(page, time_running),
            })
        }
    }

    fn layout(self) -> *const Layout {
        ptr::with_exposed_provenance(self.0)
    }
}

/// Returns the result of a `read` during which the kernel did not write.
///
/// # Safety
/// The page is mapped.
unsafe fn unchanged<T>(page: *const Layout, mut read: impl FnMut() -> T) -> T {
    loop {
        // SAFETY: as the caller says.
        let before = unsafe { word!(page, lock) };
        // The kernel writes on this very processor.
        compiler_fence(Ordering::SeqCst);
        let found = read();
        compiler_fence(Ordering::SeqCst);
        // SAFETY: as the caller says.
        if unsafe { word!(page, lock) } == before {
            return found;
        }
    }
}

/// Returns the event's count, if it may be read here.
///
/// # Safety
/// The page is mapped.
#[inline(always)]
unsafe fn count(page: *const Layout, processor: &impl Processor) -> Option<u64> {
    // SAFETY: as the caller says.
    unsafe {
        unchanged(page, || {
            if word!(page, __bindgen_anon_1.capabilities) & MAY_COUNT == 0 {
                return None;
            }
            let (index, offset) = (word!(page, index), word!(page, offset));
            // An event that is not on the processor does not count.
            let more =
                if index == 0 { 0 } else { signed(processor.counter(index - 1), word!(page, pmc_width)) };
            Some(offset.wrapping_add(more).cast_unsigned())
        })
    }
}

/// Extends the sign of a number of `width` bits.
fn signed(number: u64, width: u16) -> i64 {
    let unused = 64_u32.saturating_sub(width.into()).min(63);
    (number << unused).cast_signed() >> unused
}

/// Returns the thread's time, if it may be read here.
///
/// # Safety
/// The page is mapped.
#[inline(always)]
unsafe fn time(page: *const Layout, processor: &impl Processor) -> Option<u64> {
    // SAFETY: as the caller says.
    unsafe {
        unchanged(page, || {
            let capabilities = word!(page, __bindgen_anon_1.capabilities);
            if capabilities & MAY_TIME == 0 || capabilities & MASKED_TIME != 0 {
                return None;
            }
            let (shift, by) = (u32::from(word!(page, time_shift)).min(63), u64::from(word!(page, time_mult)));
            let now = processor.time_stamp();
            let (whole, rest) = (now >> shift, now & ((1 << shift) - 1));
            let since = whole.wrapping_mul(by).wrapping_add(rest.wrapping_mul(by) >> shift);
            let since = since.wrapping_add(word!(page, time_offset));
            Some(word!(page, time_enabled).wrapping_add(since))
        })
    }
}

/// On a processor without counters, the kernel does not allow to read them: see [`MAY_COUNT`] and
/// [`MASKED_TIME`].
impl Processor for This {
    #[inline(always)]
    fn counter(&self, number: u32) -> u64 {
        // SAFETY: the page says that this thread may read the counter.
        unsafe { cpu::performance_counter(number) }
    }

    #[inline(always)]
    fn time_stamp(&self) -> u64 {
        cpu::time_stamp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given {
        counter: u64,
        time_stamp: u64,
    }

    impl Processor for Given {
        fn counter(&self, number: u32) -> u64 {
            assert_eq!(number, 3, "one less than the index");
            self.counter
        }

        fn time_stamp(&self) -> u64 {
            self.time_stamp
        }
    }

    fn page() -> Box<Layout> {
        // SAFETY: the page has only numbers.
        unsafe { Box::new(std::mem::zeroed()) }
    }

    fn counted(page: &Layout, counter: u64) -> Option<u64> {
        // SAFETY: a page of this test.
        unsafe { count(page, &Given { counter, time_stamp: 0 }) }
    }

    fn timed(page: &Layout, time_stamp: u64) -> Option<u64> {
        // SAFETY: a page of this test.
        unsafe { time(page, &Given { counter: 0, time_stamp }) }
    }

    #[test]
    fn a_count_is_the_offset_and_what_is_in_the_processor() {
        let mut page = page();
        (page.index, page.offset, page.pmc_width) = (4, 1_000, 48);
        assert_eq!(counted(&page, 7), None, "not without the kernel's word");
        page.__bindgen_anon_1.capabilities = MAY_COUNT;
        assert_eq!(counted(&page, 7), Some(1_007));
        // The kernel starts counters below zero, and its offset compensates for that.
        page.offset = 0x4000_0000;
        assert_eq!(counted(&page, (1 << 48) - 0x4000_0000 + 5), Some(5));
        page.index = 0;
        assert_eq!(counted(&page, 7), Some(0x4000_0000), "it is not on a processor");
    }

    #[test]
    fn a_time_is_what_was_and_what_has_passed_since() {
        let mut page = page();
        (page.time_enabled, page.time_shift, page.time_mult) = (5_000, 10, 512);
        page.time_offset = 0_u64.wrapping_sub(1_000_000);
        assert_eq!(timed(&page, 2_000_000), None);
        page.__bindgen_anon_1.capabilities = MAY_TIME;
        // Half a nanosecond a tick.
        assert_eq!(timed(&page, 2_000_000), Some(5_000));
        assert_eq!(timed(&page, 2_000_300), Some(5_150));
        page.__bindgen_anon_1.capabilities = MAY_TIME | MASKED_TIME;
        assert_eq!(timed(&page, 2_000_300), None);
    }

    #[test]
    fn what_changes_meanwhile_is_read_again() {
        let page = std::cell::UnsafeCell::new(*page());
        let mut looks = 0;
        // SAFETY: only this thread has the page.
        let found = unsafe {
            unchanged(page.get(), || {
                looks += 1;
                if looks < 3 {
                    (*page.get()).lock += 1;
                }
                looks
            })
        };
        assert_eq!(found, 3);
    }
}
