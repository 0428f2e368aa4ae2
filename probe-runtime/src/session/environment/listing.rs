//! `PROBES=list`: the probes of the program, as a table, JSON or CSV. Pure.

use std::fmt::Write;
use std::sync::Arc;

use crate::engine::registry::{FieldInfo, ProbeInfo};
use crate::report::head_of_list;
use crate::session::spec::Format;
use probe_lang::selector::{SpecTerm, TextWords, split_at_equals};
use probe_lang::spec::parse_selector;
use probe_lang::{ParseError, Selector};
use probe_report::{Cell, Csv, Row, Table, array, count, was};

/// Stands alone or in place of a consumer.
pub(super) const NAME: &str = "list";

pub(super) const FORMATS: &[Format] = &[Format::Text, Format::Json, Format::Csv];

#[derive(Debug)]
pub(super) enum ProbeListing {
    All,
    Selected(Arc<Selector>),
}

/// Returns the probes to list; `None` if the text does not ask for a list.
pub(super) fn asked(text: &str) -> Result<Option<ProbeListing>, ParseError> {
    let Some(before) = text.trim_end().strip_suffix(NAME) else { return Ok(None) };
    if before.trim().is_empty() {
        return Ok(Some(ProbeListing::All));
    }
    let Some(text) = before.trim_end().strip_suffix('=') else { return Ok(None) };
    let (mut words, mut at) = (TextWords::new(text), 0);
    while at <= text.len() {
        let SpecTerm { end, equals } = split_at_equals(text, &mut words, at);
        if let Some(at) = equals {
            let problem = "`list` stands alone: nothing is attached where probes are listed".to_owned();
            return Err(ParseError { at, problem });
        }
        at = end + 1;
    }
    let selector = parse_selector(text, 0..text.len())?;
    Ok(Some(ProbeListing::Selected(Arc::new(selector))))
}

/// Lists the probes by path, kind and line, and the functions that blocks left out.
/// Text keeps within the columns.
pub(super) fn listing(mut probes: Vec<ProbeInfo>, format: Format, columns: Option<usize>) -> String {
    crate::engine::order::sort_by(&mut probes, |a, b| {
        (a.path(), a.kind(), a.line()).cmp(&(b.path(), b.kind(), b.line()))
    });
    let (listed, left_out): (Vec<_>, Vec<_>) = probes.iter().partition(|probe| probe.skipped().is_none());
    match format {
        Format::Json => json(&listed),
        Format::Csv => csv(&listed),
        _ => text(&listed, &left_out, columns),
    }
}

fn text(probes: &[&ProbeInfo], left_out: &[&ProbeInfo], columns: Option<usize>) -> String {
    let has_groups = probes.iter().any(|probe| probe.group().is_some());
    let heading = ["probe", "kind", "sites", "place", "fields", "group"];
    let mut table = Table::new(heading[..heading.len() - usize::from(!has_groups)].iter().copied());
    for probe in probes {
        table.push(probe.path()).push(probe.kind().name()).push(probe.sites());
        table.push(format!("{}:{}", probe.file(), probe.line())).push(names(probe, ", "));
        if has_groups {
            table.push(probe.group().unwrap_or_default());
        }
    }
    let table = columns.map_or_else(|| table.to_string(), |columns| format!("{table:columns$}"));
    let lines: Vec<_> = table.lines().map(str::trim_end).collect();
    let sites: usize = probes.iter().map(|probe| probe.sites()).sum();
    let mut text = format!(
        "{}\n{}, {}\n",
        lines.join("\n"),
        count(probes.len() as u64, "probe"),
        count(sites as u64, "site"),
    );
    if !left_out.is_empty() {
        let functions = was(left_out.len() as u64, "function");
        // Writing to a `String` can't fail.
        let _ = writeln!(text, "{functions} left out:");
        for probe in left_out {
            let reason = probe.skipped().unwrap_or_default();
            let _ = writeln!(text, "  {} ({reason})", probe.path());
        }
    }
    text
}

fn names(probe: &ProbeInfo, separator: &str) -> String {
    probe.fields().iter().map(FieldInfo::name).collect::<Vec<_>>().join(separator)
}

fn json(probes: &[&ProbeInfo]) -> String {
    let row = |probe: &&ProbeInfo| {
        let fields: Cell<'_> = probe.fields().iter().map(|it| Row::new().with("name", it.name())).collect();
        let row = Row::new().with("probe", probe.path()).with("kind", probe.kind().name());
        let row = row.with("file", probe.file()).with("line", probe.line());
        let row = row.with("sites", probe.sites()).with("fields", fields);
        probe.group().into_iter().fold(row, |row, group| row.with("group", group)).json()
    };
    head_of_list(NAME).json("rows", &array(probes.iter().map(row))).finish()
}

fn csv(probes: &[&ProbeInfo]) -> String {
    let mut csv = Csv::new(&["probe", "kind", "file", "line", "sites", "fields", "group"]);
    for probe in probes {
        csv.cell(probe.path()).cell(probe.kind().name()).cell(probe.file());
        csv.number(probe.line().into()).number(probe.sites() as u64);
        csv.cell(&names(probe, " ")).cell(probe.group().unwrap_or_default()).end();
    }
    csv.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_ask_for_a_list() {
        for (text, expected) in [
            ("list", Some(None)),
            (" list ", Some(None)),
            ("net::**=list", Some(Some("net::**"))),
            (" a kind=entry, !b = list", Some(Some("a kind=entry, !b"))),
            ("geo::operator==list", Some(Some("geo::operator="))),
            ("**=count", None),
            ("a::list", None),
        ] {
            let listed = asked(text).unwrap().map(|listed| match listed {
                ProbeListing::All => None,
                ProbeListing::Selected(selector) => Some(selector.text().to_owned()),
            });
            assert_eq!(listed, expected.map(|it| it.map(str::to_owned)), "{text}");
        }
        for (text, at, problem) in [
            ("**=count, a=list", 2, "`list` stands alone"),
            (" a::=list", 4, "an empty segment"),
            ("=list", 0, "a probe's path, `@file`, `kind=` or `group=` is missing here"),
        ] {
            let mistake = asked(text).unwrap_err();
            assert!(mistake.at == at && mistake.problem.starts_with(problem), "{text}: {mistake:?}");
        }
    }
}
