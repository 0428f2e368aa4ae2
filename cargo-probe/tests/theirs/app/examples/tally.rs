//! Counts its own calls, and measures some by its own clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static LEAVES: AtomicU64 = AtomicU64::new(0);
static BRANCHES: AtomicU64 = AtomicU64::new(0);
static TRUNKS: AtomicU64 = AtomicU64::new(0);

fn leaf(n: u64) -> u64 {
    let before = LEAVES.fetch_add(1, Ordering::Relaxed);
    before ^ n
}

fn branch(leaves: u64) -> u64 {
    BRANCHES.fetch_add(1, Ordering::Relaxed);
    (0..leaves).map(leaf).sum()
}

fn trunk(height: u64) -> u64 {
    TRUNKS.fetch_add(1, Ordering::Relaxed);
    if height == 0 { leaf(0) } else { trunk(height - 1) + branch(height) }
}

/// Returns how long it knows itself to have run.
fn timed(time: Duration) -> Duration {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
    begin.elapsed()
}

fn main() {
    let height = std::env::args().nth(1).unwrap().parse().unwrap();
    std::thread::spawn(move || std::hint::black_box(trunk(height))).join().unwrap();
    std::hint::black_box(trunk(height));
    for (name, calls) in [("leaf", &LEAVES), ("branch", &BRANCHES), ("trunk", &TRUNKS)] {
        println!("{name} {}", calls.load(Ordering::Relaxed));
    }
    if let Some(milliseconds) = std::env::args().nth(2) {
        let time = Duration::from_millis(milliseconds.parse().unwrap());
        let (begin, within) = (Instant::now(), timed(time));
        println!("timed 1 {} {}", within.as_nanos(), begin.elapsed().as_nanos());
    }
    std::process::exit(5);
}
