//! A shared library that is loaded and unloaded as a plugin is.

use std::ffi::{CString, c_void};
use std::fs;
use std::path::Path;

/// A loaded library, until it is closed.
#[derive(Debug)]
pub struct Library(*mut c_void);

// SAFETY: handles are the process's, not a thread's.
unsafe impl Send for Library {}
// SAFETY: as above; the dynamic linker has its own locks.
unsafe impl Sync for Library {}

impl Library {
    /// Loads it.
    ///
    /// # Panics
    /// If it can't be loaded.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self::open_with(path, libc::RTLD_NOW)
    }

    /// Loads the library, and makes its symbols available to later ones.
    ///
    /// # Panics
    /// If it can't be loaded.
    #[must_use]
    pub fn open_for_all(path: &Path) -> Self {
        Self::open_with(path, libc::RTLD_NOW | libc::RTLD_GLOBAL)
    }

    /// Loads the library so that it finds the functions of the libraries that it names before those
    /// of the program.
    ///
    /// # Panics
    /// If it can't be loaded.
    #[must_use]
    #[cfg(target_env = "gnu")]
    pub fn open_apart(path: &Path) -> Self {
        Self::open_with(path, libc::RTLD_NOW | libc::RTLD_DEEPBIND)
    }

    fn open_with(path: &Path, flags: libc::c_int) -> Self {
        let name = CString::new(path.to_str().expect("a path that is text")).expect("no NUL in it");
        // SAFETY: one of the fixtures, whose constructors may run anywhere.
        let handle = unsafe { libc::dlopen(name.as_ptr(), flags) };
        assert!(!handle.is_null(), "{} can't be loaded", path.display());
        Self(handle)
    }

    /// Returns the address of the exported symbol of this name.
    ///
    /// # Panics
    /// If there is no such thing.
    #[must_use]
    pub fn symbol(&self, name: &str) -> *mut c_void {
        let c_name = CString::new(name).expect("no NUL in it");
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0, c_name.as_ptr()) };
        assert!(!symbol.is_null(), "there is no {name}");
        symbol
    }

    /// Its function with this name, of one number to another; good while the library is loaded.
    ///
    /// # Panics
    /// If there is no such thing.
    #[must_use]
    pub fn function(&self, name: &str) -> extern "C" fn(u64) -> u64 {
        // SAFETY: the fixtures' functions that this is asked for have this type.
        unsafe { std::mem::transmute(self.symbol(name)) }
    }

    /// Its function with this name, which takes nothing and returns a number; good while the
    /// library is loaded.
    ///
    /// # Panics
    /// If there is no such thing.
    #[must_use]
    pub fn getter(&self, name: &str) -> extern "C" fn() -> u64 {
        // SAFETY: the fixtures' functions that this is asked for have this type.
        unsafe { std::mem::transmute(self.symbol(name)) }
    }

    /// Closes it.
    ///
    /// # Panics
    /// If that fails.
    pub fn close(self) {
        // SAFETY: no thread is inside, and nobody uses its functions any more.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

/// Whether a file is mapped into this process.
///
/// # Panics
/// If the system does not tell.
#[must_use]
pub fn is_mapped(path: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").expect("the process's mappings");
    maps.lines().any(|line| line.ends_with(path.to_str().expect("a path that is text")))
}
