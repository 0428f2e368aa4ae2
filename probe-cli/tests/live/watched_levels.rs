//! `probectl watch` with rules that end at another limit than they begin at, and with one that
//! disarms the consumer of the other. The program hits once for each level that it is told, so each
//! known window has the figure of one hit.

use probe_runtime::point;
use serde_json::Value;

use crate::program::{Folder, Program};
use crate::watched::Watch;

const LEVEL: &str = "live::watched_levels::level";
const ARMED: &str = "live::program::work=latency";

/// Hits once, in the program.
pub fn reach(level: u64) -> u64 {
    point!("level", level);
    level
}

/// Returns the events that begin and end something, each with its rule.
fn turns(events: &[Value]) -> Vec<(&str, u64)> {
    let turns = events.iter().map(|it| (it["event"].as_str().unwrap(), it["rule"].as_u64().unwrap_or(0)));
    turns.filter(|(event, _)| ["fired", "armed", "disarmed", "ended"].contains(event)).collect()
}

#[test]
fn rules_end_at_another_limit_and_disarm() {
    let folder = Folder::new("watch-levels");
    let mut program = Program::start(&folder);
    let max = format!("max(level of {LEVEL})");
    let rules = [
        format!("when {max} > 100 until {max} < 10 then arm {ARMED} at most 2 times"),
        format!("when {max} > 1000 until {max} < 10 then disarm {ARMED} at most 1 time"),
        format!("when {max} == 50 then run 'true' at most 1 time"),
    ];
    let mut watch = Watch::of(&folder, program.child.id(), "20ms", &rules);
    watch.event("watching");
    program.until(|status| status.attachments.iter().any(|it| it.spec.contains(LEVEL)));
    let is_armed = |program: &Program, is_so: bool| {
        program.until(|status| status.attachments.iter().any(|it| it.spec == ARMED) == is_so);
    };
    assert_eq!(program.number("level 200"), 200);
    assert_eq!(watch.event("armed")["rule"], 1);
    is_armed(&program, true);
    // Between the limits of the first rule, which continues.
    assert_eq!(program.number("level 50"), 50);
    assert_eq!(watch.event("fired")["rule"], 3);
    is_armed(&program, true);
    assert_eq!(program.number("level 2000"), 2000);
    let disarmed = watch.event("disarmed");
    assert_eq!((&disarmed["rule"], &disarmed["text"]), (&2.into(), &ARMED.into()));
    is_armed(&program, false);
    // Both end, and nothing is left to disarm.
    assert_eq!(program.number("level 5"), 5);
    for _ in 0..3 {
        watch.event("ended");
    }
    assert_eq!(program.number("level 101"), 101);
    assert_eq!(watch.event("armed")["rule"], 1);
    is_armed(&program, true);
    assert_eq!(program.number("level 9"), 9);
    assert_eq!(watch.event("disarmed")["rule"], 1);
    is_armed(&program, false);
    let events = watch.stop();
    // One that begins comes before one that ends, in the same window.
    let expected = [
        [("fired", 1), ("armed", 1), ("fired", 3)],
        [("fired", 2), ("disarmed", 2), ("ended", 3)],
        [("ended", 1), ("ended", 2), ("fired", 1)],
        [("armed", 1), ("disarmed", 1), ("ended", 1)],
    ];
    assert_eq!(turns(&events), expected.concat(), "{events:#?}");
    program.is_as_before();
}
