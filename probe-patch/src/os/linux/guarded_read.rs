//! The length of a text that may not be readable: the program may pass a pointer that leads
//! nowhere.
//!
//! | at the latest look | texts are read by |
//! |---|---|
//! | the handlers of `SIGSEGV` and `SIGBUS` get the signals, and no thread blocked these | an instruction that may fault; the handler lets the thread continue behind the loop |
//! | they do not, and the process has no filter of system calls | `process_vm_readv(2)` of this process |
//! | otherwise | nothing: they count as unreadable |
//!
//! [`prepare`] installs the handlers, once, on top of the program's own, and looks at the threads'
//! masks. [`look`] asks for the handlers again. So a handler of the program that does not pass
//! signals on is noticed by the next look, and a thread that blocks them by the next [`prepare`].
//! Until then a text that can't be read ends the process, as in the program's own code. A hit does
//! not look: a filter of system calls may have come, too.
//!
//! A text is measured byte by byte, up to a limit, and read afterwards. A thread that unmaps it in
//! between races with the site's own function, too.
//!
//! Cost: four instructions for each byte; with the system call, half a microsecond for each 256
//! bytes.

// Safety: relies on sigaction(2), on the frames that the kernel hands to handlers, and on the one
// instruction of `scan_text` that may fault.
#![expect(unsafe_code, reason = "see above")]

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::{fs, io, ptr};

use super::blocking::{blocked_signals, status_field};
use super::trap::action;
use crate::arch::{Registers, fault_addresses, scan_text};
use crate::os::chained_handler::ChainedHandler;

static SEGV: ChainedHandler = ChainedHandler::new(libc::SIGSEGV, on_segv);
static BUS: ChainedHandler = ChainedHandler::new(libc::SIGBUS, on_bus);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);
/// Whether no thread blocked the signals when probes were last attached.
static ARE_UNBLOCKED: AtomicBool = AtomicBool::new(false);
/// How texts are read, as a [`ReadMethod`].
static METHOD: AtomicU8 = AtomicU8::new(ReadMethod::None as u8);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReadMethod {
    None = 0,
    Fault = 1,
    Kernel = 2,
}

/// Installs the handlers, unless that was done before, and looks at the threads' masks.
pub fn prepare() {
    // Once: a handler on top of these may pass signals on to them, and would get them back. If one
    // can't be installed, the look finds it missing.
    if !IS_INSTALLED.swap(true, Ordering::AcqRel) {
        let _ = SEGV.install().and_then(|()| BUS.install());
    }
    ARE_UNBLOCKED.store(are_unblocked().unwrap_or(false), Ordering::Relaxed);
    look();
}

/// Chooses how texts are read from now on.
pub fn look() {
    if !IS_INSTALLED.load(Ordering::Acquire) {
        return;
    }
    let is_ours = |chained: &ChainedHandler, signal| {
        action(signal).is_some_and(|it| chained.is_reached_from(it.handler))
    };
    let are_ours = is_ours(&SEGV, libc::SIGSEGV) && is_ours(&BUS, libc::SIGBUS);
    let way = if are_ours && ARE_UNBLOCKED.load(Ordering::Relaxed) {
        ReadMethod::Fault
    } else if fs::read_to_string("/proc/self/status")
        .is_ok_and(|it| status_field(&it, "Seccomp:") == Some("0"))
    {
        ReadMethod::Kernel
    } else {
        ReadMethod::None
    };
    METHOD.store(way as u8, Ordering::Release);
}

fn are_unblocked() -> io::Result<bool> {
    const SIGNALS: u64 = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);
    let mut are_unblocked = true;
    for task in fs::read_dir("/proc/self/task")? {
        // A thread that has ended meanwhile has no file.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
        are_unblocked &= blocked_signals(&status).is_some_and(|mask| mask & SIGNALS == 0);
    }
    Ok(are_unblocked)
}

/// Returns the number of bytes before the first NUL, at most `most`; `None` if one of these bytes
/// can't be read, or may not be.
pub fn text_len(start: usize, most: usize) -> Option<usize> {
    start.checked_add(most)?;
    match METHOD.load(Ordering::Acquire) {
        // SAFETY: faults at the one instruction that reads are handled.
        way if way == ReadMethod::Fault as u8 => unsafe { scan_text(start, most) },
        way if way == ReadMethod::Kernel as u8 => text_len_by_kernel(start, most),
        _ => None,
    }
}

/// Returns whether reading takes no system call.
pub fn is_by_fault() -> bool {
    METHOD.load(Ordering::Acquire) == ReadMethod::Fault as u8
}

/// Returns whether these bytes can be read. Before the first [`prepare`], all texts are those of
/// Rust, and the answer is `true` without a look.
pub fn is_readable(start: usize, len: usize) -> bool {
    let Some(end) = start.checked_add(len) else { return false };
    if len == 0 || !IS_INSTALLED.load(Ordering::Acquire) {
        return true;
    }
    // A byte of each page.
    let pages = (start / 4096 * 4096..end).step_by(4096);
    pages.map(|page| page.max(start)).all(|at| text_len(at, 1).is_some())
}

fn text_len_by_kernel(start: usize, most: usize) -> Option<usize> {
    let mut buffer = [0_u8; 256];
    let mut len = 0;
    loop {
        let at = start + len;
        // Within one page, so that the kernel refuses no part for the bytes after it.
        let asked = buffer.len().min(most - len).min(4096 - at % 4096);
        if asked == 0 {
            return Some(len);
        }
        if !peek(at, &mut buffer[..asked]) {
            return None;
        }
        match buffer[..asked].iter().position(|byte| *byte == 0) {
            Some(end) => return Some(len + end),
            None => len += asked,
        }
    }
}

/// Fills a buffer from an address, through the kernel, which faults on nothing. Returns `false` if
/// some of it can't be read, or a filter of system calls denies the call. Costs 0.4 µs; needs
/// neither `/proc` nor a descriptor. Keeps `errno`.
pub fn peek(addr: usize, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: ptr::with_exposed_provenance_mut(addr), iov_len: into.len() };
    let errno = crate::os::thread::errno();
    // SAFETY: writes to the buffer, which the caller has for itself; reads only memory that the
    // kernel finds readable.
    let read = unsafe {
        libc::syscall(
            libc::SYS_process_vm_readv,
            libc::getpid(),
            &raw const local,
            1_usize,
            &raw const remote,
            1_usize,
            0_usize,
        )
    };
    crate::os::thread::set_errno(errno);
    usize::try_from(read) == Ok(into.len())
}

extern "C" fn on_segv(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    handle(&SEGV, info, context);
}

extern "C" fn on_bus(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    handle(&BUS, info, context);
}

fn handle(chained: &ChainedHandler, info: *mut libc::siginfo_t, context: *mut c_void) {
    let (read, fault) = fault_addresses();
    // SAFETY: the kernel's own structures, valid while the handler runs.
    let (code, mut registers) = unsafe { ((*info).si_code, Registers::of(context)) };
    // The kernel raised it.
    if code > 0 && registers.next() == read {
        registers.set_next(fault);
    } else {
        // SAFETY: the kernel's own structures, which this handler was given.
        unsafe { chained.pass_on(info, context) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use super::*;

    /// Taken by a test whose thread blocks the signals, and by one that needs them unblocked.
    static MASKS: Mutex<()> = Mutex::new(());

    /// Two pages, of which the second can't be read.
    fn at_an_edge(text: &[u8]) -> usize {
        // SAFETY: new mappings, which stay.
        unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(ptr::null_mut(), 8192, rights, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.byte_add(4096), 4096, libc::PROT_NONE), 0);
            let at = start.byte_add(4096 - text.len()).cast::<u8>();
            ptr::copy_nonoverlapping(text.as_ptr(), at, text.len());
            at.addr()
        }
    }

    fn way() -> u8 {
        METHOD.load(Ordering::Relaxed)
    }

    #[test]
    fn texts_are_measured_in_each_way() {
        let _turn = MASKS.lock().unwrap();
        let begin = Instant::now();
        // The C library blocks all signals while it starts the threads of other tests.
        while way() != ReadMethod::Fault as u8 {
            assert!(begin.elapsed() < Duration::from_secs(60), "{}", way());
            prepare();
        }
        let text = c"some text".as_ptr().addr();
        for len in [text_len, text_len_by_kernel] {
            let lens = [100, 9, 4, 0].map(|most| len(text, most));
            assert_eq!(lens, [Some(9), Some(9), Some(4), Some(0)]);
            assert_eq!([len(8, 100), len(usize::MAX - 200, 100), len(1 << 62, 5)], [None; 3]);
            // Whole, without its end, and with the limit before the edge.
            assert_eq!(len(at_an_edge(b"at the edge\0"), 100), Some(11));
            assert_eq!([len(at_an_edge(b"beyond"), 100), len(at_an_edge(b"beyond"), 6)], [None, Some(6)]);
            assert_eq!(len(at_an_edge(&[b'x'; 3000]), 2999), Some(2999));
        }
        assert_eq!(text_len(usize::MAX - 5, 100), None);
        let edge = at_an_edge(&[b'x'; 4090]);
        assert_eq!([(edge, 4090), (8, 0)].map(|(start, len)| is_readable(start, len)), [true; 2]);
        let beyond = [(edge, 4091), (edge, 9000), (8, 1), (usize::MAX, 1), (usize::MAX, 2)];
        assert_eq!(beyond.map(|(start, len)| is_readable(start, len)), [false; 5]);
        // The program takes the signal for itself; then it gives it back.
        // SAFETY: an action of this process, put back below; no fault is raised meanwhile.
        let before = unsafe {
            let mut before = std::mem::zeroed::<libc::sigaction>();
            let own = std::mem::zeroed::<libc::sigaction>();
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const own, &raw mut before), 0);
            before
        };
        look();
        let (lost, len) = (way(), text_len(8, 10));
        // SAFETY: the action of before.
        unsafe { libc::sigaction(libc::SIGSEGV, &raw const before, ptr::null_mut()) };
        let is_filtered = fs::read_to_string("/proc/self/status")
            .is_ok_and(|it| status_field(&it, "Seccomp:") != Some("0"));
        assert_eq!(
            (lost, len),
            (if is_filtered { ReadMethod::None } else { ReadMethod::Kernel } as u8, None)
        );
        look();
        assert_eq!(way(), ReadMethod::Fault as u8);
    }

    #[test]
    fn a_thread_that_blocks_the_signals_is_noticed() {
        let _turn = MASKS.lock().unwrap();
        let found = std::thread::spawn(|| {
            let signals = 1_u64 << (libc::SIGSEGV - 1);
            [libc::SIG_BLOCK, libc::SIG_UNBLOCK].map(|how| {
                // SAFETY: an initialised mask, for this thread.
                unsafe {
                    let none = ptr::null_mut::<u64>();
                    libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const signals, none, 8)
                };
                let own = fs::read_to_string("/proc/thread-self/status").unwrap();
                (are_unblocked().unwrap(), status_field(&own, "SigBlk:").map(str::to_owned))
            })
        });
        let [blocked, unblocked] = found.join().unwrap();
        assert!(!blocked.0);
        assert_ne!(blocked.1, unblocked.1);
    }

    #[test]
    #[cfg_attr(miri, ignore = "process_vm_readv(2)")]
    fn what_is_not_mapped_is_no_fault() {
        let source = *b"some bytes";
        let mut found = [0; 10];
        assert!(peek(source.as_ptr().expose_provenance(), &mut found));
        assert_eq!(found, source);
        assert!(!peek(8, &mut found));
    }
}
