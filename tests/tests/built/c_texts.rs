//! Strings of C that can't be read: each consumer continues, shows them as unreadable, and counts
//! them. A process of its own: it takes a signal's handler.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fs;
use std::path::Path;
use std::ptr;
use std::sync::Mutex;

use probe_runtime::losses::unreadable_texts;
use probe_runtime::selector::Predicate;
use probe_runtime::{Aggregate, Consumer, Count, Event, Trace, select};
use probe_tests::c_library::{makes, shared_library};
use probe_tests::folder::Folder;
use probe_tests::library::Library;
use probe_trace::Item;

#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Consumer for Recorder {
    fn hit(&self, event: &Event<'_>) {
        self.0.lock().unwrap().extend(event.fields().map(|(_, value)| value.to_string()));
    }
}

/// A page with this text at its end, in front of one that can't be read.
fn at_an_edge(text: &[u8]) -> u64 {
    // SAFETY: new mappings, which stay.
    unsafe {
        let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let start = libc::mmap(ptr::null_mut(), 8192, rights, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        assert_eq!(libc::mprotect(start.byte_add(4096), 4096, libc::PROT_NONE), 0);
        let at = start.byte_add(4096 - text.len()).cast::<u8>();
        ptr::copy_nonoverlapping(text.as_ptr(), at, text.len());
        at.addr() as u64
    }
}

/// A page of a file behind the file's end: a read raises SIGBUS.
fn behind_a_file(folder: &Folder) -> u64 {
    let path = folder.join("empty");
    fs::write(&path, "").unwrap();
    let file = fs::File::open(&path).unwrap();
    // SAFETY: a new mapping, which stays.
    let at = unsafe {
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, descriptor, 0)
    };
    assert_ne!(at, libc::MAP_FAILED);
    at.addr() as u64
}

fn traced(path: &Path) -> Vec<String> {
    let mut trace = probe_trace::Trace::open(&[path]).unwrap();
    let fields = |item| if let Item::Event(event) = item { event.fields } else { Vec::new() };
    trace.items().map(Result::unwrap).flat_map(fields).map(|value| value.to_string()).collect()
}

#[test]
fn a_text_that_is_none_harms_nobody() {
    let folder = Folder::new("c-texts");
    let library = folder.join("texts.so");
    shared_library(makes()[0].c, "texts", &["-O2"], &["texts.c"], &library);
    let library = Library::open(&library);
    let pass = library.function("pass");
    let long = vec![b'x'; 100_000];
    let texts = [
        (0, Some("(null)".to_owned())),
        (8, None),
        (u64::MAX, None),
        (1 << 62, None),
        (at_an_edge(b"whole\0"), Some("whole".to_owned())),
        (at_an_edge(b"without an end"), None),
        (behind_a_file(&folder), None),
        (long.as_ptr().addr() as u64, Some("x".repeat(64 << 10))),
        (c"plain".as_ptr().addr() as u64, Some("plain".to_owned())),
    ];
    let unreadable = texts.iter().filter(|(_, text)| text.is_none()).count();
    let shown: Vec<_> =
        { texts.iter() }.map(|it| it.1.clone().unwrap_or("(unreadable)".to_owned())).collect();
    let play = || texts.iter().for_each(|(address, _)| assert_eq!(pass(*address), *address));
    for round in 0..2 {
        let before = unreadable_texts();
        let recorder = select("texts::pass").unwrap().attach(Recorder::default()).unwrap();
        play();
        assert_eq!(*recorder.0.lock().unwrap(), shown, "{round}");
        assert_eq!(unreadable_texts() - before, unreadable as u64);
        drop(recorder);

        let path = folder.join("texts.probetrace");
        let trace = select("texts::pass").unwrap().attach(Trace::to_file(&path)).unwrap();
        play();
        trace.finish().unwrap();
        let cut = |text: &String| {
            let more = text.len().saturating_sub(64);
            if more == 0 { text.clone() } else { format!("{}… ({more} bytes more)", &text[..64]) }
        };
        assert_eq!(traced(&path), shown.iter().map(cut).collect::<Vec<_>>(), "{round}");

        // The same of bytes, of which all five must be readable.
        let bytes = select("texts::pass_bytes").unwrap().attach(Recorder::default()).unwrap();
        let pass_bytes = library.function("pass_bytes");
        let at = [8, at_an_edge(b"whole"), at_an_edge(b"less"), u64::MAX - 2, texts[8].0, 0];
        at.into_iter().for_each(|address| assert_eq!(pass_bytes(address), address));
        let expected = ["(unreadable)", "whole", "(unreadable)", "(unreadable)", "plain", ""];
        assert_eq!(*bytes.0.lock().unwrap(), expected, "{round}");
        drop(bytes);

        let groups = Aggregate::new("count by(value)").unwrap();
        let groups = select("texts::pass").unwrap().attach(groups).unwrap();
        let predicate: Predicate = "value == \"plain\"".parse().unwrap();
        let plain = select("texts::pass").unwrap().attach_if(&predicate, Count::new()).unwrap();
        play();
        assert_eq!(plain.total(), 1);
        let note = format!("{unreadable} hits were left out: with a text that can't be read");
        assert!(groups.to_string().contains(&note), "{groups}");
        drop((groups, plain));

        // The program takes the handlers away; the next operation sees that, and the kernel reads.
        let take = library.function("take_signal");
        for signal in [libc::SIGSEGV, libc::SIGBUS] {
            assert_eq!(take(u64::from(signal.cast_unsigned())), 0);
        }
    }
}
