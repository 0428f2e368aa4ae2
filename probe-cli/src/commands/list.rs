//! `list`: the probes of a file, or of a running program.

use std::borrow::{Borrow, Cow};
#[cfg(target_os = "linux")]
use std::collections::BTreeMap;
use std::path::Path;

use probe_core::Kind;
use probe_lang::{Selectable, Selector};
use probe_report::{Table, View};
use serde::Serialize;

use super::bpftrace;
use crate::args::List;
use crate::elf::Image;
use crate::hook_probes::{HookProbe, HookProbes};
#[cfg(target_os = "linux")]
use crate::live::Program;
use crate::output::{Exit, Failure, Output, document};
use crate::probe_tables::{FieldOf, ObjectProbes, Probe};
use crate::progress::Progress;
use crate::site_list::SiteList;
use crate::sled_probes::SledProbes;
use crate::text::{count, escape, was};

pub(super) fn run(list: &List, is_json: bool) -> Result<Output, Failure> {
    let Some(file) = &list.file else { return by_id(list, None, is_json) };
    if list.pid.is_some() {
        if list.selector.is_some() {
            let problem = "with -p there is one argument more, a selector; leave out the file";
            return Err(Failure::Usage(problem.to_owned()));
        }
        return by_id(list, file.to_str(), is_json);
    }
    let selector = list.selector.as_deref().map(Selector::parse).transpose();
    let selector = selector.map_err(|error| Failure::Usage(error.to_string()))?;
    #[cfg(target_os = "linux")]
    let pid = file.to_str().and_then(|text| text.parse().ok());
    if list.bpftrace && is_json {
        return Err(Failure::Usage("--bpftrace writes a program, and no JSON; leave out one".to_owned()));
    }
    #[cfg(target_os = "linux")]
    if let Some(pid) = pid.filter(|_| !file.exists()) {
        return of_program(pid, list.selector.as_deref(), list, is_json);
    }
    of_file(file, list, selector.as_ref(), is_json)
}

/// Lists the probes of a process that `-p` names.
fn by_id(list: &List, selector: Option<&str>, is_json: bool) -> Result<Output, Failure> {
    #[cfg(target_os = "linux")]
    if let Some(pid) = list.pid {
        return of_program(pid, selector, list, is_json);
    }
    let _ = (selector, is_json);
    Err(Failure::Usage("name a file, or a process on Linux".to_owned()))
}

fn of_file(file: &Path, list: &List, selector: Option<&Selector>, is_json: bool) -> Result<Output, Failure> {
    let (image, object, hooks, sleds) = {
        let _progress = Progress::start(&format!("reading {}", file.display()), 0);
        let image = match &list.list {
            Some(list) => SiteList::open(list)?.image(file)?,
            None => Image::open(file).map_err(Failure::input)?,
        };
        let object = ObjectProbes::of(&image).map_err(Failure::input)?;
        let hooks = HookProbes::of(file, &image).map_err(Failure::input)?;
        let sleds = SledProbes::of(file, &image).map_err(Failure::input)?;
        (image, object, hooks, sleds)
    };
    let mut notes = doubts(&object);
    notes.extend(hooks.iter().flat_map(|it| it.notes(image.name())));
    notes.extend(sleds.iter().flat_map(|it| it.notes(image.name())));
    let promised = || {
        let of_sleds = sleds.iter().flat_map(|it| &it.probes);
        hooks.iter().flat_map(|it| &it.probes).chain(of_sleds)
    };
    if list.objects {
        let rows = [ObjectRow::of(&object, promised())];
        return Ok(Output { notes, ..objects(&rows, is_json)? });
    }
    let (probes, skipped): (Vec<_>, Vec<_>) = object.probes.iter().partition(|probe| probe.skipped.is_none());
    let probes: Vec<_> =
        probes.into_iter().map(InFile::Table).chain(promised().map(InFile::Promised)).collect();
    let exit = if probes.is_empty() && skipped.is_empty() { Exit::NoMatch } else { Exit::Done };
    let mut probes = select(&object, selector, &probes)?;
    if let Some(selector) = selector {
        let unmatched = selector.unmatched(probes.iter());
        notes.extend(unmatched.into_iter().map(|term| format!("no probe matches `{term}`")));
    }
    sort(&mut probes);
    if list.bpftrace {
        let with_sites: Vec<_> = probes.iter().filter_map(InFile::with_sites).collect();
        if with_sites.len() != probes.len() {
            notes.push("the program has no hooks and sleds, which are no sites in the file".to_owned());
        }
        let mut shown = bpftrace::program(file, &image, &with_sites)?;
        shown.notes.splice(0..0, notes);
        return Ok(shown);
    }
    let is_asked = |probe: &&&Probe| selector.is_none_or(|selector| selector.matches(**probe));
    let left_out = skipped
        .iter()
        .filter(is_asked)
        .filter_map(|probe| Some(LeftOut { probe: probe.path.clone(), reason: probe.skipped.clone()? }));
    let members = Members {
        file: &object.name,
        build_id: object.build_id.as_deref(),
        unread: object.unread.count,
        skipped: left_out.collect(),
        hooks: hooks.as_ref().map(HookTotals::of),
    };
    Ok(Output { notes, exit, ..shown(&members, probes.iter().map(|it| Listed::from(*it)), is_json)? })
}

#[cfg(target_os = "linux")]
fn of_program(pid: u32, selector: Option<&str>, list: &List, is_json: bool) -> Result<Output, Failure> {
    if list.bpftrace {
        return Err(Failure::Usage(format!("--bpftrace reads a file: give /proc/{pid}/exe")));
    }
    let mut program = Program::connect(pid)?;
    let executable = program.client.hello().executable.clone();
    let mut probes = program.client.list(selector.unwrap_or_default())?;
    let status = program.client.status()?;
    let notes = super::live::unreadable_notes(&status);
    // In the order of a file's probes. Kinds of a later version come first.
    let kind = |name: &str| Kind::ALL.into_iter().find(|kind| kind.name() == name);
    probes.sort_by(|a, b| (&a.path, kind(&a.kind), a.line).cmp(&(&b.path, kind(&b.kind), b.line)));
    let (mut listed, mut left_out) = (Vec::new(), Vec::new());
    for probe in probes {
        match &probe.skipped {
            Some(reason) => left_out.push(LeftOut { probe: probe.path, reason: reason.clone() }),
            None => listed.push(Listed::from(probe)),
        }
    }
    if list.objects {
        let mut by_object = BTreeMap::<&str, (usize, u64)>::new();
        for probe in &listed {
            let (object, sites) = probe.object();
            let sum = by_object.entry(if object.is_empty() { &executable } else { object }).or_default();
            *sum = (sum.0 + 1, sum.1 + sites);
        }
        let rows: Vec<_> = by_object
            .into_iter()
            .map(|(object, (probes, sites))| ObjectRow {
                object,
                ty: "loaded",
                probes,
                sites,
                ..ObjectRow::default()
            })
            .collect();
        return Ok(Output { notes, ..objects(&rows, is_json)? });
    }
    let members = Members {
        file: &executable,
        build_id: None,
        unread: status.unreadable_records,
        skipped: left_out,
        hooks: None,
    };
    Ok(Output { notes, ..shown(&members, listed.iter(), is_json)? })
}

/// A probe of a file.
#[derive(Clone, Copy)]
enum InFile<'a> {
    Table(&'a Probe),
    /// Of a hook or a sled, once the program runs.
    Promised(&'a HookProbe),
}

impl<'a> InFile<'a> {
    fn of(&self) -> &'a dyn Selectable {
        match self {
            Self::Table(probe) => *probe,
            Self::Promised(probe) => *probe,
        }
    }

    fn path(&self) -> &'a str {
        self.of().path()
    }

    fn with_sites(&self) -> Option<&'a Probe> {
        if let Self::Table(probe) = self { Some(probe) } else { None }
    }
}

impl Selectable for InFile<'_> {
    fn path(&self) -> &str {
        self.of().path()
    }

    fn kind(&self) -> Kind {
        self.of().kind()
    }

    fn file(&self) -> &str {
        self.of().file()
    }

    fn line(&self) -> u32 {
        self.of().line()
    }

    fn group(&self) -> Option<&str> {
        self.of().group()
    }
}

/// Sorts probes by path, kind and place.
fn sort(probes: &mut [InFile<'_>]) {
    // The bytes behind the beginning that all paths share tell most of them apart without comparing
    // texts.
    let first = probes.first().map_or("", InFile::path).as_bytes();
    let shared = probes.iter().fold(first.len(), |shared, it| {
        first.iter().zip(it.path().as_bytes()).take(shared).take_while(|(a, b)| a == b).count()
    });
    let key = |probe: &InFile<'_>| {
        let mut bytes = [0; 16];
        let rest = &probe.path().as_bytes()[shared..];
        let many = rest.len().min(bytes.len());
        bytes[..many].copy_from_slice(&rest[..many]);
        u128::from_be_bytes(bytes)
    };
    let mut keyed: Vec<_> = probes.iter().map(|probe| (key(probe), *probe)).collect();
    keyed.sort_by(|(a_key, a), (b_key, b)| {
        let rest =
            |it: &InFile<'_>| (it.of().kind(), it.of().line(), it.with_sites().map_or(0, |it| it.column));
        a_key.cmp(b_key).then_with(|| a.path().cmp(b.path())).then_with(|| rest(a).cmp(&rest(b)))
    });
    probes.iter_mut().zip(keyed).for_each(|(probe, (_, sorted))| *probe = sorted);
}

fn shown<'a, L: Borrow<Listed<'a>> + Serialize>(
    members: &Members<'_>,
    probes: impl Iterator<Item = L> + Clone,
    is_json: bool,
) -> Result<Output, Failure> {
    if is_json {
        document("list", members, probes).map(Output::text)
    } else {
        Ok(table(probes, &members.skipped))
    }
}

/// Returns the selected probes of an object, or says why there are none.
fn select<'a>(
    object: &ObjectProbes,
    selector: Option<&Selector>,
    probes: &[InFile<'a>],
) -> Result<Vec<InFile<'a>>, Failure> {
    let name = &object.name;
    let Some(selector) = selector else { return Ok(probes.to_vec()) };
    let selected: Vec<_> = probes.iter().copied().filter(|probe| selector.matches(probe)).collect();
    if !selected.is_empty() {
        return Ok(selected);
    }
    let left_out = object.probes.iter().filter(|probe| selector.matches(*probe));
    let left_out: Vec<_> = left_out
        .filter_map(|probe| Some(format!("`{}` ({})", probe.path, probe.skipped.as_deref()?)))
        .take(3)
        .collect();
    let suggestion = selector.suggest(probes.iter()).to_string();
    let because = if probes.is_empty() {
        format!("{name} has no probes")
    } else if !left_out.is_empty() {
        format!("it matches only functions that were left out: {}", left_out.join(", "))
    } else if suggestion.is_empty() {
        format!("{name} has {} (see `probectl list FILE`)", count(probes.len() as u64, "other"))
    } else {
        suggestion
    };
    Err(Failure::NoMatch(format!("no probe matches the selector; {because}")))
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

#[derive(Serialize)]
struct Members<'a> {
    file: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<&'a str>,
    unread: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<LeftOut>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks: Option<HookTotals>,
}

/// Calls of the hooks of `-finstrument-functions`.
#[derive(Serialize)]
pub(super) struct HookTotals {
    calls: u64,
    untold: u64,
    unclear: u64,
    can: &'static str,
}

impl HookTotals {
    pub(super) fn of(hooks: &HookProbes) -> Self {
        let HookProbes { calls, untold, unclear, .. } = *hooks;
        Self { calls, untold, unclear, can: hooks.hooks.fate() }
    }
}

#[derive(Default, Serialize)]
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

impl<'a> ObjectRow<'a> {
    fn of(object: &'a ObjectProbes, promised: impl Iterator<Item = &'a HookProbe> + Clone) -> Self {
        let with_sites = object.probes.iter().filter(|probe| probe.skipped.is_none()).count();
        Self {
            object: &object.name,
            ty: object.object_type.name(),
            probes: with_sites + promised.clone().count(),
            sites: object.sites + promised.map(|it| it.sites.len() as u64).sum::<u64>(),
            unread: object.unread.count,
            elsewhere: object.elsewhere.values().sum(),
            build_id: object.build_id.as_deref(),
        }
    }
}

fn objects(rows: &[ObjectRow<'_>], is_json: bool) -> Result<Output, Failure> {
    if is_json {
        return document("list", &(), rows).map(Output::text);
    }
    let mut table = Table::new(["object", "type", "probes", "sites", "unread", "build id"]);
    for row in rows {
        table.push(row.object).push(row.ty).push(row.probes).push(row.sites).push(row.unread);
        table.push(row.build_id);
    }
    Ok(Output::view(View::table(table)))
}

/// A probe, as a table and as a row of JSON.
#[derive(Clone, Serialize)]
struct Listed<'a> {
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
    /// Provider and name of its USDT probe. A running program does not tell them.
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
struct LeftOut {
    probe: String,
    reason: String,
}

impl<'a> From<InFile<'a>> for Listed<'a> {
    fn from(probe: InFile<'a>) -> Self {
        match probe {
            InFile::Table(probe) => probe.into(),
            InFile::Promised(probe) => Self {
                probe: (&*probe.path).into(),
                kind: probe.kind.name().into(),
                file: (&*probe.file).into(),
                line: probe.line,
                sites: probe.sites.len() as u64,
                fields: Vec::new(),
                group: None,
                doc: None,
                usdt: None,
                state: probe.state.into(),
                object: Cow::default(),
            },
        }
    }
}

impl<'a> From<&'a Probe> for Listed<'a> {
    fn from(probe: &'a Probe) -> Self {
        let field = |field: &'a FieldOf| Field {
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
    fn object(&self) -> (&str, u64) {
        (&self.object, self.sites)
    }

    /// Returns names and types: `bytes: u64, request`.
    fn fields(&self) -> String {
        let field = |field: &Field<'_>| match &field.ty {
            Some(ty) => format!("{}: {ty}", field.name),
            None => field.name.to_string(),
        };
        self.fields.iter().map(field).collect::<Vec<_>>().join(", ")
    }
}

/// Returns the probes as `PROBES=list` prints them, with types, and with states if one is not
/// latent.
fn table<'a, L: Borrow<Listed<'a>>>(probes: impl Iterator<Item = L> + Clone, left_out: &[LeftOut]) -> Output {
    let has_groups = probes.clone().any(|probe| probe.borrow().group.is_some());
    let has_usdt = probes.clone().any(|probe| probe.borrow().usdt.is_some());
    let has_states = probes.clone().any(|probe| probe.borrow().state != "latent");
    let mut heading = vec!["probe", "kind", "sites", "place", "fields"];
    heading.extend(has_groups.then_some("group"));
    heading.extend(has_usdt.then_some("usdt"));
    heading.extend(has_states.then_some("state"));
    let mut table = Table::new(heading);
    let (mut many, mut sites) = (0, 0);
    for probe in probes {
        let probe = probe.borrow();
        table.push(probe.probe.to_string()).push(probe.kind.to_string()).push(probe.sites);
        table.push(format!("{}:{}", probe.file, probe.line)).push(probe.fields());
        if has_groups {
            table.push(probe.group.as_deref().unwrap_or_default().to_owned());
        }
        if has_usdt {
            table.push(probe.usdt.as_deref().unwrap_or_default().to_owned());
        }
        if has_states {
            table.push(probe.state.to_string());
        }
        (many, sites) = (many + 1, sites + probe.sites);
    }
    let mut view = View::table(table);
    view.notes.push(format!("{}, {}", count(many, "probe"), count(sites, "site")));
    if !left_out.is_empty() {
        let functions = was(left_out.len() as u64, "function");
        view.notes.push(format!("{functions} left out:"));
        let line = |it: &LeftOut| format!("  {} ({})", escape(&it.probe), escape(&it.reason));
        view.notes.extend(left_out.iter().map(line));
    }
    Output::view(view)
}
