//! Probes as `list` shows them, of a file or of a running program.

use std::fmt::Write;

use probe_runtime::__tools::Table;
use serde::Serialize;

use crate::tables;
use crate::text::{clean, count};

/// A probe, as a table and as a row of JSON.
#[derive(Clone, Serialize)]
pub(super) struct Listed {
    probe: String,
    kind: String,
    file: String,
    line: u32,
    sites: u64,
    fields: Vec<Field>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<String>,
    state: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    object: String,
}

#[derive(Clone, Serialize)]
struct Field {
    name: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    ty: Option<String>,
}

/// A function that has no probe.
#[derive(Clone, Serialize)]
pub(super) struct LeftOut {
    pub(super) probe: String,
    pub(super) reason: String,
}

impl From<&tables::Probe> for Listed {
    fn from(probe: &tables::Probe) -> Self {
        let field = |field: &tables::FieldOf| Field {
            name: field.name.clone(),
            ty: field.ty.map(|ty| ty.name().to_owned()),
        };
        Self {
            probe: probe.path.clone(),
            kind: probe.kind.name().to_owned(),
            file: probe.file.clone(),
            line: probe.line,
            sites: probe.sites.len() as u64,
            fields: probe.fields.iter().map(field).collect(),
            group: probe.group.clone(),
            doc: probe.doc.clone(),
            state: probe.state().name().to_owned(),
            object: String::new(),
        }
    }
}

impl From<probe_protocol::Probe> for Listed {
    fn from(probe: probe_protocol::Probe) -> Self {
        let field = |field: probe_protocol::ProbeField| Field { name: field.name, ty: field.ty };
        Self {
            probe: probe.path,
            kind: probe.kind,
            file: probe.file,
            line: probe.line,
            sites: probe.sites.into(),
            fields: probe.fields.into_iter().map(field).collect(),
            group: probe.group,
            doc: probe.doc,
            state: probe.state,
            object: probe.object,
        }
    }
}

impl Listed {
    /// Returns the object that has the probe, and the number of its sites.
    #[cfg(target_os = "linux")]
    pub(super) fn object(&self) -> (&str, u64) {
        (&self.object, self.sites)
    }

    /// Returns names and types: `bytes: u64, request`.
    fn fields(&self) -> String {
        let field = |field: &Field| match &field.ty {
            Some(ty) => format!("{}: {}", clean(&field.name), clean(ty)),
            None => clean(&field.name).into_owned(),
        };
        self.fields.iter().map(field).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the probes as `PROBES=list` prints them, with types, and with states if one is not
/// latent.
pub(super) fn table(probes: &[Listed], left_out: &[LeftOut]) -> String {
    let has_groups = probes.iter().any(|probe| probe.group.is_some());
    let has_states = probes.iter().any(|probe| probe.state != "latent");
    let mut heading = vec!["probe", "kind", "sites", "place", "fields"];
    heading.extend(has_groups.then_some("group"));
    heading.extend(has_states.then_some("state"));
    let mut table = Table::new(&heading);
    for probe in probes {
        let mut row = vec![
            clean(&probe.probe).into_owned(),
            clean(&probe.kind).into_owned(),
            probe.sites.to_string(),
            format!("{}:{}", clean(&probe.file), probe.line),
            probe.fields(),
        ];
        row.extend(has_groups.then(|| clean(probe.group.as_deref().unwrap_or_default()).into_owned()));
        row.extend(has_states.then(|| clean(&probe.state).into_owned()));
        table.row(row);
    }
    let mut text = String::new();
    for line in table.to_string().lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let sites = probes.iter().map(|probe| probe.sites).sum();
    // Writing to a string never fails.
    let _ = writeln!(text, "{}, {}", count(probes.len() as u64, "probe"), count(sites, "site"));
    if !left_out.is_empty() {
        let functions = if left_out.len() == 1 { "function was" } else { "functions were" };
        let _ = writeln!(text, "{} {functions} left out by the block around it:", left_out.len());
        for function in left_out {
            let _ = writeln!(text, "  {} ({})", clean(&function.probe), clean(&function.reason));
        }
    }
    text
}
