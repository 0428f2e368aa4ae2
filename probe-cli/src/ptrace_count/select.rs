//! The sites of a running program that a selector chooses, grouped by object.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use probe_inject::Memory;
use probe_lang::Selector;

use crate::elf::{Image, Runtime};
use crate::inject::{Object, objects};
use crate::output::Failure;
use crate::probe_tables::{ObjectProbes, Probe};
use crate::site_list::SiteList;

/// A probe of a running program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedProbe {
    /// The probe, with the addresses in its object's file.
    pub probe: Probe,
    /// Its sites' addresses in memory.
    pub sites: Vec<u64>,
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
        if !object.has_probes && list.is_none() {
            continue;
        }
        // The loader has changed the addresses of the tables in memory, so the file is read.
        let Some(path) = file(pid, object) else {
            all.notes.push(format!("{}: its file can't be read from here; try as root", object.name));
            continue;
        };
        let image = match list {
            Some(list) => list.image(&path)?,
            None => Image::open(&path).map_err(Failure::input)?,
        };
        match ObjectProbes::of(&image) {
            Ok(read) => {
                if read.unread.count != 0 {
                    all.notes.push(format!("{}: {} records can't be read", object.name, read.unread.count));
                }
                all.objects.push(read.probes.into_iter().map(|it| loaded(it, object)).collect());
            }
            Err(error) => all.notes.push(error.to_string()),
        }
    }
    Ok(all)
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
    let sites = probe.sites.iter().map(|it| it.addr.wrapping_add(object.bias));
    let sites = sites.filter(|addr| object.has_code(*addr)).collect();
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
