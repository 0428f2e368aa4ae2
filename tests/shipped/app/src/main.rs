//! A program on libraries that ship probes: it lists, selects and counts theirs like its own.
//!
//! Prints as `link/transcript` does, plus `at <path> <kind> <file>:<line> <fields>` for each probe.

mod host;

use std::env;
use std::future::ready;
use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use probe_runtime::field::FieldInfo;
use probe_runtime::losses::unreadable_records;
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Count, ProbeInfo, init_from_env, probe, probes, select};

/// Hits of one call: `middle::total` 1, `Reader::next` 3, `Reader::split` 2, `leaf::sum` 2,
/// `leaf::decode` 4 (2 of them by `middle`), `decode::frame` 3, `decode::short` 1, `leaf::fetch` 1,
/// `Tally::add` 2, `Tally::counted` 1.
#[probe]
#[inline(never)]
fn serve() -> u64 {
    assert_eq!(leaf::decode(black_box(&[])), Err(1));
    let mut fetch = pin!(leaf::fetch(ready(black_box(&[9, 9][..]))));
    let fetched = fetch.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(frame)) = fetched else { panic!("{fetched:?}") };
    let mut tally = leaf::Tally::default();
    tally.add(frame);
    tally.add(leaf::Frame { tag: 9, len: 0 });
    assert_eq!((frame.tag, tally.frames()), (9, 1));
    middle::total(black_box(&[2, 7, 7, 0]))
}

fn stage(name: &str) {
    println!("stage {name}");
}

/// All probes, but those that their blocks left out.
fn placed() -> Vec<ProbeInfo> {
    probes().into_iter().filter(|probe| probe.skipped().is_none()).collect()
}

fn list() {
    for probe in placed() {
        println!("probe {} {} {}", probe.path(), probe.kind().name(), probe.sites());
    }
    assert_eq!(unreadable_records(), 0);
}

fn counts(hits: &Attachment<Count>) {
    for count in hits.counts() {
        println!("hits {} {} {}", count.probe.path(), count.probe.kind().name(), count.hits);
    }
}

/// Attaches to what a selector names, serves twice, prints the hits.
fn count(selector: &str) {
    stage(selector);
    let hits = select(selector).expect("probes").attach(Count::new()).expect("attach");
    assert!(hits.report().is_complete(), "{}", hits.report());
    println!("patched {}", hits.report().patched());
    assert_eq!(serve() + serve(), 8);
    counts(&hits);
    let total = hits.total();
    println!("restored {}", hits.pause().patched());
    assert_eq!(serve(), 4);
    assert_eq!(hits.total(), total, "counted while paused");
    assert_eq!(hits.detach().patched(), 0);
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
}

fn chain() {
    assert_eq!(serve(), 4);
    stage("listed");
    list();
    for probe in probes() {
        if let Some(reason) = probe.skipped() {
            println!("left out {} {reason}", probe.path());
            continue;
        }
        println!(
            "at {} {} {}:{} {}",
            probe.path(),
            probe.kind(),
            probe.file(),
            probe.line(),
            probe.fields().iter().map(FieldInfo::name).collect::<Vec<_>>().join(",")
        );
    }
    for selector in
        ["leaf::** kind=entry|exit", "group=middle::reader", "group=leaf::*", "@leaf/src/*.rs kind=point", "**"]
    {
        count(selector);
    }
    println!("ok");
}

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["chain"] => chain(),
        ["host", plugin] => host::run(plugin),
        // Without probes there is nothing to see.
        ["serve"] => {
            let _probes = init_from_env().expect("the environment is well-formed");
            println!("{} of {}", serve(), placed().len());
        }
        _ => panic!("chain | host <plugin> | serve"),
    }
}
