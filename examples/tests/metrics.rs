//! The example of metrics answers a collector: every request and every load is in the answer.
#![cfg(not(probe_off))]

use probe_examples::Run;

const FILE: &str = "examples/metrics.rs";

#[test]
fn a_collector_gets_every_call() {
    let run = Run::example("metrics").finish();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let (text, otlp) = run.stdout.split_once("\n\nHTTP/1.1").unwrap();
    assert!(
        text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n")
    );
    let (_, text) = text.split_once("\r\n\r\n").unwrap();
    let (head, json) = otlp.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with(" 200 OK\r\nContent-Type: application/json\r\n"), "{head}");

    let value = |sample: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {sample} in {text}")).to_owned()
    };
    for (name, calls) in [("get", "10000"), ("load", "1000")] {
        let labels = format!("probe=\"metrics::Store::{name}\",file=\"{FILE}\"");
        let hits =
            format!("probe_hits_total{{probe=\"metrics::Store::{name}\",kind=\"entry\",file=\"{FILE}\"}}");
        assert_eq!(value(&hits), calls);
        assert_eq!(value(&format!("probe_latency_seconds_count{{{labels}}}")), calls);
        assert_eq!(value(&format!("probe_latency_seconds_bucket{{{labels},le=\"+Inf\"}}")), calls);
        let sum: f64 = value(&format!("probe_latency_seconds_sum{{{labels}}}")).parse().unwrap();
        let own: f64 = value(&format!("probe_self_seconds_total{{{labels}}}")).parse().unwrap();
        assert!(0.0 < own && own <= sum, "{text}");
    }
    assert!(json.contains(r#""name":"probe_latency","#) && json.contains(r#""asInt":"10000""#), "{json}");
}
