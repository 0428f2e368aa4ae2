//! Files that several traces and snapshots write at once: each of them stays whole.

use std::fs::File;
use std::hint::black_box;
use std::io::{Cursor, Read};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{fs, thread};

use probe_runtime::{Attachment, Trace, probe, select};
use probe_tests::folder::Folder;
use probe_tests::turn::turn;
use probe_trace::Item;

#[probe(args(*))]
#[inline(never)]
fn one(number: u64) -> u64 {
    black_box(number)
}

#[probe(args(*))]
#[inline(never)]
fn other(number: u64) -> u64 {
    black_box(number)
}

fn attach(name: &str, trace: Trace) -> Attachment<Trace> {
    one(0);
    other(0);
    select(&format!("**::replaced::{name}")).unwrap().attach(trace).unwrap()
}

/// The names of the functions, and the numbers, in a file's content.
fn entries(content: Vec<u8>) -> Vec<(String, String)> {
    let mut trace = probe_trace::Trace::read([("a copy", Cursor::new(content))]).unwrap();
    assert_eq!(trace.problems(), &[] as &[String]);
    let event = |item| if let Item::Event(event) = item { Some(event) } else { None };
    let events = trace.items().map(Result::unwrap).filter_map(event);
    let entry = |event: probe_trace::TraceEvent| {
        let number = event.fields.first()?.to_string();
        Some((event.definition.path.rsplit("::").next()?.to_owned(), number))
    };
    events.filter_map(entry).collect()
}

fn expected(name: &str, numbers: &[u64]) -> Vec<(String, String)> {
    numbers.iter().map(|number| (name.to_owned(), number.to_string())).collect()
}

#[test]
fn a_second_trace_to_a_path_has_a_file_of_its_own() {
    let _turn = turn();
    let folder = Folder::new("trace-replaced");
    let path = folder.join("same.probetrace");
    let first = attach("one", Trace::to_file(&path));
    one(1);
    first.flush().unwrap();
    let mut of_first = File::open(&path).unwrap();
    let second = attach("other", Trace::to_file(&path));
    one(2);
    other(3);
    second.finish().unwrap();
    other(4);
    one(5);
    first.finish().unwrap();
    assert_eq!(entries(fs::read(&path).unwrap()), expected("other", &[3]));
    let mut content = Vec::new();
    of_first.read_to_end(&mut content).unwrap();
    assert_eq!(entries(content), expected("one", &[1, 0, 2, 5]));
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 1);
}

#[test]
fn snapshots_to_one_path_at_once_are_whole() {
    let _turn = turn();
    let folder = Folder::new("trace-replaced-snapshots");
    let path = folder.join("same.probetrace");
    let traces = [("one", 100), ("other", 30)].map(|(name, count)| {
        let trace = attach(name, Trace::recorder());
        (0..count).for_each(|number| _ = if name == "one" { one(number) } else { other(number) });
        (name, count, trace)
    });
    // The second attachment has called the first one's probes once.
    let allowed = [(0..100).chain([0]).collect::<Vec<u64>>(), (0..30).collect()];
    let allowed = [expected("one", &allowed[0]), expected("other", &allowed[1])];
    let is_over = AtomicBool::new(false);
    traces[0].2.snapshot(&path).unwrap();
    thread::scope(|scope| {
        let writers = traces.each_ref().map(|(.., trace)| {
            let path = &path;
            scope.spawn(move || (0..100).for_each(|_| _ = trace.snapshot(path).unwrap()))
        });
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                let entries = entries(fs::read(&path).unwrap());
                assert!(allowed.contains(&entries), "{entries:?}");
            }
        });
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Relaxed);
    });
    assert_eq!(fs::read_dir(&*folder).unwrap().count(), 1, "nothing is left beside it");
}
