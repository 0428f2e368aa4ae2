//! The first blocks of a process, for probes that an operation takes in another order than theirs:
//! it switches those that it left in one state before those that it left in another. A process of
//! its own, since blocks stay.

use probe_runtime::{Count, Event, probe, select};

macro_rules! functions {
    ($($name:ident)*) => { $(
        #[probe]
        #[inline(never)]
        fn $name() {}
    )* };
}

functions!(a b c d e f g h);

#[test]
fn each_site_gets_one_block_whatever_the_order() {
    // The sites of these have no blocks, and were left latent; no operation has switched the
    // others.
    let told =
        select("consumers::counting_order::b, consumers::counting_order::d, consumers::counting_order::f")
            .unwrap()
            .attach(|_: &Event<'_>| ())
            .unwrap();
    assert!(told.pause().is_complete());
    let hits = select("consumers::counting_order::*").unwrap().attach(Count::new()).unwrap();
    [a, b, c, d, e, f, g, h].iter().for_each(|call| call());
    assert!(hits.counts().iter().all(|count| count.hits == 1), "{hits}");
    assert_eq!(hits.total(), 16);
}
