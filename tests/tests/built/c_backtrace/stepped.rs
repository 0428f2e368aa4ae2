//! A walk from a signal handler after every instruction: of functions, of the stub, of the way into
//! dispatch, of a consumer.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use probe_runtime::{Count, Latency, Trace, select};
use probe_tests::c::Object;
use probe_tests::destroyer::Destroyer;

use super::object;

unsafe extern "C" {
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, data: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// The caller of the functions that are stepped through, by the address of its beginning.
static ROOT: AtomicUsize = AtomicUsize::new(0);
static WALKS: AtomicU64 = AtomicU64::new(0);
/// Walks that did not come by it, and where the first of them began.
static LOST: AtomicU64 = AtomicU64::new(0);
static LOST_AT: AtomicUsize = AtomicUsize::new(0);

/// The function that an address lies in, if its object exports it: its beginning and its name.
fn function(address: usize) -> Option<(usize, String)> {
    // SAFETY: all zeros is a valid answer.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the answer has room.
    let found = unsafe { libc::dladdr(ptr::without_provenance(address), &raw mut info) } != 0;
    // SAFETY: a name lives as long as its object.
    let name = |name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    (found && !info.dli_sname.is_null()).then(|| (info.dli_saddr.addr(), name(info.dli_sname)))
}

extern "C" fn frame(context: *mut c_void, seen: *mut c_void) -> c_int {
    // SAFETY: the unwinder's own context.
    let address = unsafe { _Unwind_GetIP(context) };
    // SAFETY: all zeros is a valid answer, which has room.
    let start = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(ptr::without_provenance(address.saturating_sub(1)), &raw mut info) == 0 {
            0
        } else {
            info.dli_saddr.addr()
        }
    };
    if start == ROOT.load(Ordering::Relaxed) {
        // SAFETY: the variable of `each`.
        unsafe { *seen.cast::<bool>() = true };
    }
    0
}

/// Called after each instruction, in a signal handler.
extern "C" fn each(context: *const libc::ucontext_t) {
    let mut seen = false;
    // SAFETY: it walks this thread's own stack.
    unsafe { _Unwind_Backtrace(frame, (&raw mut seen).cast()) };
    WALKS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the kernel's context of the interrupted code, and the instruction at its address.
    let (at, is_linkage) = unsafe {
        let at = usize::try_from((*context).uc_mcontext.gregs[libc::REG_RIP as usize]).unwrap_or(0);
        (at, ptr::with_exposed_provenance::<[u8; 2]>(at).read() == [0xff, 0x25])
    };
    // lld's linkage table has no unwind rules.
    if !seen && !is_linkage && LOST.fetch_add(1, Ordering::Relaxed) == 0 {
        LOST_AT.store(at, Ordering::Relaxed);
    }
}

pub(super) fn step() {
    let object = Object::open(&object());
    let symbol = object.library.symbol("torture_step");
    ROOT.store(symbol.addr(), Ordering::Relaxed);
    // SAFETY: its type in tests/c/jumps.c.
    let step: extern "C" fn(extern "C" fn(*const libc::ucontext_t), *mut f64) -> i64 =
        unsafe { std::mem::transmute(symbol) };
    let walk = |state: &str| {
        let (before, mut result) = (WALKS.load(Ordering::Relaxed), 0.0);
        let steps = step(each, &raw mut result);
        assert_eq!(result.to_bits(), 134.0_f64.to_bits(), "{state}");
        let lost = LOST.load(Ordering::Relaxed);
        let at = LOST_AT.load(Ordering::Relaxed);
        assert_eq!(lost, 0, "{state}: of {steps} walks; the first at {at:x} in {:?}", function(at));
        assert_eq!(WALKS.load(Ordering::Relaxed) - before, steps.cast_unsigned(), "{state}");
        steps
    };
    let latent = walk("latent");
    let count = select("**").unwrap().attach(Count::new()).unwrap();
    let counted = walk("counted");
    assert!(counted > latent + 60, "{counted} steps beside {latent}");
    let destroyer = select("mix, mix_tail, stepped").unwrap().attach(Destroyer::default()).unwrap();
    let steps = walk("destroyed");
    assert!(steps > counted + 1000, "{steps} steps beside {counted}");
    assert_eq!((destroyer.failure(), destroyer.surprised()), (None, 0));
    drop((destroyer, count));
    // A thread's first hits, and then the ways that most hits take.
    let latency = select("mix, mix_tail, stepped").unwrap().attach(Latency::new()).unwrap();
    walk("measured");
    walk("measured again");
    drop(latency);
    let trace = select("mix, mix_tail, stepped").unwrap().attach(Trace::recorder()).unwrap();
    walk("traced");
    walk("traced again");
    drop(trace);
    assert_eq!(walk("latent again"), latent);
}
