//! Traces whose rings lie in a file, which has the definitions of probes that join, too: at any
//! moment, and also in the files of forked children.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, process};

use probe_runtime::registry::discover_probes;
use probe_runtime::{Trace, select_persistent};
use probe_tests::library::Library;
use probe_tests::scenario::in_a_child;
use probe_trace::Item;

use super::{own, plugin};

/// Returns the number of a file's events, by the last parts of their probes' paths.
fn events(path: &Path) -> BTreeMap<String, u64> {
    let mut trace = probe_trace::Trace::open(&[path]).unwrap();
    let (mut events, mut items) = (BTreeMap::new(), trace.items());
    for item in &mut items {
        let Item::Event(event) = item.unwrap() else { continue };
        let name = event.definition.path.rsplit("::").next().unwrap().to_owned();
        *events.entry(name).or_default() += 1;
    }
    assert_eq!(items.undefined(), 0);
    events
}

fn of<const N: usize>(expected: [(&str, u64); N]) -> BTreeMap<String, u64> {
    expected.map(|(name, events)| (name.to_owned(), events)).into()
}

/// Returns the number of a file's problems, but for those of each process that still runs.
fn problems(path: &Path) -> usize {
    let trace = probe_trace::Trace::open(&[path]).unwrap();
    let is_known = |it: &&String| it.contains("did not finish the trace") || it.contains("one reading");
    trace.problems().iter().filter(|it| !is_known(it)).count()
}

pub(super) fn in_a_file() {
    let folder = PathBuf::from(env::var_os("TMPDIR").unwrap());
    let file = |process: u32| folder.join(format!("rings-{process}.probetrace"));
    let own_file = file(process::id());
    let recorder = Trace::recorder().in_file(folder.join("rings-%p.probetrace"));
    let attached =
        select_persistent("plugin::**, caller::caller_sum, **::own").unwrap().attach(recorder).unwrap();
    own(1);
    let mut opened_before = probe_trace::Trace::open(&[&own_file]).unwrap();
    let library = Library::open(&plugin("plugin"));
    discover_probes();
    assert_eq!(library.function("plugin_sum")(2), 3);
    let mut items = opened_before.items();
    assert_eq!(
        (items.by_ref().filter(|it| matches!(it, Ok(Item::Event(_)))).count(), items.undefined()),
        (10, 0)
    );
    let expected = of([("own", 2), ("plugin_sum", 2), ("each", 4), ("value", 2)]);
    assert_eq!((events(&own_file), problems(&own_file)), (expected.clone(), 0));

    // A child's file has the definitions of probes that have joined, before or in the child.
    let status = in_a_child(|| {
        let child_file = file(process::id());
        let other = Library::open(&plugin("caller"));
        discover_probes();
        assert!(!child_file.exists(), "a child that has hit nothing has no file");
        assert_eq!((library.function("plugin_sum")(1), other.function("caller_sum")(1)), (1, 1));
        let expected = of([("plugin_sum", 2), ("each", 2), ("value", 1), ("caller_sum", 2)]);
        assert_eq!((events(&child_file), problems(&child_file)), (expected, 0));
    });
    assert_eq!((status, events(&own_file), problems(&own_file)), (0, expected.clone(), 0));

    // A child that hits first, and then loads.
    let status = in_a_child(|| {
        let child_file = file(process::id());
        assert_eq!(library.function("plugin_sum")(1), 1);
        let other = Library::open(&plugin("caller"));
        discover_probes();
        assert_eq!(other.function("caller_sum")(1), 1);
        let expected = of([("plugin_sum", 2), ("each", 2), ("value", 1), ("caller_sum", 2)]);
        assert_eq!((events(&child_file), problems(&child_file)), (expected, 0));
    });
    assert_eq!(status, 0);

    // A child that can have no file, and a child of that one, which can.
    let status = in_a_child(|| {
        let limit = |bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
            // SAFETY: an action that ignores a signal, and a limit.
            unsafe {
                libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
                assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
            }
        };
        limit(0);
        assert_eq!(library.function("plugin_sum")(1), 1);
        assert!(!file(process::id()).exists());
        limit(libc::RLIM_INFINITY);
        let status = in_a_child(|| {
            assert_eq!(library.function("plugin_sum")(1), 1);
            let expected = of([("plugin_sum", 2), ("each", 2), ("value", 1)]);
            assert_eq!(events(&file(process::id())), expected);
        });
        assert_eq!(status, 0);
    });
    assert_eq!(status, 0);

    let other = Library::open(&plugin("caller"));
    discover_probes();
    assert_eq!(other.function("caller_sum")(1), 1);
    assert_eq!((attached.totals().written, attached.left_out_later()), (2 + 2 + 4 + 2 + 2, None));
    drop(attached);
    let mut all = expected;
    all.insert("caller_sum".to_owned(), 2);
    assert_eq!((events(&own_file), problems(&own_file)), (all, 0));
}
