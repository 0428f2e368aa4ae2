//! `async_active`: the cost of a future of ten polls when all hits are seen (its entry, nine
//! suspensions and resumptions, its exit). The baselines are `tracing` with a subscriber that only
//! counts, and `fastrace` with a reporter that drops its input.

use std::cell::Cell;

use fastrace::Span;
use fastrace::collector::{Config, Reporter, SpanContext, SpanRecord};
use probe_benches::spans::Spans;
use probe_benches::yielding::{YIELDS, drive};
use probe_benches::{Case, Scale, interleave, pin, timing, yielding};
use probe_runtime::{Consumer, Count, Event, probe, select};

yielding!(bare);
yielding!(
    #[probe]
    counted
);
yielding!(
    #[probe]
    consumed
);
yielding!(
    #[tracing::instrument(level = "trace", skip_all)]
    instrumented
);
yielding!(
    #[fastrace::trace]
    traced
);

thread_local! {
    static SEEN: Cell<u64> = const { Cell::new(0) };
    static ENTERED: Cell<u64> = const { Cell::new(0) };
}

/// The smallest consumer.
struct Seen;

impl Consumer for Seen {
    fn hit(&self, _event: &Event<'_>) {
        SEEN.set(SEEN.get() + 1);
    }
}

struct Dropping;

impl Reporter for Dropping {
    fn report(&mut self, _: Vec<SpanRecord>) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scale = Scale::from_args();
    pin(0);
    let count = || ENTERED.set(ENTERED.get() + 1);
    tracing::subscriber::set_global_default(Spans { enter: count, exit: count })?;
    fastrace::set_reporter(Dropping, Config::default());
    let counts = select("**::counted")?.attach(Count::new())?;
    let _seen = select("**::consumed")?.attach(Seen)?;
    let (futures, rounds) = (scale.of(2_000), scale.of(500));
    let mut cases = [
        Case::new("bare", futures, |times| (0..times).for_each(|_| drive(bare(YIELDS)))),
        Case::new("count", futures, |times| (0..times).for_each(|_| drive(counted(YIELDS)))),
        Case::new("consumer", futures, |times| (0..times).for_each(|_| drive(consumed(YIELDS)))),
        Case::new("tracing", futures, |times| (0..times).for_each(|_| drive(instrumented(YIELDS)))),
        Case::new("fastrace", futures, |times| {
            for _ in 0..times {
                let root = Span::root("root", SpanContext::random());
                let _guard = root.set_local_parent();
                drive(traced(YIELDS));
            }
        }),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("async_active", &medians, case, "tracing");
    }
    let hits = futures * (rounds + 1) * 2 * u64::from(YIELDS + 1);
    // `tracing` also enters a span to drop the future in it.
    assert_eq!((counts.total(), SEEN.get()), (hits, hits), "no hit is lost");
    assert!(ENTERED.get() >= hits);
    Ok(())
}
