//! Threads that run into an instruction while it is being replaced.
//!
//! Such a thread waits a moment for the patch to end. Then it takes the patch's steps itself. So no
//! thread is held for long, neither by a patcher that was preempted nor by an asynchronous patch
//! that no thread finishes. The same holds for a thread that has started the patch itself, and for
//! one whose signal handler interrupts the patching code.

// Safety: relies on addresses that a thread has just executed.
#![expect(unsafe_code, reason = "see above")]

use std::hint;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

use crate::arch::{self, this_thread, timestamp};
use crate::engine::error::PatchError;
use crate::engine::pages::READY;
use crate::engine::protocol::{Phase, Text, find};
use crate::os;
use crate::os::blocking::BlockingThread;
use crate::os::cancel::Uncancellable;

/// Ticks for which a thread spins before it takes the patch's steps itself: about ten microseconds.
const SPIN_TICKS: u64 = 30_000;
/// Ticks for which a check stays valid: a fraction of a millisecond at least. With many threads it
/// is a multiple of the check's own cost, up to some milliseconds.
const MIN_CHECK_TICKS: u64 = 1_000_000;
const MAX_CHECK_TICKS: u64 = 30 * MIN_CHECK_TICKS;
const CHECK_COST_FACTOR: u64 = 16;
/// Ticks for which a debugger that kept the signal is not tried again: about a second.
const DEBUGGER_RETRY_TICKS: u64 = 3_000_000_000;

/// Returns how often a thread has run into an instruction while it was being replaced, since the
/// process started. Each time took the thread a signal (2 µs) and the wait.
///
/// ```
/// use probe_patch::word::traps;
/// let before = traps();
/// // … instructions are patched while threads execute them …
/// println!("{} threads had to wait", traps() - before);
/// ```
pub fn traps() -> u64 {
    TRAPS.load(Ordering::Relaxed)
}

static TRAPS: AtomicU64 = AtomicU64::new(0);
/// The time stamp until which the last check is valid.
static CHECK_VALID_UNTIL: AtomicU64 = AtomicU64::new(0);
static IS_READY: AtomicBool = AtomicBool::new(false);
/// The process of a tracer that kept the signal, and the time stamp before which it is not asked
/// again.
static KEEPING_TRACER: AtomicU32 = AtomicU32::new(0);
static DEBUGGER_RETRY_AT: AtomicU64 = AtomicU64::new(0);

/// Makes sure that traps can be handled. Called before each patch; it trusts a recent check.
pub(super) fn prepare() -> Result<(), PatchError> {
    // If that time has passed, or was never set, the wrapped difference is far larger.
    if CHECK_VALID_UNTIL.load(Ordering::Relaxed).wrapping_sub(timestamp()) <= MAX_CHECK_TICKS {
        Ok(())
    } else {
        check()
    }
}

/// Makes sure that traps can be handled, by a new check. Called before each batch. It takes no
/// lock, which a fork could leave taken; two threads may do the same work twice.
pub(super) fn check() -> Result<(), PatchError> {
    let since = timestamp();
    nobody_blocks()?;
    let is_first = !IS_READY.load(Ordering::Acquire);
    if is_first {
        install_handler()?;
    }
    if !os::trap::is_installed() {
        return Err(signal(
            "another handler was installed over the one of this crate; install yours before the first patch that \
             needs a trap, and this crate's will hand on what is not its own",
        ));
    }
    debugger_passes_signals(is_first)?;
    IS_READY.store(true, Ordering::Release);
    let now = timestamp();
    let trust = (now.saturating_sub(since) * CHECK_COST_FACTOR).clamp(MIN_CHECK_TICKS, MAX_CHECK_TICKS);
    CHECK_VALID_UNTIL.store(now + trust, Ordering::Relaxed);
    Ok(())
}

/// Makes sure that no thread and no handler blocks `SIGTRAP`, as far as `/proc` and sigaction(2)
/// tell. Changes nothing.
///
/// # Errors
/// [`PatchError::Signal`].
pub fn nobody_blocks() -> Result<(), PatchError> {
    // Under valgrind, the kernel reports valgrind's own masks. valgrind itself takes the traps of
    // its program.
    if !arch::is_valgrind() {
        let blocking = os::blocking::blocking_threads().map_err(|error| {
            signal(&format!(
                "which threads block SIGTRAP can't be read from /proc/self/task: {error}; mount /proc, or leave a \
                 descriptor free"
            ))
        })?;
        if !blocking.is_empty() {
            let named = |it: &BlockingThread| format!("{} ({:?})", it.thread, it.name);
            let threads: Vec<_> = blocking.iter().map(named).collect();
            return Err(signal(&format!(
                "thread {} blocks SIGTRAP, so that a trap there would kill the process; let it unblock the signal",
                threads.join(", thread ")
            )));
        }
    }
    let handlers = os::blocking::blocking_handlers();
    if !handlers.is_empty() {
        let names: Vec<_> = handlers.into_iter().map(os::blocking::signal_name).collect();
        return Err(signal(&format!(
            "the handler of {} blocks SIGTRAP while it runs, so that a trap there would kill the process; install \
             it with a `sa_mask` without SIGTRAP",
            names.join(", ")
        )));
    }
    Ok(())
}

/// Makes sure that no debugger keeps the signal for itself, by executing a harmless breakpoint.
fn debugger_passes_signals(is_first: bool) -> Result<(), PatchError> {
    let tracer = os::blocking::tracer();
    let process = tracer.as_ref().map_or(0, |tracer| tracer.process);
    if process == 0 && !is_first {
        return Ok(());
    }
    let is_too_early = KEEPING_TRACER.load(Ordering::Relaxed) == process
        && DEBUGGER_RETRY_AT.load(Ordering::Relaxed).wrapping_sub(timestamp()) <= DEBUGGER_RETRY_TICKS;
    if !is_too_early && arch::debugger_must_pass_on_sigtrap() {
        return Ok(());
    }
    if !is_too_early {
        KEEPING_TRACER.store(process, Ordering::Relaxed);
        DEBUGGER_RETRY_AT.store(timestamp() + DEBUGGER_RETRY_TICKS, Ordering::Relaxed);
    }
    let keeper = tracer.map_or_else(
        || "whoever traces this process".to_owned(),
        |tracer| format!("process {} ({:?}), which traces this one,", tracer.process, tracer.name),
    );
    Err(signal(&format!(
        "{keeper} does not pass SIGTRAP on; have it do so (gdb: `handle SIGTRAP nostop noprint pass`; lldb: `process \
         handle SIGTRAP -s false -n false -p true`), or detach it"
    )))
}

fn install_handler() -> Result<(), PatchError> {
    // No-op under an upper room's lock, where no object may be loaded: the lock's holder has called
    // this before.
    READY.require().map_err(|error| signal(&error.to_string()))?;
    os::trap::install(on_breakpoint)
        .map_err(|error| signal(&format!("its handler can't be installed: {error}")))
}

fn signal(problem: &str) -> PatchError {
    PatchError::Signal { problem: problem.to_owned() }
}

/// Handles a breakpoint in the signal handler. Returns `true` when the instruction can be executed
/// again, or `false` at once if the breakpoint there is not this crate's.
fn on_breakpoint(addr: usize) -> bool {
    let Some(entry) = find(addr) else { return false };
    let _uncancellable = Uncancellable::new();
    let since = timestamp();
    loop {
        let version = entry.version();
        // If another patch has begun by then, steps with this ticket have no effect.
        let ticket = entry.ticket();
        let is_mine = entry.is_owned_by(this_thread(), ticket);
        match entry.phase() {
            Phase::Idle => {
                let is_ours = !has_breakpoint(addr);
                if entry.version() == version {
                    TRAPS.fetch_add(u64::from(is_ours), Ordering::Relaxed);
                    return is_ours;
                }
            }
            Phase::Locking if is_mine => entry.note_lock_for_owner(ticket, &Text),
            Phase::Locking => relax(since),
            Phase::FirstWait | Phase::SecondWait => {
                if is_mine || timestamp().saturating_sub(since) > SPIN_TICKS {
                    entry.step(ticket, &Text);
                }
                relax(since);
            }
        }
    }
}

fn relax(since: u64) {
    if timestamp().saturating_sub(since) > SPIN_TICKS {
        std::thread::yield_now();
    } else {
        hint::spin_loop();
    }
}

/// Returns whether a breakpoint is at an address that a thread has just executed.
fn has_breakpoint(addr: usize) -> bool {
    // SAFETY: it was just executed, and this crate changes text by whole bytes.
    let is_there = unsafe { arch::has_breakpoint(addr) };
    // Later reads are not older than this one.
    fence(Ordering::Acquire);
    is_there
}
