//! A program at a fixed address, with C code compiled for one: its probes, hits, and final text.

use std::collections::BTreeMap;

use probe_runtime::losses::unreadable_records;
use probe_runtime::{Count, select};

unsafe extern "C" {
    fn gcc_entries(value: i32) -> i32;
    fn gcc_hooks(value: i32) -> i32;
    fn gcc_points(value: u64) -> u64;
    #[cfg(feature = "clang")]
    fn clang_entries(value: i32) -> i32;
    #[cfg(feature = "clang")]
    fn clang_hooks(value: i32) -> i32;
    #[cfg(feature = "clang")]
    fn clang_points(value: u64) -> u64;
}

fn work() -> Vec<i64> {
    let mut results = Vec::new();
    for value in 0..6 {
        // SAFETY: functions of c/, of these types.
        unsafe {
            let points = gcc_points(value as u64).try_into().unwrap();
            results.extend::<[i64; 3]>([gcc_entries(value).into(), gcc_hooks(value).into(), points]);
            #[cfg(feature = "clang")]
            {
                let points = clang_points(value as u64).try_into().unwrap();
                results.extend::<[i64; 3]>([clang_entries(value).into(), clang_hooks(value).into(), points]);
            }
        }
    }
    results
}

fn main() {
    let latent = work();
    assert_eq!(unreadable_records(), 0);
    let count = select("**").unwrap().attach(Count::new()).unwrap();
    assert_eq!(count.report().refused(), 0, "{}", count.report());
    assert_eq!(work(), latent);
    let mut hits: BTreeMap<String, u64> = BTreeMap::new();
    for count in count.counts().iter() {
        *hits.entry(format!("{} {}", count.probe.path(), count.probe.kind())).or_default() += count.hits;
    }
    count.detach();
    assert_eq!(work(), latent);
    for (probe, hits) in hits {
        println!("{probe} {hits}");
    }
}
