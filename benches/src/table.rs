//! The sites of this program, read from its records without the runtime. Baselines write to them,
//! and counts are checked against them.

// Safety: relies on the linker, which defines the table's two ends.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// One record, as in docs/abi.md.
#[repr(C)]
struct Record {
    head: [u8; 4],
    site: i32,
    target: i32,
    stub: i32,
}

unsafe extern "C" {
    #[link_name = "__start_probe_sites"]
    static START: Record;
    #[link_name = "__stop_probe_sites"]
    static STOP: Record;
}

/// One site: its address, and the original value of its aligned word.
#[derive(Clone, Copy, Debug)]
pub struct SiteWord {
    /// The site's address.
    pub site: usize,
    /// The value of its aligned word.
    pub word: u64,
}

/// Returns all sites, in the order of the code. The program must have some.
///
/// # Panics
/// If a record is not this program's.
pub fn sites() -> Vec<SiteWord> {
    let (start, stop) = (&raw const START, &raw const STOP);
    let count = (stop.addr() - start.addr()) / size_of::<Record>();
    (0..count)
        .map(|at| {
            // SAFETY: within the table; records are aligned to 4.
            let record = unsafe { &*start.add(at) };
            assert_eq!(record.head, [1, 16, 1, 0], "not a record of version 1");
            let site = ptr::from_ref(&record.site).addr().wrapping_add_signed(record.site as isize);
            // SAFETY: the aligned word of a site.
            let word = unsafe { AtomicU64::from_ptr((site & !7) as *mut u64) };
            SiteWord { site, word: word.load(Ordering::Relaxed) }
        })
        .collect()
}

/// Writes the original value of each site's word with one aligned store: the minimum for all bulk
/// switching.
///
/// # Safety
/// The sites' text is writable, and no other thread switches them.
pub unsafe fn store_all(sites: &[SiteWord]) {
    for site in sites {
        // SAFETY: an aligned word of text, writable by the caller's promise.
        let word = unsafe { AtomicU64::from_ptr((site.site & !7) as *mut u64) };
        word.store(site.word, Ordering::Relaxed);
    }
}

/// Exchanges each site's word for itself with one `lock cmpxchg`: the minimum for switching that
/// never overwrites another writer's bytes.
///
/// # Safety
/// The same as for [`store_all`].
pub unsafe fn exchange_all(sites: &[SiteWord]) {
    for site in sites {
        // SAFETY: an aligned word of text, writable by the caller's promise.
        let word = unsafe { AtomicU64::from_ptr((site.site & !7) as *mut u64) };
        let _ = word.compare_exchange(site.word, site.word, Ordering::SeqCst, Ordering::Relaxed);
    }
}
