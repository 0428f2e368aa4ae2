//! Pairing of hits: exact steps of small streams, and nesting of any stream.

use std::{collections::HashMap, fmt::Write};

use probe_core::pairing::{CallKind, model};
use proptest::prelude::*;

use super::tracks::MAX_OPEN_SLICES;
use super::{Calls, Ending, Fields, Slice, Step, Track};
use crate::item::FieldValue;
use crate::tests::{Fixture, any_fixture, id};

/// One line for each step; threads have numbers, and futures an `F` before theirs.
fn text(fixture: &Fixture) -> String {
    let mut text = String::new();
    for step in Calls::new(fixture.results()) {
        let Ok(step) = step;
        match step {
            Step::Thread(thread) => writeln!(text, "thread {} {}", thread.id.thread, thread.name),
            Step::Begin(begin) => {
                let before = if begin.began_before { " (began before)" } else { "" };
                let (track, slice) = (name(begin.track), begin.slice.name());
                writeln!(text, "{track} {} {slice} {{{}{before}", begin.time, shown(&begin.fields))
            }
            Step::End(end) => {
                let fields = end.fields.as_ref().map(shown).unwrap_or_default();
                let cause = end.ending.cause().map(|cause| format!(" ({cause})")).unwrap_or_default();
                let (track, slice) = (name(end.track), end.slice.name());
                writeln!(text, "{track} {} }} {slice} {}{fields}{cause}", end.time, end.definition.path)
            }
            Step::Instant(instant) => {
                let mark = if instant.lacks_entry { " (lacks its entry)" } else { "" };
                let (thread, fields) = (instant.thread.thread, shown(&instant.fields));
                writeln!(text, "{thread} {} instant {fields}{mark}", instant.time)
            }
            Step::Gap(gap) => {
                writeln!(text, "{} {}..{} lost {}", gap.thread.thread, gap.begin, gap.end, gap.lost)
            }
            Step::Off(off) => {
                let ran = off.ran_from.map(|time| format!(" (ran from {time})")).unwrap_or_default();
                let inside = off.inside.map(|probe| format!(" in {}", probe.path)).unwrap_or_default();
                let state = if off.off.is_ready { "ready" } else { "blocked" };
                let end = match off.off.end {
                    None if off.off.has_ended => " ended",
                    None => " and on",
                    Some(_) => "",
                };
                let (thread, begin) = (off.off.thread.thread, off.off.begin);
                writeln!(text, "{thread} {begin}..{}{end} {state}{inside}{ran}", off.until)
            }
            Step::OffLost(thread, time) => writeln!(text, "{} {time} off lost", thread.thread),
        }
        .unwrap();
    }
    text
}

fn name(track: Track) -> String {
    match track {
        Track::Thread(id) => id.thread.to_string(),
        Track::Future(id) => format!("F{}", id.number),
    }
}

fn shown(fields: &Fields) -> String {
    let mut text = format!(" {}", fields.definition().path);
    for (name, value) in fields.iter() {
        write!(text, " {name}={value}").unwrap();
    }
    text
}

#[test]
fn calls_of_threads_nest() {
    let fixture = Fixture::new()
        .thread(1, "main")
        .thread(2, "worker")
        .hit(1, 10, "entry app::f")
        .hit(2, 11, "entry app::f")
        .hit(1, 12, "entry app::g")
        .hit(1, 13, "point app::g::loop")
        .hit(1, 14, "exit app::g")
        .hit(2, 15, "exit app::f")
        .hit(1, 16, "exit app::f");
    let expected = "\
thread 1 main
thread 2 worker
1 10 call { app::f
2 11 call { app::f
1 12 call { app::g
1 13 instant  app::g::loop
1 14 } call app::g app::g
2 15 } call app::f app::f
1 16 } call app::f app::f
";
    assert_eq!(text(&fixture), expected);
}

#[test]
fn hits_that_lack_their_other_half_are_marked() {
    let fixture = Fixture::new()
        .hit(1, 10, "exit app::main")
        .hit(1, 20, "entry app::f")
        .hit(1, 21, "entry app::panicking")
        .hit(1, 22, "exit app::f")
        .hit(1, 30, "entry app::g")
        .gap(1, 40, 50, 3)
        .hit(1, 60, "entry app::h")
        .switch()
        .hit(1, 70, "exit app::h")
        .hit(1, 80, "entry app::open")
        .hit(2, 90, "point app::last");
    let expected = "\
thread 1 
1 10 instant  app::main (lacks its entry)
1 20 call { app::f
1 21 call { app::panicking
1 22 } call app::panicking (left without an exit)
1 22 } call app::f app::f
1 30 call { app::g
1 40 } call app::g (cut off by lost events)
1 40..50 lost 3
1 60 call { app::h
1 70 } call app::h (cut off by a switch of probes)
1 70 instant  app::h (lacks its entry)
1 80 call { app::open
thread 2 
2 90 instant  app::last
1 90 } call app::open (open at the end of the trace)
";
    assert_eq!(text(&fixture), expected);
}

#[test]
fn a_gap_before_the_latest_event_does_not_turn_time_back() {
    let fixture = Fixture::new().hit(1, 10, "entry app::f").gap(1, 5, 7, 1).hit(1, 9, "entry app::f");
    let expected = "\
thread 1 
1 10 call { app::f
1 10 } call app::f (cut off by lost events)
1 10..10 lost 1
1 10 call { app::f
1 10 } call app::f (open at the end of the trace)
";
    assert_eq!(text(&fixture), expected);
}

#[test]
fn stack_pointers_tell_which_calls_longjmp_left() {
    let fixture = Fixture::new()
        .hit(1, 10, "enter c::outer 900")
        .hit(1, 11, "enter c::inner 800")
        .hit(1, 12, "enter c::inner 700")
        // Back in `outer`, which calls `inner` once more.
        .hit(1, 13, "enter c::inner 800")
        .hit(1, 14, "enter c::next 600")
        .hit(1, 15, "leave c::outer 900")
        // The exit of a call that began before the trace: the calls inside of it were left.
        .hit(1, 20, "enter c::inner 800")
        .hit(1, 21, "leave c::main 950");
    let expected = "\
thread 1 
1 10 call { c::outer
1 11 call { c::inner
1 12 call { c::inner
1 13 } call c::inner (left without an exit)
1 13 } call c::inner (left without an exit)
1 13 call { c::inner
1 14 call { c::next
1 15 } call c::next (left without an exit)
1 15 } call c::inner (left without an exit)
1 15 } call c::outer c::outer
1 20 call { c::inner
1 21 } call c::inner (left without an exit)
1 21 instant  c::main (lacks its entry)
";
    assert_eq!(text(&fixture), expected);
}

#[test]
fn futures_have_polls_and_waits_on_their_own_track() {
    let fixture = Fixture::new()
        .fields(1, 10, "entry app::get 64", vec![("url", FieldValue::U64(5))])
        .hit(1, 11, "entry app::read")
        .hit(1, 12, "exit app::read")
        .hit(1, 13, "suspend app::get 64")
        .hit(2, 20, "resume app::get 64")
        .fields(2, 22, "exit app::get 64", vec![("result", FieldValue::Bool(true))])
        .hit(1, 30, "entry app::get 64")
        .hit(1, 31, "suspend app::get 64")
        .hit(2, 32, "drop app::get 64");
    let expected = "\
thread 1 
F1 10 future { app::get future=64 url=5
F1 10 poll { app::get
1 10 poll { app::get url=5
1 11 call { app::read
1 12 } call app::read app::read
1 13 } poll app::get app::get
F1 13 } poll app::get app::get
F1 13 wait { app::get
thread 2 
F1 20 } wait app::get
F1 20 poll { app::get
2 20 poll { app::get
2 22 } poll app::get app::get result=true
F1 22 } poll app::get
F1 22 } future app::get app::get result=true
F2 30 future { app::get future=64
F2 30 poll { app::get
1 30 poll { app::get
1 31 } poll app::get app::get
F2 31 } poll app::get app::get
F2 31 wait { app::get
F2 32 } wait app::get
F2 32 } future app::get app::get (cancelled)
";
    assert_eq!(text(&fixture), expected);
}

#[test]
fn futures_that_lack_hits_are_marked() {
    let fixture = Fixture::new()
        .hit(1, 10, "resume app::get 1")
        .gap(1, 11, 12, 1)
        .hit(1, 20, "suspend app::get 1")
        .switch()
        .hit(1, 30, "exit app::get 1")
        .hit(1, 40, "suspend app::get 2");
    let expected = "\
thread 1 
F1 10 future { app::get future=1 (began before)
F1 10 poll { app::get
1 10 poll { app::get
1 11 } poll app::get (cut off by lost events)
F1 11 } poll app::get (cut off by lost events)
F1 11 } future app::get (cut off by lost events)
1 11..12 lost 1
F2 20 future { app::get future=1 (began before)
F2 20 wait { app::get
F2 30 } wait app::get (cut off by a switch of probes)
F2 30 } future app::get (cut off by a switch of probes)
1 30 instant  app::get future=1 (lacks its entry)
F3 40 future { app::get future=2 (began before)
F3 40 wait { app::get
F3 40 } wait app::get (open at the end of the trace)
F3 40 } future app::get (open at the end of the trace)
";
    assert_eq!(text(&fixture), expected);
}

#[test]
fn an_error_comes_after_the_ends() {
    let items = Fixture::new().hit(1, 10, "entry app::f").items;
    let items = items.into_iter().map(Ok).chain([Err("torn")]);
    let steps: Vec<_> = Calls::new(items).collect();
    assert_eq!(steps.len(), 4);
    assert!(matches!(&steps[2], Ok(Step::End(end)) if end.ending == Ending::Trace));
    assert_eq!(steps[3], Err("torn"));
}

#[test]
fn entries_without_exits_use_bounded_memory() {
    let mut fixture = Fixture::new();
    for time in 0..=MAX_OPEN_SLICES as u64 {
        fixture = fixture.hit(1, time, "entry app::f");
    }
    let ends: Vec<_> = Calls::new(fixture.results())
        .filter_map(|step| match step {
            Ok(Step::End(end)) => Some(end.ending),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), MAX_OPEN_SLICES + 1);
    assert!(ends[..MAX_OPEN_SLICES].iter().all(|ending| *ending == Ending::Limit));
    assert_eq!(ends[MAX_OPEN_SLICES], Ending::Trace);
}

/// The pairs of entries and exits that the steps of a history make.
fn paired(history: &[model::Hit]) -> Vec<(usize, usize)> {
    let mut fixture = Fixture::new();
    for (number, model::Hit { place, ends }) in history.iter().enumerate() {
        let words = match (place.kind, ends.is_some()) {
            (CallKind::Hooked, false) => "called",
            (CallKind::Hooked, true) => "left",
            (CallKind::Framed, false) => "enter",
            (CallKind::Framed, true) => "leave",
            (_, false) => "entry",
            (_, true) => "exit",
        };
        // Traces have no stack pointers of Rust.
        let at =
            if place.kind == CallKind::Plain { String::new() } else { format!(" {}", place.stack_pointer) };
        let text = format!("{words} app::f{}{at}", place.function);
        let fields = vec![("number", FieldValue::U64(number as u64))];
        fixture = fixture.fields(1, number as u64, &text, fields);
    }
    let number = |fields: &Fields| fields.iter().next().unwrap().1.to_string().parse().unwrap();
    let (mut open, mut pairs) = (Vec::<usize>::new(), Vec::new());
    for step in Calls::new(fixture.results()) {
        match step.unwrap() {
            Step::Begin(begin) => open.push(number(&begin.fields)),
            Step::End(end) => {
                let begin = open.pop().unwrap();
                pairs.extend(end.fields.as_ref().map(|fields| (begin, number(fields))));
            }
            _ => (),
        }
    }
    pairs
}

proptest! {
    #[test]
    fn each_exit_ends_its_own_entry(history in model::one_stack()) {
        prop_assert_eq!(paired(&history), model::pairs(&history), "{:#?}", history);
    }

    #[test]
    fn steps_nest(fixture in any_fixture()) {
        // The open slices and the latest time of each track.
        let mut tracks: HashMap<Track, (Vec<(Slice, String)>, u64)> = HashMap::new();
        for step in Calls::new(fixture.results()) {
            let Ok(step) = step;
            match step {
                Step::Begin(begin) => {
                    let (open, last) = tracks.entry(begin.track).or_default();
                    prop_assert!(begin.time >= *last);
                    *last = begin.time;
                    if matches!(begin.track, Track::Future(_)) {
                        prop_assert_eq!(begin.slice == Slice::Future, open.is_empty());
                        prop_assert!(open.len() < 2);
                    }
                    open.push((begin.slice, begin.fields.definition().path.clone()));
                }
                Step::End(end) => {
                    let (open, last) = tracks.entry(end.track).or_default();
                    prop_assert!(end.time >= *last);
                    *last = end.time;
                    prop_assert_eq!(open.pop(), Some((end.slice, end.definition.path.clone())));
                }
                Step::Gap(gap) => {
                    let (open, _) = tracks.entry(Track::Thread(id(gap.thread.thread))).or_default();
                    prop_assert!(open.is_empty());
                }
                _ => {}
            }
        }
        for (open, _) in tracks.values() {
            prop_assert!(open.is_empty());
        }
    }
}

#[test]
fn times_off_the_processor_are_of_the_innermost_call() {
    let fixture = Fixture::new()
        .thread(1, "main")
        .hit(1, 10, "entry app::f")
        .off(1, 11, Some(12), "ready")
        .hit(1, 20, "entry app::g")
        .off(1, 21, Some(25), "blocked")
        .off_lost(1)
        .hit(1, 30, "exit app::g")
        .off(1, 31, Some(32), "blocked")
        .hit(1, 40, "exit app::f")
        .off(1, 41, None, "blocked")
        .thread(2, "other")
        .hit(2, 50, "point app::p")
        .off(2, 51, None, "ended")
        .thread(3, "later")
        .hit(3, 60, "point app::p");
    let expected = "\
        thread 1 main\n\
        1 10 call { app::f\n\
        1 11..12 ready in app::f (ran from 10)\n\
        1 20 call { app::g\n\
        1 21..25 blocked in app::g\n\
        1 25 off lost\n\
        1 30 } call app::g app::g\n\
        1 31..32 blocked in app::f (ran from 30)\n\
        1 40 } call app::f app::f\n\
        thread 2 other\n\
        2 50 instant  app::p\n\
        2 51..51 ended blocked (ran from 50)\n\
        thread 3 later\n\
        3 60 instant  app::p\n\
        1 41..60 and on blocked\n";
    assert_eq!(text(&fixture), expected);
}
