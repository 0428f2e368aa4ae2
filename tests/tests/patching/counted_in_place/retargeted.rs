//! Sites that are led elsewhere while threads run through them.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Count, select};
use probe_tests::stops::Stops;
use probe_tests::text::Text;

use super::seen::{Held, active_sites, held};
use super::{Either, Told, hot};

/// Runs `switch` while threads call the probed function; returns how often they did.
fn beside_threads(switch: impl FnOnce()) -> u64 {
    let (stop, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for _ in 0..3 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    (0..100).for_each(|x| _ = black_box(hot(black_box(x))));
                    calls.fetch_add(100, Ordering::Relaxed);
                }
            });
        }
        while calls.load(Ordering::Relaxed) < 1_000 {
            thread::yield_now();
        }
        switch();
        let least = calls.load(Ordering::Relaxed) + 1_000;
        while calls.load(Ordering::Relaxed) < least {
            thread::yield_now();
        }
        drop(stops);
    });
    calls.load(Ordering::Relaxed)
}

pub(super) fn by_others() {
    hot(1);
    let set = select("patching::counted_in_place::hot").unwrap();
    let mut calls = 0;
    let counted = set.attach(Count::new()).unwrap();
    for (policy, strict, times) in [
        (TextPolicy::Sealed, false, 60),
        (TextPolicy::Open, false, 60),
        (TextPolicy::Sealed, true, 10),
        (TextPolicy::Alias, false, 10),
    ] {
        for visibility in [Visibility::Synchronous, Visibility::Eventual] {
            calls += beside_threads(|| {
                let set = set.clone().text_policy(policy).strict(strict).visibility(visibility);
                for at in 0..times {
                    let told = set.attach(Told).unwrap();
                    assert_eq!(told.report().refused(), 0, "{}", told.report());
                    if at % 3 == 0 {
                        assert_eq!(told.pause().refused(), 0);
                    }
                    let also = set.attach(Count::new()).unwrap();
                    drop(told);
                    drop(also);
                }
            });
            assert_eq!(counted.total(), 2 * calls, "{policy:?} {visibility:?}");
        }
    }
    drop(counted);
    Text::of_this_process().assert_as_in_file();
}

pub(super) fn by_a_switch() {
    hot(1);
    for policy in [TextPolicy::Sealed, TextPolicy::Open, TextPolicy::Alias] {
        // Blocks are not made under every policy, but used.
        drop(select("patching::counted_in_place::hot").unwrap().attach(Count::new()).unwrap());
        let either = select("patching::counted_in_place::hot")
            .unwrap()
            .text_policy(policy)
            .attach(Either::default())
            .unwrap();
        let (switch, ids) =
            (either.switch(), either.probes().iter().map(probe_runtime::ProbeInfo::id).collect::<Vec<_>>());
        let sites = active_sites();
        let are = |wanted: fn(Held) -> bool| sites.iter().all(|site| wanted(held(*site)));
        assert!(are(|held| held == Held::Cold));
        let seen = || (either.0.load(Ordering::Relaxed), switch.counted(&ids).iter().sum::<u64>());
        hot(1);
        assert_eq!(seen(), (2, 0));
        switch.count(&ids);
        assert!(are(|held| matches!(held, Held::Block(_))));
        hot(1);
        assert_eq!(seen(), (2, 2));
        switch.deliver(&ids[..1]);
        assert_eq!(sites.iter().filter(|site| held(**site) == Held::Cold).count(), 1);
        hot(1);
        assert_eq!(seen(), (3, 3));
        // Sites that were counted in place are counted again after a pause.
        assert_eq!(either.pause().patched(), 2);
        hot(1);
        assert_eq!(either.resume().patched(), 2);
        assert_eq!(sites.iter().filter(|site| held(**site) == Held::Cold).count(), 1);
        hot(1);
        assert_eq!(seen(), (4, 4));
        switch.off(&ids, Visibility::Synchronous);
        assert!(are(|held| held == Held::Nop));
        switch.count(&ids);
        assert!(are(|held| held == Held::Nop));
        switch.on(&ids, Visibility::Synchronous);
        assert!(are(|held| matches!(held, Held::Block(_))));
        hot(1);
        assert_eq!(seen(), (4, 6));
        switch.deliver(&ids);
        let calls = beside_threads(|| {
            for _ in 0..20 {
                switch.count(&ids);
                switch.deliver(&ids);
            }
        });
        let (told, counted) = seen();
        assert_eq!(told + counted, 10 + 2 * calls, "{policy:?}");
        drop(either);
        Text::of_this_process().assert_as_in_file();
    }
}
