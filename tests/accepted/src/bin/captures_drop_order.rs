//! Named arguments are dropped after locals, in reverse order, moved or not, as without a probe.

use std::cell::RefCell;

use probe_runtime::probe;

type Log = RefCell<Vec<u32>>;

struct Noisy<'a>(&'a Log, u32);

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().push(self.1);
    }
}

struct Pair<'a>(Noisy<'a>, Noisy<'a>);

macro_rules! twice {
    ($plain:ident, $probed:ident, $($function:tt)*) => {
        fn $plain $($function)*
        #[probe(args(*), ret)]
        fn $probed $($function)*
    };
}

twice! { plain, probed, (_: Noisy<'_>, log: &Log, a: Noisy<'_>, b: Noisy<'_>, _c: Noisy<'_>, way: u32) -> u32 {
    let _first = Noisy(log, 10);
    let _second = Noisy(log, 20);
    match way {
        0 => return a.1 + b.1,
        1 => drop(a),
        2 => drop(b),
        3 => drop(_c),
        _ => {}
    }
    Noisy(log, 30).1
}}

twice! { plain_patterns, probed_patterns, ((a, b): (Noisy<'_>, Noisy<'_>), (c, d): (Noisy<'_>, Noisy<'_>), way: u32) -> u32 {
    if way == 1 {
        drop(a);
    } else if way == 2 {
        drop(d);
    } else if way == 3 {
        drop(b);
        drop(c);
    }
    way
}}

impl Pair<'_> {
    twice! { plain_self, probed_self, (self, other: Noisy<'_>, way: u32) -> u32 {
        match way {
            0 => drop(self.0),
            1 => drop(self.1),
            2 => drop(other),
            _ => {}
        }
        way
    }}
}

/// The order in which a call drops its arguments.
macro_rules! order {
    ($log:ident => $call:expr) => {{
        let $log = Log::default();
        $call;
        $log.into_inner()
    }};
}

fn main() {
    for way in 0..5 {
        let plain_order =
            order!(log => plain(Noisy(&log, 1), &log, Noisy(&log, 2), Noisy(&log, 3), Noisy(&log, 4), way));
        let order =
            order!(log => probed(Noisy(&log, 1), &log, Noisy(&log, 2), Noisy(&log, 3), Noisy(&log, 4), way));
        assert_eq!(order, plain_order, "way {way}");
        fn pairs(log: &Log) -> ((Noisy<'_>, Noisy<'_>), (Noisy<'_>, Noisy<'_>)) {
            ((Noisy(log, 1), Noisy(log, 2)), (Noisy(log, 3), Noisy(log, 4)))
        }
        let plain_order = order!(log => { let (a, b) = pairs(&log); plain_patterns(a, b, way) });
        let order = order!(log => { let (a, b) = pairs(&log); probed_patterns(a, b, way) });
        assert_eq!(order, plain_order, "patterns, way {way}");
        fn pair(log: &Log) -> (Pair<'_>, Noisy<'_>) {
            (Pair(Noisy(log, 1), Noisy(log, 2)), Noisy(log, 3))
        }
        let plain_order = order!(log => { let (a, b) = pair(&log); a.plain_self(b, way) });
        let order = order!(log => { let (a, b) = pair(&log); a.probed_self(b, way) });
        assert_eq!(order, plain_order, "self, way {way}");
    }
}
