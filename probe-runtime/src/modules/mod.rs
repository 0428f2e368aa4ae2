//! Modules: functions of shared libraries that nobody prepared, as probes.
//!
//! Calls of another object's function go through a word of the caller, which the dynamic linker has
//! filled with the function's address (in its table of offsets, GOT). While a consumer is attached,
//! these words hold the address of a wrapper, which calls the function between two hits. A latent
//! probe leaves them as they were, so it costs nothing.
//!
//! | module | functions |
//! |---|---|
//! | `lock` | mutexes, read-write locks, conditions, semaphores, spin locks, barriers of pthreads |
//! | `io` | files, sockets, streams of C |
//! | `memory` | `malloc` and its family, `new` and `delete`, `mmap` |
//! | one's own | those of a [text](probe_lang::modules) of one line each |
//!
//! [`find`] makes them known. Selectors name them by the module's name: `lock::*`. Those that begin
//! otherwise, as `**` does, do not. Fields have the names of the text: arguments at entries and
//! exits, and `ret` at exits. `docs/modules.md` has examples.
//!
//! ```no_run
//! probe_runtime::modules::find(&[])?;
//! let reads = probe_runtime::select("io::read")?.attach(probe_runtime::Count::new())?;
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! # Known limits
//! - Only calls that go through such a word are seen: not those inside of a library (as the C
//!   library's own), of a program that is linked statically or defines the function itself, nor by
//!   an address that was looked up or stored while the probe was latent.
//! - The object with this code is left alone. In a program that links this crate, that is the
//!   program itself: modules are for the agent, which is an object of its own.
//! - The wrapper has a frame while the function runs. Functions that return twice or look at their
//!   caller have no exit, and neither have those with any number of arguments.
//! - A word of an object that is being loaded is left to the next operation, and so is one that was
//!   not bound yet if its version of the function is not known.
//! - There are 1,024 wrappers: one for each address that the words of a function lead to.

#[cfg(probe_modules)]
mod call_site;
#[cfg(probe_modules)]
mod look;
#[cfg(probe_modules)]
mod provider;
#[cfg(probe_modules)]
mod set;
#[cfg(probe_modules)]
mod slots;

use std::env;
use std::path::PathBuf;

use crate::engine::error::Error;

/// Finds the functions of the modules `lock`, `io` and `memory`, and of those in these files, in
/// libraries that are loaded, now or later. Does nothing after the first time.
///
/// # Errors
/// [`Error::Module`] if a file can't be read or has a mistake. Nothing is found then.
///
/// ```no_run
/// probe_runtime::modules::find(&["database.probes".into()])?;
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn find(files: &[PathBuf]) -> Result<(), Error> {
    #[cfg(probe_modules)]
    return provider::begin(files);
    #[cfg(not(probe_modules))]
    {
        let _ = files;
        Ok(())
    }
}

/// The variable that names files, and modules of this crate.
const VARIABLE: &str = "PROBES_MODULES";

/// The names of the modules of this crate.
const NAMES: [&str; 3] = ["lock", "io", "memory"];

/// Returns whether the environment names a module: in `PROBES_MODULES`, or in a selector.
pub(crate) fn are_named() -> bool {
    let has = |name: &str| env::var_os(name).is_some_and(|it| !it.is_empty());
    let probes = env::var_os("PROBES").unwrap_or_default();
    let probes = probes.to_string_lossy();
    let is_named = |module: &&str| {
        let mut places = probes.match_indices(module);
        places.any(|(at, _)| {
            let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '*');
            probes[at + module.len()..].starts_with("::") && !probes[..at].ends_with(is_word)
        })
    };
    has(VARIABLE) || NAMES.iter().any(is_named)
}

/// Finds the functions of this crate's modules, and of the files that the environment names.
pub(crate) fn find_named() -> Result<(), Error> {
    let listed = env::var_os(VARIABLE).unwrap_or_default();
    let listed = env::split_paths(&listed).filter(|it| !it.as_os_str().is_empty());
    let files: Vec<_> = listed.filter(|it| it.to_str().is_none_or(|it| !NAMES.contains(&it))).collect();
    find(&files)
}
