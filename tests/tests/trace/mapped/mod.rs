//! Rings in a mapped file: whatever ends the process, and whatever happens to the file, its events
//! are readable, right and in order.
#![cfg(target_os = "linux")]

mod cut;
mod ends;
mod forks;
mod killed;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;

use probe_runtime::{Attachment, Trace, probe, select};
use probe_trace::{FieldValue, Item, Kind, Trace as Read};

/// Plays a part in a child.
pub fn play(way: &str) {
    match (way, way.strip_prefix("for ever ")) {
        (_, Some(way)) => killed::hits_for_ever(way),
        ("foreign", _) => cut::foreign(),
        (way, _) => ends::end(way),
    }
}

#[probe(args(x))]
#[inline(never)]
fn counted(x: u64) -> u64 {
    black_box(x)
}

/// Attaches to entries and exits.
fn attach(trace: Trace) -> Attachment<Trace> {
    counted(0);
    select("**::mapped::counted").unwrap().attach(trace).unwrap()
}

/// One thread's story in a file.
#[derive(Default, Debug)]
struct Story {
    /// The numbers of the entries.
    numbers: Vec<u64>,
    exits: usize,
    events: u64,
    /// Sizes of the gaps, each with the number of the events before it.
    gaps: Vec<(u64, u64)>,
}

/// Reads a file, by process-wide number of the thread. Times never go back, numbers follow each
/// other but for gaps, and exits follow their entries.
fn stories(path: &Path) -> BTreeMap<u64, Story> {
    let mut trace = Read::open(&[path]).unwrap();
    let (mut stories, mut last) = (BTreeMap::<u64, Story>::new(), 0);
    for item in trace.items() {
        match item.unwrap() {
            Item::Event(event) => {
                assert!(event.time >= last);
                last = event.time;
                let story = stories.entry(event.thread.thread).or_default();
                let is_whole = story.gaps.last().is_none_or(|(before, _)| *before != story.events);
                match (event.definition.kind, &event.fields[..]) {
                    (Some(Kind::Entry), [FieldValue::U64(number)]) => {
                        let before = story.numbers.last().filter(|_| is_whole);
                        assert!(
                            before.is_none_or(|before| before + 1 == *number),
                            "{number} after {story:?}"
                        );
                        assert!(story.exits == story.numbers.len() || !is_whole || story.exits == 0);
                        story.numbers.push(*number);
                    }
                    (Some(Kind::Exit), []) => story.exits += 1,
                    other => panic!("{other:?}"),
                }
                story.events += 1;
            }
            Item::Gap(gap) => {
                let story = stories.entry(gap.thread.thread).or_default();
                story.gaps.push((story.events, gap.lost));
            }
            _ => (),
        }
    }
    stories
}

/// The numbers of the only thread's entries.
fn numbers(path: &Path) -> Vec<u64> {
    let stories = stories(path);
    assert!(stories.len() <= 1, "{stories:?}");
    stories.into_values().next().unwrap_or_default().numbers
}

/// Waits for a child that ends as it should.
fn wait(child: libc::pid_t) {
    let mut status = -1;
    // SAFETY: a place for the result.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
}
