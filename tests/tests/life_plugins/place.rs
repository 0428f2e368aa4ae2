//! Text that is held open while its object is unloaded. New mappings at its address keep their
//! rights.

use std::ops::Range;

use probe_runtime::patch::{TextPolicy, unrestored_bytes};
use probe_runtime::{Count, select};
use probe_tests::library::{Library, is_mapped};
use probe_tests::pages::{PAGE, RW, RWX, rights};
use probe_tests::text::Text;

use super::plugin;

fn page_of(addr: usize) -> Range<usize> {
    let start = addr & !(PAGE - 1);
    start..start + PAGE
}

/// The program maps its own pages at the address of the plugin's text, before the next operation.
/// Some have rights that no text has, others have those of open text.
pub(super) fn taken_by_the_program() {
    for (protection, shown) in [(RW, "rw-p"), (RWX, "rwxp")] {
        let library = Library::open(&plugin("plugin"));
        let page = page_of((library.function("plugin_sum") as *const ()).addr());
        let hits = select("plugin::**").unwrap().text_policy(TextPolicy::Open).attach(Count::new()).unwrap();
        assert_eq!((hits.report().patched(), rights(&page)), (5, vec!["rwxp".to_owned()]));
        library.close();
        assert!(!is_mapped(&plugin("plugin")));

        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: nothing is mapped there, or the call fails.
        let own = unsafe { libc::mmap(page.start as *mut _, PAGE, protection, flags, -1, 0) };
        assert_eq!(own.addr(), page.start);
        // SAFETY: the page that has just been mapped, for writing.
        unsafe { own.cast::<u64>().write(7) };
        assert_eq!(hits.detach().patched(), 0);
        assert_eq!((rights(&page), unrestored_bytes()), (vec![shown.to_owned()], 0));
        // SAFETY: as above; it is this test's own, and nobody refers to it any more.
        unsafe {
            assert_eq!(own.cast::<u64>().read(), 7);
            assert_eq!(libc::munmap(own, PAGE), 0);
        }
    }
    Text::of_this_process().assert_as_in_file();
}

/// Unloading another object leaves held text open until the hold ends. An object that is loaded
/// again at the same address is sealed, and the runtime does not take it for open.
pub(super) fn others_come_and_go() {
    let library = Library::open(&plugin("plugin"));
    let page = page_of((library.function("plugin_sum") as *const ()).addr());
    let hits = select("plugin::**").unwrap().text_policy(TextPolicy::Open).attach(Count::new()).unwrap();
    for _ in 0..3 {
        Library::open(&plugin("caller")).close();
        assert_eq!(hits.late_report().unchanged(), 5);
        assert_eq!(rights(&page), ["rwxp"]);
        assert_eq!((hits.pause().patched(), hits.resume().patched()), (5, 5));
    }
    assert_eq!((library.function("plugin_sum"))(2), 3);
    library.close();

    let again = Library::open(&plugin("plugin"));
    let page = page_of((again.function("plugin_sum") as *const ()).addr());
    assert_eq!((hits.late_report().patched(), rights(&page)), (5, vec!["r-xp".to_owned()]));
    assert_eq!((again.function("plugin_sum"))(2), 3);
    assert_eq!(hits.total(), 2 * (3 * 2 + 2));
    assert_eq!(hits.detach().patched(), 5);
    assert_eq!((rights(&page), unrestored_bytes()), (vec!["r-xp".to_owned()], 0));
    again.close();
}
