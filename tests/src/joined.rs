//! A consumer that the environment may name: it counts hits of probes that have joined.

use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::spec::{Format, ParseError, Rendered, Reporter, Setting};
use probe_runtime::{Attachment, Consumer, Event};

/// The consumer `joined`, for `register`.
#[derive(Debug)]
pub struct Joined;

static HITS: AtomicU64 = AtomicU64::new(0);

impl Joined {
    /// Returns the hits of all consumers of this kind.
    pub fn hits() -> u64 {
        HITS.load(Ordering::Relaxed)
    }
}

impl Consumer for Joined {
    fn hit(&self, _: &Event<'_>) {
        HITS.fetch_add(1, Ordering::Relaxed);
    }
}

impl Reporter for Joined {
    const NAME: &'static str = "joined";
    const ABOUT: &'static str = "hits";

    fn from_settings(_: &[Setting<'_>]) -> Result<Self, ParseError> {
        Ok(Self)
    }

    fn report(_: &Attachment<Self>, _: Format) -> Rendered {
        "the report".to_owned().into()
    }
}
