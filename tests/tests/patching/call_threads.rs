//! Call sites at every offset, switched while other threads execute them: each execution is one of
//! the two instructions, both are seen, and after `synchronize` only the new one.
//! A process of its own: its text changes all the time.
#![cfg(not(any(probe_portable, probe_off)))]

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::call::CallOptions;
use probe_runtime::patch::{OpenText, TextPolicy, synchronize};
use probe_tests::call_sites::{Block, CallSite, FIRST, activate};
use probe_tests::stops::Stops;
use probe_tests::text::Text;

const EXECUTORS: usize = 2;
/// Switches of each site; there are 32 of them.
const SWITCHES: u64 = 8_000;
const OPEN: CallOptions = CallOptions::new().text_policy(TextPolicy::Open);

/// How often a thread has seen each of the two results.
#[derive(Default)]
struct Seen {
    one: AtomicU64,
    other: AtomicU64,
}

impl Seen {
    fn both(&self) -> bool {
        self.one.load(Ordering::Relaxed) != 0 && self.other.load(Ordering::Relaxed) != 0
    }
}

/// Executes the site on several threads, while `switch` is called with 0, 1, 2, … until it has been
/// called often enough, and each thread has seen both results. There is no third one.
fn race(site: CallSite, one: usize, other: usize, switch: impl Fn(u64)) {
    let stop = AtomicBool::new(false);
    let seen: [Seen; EXECUTORS] = Default::default();
    let (calls, switches) = thread::scope(|scope| {
        let stops = Stops(&stop);
        let executors: Vec<_> = (seen.iter())
            .map(|seen| {
                let stop = &stop;
                scope.spawn(move || {
                    let mut calls = 0_u64;
                    while !stop.load(Ordering::Relaxed) {
                        let result = site.run();
                        if result == one {
                            seen.one.fetch_add(1, Ordering::Relaxed);
                        } else {
                            assert_eq!(result, other, "{site:x?}");
                            seen.other.fetch_add(1, Ordering::Relaxed);
                        }
                        calls += 1;
                    }
                    calls
                })
            })
            .collect();
        let mut switches = 0;
        // An executor that panics ends, and is not waited for.
        while executors.iter().all(|it| !it.is_finished())
            && (switches < SWITCHES || switches % 2 == 1 || !seen.iter().all(Seen::both))
        {
            switch(switches);
            switches += 1;
            if switches > SWITCHES {
                // Few processors: let the others have their turn in either state.
                thread::yield_now();
            }
        }
        drop(stops);
        let calls: u64 = executors.into_iter().map(|it| it.join().expect("a third result")).sum();
        (calls, switches)
    });
    assert!(switches >= SWITCHES);
    let sum = |pick: fn(&Seen) -> &AtomicU64| -> u64 {
        seen.iter().map(|seen| pick(seen).load(Ordering::Relaxed)).sum()
    };
    assert_eq!(sum(|seen| &seen.one) + sum(|seen| &seen.other), calls);
}

fn set(site: CallSite, callee: usize) {
    assert!(activate(site, OPEN, site.is_jump, site.block.callee(callee)).unwrap(), "{site:x?}");
}

fn clear(site: CallSite) {
    // SAFETY: a site of a block, whose function does not need the callee.
    assert!(unsafe { OPEN.deactivate_call(site.addr) }.unwrap(), "{site:x?}");
}

/// After `synchronize`, each thread that begins to execute the site executes the written bytes.
/// Runs until each thread has begun and ended in a settled moment of either state.
fn settle(site: CallSite) {
    const ROUNDS: u64 = 200;
    // Even while settled: 2 (mod 4) when the site is active, 0 when it is not.
    let epoch = AtomicU64::new(2);
    let stop = AtomicBool::new(false);
    let seen: [Seen; EXECUTORS] = Default::default();
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let executors: Vec<_> = (seen.iter())
            .map(|seen| {
                let (epoch, stop) = (&epoch, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        let before = epoch.load(Ordering::SeqCst);
                        let result = site.run();
                        let after = epoch.load(Ordering::SeqCst);
                        assert!(result == 0 || result == FIRST, "{result}");
                        if before != after || before % 2 == 1 {
                            continue;
                        }
                        let (wanted, seen) =
                            if before % 4 == 2 { (FIRST, &seen.one) } else { (0, &seen.other) };
                        assert_eq!(result, wanted, "{site:x?}");
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let mut rounds = 0;
        while executors.iter().all(|it| !it.is_finished())
            && (rounds < ROUNDS || rounds % 2 == 1 || !seen.iter().all(Seen::both))
        {
            epoch.fetch_add(1, Ordering::SeqCst);
            if rounds % 2 == 0 {
                clear(site);
            } else {
                set(site, FIRST);
            }
            synchronize();
            epoch.fetch_add(1, Ordering::SeqCst);
            rounds += 1;
            if rounds > ROUNDS {
                // Few processors: let the others have their turn in either state.
                thread::yield_now();
            } else {
                (0..500).for_each(|_| hint::spin_loop());
            }
        }
        drop(stops);
        executors.into_iter().for_each(|it| it.join().expect("an old result"));
    });
    assert!(seen.iter().all(Seen::both));
}

#[test]
fn every_execution_is_one_of_the_two() {
    let text = Text::of_this_process();
    let block = Block::in_text();
    let open = OpenText::new(block.start..block.start + Block::size()).unwrap();
    for site in block.sites() {
        let (same_tail, other_tail) = site.others();
        let is_distance = (4..=6).contains(&site.offset());
        race(site, FIRST, 0, |n| if n % 2 == 0 { clear(site) } else { set(site, FIRST) });
        // From target to target.
        let next = if is_distance { same_tail } else { other_tail };
        race(site, FIRST, next, |n| set(site, if n % 2 == 0 { next } else { FIRST }));
        settle(site);
    }
    drop(open);
    text.assert_as_in_file();
}

/// Two threads switch two sites by writing the same word. The thread that writes second reads the
/// word again.
#[test]
fn neighbours_do_not_disturb_each_other() {
    #[repr(align(64))]
    struct Code([u8; 64]);
    let mut code = Code([0x90; 64]);
    // 1|4, whose second word is the first word of 4|1.
    for at in [7, 12] {
        code.0[at..at + 5].copy_from_slice(&[0xe8, 0x11, 0x22, 0x33, 0x44]);
    }
    let start = (&raw mut code.0) as usize;
    let switch = |at: usize, callee: usize| {
        let addr = start + at;
        for _ in 0..100_000 {
            // SAFETY: a CALL in memory of this test's own, which nobody executes.
            unsafe {
                assert!(OPEN.deactivate_call(addr).unwrap());
                assert!(!OPEN.deactivate_call(addr).unwrap());
                assert!(OPEN.activate_call(addr, callee).unwrap());
            }
        }
    };
    let target = |at: usize| start + at + 5 + 0x4433_2211;
    thread::scope(|scope| {
        scope.spawn(|| switch(7, target(7)));
        scope.spawn(|| switch(12, target(12)));
    });
    // SAFETY: the code, which no thread changes any more.
    let bytes = unsafe { (start as *const [u8; 64]).read_volatile() };
    let mut expected = [0x90; 64];
    for at in [7, 12] {
        expected[at..at + 5].copy_from_slice(&[0xe8, 0x11, 0x22, 0x33, 0x44]);
    }
    assert_eq!(bytes, expected);
}
