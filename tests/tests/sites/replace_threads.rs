//! A function is replaced and restored while four threads call it. Each call runs wholly one or the
//! other, none is lost, and none that begins after a removal runs the removed closure.
//! A process of its own: at its end it looks at all of its text.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::probe;
#[cfg(not(any(probe_portable, probe_off)))]
use probe_tests::text::Text;

static BODY: AtomicU64 = AtomicU64::new(0);

#[probe(replace)]
#[inline(never)]
fn work(x: u64, words: [u64; 3]) -> [u64; 4] {
    BODY.fetch_add(1, Ordering::Relaxed);
    [x, words[0], words[1], words[2]]
}

const BODYS: [u64; 4] = [1, 2, 3, 4];
const FIRSTS: [u64; 4] = [10, 20, 30, 40];
const SECONDS: [u64; 4] = [5, 5, 5, 5];

/// The results that a caller has seen.
#[derive(Default)]
struct Seen {
    body: u64,
    first: u64,
    second: u64,
}

#[test]
fn each_call_is_wholly_one_or_the_other() {
    #[cfg(not(any(probe_portable, probe_off)))]
    let text = Text::of_this_process();
    let stop = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                let mut seen = Seen::default();
                while !stop.load(Ordering::Relaxed) {
                    match work(1, [2, 3, 4]) {
                        BODYS => seen.body += 1,
                        FIRSTS => seen.first += 1,
                        SECONDS => seen.second += 1,
                        other => panic!("{other:?} is neither"),
                    }
                }
                seen
            })
        })
        .collect();
    let (firsts, seconds) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut own = Seen::default();
    let mut check = |expected: [u64; 4]| {
        assert_eq!(work(1, [2, 3, 4]), expected);
        *(match expected {
            BODYS => &mut own.body,
            FIRSTS => &mut own.first,
            _ => &mut own.second,
        }) += 1;
    };
    for round in 0..400 {
        let count = Arc::clone(&firsts);
        // Calls the body, and changes its result.
        let first = work::install(move |original, x, words| {
            count.fetch_add(1, Ordering::Relaxed);
            original(x, words).map(|word| word * 10)
        });
        let first = first.unwrap();
        check(FIRSTS);
        let count = Arc::clone(&seconds);
        // Calls nothing.
        let second = work::install(move |_, _, _| {
            count.fetch_add(1, Ordering::Relaxed);
            [5; 4]
        });
        let second = second.unwrap();
        check(SECONDS);
        if round % 2 == 0 {
            drop(first);
            check(SECONDS);
            drop(second);
        } else {
            drop(second);
            check(FIRSTS);
            drop(first);
        }
        check(BODYS);
    }
    stop.store(true, Ordering::Relaxed);
    let mut all = own;
    for caller in callers {
        let seen = caller.join().unwrap();
        all.body += seen.body;
        all.first += seen.first;
        all.second += seen.second;
    }
    assert_eq!(all.first, firsts.load(Ordering::Relaxed));
    assert_eq!(all.second, seconds.load(Ordering::Relaxed));
    assert_eq!(all.body + all.first, BODY.load(Ordering::Relaxed));
    assert_eq!((Arc::strong_count(&firsts), Arc::strong_count(&seconds)), (1, 1), "all closures are dropped");
    #[cfg(not(any(probe_portable, probe_off)))]
    assert_eq!(text.differences(), []);
}
