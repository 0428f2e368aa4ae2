//! The provider of modules, as the registry and the control use it.
//!
//! Life: from [`begin`] on, each operation looks for new objects. If a probe is active, their words
//! are led to wrappers at once. A [look] at a library lets the next operation list its functions,
//! which stay. Wrappers and definitions are never freed.
//!
//! No operation here waits for a hit, and a hit waits for nothing. So functions that operations,
//! the dynamic linker or handlers of forks call may have probes without a deadlock. The object with
//! this code calls the functions themselves.
//! Cost: after objects came or went, a look at the relocations of all objects.

use std::cell::RefCell;
use std::path::PathBuf;

use super::call_site::ModuleSite;
use super::look;
use super::set::ModuleSet;
use super::slots::Slots;
use crate::engine::control;
use crate::engine::error::Error;
use crate::engine::os::objects::{Frozen, Generation, KeptLoaded, Object};
use crate::engine::registry::provider::{self, CallSite, Due, Findings, Provider, ProviderStart, note};
use crate::engine::sites::{Access, Report};

static START: ProviderStart = ProviderStart { get_ready, begin: ModuleProvider::begin };

fn get_ready() {
    control::init();
    look::look_if_due();
}

/// Makes the functions of all modules known, and lets operations find them.
pub(super) fn begin(files: &[PathBuf]) -> Result<(), Error> {
    ModuleSet::make(files)?;
    look::ask();
    provider::register(&START);
    note();
    Ok(())
}

struct ModuleProvider {
    /// The generation of the words below.
    generation: Option<Generation>,
    slots: RefCell<Slots>,
    /// The objects with words.
    objects: Vec<Object>,
    /// Functions that are listed, by their numbers.
    is_listed: Vec<bool>,
    /// Functions that are to be listed.
    new: Vec<usize>,
}

impl ModuleProvider {
    fn begin() -> Box<dyn Provider> {
        let (slots, objects, is_listed, new) = (RefCell::default(), Vec::new(), Vec::new(), Vec::new());
        Box::new(Self { generation: None, slots, objects, is_listed, new })
    }
}

impl Provider for ModuleProvider {
    fn look_ahead(&mut self) -> bool {
        false
    }

    fn name_pending(&mut self, _is_all: bool) {}

    fn patch_pending(&mut self, frozen: &Frozen) -> Due {
        let Some(set) = ModuleSet::get() else { return Due::Nothing };
        let look = look::take();
        let generation = Some(frozen.generation());
        let is_same = self.generation == generation;
        if is_same && look.is_none() {
            return Due::Nothing;
        }
        self.is_listed.resize(set.functions.len(), false);
        let slots = self.slots.get_mut();
        if let Some(look) = look {
            let new: Vec<_> = look.present.into_iter().filter(|number| !self.is_listed[*number]).collect();
            new.iter().for_each(|number| self.is_listed[*number] = true);
            self.new.extend(new);
            slots.learn(look.addresses);
        } else {
            // Other libraries may have come.
            look::ask();
            note();
        }
        self.generation = generation;
        self.objects = slots.refresh(set, frozen);
        let active: Vec<_> = (0..set.functions.len()).filter(|at| set.functions[*at].is_active()).collect();
        if !active.is_empty() && slots.bring(set, &active, &mut Report::default()) {
            look::ask();
            note();
        }
        Due::Some
    }

    fn find(&mut self, _frozen: &Frozen, is_all: bool) -> Findings {
        let Some(set) = ModuleSet::get() else { return Findings::default() };
        let new = std::mem::take(&mut self.new);
        let listed: Vec<_> = if is_all {
            (0..self.is_listed.len()).filter(|number| self.is_listed[*number]).collect()
        } else {
            new
        };
        let sites = listed.into_iter().flat_map(|number| set.functions[number].sites());
        Findings {
            living: sites.map(|site| site as &dyn CallSite).collect(),
            unloaded: None,
            objects: self.objects.clone(),
        }
    }

    fn switch(
        &self,
        calls: &[&'static dyn CallSite],
        active: bool,
        _access: Access,
        report: &mut Report,
        _loaded: KeptLoaded<'_>,
    ) {
        let own = calls.iter().filter_map(|call| (*call as &dyn std::any::Any).downcast_ref::<ModuleSite>());
        let Some(set) = ModuleSet::get() else { return };
        let mut functions = Vec::new();
        for site in own {
            if site.set_active(active) {
                report.add_patched(site.places());
                functions.push(site.function);
            } else {
                report.add_unchanged(site.places());
            }
        }
        functions.sort_unstable();
        functions.dedup();
        if !functions.is_empty() && self.slots.borrow_mut().bring(set, &functions, report) {
            look::ask();
            note();
        }
    }
}
