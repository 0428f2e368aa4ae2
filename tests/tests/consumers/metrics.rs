//! Metrics for a collector: exact numbers that never decrease.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use probe_runtime::metrics::{Exporter, Measured, MetricValue, Metrics};
use probe_runtime::{Attachment, Consumer, Count, Event, Latency, probe, select};

/// The values of a family, by its labels.
fn values(metrics: &Metrics, name: &str) -> Vec<(String, MetricValue)> {
    let family = metrics.families().find(|family| family.name() == name);
    let labels = |labels: &[(&str, String)]| {
        labels.iter().filter(|(name, _)| *name != "file").map(|(_, value)| value.clone()).collect::<Vec<_>>()
    };
    family.map_or_else(Vec::new, |family| {
        family.series().map(|series| (labels(series.labels).join(" "), series.value.clone())).collect()
    })
}

fn counts(metrics: &Metrics, name: &str) -> Vec<(String, u64)> {
    let count = |(labels, value)| match value {
        MetricValue::Count(count) => (labels, count),
        MetricValue::Histogram(it) => (labels, it.calls()),
        value => panic!("{value:?}"),
    };
    values(metrics, name).into_iter().map(count).collect()
}

mod monotone {
    use super::*;

    // Each test has functions of its own: they run at the same time.
    #[probe]
    #[inline(never)]
    fn work() {}

    #[probe]
    #[inline(never)]
    fn quick() {}

    fn times(calls: u64) {
        (0..calls).for_each(|_| work());
    }

    #[test]
    fn counters_go_on_through_pauses_and_new_attachments() {
        let exporter = Exporter::new();
        let select = || select("consumers::metrics::monotone::work").unwrap();
        let hits = |n| {
            ["entry", "exit"].map(|kind| (format!("consumers::metrics::monotone::work {kind}"), n)).to_vec()
        };
        let hit = || counts(&exporter.collect(), "probe_hits_total");
        assert_eq!(hit(), []);
        let count = exporter.watch(select().attach(Count::new()).unwrap());
        assert_eq!(hit(), hits(0));
        times(3);
        assert_eq!(hit(), hits(3));
        count.pause();
        times(5);
        assert_eq!(hit(), hits(3));
        count.resume();
        times(2);
        assert_eq!(hit(), hits(5));
        assert_eq!(count.total(), 10, "entries and exits");
        times(1);
        // Values that were not collected before the drop are included.
        drop(count);
        assert_eq!(hit(), hits(6));
        times(7);
        assert_eq!(hit(), hits(6));
        let again = exporter.watch(select().attach(Count::new()).unwrap());
        times(4);
        assert_eq!(hit(), hits(10));
        let other = exporter.clone();
        drop((again, exporter));
        assert_eq!(counts(&other.collect(), "probe_hits_total"), hits(10));
    }

    #[probe]
    #[inline(never)]
    fn reset() {}

    #[test]
    fn counters_go_on_through_resets() {
        let exporter = Exporter::new();
        let set = select("consumers::metrics::monotone::reset").unwrap();
        let count = exporter.watch(set.attach(Count::new()).unwrap());
        let latency = exporter.watch(set.attach(Latency::new()).unwrap());
        (0..3).for_each(|_| reset());
        assert_eq!((count.reset().total(), latency.reset()[0].calls()), (6, 3));
        (0..2).for_each(|_| reset());
        assert_eq!((count.total(), latency.latencies()[0].calls()), (4, 2));
        let metrics = exporter.collect();
        let hits = ["entry", "exit"].map(|kind| (format!("consumers::metrics::monotone::reset {kind}"), 5));
        assert_eq!(counts(&metrics, "probe_hits_total"), hits);
        let calls = vec![("consumers::metrics::monotone::reset".to_owned(), 5)];
        assert_eq!(counts(&metrics, "probe_latency_seconds"), calls);
        drop((count, latency));
        assert_eq!(counts(&exporter.collect(), "probe_latency_seconds"), calls);
    }

    #[test]
    fn so_do_histograms_and_sums() {
        let exporter = Exporter::new();
        let mut before = exporter.collect();
        let mut calls = 0;
        for round in 0..5 {
            let select = select("consumers::metrics::monotone::quick").unwrap();
            let latency = exporter.watch(select.attach(Latency::new()).unwrap());
            for _ in 0..20 {
                let more = if round == 3 { 0 } else { 100 };
                (0..more).for_each(|_| quick());
                calls += more;
                // The length of a tick is known better from time to time.
                thread::sleep(Duration::from_millis(1));
                let now = exporter.collect();
                let of = |metrics: &Metrics| counts(metrics, "probe_latency_seconds");
                assert_eq!(of(&now), [("consumers::metrics::monotone::quick".to_owned(), calls)]);
                not_less(&before, &now);
                before = now;
            }
            latency.pause();
            not_less(&before, &exporter.collect());
        }
        not_less(&before, &exporter.collect());
    }

    #[probe]
    #[inline(never)]
    fn said() {}

    /// Reports given values: a number, and calls by their time.
    struct Says(Mutex<(u64, Vec<(u64, u64)>)>);

    impl Consumer for Says {
        fn hit(&self, _event: &Event<'_>) {}
    }

    impl Measured for Says {
        fn measure(says: &Attachment<Self>, into: &mut Metrics) {
            let (number, times) = &*says.0.lock().unwrap();
            into.count("says_total", "A count.", &[], *number);
            into.time("says_seconds_total", "A time.", &[], *number);
            into.histogram("says_seconds", "Calls.", &[], *number, times);
            into.gauge("says", "A gauge.", &[], f64::from(u32::try_from(*number).unwrap()));
        }
    }

    /// As when a tick turns out to be shorter than it was thought to be.
    #[test]
    fn what_becomes_less_by_a_digit_stays_what_it_was() {
        said();
        let exporter = Exporter::with_bounds([1, 2].map(Duration::from_micros));
        let attach = |number, times| {
            let probes = select("consumers::metrics::monotone::said").unwrap();
            exporter.watch(probes.attach(Says(Mutex::new((number, times)))).unwrap())
        };
        let numbers = || {
            let metrics = exporter.collect();
            let value = |name| values(&metrics, name).pop().map(|(_, value)| value);
            let Some(MetricValue::Histogram(it)) = value("says_seconds") else { panic!("{metrics:?}") };
            let histogram =
                (it.sum(), it.calls(), it.cumulative().map(|(_, calls)| calls).collect::<Vec<_>>());
            let time = value("says_seconds_total");
            (counts(&metrics, "says_total")[0].1, time, histogram, value("says"))
        };
        let all = |number, histogram, gauge: Option<f64>| {
            (number, Some(MetricValue::Nanoseconds(number)), histogram, gauge.map(MetricValue::Gauge))
        };
        let says = attach(10, vec![(900, 3), (1_900, 1), (3_000, 1)]);
        assert_eq!(numbers(), all(10, (10, 5, vec![3, 4]), Some(10.0)));
        *says.0.lock().unwrap() = (9, vec![(1_001, 3), (1_900, 1), (3_000, 1)]);
        assert_eq!(numbers(), all(10, (10, 5, vec![3, 4]), Some(9.0)));
        *says.0.lock().unwrap() = (11, vec![(900, 4), (3_000, 2)]);
        assert_eq!(numbers(), all(11, (11, 6, vec![4, 4]), Some(11.0)));
        drop(says);
        assert_eq!(numbers(), all(11, (11, 6, vec![4, 4]), None), "what is, is no more; what was, stays");
        let _says = attach(2, vec![(1_000, 1), (2_000, 1)]);
        assert_eq!(numbers(), all(13, (13, 8, vec![5, 6]), Some(2.0)));
    }

    fn not_less(before: &Metrics, now: &Metrics) {
        for family in before.families() {
            let now = values(now, family.name());
            for (labels, before) in values(before, family.name()) {
                let now = &now.iter().find(|(known, _)| *known == labels).expect("it does not go").1;
                match (&before, now) {
                    (MetricValue::Nanoseconds(before), MetricValue::Nanoseconds(now)) => {
                        assert!(now >= before);
                    }
                    (MetricValue::Histogram(before), MetricValue::Histogram(now)) => {
                        assert!(now.sum() >= before.sum() && now.calls() >= before.calls());
                        let mut below = 0;
                        for ((bound, before), (same, now)) in before.cumulative().zip(now.cumulative()) {
                            assert!(bound == same && now >= before && now >= below);
                            below = now;
                        }
                        assert!(now.calls() >= below);
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}

mod kinds {
    use super::*;

    #[probe]
    #[inline(never)]
    fn said() {}

    /// Two consumers that use one name for different things.
    struct Counts;
    struct Times;

    impl Consumer for Counts {
        fn hit(&self, _event: &Event<'_>) {}
    }

    impl Consumer for Times {
        fn hit(&self, _event: &Event<'_>) {}
    }

    impl Measured for Counts {
        fn measure(_: &Attachment<Self>, into: &mut Metrics) {
            into.count("things", "Of both.", &[("of", "counts")], 3);
        }
    }

    impl Measured for Times {
        fn measure(_: &Attachment<Self>, into: &mut Metrics) {
            into.histogram("things", "Of both.", &[("of", "times")], 7, &[(7, 1)]);
        }
    }

    #[test]
    fn a_name_is_of_the_kind_that_was_told_first() {
        said();
        let probes = || select("consumers::metrics::kinds::said").unwrap();
        for counts_goes_first in [true, false] {
            let exporter = Exporter::new();
            let told = || exporter.collect().to_prometheus();
            let mut counts = Some(exporter.watch(probes().attach(Counts).unwrap()));
            let mut times = Some(exporter.watch(probes().attach(Times).unwrap()));
            let expected = "# HELP things Of both.\n# TYPE things counter\nthings{of=\"counts\"} 3\n";
            assert_eq!(told(), expected);
            for goes_first in [true, false] {
                if goes_first == counts_goes_first {
                    drop(counts.take());
                } else {
                    drop(times.take());
                }
                assert_eq!(told(), expected);
            }
        }
    }
}

mod exact {
    use super::*;

    #[probe]
    #[inline(never)]
    fn sleeps() {
        thread::sleep(Duration::from_millis(12));
    }

    #[probe]
    #[inline(never)]
    fn returns(n: u64) -> u64 {
        std::hint::black_box(n)
    }

    #[probe]
    async fn waits() {
        std::future::ready(()).await;
    }

    #[probe]
    async fn is_cancelled() {
        std::future::pending::<()>().await;
    }

    #[probe]
    #[inline(never)]
    fn never(n: u64) -> u64 {
        n
    }

    fn poll_once(future: impl Future) {
        let mut future = std::pin::pin!(future);
        let _ = future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    }

    #[test]
    fn numbers_are_those_of_the_report() {
        let exporter = Exporter::with_bounds([10, 1_000, 3_600_000].map(Duration::from_millis));
        let latency =
            exporter.watch(select("consumers::metrics::exact::**").unwrap().attach(Latency::new()).unwrap());
        (0..3).for_each(|_| sleeps());
        assert_eq!((0..1000).map(returns).sum::<u64>(), 499_500);
        (0..4).for_each(|_| poll_once(waits()));
        (0..2).for_each(|_| poll_once(is_cancelled()));
        latency.pause();
        assert_eq!(never(1), 1);
        // Both with the same length of a tick, or as good as.
        let (metrics, latencies) = (exporter.collect(), latency.latencies());
        let path = |name: &str| format!("consumers::metrics::exact::{name}");

        let of_calls = counts(&metrics, "probe_latency_seconds");
        let calls = [("is_cancelled", 0), ("returns", 1000), ("sleeps", 3), ("waits", 4)];
        assert_eq!(
            of_calls,
            calls.map(|(name, calls)| (path(name), calls)),
            "what was never called is no series"
        );
        let bound = |name: &str| {
            let all = values(&metrics, "probe_latency_seconds");
            let (_, value) = all.into_iter().find(|(labels, _)| *labels == path(name)).unwrap();
            let MetricValue::Histogram(it) = value else { panic!("{value:?}") };
            it.cumulative().collect::<Vec<_>>()
        };
        let (short, long) = (10_000_000, 3_600_000_000_000);
        assert_eq!((bound("sleeps")[0], bound("sleeps")[2]), ((short, 0), (long, 3)), "all sleep longer");
        assert_eq!(bound("returns")[2], (long, 1000));

        let near = |exported: u64, reported: u64| {
            assert!(exported.abs_diff(reported) <= reported / 1000 + 1, "{exported} {reported}");
        };
        for (labels, value) in values(&metrics, "probe_latency_seconds") {
            let MetricValue::Histogram(it) = value else { panic!("{value:?}") };
            near(it.sum(), latencies.function(&labels).unwrap().total());
        }
        for (labels, value) in values(&metrics, "probe_self_seconds_total") {
            let MetricValue::Nanoseconds(own) = value else { panic!("{value:?}") };
            near(own, latencies.function(&labels).unwrap().own());
        }
        let cancelled = counts(&metrics, "probe_cancelled_futures_total");
        assert_eq!(cancelled, [(path("is_cancelled"), 2), (path("waits"), 0)]);
        let pending = values(&metrics, "probe_pending_futures");
        assert_eq!(pending, ["is_cancelled", "waits"].map(|it| (path(it), MetricValue::Gauge(0.0))));
        let of_futures = values(&metrics, "probe_busy_seconds_total").into_iter().map(|(labels, _)| labels);
        assert_eq!(of_futures.collect::<Vec<_>>(), ["is_cancelled", "waits"].map(path));
    }
}
