//! Arguments are dropped after locals, in the reverse of their order, whichever of them was moved, as they are without a probe.

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

twice! { plain, probed, (log: &Log, a: Noisy<'_>, _: Noisy<'_>, b: Noisy<'_>, _c: Noisy<'_>, way: u32) -> u32 {
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

twice! { plain_patterns, probed_patterns, ((a, _): (Noisy<'_>, Noisy<'_>), Pair(_, d): Pair<'_>, way: u32) -> u32 {
    if way == 1 {
        drop(a);
    } else if way == 2 {
        drop(d);
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

fn main() {
    for way in 0..5 {
        let [a, b] = [plain, probed].map(|f| {
            let log = RefCell::default();
            f(&log, Noisy(&log, 1), Noisy(&log, 2), Noisy(&log, 3), Noisy(&log, 4), way);
            log.into_inner()
        });
        assert_eq!(a, b, "way {way}");
        let [a, b] = [plain_patterns, probed_patterns].map(|f| {
            let log = RefCell::default();
            f((Noisy(&log, 1), Noisy(&log, 2)), Pair(Noisy(&log, 3), Noisy(&log, 4)), way);
            log.into_inner()
        });
        assert_eq!(a, b, "patterns, way {way}");
        let [a, b] = [Pair::plain_self, Pair::probed_self].map(|f| {
            let log = RefCell::default();
            f(Pair(Noisy(&log, 1), Noisy(&log, 2)), Noisy(&log, 3), way);
            log.into_inner()
        });
        assert_eq!(a, b, "self, way {way}");
    }
}
