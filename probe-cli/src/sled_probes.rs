//! The probes that a file's sleds become while it runs: patchable entries, and XRay's.
//!
//! An agent has the same ones: `probe_hooks` reads the tables and names the functions for both.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use probe_core::Kind;
use probe_hooks::{Description, ObjectFile, Place, ReadCache, Sled, SledForm, read_sleds};

use crate::elf::{ElfError, Hooks, Image, ObjectType, Problem, usize_of};
use crate::hook_probes::{FUNCTIONS_AT_ONCE, HookProbe, HookSite, ProbesWithSites};
use crate::text::count;

/// The probes-to-be of a file.
#[derive(Debug)]
pub struct SledProbes {
    /// The probes, in no order.
    pub probes: Vec<HookProbe>,
    /// The sleds that can't be used.
    pub unusable: Vec<UnusableSled>,
    /// The fate of the others.
    fate: &'static str,
}

/// A sled that can't be used.
#[derive(Debug, serde::Serialize)]
pub struct UnusableSled {
    /// Its address.
    pub site: u64,
    /// Its function.
    pub probe: String,
    /// Why.
    pub reason: String,
}

impl SledProbes {
    /// The state of a probe-to-be in lists.
    const STATE: &str = "sled";

    /// Returns a file's probes-to-be; `None` if it has no sleds.
    ///
    /// # Errors
    /// If the file can't be read.
    pub fn of(path: &Path, image: &Image) -> Result<Option<Self>, ElfError> {
        Self::read(path, image).map_err(|problem| image.error(problem))
    }

    fn read(path: &Path, image: &Image) -> Result<Option<Self>, Problem> {
        let file = ReadCache::new(File::open(path)?);
        let Some(sleds) = read_sleds(&file).map_err(Problem::Damaged)? else { return Ok(None) };
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut object = ObjectFile::new(path.clone(), path, 0, true);
        let mut probes = ProbesWithSites::new(Self::STATE);
        let mut described: HashMap<u64, Description> = HashMap::new();
        for sled in &sleds.usable {
            if described.len() % FUNCTIONS_AT_ONCE == FUNCTIONS_AT_ONCE - 1 {
                object.release();
            }
            let named = described.entry(sled.function);
            let Description { path, file, line } =
                named.or_insert_with(|| object.describe_sled(usize_of(sled.function)));
            let kind = if sled.place == Place::Entry { Kind::Entry } else { Kind::Exit };
            let described = (path.as_str().into(), file.as_str().into(), *line);
            probes.add(described, kind, [site(sled, image)]);
        }
        let unusable = sleds.unusable.iter().map(|it| {
            let named = described.entry(it.function);
            let named = named.or_insert_with(|| object.describe_sled(usize_of(it.function)));
            UnusableSled { site: it.at, probe: named.path.clone(), reason: it.obstacle.to_string() }
        });
        let unusable = unusable.collect();
        Ok(Some(Self { probes: probes.all, unusable, fate: Hooks::of_host(image)?.fate_of_sleds() }))
    }

    /// Returns notes about the sleds of the file with this name.
    pub fn notes(&self, name: &str) -> Vec<String> {
        let sleds = count(self.sites(), "sled");
        let mut notes = vec![format!("{name} has {sleds} of patchable functions or XRay; {}", self.fate)];
        let unusable = self.unusable.iter().map(|UnusableSled { site, probe, reason }| {
            format!("the sled at {site:#x} of `{probe}` can't be used: {reason}")
        });
        notes.extend(unusable);
        notes
    }

    /// Returns the number of sites.
    pub fn sites(&self) -> u64 {
        self.probes.iter().map(|probe| probe.sites.len() as u64).sum()
    }
}

fn site(sled: &Sled, image: &Image) -> HookSite {
    let is_fixed = image.object_type() == ObjectType::Executable;
    let len: usize = sled.form.size().into();
    let is_straddler = sled.at % 8 + len as u64 > 8;
    let (instruction, switched_by) = match sled.form {
        SledForm::Bytes if is_fixed => ("nops", "one write, if run by probectl"),
        SledForm::Bytes => ("nops", "one write"),
        SledForm::Nop(5 | 6) if is_straddler => ("nop", "int3, straddles"),
        SledForm::Nop(_) => ("nop", "one write"),
        SledForm::Jump => ("jmp", "one write"),
        SledForm::Return => ("ret", "one write"),
    };
    HookSite { addr: sled.at, len, instruction, switched_by }
}
