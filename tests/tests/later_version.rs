//! Objects that carry probes of a later version: said, and left alone.
//! A process of its own: it loads and unloads them.
#![cfg(not(any(probe_portable, probe_off)))]

use std::path::{Path, PathBuf};

use probe_runtime::losses::{unreadable_objects, unreadable_records};
use probe_runtime::{Count, Error, probe, probes, select};
use probe_tests::c_library::{compile, makes, source};
use probe_tests::library::Library;

#[probe]
#[inline(never)]
fn own(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

fn library(name: &str, flags: &[&str]) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let flags = [&["-O2", "-shared", "-fPIC", "-std=gnu99"], flags].concat();
    compile(makes()[0].c, &flags, &[&source("later.c")], &path);
    path
}

#[test]
fn a_later_version_is_named_and_left_alone() {
    let [later, both] = [library("liblater.so", &[]), library("libboth.so", &["-DBOTH"])];
    assert_eq!(own(1), 2);
    assert_eq!((probes().len(), unreadable_objects()), (2, Vec::new()));

    let plugin = Library::open(&later);
    assert_eq!(unreadable_objects(), [later.display().to_string()]);
    assert_eq!((probes().len(), unreadable_records()), (2, 0));
    let error = select("later::**").unwrap_err();
    assert!(matches!(&error, Error::NoMatch { probes: 2, unread, .. } if *unread == unreadable_objects()));
    let expected = format!(
        "; {} has probes of a later version of probe-runtime, which {} can't read: update it",
        later.display(),
        env!("CARGO_PKG_VERSION")
    );
    assert!(error.to_string().ends_with(&expected), "{error}");
    let hits = select("**").unwrap().attach(Count::new()).unwrap();
    assert_eq!((plugin.function("later_work"))(1), 2);
    assert_eq!((own(1), hits.total()), (2, 2));

    // The runtime reads known records of an object, and ignores others.
    let other = Library::open(&both);
    assert_eq!(unreadable_objects(), [later.display().to_string(), both.display().to_string()]);
    assert_eq!((probes().len(), unreadable_records()), (3, 0));
    let known = select("**::known").unwrap().attach(Count::new()).unwrap();
    assert_eq!(((other.function("later_work"))(1), known.total()), (2, 1));
    assert_eq!(known.detach().patched(), 1);
    other.close();
    plugin.close();
    assert_eq!((unreadable_objects(), hits.detach().is_complete()), (Vec::new(), true));
}
