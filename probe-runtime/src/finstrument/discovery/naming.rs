//! Names, files and lines of discovered functions, from the symbol table and the debug information
//! of their object.
//!
//! Life: names are read at the first operation after a discovery, never in a hook. That is under
//! the control lock, while objects may come and go: only files are read. An object's file, and
//! the separate one with its symbols, are read once, as long as the object is loaded.
//! Cost: some 10 ms for an object with some thousand functions with debug information, and some
//! microseconds for each function.

use std::collections::HashMap;

use probe_hooks::{Description, Fragment, ObjectFile};

use super::call_site::{Discovery, TailJumps};
use super::provider::{ControlLocked, PendingDiscoveries};
use super::reconcile::{KnownObject, LoadedObjects};
use crate::engine::os::object_file::object_file;
use crate::engine::os::objects::freeze;
use probe_core::abi::Kind;

/// The files that names were read from, by the hash of the object.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<u64, ObjectFile>,
    /// Functions that run in an object and have an address of another one, as their first call
    /// there describes them: the same for their entries and exits. By the hash of the object.
    foreign_functions: HashMap<(u64, usize), Description>,
}

impl Names {
    /// Names pending discoveries that have no name yet.
    pub(super) fn name_new(
        &mut self,
        locked: &ControlLocked,
        pending: &PendingDiscoveries,
        loaded: &mut LoadedObjects,
    ) {
        let is_new = |discovery: &&'static Discovery| discovery.object().is_none();
        let mut new: Vec<_> = pending.discoveries.iter().copied().filter(is_new).collect();
        if new.is_empty() {
            return;
        }
        freeze(|frozen| {
            loaded.renew(frozen);
            // If its object is gone, a discovery gets no name from another object in its place.
            new.retain(|discovery| loaded.holder_of(frozen, discovery).is_some());
        });
        let is_loaded = |hash: u64| loaded.all().iter().any(|known| known.hash == hash);
        self.files.retain(|hash, _| is_loaded(*hash));
        self.foreign_functions.retain(|(hash, _), _| is_loaded(*hash));
        // An entry describes its function better than an exit, which may be in code of another one.
        new.sort_by_key(|discovery| (discovery.hit().kind == Kind::Exit, discovery.text_address()));
        for discovery in new {
            // The object may have been unloaded since then.
            let Some(KnownObject { object, hash }) = loaded.at(discovery.text_address()) else {
                continue;
            };
            let function = discovery.hit().function;
            let is_own = object.segments.iter().any(|it| it.is_text && it.range.contains(&function));
            // The function that has taken its place elsewhere keeps its own name.
            let name = loaded.at(function).filter(|_| !is_own).and_then(|other| {
                self.file(other).symbol(function).filter(|symbol| symbol.addr == function).map(|it| it.path)
            });
            let file = self.files.entry(*hash).or_insert_with(|| object_file(object));
            if discovery.may_have_tail_jumps() && is_own {
                file.extents()
                    .and_then(|extents| TailJumps::find(extents, object.base, function))
                    .into_iter()
                    .for_each(|tail_jumps| discovery.set_tail_jumps(locked, tail_jumps));
            }
            let described = if is_own {
                file.describe(function)
            } else {
                let described = self.foreign_functions.entry((*hash, function));
                described.or_insert_with(|| file.describe_site(discovery.text_address(), name)).clone()
            };
            let Description { path, file, line } = described;
            discovery.name(locked, *hash, &path, &file, line);
        }
    }

    /// Returns the code of an object's functions around these addresses, which ascend: the
    /// fragments of each function.
    pub(super) fn around(&mut self, known: &KnownObject, addrs: &[usize]) -> Vec<Vec<Fragment>> {
        let base = known.object.base;
        let file = self.file(known);
        let offsets: Vec<_> = addrs.iter().map(|addr| file.offset(*addr)).collect();
        let extents = file.extents();
        let mut functions: Vec<_> = extents.into_iter().flat_map(|it| it.around(offsets.clone())).collect();
        for fragment in functions.iter_mut().flatten() {
            fragment.addr = fragment.addr.wrapping_add(base);
        }
        functions
    }

    fn file(&mut self, known: &KnownObject) -> &mut ObjectFile {
        self.files.entry(known.hash).or_insert_with(|| object_file(&known.object))
    }
}
