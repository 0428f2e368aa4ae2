//! The reports of this crate's consumers, and their formats. A new consumer adds its [`Reporter`]
//! here and its row to the [table](super::table).

#[cfg(feature = "trace")]
use std::io::{self, Write};
#[cfg(feature = "trace")]
use std::path::Path;

#[cfg(feature = "call-tree")]
use probe_report::reports::Tree;
#[cfg(feature = "trace")]
use probe_trace::export;

use super::Format;
use super::reported::{Reported, rendered};
use super::reporter::{Rendered, Reporter};
#[cfg(feature = "call-tree")]
use crate::consumers::CallTree;
#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::Profiler;
#[cfg(feature = "trace")]
use crate::consumers::Trace;
#[cfg(feature = "tracing")]
use crate::consumers::Tracing;
use crate::consumers::{Aggregate, Count, Memory};
#[cfg(feature = "latency")]
use crate::consumers::{Latency, Slow};
use crate::engine::control::Attachment;
use crate::engine::registry::ProbeId;
#[cfg(feature = "metrics")]
use crate::report::metrics::{Measured, Metrics};
#[cfg(feature = "call-tree")]
use crate::report::missing;
use crate::report::{ReportSource, notes_of_counts};
use probe_lang::{ParseError, Setting};

/// Formats of a report with rows and columns.
const TABLE: &[Format] = &[Format::Text, Format::Json, Format::Csv];
/// The same, and the format that a metrics collector reads.
const COLLECTED: &[Format] = if cfg!(feature = "metrics") {
    &[Format::Text, Format::Json, Format::Csv, Format::Prometheus]
} else {
    TABLE
};

/// The constants that all of them share, and the function that makes one from its options.
macro_rules! of_this_crate {
    ($make:expr) => {
        const FOR_CLIENTS: bool = true;
        const TEXT_HAS_NOTES: bool = true;

        fn from_settings(settings: &[Setting<'_>]) -> Result<Self, ParseError> {
            let make: fn(&[Setting<'_>]) -> _ = $make;
            make(settings)
        }
    };
}

/// A report that is made from values: `values!(|attachment, only| report)`. The other formats are
/// its consumer's own.
macro_rules! values {
    ($source:expr $(, $format:pat => $own:expr)*) => {
        fn source(attachment: &Attachment<Self>, only: &[ProbeId]) -> Option<Box<dyn ReportSource>> {
            let source: fn(&Attachment<Self>, &[ProbeId]) -> _ = $source;
            Some(Box::new(source(attachment, only)))
        }

        fn report(attachment: &Attachment<Self>, format: Format) -> Rendered {
            let source: fn(&Attachment<Self>, &[ProbeId]) -> _ = $source;
            match format {
                $($format => $own(attachment),)*
                _ => rendered(&source(attachment, &[]), format, Self::notes(attachment)),
            }
        }

        fn report_within(attachment: &Attachment<Self>, columns: usize) -> Rendered {
            Reported::report_within(attachment, columns)
        }
    };
}

impl Reporter for Count {
    const NAME: &'static str = "count";
    const ABOUT: &'static str = "exact hits of each probe; `all`: unhit ones, too";
    const OPTIONS: &'static [&'static str] = &["all"];
    const EXAMPLE: &'static str = "all";
    const FORMATS: &'static [Format] = COLLECTED;
    #[cfg(feature = "metrics")]
    const MEASURE: Option<fn(&Attachment<Self>, &mut Metrics)> = Some(<Self as Measured>::measure);
    of_this_crate!(Self::with_settings);

    values!(|counts, _| counts.counts_report());

    fn notes(counts: &Attachment<Self>) -> Vec<String> {
        notes_of_counts(counts.untyped())
    }
}

impl Reporter for Memory {
    const NAME: &'static str = "memory";
    const ABOUT: &'static str = "what each function allocates and frees";
    const FORMATS: &'static [Format] = COLLECTED;
    #[cfg(feature = "metrics")]
    const MEASURE: Option<fn(&Attachment<Self>, &mut Metrics)> = Some(<Self as Measured>::measure);
    of_this_crate!(|_| Ok(Self::new()));

    values!(|memory, _| memory.allocations());
}

impl Reporter for Aggregate {
    const NAME: &'static str = "sum";
    const ABOUT: &'static str = "the sum of a number, for each group of hits";
    const EXAMPLE: &'static str = "bytes";
    const FORMATS: &'static [Format] = &[Format::Text, Format::Json, Format::Csv, Format::Folded];
    of_this_crate!(|_| Err(ParseError::new("write the number in brackets: `sum(bytes) by(path)`")));

    values!(
        |aggregate, _| aggregate.groups(),
        Format::Folded => |aggregate: &Attachment<Self>| {
            let groups = aggregate.groups();
            Rendered { content: groups.to_folded(), missing: groups.notes() }
        }
    );
}

#[cfg(feature = "latency")]
impl Reporter for Latency {
    const NAME: &'static str = "latency";
    const ABOUT: &'static str = "how long calls take; `buckets`: JSON with histograms";
    const OPTIONS: &'static [&'static str] =
        if cfg!(feature = "perf") { &["buckets", "cpu"] } else { &["buckets"] };
    const EXAMPLE: &'static str = "buckets";
    const FORMATS: &'static [Format] = COLLECTED;
    #[cfg(feature = "metrics")]
    const MEASURE: Option<fn(&Attachment<Self>, &mut Metrics)> = Some(<Self as Measured>::measure);
    of_this_crate!(Self::with_settings);

    values!(|calls, only| if only.is_empty() { calls.latencies() } else { calls.latencies_only(only) });
}

#[cfg(feature = "latency")]
impl Reporter for Slow {
    const NAME: &'static str = "slow";
    const ABOUT: &'static str = "calls over a limit, each as it ends";
    const OPTIONS: &'static [&'static str] = &["over", "at_most"];
    const EXAMPLE: &'static str = "over=5ms";
    const FORMATS: &'static [Format] = TABLE;
    of_this_crate!(Self::with_settings);

    values!(|calls, _| calls.slow_calls());
}

#[cfg(feature = "call-tree")]
impl Reporter for CallTree {
    const NAME: &'static str = "call-tree";
    const ABOUT: &'static str = "who calls whom, and for how long; flame graphs";
    const OPTIONS: &'static [&'static str] =
        if cfg!(feature = "perf") { &["depth", "recursion", "cpu"] } else { &["depth", "recursion"] };
    const FORMATS: &'static [Format] =
        &[Format::Text, Format::Json, Format::Csv, Format::Svg, Format::Folded];
    of_this_crate!(Self::with_settings);

    values!(
        |calls, _| calls.tree(),
        Format::Svg => |calls| stacks(calls, Tree::to_svg),
        Format::Folded => |calls| stacks(calls, Tree::to_folded)
    );
}

/// Returns the tree in a format that has no place for missing calls.
#[cfg(feature = "call-tree")]
fn stacks(calls: &Attachment<CallTree>, write: fn(&Tree) -> String) -> Rendered {
    let tree = calls.tree();
    Rendered { content: write(&tree), missing: missing(tree.lost(), tree.left_out()) }
}

#[cfg(feature = "profiler")]
impl Reporter for Profiler {
    const NAME: &'static str = "profile";
    const ABOUT: &'static str = "calls and times, sampled within a budget";
    const OPTIONS: &'static [&'static str] = &["budget"];
    const EXAMPLE: &'static str = "budget=1%";
    const FORMATS: &'static [Format] = TABLE;
    of_this_crate!(|settings| settings.iter().try_fold(Self::new(), |profiler, it| {
        Ok(profiler.budget(it.value().parse().map_err(|why: String| it.invalid_value(why))?))
    }));

    values!(|profile, only| if only.is_empty() { profile.profile() } else { profile.profile_only(only) });
}

#[cfg(feature = "perf")]
impl Reporter for Perf {
    const NAME: &'static str = "perf";
    const ABOUT: &'static str = "the processor's and the kernel's events";
    const OPTIONS: &'static [&'static str] = &["events", "budget"];
    const EXAMPLE: &'static str = "events=cycles+instructions, budget=1%";
    const FORMATS: &'static [Format] = TABLE;
    of_this_crate!(Self::with_settings);

    values!(|events, _| events.event_counts());
}

#[cfg(feature = "trace")]
impl Reporter for Trace {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str = "each hit (`flight`: the latest), with `args`, `stack`";
    const OPTIONS: &'static [&'static str] = if cfg!(feature = "perf") {
        &[
            "flight", "first", "args", "threads", "stack", "caller", "map", "panic", "file", "size", "ring",
            "cut", "limit",
        ]
    } else {
        &[
            "flight", "first", "args", "stack", "caller", "map", "panic", "file", "size", "ring", "cut",
            "limit",
        ]
    };
    const EXAMPLE: &'static str = "flight, size=64M";
    const FORMATS: &'static [Format] =
        &[Format::Text, Format::Json, Format::Folded, Format::Perfetto, Format::Firefox, Format::Trace];
    const STREAMED: &'static [Format] = &Format::SNAPSHOTS;
    of_this_crate!(Self::with_settings);

    fn follow(&mut self, report: &Path) {
        Self::follow(self, report);
    }

    fn write(trace: &Attachment<Self>, format: Format, out: &mut dyn Write) -> io::Result<Vec<String>> {
        match exported(format) {
            Some(format) => trace.export(format, out),
            None => trace.export_native(out),
        }
    }

    fn report(trace: &Attachment<Self>, format: Format) -> Rendered {
        if !matches!(format, Format::Json | Format::Folded | Format::Firefox) {
            return trace.text().into();
        }
        let mut content = Vec::new();
        let missing =
            Self::write(trace, format, &mut content).unwrap_or_else(|error| vec![error.to_string()]);
        Rendered { content: String::from_utf8(content).unwrap_or_default(), missing }
    }
}

/// Returns the format in which `probe-trace` exports a trace; `None` if it is not an export.
#[cfg(feature = "trace")]
fn exported(format: Format) -> Option<export::Format> {
    match format {
        Format::Json => Some(export::Format::Chrome),
        Format::Folded => Some(export::Format::Folded),
        Format::Perfetto => Some(export::Format::Perfetto),
        Format::Firefox => Some(export::Format::Firefox),
        _ => None,
    }
}

#[cfg(feature = "tracing")]
impl Reporter for Tracing {
    const NAME: &'static str = "tracing";
    const ABOUT: &'static str = "calls as spans, points as events of `tracing`";
    const OPTIONS: &'static [&'static str] = &["level"];
    const EXAMPLE: &'static str = "level=debug";
    of_this_crate!(Self::with_settings);

    fn report(shown: &Attachment<Self>, _: Format) -> Rendered {
        shown.to_string().into()
    }
}

#[cfg(all(test, feature = "trace"))]
mod tests {
    use super::*;

    #[test]
    fn exports_have_the_endings_of_their_formats() {
        let exports = Format::ALL.iter().filter_map(|it| Some((it.ending(), exported(*it)?)));
        let (endings, exports): (Vec<_>, Vec<_>) = exports.unzip();
        assert_eq!(exports.iter().map(|it| it.ending()).collect::<Vec<_>>(), endings);
        assert!(export::Format::ALL.iter().all(|it| exports.contains(it)));
    }
}
