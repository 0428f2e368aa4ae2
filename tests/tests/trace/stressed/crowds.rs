//! Many threads, and very many one after the other.

use std::sync::Barrier;
use std::thread;

use probe_tests::folder::Folder;
use probe_tests::turn::turn;

use super::{HITS, Keep, call, check};

#[test]
fn sixteen_threads_at_full_speed() {
    const CALLS: u64 = 3_000;
    let _turn = turn();
    let folder = Folder::new("trace-crowds");
    let path = folder.join("crowds.probetrace");
    for keep in Keep::ALL {
        for ring in [4 << 10, 64 << 10] {
            let trace = keep.attach(&path, ring, 32);
            // None ends before all have begun, and leaves its ring to another one.
            let together = Barrier::new(16);
            thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        together.wait();
                        call(CALLS);
                        together.wait();
                    });
                }
            });
            let totals = keep.finish(trace, &path);
            assert_eq!(totals.written + totals.lost, 16 * CALLS * HITS, "{keep:?} {ring}: {totals:?}");
            let found = check(&path, keep);
            assert_eq!(found.lost, totals.lost, "{keep:?} {ring}");
            match keep {
                // All are written, and the latest are there: some of each thread.
                Keep::Latest => {
                    assert_eq!((totals.lost, found.threads), (0, 16));
                    assert!(found.events < totals.written && found.events > 16 * 100, "{found:?}");
                }
                Keep::First => {
                    assert_eq!((found.events, found.threads), (totals.written, 16));
                    assert!(totals.lost > 0, "{ring}");
                }
                Keep::File => assert_eq!(found.events, totals.written),
            }
        }
    }
}

#[test]
fn threads_come_and_go_by_the_thousand() {
    const THREADS: u64 = 2_000;
    let _turn = turn();
    let folder = Folder::new("trace-come-and-go");
    let path = folder.join("come-and-go.probetrace");
    for keep in Keep::ALL {
        let trace = keep.attach(&path, 4 << 10, 64);
        for _ in 0..THREADS / 8 {
            thread::scope(|scope| (0..8).for_each(|_| _ = scope.spawn(|| call(3))));
        }
        let totals = keep.finish(trace, &path);
        assert_eq!(totals.written + totals.lost, THREADS * 3 * HITS, "{keep:?}: {totals:?}");
        let found = check(&path, keep);
        if keep == Keep::Latest {
            // The last threads of each ring, whole.
            assert_eq!(found.events, found.threads * 3 * HITS);
        } else {
            assert_eq!((found.events, found.lost), (totals.written, totals.lost), "{keep:?}");
        }
        assert!((4..=THREADS).contains(&found.threads), "{keep:?}: {found:?}");
    }
}
