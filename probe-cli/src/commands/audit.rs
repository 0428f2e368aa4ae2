//! `audit`: each site of a file, and the findings.

use std::fmt::Write;

use probe_report::{Table, View};

use crate::args;
use crate::audit::{Audit, AuditedSite, audit};
use crate::elf::Image;
use crate::output::{Exit, Failure, Output, document, object};
use crate::probe_tables::{Form, ObjectProbes};
use crate::progress::Progress;
use crate::text::{count, escape};

pub(super) fn run(args: &args::Audit, is_json: bool) -> Result<Output, Failure> {
    let _progress = Progress::start(&format!("reading {}", args.file.display()), 0);
    let image = Image::open(&args.file).map_err(Failure::input)?;
    let object = ObjectProbes::of(&image).map_err(Failure::input)?;
    let audit = audit(&image, &object).map_err(Failure::input)?;
    let mut shown = match (is_json, args.quiet || audit.sites.is_empty()) {
        (true, is_quiet) => Output::text(as_json(&object, &audit, is_quiet)?),
        (false, true) => Output::text(totals(&object, &audit)),
        (false, false) => {
            let mut view = View::table(table(&audit));
            view.notes.extend(totals(&object, &audit).lines().map(str::to_owned));
            Output::view(view)
        }
    };
    if audit.functions_by.is_empty() && !audit.sites.is_empty() {
        let note = "nothing tells where functions begin: the file has neither symbols nor unwind tables";
        shown.notes.push(note.to_owned());
    }
    shown.notes.extend(super::list::hooks(&image)?);
    if audit.findings.count != 0 {
        shown.exit = Exit::Finding;
    } else if object.probes.is_empty() {
        shown.exit = Exit::NoMatch;
    }
    Ok(shown)
}

/// Returns the way in which the site is switched.
fn switched(audited: &AuditedSite<'_>) -> &'static str {
    if audited.site.is_in_one_word() { "one write" } else { "int3, straddles" }
}

fn form(audited: &AuditedSite<'_>) -> &'static str {
    if audited.site.form == Form::Jump { "jmp" } else { "call" }
}

fn table<'a>(audit: &'a Audit<'_>) -> Table<'a> {
    let mut table = Table::new(["site", "in word", "switched by", "form", "state", "kind", "probe"]);
    for audited in &audit.sites {
        let AuditedSite { probe, site } = audited;
        table.push(format!("{:#x}", site.addr)).push(site.offset_in_word().to_string());
        table.push(switched(audited)).push(form(audited)).push(site.state().name());
        table.push(probe.kind.name()).push(probe.path.as_str());
    }
    table
}

fn totals(object: &ObjectProbes, audit: &Audit<'_>) -> String {
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

fn as_json(object: &ObjectProbes, audit: &Audit<'_>, is_quiet: bool) -> Result<String, Failure> {
    let members = object! {
        file: &object.name,
        functions_by: audit.functions_by,
        findings: audit.findings.count,
        found: &audit.findings.shown,
    };
    let sites: &[AuditedSite<'_>] = if is_quiet { &[] } else { &audit.sites };
    let rows = sites.iter().map(|audited| {
        object! {
            site: audited.site.addr,
            in_word: audited.site.offset_in_word(),
            switched_by: switched(audited),
            form: form(audited),
            state: audited.site.state().name(),
            kind: audited.probe.kind.name(),
            probe: &audited.probe.path,
        }
    });
    document("audit", &members, rows)
}
