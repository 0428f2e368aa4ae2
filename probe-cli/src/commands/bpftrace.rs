//! `list --bpftrace`: a program for bpftrace that counts hits of probes, for machines where the
//! kernel's tool is the only one that is allowed.
//!
//! | probe | the program has |
//! |---|---|
//! | with a USDT note | its name, which stands for all of its machine copies |
//! | an entry without | the beginning of each function that leads straight to a site of it |
//! | any other | nothing, and a note says so |
//!
//! Nothing is put on a site itself: when a uprobe goes, the kernel writes back the byte of the
//! file, and would tear a site that has become active meanwhile.

use std::fmt::Write;
use std::path::Path;

use probe_runtime::Kind;

use crate::elf::{Functions, Image, Problem, functions, passes_once};
use crate::output::{Failure, Shown};
use crate::tables::Probe;
use crate::text::{clean, count};

/// Bytes of a function that are decoded. A longer one is left out.
const LONGEST: usize = 1 << 20;
/// Bytes of a text that bpftrace takes, unless it is told otherwise.
const LONGEST_KEY: usize = 60;
/// Probes that bpftrace takes, unless it is told otherwise.
const MOST: usize = 512;

/// Returns the program for these probes of a file.
pub(super) fn program(file: &Path, image: &Image, probes: &[&Probe]) -> Result<Shown, Failure> {
    let path = quotable(file)?;
    let functions = functions(image).map_err(|problem| Failure::input(image.error(problem)))?;
    let mut program = Program { lines: Vec::new(), many: 0, others: 0, hidden: Vec::new() };
    for probe in probes {
        program.add(probe, &path, image, &functions).map_err(|it| Failure::input(image.error(it)))?;
    }
    program.finish(image, &functions)
}

/// Returns the file's whole path, if bpftrace can name it.
fn quotable(file: &Path) -> Result<String, Failure> {
    let whole = std::fs::canonicalize(file).ok().and_then(|path| path.to_str().map(str::to_owned));
    let is_bad = |c: char| c.is_control() || "\"\\*?[]".contains(c);
    match whole {
        Some(path) if !path.contains(is_bad) => Ok(path),
        _ => Err(Failure::Usage(format!(
            "bpftrace can't name {}: copy the file to a path without quotes, wildcards and control characters",
            file.display()
        ))),
    }
}

struct Program {
    lines: Vec<String>,
    /// Number of probes as bpftrace counts them.
    many: usize,
    /// Number of probes that are neither USDT probes nor entries.
    others: u64,
    /// Entries with sites whose hits the program can't see: path, number of these, of all.
    hidden: Vec<(String, u64, u64)>,
}

impl Program {
    fn add(
        &mut self,
        probe: &Probe,
        path: &str,
        image: &Image,
        functions: &Functions,
    ) -> Result<(), Problem> {
        if let Some(usdt) = probe.usdt_name().filter(|_| !probe.sites.is_empty()) {
            // Each machine copy takes one of bpftrace's probes.
            self.many += probe.sites.len();
            let (provider, name) = (usdt.provider(), usdt.name());
            self.count(&format!("usdt:\"{path}\":{provider}:{name}"), probe);
            return Ok(());
        }
        if probe.kind != Kind::Entry {
            self.others += 1;
            return Ok(());
        }
        let mut begins = Vec::new();
        let mut hidden = 0;
        for site in &probe.sites {
            match beginning(image, functions, site.addr)? {
                Some(start) if !begins.contains(&start) => begins.push(start),
                _ => hidden += 1,
            }
        }
        if hidden != 0 || begins.is_empty() {
            self.hidden.push((probe.path.clone(), hidden, probe.sites.len() as u64));
        }
        for start in begins {
            self.many += 1;
            self.count(&format!("uprobe:\"{path}\":{start:#x}"), probe);
        }
        Ok(())
    }

    fn count(&mut self, place: &str, probe: &Probe) {
        let key = self.key(probe);
        self.lines.push(format!("{place} {{ @[\"{key}\"] = count(); }}"));
    }

    /// Returns the probe's path and kind, as a text that bpftrace takes. A long one has a number in
    /// place of its beginning.
    fn key(&mut self, probe: &Probe) -> String {
        let whole = format!("{} {}", probe.path, probe.kind.name());
        let plain: String =
            whole.chars().map(|c| if c.is_control() || "\"\\".contains(c) { '?' } else { c }).collect();
        if plain.len() <= LONGEST_KEY {
            return plain;
        }
        let number = self.lines.len() + 1;
        self.lines.push(format!("// #{number}: {}", clean(&plain)));
        let beginning = format!("#{number} ");
        let from = plain.len() - (LONGEST_KEY - beginning.len());
        let from = (from..plain.len()).find(|at| plain.is_char_boundary(*at)).unwrap_or(plain.len());
        beginning + &plain[from..]
    }

    fn finish(self, image: &Image, functions: &Functions) -> Result<Shown, Failure> {
        let mut notes = Vec::new();
        for (path, hidden, all) in self.hidden.iter().take(3) {
            notes.push(match all {
                0 => format!("`{}` has no site: it was optimised away", clean(path)),
                _ => format!(
                    "hits of {hidden} of {} of `{}` are not seen: no function's beginning leads straight to {}",
                    count(*all, "site"),
                    clean(path),
                    if *hidden == 1 { "it" } else { "each" }
                ),
            });
        }
        if self.hidden.len() > 3 {
            notes.push(format!("and so for {}", count(self.hidden.len() as u64 - 3, "more probe")));
        }
        if self.others != 0 {
            let others = count(self.others, "probe");
            notes.push(format!(
                "{others} left out: only entries and probes with `usdt` can be seen by bpftrace"
            ));
        }
        if self.many == 0 {
            notes.push("give the probes `usdt`, or ask for entries: `kind=entry`".to_owned());
            return Err(Failure::NoMatch(format!(
                "bpftrace can see none of these probes; {}",
                notes.join("; ")
            )));
        }
        let mut out = String::new();
        // Writing to a string never fails.
        let _ = writeln!(out, "// Counts hits in {}, until Ctrl-C: bpftrace FILE", clean(image.name()));
        if functions.by != "symbols" {
            out.push_str("// The file has no symbols, so bpftrace takes addresses with --unsafe only.\n");
        }
        if self.many > MOST {
            let _ = writeln!(out, "// bpftrace takes so many with BPFTRACE_MAX_PROBES={} only.", self.many);
        }
        for line in self.lines {
            let _ = writeln!(out, "{line}");
        }
        Ok(Shown { notes, ..Shown::text(out) })
    }
}

/// Returns the beginning of the function around a site, if each of its calls passes the site once.
fn beginning(image: &Image, functions: &Functions, site: u64) -> Result<Option<u64>, Problem> {
    let next = functions.starts.partition_point(|start| *start <= site);
    let Some(start) = next.checked_sub(1).map(|at| functions.starts[at]) else { return Ok(None) };
    // The last function ends with the text.
    let end = functions.starts.get(next).copied().unwrap_or(site + 4096);
    let end = image.end_of_text(start).map_or(end, |text| text.min(end));
    let Some(length) = usize::try_from(end - start).ok().filter(|length| *length <= LONGEST) else {
        return Ok(None);
    };
    let mut code = Vec::new();
    let is_there = image.text(start, length, &mut code)?;
    Ok((is_there && passes_once(&code, start, site)).then_some(start))
}
