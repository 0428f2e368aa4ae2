//! The example of latencies shows every call, in the table, the tree, and the flame graph.
#![cfg(not(probe_off))]

use std::fs;
use std::path::Path;

use probe_examples::Run;

/// Number of calls of each function. Each of 400 batches has one scatter, one hull, and one merge
/// with a hull inside. Three of four workers' hulls are merged as well.
const CALLS: [(&str, u64); 7] = [
    ("area", 1),
    ("chain", 1606),
    ("hull", 803),
    ("merge", 403),
    ("scatter", 400),
    ("sort", 803),
    ("work", 4),
];

#[test]
fn every_call_is_measured() {
    let svg = Path::new(env!("CARGO_TARGET_TMPDIR")).join("latency.svg");
    let run = Run::example("latency").arg(&svg).finish();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let parts: Vec<&str> = run.stdout.split("\n\n").collect();
    let [_, table, tree, threads, _] = parts.as_slice() else { panic!("{}", run.stdout) };

    let mut found: Vec<_> = (table.lines().skip(1))
        .map(|line| {
            let mut words = line.split_whitespace();
            let name = words.next().unwrap().strip_prefix("latency::geometry::").unwrap();
            (name, words.next().unwrap().parse::<u64>().unwrap())
        })
        .collect();
    found.sort_unstable();
    assert_eq!(found, CALLS, "{table}");
    assert!(table.starts_with("function"), "nothing is missing, so there are no notes: {table}");

    let calls = |name: &str| {
        let of = tree.lines().filter(|line| line.ends_with(&format!("geometry::{name}")));
        of.map(|line| line.split_whitespace().rev().find_map(|word| word.parse::<u64>().ok()).unwrap())
            .sum::<u64>()
    };
    assert_eq!(calls("scatter"), 400, "{tree}");
    assert!(["worker 0", "worker 3"].iter().all(|name| threads.contains(name)), "{threads}");

    let svg = fs::read_to_string(svg).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("<title>latency::geometry::scatter: "), "{svg}");
}
