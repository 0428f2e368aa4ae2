//! The loaded objects (executable, shared objects, plugins), through `dl_iterate_phdr(3)`; and
//! keeping the one that holds this code loaded.
//!
//! A plugin may link its own copy of this crate. Other objects' sites, threads that end, and `fork`
//! then call into the plugin. If it were unloaded after it has attached, they would call an address
//! where nothing is mapped.

// Safety: relies on dladdr(3), dlopen(3) and dlerror(3), on the dynamic linker's strings, and on
// its program headers, which describe the mapped segments while the iteration holds its lock.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::{CStr, c_char};
use std::slice;

pub use crate::os::generic::pin::Unpinned;

/// Keeps the object that holds this code loaded until the process ends: `dlclose` no longer unloads
/// it. The executable is never unloaded anyway.
///
/// Takes the dynamic linker's outer lock, which constructors run under. Don't call it while holding
/// a lock that constructors may wait for.
///
/// # Errors
/// The dynamic linker's reason.
pub fn pin() -> Result<(), Unpinned> {
    pin_object((pin as *const ()).addr())
}

/// Keeps the object that holds an address loaded, if there is one, as [`pin`] does.
///
/// # Errors
/// The dynamic linker's reason.
pub fn pin_object(address: usize) -> Result<(), Unpinned> {
    let here = std::ptr::with_exposed_provenance(address);
    if is_in_main(here as usize) {
        return Ok(());
    }
    // SAFETY: zeroes are a `Dl_info`.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address, and a place for the result.
    if unsafe { libc::dladdr(here, &raw mut info) } == 0 || info.dli_fname.is_null() {
        let reason = "the dynamic linker does not know it".to_owned();
        return Err(Unpinned { object: format!("the object at {here:?}"), reason });
    }
    keep(info.dli_fname)
}

/// Refuses: in a static program, all code is in one executable, and `dlopen` warns.
#[cfg(target_feature = "crt-static")]
fn keep(name: *const c_char) -> Result<(), Unpinned> {
    let reason = "it has a C library of its own".to_owned();
    Err(Unpinned { object: text(name), reason })
}

#[cfg(not(target_feature = "crt-static"))]
fn keep(name: *const c_char) -> Result<(), Unpinned> {
    let mode = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
    // SAFETY: the dynamic linker's own string. Nothing is loaded, so no constructor runs. The
    // handle is kept for ever.
    if !unsafe { libc::dlopen(name, mode) }.is_null() {
        return Ok(());
    }
    // SAFETY: this thread's own message, if there is one.
    let reason = unsafe { libc::dlerror() };
    let reason = if reason.is_null() { "it is not loaded under its name".to_owned() } else { text(reason) };
    Err(Unpinned { object: text(name), reason })
}

fn text(text: *const c_char) -> String {
    // SAFETY: a string of the dynamic linker's.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Returns whether the executable holds this address.
fn is_in_main(addr: usize) -> bool {
    let mut found = false;
    iterate(&mut |main| {
        // SAFETY: the dynamic linker's own table of program headers.
        let headers = unsafe { slice::from_raw_parts(main.dlpi_phdr, main.dlpi_phnum.into()) };
        found = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
            let start = main.dlpi_addr.wrapping_add(header.p_vaddr);
            (addr as u64).wrapping_sub(start) < header.p_memsz
        });
        false
    });
    found
}

/// Calls `each` for every object until it returns `false`.
pub fn iterate(each: &mut dyn FnMut(&libc::dl_phdr_info) -> bool) {
    unsafe extern "C" fn call(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut libc::c_void,
    ) -> libc::c_int {
        // SAFETY: `data` is the reference passed below; `info` is valid for the call.
        let (each, info) =
            unsafe { (&mut *data.cast::<&mut dyn FnMut(&libc::dl_phdr_info) -> bool>(), &*info) };
        libc::c_int::from(!each(info))
    }
    let mut each = each;
    // SAFETY: `call` gets back the reference, which outlives the iteration.
    unsafe { libc::dl_iterate_phdr(Some(call), (&raw mut each).cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "dl_iterate_phdr(3)")]
    fn the_executable_needs_nothing() {
        assert!(pin().is_ok());
    }

    #[cfg(not(target_feature = "crt-static"))]
    #[test]
    #[cfg_attr(miri, ignore = "dlopen(3)")]
    fn what_is_not_loaded_is_said() {
        let Err(error) = keep(c"/no/such/object.so".as_ptr()) else { panic!("kept") };
        assert_eq!(error.object, "/no/such/object.so");
        assert!(!error.reason.is_empty());
    }

    #[cfg(not(target_feature = "crt-static"))]
    #[test]
    #[cfg_attr(miri, ignore = "dladdr(3)")]
    fn a_loaded_library_is_kept() {
        // SAFETY: zeroes are a `Dl_info`.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: an address in the C library, and a place for the result.
        assert_ne!(unsafe { libc::dladdr((libc::getpid as *const ()).cast(), &raw mut info) }, 0);
        assert!(keep(info.dli_fname).is_ok());
    }
}
