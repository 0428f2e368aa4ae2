//! A subscriber that writes down each call.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use probe_runtime::tracing::tracing_core::field::{Field, Visit};
use probe_runtime::tracing::tracing_core::span::{Attributes, Id, Record};
use probe_runtime::tracing::tracing_core::subscriber::Interest;
use probe_runtime::tracing::tracing_core::{Dispatch, Event, Metadata, Subscriber};

/// The record of a subscriber.
#[derive(Clone)]
pub struct Recorder(Arc<Recorded>);

struct Recorded {
    lines: Mutex<Vec<String>>,
    wants: fn(&Metadata<'_>) -> bool,
    /// Whether it is asked each time.
    is_asked: bool,
    asked: AtomicUsize,
    registered: AtomicUsize,
    spans: AtomicU64,
}

impl Recorder {
    /// Returns a record, and its subscriber, which wants these spans and events.
    pub fn new(wants: fn(&Metadata<'_>) -> bool) -> (Self, Dispatch) {
        Self::with(wants, false)
    }

    /// The same for a subscriber that is asked at each hit.
    pub fn sometimes(wants: fn(&Metadata<'_>) -> bool) -> (Self, Dispatch) {
        Self::with(wants, true)
    }

    fn with(wants: fn(&Metadata<'_>) -> bool, is_asked: bool) -> (Self, Dispatch) {
        let recorder = Self(Arc::new(Recorded {
            lines: Mutex::default(),
            wants,
            is_asked,
            asked: AtomicUsize::new(0),
            registered: AtomicUsize::new(0),
            spans: AtomicU64::new(0),
        }));
        (recorder.clone(), Dispatch::new(recorder))
    }

    pub fn lines(&self) -> Vec<String> {
        self.0.lines.lock().unwrap().clone()
    }

    pub fn asked(&self) -> usize {
        self.0.asked.load(Relaxed)
    }

    pub fn registered(&self) -> usize {
        self.0.registered.load(Relaxed)
    }

    fn line(&self, line: String) {
        self.0.lines.lock().unwrap().push(line);
    }
}

/// Appends fields to a line.
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.text(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.text(field, value);
    }
}

impl Fields {
    fn text(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => write!(self.0, " {value}").unwrap(),
            name => write!(self.0, " {name}={value}").unwrap(),
        }
    }
}

fn head(metadata: &Metadata<'_>) -> String {
    format!("{} {}", metadata.level(), metadata.target())
}

impl Subscriber for Recorder {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        self.0.registered.fetch_add(1, Relaxed);
        match (self.0.is_asked, (self.0.wants)(metadata)) {
            (true, _) => Interest::sometimes(),
            (false, true) => Interest::always(),
            (false, false) => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.asked.fetch_add(1, Relaxed);
        (self.0.wants)(metadata)
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let id = self.0.spans.fetch_add(1, Relaxed) + 1;
        let metadata = attributes.metadata();
        let mut fields = Fields(format!("new {id} {} {}", head(metadata), metadata.name()));
        attributes.record(&mut fields);
        self.line(fields.0);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        let mut fields = Fields(format!("record {}", span.into_u64()));
        values.record(&mut fields);
        self.line(fields.0);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields(format!("event {}", head(event.metadata())));
        event.record(&mut fields);
        self.line(fields.0);
    }

    fn enter(&self, span: &Id) {
        self.line(format!("enter {}", span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        self.line(format!("exit {}", span.into_u64()));
    }

    fn try_close(&self, span: Id) -> bool {
        self.line(format!("close {}", span.into_u64()));
        true
    }
}
