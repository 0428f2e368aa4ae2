//! `coldpatch`: calls of hooks in a file ▸ NOPs, and the table or the list of their sites.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use probe_coldpatch::{Call, HAS_PROBES, List, Object, archive, bytes_behind, latent, linked};
use probe_hooks::ObjectFile;

use tempfile::NamedTempFile;

use crate::args::Coldpatch;
use crate::elf::{HookCalls, Hooks, Image, notes};
use crate::hook_probes::{CertainCalls, told};
use crate::output::{Failure, NewFile, Output, document, object};
use crate::progress::Progress;
use crate::site_list::{build_id, read_file};
use crate::text::count;

pub(super) fn run(args: &Coldpatch, is_json: bool) -> Result<Output, Failure> {
    let progress = Progress::start(&format!("reading {}", args.file.display()), 0);
    if !args.force && is_same(&args.file, &args.output) {
        let problem = "OUT is FILE itself; give another name, or --force to replace it";
        return Err(Failure::Usage(problem.to_owned()));
    }
    let name = args.file.display().to_string();
    let bytes = read_file(&args.file)?;
    let mut totals = Totals::default();
    let is_archive = archive::is_archive(&bytes);
    let is_object = bytes.starts_with(b"\x7fELF") && bytes.get(16..18) == Some(&[1, 0]);
    let (out, list) = if is_archive || is_object {
        if args.list.is_some() {
            let problem = "a list is of a linked file; leave out --list, or link first";
            return Err(Failure::Usage(problem.to_owned()));
        }
        totals.notes.push("the hooks of a program that links it no longer get the calls that are sites");
        let out = if is_archive {
            of_archive(&name, &args.file, &bytes, &mut totals)?
        } else {
            of_object(&name, &args.file, &bytes, &mut totals)?
        };
        (out, None)
    } else {
        of_linked(&name, args, &bytes, &mut totals)?
    };
    if totals.sites == 0 {
        return Err(Failure::NoMatch(match totals.reasons() {
            reasons if reasons.is_empty() => {
                format!("{name} has no calls of the hooks of -finstrument-functions; build it with this flag")
            }
            reasons => format!("{name} has no call that can become a site: {reasons}"),
        }));
    }
    drop(progress);
    let listed = match (list, &args.list) {
        (Some(list), Some(path)) => Some((path, written(path, list.as_bytes(), None)?)),
        _ => None,
    };
    let out = written(&args.output, &out, Some(&args.file))?;
    // A list without its file would be of no use, and so would the file without its list.
    for (path, new) in listed.into_iter().chain([(&args.output, out)]) {
        new.finish().map_err(|error| not_written(path, &error))?;
    }
    totals.told(args, is_json)
}

/// Returns an executable or a shared object with sites, and their list, if one is asked for.
fn of_linked(
    name: &str,
    args: &Coldpatch,
    bytes: &[u8],
    totals: &mut Totals,
) -> Result<(Vec<u8>, Option<String>), Failure> {
    let image = Image::read(name, Box::new(bytes.to_vec())).map_err(Failure::input)?;
    let failed = |problem| Failure::input(image.error(problem));
    if notes(&image).map_err(failed)?.probes.is_some() {
        return Err(Failure::Input(format!("{name} {HAS_PROBES}")));
    }
    let symbols = ObjectFile::new(args.file.clone(), args.file.clone(), 0, true);
    let Some(found) = HookCalls::of(&image, &symbols).map_err(failed)? else {
        return Ok((Vec::new(), None));
    };
    if found.are_one {
        totals
            .notes
            .push("its two hooks are one function, so the order of its calls tells entries from exits");
    }
    if found.hooks == Hooks::Own || found.hooks == Hooks::Static {
        totals.notes.push("its own hooks no longer get the calls that are sites");
    }
    let certain = CertainCalls::of(&image, &found, &symbols, |_| None).map_err(failed)?;
    let listed_jumps = certain.calls.iter().filter(|it| args.list.is_some() && it.needs_thunk());
    let listed_jumps: Vec<_> = listed_jumps.map(|it| it.addr).collect();
    totals.add(&certain, &listed_jumps, &|at| format!("{at:#x}"));
    let CertainCalls { probes, calls, .. } = certain;
    let refused = |error| Failure::Input(format!("{name} {error}"));
    if args.list.is_none() {
        if bytes_behind(bytes) != 0 {
            totals.notes.push(
                "the bytes behind its last section stay at the end, so their distance from the beginning is another",
            );
        }
        return Ok((linked(bytes, &probes, &calls).map_err(refused)?, None));
    }
    let build_id = build_id(&image)?.ok_or_else(|| {
        Failure::Input(format!(
            "{name} has no build id, which tells its list from others: link it with -Wl,--build-id"
        ))
    })?;
    let list = List::new(&build_id, &probes, &calls).to_json().map_err(Failure::input)?;
    Ok((latent(bytes, &calls).map_err(refused)?, Some(list)))
}

/// Returns an object file with sites.
fn of_object(name: &str, own_path: &Path, bytes: &[u8], totals: &mut Totals) -> Result<Vec<u8>, Failure> {
    let refused = |error| Failure::Input(format!("{name} {error}"));
    let object = Object::read(bytes).map_err(refused)?;
    let image = object.image();
    // Readers of names want a file.
    let mut file = NamedTempFile::new().map_err(Failure::input)?;
    file.write_all(&image).map_err(Failure::input)?;
    let symbols = ObjectFile::new(file.path().to_owned(), own_path.to_owned(), 0, false);
    let image = Image::read(name, Box::new(image)).map_err(Failure::input)?;
    let failed = |problem| Failure::input(image.error(problem));
    let Some(found) = HookCalls::of(&image, &symbols).map_err(failed)? else { return Ok(bytes.to_vec()) };
    let obstacle = |call: &Call| {
        (!object.has_site(call)).then_some("a jump to a hook of the same file, which has no relocation")
    };
    let certain = CertainCalls::of(&image, &found, &symbols, obstacle).map_err(failed)?;
    totals.add(&certain, &[], &|at| format!("{name}: {}", object.describe(at)));
    let CertainCalls { probes, calls, .. } = certain;
    if calls.is_empty() {
        return Ok(bytes.to_vec());
    }
    object.patched(&probes, &calls).map_err(refused)
}

/// Returns an archive whose object files have sites.
fn of_archive(name: &str, path: &Path, bytes: &[u8], totals: &mut Totals) -> Result<Vec<u8>, Failure> {
    let refused = |error| Failure::Input(format!("{name} {error}"));
    let members = archive::members(bytes).map_err(refused)?;
    let mut new = BTreeMap::new();
    for (number, member) in members.iter().enumerate() {
        // Other members are tables, or what a compiler keeps for the link.
        if member.bytes.starts_with(b"\x7fELF") {
            let name = format!("{name}({})", member.name.trim_end_matches('/'));
            new.insert(number, of_object(&name, path, member.bytes, totals)?);
        }
    }
    archive::with_members(&members, bytes, &new).map_err(refused)
}

/// Returns whether two paths lead to one file.
fn is_same(one: &Path, other: &Path) -> bool {
    let [one, other] = [one, other].map(fs::canonicalize);
    one.is_ok_and(|one| other.is_ok_and(|other| one == other))
}

/// Writes a file, which is there once it is finished, with the rights of another one.
fn written(path: &Path, bytes: &[u8], like: Option<&Path>) -> Result<NewFile, Failure> {
    let write = || {
        let mut new = NewFile::create(path)?;
        new.file.write_all(bytes)?;
        if let Some(like) = like {
            new.file.set_permissions(fs::metadata(like)?.permissions())?;
        }
        Ok(new)
    };
    write().map_err(|error| not_written(path, &error))
}

fn not_written(path: &Path, error: &io::Error) -> Failure {
    Failure::Input(format!("{} can't be written: {error}", path.display()))
}

/// Why a jump stays that a list has.
const LISTED_JUMP: &str = "a jump, whose site would need code of its own, so that only `--ptrace` counts it";

/// The numbers of all files, and the calls that stay.
#[derive(Default)]
struct Totals {
    sites: u64,
    probes: u64,
    /// Places of calls that stay, by their reasons.
    kept: BTreeMap<&'static str, Vec<String>>,
    /// Calls that stay, and are known by their number only.
    unclear: u64,
    /// Lines for the end.
    notes: Vec<&'static str>,
}

impl Totals {
    /// Adds the calls of a file, of which `jumps` stay. `place` tells where a call is.
    fn add(&mut self, found: &CertainCalls, jumps: &[u64], place: &dyn Fn(u64) -> String) {
        self.unclear += found.unclear;
        for (reason, all) in &found.others {
            self.kept.entry(reason).or_default().extend(all.iter().map(|at| place(*at)));
        }
        if !jumps.is_empty() {
            self.kept.entry(LISTED_JUMP).or_default().extend(jumps.iter().map(|at| place(*at)));
        }
        self.sites += (found.calls.len() - jumps.len()) as u64;
        let sites = found.calls.iter().filter(|it| jumps.binary_search(&it.addr).is_err());
        self.probes += sites.map(|it| it.probe).collect::<HashSet<_>>().len() as u64;
    }

    /// Returns the numbers of calls that stay, with their reasons.
    fn reasons(&self) -> String {
        told(self.kept.iter().map(|(reason, all)| (*reason, all.len() as u64)), self.unclear)
    }

    fn told(&self, args: &Coldpatch, is_json: bool) -> Result<Output, Failure> {
        let output = args.output.display().to_string();
        let kept = self.kept.values().map(|it| it.len() as u64).sum::<u64>() + self.unclear;
        if is_json {
            let rows = self.kept.iter().flat_map(|(reason, all)| {
                all.iter().map(move |place| object! { call: place, reason: *reason })
            });
            let members = object! {
                file: args.file.display().to_string(),
                output: output,
                sites: self.sites,
                probes: self.probes,
                kept: kept,
                unclear: self.unclear,
                notes: &self.notes,
            };
            return document("coldpatch", &members, rows).map(Output::text);
        }
        let mut text =
            format!("{output}: {} of {}\n", count(self.sites, "site"), count(self.probes, "probe"));
        if kept != 0 {
            let verb = if kept == 1 { "stays" } else { "stay" };
            let _ = writeln!(text, "{} of hooks {verb}: {}", count(kept, "call"), self.reasons());
        }
        for note in &self.notes {
            let _ = writeln!(text, "{note}");
        }
        Ok(Output::text(text))
    }
}
