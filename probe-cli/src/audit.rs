//! Checks each site of a file: where it lies, how it is switched, and whether its bytes, its record
//! and its stub agree.

use probe_core::abi::Convention;
use serde::Serialize;

use crate::elf::{ElfError, Functions, Image, functions};
use crate::probe_tables::{Form, ObjectProbes, Probe, SITE_LEN, Site, SiteState};
use crate::text::hex;

/// A site, and its probe.
#[derive(Clone, Copy, Debug)]
pub struct AuditedSite<'a> {
    /// The probe.
    pub probe: &'a Probe,
    /// The site.
    pub site: Site,
}

/// The result of an audit.
pub struct Audit<'a> {
    /// All sites, in the order of their addresses.
    pub sites: Vec<AuditedSite<'a>>,
    /// The problems.
    pub findings: Findings,
    /// The source of the starts of functions, `symbols` or `unwind tables`; empty if there is none.
    pub functions_by: &'static str,
}

/// Checks all sites of a file.
///
/// # Errors
/// If the file can't be read.
pub fn audit<'a>(image: &Image, object: &'a ObjectProbes) -> Result<Audit<'a>, ElfError> {
    let functions = functions(image).map_err(|problem| image.error(problem))?;
    let mut findings = Findings::default();
    if let Some(version) = object.later {
        findings.add(None, || {
            format!(
                "a note has version {version}, which this probectl does not know: its probes are not listed"
            )
        });
    }
    for problem in &object.unread.shown {
        findings.add(None, || problem.clone());
    }
    let unshown = object.unread.count - object.unread.shown.len() as u64;
    if unshown != 0 {
        findings.add(None, || format!("{unshown} more records or definitions can't be read"));
    }
    let sites = object
        .probes
        .iter()
        .flat_map(|probe| probe.sites.iter().map(move |site| AuditedSite { probe, site: *site }));
    let mut sites: Vec<_> = sites.collect();
    sites.sort_by_key(|it| it.site.addr);
    for audited in &sites {
        check(audited, &functions, &mut findings);
    }
    for pair in sites.windows(2) {
        let (one, other) = (pair[0].site.addr, pair[1].site.addr);
        // Compilers put calls anywhere.
        let are_calls = pair.iter().all(|it| it.probe.convention == Convention::Call);
        if !are_calls && (one + SITE_LEN as u64 - 1) / 8 >= other / 8 {
            findings.add(Some(other), || {
                format!(
                    "it shares an aligned word with the site at {one:#x}: switching one races with the other"
                )
            });
        }
    }
    Ok(Audit { sites, findings, functions_by: functions.by })
}

fn check(audited: &AuditedSite<'_>, functions: &Functions, findings: &mut Findings) {
    let AuditedSite { probe, site } = audited;
    let at = Some(site.addr);
    if site.state() == SiteState::Foreign {
        findings.add(at, || {
            format!("foreign bytes {}: the runtime would leave this site alone", hex(&site.bytes))
        });
    }
    if functions.is_start(site.addr) {
        findings
            .add(at, || "it is a function's first instruction, where breakpoints and uprobes go".to_owned());
    }
    let expected = match probe.convention {
        Convention::ColdBlock | Convention::KeptColdBlock => Form::Jump,
        Convention::Hidden | Convention::Call | Convention::Wrapped => Form::Call,
    };
    if site.form != expected {
        let convention = probe.convention as u16;
        findings.add(at, || {
            let name = |form| if form == Form::Jump { "JMP" } else { "CALL" };
            format!(
                "its record says {}, and its definition's convention {convention} needs {}",
                name(site.form),
                name(expected)
            )
        });
    }
    if site.form == Form::Call && site.target != site.stub {
        let (target, stub) = (site.target, site.stub);
        findings.add(at, || format!("it would call {target:#x} in place of its stub at {stub:#x}"));
    }
    if probe.skipped.is_some() {
        findings.add(at, || format!("its definition `{}` says that it has no sites", probe.path));
    }
}

/// Most findings that are kept. The others are counted.
const MAX_SHOWN: usize = 1000;

/// Something that is wrong with a site, or with a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The site's address; `None` for a table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<u64>,
    /// The problem and its consequence.
    pub problem: String,
}

/// The findings of a file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Findings {
    /// The first findings.
    pub shown: Vec<Finding>,
    /// The number of all findings.
    pub count: u64,
}

impl Findings {
    /// Adds a finding. Its description is made only if it is kept.
    fn add(&mut self, site: Option<u64>, describe: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < MAX_SHOWN {
            self.shown.push(Finding { site, problem: describe() });
        }
    }
}
