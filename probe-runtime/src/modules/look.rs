//! A look at the loaded libraries, outside of all locks: their functions, and the addresses to
//! which the dynamic linker would bind calls that it has not bound yet. This asks the dynamic
//! linker, and no holder of the control lock may take that one's outer lock.
//!
//! Life: asked for, taken before the next operation takes the control lock, and handed to the
//! provider, without a lock that a fork could leave taken.
//! Cost: a look at each relocation, and some microseconds for each function.

// Safety: relies on the dynamic linker's functions, and on a box that one thread takes.
#![expect(unsafe_code, reason = "see above")]

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::set::ModuleSet;
use crate::engine::os::cancel::Uncancellable;
use crate::engine::os::objects::{Frozen, freeze};

/// A version of a function: the number of its name, and the version's name.
pub(super) type Version = (usize, Option<CString>);

/// The findings of a look.
#[derive(Default)]
pub(super) struct Look {
    /// The numbers of functions that a loaded library has.
    pub(super) present: BTreeSet<usize>,
    /// The addresses of functions that slots were not bound to.
    pub(super) addresses: HashMap<Version, usize>,
}

static IS_DUE: AtomicBool = AtomicBool::new(false);
static LOOK: AtomicPtr<Look> = AtomicPtr::new(ptr::null_mut());

/// Asks for a look, before the next operation.
pub(super) fn ask() {
    IS_DUE.store(true, Ordering::SeqCst);
}

/// Takes the last look, if nobody has.
pub(super) fn take() -> Option<Box<Look>> {
    let look = LOOK.swap(ptr::null_mut(), Ordering::AcqRel);
    // SAFETY: null, or from `look_if_due`, and nobody else has it any more.
    (!look.is_null()).then(|| unsafe { Box::from_raw(look) })
}

/// Looks, if somebody has asked. The caller holds no lock.
pub(super) fn look_if_due() {
    let Some(set) = ModuleSet::get().filter(|_| IS_DUE.swap(false, Ordering::SeqCst)) else { return };
    let _whole = Uncancellable::new();
    let look = Box::into_raw(Box::new(look(set)));
    let before = LOOK.swap(look, Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: from an earlier look, and nobody else has it any more.
        drop(unsafe { Box::from_raw(before) });
    }
}

fn look(set: &ModuleSet) -> Look {
    let own = (look as *const ()).addr();
    let number_of = |symbol: &[u8]| set.number_of(symbol);
    let (objects, imports) = freeze(|frozen| (Frozen::every(frozen), frozen.imports(&number_of, own)));
    let mut found = HashMap::new();
    for object in objects {
        let file = Path::new(&object.name).file_name().and_then(|it| it.to_str()).unwrap_or_default();
        let symbols = set.symbols.iter().enumerate();
        let symbols: Vec<_> = symbols.filter(|(_, (_, it))| set.functions[*it].text.is_in(file)).collect();
        if symbols.is_empty() {
            continue;
        }
        let Some(library) = CString::new(object.name).ok().and_then(|name| Library::loaded(&name)) else {
            continue;
        };
        for (number, (name, _)) in symbols {
            found.extend(library.symbol(name).map(|address| (number, address)));
        }
    }
    let present: BTreeSet<_> = found.keys().map(|number| set.symbols[*number].1).collect();
    let mut look = Look { present, ..Look::default() };
    for import in imports.iter().flat_map(|object| &object.imports) {
        let version = (import.name, import.version.clone());
        if import.slot.is_looked_up || look.addresses.contains_key(&version) {
            continue;
        }
        let bound = binding(&set.symbols[import.name].0, import.version.as_deref());
        if let Some(address) = bound.or_else(|| found.get(&import.name).copied()) {
            look.addresses.insert(version, address);
        }
    }
    look
}

/// Returns the address to which the dynamic linker binds a version of a function.
fn binding(symbol: &CStr, version: Option<&CStr>) -> Option<usize> {
    // SAFETY: a handle that the dynamic linker knows, and a name.
    let of_any = || unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) }.addr();
    let of_version = match version {
        #[cfg(target_env = "gnu")]
        // SAFETY: the same, and another name.
        Some(version) => unsafe {
            libc::dlvsym(libc::RTLD_DEFAULT, symbol.as_ptr(), version.as_ptr()).addr()
        },
        _ => 0,
    };
    // Another library may have taken the place of this one, without versions.
    let found = if of_version == 0 { of_any() } else { of_version };
    (found != 0).then_some(found)
}

/// A library that stays loaded as long as this lives.
struct Library(*mut c_void);

impl Library {
    /// Returns a library by its file's name, if it is loaded.
    fn loaded(file: &CStr) -> Option<Self> {
        // SAFETY: the name of a file that is loaded, or else of none.
        let handle = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        (!handle.is_null()).then_some(Self(handle))
    }

    fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: an open handle, and a name.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then(|| found.addr())
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: opened by `loaded`, and not closed since.
        unsafe { libc::dlclose(self.0) };
    }
}
