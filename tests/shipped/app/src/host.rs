//! Loads and unloads a plugin whose libraries ship probes. The program has these, too.

use std::ffi::{CString, c_char, c_int, c_void};

use probe_runtime::{Count, select};

use crate::{counts, list, serve, stage};

const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

struct Plugin {
    handle: *mut c_void,
    total: extern "C" fn() -> u64,
}

impl Plugin {
    fn open(path: &str) -> Self {
        let path = CString::new(path).expect("no NUL in the path");
        // SAFETY: the plugin has no constructors.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        assert!(!handle.is_null(), "dlopen");
        // SAFETY: the handle is open.
        let symbol = unsafe { dlsym(handle, c"plugin_total".as_ptr()) };
        assert!(!symbol.is_null(), "dlsym");
        // SAFETY: the plugin defines it with this type.
        let total = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> u64>(symbol) };
        Self { handle, total }
    }

    fn close(self) {
        // SAFETY: no thread is inside, and `total` goes with `self`.
        assert_eq!(unsafe { dlclose(self.handle) }, 0);
    }
}

/// Prints stages before, with and after the plugin; with it, the hits of one `total` and `serve`.
pub fn run(path: &str) {
    stage("before");
    list();
    for round in ["first", "second"] {
        let plugin = Plugin::open(path);
        stage(round);
        list();
        let hits = select("leaf::sum, middle::** kind=entry").expect("probes").attach(Count::new());
        let hits = hits.expect("attach");
        assert!(hits.report().is_complete(), "{}", hits.report());
        println!("patched {}", hits.report().patched());
        assert_eq!((plugin.total)(), 4);
        assert_eq!(serve(), 4);
        counts(&hits);
        if round == "first" {
            println!("restored {}", hits.detach().patched());
            plugin.close();
        } else {
            // The plugin's sites vanish under the attachment; the program's own continue.
            plugin.close();
            assert_eq!(serve(), 4);
            stage("closed, attached");
            list();
            counts(&hits);
            println!("restored {}", hits.detach().patched());
        }
        stage("closed");
        list();
    }
    println!("ok");
}
