//! A thread that is to be cancelled opens text, and switches calls: a cancellation takes effect
//! where the program has a cancellation point, and nowhere in this crate, so that no guard, lock or
//! page is left behind. A process of its own: it counts what stays writable.
#![cfg(all(target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use probe_runtime::patch::call::{self, CallOptions};
use probe_runtime::patch::{OpenText, TextPolicy, unrestored_bytes};
use probe_tests::call_sites::{Block, FIRST};
use probe_tests::cancel::Thread;
use probe_tests::pages::{PAGE, RX, rights};
use probe_tests::text::Text;

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Set once the thread has been cancelled, and does not know yet.
static IS_CANCELLED: AtomicBool = AtomicBool::new(false);
/// How many operations have come back.
static DONE: AtomicUsize = AtomicUsize::new(0);
/// A page far from all code.
static FAR: AtomicUsize = AtomicUsize::new(0);

/// The operations, none of which may end the thread.
fn operations() -> [fn(); 6] {
    fn site(is_needy: bool) -> usize {
        let sites = Block::in_text().sites();
        sites.into_iter().find(|site| (site.offset() == 7) == is_needy && !site.is_jump).unwrap().addr
    }
    fn switch(options: CallOptions, site: usize) {
        // SAFETY: a site of the block, whose function does without the callee.
        assert!(unsafe { options.deactivate_call(site) }.unwrap());
        // SAFETY: the site has called this callee before.
        assert!(unsafe { options.activate_call(site, Block::in_text().callee(FIRST)) }.unwrap());
    }
    [
        || {
            let at = site(false);
            let open = OpenText::new(at..at + 5).unwrap();
            let again = OpenText::new(at..at + 2 * PAGE).unwrap();
            open.close().unwrap();
            again.close().unwrap();
        },
        || assert_eq!(unrestored_bytes(), 0),
        || switch(CallOptions::new(), site(true)),
        || switch(CallOptions::new().strict(true), site(false)),
        || switch(CallOptions::new().text_policy(TextPolicy::Alias), site(false)),
        || {
            // A `ret` is mapped near it, which takes a look at what there is.
            let at = FAR.load(Ordering::SeqCst) + 7;
            // SAFETY: a CALL that nobody executes.
            assert!(unsafe { call::deactivate_call(at) }.unwrap());
        },
    ]
}

extern "C-unwind" fn operate(_: *mut c_void) -> *mut c_void {
    while !IS_CANCELLED.load(Ordering::SeqCst) {
        std::hint::spin_loop();
    }
    for operation in operations() {
        operation();
        DONE.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: nothing here has a destructor.
    unsafe { pthread_testcancel() };
    ptr::null_mut()
}

#[test]
fn operations_on_text_are_no_cancellation_points() {
    // SAFETY: no pointers. The alarm kills a process that hangs.
    unsafe { libc::alarm(60) };
    let text = Text::of_this_process();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let far = 0x1000_0000_0000_usize;
    let (len, data) = (PAGE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping, far from all others.
    assert_eq!(unsafe { libc::mmap(far as *mut _, len, data, flags, -1, 0) }.addr(), far);
    // SAFETY: the page's own bytes.
    unsafe { ((far + 7) as *mut [u8; 5]).write([0xe8, 0x10, 0, 0, 0]) };
    // SAFETY: the page; nobody writes it any more but the call above.
    assert_eq!(unsafe { libc::mprotect(far as *mut _, len, RX) }, 0);
    FAR.store(far, Ordering::SeqCst);
    let thread = Thread::start(operate);
    thread.ask();
    IS_CANCELLED.store(true, Ordering::SeqCst);
    thread.join();
    assert_eq!(DONE.load(Ordering::SeqCst), operations().len());
    assert_eq!(rights(&(far..far + PAGE)), ["r-xp"]);
    assert_eq!(unrestored_bytes(), 0);
    text.assert_as_in_file();
}
