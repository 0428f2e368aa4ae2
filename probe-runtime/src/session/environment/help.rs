//! `PROBES=help`: the values that the variable takes in this build. Pure.

use std::fmt::Write;

use crate::session::spec::{ConsumerRow, FEATURES, Format};

/// The value of `PROBES` that asks for help.
pub(super) const ASKED: &str = "help";

const INTRODUCTION: &str = "\
PROBES='SELECTOR=CONSUMER, …' attaches consumers to probes.
PROBES=list shows which probes there are; PROBES='SELECTOR=list' those of a selector.

A selector is one or more terms, separated by commas: what any of them names, less what those with
`!` name. All parts of a term must match.
";

/// Selectors, and the probes that they match.
const SELECTORS: [(&[&str], &str); 9] = [
    (&["net::handle"], "the probes with this path"),
    (&["net::*", "**::handle"], "`*`: any part of one segment; `**`: any number of segments"),
    (&["@server.rs", "@net/*.rs:42"], "the end of the source file's path, and the line"),
    (&["kind=entry|exit"], "entry, exit, point, drop, suspend, resume or replace"),
    (&["group=net|db::*"], "the group"),
    (&["net::** kind=entry"], "the entries in `net`"),
    (&["net::**, !net::poll"], "all in `net` but `net::poll`"),
    (&["geo::Stack<*>::push"], "what is in brackets is part of its segment"),
    (&[r"geo::operator\*"], r"`\` takes the next character as it is"),
];

const EXPRESSIONS: [(&str, &str); 8] = [
    ("a[bytes > 1K && peer ~ \"10.*\"]=count", "hits whose fields fulfil this; also `thread`, `time`"),
    ("a[ok && first 100]=trace", "the first of them; `1 in 1000`: a sample of each thread"),
    ("a=count by(path), b=latency by(ret)", "figures for each value of a field"),
    ("a=sum(bytes) by(path, peer)", "also `min`, `max` and `avg`, of any number"),
    ("a=quantize(len(peer))", "a histogram of powers of two"),
    ("a[latency > 5ms]=max(ret)", "the time of a call, at its exit"),
    ("a=until(b) by(lock, caller)", "the time to a hit of `b` with the same first key"),
    ("lock::*=held by(mutex)", "how long locks are held, and by which threads"),
];

const TRIGGERS: [(&str, &str); 3] = [
    ("when latency(db::query) > 5ms then snapshot", "of each `trace(flight)`, beside its report"),
    ("… attach db::** for 200ms, snapshot", "records these probes, too, for a while"),
    ("… snapshot in one file at most 10 times every 1s", "where, how many, how often"),
];

const OUT: &str = "\
PROBES_OUT=/tmp/%e-%p-%c.json sends the reports to files: %e is the program's name, %p the
process, %c the consumer, %n its number. The ending says the format.

Reports are made when the program ends, also by SIGINT, SIGTERM or SIGHUP (PROBES_SIGNALS=none:
not by these); every so often, with PROBES_EVERY=10s; and when a signal asks, with
PROBES_ON=SIGUSR1.
";

const AGENT: &str = "
PROBE_AGENT=1 lets other processes of the same user ask the program while it runs.
PROBE_RULES=FILE has rules, such as `when p99(net::handle) > 5ms then record db::* for 1s`.
";

pub(super) fn text() -> String {
    let mut text = INTRODUCTION.to_owned();
    let mut section = |heading: &str, rows: Vec<(String, String)>| {
        if rows.is_empty() {
            return;
        }
        let width = rows.iter().map(|(left, _)| left.len()).max().unwrap_or(0);
        text.push_str(heading);
        for (left, right) in rows {
            // Writing to a `String` can't fail.
            let _ = writeln!(text, "  {left:width$}  {right}");
        }
    };
    let selectors = SELECTORS.iter().map(|(examples, what)| (examples.join("  "), (*what).to_owned()));
    section("", selectors.collect());
    let here = ConsumerRow::all().map(|it| (signature(it), it.about.to_owned()));
    section("\nConsumers, which all take `text=sealed|open|alias`, too:\n", here.collect());
    let examples = |all: &[(&str, &str)]| all.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect();
    section(
        "\nPredicates of fields, and groups by their values, whose reports are txt, json or csv:\n",
        examples(&EXPRESSIONS),
    );
    if cfg!(feature = "trace") {
        let heading = "\nTriggers, separated from consumers by commas, act when a call took too long:\n";
        section(heading, examples(&TRIGGERS));
    }
    let off = FEATURES.iter().filter(|(name, _)| ConsumerRow::named(name).is_none());
    let needs = |name: &str, feature: &str| {
        (
            name.to_owned(),
            format!("needs the feature `{feature}`: cargo add probe-runtime --features {feature}"),
        )
    };
    let mut off: Vec<_> = off.map(|(name, feature)| needs(name, feature)).collect();
    if !cfg!(feature = "metrics") {
        off.push(needs(".prom", "metrics"));
    }
    section("\nNot in this program:\n", off);
    let formats = Format::ALL.iter().map(|format| (format.ending().to_owned(), consumers(*format)));
    section("\nEndings of reports, and their consumers:\n", formats.filter(|it| !it.1.is_empty()).collect());
    let _ = write!(text, "\n{OUT}");
    if cfg!(feature = "agent") {
        text.push_str(AGENT);
    }
    text
}

/// Returns a consumer with its options, as an example.
fn signature(row: &ConsumerRow) -> String {
    let (name, example) = (row.name, row.example);
    if example.is_empty() { name.to_owned() } else { format!("{name}({example})") }
}

/// Returns the names of the consumers whose reports have this format.
fn consumers(format: Format) -> String {
    let names = ConsumerRow::all().filter(|row| row.formats.contains(&format)).map(|row| row.name);
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::spec::parse;
    use probe_lang::selector::Selector;

    #[test]
    fn every_consumer_is_named_once_with_what_it_takes() {
        let text = text();
        let count = |left: &str| {
            let lefts = text.lines().filter_map(|line| line.strip_prefix("  ")?.split("  ").next());
            lefts.filter(|it| *it == left).count()
        };
        for row in ConsumerRow::all() {
            assert_eq!(count(&signature(row)), 1, "{}: {text}", row.name);
            assert!(parse(&format!("a={}", signature(row))).is_ok());
        }
        for (name, _) in FEATURES {
            assert_eq!(
                count(name)
                    + ConsumerRow::all().filter(|it| it.name == name && !it.example.is_empty()).count(),
                1
            );
        }
        for format in Format::ALL {
            let has = ConsumerRow::all().any(|row| row.formats.contains(&format));
            assert_eq!(count(format.ending()), usize::from(has), "{format:?}: {text}");
        }
        assert_eq!(text.contains("needs the feature"), text.contains("Not in this program:"));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }

    #[cfg(feature = "trace")]
    #[test]
    fn its_triggers_are_triggers() {
        for (text, _) in TRIGGERS {
            let text = text.replace('…', "when latency(a) > 1s then");
            assert!(parse(&format!("{text}, **=trace(flight)")).is_ok(), "{text}");
        }
    }

    #[test]
    fn its_expressions_are_expressions() {
        for (text, _) in
            EXPRESSIONS.iter().filter(|(text, _)| cfg!(feature = "trace") || !text.ends_with("trace"))
        {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn its_selectors_are_selectors() {
        for selector in SELECTORS.iter().flat_map(|(examples, _)| *examples) {
            Selector::parse(selector).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
