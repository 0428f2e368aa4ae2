//! The consumers that a text may name: one table. Whoever adds a consumer adds a row.

use super::format::Format;
use super::reported::Reported;
#[cfg(feature = "call-tree")]
use crate::consumers::CallTree;
use crate::consumers::Count;
#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::Profiler;
#[cfg(feature = "latency")]
use crate::consumers::{Latency, Slow};
use crate::control::{Attachment, Consumer, ProbeSet};
use crate::error::Error;
use crate::patch::TextPolicy;
use crate::syntax::{Mistake, Setting, TEXT, settings, text};

/// A consumer that can be named, and reports.
pub(crate) struct Reporter {
    pub(crate) name: &'static str,
    /// What it reports, in a few words.
    pub(crate) what: &'static str,
    /// Its own options, as an example.
    pub(crate) example: &'static str,
    /// What its reports may look like.
    pub(crate) formats: &'static [Format],
    /// The names of its own options.
    options: &'static [&'static str],
    /// Makes one of what its options say.
    make: fn(&[Setting<'_>]) -> Result<Attach, Mistake>,
}

/// Attaches a consumer that is made.
type Attach = Box<dyn FnOnce(&ProbeSet) -> Result<Box<dyn Reported>, Error>>;

fn attaching<C: Consumer>(consumer: C) -> Attach
where
    Attachment<C>: Reported,
{
    Box::new(|set| Ok(Box::new(set.attach(consumer)?)))
}

/// What rows and columns have.
const TABLE: &[Format] = &[Format::Text, Format::Json, Format::Csv];
/// What a fleet's collector reads, too.
const COLLECTED: &[Format] = if cfg!(feature = "metrics") {
    &[Format::Text, Format::Json, Format::Csv, Format::Prometheus]
} else {
    TABLE
};

pub(crate) static REPORTERS: &[Reporter] = &[
    Reporter {
        name: "count",
        what: "exact hits of each probe; `all`: unhit ones, too",
        example: "all",
        formats: COLLECTED,
        options: &["all"],
        make: |settings| Ok(attaching(Count::from_settings(settings)?)),
    },
    #[cfg(feature = "latency")]
    Reporter {
        name: "latency",
        what: "how long calls take: a histogram for each function",
        example: "",
        formats: COLLECTED,
        options: &[],
        make: |_| Ok(attaching(Latency::new())),
    },
    #[cfg(feature = "latency")]
    Reporter {
        name: "slow",
        what: "calls over a limit, each as it ends",
        example: "over=5ms",
        formats: TABLE,
        options: &["over", "at_most"],
        make: |settings| Ok(attaching(Slow::from_settings(settings)?)),
    },
    #[cfg(feature = "call-tree")]
    Reporter {
        name: "call-tree",
        what: "who calls whom, and for how long; flame graphs",
        example: "",
        formats: &[Format::Text, Format::Json, Format::Csv, Format::Svg, Format::Folded],
        options: &["depth", "recursion"],
        make: |settings| Ok(attaching(CallTree::from_settings(settings)?)),
    },
    #[cfg(feature = "profiler")]
    Reporter {
        name: "profile",
        what: "calls and times, sampled within a budget",
        example: "budget=1%",
        formats: TABLE,
        options: &["budget"],
        make: |settings| {
            let mut profiler = Profiler::new();
            for it in settings {
                profiler =
                    profiler.budget(it.value.parse().map_err(|why: String| it.mistaken_value(0, why))?);
            }
            Ok(attaching(profiler))
        },
    },
    #[cfg(feature = "perf")]
    Reporter {
        name: "perf",
        what: "the processor's and the kernel's events",
        example: "events=cycles+instructions, budget=1%",
        formats: TABLE,
        options: &["events", "budget"],
        make: |settings| Ok(attaching(Perf::from_settings(settings)?)),
    },
];

/// Consumers of features that may be off, and the features.
pub(crate) const FEATURES: [(&str, &str); 5] = [
    ("latency", "latency"),
    ("slow", "latency"),
    ("call-tree", "call-tree"),
    ("profile", "profiler"),
    ("perf", "perf"),
];

impl Reporter {
    /// The one of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        REPORTERS.iter().find(|reporter| reporter.name == name)
    }

    /// Reads what stands in parentheses: a consumer that is ready to be attached, and for how long text is to be writable. A mistake's
    /// byte is one of the options.
    pub(super) fn read(&self, options: Option<&str>) -> Result<(Attach, TextPolicy), Mistake> {
        let (mut own, mut policy) = (Vec::new(), TextPolicy::default());
        for it in options.into_iter().flat_map(settings) {
            if it.name == TEXT {
                policy = text(&it)?;
            } else if self.options.contains(&it.name) {
                own.push(it);
            } else {
                let all: Vec<_> = self.options.iter().copied().chain([TEXT]).collect();
                let (other, name, all) = (it.name, self.name, all.join(", "));
                return Err(it.mistake(format!("`{other}` is not an option of `{name}`; there is {all}")));
            }
        }
        Ok(((self.make)(&own)?, policy))
    }
}
