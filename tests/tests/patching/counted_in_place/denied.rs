//! Counting in a process that can't make memory executable.

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Count, select};
use probe_tests::sandbox::{ALL, argument, deny};

use super::seen::{Held, active_sites, held, mapping};
use super::{Told, hot};

pub(super) fn no_execution() {
    hot(1);
    let rights = libc::PROT_READ | libc::PROT_EXEC;
    deny(libc::SYS_mprotect, argument(2), ALL, rights.unsigned_abs());
    let set = select("patching::counted_in_place::hot").unwrap().text_policy(TextPolicy::Open);
    let maps = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let counted = set.attach(Count::new()).unwrap();
    let before = maps();
    assert_eq!((counted.report().patched(), counted.report().refused()), (2, 0));
    assert_eq!(active_sites().len(), 2);
    for _ in 0..10 {
        drop(set.attach(Told).unwrap());
        drop(set.attach(Count::new()).unwrap());
    }
    for site in active_sites() {
        // The text is writable as long as it is held open.
        let line = mapping(site).unwrap();
        assert!(line.contains(" rwxp "), "{line}");
        assert_eq!(held(site), Held::Cold);
    }
    (0..10).for_each(|x| _ = hot(x));
    assert_eq!((counted.total(), maps()), (20, before), "nothing was mapped for good");
}
