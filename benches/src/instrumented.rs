//! Shared objects of C, compiled while a bench runs: thousands of small functions, with and without
//! `-finstrument-functions`.

// Safety: relies on the functions' types, since this module has written the functions; libraries
// stay loaded.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::{CString, c_void};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// One of the functions.
pub type Function = extern "C" fn(u64) -> u64;
/// A function that calls the first function this many times.
pub type Loop = extern "C" fn(u64) -> u64;

/// A loaded object.
#[derive(Debug)]
pub struct Instrumented {
    functions: &'static [Function],
    call_first: Loop,
}

/// The hooks of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hooks {
    /// No calls of hooks.
    None,
    /// Calls of empty hooks in the object.
    Empty,
    /// Calls of this program's hooks.
    Ours,
}

impl Instrumented {
    /// Compiles and loads an object with this many functions. Each name is loaded once and has code
    /// of its own.
    ///
    /// # Panics
    /// If that fails.
    pub fn load(name: &str, functions: usize, hooks: Hooks) -> Self {
        let folder = folder();
        fs::create_dir_all(&folder).expect("a folder for temporary files");
        let (source, object) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
        fs::write(&source, code(&name.replace('-', "_"), functions, hooks)).expect("a file in the folder");
        compile(&source, &object, hooks);
        open(&object, functions)
    }

    /// Returns the functions.
    pub fn functions(&self) -> &'static [Function] {
        self.functions
    }

    /// Calls the first function this many times, in a loop without hooks.
    pub fn call_first(&self, calls: u64) -> u64 {
        (self.call_first)(calls)
    }
}

/// Returns the folder of the objects' files. The runtime reads names from them.
fn folder() -> PathBuf {
    env::temp_dir().join(format!("probe-discovery-{}", std::process::id()))
}

/// Removes the objects' files.
pub fn clean() {
    // A file that stays is temporary.
    let _ = fs::remove_dir_all(folder());
}

fn code(name: &str, functions: usize, hooks: Hooks) -> String {
    const PLAIN: &str = "__attribute__((no_instrument_function)) ";
    let mut code = String::from("#include <stdint.h>\ntypedef uint64_t function(uint64_t);\n");
    if hooks == Hooks::Empty {
        for hook in ["enter", "exit"] {
            writeln!(code, "{PLAIN}void __cyg_profile_func_{hook}(void *f, void *c) {{ (void)f; (void)c; }}")
                .expect("a string");
        }
    }
    for number in 0..functions {
        writeln!(
            code,
            "__attribute__((noinline)) static uint64_t {name}_{number}(uint64_t x) {{ return x * {} + 1; }}",
            2 * number + 3
        )
        .expect("a string");
    }
    code.push_str("function *const table[] = {");
    (0..functions).for_each(|number| write!(code, "{name}_{number},").expect("a string"));
    write!(
        code,
        "}};\n{PLAIN}uint64_t call_first(uint64_t n) {{ uint64_t x = 0; function *volatile f = {name}_0;\n\
         for (; n; n--) x = f(x); return x; }}\n"
    )
    .expect("a string");
    code
}

fn compile(source: &Path, object: &Path, hooks: Hooks) {
    let mut command = Command::new("gcc");
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(object).arg(source);
    if hooks != Hooks::None {
        command.arg("-finstrument-functions");
    }
    if hooks == Hooks::Empty {
        command.arg("-Wl,-Bsymbolic");
    }
    let status = command.status().expect("gcc");
    assert!(status.success(), "gcc: {status}");
}

fn open(object: &Path, functions: usize) -> Instrumented {
    let name = CString::new(object.as_os_str().as_encoded_bytes()).expect("a path without NUL");
    // SAFETY: an object of this module, without constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null(), "{} can't be loaded", object.display());
    let symbol = |name: &str| -> *mut c_void {
        let name = CString::new(name).expect("a name without NUL");
        // SAFETY: the handle stays open.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?} is not there");
        symbol
    };
    // SAFETY: `code` has written these functions; the object is never unloaded.
    unsafe {
        Instrumented {
            functions: std::slice::from_raw_parts(symbol("table").cast(), functions),
            call_first: std::mem::transmute::<*mut c_void, Loop>(symbol("call_first")),
        }
    }
}
