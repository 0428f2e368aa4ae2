//! `PROBE_RULES`: the program follows rules by itself, and leaves nothing behind.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use probe_protocol::OwnRules;
use probe_tests::folder::Folder;

use crate::target::{Target, until};

crate::target::serves!();

/// Starts a program with rules, which log to `log` in the folder.
fn follow(folder: &Folder, rules: &str) -> Target {
    let file = folder.join("a.rules");
    fs::write(&file, rules).unwrap();
    let [file, log] = [file, folder.join("log")].map(|it| it.display().to_string());
    Target::with(&[("PROBE_AGENT", "1"), ("PROBE_RULES", &file), ("PROBE_RULES_LOG", &log)])
}

/// Waits until the log has this many lines of an event, and returns them without their times.
#[track_caller]
fn lines(folder: &Folder, event: &str, count: usize) -> Vec<String> {
    until(|| {
        let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
        let lines: Vec<_> = log.lines().filter_map(after_time).filter(|line| line.contains(event)).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// Returns the part of a line after its seconds.
fn after_time(line: &str) -> Option<String> {
    let (seconds, rest) = line.trim_start().split_once("  ")?;
    seconds.parse::<f64>().ok().map(|_| rest.to_owned())
}

fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}

#[test]
fn a_program_follows_its_rules() {
    let folder = Folder::new("rules");
    let [trace, snapshot] = ["it.probetrace", "it.folded"].map(|name| quoted(&folder.join(name)));
    let rules = format!(
        "# one rule\nwhen rate(agent::work) > 1 && p50(agent::work) < 1s && max(x of agent::work) >= 99 then arm \
         agent::even=count, record agent::work for 100ms to {trace}, snapshot agent::work to {snapshot} at most 1 time\n"
    );
    let mut target = follow(&folder, &rules);
    target.ask("busy");
    let fired = lines(&folder, "rule 1 fired: 1 of 1: rate(agent::work) is ", 1);
    assert!(fired[0].ends_with(", max(x of agent::work) is 99"), "{fired:?}");
    let recorded = lines(&folder, "rule 1 recorded: ", 1);
    assert!(recorded[0].contains("it.probetrace: ") && recorded[0].contains(" and 0 lost"), "{recorded:?}");
    assert_eq!(lines(&folder, "rule 1 snapshot: ", 1).len(), 1);
    assert_eq!(lines(&folder, "rule 1 armed: agent::even=count", 1).len(), 1);
    assert!(fs::read_to_string(folder.join("it.folded")).unwrap().contains("agent::work"));
    assert!(probe_trace::Trace::open(&[folder.join("it.probetrace")]).is_ok());
    // Three consumers of figures, a recorder, and one that is armed. The recording is over.
    target.until(|status| status.of_program == 5 && status.attachments.is_empty());
    let file = folder.join("a.rules").display().to_string();
    target.until(|status| status.rules == Some(OwnRules { file: file.clone(), rules: 1, firings: 1 }));
    assert_eq!(target.number("wrong"), 0);
    target.tell("exit 7");
    assert_eq!(target.wait().code(), Some(7));
    assert_eq!(lines(&folder, "left: agent::even=count", 1).len(), 1);
    assert_eq!(lines(&folder, "rule 1 ended: with the program", 1).len(), 1);
    assert_eq!(lines(&folder, "rule 1 summary: fired 1 time; not known in ", 1).len(), 1);
    assert_eq!(target.said(), "");
}

#[test]
fn the_end_of_the_program_ends_recordings() {
    let folder = Folder::new("rules-end");
    let trace = folder.join("it.probetrace");
    let rules = format!("when rate(agent::work) > 1 then record agent::work for 1h to {}", quoted(&trace));
    let mut target = follow(&folder, &rules);
    target.ask("busy");
    lines(&folder, "rule 1 recording: ", 1);
    target.tell("exit 0");
    assert_eq!(target.wait().code(), Some(0));
    assert_eq!(lines(&folder, "rule 1 recorded: ", 1).len(), 1);
    assert!(probe_trace::Trace::open(&[trace]).is_ok());
}

/// The signal's default action ends the program at once, so nothing finishes the file.
#[test]
fn a_trace_is_readable_after_a_signal() {
    let folder = Folder::new("rules-signal");
    let trace = folder.join("it.probetrace");
    let rules = format!("when rate(agent::work) > 1 then record agent::work for 1h to {}", quoted(&trace));
    let mut target = follow(&folder, &rules);
    target.ask("busy");
    lines(&folder, "rule 1 recording: ", 1);
    until(|| fs::metadata(&trace).is_ok_and(|it| it.len() > 10_000).then_some(()));
    let pid = target.pid().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(target.wait().signal(), Some(libc::SIGTERM));
    assert!(lines(&folder, "", 1).iter().all(|line| !line.contains("recorded")));
    assert!(probe_trace::Trace::open(&[trace]).is_ok());
}

/// Detaching would wait for the hit that has called `exit`.
#[test]
fn the_program_may_exit_in_a_hit() {
    let folder = Folder::new("rules-hit");
    let trace = folder.join("it.probetrace");
    let rules = format!(
        "when rate(agent::work) > 1 then record agent::work for 1h to {}, arm agent::even=leave",
        quoted(&trace)
    );
    let mut target = follow(&folder, &rules);
    target.ask("busy");
    assert_eq!(target.wait().code(), Some(9));
    assert_eq!(lines(&folder, "rule 1 recorded: ", 1).len(), 1);
    assert_eq!(lines(&folder, "rule 1 summary: fired 1 time; ", 1).len(), 1);
    assert!(probe_trace::Trace::open(&[trace]).is_ok());
}

#[test]
fn a_selector_without_probes_is_noted_once() {
    let folder = Folder::new("rules-note");
    let rules = "when max(x of agent::wrok) > 1 || rate(agent::wrok) > 1 then snapshot agent::snap
                 when rate(agent::work) > 1 then arm agent::evne=count at most 1 time
";
    let mut target = follow(&folder, rules);
    target.ask("busy");
    let noted = lines(&folder, "note: ", 4);
    assert_eq!(noted.iter().filter(|line| line.contains("agent::wrok")).count(), 2, "{noted:?}");
    assert_eq!(noted.iter().filter(|line| line.contains("agent::snap")).count(), 1, "{noted:?}");
    assert!(noted[3].starts_with("rule 2 note: ") && noted[3].contains("agent::evne"), "{noted:?}");
    // By now a window has ended, so `max` has a new consumer.
    assert!(target.end().success());
    assert_eq!(lines(&folder, "note: ", 4).len(), 4);
}

/// A pipe that nobody reads or writes does not stop the program.
#[test]
fn rules_and_their_log_may_be_pipes() {
    let folder = Folder::new("rules-pipes");
    let [file, pipe] = ["a.rules", "pipe"].map(|name| folder.join(name));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(&file, "when rate(agent::work) > 1 then arm agent::even=count").unwrap();
    let [file, pipe] = [file, pipe].map(|it| it.display().to_string());
    let mut target = Target::with(&[("PROBE_RULES", &file), ("PROBE_RULES_LOG", &pipe)]);
    until(|| target.said().contains("PROBE_RULES: rule 1 waiting: ").then_some(()));
    assert!(target.said().starts_with(&format!("PROBE_RULES_LOG: {pipe} can't be written: ")));
    assert!(target.end().success());
    let mut target = Target::with(&[("PROBE_RULES", &pipe)]);
    let said = format!("PROBE_RULES: {pipe} can't be read: it is no regular file; there are no rules\n");
    assert_eq!((target.said(), target.ask("threads probe-rules")), (said, "0".to_owned()));
    assert!(target.end().success());
}

#[test]
fn a_forked_child_drops_the_rules() {
    let folder = Folder::new("rules-fork");
    let mut target =
        follow(&folder, "when rate(agent::work) > 1 until rate(agent::work) < 1 then arm agent::even=count");
    let armed = |count| lines(&folder, "rule 1 armed: ", count);
    until(|| {
        target.number("work 1000");
        target.client().status().is_ok_and(|status| status.of_program == 2).then_some(())
    });
    armed(1);
    target.number("fork");
    assert_eq!((target.number("work 10"), target.number("text")), (145, 0), "in the child");
    target.tell("exit 0");
    assert_eq!(target.answer(), "0", "the parent has waited for it");
    // The parent continues: without hits, its rule ends.
    assert_eq!(lines(&folder, "rule 1 ended: after ", 1).len(), 1);
    assert_eq!(lines(&folder, "rule 1 disarmed: agent::even=count", 1).len(), 1);
    assert!(lines(&folder, "", 1).iter().all(|line| !line.contains("summary")));
    target.until(|status| status.of_program == 1);
    assert!(target.end().success());
}

/// Forks meet the thread while it attaches, reads and detaches.
#[test]
fn forks_in_the_middle_of_a_window_leave_nothing() {
    let folder = Folder::new("rules-forks");
    let rule = |limit| format!("when max(x + {limit} of agent::work) < 0 then arm agent::even=count\n");
    let mut target = follow(&folder, &(0..50).map(rule).collect::<String>());
    target.ask("busy");
    for _ in 0..4 {
        target.number("fork");
        assert_eq!((target.number("work 10"), target.number("text")), (145, 0), "in the child");
        target.tell("exit 0");
        assert_eq!(target.answer(), "0", "the parent has waited for it");
    }
    target.tell("exit 0");
    assert_eq!(target.wait().code(), Some(0));
    assert_eq!(lines(&folder, "summary: fired 0 times; ", 50).len(), 50);
}

#[test]
fn a_refused_consumer_does_not_end_the_rules() {
    let folder = Folder::new("rules-refused");
    let rules = "when max(zzz of agent::work) > 1 then arm agent::even=count\n\
                 when rate(agent::work) > 1 then arm agent::even=max(zzz), agent::work=count at most 1 time\n";
    let mut target = follow(&folder, rules);
    target.ask("busy");
    assert_eq!(lines(&folder, "failed: agent::work=max(zzz): ", 2).len(), 2);
    lines(&folder, "rule 2 failed: arm agent::even=max(zzz), agent::work=count: ", 2);
    assert_eq!(target.number("wrong"), 0);
    assert!(target.end().success());
    let summary = lines(&folder, "rule 1 summary: fired 0 times; not known in ", 1);
    let numbers: Vec<_> = summary[0].split(' ').filter_map(|word| word.parse::<u64>().ok()).collect();
    assert!(numbers[1] == 0 && numbers[2] == numbers[3], "{summary:?}");
}

#[test]
fn without_the_variable_there_is_no_thread() {
    let mut target = Target::with(&[("PROBE_AGENT", "1")]);
    assert_eq!(target.ask("threads probe-rules"), "0");
    let folder = Folder::new("rules-thread");
    let mut target = follow(&folder, "when rate(agent::work) > 1 then arm agent::even=count");
    lines(&folder, ", 1 rule", 1);
    assert_eq!(target.ask("threads probe-rules"), "1");
}
