//! `probectl watch` on a program that a signal stops: between two requests, or within one.

use std::fs;

use probe_runtime::spec::{Format, ParseError, Rendered, Reporter, Setting};
use probe_runtime::{Attachment, Consumer, Error, Event, ProbeSet};
use serde_json::Value;
use signal_hook::consts::SIGSTOP;
use signal_hook::low_level::raise;

use crate::program::{Folder, Program, signal};
use crate::watched::{Watch, counts};

const WORK: &str = "live::program::work";
const AT_END: &str = "the program is stopped; it detaches all when it goes on";

/// Stops the program while a client attaches it.
pub struct Stopping;

impl Consumer for Stopping {
    fn hit(&self, _: &Event<'_>) {}

    fn prepare(&self, _: &ProbeSet) -> Result<(), Error> {
        // The thread that answers is the first one that stops.
        raise(SIGSTOP).unwrap();
        Ok(())
    }
}

impl Reporter for Stopping {
    const NAME: &'static str = "stopping";
    const ABOUT: &'static str = "nothing, and it stops the program";
    const FOR_CLIENTS: bool = true;

    fn from_settings(_: &[Setting<'_>]) -> Result<Self, ParseError> {
        Ok(Self)
    }

    fn report(_: &Attachment<Self>, _: Format) -> Rendered {
        String::new().into()
    }
}

/// A rule that records until the watch ends.
fn records() -> String {
    format!("when rate({WORK}) > 1 then record {WORK} for 1h to it.probetrace")
}

/// Rules that record, and stop the program: as the watch begins, and as they fire. The second one
/// ends with the first window that is known after it has fired.
fn rules() -> [String; 2] {
    [
        records(),
        format!("when rate({WORK}) > 1 until count({WORK}) > 0 then arm {WORK}=stopping at most 1 time"),
    ]
}

/// Lets the program continue whenever it is stopped, until there is this event.
fn lead(watch: &mut Watch, program: &Program, to: &str) {
    while watch.one_of(&["stopped", to])["event"] == "stopped" {
        signal("-CONT", &program.child);
    }
}

fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().map(|it| it["text"].as_str().unwrap_or_default()).collect()
}

/// Checks the events of a watch that has recorded once. The program was stopped this many times.
#[track_caller]
fn nothing_is_lost(events: &[Value], stops: usize) {
    let counts = counts(events, ["stopped", "back", "recorded", "lost", "failed"]);
    assert_eq!(counts, [stops, stops, 1, 0, 0], "{events:#?}");
}

/// Ends a watch that records, while the program is stopped.
#[track_caller]
fn ends_at_once(watch: Watch, program: &mut Program) {
    let events = watch.stop();
    let texts = texts(&events);
    for expected in [AT_END, "it.probetrace has the events until about now"] {
        assert!(texts.contains(&expected), "{texts:#?}");
    }
    signal("-CONT", &program.child);
    program.is_as_before();
}

#[test]
fn a_program_that_is_stopped_while_it_is_asked_is_waited_for() {
    let folder = Folder::new("watch-stopped-asked");
    let mut program = Program::start(&folder);
    let mut watch = Watch::start(&folder, &program, &rules());
    lead(&mut watch, &program, "ended");
    let events = watch.stop();
    assert_eq!(counts(&events, ["armed", "disarmed"]), [1, 1], "{events:#?}");
    nothing_is_lost(&events, 2);
    // The first stop was before all windows, and the second one is an unknown window.
    assert_eq!(events.last().unwrap()["unknown"], 1, "{events:#?}");
    program.is_as_before();
}

#[test]
fn the_watch_ends_at_once_while_an_answer_is_awaited() {
    let folder = Folder::new("watch-stopped-asked-end");
    let mut program = Program::start(&folder);
    let mut watch = Watch::start(&folder, &program, &rules());
    lead(&mut watch, &program, "recording");
    watch.event("stopped");
    ends_at_once(watch, &mut program);
}

#[test]
fn a_program_that_is_killed_while_an_answer_is_awaited_ends_the_watch() {
    let folder = Folder::new("watch-stopped-killed");
    let mut program = Program::start(&folder);
    let mut watch = Watch::start(&folder, &program, &rules());
    lead(&mut watch, &program, "recording");
    watch.event("stopped");
    program.kill();
    let events = watch.ended();
    assert!(texts(&events).contains(&"the program has ended"), "{events:#?}");
}

/// The stops come at any moments of short windows.
#[test]
fn a_program_that_is_stopped_again_and_again_loses_nothing() {
    let folder = Folder::new("watch-stopped-again");
    let mut program = Program::start(&folder);
    let rules = [
        records(),
        "when max(half of live::program::half) > 1 && count(live::program::half) > 1 \
         then arm live::program::half=count"
            .to_owned(),
    ];
    let mut watch = Watch::of(&folder, program.child.id(), "20ms", &rules);
    watch.event("recording");
    for _ in 0..20 {
        signal("-STOP", &program.child);
        watch.event("stopped");
        signal("-CONT", &program.child);
        watch.event("back");
    }
    let events = watch.stop();
    nothing_is_lost(&events, 20);
    program.is_as_before();
}

#[test]
fn the_rules_of_a_stopped_program_wait() {
    let folder = Folder::new("watch-stopped");
    let mut program = Program::start(&folder);
    let rules = [
        format!("when rate({WORK}) > 1 then record {WORK} for 100ms to it.probetrace at most 1 time"),
        format!("when rate({WORK}) > 1 then run 'until test -e go; do sleep 0.01; done' at most 1 time"),
    ];
    let mut watch = Watch::start(&folder, &program, &rules);
    watch.event("recording");
    signal("-STOP", &program.child);
    let stopped = watch.event("stopped");
    assert_eq!(stopped["text"], "the program is stopped; its rules wait until it goes on");
    // The loop continues meanwhile.
    fs::write(folder.0.join("go"), "").unwrap();
    watch.event("done");
    signal("-CONT", &program.child);
    assert_eq!(watch.event("back")["text"], "the program goes on");
    let events = watch.stop();
    nothing_is_lost(&events, 1);
    program.is_as_before();
}

#[test]
fn a_watch_of_a_stopped_program_ends_at_once() {
    let folder = Folder::new("watch-stopped-end");
    let mut program = Program::start(&folder);
    let mut watch = Watch::start(&folder, &program, &[records()]);
    watch.event("recording");
    signal("-STOP", &program.child);
    watch.event("stopped");
    ends_at_once(watch, &mut program);
}
