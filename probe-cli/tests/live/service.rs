//! A service on tokio's executor: its futures wait, and continue on any thread.

use std::sync::LazyLock;

use probe_runtime::probe;
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;

use crate::program::{Folder, Program, out, run, signal, spawn, words};

const OWN: &str = "live::service::**";
/// The probes of [`OWN`] that each request hits once.
const HIT: [(&str, &str); 9] = [
    ("answered", "point"),
    ("handle", "entry"),
    ("handle", "suspend"),
    ("handle", "resume"),
    ("handle", "exit"),
    ("look_up", "entry"),
    ("look_up", "suspend"),
    ("look_up", "resume"),
    ("look_up", "exit"),
];

/// Answers a request.
#[probe]
async fn handle(request: u64) -> u64 {
    let found = look_up(request).await;
    probe!("answered", found);
    found + 1
}

#[probe(group = "service")]
async fn look_up(key: u64) -> u64 {
    yield_now().await;
    key * 2
}

/// Serves this many requests at once, in the program. Returns the sum of the answers.
pub fn serve(requests: u64) -> u64 {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(2).build().unwrap());
    let tasks: Vec<_> = (0..requests).map(|request| RUNTIME.spawn(handle(request))).collect();
    RUNTIME.block_on(async {
        let mut sum = 0;
        for task in tasks {
            sum += task.await.unwrap();
        }
        sum
    })
}

/// Checks the hits of each probe.
#[track_caller]
fn has_hits(table: &str, requests: u64) {
    let lines = words(table);
    for (name, kind) in HIT {
        let path = format!("live::service::{name}");
        let line = lines.iter().find(|line| line[..2] == [&path, kind]).unwrap();
        assert_eq!(line[3], requests.to_string(), "{table}");
    }
    // No future was cancelled.
    assert!(lines.len() == 2 + HIT.len() && table.contains("2 probes were never hit"), "{table}");
}

#[test]
fn its_futures_are_listed_and_counted() {
    let folder = Folder::new("service");
    let mut program = Program::start(&folder);
    let pid = program.pid();
    let sum = |requests: u64| requests * (requests - 1) + requests;
    assert_eq!(program.number("requests 100"), sum(100));
    let list = out(&folder, &["list", &pid, OWN]);
    assert!(list.lines().last().unwrap().starts_with("11 probes, "), "{list}");
    let enabled = out(&folder, &["enable", "--keep", "-p", &pid, OWN]);
    assert!(enabled.contains("count on 11 probes, ") && enabled.contains(", 0 refused"), "{enabled}");
    assert_eq!(program.number("requests 500"), sum(500));
    let child = spawn(&folder, &["count", "-p", &pid, OWN]);
    program.until(|status| status.attachments.len() == 2);
    assert_eq!(program.number("requests 1000"), sum(1000));
    signal("-INT", &child);
    let counted = child.wait_with_output().unwrap();
    has_hits(std::str::from_utf8(&counted.stdout).unwrap(), 1000);
    assert_eq!(program.number("requests 7"), sum(7));
    has_hits(&run(&folder, &["disable", "-p", &pid]).out, 1507);
    assert_eq!(program.number("requests 100"), sum(100));
    program.is_as_before();
}
