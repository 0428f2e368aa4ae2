//! `predicates`: a hit that a predicate on one number lets through, and one that is counted by a
//! number or by a text, beside a hit that is delivered to the smallest consumer. An interval of two
//! hits by a number, beside a call whose latency is measured by one.

use std::cell::Cell;
use std::hint::black_box;

use probe_benches::{Case, Scale, figure, interleave, pin, timing};
use probe_runtime::aggregate::Group;
use probe_runtime::{Aggregate, Consumer, Event, point, probe, select};

thread_local! {
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

/// The smallest consumer.
struct Seen;

impl Consumer for Seen {
    fn hit(&self, _event: &Event<'_>) {
        SEEN.with(|seen| seen.set(seen.get() + 1));
    }
}

/// Functions with one point each, which has the same two fields in all.
macro_rules! points {
    ($($name:ident $point:literal),*) => {$(
        #[inline(never)]
        fn $name(calls: u64) {
            for call in 0..calls {
                let (bytes, path) = (black_box(2000 + call), black_box("/index.html"));
                point!($point, bytes = bytes, path = path, kind = bytes % 16);
            }
        }
    )*};
}

points!(
    latent "latent", delivered "delivered", filtered "filtered", rejected "rejected",
    by_number_hits "by_number", by_text_hits "by_text", summed_hits "summed"
);

#[probe(args(lock))]
#[inline(never)]
fn called(lock: u64) {
    black_box(lock);
}

#[inline(never)]
fn timed(calls: u64) {
    (0..calls).for_each(|call| called(call % 16));
}

#[inline(never)]
fn held(calls: u64) {
    for lock in (0..calls).map(|call| call % 16) {
        point!("took", lock = lock);
        black_box(lock);
        point!("gave", lock = lock);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scale = Scale::from_args();
    pin(0);
    let (calls, rounds) = (scale.of(20_000), scale.of(1_000));
    let set = |point: &str| select(&format!("**::{point}"));
    let _delivered = set("delivered")?.attach(Seen)?;
    let _filtered = set("filtered")?.attach_if(&"bytes > 1024".parse()?, Seen)?;
    let _rejected = set("rejected")?.attach_if(&"bytes < 1024".parse()?, Seen)?;
    let by_number = set("by_number")?.attach(Aggregate::new("count by(kind)")?)?;
    let by_text = set("by_text")?.attach(Aggregate::new("count by(path)")?)?;
    let summed = set("summed")?.attach(Aggregate::new("sum(bytes)")?)?;
    let timed_calls = set("called")?.attach(Aggregate::new("latency by(lock)")?)?;
    let both = select("**::took, **::gave")?;
    let intervals = both.attach(Aggregate::new("until(**::gave) by(lock)")?)?;
    let mut cases = [
        Case::new("latent", calls, latent),
        Case::new("delivered", calls, delivered),
        Case::new("filtered", calls, filtered),
        Case::new("rejected", calls, rejected),
        Case::new("by-number", calls, by_number_hits),
        Case::new("by-text", calls, by_text_hits),
        Case::new("summed", calls, summed_hits),
        Case::new("latency-by-number", calls, timed),
        Case::new("until-by-number", calls, held),
    ];
    let medians = interleave(rounds, &mut cases);
    for case in medians.names() {
        timing("predicates", &medians, case, "delivered");
    }
    for (name, case) in
        [("one-number", "filtered"), ("count-by-number", "by-number"), ("count-by-text", "by-text")]
    {
        let more = medians.ns(case) - medians.ns("delivered");
        let ratio = medians.ratio(case, "delivered");
        figure(
            &format!("predicates/{name}-over-delivered"),
            format_args!("{more:.2}"),
            "ns",
            ratio,
            "delivered",
        );
    }
    let (pair, ratio) =
        (medians.ns("until-by-number"), medians.ratio("until-by-number", "latency-by-number"));
    figure("predicates/until-by-number", format_args!("{pair:.2}"), "ns", ratio, "latency-by-number");
    let expected = calls * (rounds + 1);
    assert_eq!(SEEN.get(), 2 * expected, "no hit is lost");
    for counts in [by_number, by_text, summed, timed_calls, intervals] {
        assert_eq!(counts.groups().iter().map(Group::count).sum::<u64>(), expected, "no hit is lost");
    }
    Ok(())
}
