//! Subscribers of others, and one with probes of its own.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use probe_runtime::tracing::tracing_core::dispatcher::with_default;
use probe_runtime::tracing::tracing_core::{Dispatch, Event, Subscriber};
use probe_runtime::{Tracing, probe, select};
use probe_tests::turn::turn;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::Registry;

/// A writer that keeps all.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_fmt_layer_shows_calls_in_their_spans() {
    let _turn = turn();
    let shown = super::attach(Tracing::new(), super::ALL);
    let written = Written::default();
    let to = written.clone();
    let layer = tracing_subscriber::fmt::layer().with_ansi(false).without_time();
    let layer = layer.with_span_events(FmtSpan::ENTER | FmtSpan::CLOSE).with_writer(move || to.clone());
    let subscriber = Dispatch::new(Registry::default().with(layer));
    with_default(&subscriber, || _ = super::call(8));
    drop(shown);
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let outer = r#"outer{n=8 text="some\ntext" negative=-1 share=0.5 is_on=true"#;
    // The time of a closed span is the layer's.
    let lines: Vec<_> = text.lines().map(|line| line.split(" time.busy").next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            &format!(" INFO {outer}}}: tracing_bridge: enter"),
            &format!(
                " INFO {outer}}}: tracing_bridge: reached half=4 letter=é bytes=[73 6f 6d 65 0a 74 65 78 74] text=some"
            ),
            "text",
            &format!(" INFO {outer}}}:inner: tracing_bridge: enter"),
            &format!(" INFO {outer}}}:inner: tracing_bridge: close"),
            &format!(" INFO {outer} outcome=\"ok\" ret=Ok(8)}}: tracing_bridge: close"),
        ]
    );
}

/// A layer that hits probes.
struct Probed;

impl<S: Subscriber> Layer<S> for Probed {
    fn on_event(&self, _: &Event<'_>, _: Context<'_, S>) {
        observed();
    }
}

#[probe]
#[inline(never)]
fn observed() {
    probe!("watched");
}

#[test]
fn a_subscribers_own_probes_are_suppressed() {
    let _turn = turn();
    observed();
    let set = select("tracing_bridge::subscribers::**").unwrap();
    let shown = set.attach(Tracing::new()).unwrap();
    let subscriber = Dispatch::new(Registry::default().with(Probed));
    with_default(&subscriber, observed);
    let totals = shown.totals();
    // The point in the span hits the layer, whose entry, point and exit reach nobody.
    assert_eq!((totals.spans, totals.events, totals.unpaired), (1, 1, 0));
    assert_eq!(shown.suppressed(), 3);
}
