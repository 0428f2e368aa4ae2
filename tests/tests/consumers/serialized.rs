//! Feature `serde`: a report serializes to the JSON that it writes: same members, order and units.
//! A process of its own: it counts all hits of its functions.

use probe_runtime::field::Type;
use probe_runtime::perf::{NoEvents, PerfEvent};
use probe_runtime::registry::ProbeState;
use probe_runtime::{
    CallTree, Count, Error, Kind, Latency, Perf, Profiler, Slow, point, probe, probes, select,
};
use serde_json::{Value, from_str, json, to_string, to_value};

#[probe]
fn outer(n: u64) -> u64 {
    point!("within", n);
    inner(n) + 1
}

#[probe(group = "deep", doc = "What is inside.")]
fn inner(n: u64) -> u64 {
    n ^ 1
}

/// Equal, but for decimals: reports have four digits of them, and write 2 for 2.0.
#[track_caller]
fn agree(serialized: &Value, written: &Value) {
    match (serialized, written) {
        (Value::Object(ours), Value::Object(theirs)) => {
            assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
            ours.values().zip(theirs.values()).for_each(|(ours, theirs)| agree(ours, theirs));
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            assert_eq!(ours.len(), theirs.len());
            ours.iter().zip(theirs).for_each(|(ours, theirs)| agree(ours, theirs));
        }
        (Value::Number(ours), Value::Number(theirs)) if ours.is_f64() => {
            let (ours, theirs) = (ours.as_f64().unwrap(), theirs.as_f64().unwrap());
            assert!((ours - theirs).abs() <= 0.000_051, "{ours} is not {theirs}");
        }
        _ => assert_eq!(serialized, written),
    }
}

/// Checks that a report serializes as `to_json` writes. Gives the report, its rows, and each alone.
macro_rules! agrees {
    ($report:expr, $rows:literal) => {{
        let report = $report;
        let (serialized, written) = (to_value(&report).unwrap(), from_str(&report.to_json()).unwrap());
        agree(&serialized, &written);
        let rows = serialized["rows"].as_array().unwrap().clone();
        assert_eq!(rows.len(), $rows, "{serialized}");
        let alone: Vec<_> = report.iter().map(|row| to_value(row).unwrap()).collect();
        (serialized, rows, alone)
    }};
}

fn reports_and_rows() {
    let functions = || select("consumers::serialized::**::outer, consumers::serialized::**::inner").unwrap();
    let hits = select("consumers::serialized::**::inner, consumers::serialized::**::within")
        .unwrap()
        .attach(Count::new())
        .unwrap();
    let latency = functions().attach(Latency::new()).unwrap();
    let slow = functions().attach(Slow::over(std::time::Duration::from_secs(3600))).unwrap();
    let tree = functions().attach(CallTree::new()).unwrap();
    let profiler = functions().attach(Profiler::new()).unwrap();
    assert_eq!((0..100).map(outer).count(), 100);

    let (counts, rows, alone) = agrees!(hits.counts(), 3);
    assert_eq!(alone, rows);
    assert_eq!((&counts["schema"], &counts["consumer"]), (&json!(1), &json!("count")));
    let line = hits.counts()[0].probe.line();
    let expected = json!({
        "probe": "consumers::serialized::inner", "kind": "entry", "file": "tests/tests/consumers/serialized.rs", "line": line, "sites": 1, "hits": 100,
    });
    assert!(rows[0] == expected || rows[0]["sites"] != json!(1), "{} is not {expected}", rows[0]);

    let (latencies, rows, alone) = agrees!(latency.latencies(), 2);
    assert_eq!(alone, rows);
    assert_eq!((&latencies["lost"], &latencies["left_out"]), (&json!(0), &json!([])));
    assert!(rows.iter().all(|row| row["calls"] == 100 && row["max_ns"].is_u64()), "{latencies}");

    // Differences are reports as well.
    let (counts, latencies) = (hits.reset(), latency.reset());
    outer(1);
    let (_, rows, alone) = agrees!(hits.counts(), 3);
    assert_eq!((&alone, &rows[0]["hits"]), (&rows, &json!(1)));
    assert_eq!((counts[0].hits, latencies[0].calls()), (100, 100));
    let (_, rows, alone) = agrees!(latency.latencies(), 2);
    assert_eq!((&alone, &rows[0]["calls"]), (&rows, &json!(1)));

    let (calls, rows, alone) = agrees!(slow.slow_calls(), 2);
    assert_eq!(alone, rows);
    assert_eq!((&rows[0]["slow"], &calls["unsaid"]), (&json!(0), &json!(0)));

    // Only the tree knows the ancestors of a node.
    let (_, mut rows, alone) = agrees!(tree.tree(), 2);
    assert_eq!(rows[1].as_object_mut().unwrap().remove("parent"), Some(json!(0)));
    assert_eq!(alone, rows);

    let (profile, rows, alone) = agrees!(profiler.profile(), 2);
    assert_eq!(alone, rows);
    assert!(rows.iter().all(|row| row["calls"].is_f64() && row["samples"].is_u64()), "{profile}");
    let cost = profiler.profile().cost();
    let names =
        ["beginning_ns", "beginning_share", "calls", "elapsed_ns", "hits_ns", "own_ns", "toggles", "used_ns"];
    assert_eq!(to_value(cost).unwrap().as_object().unwrap().keys().collect::<Vec<_>>(), names);
    let calls = profiler.profile()[0].calls();
    assert_eq!(to_value(calls).unwrap(), json!({"value": calls.value, "error": calls.error}));
}

fn events() {
    let perf = match select("consumers::serialized::**::outer, consumers::serialized::**::inner")
        .unwrap()
        .attach(Perf::of([PerfEvent::PageFaults]))
    {
        Err(Error::Consumer(error)) => {
            let NoEvents(missing) = error.downcast_ref().unwrap();
            let expected: Vec<_> =
                missing.iter().map(|it| json!({"event": it.event().name(), "reason": it.reason()})).collect();
            return assert_eq!(to_value(missing).unwrap(), json!(expected));
        }
        other => other.unwrap(),
    };
    outer(1);
    let (counts, rows, alone) = agrees!(perf.event_counts(), 2);
    assert_eq!(alone, rows);
    assert!(rows[0]["page_faults"].is_u64() && rows[0]["ipc"].is_null(), "{counts}");
}

fn probes_and_batches() {
    outer(1);
    let all = probes();
    let inner = all
        .iter()
        .find(|it| it.path() == "consumers::serialized::inner" && it.kind() == Kind::Entry)
        .unwrap();
    let serialized = to_value(inner).unwrap();
    assert_eq!(serialized["group"], "deep");
    assert_eq!(serialized["doc"], "What is inside.");
    assert_eq!((&serialized["skipped"], &serialized["foreign"]), (&Value::Null, &json!([])));
    assert_eq!(serialized["line"], inner.line());

    let within = all.iter().find(|it| it.path() == "consumers::serialized::within").unwrap();
    let ty = within.fields()[0].ty();
    assert_eq!(to_value(&within.fields()[0]).unwrap(), json!({"name": "n", "type": ty}));
    assert_eq!(to_value(within).unwrap()["fields"], json!([{"name": "n", "type": ty}]));

    assert_eq!(to_value(Kind::ALL).unwrap(), json!(Kind::ALL.map(Kind::name)));
    assert_eq!(to_string(&[ProbeState::Latent, ProbeState::Held]).unwrap(), r#"["latent","held"]"#);
    assert_eq!(to_value([Type::U64, Type::CStr]).unwrap(), json!(["u64", "cstr"]));
    assert_eq!(to_value(PerfEvent::CacheMisses).unwrap(), "cache-misses");

    let hits = select("consumers::serialized::**::within, consumers::serialized::**::nowhere")
        .unwrap()
        .attach(Count::new())
        .unwrap();
    let report = hits.report();
    let expected = json!({
        "patched": report.patched(), "unchanged": report.unchanged(), "refused": 0, "unsealed": 0, "refusals": [], "foreign": [],
        "unmatched": [{"term": "consumers::serialized::**::nowhere", "message": report.unmatched()[0].to_string()}],
    });
    assert_eq!(to_value(report).unwrap(), expected);
}

/// One after the other: they hit the same functions.
#[test]
fn what_is_serialized_is_what_is_written() {
    reports_and_rows();
    events();
    probes_and_batches();
}
