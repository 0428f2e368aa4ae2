//! Threads that run into an instruction which is being replaced.
//!
//! They wait a moment for the patch to end; then they take its steps themselves. So a thread is never held for long: not
//! by a patcher that was preempted, not by an asynchronous patch that nobody finishes, and not by itself, where it has
//! started the patch, or interrupts in a signal handler the code that does.

// Safety: relies on addresses that a thread has just executed.
#![expect(unsafe_code, reason = "see above")]

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use super::entry::Phase;
use super::ground::Text;
use super::plan::INT3;
use super::table;
use super::wait::tsc;
use crate::control;
use crate::os;
use crate::os::cancel::Uncancellable;
use crate::patch::PatchError;

/// For how many ticks a thread waits for the patcher before it helps: about ten microseconds.
const PATIENCE: u64 = 30_000;
/// For how many ticks the handler is taken to be in its place, once that was seen: a fraction of a millisecond.
const TRUST: u64 = 1_000_000;

/// Traps of threads that ran into an instruction while it was being replaced, since the process started.
///
/// Each cost its thread a signal: 2 µs, and the wait.
pub fn traps() -> u64 {
    TRAPS.load(Ordering::Relaxed)
}

static TRAPS: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
static IS_READY: AtomicBool = AtomicBool::new(false);

/// Makes sure that traps are handled, before there are any. Without a lock, which a fork could leave taken: what it does may
/// be done twice.
pub(super) fn prepare() -> Result<(), PatchError> {
    let now = tsc();
    if now.wrapping_sub(SEEN.load(Ordering::Relaxed)) < TRUST {
        return Ok(());
    }
    if !IS_READY.load(Ordering::Acquire) {
        install()?;
        IS_READY.store(true, Ordering::Release);
    }
    if !os::trap::is_installed() {
        return Err(signal(
            "another handler was installed over the one of this crate; install yours before the first patch that \
             needs a trap, and this crate's will hand on what is not its own",
        ));
    }
    SEEN.store(now, Ordering::Relaxed);
    Ok(())
}

fn install() -> Result<(), PatchError> {
    static IS_HOOKED: AtomicBool = AtomicBool::new(false);
    let blocking = os::trap::blocking_threads();
    if !blocking.is_empty() {
        return Err(signal(&format!(
            "threads {blocking:?} block it, and would be killed by it with the whole process; let them unblock it"
        )));
    }
    // Done already where a lock of the control's is held, under which nothing may be loaded.
    control::require().map_err(|error| signal(&error.to_string()))?;
    os::trap::install(hold).map_err(|error| signal(&format!("its handler can't be installed: {error}")))?;
    if !IS_HOOKED.swap(true, Ordering::AcqRel) {
        os::fork::install(nothing, nothing, in_child);
    }
    Ok(())
}

fn signal(problem: &str) -> PatchError {
    PatchError::Signal { problem: problem.to_owned() }
}

extern "C" fn nothing() {}

/// Only the thread that forked goes on: it ends what others had under way.
extern "C" fn in_child() {
    for entry in table::all() {
        entry.end_alone(&Text);
    }
}

/// Called in the signal handler: returns when the instruction can be executed again, or at once, and false, if the
/// `int3` there is none of ours.
fn hold(addr: usize) -> bool {
    let Some(entry) = table::find(addr) else { return false };
    let _whole = Uncancellable::new();
    let since = tsc();
    loop {
        let version = entry.version();
        // What is said of this patch below is void where it is not the present one any more.
        let ticket = entry.ticket();
        let is_mine = entry.is_owned_by(os::trap::this_thread(), ticket);
        match entry.phase() {
            Phase::Idle => {
                let byte = first_byte(addr);
                if entry.version() == version {
                    let is_ours = byte != INT3;
                    TRAPS.fetch_add(u64::from(is_ours), Ordering::Relaxed);
                    return is_ours;
                }
            }
            Phase::Locking if is_mine => entry.speak_for_owner(ticket, &Text),
            Phase::Locking => relax(since),
            Phase::FirstWait | Phase::SecondWait => {
                if is_mine || tsc().saturating_sub(since) > PATIENCE {
                    entry.step(ticket, &Text);
                }
                relax(since);
            }
        }
    }
}

fn relax(since: u64) {
    if tsc().saturating_sub(since) > PATIENCE {
        std::thread::yield_now();
    } else {
        hint::spin_loop();
    }
}

fn first_byte(addr: usize) -> u8 {
    // SAFETY: it was just executed.
    unsafe { AtomicU8::from_ptr(addr as *mut u8) }.load(Ordering::Acquire)
}
