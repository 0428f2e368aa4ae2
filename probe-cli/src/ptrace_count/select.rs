//! The sites of a running program that a selector chooses, and its calls of hooks, grouped by
//! object.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use probe_coldpatch::{Call, Probe as CertainProbe};
use probe_core::abi::Convention;
use probe_hooks::{ObjectFile, ReadCache, read_sleds};
use probe_inject::Memory;
use probe_lang::Selector;

use super::instruction::Counted;
use crate::elf::{ElfError, HookCalls, Image, Problem, Runtime};
use crate::hook_probes::CertainCalls;
use crate::inject::{Object, objects};
use crate::output::Failure;
use crate::probe_tables::{ObjectProbes, Probe, SiteState};
use crate::site_list::SiteList;
use crate::text::count;

/// A probe of a running program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedProbe {
    /// The probe, with the addresses in its object's file.
    pub probe: Probe,
    /// Its sites in memory, and its calls of hooks, that may be switched.
    pub sites: Vec<Counted>,
}

/// The probes of a running program.
#[derive(Default)]
pub struct LoadedProbes {
    /// The probes of each object that has some.
    pub objects: Vec<Vec<LoadedProbe>>,
    /// The runtime that the program has, and its object's name.
    pub owner: Option<(String, Runtime)>,
    /// Lines about tables that can't be read.
    pub notes: Vec<String>,
}

/// Reads the probes of a program from its memory. With a list, those of the list's object come from
/// there.
///
/// # Errors
/// If the process is gone, or has no object of the list.
pub fn read_probes(pid: u32, memory: &Arc<Memory>, list: Option<&SiteList>) -> Result<LoadedProbes, Failure> {
    let mut all = LoadedProbes::default();
    let objects = objects(pid, memory).map_err(Failure::input)?;
    all.owner = objects.iter().find_map(|it| Some((it.name.clone(), it.runtime?)));
    let is_listed = |it: &Object| list.is_some_and(|list| list.is_of(&it.image));
    if let Some(list) = list.filter(|_| !objects.iter().any(is_listed)) {
        return Err(list.unused(&format!("process {pid}")));
    }
    for object in &objects {
        let list = list.filter(|_| is_listed(object));
        // The loader has changed the addresses of the tables in memory, so the file is read.
        let Some(path) = file(pid, object) else {
            if object.has_probes || list.is_some() {
                all.notes.push(format!("{}: its file can't be read from here; try as root", object.name));
            }
            continue;
        };
        let image = match list {
            Some(list) => list.image(&path)?,
            None => Image::open(&path).map_err(Failure::input)?,
        };
        let mut probes = all.tables(object, &image);
        if let Some(list) = list {
            let (named, calls) = list.jumps()?;
            let hooked = hooked(named, &calls, object, &image);
            let (jumps, left) = hooked.map_err(|problem| Failure::input(image.error(problem)))?;
            all.note_left(&object.name, left);
            probes.extend(jumps);
        } else if all.owner.is_none() {
            // A runtime would switch the calls itself.
            probes.extend(all.hooks(object, &path, &image));
            all.note_sleds(&object.name, &path);
        }
        all.objects.push(probes);
    }
    all.objects.retain(|it| !it.is_empty());
    Ok(all)
}

impl LoadedProbes {
    /// Reads the tables of an object, if it has some.
    fn tables(&mut self, object: &Object, image: &Image) -> Vec<LoadedProbe> {
        match ObjectProbes::of(image) {
            Ok(read) => {
                self.notes.extend(read.unread.shown.first().map(|first| {
                    let more = match read.unread.count {
                        1 => String::new(),
                        all => format!("; {} more parts can't be read", all - 1),
                    };
                    format!("{}: {first}{more}", object.name)
                }));
                read.probes.into_iter().map(|it| loaded(it, object)).collect()
            }
            Err(error) => {
                self.notes.push(error.to_string());
                Vec::new()
            }
        }
    }

    /// Adds a note about calls of hooks that no instruction of theirs can lead elsewhere.
    fn note_left(&mut self, name: &str, left: u64) {
        if left != 0 {
            self.notes.push(format!("{name}: {} of hooks can't be switched", count(left, "call")));
        }
    }

    /// Adds a note about sleds. One that can't be read may have none.
    fn note_sleds(&mut self, name: &str, path: &Path) {
        let sleds = File::open(path).ok().and_then(|file| read_sleds(&ReadCache::new(file)).ok()?);
        if let Some(sleds) = sleds.filter(|it| !it.usable.is_empty()) {
            let sleds = count(sleds.usable.len() as u64, "sled");
            self.notes.push(format!(
                "{name}: {sleds} of patchable functions or XRay can't be counted from outside"
            ));
        }
    }

    /// Finds the calls of hooks of an object.
    fn hooks(&mut self, object: &Object, path: &Path, image: &Image) -> Vec<LoadedProbe> {
        let mut find = || {
            let symbols = ObjectFile::new(path.to_owned(), PathBuf::from(&object.name), 0, true);
            let Some(found) = HookCalls::of(image, &symbols)? else { return Ok((Vec::new(), None)) };
            let certain = CertainCalls::of(image, &found, &symbols, |_| None)?;
            let others = certain.told_others();
            let (probes, left) = hooked(certain.probes, &certain.calls, object, image)?;
            self.note_left(&object.name, left);
            Ok((probes, others))
        };
        let name = &object.name;
        match find() {
            Ok((probes, others)) => {
                self.notes.extend(others.map(|it| format!("{name}: calls of hooks are not counted: {it}")));
                probes
            }
            Err(problem) => {
                self.notes.push(ElfError::new(name, problem).to_string());
                Vec::new()
            }
        }
    }
}

/// Returns the probes of calls of hooks, and of jumps to them, which are the file's own; and the
/// number of calls that can't be switched.
fn hooked(
    probes: Vec<CertainProbe>,
    calls: &[Call],
    object: &Object,
    image: &Image,
) -> Result<(Vec<LoadedProbe>, u64), Problem> {
    let mut left = 0;
    let mut loaded: Vec<_> =
        probes.into_iter().map(|it| LoadedProbe { probe: probe(it), sites: Vec::new() }).collect();
    let mut bytes = Vec::new();
    for call in calls {
        let addr = call.addr.wrapping_add(object.bias);
        if object.has_code(addr) && image.read_into(call.addr, call.len, &mut bytes)? {
            let site = Counted::hook(addr, &bytes);
            left += u64::from(site.is_none());
            loaded.get_mut(call.probe).into_iter().for_each(|it| it.sites.extend(site));
        } else {
            left += 1;
        }
    }
    loaded.retain(|it| !it.sites.is_empty());
    Ok((loaded, left))
}

/// Returns a probe of calls of hooks as tables have it.
fn probe(CertainProbe { kind, path, file, line }: CertainProbe) -> Probe {
    Probe {
        path,
        kind,
        file: file.into(),
        line,
        column: 0,
        fields: Vec::new(),
        group: None,
        doc: None,
        is_usdt: false,
        skipped: None,
        convention: Convention::Call,
        sites: Vec::new(),
    }
}

/// Returns where the file of an object can be read: the mapping's own file, or one with its name
/// and inode.
fn file(pid: u32, object: &Object) -> Option<PathBuf> {
    let mapped = object.code.first().map(|it| format!("/proc/{pid}/map_files/{:x}-{:x}", it.start, it.end));
    if let Some(path) = mapped.filter(|path| Image::open(Path::new(path)).is_ok()) {
        return Some(path.into());
    }
    let path = format!("/proc/{pid}/root{}", object.name);
    // Opening a pipe or a device could block.
    fs::metadata(&path).ok().filter(|it| it.is_file() && it.ino() == object.file)?;
    Image::open(Path::new(&path)).ok().map(|_| path.into())
}

fn loaded(probe: Probe, object: &Object) -> LoadedProbe {
    // Only code of this object may be written.
    let latent = probe.sites.iter().filter(|it| it.state() == SiteState::Latent);
    let sites = latent.map(|it| it.addr.wrapping_add(object.bias));
    let sites = sites.filter(|addr| object.has_code(*addr)).map(Counted::site).collect();
    LoadedProbe { probe, sites }
}

impl LoadedProbes {
    /// Keeps the probes that match a selector. Returns whether there are any.
    pub fn keep(&mut self, selector: &Selector) -> bool {
        for rows in &mut self.objects {
            rows.retain(|it| it.probe.skipped.is_none() && selector.matches(&it.probe));
        }
        self.objects.retain(|rows| !rows.is_empty());
        !self.objects.is_empty()
    }

    /// Returns all probes.
    pub fn rows(&self) -> impl Iterator<Item = &LoadedProbe> {
        self.objects.iter().flatten()
    }
}
