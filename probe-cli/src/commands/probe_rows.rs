//! Probes as `list` shows them, of a file or of a running program.

use std::borrow::{Borrow, Cow};
use std::fmt::Write;

use probe_runtime::__tools::Table;
use serde::Serialize;

use crate::probe_tables;
use crate::text::{count, escape, was};

/// A probe, as a table and as a row of JSON.
#[derive(Clone, Serialize)]
pub(super) struct Listed<'a> {
    probe: Cow<'a, str>,
    kind: Cow<'a, str>,
    file: Cow<'a, str>,
    line: u32,
    sites: u64,
    fields: Vec<Field<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc: Option<Cow<'a, str>>,
    /// Provider and name of its USDT probe. A running program does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    usdt: Option<String>,
    state: Cow<'a, str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    object: Cow<'a, str>,
}

#[derive(Clone, Serialize)]
struct Field<'a> {
    name: Cow<'a, str>,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    ty: Option<Cow<'a, str>>,
}

/// A function that has no probe.
#[derive(Clone, Serialize)]
pub(super) struct LeftOut {
    pub(super) probe: String,
    pub(super) reason: String,
}

impl<'a> From<&'a probe_tables::Probe> for Listed<'a> {
    fn from(probe: &'a probe_tables::Probe) -> Self {
        let field = |field: &'a probe_tables::FieldOf| Field {
            name: (&field.name).into(),
            ty: field.ty.map(|ty| ty.name().into()),
        };
        Self {
            probe: (&probe.path).into(),
            kind: probe.kind.name().into(),
            file: (&*probe.file).into(),
            line: probe.line,
            sites: probe.sites.len() as u64,
            fields: probe.fields.iter().map(field).collect(),
            group: probe.group.as_ref().map(Cow::from),
            doc: probe.doc.as_ref().map(Cow::from),
            usdt: probe.usdt_name().map(|name| name.to_string()),
            state: probe.state().name().into(),
            object: Cow::default(),
        }
    }
}

impl From<probe_protocol::Probe> for Listed<'_> {
    fn from(probe: probe_protocol::Probe) -> Self {
        let field = |field: probe_protocol::ProbeField| Field {
            name: field.name.into(),
            ty: field.ty.map(Cow::from),
        };
        Self {
            probe: probe.path.into(),
            kind: probe.kind.into(),
            file: probe.file.into(),
            line: probe.line,
            sites: probe.sites.into(),
            fields: probe.fields.into_iter().map(field).collect(),
            group: probe.group.map(Cow::from),
            doc: probe.doc.map(Cow::from),
            usdt: None,
            state: probe.state.into(),
            object: probe.object.into(),
        }
    }
}

impl Listed<'_> {
    /// Returns the object that has the probe, and the number of its sites.
    #[cfg(target_os = "linux")]
    pub(super) fn object(&self) -> (&str, u64) {
        (&self.object, self.sites)
    }

    /// Returns names and types: `bytes: u64, request`.
    fn fields(&self) -> String {
        let field = |field: &Field<'_>| match &field.ty {
            Some(ty) => format!("{}: {}", escape(&field.name), escape(ty)),
            None => escape(&field.name).into_owned(),
        };
        self.fields.iter().map(field).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the probes as `PROBES=list` prints them, with types, and with states if one is not
/// latent.
pub(super) fn table<'a, L: Borrow<Listed<'a>>>(
    probes: impl Iterator<Item = L> + Clone,
    left_out: &[LeftOut],
) -> String {
    let has_groups = probes.clone().any(|probe| probe.borrow().group.is_some());
    let has_usdt = probes.clone().any(|probe| probe.borrow().usdt.is_some());
    let has_states = probes.clone().any(|probe| probe.borrow().state != "latent");
    let mut heading = vec!["probe", "kind", "sites", "place", "fields"];
    heading.extend(has_groups.then_some("group"));
    heading.extend(has_usdt.then_some("usdt"));
    heading.extend(has_states.then_some("state"));
    let mut table = Table::new(&heading);
    let (mut many, mut sites) = (0, 0);
    for probe in probes {
        let probe = probe.borrow();
        table.cell(&escape(&probe.probe));
        table.cell(&escape(&probe.kind));
        table.shown(format_args!("{}", probe.sites));
        table.shown(format_args!("{}:{}", escape(&probe.file), probe.line));
        table.cell(&probe.fields());
        if has_groups {
            table.cell(&escape(probe.group.as_deref().unwrap_or_default()));
        }
        if has_usdt {
            table.cell(&escape(probe.usdt.as_deref().unwrap_or_default()));
        }
        if has_states {
            table.cell(&escape(&probe.state));
        }
        (many, sites) = (many + 1, sites + probe.sites);
    }
    let mut text = String::new();
    table.add_lines_to(&mut text);
    // Writing to a string never fails.
    let _ = writeln!(text, "{}, {}", count(many, "probe"), count(sites, "site"));
    if !left_out.is_empty() {
        let functions = was(left_out.len() as u64, "function");
        let _ = writeln!(text, "{functions} left out by the block around it:");
        for function in left_out {
            let _ = writeln!(text, "  {} ({})", escape(&function.probe), escape(&function.reason));
        }
    }
    text
}
