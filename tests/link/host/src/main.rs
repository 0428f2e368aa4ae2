//! Loads, probes and unloads the plugin that its argument names, with and without an attachment.

use std::env;
use std::ffi::{CString, c_char, c_int, c_void};
use std::hint::black_box;

use probe_runtime::{Count, probe, select};

const RTLD_NOW: c_int = 2;

unsafe extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(handle: *mut c_void, symbol: *const c_char) -> *mut c_void;
    fn dlclose(handle: *mut c_void) -> c_int;
}

#[probe]
#[inline(never)]
fn own(x: u64) -> u64 {
    black_box(x)
}

struct Plugin {
    handle: *mut c_void,
    sum: extern "C" fn(u64) -> u64,
}

impl Plugin {
    fn open(path: &str) -> Self {
        let path = CString::new(path).expect("no NUL in the path");
        // SAFETY: the plugin has no constructors.
        let handle = unsafe { dlopen(path.as_ptr(), RTLD_NOW) };
        assert!(!handle.is_null(), "dlopen");
        // SAFETY: the handle is open.
        let symbol = unsafe { dlsym(handle, c"plugin_sum".as_ptr()) };
        assert!(!symbol.is_null(), "dlsym");
        // SAFETY: the plugin defines it with this type.
        let sum = unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(u64) -> u64>(symbol) };
        Self { handle, sum }
    }

    fn close(self) {
        // SAFETY: no thread is inside, and `sum` goes with `self`.
        assert_eq!(unsafe { dlclose(self.handle) }, 0);
    }
}

fn stage(name: &str) {
    println!("stage {name}");
}

fn main() {
    let path = env::args().nth(1).expect("the plugin's path");
    own(1);
    stage("before");
    transcript::list();

    let plugin = Plugin::open(&path);
    stage("opened");
    transcript::list();
    let hits = select("**").expect("probes").attach(Count::new()).expect("attach");
    assert!(hits.report().is_complete(), "{}", hits.report());
    assert_eq!((plugin.sum)(black_box(10)), 55);
    own(2);
    transcript::counts(&hits);
    assert!(hits.detach().is_complete());
    assert_eq!((plugin.sum)(black_box(10)), 55);
    plugin.close();
    stage("closed");
    transcript::list();

    let plugin = Plugin::open(&path);
    stage("reopened");
    transcript::list();
    let hits = select("plugin::**").expect("probes").attach(Count::new()).expect("attach");
    assert_eq!((plugin.sum)(black_box(3)), 6);
    transcript::counts(&hits);
    plugin.close();
    stage("closed-attached");
    transcript::list();
    assert!(hits.detach().is_complete());
    stage("detached");
    transcript::list();
    own(3);
    println!("ok");
}
