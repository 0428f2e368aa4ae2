//! Attaches the consumers that `PROBES` asks for before a program's `main`, and reports at its end:
//! for test programs that have no `main` of their own to do so.

// Safety: relies on the loader to call each function in `.init_array` once, on the first thread,
// when libc is ready; and on `exit` to call the function that was given to `atexit`.
#![expect(unsafe_code, reason = "see above")]

use std::sync::Mutex;

use probe_runtime::losses::lost_hits;
use probe_runtime::{EnvGuard, init_from_env};

static ARMED: Mutex<Option<EnvGuard>> = Mutex::new(None);

extern "C" fn arm() {
    match init_from_env() {
        Ok(guard) => {
            *ARMED.lock().unwrap() = Some(guard);
            // SAFETY: a function that neither unwinds nor outlives the program.
            unsafe { libc::atexit(report) };
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::abort();
        }
    }
}

extern "C" fn report() {
    let lost = lost_hits();
    drop(ARMED.lock().unwrap().take());
    if lost != 0 {
        eprintln!("lost hits: {lost}");
    }
}

// SAFETY: the section is an array of such functions.
#[used]
#[unsafe(link_section = ".init_array")]
static ARM: extern "C" fn() = arm;
