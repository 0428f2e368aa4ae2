//! `audit`: each site of a file, and the findings.

use std::fmt::Write;

use probe_report::{Table, View};
use serde::Serialize;

use super::list::HookTotals;
use crate::args;
use crate::audit::{Audit, AuditedSite, Finding, audit};
use crate::elf::Image;
use crate::hook_probes::{HookProbe, HookProbes};
use crate::output::{Exit, Failure, Output, document};
use crate::probe_tables::{Form, ObjectProbes};
use crate::progress::Progress;
use crate::sled_probes::{SledProbes, UnusableSled};
use crate::text::{count, escape};

pub(super) fn run(args: &args::Audit, is_json: bool) -> Result<Output, Failure> {
    let _progress = Progress::start(&format!("reading {}", args.file.display()), 0);
    let image = Image::open(&args.file).map_err(Failure::input)?;
    let object = ObjectProbes::of(&image).map_err(Failure::input)?;
    let audit = audit(&image, &object).map_err(Failure::input)?;
    let hooks = HookProbes::of(&args.file, &image).map_err(Failure::input)?;
    let sleds = SledProbes::of(&args.file, &image).map_err(Failure::input)?;
    let mut rows: Vec<_> = audit.sites.iter().map(Row::from).collect();
    let of_sleds = sleds.iter().flat_map(|it| &it.probes);
    rows.extend(hooks.iter().flat_map(|it| &it.probes).chain(of_sleds).flat_map(Row::promised));
    rows.sort_by_key(|row| row.site);
    let mut shown = match (is_json, args.quiet || rows.is_empty()) {
        (true, is_quiet) => {
            let rows = if is_quiet { &[][..] } else { &rows };
            Output::text(as_json(&object, &audit, hooks.as_ref(), sleds.as_ref(), rows)?)
        }
        (false, true) => Output::text(totals(&object, &audit, hooks.as_ref(), sleds.as_ref())),
        (false, false) => {
            let mut view = View::table(table(&rows));
            let totals = totals(&object, &audit, hooks.as_ref(), sleds.as_ref());
            view.notes.extend(totals.lines().map(str::to_owned));
            Output::view(view)
        }
    };
    if audit.functions_by.is_empty() && !audit.sites.is_empty() {
        let note = "nothing tells where functions begin: the file has neither symbols nor unwind tables";
        shown.notes.push(note.to_owned());
    }
    shown.notes.extend(hooks.iter().flat_map(|it| it.notes(image.name())));
    shown.notes.extend(sleds.iter().flat_map(|it| it.notes(image.name())));
    if audit.findings.count != 0 {
        shown.exit = Exit::Finding;
    } else if object.probes.is_empty() && rows.is_empty() {
        shown.exit = Exit::NoMatch;
    }
    Ok(shown)
}

/// A site, a call of a hook, or a sled.
#[derive(Serialize)]
struct Row<'a> {
    site: u64,
    in_word: u64,
    switched_by: &'static str,
    form: &'static str,
    state: &'static str,
    kind: &'static str,
    probe: &'a str,
}

impl<'a> From<&AuditedSite<'a>> for Row<'a> {
    fn from(AuditedSite { probe, site }: &AuditedSite<'a>) -> Self {
        Self {
            site: site.addr,
            in_word: site.offset_in_word(),
            switched_by: if site.is_in_one_word() { "one write" } else { "int3, straddles" },
            form: if site.form == Form::Jump { "jmp" } else { "call" },
            state: site.state().name(),
            kind: probe.kind.name(),
            probe: &probe.path,
        }
    }
}

impl<'a> Row<'a> {
    fn promised(probe: &'a HookProbe) -> impl Iterator<Item = Self> {
        probe.sites.iter().map(|site| Self {
            site: site.addr,
            in_word: site.addr % 8,
            switched_by: site.switched_by,
            form: site.instruction,
            state: probe.state,
            kind: probe.kind.name(),
            probe: &probe.path,
        })
    }
}

fn table<'a>(rows: &[Row<'a>]) -> Table<'a> {
    let mut table = Table::new(["site", "in word", "switched by", "form", "state", "kind", "probe"]);
    for row in rows {
        table.push(format!("{:#x}", row.site)).push(row.in_word.to_string());
        table.push(row.switched_by).push(row.form).push(row.state).push(row.kind).push(row.probe);
    }
    table
}

fn totals(
    object: &ObjectProbes,
    audit: &Audit<'_>,
    hooks: Option<&HookProbes>,
    sleds: Option<&SledProbes>,
) -> String {
    let mut text = String::new();
    let one_word = audit.sites.iter().filter(|it| it.site.is_in_one_word()).count();
    let straddling = audit.sites.len() - one_word;
    // Writing to a string never fails.
    let _ = write!(text, "{} of ", count(object.sites, "site"));
    let probes = object.probes.iter().filter(|probe| probe.skipped.is_none()).count();
    let _ = writeln!(
        text,
        "{}: {one_word} switched by one write, {straddling} through int3",
        count(probes as u64, "probe")
    );
    let elsewhere: u64 = object.elsewhere.values().sum();
    if elsewhere != 0 {
        let _ = writeln!(text, "{} of probes that other objects define", count(elsewhere, "more site"));
    }
    if let Some(hooks) = hooks {
        let stay = hooks.probes.iter().flat_map(|it| &it.sites).filter(|it| !it.is_switched()).count() as u64;
        let (calls, probes) = (count(hooks.sites(), "call"), count(hooks.probes.len() as u64, "probe"));
        let _ = writeln!(text, "{calls} of hooks, of {probes}: {stay} stay calls");
    }
    if let Some(SledProbes { probes, unusable, .. }) = sleds {
        let sites = sleds.map_or(0, SledProbes::sites);
        let (sites, probes) = (count(sites, "sled"), count(probes.len() as u64, "probe"));
        let _ = writeln!(text, "{sites}, of {probes}: {} can't be used", unusable.len());
    }
    let findings = &audit.findings;
    let _ = writeln!(text, "{}", count(findings.count, "finding"));
    for finding in &findings.shown {
        let problem = escape(&finding.problem);
        let _ = match finding.site {
            Some(site) => writeln!(text, "  the site at {site:#x}: {problem}"),
            None => writeln!(text, "  {problem}"),
        };
    }
    let unshown = findings.count - findings.shown.len() as u64;
    if unshown != 0 {
        let _ = writeln!(text, "  and {unshown} more");
    }
    text
}

#[derive(Serialize)]
struct Members<'a> {
    file: &'a str,
    functions_by: &'a str,
    findings: u64,
    found: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks: Option<HookTotals>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unusable: &'a [UnusableSled],
}

fn as_json(
    object: &ObjectProbes,
    audit: &Audit<'_>,
    hooks: Option<&HookProbes>,
    sleds: Option<&SledProbes>,
    rows: &[Row<'_>],
) -> Result<String, Failure> {
    let members = Members {
        file: &object.name,
        functions_by: audit.functions_by,
        findings: audit.findings.count,
        found: &audit.findings.shown,
        hooks: hooks.map(HookTotals::of),
        unusable: sleds.map_or(&[], |it| &it.unusable),
    };
    document("audit", &members, rows)
}
