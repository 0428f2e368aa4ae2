//! The sites of a running program that a selector chooses, by object.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use probe_inject::{InjectError, Memory};
use probe_runtime::Selector;

use crate::elf::{Image, Runtime};
use crate::inject::{Object, objects};
use crate::probe_tables::{ObjectProbes, Probe};

/// A probe of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoadedProbe {
    /// The probe, with the addresses of its object's file.
    pub probe: Probe,
    /// Its sites' addresses in memory.
    pub sites: Vec<u64>,
}

/// The probes of a program.
#[derive(Default)]
pub struct LoadedProbes {
    /// Those of each object that has some.
    pub objects: Vec<Vec<LoadedProbe>>,
    /// The runtime that the program has, and its object's name.
    pub owner: Option<(String, Runtime)>,
    /// Lines about tables that can't be read.
    pub notes: Vec<String>,
}

/// Reads the probes of a program from its memory.
///
/// # Errors
/// If the process is gone.
pub fn read_probes(pid: u32, memory: &Arc<Memory>) -> Result<LoadedProbes, InjectError> {
    let mut all = LoadedProbes::default();
    let objects = objects(pid, memory)?;
    all.owner = objects.iter().find_map(|it| Some((it.name.clone(), it.runtime?)));
    for object in objects.iter().filter(|it| it.has_probes) {
        // In memory, the loader has changed the addresses in the tables.
        let Some(image) = file(pid, object) else {
            all.notes.push(format!("{}: its file can't be read from here; try as root", object.name));
            continue;
        };
        match ObjectProbes::of(&image) {
            Ok(read) => {
                if read.unread.count != 0 {
                    all.notes.push(format!("{}: {} records can't be read", object.name, read.unread.count));
                }
                let rows: Vec<_> = read.probes.into_iter().map(|it| loaded(it, object)).collect();
                all.objects.push(rows);
            }
            Err(error) => all.notes.push(error.to_string()),
        }
    }
    Ok(all)
}

/// Opens the file of an object: the very one that is mapped, or one with its name and number.
fn file(pid: u32, object: &Object) -> Option<Image> {
    let mapped = object.code.first().map(|it| format!("/proc/{pid}/map_files/{:x}-{:x}", it.start, it.end));
    if let Some(image) = mapped.and_then(|path| Image::open(Path::new(&path)).ok()) {
        return Some(image);
    }
    let path = format!("/proc/{pid}/root{}", object.name);
    // A pipe, or a device, is not opened.
    fs::metadata(&path).ok().filter(|it| it.is_file() && it.ino() == object.file)?;
    Image::open(Path::new(&path)).ok()
}

fn loaded(probe: Probe, object: &Object) -> LoadedProbe {
    // Nothing else is ever written.
    let sites = probe.sites.iter().map(|it| it.addr.wrapping_add(object.bias));
    let sites = sites.filter(|addr| object.has_code(*addr)).collect();
    LoadedProbe { probe, sites }
}

impl LoadedProbes {
    /// Keeps those of a selector. Returns whether there are any.
    pub fn keep(&mut self, selector: &Selector) -> bool {
        for rows in &mut self.objects {
            rows.retain(|it| it.probe.skipped.is_none() && selector.matches(&it.probe));
        }
        self.objects.retain(|rows| !rows.is_empty());
        !self.objects.is_empty()
    }

    /// Returns all of them.
    pub fn rows(&self) -> impl Iterator<Item = &LoadedProbe> {
        self.objects.iter().flatten()
    }
}
