//! For a library that is preloaded into other programs: a first look at a program. Not public API:
//! it changes with any version.
//!
//! Cost: some microseconds, and a little memory for each loaded object; for [`has_sleds`], also
//! opening the object's file. Nothing is set up.

/// The loaded objects, besides the one that this code is in.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Loaded {
    /// Whether an object has tables of probes, of this version or a later one.
    pub has_probes: bool,
    /// Whether an object calls the hooks of `-finstrument-functions`, and finds them elsewhere.
    pub calls_hooks: bool,
    /// Whether an object has a runtime of its own: one that can attach to probes.
    pub has_runtime: bool,
    /// The file of the object that this code is in, as the dynamic linker knows it.
    pub file: String,
}

impl Loaded {
    /// Looks at the loaded objects.
    #[cfg(probe_backend = "patched")]
    pub fn look() -> Self {
        use crate::engine::os::objects::freeze;
        use probe_core::abi::{NOTE_OWNER, NOTE_TYPE, RUNTIME_OWNER, RUNTIME_TYPE};

        let own = (Self::look as *const ()).addr();
        freeze(|frozen| {
            let all = |owner, ty| frozen.loaded(0..usize::MAX, owner, ty);
            let (own_runtimes, others): (Vec<_>, Vec<_>) =
                all(RUNTIME_OWNER, RUNTIME_TYPE).into_iter().partition(|object| object.holds(own));
            Self {
                has_probes: all(NOTE_OWNER, NOTE_TYPE).iter().any(|object| !object.holds(own))
                    || !frozen.others(NOTE_OWNER, NOTE_TYPE).is_empty(),
                calls_hooks: !frozen.import_slots("__cyg_profile_func_enter", own).is_empty(),
                has_runtime: !others.is_empty(),
                file: own_runtimes.into_iter().next().map(|object| object.name).unwrap_or_default(),
            }
        })
    }

    /// Finds nothing: where sites are not patched, no object sees the probes of another one.
    #[cfg(not(probe_backend = "patched"))]
    pub fn look() -> Self {
        Self::default()
    }
}

/// Returns whether the file of a loaded object has sleds (see [`sleds`](crate::sleds)).
pub fn has_sleds() -> bool {
    #[cfg(probe_discovers)]
    return crate::sleds::are_loaded();
    #[cfg(not(probe_discovers))]
    false
}

/// Finds sleds, as [`sleds::look_ahead`](crate::sleds::look_ahead) does, before the program has
/// reached `main`. If the calling thread is the only one, sleds are armed that can't be later.
pub fn find_sleds() {
    #[cfg(probe_discovers)]
    crate::sleds::look_ahead_before_main();
}

/// Returns whether the environment names a module (see [`modules`](crate::modules)).
pub fn names_modules() -> bool {
    #[cfg(feature = "modules")]
    return crate::modules::are_named();
    #[cfg(not(feature = "modules"))]
    false
}

/// Finds the functions of modules, those of the files that the environment names included.
///
/// # Errors
/// As [`modules::find`](crate::modules::find).
pub fn find_modules() -> Result<(), crate::engine::error::Error> {
    #[cfg(feature = "modules")]
    return crate::modules::find_named();
    #[cfg(not(feature = "modules"))]
    Ok(())
}

/// Lets no client attach anything once the program has set a filter of system calls (seccomp),
/// since it does not know of its agent.
pub fn heed_filters() {
    #[cfg(probe_agent)]
    crate::session::agent::heed_filters();
}
