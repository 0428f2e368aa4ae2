//! Plugins that bring a runtime of their own.

use std::thread;

use probe_runtime::{Count, Error, select};
use probe_tests::library::{Library, is_mapped};
use probe_tests::text::Text;

use super::{own, plugin};

pub(super) fn guest() {
    let library = Library::open(&plugin("guest"));
    let (work, total) = (library.function("guest_work"), library.getter("guest_total"));
    let (attach, detach) = (library.getter("guest_attach"), library.getter("guest_detach"));
    // The guest is the first to attach to its own probe and to this program's.
    assert_eq!(attach(), 2);
    assert_eq!((work(1), own(1), total()), (2, 2, 2));
    thread::spawn(|| own(1)).join().unwrap();
    let taken = select("**::own kind=entry").unwrap().attach(Count::new()).unwrap_err();
    assert!(taken.to_string().contains("another copy of probe-runtime"), "{taken}");
    library.close();

    // The guest is still loaded: for hits, for threads that end, and for forks.
    assert!(is_mapped(&plugin("guest")));
    assert_eq!((work(1), own(1), total()), (2, 2, 5));
    thread::spawn(move || (own(1), work(1))).join().unwrap();
    assert_eq!(total(), 7);
    // SAFETY: the child calls the runtime alone, which takes its lock across the fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        own(1);
        let is_right = total() == 8 && detach() == 2;
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    assert_eq!((total(), detach()), (7, 2));
    Text::of_this_process().assert_as_in_file();

    let again = Library::open(&plugin("guest"));
    assert_eq!(again.symbol("guest_work").addr(), (work as *const ()).addr(), "the same one");
    assert_eq!(attach(), 2);
    assert_eq!((own(1), total(), detach()), (2, 1, 2));
    again.close();
}

/// The host has its own runtime, and consumers on the same function.
pub(super) fn replaced() {
    let library = Library::open(&plugin("replaced"));
    let (work, install) = (library.function("replaced_work"), library.getter("replaced_install"));
    let remove = library.getter("replaced_remove");
    assert_eq!((work(1), install(), work(1)), (2, 1, 20));
    library.close();
    assert!(is_mapped(&plugin("replaced")));
    assert_eq!(work(1), 20);
    // The plugin's runtime owns the site; the function's other probes are free.
    let Err(Error::Refused(report)) = select("replaced::work kind=replace").unwrap().attach(Count::new())
    else {
        panic!("attached to what another runtime has");
    };
    assert_eq!(report.refused(), 1);
    let hits = select("replaced::work kind=entry|exit").unwrap().attach(Count::new()).unwrap();
    assert_eq!((work(1), hits.total()), (20, 2));
    assert_eq!((remove(), work(1), hits.total()), (1, 2, 4));
}

pub(super) fn idle_guest() {
    let library = Library::open(&plugin("guest"));
    assert_eq!((library.function("guest_work"))(1), 2);
    assert_eq!((library.getter("guest_total"))(), 0);
    library.close();
    assert!(!is_mapped(&plugin("guest")));
}
