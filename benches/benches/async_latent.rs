//! `async_latent`: what a future that nobody listens to costs, beside the bare one and those of `tracing` and `fastrace` that nobody
//! listens to.

use probe_benches::yielding::{YIELDS, drive};
use probe_benches::{Case, Scale, interleave, pin, timing, yielding};
use probe_runtime::probe;

yielding!(bare);
yielding!(bare_again);
yielding!(
    #[probe]
    probed
);
yielding!(
    #[tracing::instrument(level = "trace")]
    instrumented
);
yielding!(
    #[fastrace::trace]
    traced
);

fn main() {
    let scale = Scale::from_args();
    pin(0);
    assert_eq!(size_of_val(&bare(0)), size_of_val(&probed(0)), "nothing is added to the future");
    for (name, size) in [
        ("bare", size_of_val(&bare(0))),
        ("probe", size_of_val(&probed(0))),
        ("tracing", size_of_val(&instrumented(0))),
        ("fastrace", size_of_val(&traced(0))),
    ] {
        println!("size of a future, {name}: {size} bytes");
    }
    let futures = scale.of(5_000);
    let mut cases = [
        Case::new("bare", futures, |times| (0..times).for_each(|_| drive(bare(YIELDS)))),
        Case::new("bare-again", futures, |times| (0..times).for_each(|_| drive(bare_again(YIELDS)))),
        Case::new("probe", futures, |times| (0..times).for_each(|_| drive(probed(YIELDS)))),
        Case::new("tracing", futures, |times| (0..times).for_each(|_| drive(instrumented(YIELDS)))),
        Case::new("fastrace", futures, |times| (0..times).for_each(|_| drive(traced(YIELDS)))),
    ];
    let medians = interleave(scale.of(2_000), &mut cases);
    for case in medians.names() {
        timing("async_latent", &medians, case, "bare");
    }
}
