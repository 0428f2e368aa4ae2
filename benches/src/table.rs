//! The sites of this program, read from its records without the runtime: what baselines write to, and what
//! counts are checked against.

// Safety: relies on the linker, which defines the table's two ends.
#![expect(unsafe_code, reason = "see above")]

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

/// One record, as docs/abi.md has it.
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

/// One site: its address, and the aligned word that it lies in, as it was.
#[derive(Clone, Copy, Debug)]
pub struct SiteWord {
    /// The site's address.
    pub site: usize,
    /// What its aligned word holds.
    pub word: u64,
}

/// All sites, in the order of the code. The program has to have some.
///
/// # Panics
/// On a record that this program did not write.
pub fn sites() -> Vec<SiteWord> {
    let (start, stop) = (&raw const START, &raw const STOP);
    let count = (stop.addr() - start.addr()) / size_of::<Record>();
    (0..count)
        .map(|at| {
            // SAFETY: within the table; records are aligned to 4.
            let record = unsafe { &*start.add(at) };
            assert_eq!(record.head, [1, 16, 1, 0], "not a record of version 1");
            let site = ptr::from_ref(&record.site).addr().wrapping_add_signed(record.site as isize);
            // SAFETY: the aligned word that a site lies in.
            let word = unsafe { AtomicU64::from_ptr((site & !7) as *mut u64) };
            SiteWord { site, word: word.load(Ordering::Relaxed) }
        })
        .collect()
}

/// Writes each site's word, as it was, with one aligned store: the floor of all bulk switching.
///
/// # Safety
/// The sites' text is writable, and nobody else switches them.
pub unsafe fn store_all(sites: &[SiteWord]) {
    for site in sites {
        // SAFETY: an aligned word of text, writable by the caller's promise.
        let word = unsafe { AtomicU64::from_ptr((site.site & !7) as *mut u64) };
        word.store(site.word, Ordering::Relaxed);
    }
}

/// Exchanges each site's word, as it is, for itself, by one `lock cmpxchg`: the floor of switching that never
/// overwrites what somebody else wrote.
///
/// # Safety
/// As for [`store_all`].
pub unsafe fn exchange_all(sites: &[SiteWord]) {
    for site in sites {
        // SAFETY: an aligned word of text, writable by the caller's promise.
        let word = unsafe { AtomicU64::from_ptr((site.site & !7) as *mut u64) };
        let _ = word.compare_exchange(site.word, site.word, Ordering::SeqCst, Ordering::Relaxed);
    }
}
