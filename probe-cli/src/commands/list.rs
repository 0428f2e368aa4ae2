//! `list`: the probes of a file.

use std::fmt::Write;

use probe_runtime::__tools::Table;
use probe_runtime::{Selector, Type};
use serde::Serialize;

use crate::args::List;
use crate::json::{SCHEMA, document};
use crate::output::{Failure, Shown};
use crate::progress::Progress;
use crate::tables::{FieldOf, ObjectProbes, Probe, SiteState, read};
use crate::text::{clean, count};

pub(super) fn run(list: &List, is_json: bool) -> Result<Shown, Failure> {
    let selector = list.selector.as_deref().map(Selector::parse).transpose();
    let selector = selector.map_err(|error| Failure::Usage(error.to_string()))?;
    let object = {
        let _progress = Progress::start(&format!("reading {}", list.file.display()), 0);
        read(&list.file).map_err(Failure::input)?
    };
    if list.objects {
        return Ok(Shown { notes: doubts(&object), ..objects(&object, is_json)? });
    }
    let (probes, skipped): (Vec<_>, Vec<_>) = object.probes.iter().partition(|probe| probe.skipped.is_none());
    let selected = Selected { object: &object, selector: selector.as_ref() };
    let mut probes = selected.of(&probes)?;
    let mut notes = doubts(&object);
    if let Some(selector) = &selector {
        let unmatched = selector.unmatched(probes.iter().copied());
        notes.extend(unmatched.into_iter().map(|term| format!("no probe matches `{term}`")));
    }
    probes.sort_by(|a, b| (&a.path, a.kind, a.line, a.column).cmp(&(&b.path, b.kind, b.line, b.column)));
    let skipped: Vec<_> = match &selector {
        Some(selector) => skipped.into_iter().filter(|probe| selector.matches(*probe)).collect(),
        None => skipped,
    };
    let shown = if is_json {
        Shown::text(as_json(&object, &probes, &skipped)?)
    } else {
        Shown::table(as_text(&probes, &skipped))
    };
    Ok(Shown { notes, ..shown })
}

/// Which probes of a file are asked for.
struct Selected<'a> {
    object: &'a ObjectProbes,
    selector: Option<&'a Selector>,
}

impl Selected<'_> {
    /// Returns the selected ones, or says why there are none.
    fn of<'a>(&self, probes: &[&'a Probe]) -> Result<Vec<&'a Probe>, Failure> {
        let name = &self.object.name;
        let Some(selector) = self.selector else { return Ok(probes.to_vec()) };
        let selected: Vec<_> = probes.iter().copied().filter(|probe| selector.matches(*probe)).collect();
        if !selected.is_empty() {
            return Ok(selected);
        }
        let left_out = self.object.probes.iter().filter(|probe| selector.matches(*probe));
        let left_out: Vec<_> = left_out
            .filter_map(|probe| Some(format!("`{}` ({})", probe.path, probe.skipped.as_deref()?)))
            .take(3)
            .collect();
        let because = if probes.is_empty() {
            format!("{name} has no probes")
        } else if !left_out.is_empty() {
            format!("it matches only functions that were left out: {}", left_out.join(", "))
        } else {
            match selector.suggest(probes.iter().copied()).to_string() {
                nothing if nothing.is_empty() => {
                    format!("{name} has {} (see `probectl list FILE`)", count(probes.len() as u64, "other"))
                }
                suggestion => suggestion,
            }
        };
        Err(Failure::NoMatch(format!("no probe matches the selector; {because}")))
    }
}

/// Returns a note for each part that the list may lack.
fn doubts(object: &ObjectProbes) -> Vec<String> {
    let name = &object.name;
    let mut notes = Vec::new();
    if let Some(version) = object.later {
        notes.push(format!(
            "{name} has probes of version {version} of the layout, which this probectl does not know: update it"
        ));
    }
    let unread = &object.unread;
    notes.extend(unread.shown.iter().take(3).cloned());
    if unread.count > 3 {
        let more = count(unread.count - 3, "more part");
        notes.push(format!("{more} can't be read; `probectl audit` names them"));
    }
    let elsewhere: u64 = object.elsewhere.values().sum();
    if elsewhere != 0 {
        notes.push(format!(
            "{} of {name} belong to probes that other objects define",
            count(elsewhere, "more site")
        ));
    }
    notes
}

fn as_text(probes: &[&Probe], skipped: &[&Probe]) -> String {
    let has_groups = probes.iter().any(|probe| probe.group.is_some());
    let has_states = probes.iter().any(|probe| probe.state() != SiteState::Latent);
    let mut heading = vec!["probe", "kind", "sites", "place", "fields"];
    heading.extend(has_groups.then_some("group"));
    heading.extend(has_states.then_some("state"));
    let mut table = Table::new(&heading);
    for probe in probes {
        let mut row = vec![
            clean(&probe.path).into_owned(),
            probe.kind.name().to_owned(),
            probe.sites.len().to_string(),
            format!("{}:{}", clean(&probe.file), probe.line),
            fields(&probe.fields),
        ];
        row.extend(has_groups.then(|| clean(probe.group.as_deref().unwrap_or_default()).into_owned()));
        row.extend(has_states.then(|| probe.state().name().to_owned()));
        table.row(row);
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let sites = probes.iter().map(|probe| probe.sites.len() as u64).sum();
    // Writing to a string never fails.
    let _ = writeln!(text, "{}, {}", count(probes.len() as u64, "probe"), count(sites, "site"));
    if !skipped.is_empty() {
        let functions = if skipped.len() == 1 { "function was" } else { "functions were" };
        let _ = writeln!(text, "{} {functions} left out by the block around it:", skipped.len());
        for probe in skipped {
            let reason = probe.skipped.as_deref().unwrap_or_default();
            let _ = writeln!(text, "  {} ({})", clean(&probe.path), clean(reason));
        }
    }
    text
}

/// Returns names and types: `bytes: u64, request`.
fn fields(fields: &[FieldOf]) -> String {
    let field = |field: &FieldOf| match field.ty {
        Some(ty) => format!("{}: {}", clean(&field.name), type_name(ty)),
        None => clean(&field.name).into_owned(),
    };
    fields.iter().map(field).collect::<Vec<_>>().join(", ")
}

/// Returns the name of a type, as Rust has it where it has one.
fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::U64 => "u64",
        Type::I64 => "i64",
        Type::U128 => "u128",
        Type::I128 => "i128",
        Type::F64 => "f64",
        Type::Bool => "bool",
        Type::Char => "char",
        Type::Str => "str",
        Type::Bytes => "bytes",
        Type::Format => "text",
        Type::CStr => "cstr",
        Type::Absent => "absent",
        Type::Opaque => "opaque",
        Type::Failed => "failed",
    }
}

#[derive(Serialize)]
struct Head<'a> {
    schema: u64,
    command: &'a str,
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<&'a str>,
    unread: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<SkippedRow<'a>>,
}

#[derive(Serialize)]
struct SkippedRow<'a> {
    probe: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct Row<'a> {
    probe: &'a str,
    kind: &'a str,
    file: &'a str,
    line: u32,
    sites: usize,
    fields: Vec<FieldRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<&'a str>,
    state: &'a str,
}

#[derive(Serialize)]
struct FieldRow<'a> {
    name: &'a str,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    ty: Option<&'a str>,
}

impl<'a> FieldRow<'a> {
    fn of(field: &'a FieldOf) -> Self {
        Self { name: &field.name, ty: field.ty.map(type_name) }
    }
}

fn as_json(object: &ObjectProbes, probes: &[&Probe], skipped: &[&Probe]) -> Result<String, Failure> {
    let skipped = skipped
        .iter()
        .filter_map(|probe| Some(SkippedRow { probe: &probe.path, reason: probe.skipped.as_deref()? }));
    let head = Head {
        schema: SCHEMA,
        command: "list",
        file: &object.name,
        build_id: object.build_id.as_deref(),
        unread: object.unread.count,
        skipped: skipped.collect(),
    };
    let rows = probes.iter().map(|probe| Row {
        probe: &probe.path,
        kind: probe.kind.name(),
        file: &probe.file,
        line: probe.line,
        sites: probe.sites.len(),
        fields: probe.fields.iter().map(FieldRow::of).collect(),
        group: probe.group.as_deref(),
        doc: probe.doc.as_deref(),
        state: probe.state().name(),
    });
    document(&head, rows)
}

#[derive(Serialize)]
struct ObjectHead {
    schema: u64,
    command: &'static str,
}

#[derive(Serialize)]
struct ObjectRow<'a> {
    object: &'a str,
    #[serde(rename = "type")]
    ty: &'a str,
    probes: usize,
    sites: u64,
    unread: u64,
    elsewhere: u64,
    build_id: Option<&'a str>,
}

fn objects(object: &ObjectProbes, is_json: bool) -> Result<Shown, Failure> {
    let row = ObjectRow {
        object: &object.name,
        ty: object.object_type.name(),
        probes: object.probes.iter().filter(|probe| probe.skipped.is_none()).count(),
        sites: object.sites,
        unread: object.unread.count,
        elsewhere: object.elsewhere.values().sum(),
        build_id: object.build_id.as_deref(),
    };
    if is_json {
        let head = ObjectHead { schema: SCHEMA, command: "list" };
        return document(&head, [row]).map(Shown::text);
    }
    let mut table = Table::new(&["object", "type", "probes", "sites", "unread", "build id"]);
    table.row(vec![
        clean(row.object).into_owned(),
        row.ty.to_owned(),
        row.probes.to_string(),
        row.sites.to_string(),
        row.unread.to_string(),
        row.build_id.unwrap_or("none").to_owned(),
    ]);
    Ok(Shown::table(format!("{table}\n")))
}
