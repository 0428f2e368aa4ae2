//! The reports of this crate's consumers, and their formats. A new consumer adds its [`Reporter`]
//! here and its row to the [table](super::table).

#[cfg(feature = "trace")]
use std::io::{self, Write};
#[cfg(feature = "trace")]
use std::path::Path;

#[cfg(feature = "trace")]
use probe_trace::export;

use super::Format;
use super::reporter::{Rendered, Reporter};
#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::Profiler;
#[cfg(feature = "trace")]
use crate::consumers::Trace;
#[cfg(feature = "tracing")]
use crate::consumers::Tracing;
use crate::consumers::{Aggregate, Count, Groups};
#[cfg(feature = "call-tree")]
use crate::consumers::{CallTree, Tree};
#[cfg(feature = "latency")]
use crate::consumers::{Latency, Slow};
use crate::engine::control::Attachment;
#[cfg(any(feature = "latency", feature = "profiler"))]
use crate::engine::registry::ProbeId;
#[cfg(feature = "metrics")]
use crate::report::metrics::{Measured, Metrics};
#[cfg(any(feature = "latency", feature = "call-tree", feature = "profiler"))]
use crate::report::missing_lines;
use crate::report::notes_of_counts;
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

/// A report as a table, which the formatter's width cuts.
macro_rules! within {
    () => {
        fn report_within(attachment: &Attachment<Self>, columns: usize) -> Rendered {
            format!("{attachment:columns$}").into()
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
    within!();
    of_this_crate!(Self::with_settings);

    fn report(counts: &Attachment<Self>, format: Format) -> Rendered {
        match format {
            Format::Json => counts.counts().to_json().into(),
            Format::Csv => counts.counts().to_csv().into(),
            _ => counts.to_string().into(),
        }
    }

    fn notes(counts: &Attachment<Self>) -> Vec<String> {
        notes_of_counts(counts.untyped())
    }
}

impl Reporter for Aggregate {
    const NAME: &'static str = "sum";
    const ABOUT: &'static str = "the sum of a number, for each group of hits";
    const EXAMPLE: &'static str = "bytes";
    const FORMATS: &'static [Format] = TABLE;
    within!();
    of_this_crate!(|_| Err(ParseError::new("write the number in brackets: `sum(bytes) by(path)`")));

    fn report(aggregate: &Attachment<Self>, format: Format) -> Rendered {
        let to_text: fn(&Groups) -> String = match format {
            Format::Json => Groups::to_json,
            Format::Csv => Groups::to_csv,
            _ => return aggregate.to_string().into(),
        };
        let groups = aggregate.groups();
        Rendered { content: to_text(&groups), missing: groups.notes() }
    }
}

/// Reports calls as text, JSON or CSV: `table!(attachment, format, report)`.
#[cfg(any(feature = "latency", feature = "profiler"))]
macro_rules! table {
    ($attachment:ident, $format:ident, $read:ident) => {
        match $format {
            Format::Json => $attachment.$read().to_json().into(),
            Format::Csv => {
                let it = $attachment.$read();
                Rendered { content: it.to_csv(), missing: missing_lines(it.lost(), it.left_out()) }
            }
            _ => $attachment.to_string().into(),
        }
    };
}

#[cfg(feature = "latency")]
impl Reporter for Latency {
    const NAME: &'static str = "latency";
    const ABOUT: &'static str = "how long calls take; `buckets`: JSON with histograms";
    const OPTIONS: &'static [&'static str] = &["buckets"];
    const EXAMPLE: &'static str = "buckets";
    const FORMATS: &'static [Format] = COLLECTED;
    #[cfg(feature = "metrics")]
    const MEASURE: Option<fn(&Attachment<Self>, &mut Metrics)> = Some(<Self as Measured>::measure);
    within!();
    of_this_crate!(Self::with_settings);

    fn report(calls: &Attachment<Self>, format: Format) -> Rendered {
        table!(calls, format, latencies)
    }

    fn report_only(calls: &Attachment<Self>, format: Format, only: &[ProbeId]) -> Option<Rendered> {
        (format == Format::Json).then(|| calls.latencies_only(only).to_json().into())
    }
}

#[cfg(feature = "latency")]
impl Reporter for Slow {
    const NAME: &'static str = "slow";
    const ABOUT: &'static str = "calls over a limit, each as it ends";
    const OPTIONS: &'static [&'static str] = &["over", "at_most"];
    const EXAMPLE: &'static str = "over=5ms";
    const FORMATS: &'static [Format] = TABLE;
    within!();
    of_this_crate!(Self::with_settings);

    fn report(calls: &Attachment<Self>, format: Format) -> Rendered {
        table!(calls, format, slow_calls)
    }
}

#[cfg(feature = "call-tree")]
impl Reporter for CallTree {
    const NAME: &'static str = "call-tree";
    const ABOUT: &'static str = "who calls whom, and for how long; flame graphs";
    const OPTIONS: &'static [&'static str] = &["depth", "recursion"];
    const FORMATS: &'static [Format] =
        &[Format::Text, Format::Json, Format::Csv, Format::Svg, Format::Folded];
    within!();
    of_this_crate!(Self::with_settings);

    fn report(calls: &Attachment<Self>, format: Format) -> Rendered {
        let write = match format {
            Format::Json => return calls.tree().to_json().into(),
            Format::Csv => Tree::to_csv,
            Format::Svg => Tree::to_svg,
            Format::Folded => Tree::to_folded,
            _ => return calls.to_string().into(),
        };
        let tree = calls.tree();
        Rendered { content: write(&tree), missing: missing_lines(tree.lost(), tree.left_out()) }
    }
}

#[cfg(feature = "profiler")]
impl Reporter for Profiler {
    const NAME: &'static str = "profile";
    const ABOUT: &'static str = "calls and times, sampled within a budget";
    const OPTIONS: &'static [&'static str] = &["budget"];
    const EXAMPLE: &'static str = "budget=1%";
    const FORMATS: &'static [Format] = TABLE;
    within!();
    of_this_crate!(|settings| settings.iter().try_fold(Self::new(), |profiler, it| {
        Ok(profiler.budget(it.value().parse().map_err(|why: String| it.invalid_value(why))?))
    }));

    fn report(profile: &Attachment<Self>, format: Format) -> Rendered {
        table!(profile, format, profile)
    }

    fn report_only(profile: &Attachment<Self>, format: Format, only: &[ProbeId]) -> Option<Rendered> {
        (format == Format::Json).then(|| profile.profile_only(only).to_json().into())
    }
}

#[cfg(feature = "perf")]
impl Reporter for Perf {
    const NAME: &'static str = "perf";
    const ABOUT: &'static str = "the processor's and the kernel's events";
    const OPTIONS: &'static [&'static str] = &["events", "budget"];
    const EXAMPLE: &'static str = "events=cycles+instructions, budget=1%";
    const FORMATS: &'static [Format] = TABLE;
    within!();
    of_this_crate!(Self::with_settings);

    fn report(events: &Attachment<Self>, format: Format) -> Rendered {
        table!(events, format, event_counts)
    }
}

#[cfg(feature = "trace")]
impl Reporter for Trace {
    const NAME: &'static str = "trace";
    const ABOUT: &'static str = "each hit with its time; `flight`: the latest";
    const OPTIONS: &'static [&'static str] =
        &["flight", "first", "map", "panic", "file", "size", "ring", "cut", "limit"];
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
