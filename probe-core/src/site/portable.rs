//! One site of the portable backend: a relaxed load of the definition's hook, and a branch. For all
//! targets that are not patched, and for tests with `--cfg probe_portable`.

// Safety: relies on `entry` of a hooked definition being this backend's dispatch function.
#![expect(unsafe_code, reason = "see above")]

use core::sync::atomic::Ordering;

use crate::abi::{Definition, Value};

/// The definition of a probe.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_define {
    ($kind:ident, $probe:tt; $($field:literal),*) => {
        $crate::__private::v1::definition! { $kind, $probe; $($field),* }
    };
}

/// The sites of an entry and an exit without fields.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_entry_and_exit {
    ($probe:tt) => {
        $crate::__private::v1::site! { Entry, $probe; }
        $crate::__private::v1::exit! { $probe }
    };
}

/// The guard of an exit.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_exit {
    ($probe:tt) => {
        let __probe_exit = {
            struct __ProbeExit;
            impl $crate::__private::v1::Drop for __ProbeExit {
                #[inline(always)]
                fn drop(&mut self) {
                    $crate::__private::v1::site! { Exit, $probe; }
                }
            }
            __ProbeExit
        };
    };
}

/// One site of the probe that was defined in a surrounding block.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_place {
    ($($captures:tt)*) => {
        $crate::__private::v1::active! { { $crate::__private::v1::capture! { $($captures)* } } }
    };
}

/// The site itself, and the code that it runs while it is active.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_active {
    ($cold:block) => {
        if $crate::__private::v1::is_active(&__PROBE_DEFINITION) $cold
    };
}

/// The hit of an active site.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver {
    ([$($done:tt)*] $($field:literal = $how:ident($value:expr)),*) => {
        // `match`, so that temporaries in the expressions outlive the call.
        match [$($crate::__private::v1::pass!($crate::__private::v1::InMemory, $how, $value)),*] {
            __probe_values => {
                $crate::__private::v1::hit(&__PROBE_DEFINITION, &__probe_values);
                $($done)*
            }
        }
    };
}

/// The hit of a site in which a field panicked.
#[doc(hidden)]
#[macro_export]
macro_rules! __probe_v1_deliver_failed {
    () => {
        $crate::__private::v1::hit(&__PROBE_DEFINITION, $crate::__private::v1::FAILED)
    };
}

pub use crate::{
    __probe_v1_active as active, __probe_v1_define as define, __probe_v1_deliver as deliver,
    __probe_v1_deliver_failed as deliver_failed, __probe_v1_entry_and_exit as entry_and_exit,
    __probe_v1_exit as exit, __probe_v1_place as place,
};

/// The function that a definition's `entry` is, once a runtime owns it.
pub type Entry = extern "C" fn(&'static Definition, *const Value<'_>);

/// Returns whether the probe is active; the first step of each site.
#[inline(always)]
pub fn is_active(definition: &'static Definition) -> bool {
    #[cfg(all(feature = "std", probe_definitions = "seen"))]
    seen::see(definition);
    definition.is_hooked()
}

/// The values of a hit in which a field panicked, as many as a probe may have.
pub const FAILED: &[Value<'static>; 32] = &[Value::FAILED; 32];

/// Delivers a hit of an active site.
#[cold]
pub fn hit(definition: &'static Definition, values: &[Value<'_>]) {
    let entry = definition.entry().load(Ordering::Acquire);
    if !entry.is_null() {
        // SAFETY: for a definition with a site, the runtime alone stores there when it claims a
        // probe, and it stores a function of this type, in each runtime of this process whose
        // definitions have this backend's layout.
        let entry = unsafe { core::mem::transmute::<*mut (), Entry>(entry) };
        entry(definition, values.as_ptr());
    }
}

/// The definitions without a linker that collects them (under Miri). A thread notes a definition
/// when it first passes the site.
///
/// So a probe can be listed and selected only after its code has run once. Cost: a lock on each
/// pass of a site, so only Miri uses this module.
#[cfg(all(feature = "std", probe_definitions = "seen"))]
pub mod seen {
    use std::collections::HashSet;
    use std::ptr;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use crate::abi::Definition;

    static SEEN: LazyLock<Mutex<SeenDefinitions>> = LazyLock::new(Mutex::default);

    #[derive(Default)]
    struct SeenDefinitions {
        order: Vec<&'static Definition>,
        addresses: HashSet<usize>,
    }

    pub fn see(definition: &'static Definition) {
        let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.addresses.insert(ptr::from_ref(definition).addr()) {
            seen.order.push(definition);
        }
    }

    /// Returns all noted definitions, in the order in which they were noted.
    pub fn all() -> Vec<&'static Definition> {
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).order.clone()
    }
}
