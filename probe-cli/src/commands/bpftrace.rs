//! `list --bpftrace`: a program for bpftrace that counts hits of probes, for machines where only
//! the kernel's tools are allowed.
//!
//! | probe | the program has |
//! |---|---|
//! | with a USDT note | its name, which stands for all of its machine copies |
//! | an entry without | the beginning of each function that leads straight to sites of it |
//! | any other | nothing, and a note says so |
//!
//! The program sets no uprobe on a site itself: when a uprobe is removed, the kernel writes back
//! the byte of the file, and would tear a site that has become active meanwhile.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::path::{Path, absolute};

use probe_core::Kind;

use crate::elf::{FunctionStarts, Functions, Image, Problem, functions};
use crate::output::{Failure, Output};
use crate::probe_tables::Probe;
use crate::text::{count, escape};

/// Most bytes of a text in bpftrace, by default.
const MAX_KEY_LEN: usize = 60;
/// Most probes of a program in bpftrace, by default.
const MAX_PROBES: usize = 512;
/// Most keys of a map in bpftrace, by default.
const MAX_KEYS: usize = 4096;

/// Returns the program for these probes of a file.
pub(super) fn program(file: &Path, image: &Image, probes: &[&Probe]) -> Result<Output, Failure> {
    let path = quotable_path(file)?;
    let functions = functions(image).map_err(|problem| Failure::input(image.error(problem)))?;
    let mut program = Program {
        starts: FunctionStarts::new(image, &functions),
        lines: Vec::new(),
        named: HashMap::new(),
        many: 0,
        keys: 0,
        others: 0,
        returns: 0,
        doubts: Vec::new(),
    };
    for probe in probes {
        program.add(probe, &path).map_err(|it| Failure::input(image.error(it)))?;
    }
    program.finish(image, &functions)
}

/// Returns the file's absolute path, if bpftrace can name it.
fn quotable_path(file: &Path) -> Result<String, Failure> {
    let unread = |error| Failure::Input(format!("{} has no path: {error}", file.display()));
    let mut whole = absolute(file).map_err(unread)?;
    // A path below /proc/PID leads into the mounts of the process, or to a deleted program.
    let process = whole.strip_prefix("/proc").ok().and_then(|rest| rest.iter().next()?.to_str());
    if process.is_none_or(|it| it.parse::<u32>().is_err()) {
        whole = whole.canonicalize().map_err(unread)?;
    }
    let is_bad = |c: char| c.is_control() || "\"\\*?[]".contains(c);
    match whole.to_str() {
        Some(path) if !path.contains(is_bad) => Ok(path.to_owned()),
        _ => Err(Failure::Usage(format!(
            "bpftrace can't name {}: copy the file to a path of UTF-8 without quotes, wildcards and control \
             characters",
            file.display()
        ))),
    }
}

struct Program<'a> {
    starts: FunctionStarts<'a>,
    lines: Vec<String>,
    /// The probe that is shown, by its USDT name.
    named: HashMap<String, String>,
    /// Number of probes as bpftrace counts them.
    many: usize,
    /// Number of probes that are counted.
    keys: usize,
    /// Number of probes that are neither USDT probes nor entries.
    others: u64,
    /// Number of USDT probes of returns only.
    returns: u64,
    /// Notes on probes that the program can't see or tell apart.
    doubts: Vec<String>,
}

impl Program<'_> {
    fn add(&mut self, probe: &Probe, path: &str) -> Result<(), Problem> {
        if let Some(usdt) = probe.usdt_name() {
            let is_of_returns =
                probe.kind == Kind::Exit && probe.fields.iter().any(|it| it.name == "outcome");
            self.returns += u64::from(is_of_returns);
            let shown = note_name(probe);
            if let Some(first) = self.named.get(&usdt.to_string()) {
                self.doubts.push(format!(
                    "`{shown}` and `{first}` have one USDT name, and are counted as the latter"
                ));
                return Ok(());
            }
            // Each machine copy takes one of bpftrace's probes.
            self.many += probe.sites.len();
            let (provider, name) = (usdt.provider(), usdt.name());
            let key = self.key(probe);
            self.count(&format!("usdt:\"{path}\":{provider}:{name}"), &key, 1);
            self.named.insert(usdt.to_string(), shown);
            return Ok(());
        }
        if probe.kind != Kind::Entry {
            self.others += 1;
            return Ok(());
        }
        // The number of sites that each function beginning leads to.
        let mut begins = BTreeMap::new();
        for site in &probe.sites {
            if let Some(start) = self.starts.of(site.addr)? {
                *begins.entry(start).or_insert(0) += 1;
            }
        }
        let (all, seen) = (probe.sites.len(), begins.values().sum::<usize>());
        match all - seen {
            _ if all == 0 => {
                self.doubts.push(format!("`{}` has no site: it was optimised away", escape(&probe.path)));
            }
            0 => (),
            hidden => self.doubts.push(format!(
                "hits of {hidden} of {} of `{}` are not seen: no function's beginning is known to lead \
                 straight to {}",
                count(all as u64, "site"),
                escape(&probe.path),
                if hidden == 1 { "it" } else { "each" }
            )),
        }
        if begins.is_empty() {
            return Ok(());
        }
        self.many += begins.len();
        let key = self.key(probe);
        for (start, sites) in begins {
            self.count(&format!("uprobe:\"{path}\":{start:#x}"), &key, sites);
        }
        Ok(())
    }

    fn count(&mut self, place: &str, key: &str, sites: usize) {
        self.lines.push(format!("{place} {{ {} }}", action(key, sites)));
    }

    /// Returns the probe's path and kind, as a text that bpftrace accepts. A number replaces the
    /// beginning of a long text.
    fn key(&mut self, probe: &Probe) -> String {
        self.keys += 1;
        let whole = format!("{} {}", probe.path, probe.kind.name());
        let plain: String =
            whole.chars().map(|c| if c.is_control() || "\"\\".contains(c) { '?' } else { c }).collect();
        if plain.len() <= MAX_KEY_LEN {
            return plain;
        }
        let number = self.lines.len() + 1;
        self.lines.push(format!("// #{number}: {}", escape(&plain)));
        let beginning = format!("#{number} ");
        let from = plain.len() - (MAX_KEY_LEN - beginning.len());
        let from = (from..plain.len()).find(|at| plain.is_char_boundary(*at)).unwrap_or(plain.len());
        beginning + &plain[from..]
    }

    fn finish(self, image: &Image, functions: &Functions) -> Result<Output, Failure> {
        let mut notes: Vec<_> = self.doubts.iter().take(3).cloned().collect();
        if self.doubts.len() > 3 {
            notes.push(format!("and so for {}", count(self.doubts.len() as u64 - 3, "more probe")));
        }
        if self.returns != 0 {
            let returns = count(self.returns, "probe");
            notes.push(format!("hits by a panic are not seen of {returns} with `usdt` and `ret`"));
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
        let _ = writeln!(out, "// Counts hits in {}, until Ctrl-C: bpftrace FILE", escape(image.name()));
        if functions.by != "symbols" {
            out.push_str("// The file has no symbols, so bpftrace takes addresses with --unsafe only.\n");
        }
        let mut limits = String::new();
        if self.many > MAX_PROBES {
            let _ = write!(limits, " BPFTRACE_MAX_PROBES={}", self.many);
        }
        if self.keys > MAX_KEYS {
            let _ = write!(limits, " BPFTRACE_MAP_KEYS_MAX={}", self.keys);
        }
        if !limits.is_empty() {
            let _ = writeln!(out, "// bpftrace 0.17 takes so many with{limits} only.");
        }
        for line in self.lines {
            let _ = writeln!(out, "{line}");
        }
        Ok(Output { notes, ..Output::text(out) })
    }
}

/// Returns an action that counts a hit of each site that is passed.
fn action(key: &str, sites: usize) -> String {
    vec![format!("@[\"{key}\"] = count();"); sites].join(" ")
}

/// Returns the probe's path and kind, for a note.
fn note_name(probe: &Probe) -> String {
    format!("{} {}", escape(&probe.path), probe.kind.name())
}

#[cfg(test)]
mod tests {
    use super::action;

    #[test]
    fn each_site_is_counted() {
        assert_eq!(action("a::b entry", 1), r#"@["a::b entry"] = count();"#);
        assert_eq!(action("a", 2), r#"@["a"] = count(); @["a"] = count();"#);
    }
}
