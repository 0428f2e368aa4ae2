//! Makes a program attach what `PROBES` asks for before its `main`, and report at its end: for test programs, whose `main` is
//! not theirs.

// Safety: relies on the loader to call what `.init_array` holds once, on the first thread, when libc is ready; and on `exit` to
// call what was given to `atexit`.
#![expect(unsafe_code, reason = "see above")]

use std::sync::Mutex;

use probe_runtime::{EnvGuard, init_from_env, lost_hits};

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
