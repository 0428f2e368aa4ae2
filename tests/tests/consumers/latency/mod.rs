//! `Latency` and `CallTree` on the machine's clock. Counts are exact; times lie between those that
//! the program itself measures inside of each call and around it; reports show the measured values.

mod readings;

use std::time::Duration;
use std::{process, thread};

use probe_runtime::consumer::Clock;
use probe_runtime::{CallTree, Latency, probe, select};
use probe_tests::scenario::{self, in_a_child};

/// Spins for at least `ticks`; returns the elapsed ticks.
fn spin(clock: Clock, ticks: u64) -> u64 {
    let start = clock.now();
    loop {
        let elapsed = clock.now().saturating_sub(start);
        if elapsed >= ticks {
            return elapsed;
        }
    }
}

/// The program's own measurements of a function's calls.
#[derive(Clone, Copy, Default)]
struct Read {
    calls: u64,
    /// Sums of the ticks measured inside of each call, and around it.
    inside: u64,
    around: u64,
}

impl Read {
    fn call(&mut self, clock: Clock, call: impl FnOnce() -> u64) {
        let start = clock.now();
        let inside = call();
        let around = clock.now().saturating_sub(start);
        *self = Self { calls: self.calls + 1, inside: self.inside + inside, around: self.around + around };
    }
}

mod known {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn outer(clock: Clock, inner_read: &mut Read) -> u64 {
        let start = clock.now();
        spin(clock, 2_000);
        for _ in 0..3 {
            inner_read.call(clock, || inner(clock, 10_000));
        }
        clock.now() - start
    }

    #[probe]
    #[inline(never)]
    pub fn inner(clock: Clock, ticks: u64) -> u64 {
        spin(clock, ticks)
    }
}

#[test]
fn sums_lie_between_what_is_read_inside_and_around() {
    let clock = Clock::new();
    let latency = select("consumers::latency::known::*").unwrap().attach(Latency::new()).unwrap();
    let reads = thread::scope(|scope| {
        let worker = || {
            let (mut outer, mut inner) = (Read::default(), Read::default());
            for _ in 0..200 {
                outer.call(clock, || known::outer(clock, &mut inner));
            }
            [outer, inner]
        };
        let workers = [(); 3].map(|()| scope.spawn(worker));
        workers.map(|worker| worker.join().unwrap())
    });
    let latencies = latency.latencies();
    let scale = clock.scale();
    for (at, path) in
        ["consumers::latency::known::outer", "consumers::latency::known::inner"].into_iter().enumerate()
    {
        let sum = |of: fn(Read) -> u64| reads.iter().map(|reads| of(reads[at])).sum::<u64>();
        let found = latencies.function(path).unwrap();
        assert_eq!(found.calls(), sum(|read| read.calls));
        let (inside, around) = (sum(|read| read.inside), sum(|read| read.around));
        // The clock's scale is measured twice; both agree to a few millionths.
        let [least, most] = [inside, around].map(|ticks| scale.nanoseconds(ticks));
        assert!(
            (least - least / 10_000..=most + most / 10_000).contains(&found.total()),
            "{path}: {least} {found:?} {most}"
        );
        assert_eq!(found.busy(), found.total());
        assert!(found.min() <= found.mean() && found.mean() <= found.max());
        assert_eq!(found.unpaired().total(), 0);
    }
    let [outer, inner] = ["outer", "inner"]
        .map(|name| latencies.function(&format!("consumers::latency::known::{name}")).unwrap());
    assert!(outer.own().abs_diff(outer.total() - inner.total()) <= 2, "{latencies}");
    assert_eq!(inner.own(), inner.total());
    // Each call spins for at least that long, and most for no longer.
    let least = scale.nanoseconds(10_000);
    assert!(inner.min() >= least - least / 1000);
    let median = inner.quantile(0.5);
    assert!(median >= least - least / 50, "{median} {least}");
    assert!(latency.failure().is_none() && latencies.lost() == 0);
}

mod spread {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn work(clock: Clock, ticks: u64) -> u64 {
        spin(clock, ticks)
    }
}

/// Quantiles lie between those of the times measured inside of each call and around it, within the
/// width of a bucket.
#[test]
fn quantiles_are_as_exact_as_they_say() {
    let clock = Clock::new();
    let latency = select("consumers::latency::spread::*").unwrap().attach(Latency::new()).unwrap();
    let (mut inside, mut around) = (Vec::new(), Vec::new());
    for n in 0..2_000_u64 {
        let start = clock.now();
        inside.push(spread::work(clock, 500 + n * n % 50_000));
        around.push(clock.now() - start);
    }
    let (latencies, scale) = (latency.latencies(), clock.scale());
    let found = latencies.function("consumers::latency::spread::work").unwrap();
    assert_eq!((found.calls(), found.histogram().len()), (2_000, 2_000));
    for times in [&mut inside, &mut around] {
        times.sort_unstable();
    }
    for part in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0] {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank below 2,000")]
        let rank = ((part * 2_000.0_f64).ceil() as usize).max(1) - 1;
        let [least, most] = [inside[rank], around[rank]].map(|ticks| scale.nanoseconds(ticks));
        let quantile = found.quantile(part);
        let slack = |time: u64| time / 50 + 1;
        assert!(
            (least - slack(least)..=most + slack(most)).contains(&quantile),
            "{part}: {least} {quantile} {most}"
        );
    }
}

mod tree {
    use super::*;

    #[probe]
    #[inline(never)]
    pub fn run(depth: u64) {
        left(depth);
        right(depth);
    }

    #[probe]
    #[inline(never)]
    pub fn left(depth: u64) {
        leaf();
        if depth > 0 {
            run(depth - 1);
        }
    }

    #[probe]
    #[inline(never)]
    pub fn right(_: u64) {
        (0..3).for_each(|_| leaf());
    }

    #[probe]
    #[inline(never)]
    pub fn leaf() {
        spin(Clock::new(), 1_000);
    }
}

/// Returns the nodes' indented names and calls.
fn shape(tree: &probe_runtime::call_tree::Tree) -> Vec<(String, u64)> {
    let mut shape: Vec<_> = Vec::new();
    let mut open: Vec<String> = Vec::new();
    for node in tree {
        open.truncate(node.depth());
        open.push(node.name().trim_start_matches("consumers::latency::tree::").to_owned());
        shape.push((open.join(" "), node.calls()));
    }
    shape.sort();
    shape
}

#[test]
fn the_tree_is_who_called_whom() {
    let set = select("consumers::latency::tree::*").unwrap();
    let calls = set.attach(CallTree::new().unfolded()).unwrap();
    let folded = set.attach(CallTree::new()).unwrap();
    let cut = set.attach(CallTree::new().depth(2)).unwrap();
    let builder = |name: &str| thread::Builder::new().name(name.to_owned());
    thread::scope(|scope| {
        builder("one").spawn_scoped(scope, || tree::run(1)).unwrap();
        builder("two").spawn_scoped(scope, || (0..5).for_each(|_| tree::run(0))).unwrap();
    });
    let merged = calls.tree();
    let expected = [
        ("run", 6),
        ("run left", 6),
        ("run left leaf", 6),
        ("run left run", 1),
        ("run left run left", 1),
        ("run left run left leaf", 1),
        ("run left run right", 1),
        ("run left run right leaf", 3),
        ("run right", 6),
        ("run right leaf", 18),
    ];
    assert_eq!(shape(&merged), expected.map(|(name, calls)| (name.to_owned(), calls)));
    // A recursive `run` is merged with the outer one, and so are its callees.
    let folded = folded.tree();
    let expected =
        [("run", 7), ("run left", 7), ("run left leaf", 7), ("run right", 7), ("run right leaf", 21)];
    assert_eq!(shape(&folded), expected.map(|(name, calls)| (name.to_owned(), calls)));
    assert_eq!((folded[0].recursive_calls(), folded[0].recursion_depth()), (1, 1));
    assert!(folded.iter().skip(1).all(|node| node.recursive_calls() == 0));
    assert!(folded.to_string().contains("run (recursive: 1 call, 1 deep)"), "{folded}");
    let own: u64 = folded.iter().map(probe_runtime::call_tree::TreeNode::own).sum();
    assert!(own.abs_diff(folded.total()) <= folded.len() as u64);
    let cut = cut.tree();
    assert_eq!(
        cut.iter().map(|node| (node.depth(), node.below())).collect::<Vec<_>>(),
        [(0, 0), (1, 1), (1, 1)]
    );
    // The time of a node includes its callees', up to rounding by one tick.
    let leaves = merged.iter().filter(|node| node.name().ends_with("leaf"));
    assert!(leaves.clone().all(|leaf| leaf.own() == leaf.total()));
    let own: u64 = merged.iter().map(probe_runtime::call_tree::TreeNode::own).sum();
    assert!(own.abs_diff(merged.total()) <= merged.len() as u64);
    assert_eq!(merged.lost(), 0);

    let threads = calls.threads();
    let roots: Vec<_> = threads.iter().filter(|node| node.depth() == 0).collect();
    assert!(roots.iter().all(|root| root.is_thread()));
    if cfg!(probe_portable) {
        // The standard library can't tell the name of another thread.
        assert_eq!(roots.len(), 2);
        return;
    }
    let names: Vec<_> = roots.iter().map(|root| root.name().split(" (").next().unwrap()).collect();
    assert!(names.contains(&"one") && names.contains(&"two") && names.len() == 2, "{names:?}");
    let leaves = |of: &str| {
        let from = threads.iter().position(|node| node.name().starts_with(of)).unwrap();
        let below = threads.as_slice()[from + 1..].iter().take_while(|node| node.depth() > 0);
        below
            .filter(|node| node.name().ends_with("leaf"))
            .map(probe_runtime::call_tree::TreeNode::calls)
            .sum::<u64>()
    };
    assert_eq!((leaves("one"), leaves("two")), (8, 20));
}

mod both {
    use super::*;

    #[probe]
    pub fn work() {
        spin(Clock::new(), 100);
    }
}

/// Two consumers on one probe, with reports read during calls, and a fork in between.
#[test]
fn reports_are_read_while_threads_go_on() {
    let set = select("consumers::latency::both::*").unwrap();
    let (latency, calls) = (set.attach(Latency::new()).unwrap(), set.attach(CallTree::new()).unwrap());
    thread::scope(|scope| {
        let workers = [(); 2].map(|()| scope.spawn(|| (0..20_000).for_each(|_| both::work())));
        let mut before = 0;
        while !workers.iter().all(thread::ScopedJoinHandle::is_finished) {
            let now = latency.latencies()[0].calls();
            assert!((before..=40_000).contains(&now), "{before} {now}");
            before = now;
            let _ = (latency.to_string(), calls.tree().to_svg());
        }
    });
    let status = in_a_child(|| {
        both::work();
        assert_eq!((latency.latencies()[0].calls(), calls.tree()[0].calls()), (40_001, 40_001));
        drop(set.attach(Latency::new()).unwrap());
    });
    assert_eq!(status, 0);
    assert_eq!((latency.latencies()[0].calls(), calls.tree()[0].calls()), (40_000, 40_000));
    let csv = latency.latencies().to_csv();
    let row: Vec<_> = csv.lines().nth(1).unwrap().split(',').collect();
    assert_eq!((row[0], row[3], row[4]), ("consumers::latency::both::work", "false", "40000"));
    assert!(latency.latencies().to_json().contains("\"calls\":40000,"));
    let table = latency.to_string();
    assert!(table.starts_with("function                        calls  "), "{table}");
    assert_eq!(table.lines().count(), 2);
}

/// The process ends while threads are inside of calls.
#[test]
fn a_process_may_exit_meanwhile() {
    let output = scenario::play("exit", &[]);
    assert_eq!(output.status.code(), Some(7), "{}", scenario::said(&output));
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let _ = scenario::to_play();
    let set = select("consumers::latency::both::*").unwrap();
    let attached = (set.attach(Latency::new()).unwrap(), set.attach(CallTree::new()).unwrap());
    for _ in 0..2 {
        thread::spawn(|| {
            loop {
                both::work();
            }
        });
    }
    while attached.0.latencies()[0].calls() < 1000 {
        thread::sleep(Duration::from_millis(1));
    }
    process::exit(7);
}
