use std::mem;

use super::super::rule::rules;
use super::super::window::Row;
use super::*;

/// A program without probes, which notes each request.
#[derive(Default)]
struct Fake {
    /// Acts and lines of the log since they were looked at last.
    acts: Vec<String>,
    /// Texts that it refuses to attach.
    refused: Vec<&'static str>,
    /// How the next request about an attachment fails.
    failure: Option<HostError<&'static str>>,
    /// Whether the log fails.
    is_unread: bool,
    /// The attachments of `point`, which need no notes.
    of_points: Vec<u32>,
    is_away: bool,
    has_ended: bool,
    attached: u32,
    /// The hits of each reading, and its time.
    hits: u64,
    now: Duration,
}

impl Fake {
    fn act(&mut self, act: String) -> Answer<(), Self> {
        self.acts.push(act);
        let failure = self.failure.take();
        self.is_away |= matches!(failure, Some(HostError::Lost(_)));
        failure.map_or(Ok(()), Err)
    }
}

impl RuleHost for Fake {
    type Attachment = u32;
    type File = String;
    type Failure = &'static str;
    const END: Event = Event::Left;

    fn log(
        &mut self,
        event: Event,
        rule: Option<usize>,
        text: impl fmt::Display,
    ) -> Result<(), &'static str> {
        let rule = rule.map(|rule| format!("{rule} ")).unwrap_or_default();
        self.acts.push(format!("{rule}{event}: {text}"));
        if self.is_unread { Err("unread") } else { Ok(()) }
    }

    fn elapsed(&self) -> Duration {
        self.now
    }

    fn is_up(&self) -> bool {
        !self.is_away
    }

    fn attach(&mut self, spec: &str) -> Answer<(u32, Vec<String>), Self> {
        if self.refused.contains(&spec) {
            return Err(HostError::Refused("no".to_owned()));
        }
        self.attached += 1;
        self.act(format!("attach {} {spec}", self.attached))?;
        if spec.starts_with("point=") {
            self.of_points.push(self.attached);
            return Ok((self.attached, Vec::new()));
        }
        Ok((self.attached, vec![format!("of {}", self.attached)]))
    }

    fn detach(&mut self, id: u32) -> Answer<Vec<String>, Self> {
        self.act(format!("detach {id}")).map(|()| Vec::new())
    }

    fn read(&mut self, id: &u32) -> Answer<Reading, Self> {
        self.act(format!("read {id}"))?;
        let row = Row { name: "f".to_owned(), count: self.hits, max: Some(9.0), ..Row::default() };
        Ok(Reading { time: self.now, rows: if self.of_points.contains(id) { Vec::new() } else { vec![row] } })
    }

    fn create(&mut self, name: &str) -> Result<String, String> {
        if name == "full.pftrace" { Err(format!("no room for {name}")) } else { Ok(name.to_owned()) }
    }

    fn record(&mut self, selector: &str, _file: String) -> Answer<(u32, Vec<String>), Self> {
        self.attach(&format!("{selector}=trace"))
    }

    fn finish_recording(&mut self, id: u32) -> Answer<String, Self> {
        self.act(format!("finish {id}")).map(|()| "7 events".to_owned())
    }

    fn snapshot(
        &mut self,
        recorder: Option<&u32>,
        others: &[&u32],
        name: &str,
    ) -> Answer<(String, Vec<String>), Self> {
        self.act(format!("snapshot {recorder:?} besides {others:?}"))?;
        Ok((name.to_owned(), Vec::new()))
    }

    fn run(&mut self, command: &str, firing: &Firing<'_>) -> Result<(), String> {
        if command == "absent" { Err(format!("no {command} for {}", firing.number)) } else { Ok(()) }
    }

    fn lost(&mut self, reason: &str) -> Result<bool, &'static str> {
        self.log(Event::Lost, None, reason).map(|()| self.has_ended)
    }
}

type Driver = RuleDriver<Fake>;

/// Returns a driver of rules, one on each line, that has started; without the acts until then.
fn started(text: &str) -> Driver {
    let mut driver = driver(text);
    driver.start(1).unwrap();
    driver.acts();
    driver
}

fn driver(text: &str) -> Driver {
    RuleDriver::new(Engine::new(rules("a", text).unwrap()).unwrap(), Fake::default())
}

impl Driver {
    /// Ends a window of a second with these hits. Returns the acts.
    fn window(&mut self, hits: u64) -> Vec<String> {
        let from = self.host.now;
        self.host.now += Duration::from_secs(1);
        self.host.hits += hits;
        let readings = self.read().unwrap();
        self.step(readings, from, self.host.now).unwrap();
        self.acts()
    }

    fn acts(&mut self) -> Vec<String> {
        mem::take(&mut self.host.acts)
    }
}

/// The note comes once, and only for times.
#[test]
fn figures_of_points() {
    let mut it = driver("when p99(point) > 5ms && rate(point) > 1 then run 'it'");
    it.start(7).unwrap();
    let acts = it.acts();
    let notes: Vec<_> = acts.iter().filter(|act| act.starts_with("note")).collect();
    let note = "note: point=latency(buckets): points have no calls; name functions, or take their `rate`";
    assert_eq!(notes, [note]);
    assert_eq!(it.window(5).len(), 2);
}

#[test]
fn a_rule_from_its_start_to_its_end() {
    let mut it = driver(
        "when rate(f) > 5 then arm g=count, record h for 2s, snapshot i to a.json, run 'it', run 'absent'",
    );
    it.start(7).unwrap();
    let rule = it.engine().rules().next().unwrap().to_string();
    assert_eq!(
        it.acts(),
        [
            "watching: process 7, 1 rule",
            &format!("0 waiting: {rule}"),
            "attach 1 i=trace(flight)",
            "note: of 1",
            "attach 2 f=count",
            "note: of 2",
            "read 2",
        ]
    );
    assert_eq!(it.window(5), ["read 2"]);
    assert_eq!(
        it.window(6),
        [
            "read 2", "0 fired: 1 of 10: rate(f) is 6/s", "attach 3 g=count", "0 armed: g=count",
            "0 note: of 3", "attach 4 h=trace", "0 recording: h to rule-1.pftrace", "0 note: of 4",
            "snapshot Some(1) besides [1]", "0 snapshot: a.json", "0 started: it",
            "0 failed: no absent for 1",
        ]
    );
    // A rule is active for as long as it records.
    assert_eq!(it.window(0), ["read 2"]);
    assert_eq!(it.window(0), ["read 2", "detach 3", "0 disarmed: g=count", "0 ended: after 2.000 s"]);
    assert_eq!(it.window(6).len(), 12);
    it.finish().unwrap();
    it.summarize("watch").unwrap();
    assert_eq!(
        it.acts(),
        [
            "finish 4",
            "0 recorded: rule-1.pftrace: 7 events",
            "finish 6",
            "0 recorded: rule-1.pftrace: 7 events",
            "detach 5",
            "left: g=count",
            "detach 2",
            "detach 1",
            "0 ended: with the watch",
            "0 summary: fired 2 times; not known in 0 of 5 windows",
        ]
    );
}

#[test]
fn a_renewed_source_is_attached_before_the_old_one_is_read() {
    let mut it = started("when max(n of f) > 5 then run 'it'");
    let [fired, started] = ["0 fired: 1 of 10: max(n of f) is 9", "0 started: it"];
    assert_eq!(it.window(1), ["attach 2 f=max(n)", "read 1", "detach 1", fired, started]);
    assert_eq!(it.window(1), ["attach 3 f=max(n)", "read 2", "detach 2"]);
    // Its next window would begin too early.
    it.host.refused.push("f=max(n)");
    assert_eq!(it.window(1), ["failed: f=max(n): no", "detach 3"]);
    it.host.refused.clear();
    assert_eq!(it.window(1), ["attach 4 f=max(n)", "note: of 4"]);
    // It is detached also if it can't be read.
    it.host.now += Duration::from_secs(1);
    it.attach(0).unwrap();
    assert_eq!(it.acts(), ["attach 5 f=max(n)", "read 4", "detach 4"]);
}

#[test]
fn what_fails_is_tried_again_after_pauses_that_grow() {
    let mut it = driver("when rate(f) > 5 then arm g=count");
    it.host.refused = vec!["f=count", "g=count"];
    it.start(1).unwrap();
    let mut tries = Vec::new();
    for window in 0..16 {
        if !it.window(6).is_empty() {
            tries.push(window);
        }
    }
    assert_eq!(tries, [0, 2, 6, 14]);
    it.host.refused = vec!["g=count"];
    let windows: Vec<_> = (0..16).map(|_| it.window(6)).collect();
    let first = windows.iter().position(|acts| !acts.is_empty()).unwrap();
    assert_eq!(windows[first], ["attach 1 f=count", "note: of 1", "read 1"]);
    let fired = ["read 1", "0 fired: 1 of 10: rate(f) is 6/s", "0 failed: arm g=count: no"];
    assert_eq!(windows[first + 1], fired);
}

#[test]
fn a_text_is_attached_while_a_rule_holds_it() {
    let mut it = started(
        "when rate(f) > 5 then arm g=count\nwhen rate(f) > 5 until rate(f) == 0 then arm g=count\n\
         when rate(f) > 50 then disarm g=count",
    );
    it.host.refused.push("g=count");
    let failed = |rule| format!("{rule} failed: arm g=count: no");
    let acts = it.window(6);
    assert_eq!(acts.iter().filter(|it| **it == failed(0)).count(), 2, "{acts:?}");
    it.host.refused.clear();
    assert_eq!(it.window(6), ["read 1"]);
    assert_eq!(it.window(6), ["read 1", "attach 2 g=count", "0 armed: g=count", "0 note: of 2"]);
    assert_eq!(it.window(1), ["read 1", "0 ended: after 3.000 s"]);
    assert_eq!(it.window(0), ["read 1", "detach 2", "1 disarmed: g=count", "1 ended: after 4.000 s"]);
    assert_eq!(
        it.window(60)[5..],
        [
            "1 fired: 2 of 10: rate(f) is 60/s", "2 fired: 1 of 10: rate(f) is 60/s", "detach 3",
            "2 disarmed: g=count"
        ]
    );
}

#[test]
fn recordings_end_when_they_are_due() {
    let mut it = started(
        "when rate(f) > 5 then record a for 3s, record b for 1s, record c for 1h at most 1 time\n\
         when rate(f) > 5 then record d for 1s to full.pftrace, snapshot",
    );
    assert_eq!(it.next_due(), None);
    let acts = it.window(6);
    assert_eq!(acts[12], "1 failed: no room for full.pftrace");
    assert_eq!(acts[13..], ["snapshot None besides []", "1 snapshot: rule-2.pftrace"]);
    let seconds = Duration::from_secs;
    assert_eq!(it.next_due(), Some(seconds(2)));
    it.finish_recordings(Some(seconds(1))).unwrap();
    assert_eq!(it.acts(), [""; 0]);
    it.host.failure = Some(HostError::Refused("no".to_owned()));
    it.finish_recordings(Some(seconds(2))).unwrap();
    assert_eq!(it.acts(), ["finish 3", "0 failed: rule-1.pftrace may lack events: no"]);
    assert_eq!(it.next_due(), Some(seconds(4)));
    it.finish_recordings(Some(seconds(5))).unwrap();
    assert_eq!(it.acts(), ["finish 2", "0 recorded: rule-1.pftrace: 7 events"]);
    assert_eq!(it.next_due(), Some(seconds(3601)));
}

#[test]
fn a_lost_connection_takes_all_attachments() {
    for has_ended in [false, true] {
        let mut it = started("when rate(f) > 5 then arm g=count, record h for 1h");
        it.host.has_ended = has_ended;
        it.window(6);
        it.host.failure = Some(HostError::Lost("gone".to_owned()));
        let recording = |event| format!("0 {event}: rule-1.pftrace has the events until about now");
        let lost = ["read 1", "failed: f=count: gone", "lost: gone"];
        let acts = it.window(6);
        assert_eq!(acts[..3], lost);
        if has_ended {
            assert_eq!(acts[3..], [recording("left"), "left: g=count was armed".to_owned()]);
            continue;
        }
        assert_eq!(acts[3..], [recording("failed")]);
        assert_eq!(it.window(6), [""; 0]);
        it.host.is_away = false;
        // The reading has failed, so it pauses; the text does not.
        assert_eq!(
            it.window(6),
            [
                "attach 4 f=count", "note: of 4", "read 4", "attach 5 g=count", "0 armed: g=count",
                "0 note: of 5"
            ]
        );
        // The rule is still active.
        assert_eq!(it.window(6), ["read 4"]);
    }
}

#[test]
fn a_source_that_another_has_detached_is_attached_again() {
    let mut it = started("when rate(f) > 5 then run 'it'");
    it.host.failure = Some(HostError::Gone("no such".to_owned()));
    assert_eq!(it.window(6), ["read 1", "failed: f=count: no such"]);
    assert_eq!(it.window(6), ["attach 2 f=count", "note: of 2", "read 2"]);
    assert_eq!(it.window(6).len(), 3);
}

#[test]
fn a_failure_ends_the_rules() {
    let mut it = driver("when rate(f) > 5 then run 'it'");
    it.host.failure = Some(HostError::Fatal("over"));
    assert_eq!(it.start(1), Err("over"));
    let mut it = started("when rate(f) > 5 then run 'it'");
    it.host.is_unread = true;
    assert_eq!(it.summarize("program"), Err("unread"));
    assert_eq!(it.acts(), ["0 summary: fired 0 times; not known in 0 of 0 windows"]);
}

#[test]
fn pauses_grow_until_success() {
    let mut backoff = Backoff::default();
    let mut windows = Vec::new();
    for window in 0..400 {
        if backoff.is_due() {
            windows.push(window);
            backoff.note(false);
        }
    }
    assert_eq!(windows, [0, 1, 3, 7, 15, 31, 63, 127, 191, 255, 319, 383]);
    backoff.note(true);
    assert!(backoff.is_due() && backoff.is_due());
}
