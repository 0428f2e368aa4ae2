//! Disarmed probes that several threads arm and disarm at once.

use std::hint::black_box;
use std::thread;

use probe_runtime::{Trace, probe, select};
use probe_tests::turn::turn;

#[probe]
#[inline(never)]
fn more() {
    black_box(());
}

const THREADS: u64 = 4;
const ARMINGS: u64 = 200;
const CALLS: u64 = 3;

#[test]
fn each_call_is_recorded_while_its_own_thread_has_armed_it() {
    let _turn = turn();
    more();
    let set = select("**::armed::more").unwrap();
    let trace = set.attach(Trace::recorder().disarmed(set.ids())).unwrap();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ARMINGS {
                    let report = trace.arm(set.ids());
                    assert_eq!(report.refused(), 0);
                    (0..CALLS).for_each(|_| more());
                    trace.disarm(set.ids());
                }
            });
        }
    });
    let recorded = 2 * THREADS * ARMINGS * CALLS;
    assert_eq!((trace.totals().written, trace.totals().lost), (recorded, 0));
    more();
    assert_eq!(trace.totals().written, recorded);
}
