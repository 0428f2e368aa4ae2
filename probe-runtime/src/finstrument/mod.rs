//! Functions of C and C++ that were compiled with `-finstrument-functions`, by whatever build: each becomes a probe when it is
//! first called.
//!
//! Compilers then call `__cyg_profile_func_enter` at each function's entry and `__cyg_profile_func_exit` before its
//! returns, inlined functions included. These two functions are here. ("Living on the edge", section 7.)
//!
//! ```no_run
//! use probe_runtime::{Count, finstrument, probes};
//!
//! finstrument::on_discovery(|found| {
//!     if !found.is_patched() {
//!         eprintln!("{found:?} stays a real call for now");
//!     }
//! });
//! let calls = finstrument::attach(Count::new(), 10_000)?; // counts from each function's first call on
//! // … the program runs …
//! for probe in probes() {
//!     println!("{probe}"); // with names, files and lines
//! }
//! println!("{}", *calls);
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! # Life of a call
//! ```text
//!  call hook  ──first hit──▶  NOP5 (latent)  ◀──attach, drop──▶  CALL of its own stub (active)
//!                    └─────▶  a real call, delivered by a look-up: see `kept`
//!  jmp hook   ──operation──▶  ret         ◀──attach, drop──▶  the jump, delivered by a look-up
//! ```
//! 1. A function that is never called costs nothing: its bytes are the compiler's, and there is no probe.
//! 2. The first hit takes a definition and a stub from memory near the text, and notes the call site. Where text is open, it replaces the call at once; where
//!    it is sealed, the eighth such hit on a page does so for all, or a call's second hit, or an operation, so that they share the opening of the page. A call becomes a NOP of
//!    five bytes, or, while a [growing attachment](attach) counts, by a CALL of the stub: it makes sure that the function is the one, loads its definition, and jumps. That
//!    is the paper's optimised argument one step further: the call site itself says which probe it is, and nothing is looked
//!    up any more. A call through a pointer (`-fno-plt`) keeps its sixth byte as a prefix. A call that lies across two aligned words stays
//!    the compiler's while it is active, and is looked up; it is latent as a jump over itself, or as a call of a `ret`.
//! 3. The next operation ([`probes`](crate::probes), [`select`](crate::select), [`attach`], …) gives what is new its number and name: the symbol of its
//!    object's `.symtab` or `.dynsym`, demangled, without parameters; file and line from debug information in the object's own file, else that file and 0
//!    ([names](#names)). From then on it is a probe like any other, entry or exit. Until the first operation of the process, [`start`] for one, calls
//!    are noted, and stay calls: nothing is set up before somebody asks for it.
//!
//!    A function that returns nothing often ends in a *jump* to the exit hook, which does not tell where it was. An operation decodes the function from its
//!    object's file, compares that with memory, and makes each such jump a `ret` of one byte: the hook would have returned to the function's caller, too. While
//!    somebody listens it is the jump again. So after a program's first round of work, one more operation ([`start`], say) makes these latent. What is not certain stays as it is: a conditional jump
//!    (no single byte makes it go on where it does not jump, and return where it does), functions with jumps through tables,
//!    arguments that not all ways agree on, stripped objects ([`Reason::NotACall`]).
//! 4. When its object is unloaded, it goes; what is loaded in its place is discovered anew. A function that has the same name, file and line is the same probe.
//!
//! # Where hooks may run
//! Anywhere: in signal handlers, in an allocator, before `main`, on a thread that Rust does not know, while this very thread holds
//! this crate's locks. They allocate nothing from the heap, wait for nobody, and keep `errno`. What would need more is
//! put off: the call stays one until a later hit or operation patches it, and its hits are delivered meanwhile.
//!
//! # Why it is safe
//! - The compiler expects a call there, so registers that a callee may change can be changed, and nothing lives below the stack pointer.
//! - The call is replaced only where its bytes are one of three calls, and it leads to the hook that has just been reached, be it through a
//!   linkage table. Whatever is there beside it, foreign patches and breakpoints too, fails the comparison.
//! - One aligned write switches it: of all of it where it lies in a word ([`patch`](crate::patch)), else of one of its two words, as in
//!   [`patch::call`](crate::patch::call). No `int3` is involved, which a thread that blocks `SIGTRAP` would not survive, but for what
//!   [`TextPolicy::Alias`](crate::TextPolicy) asks of operations. Who is in the hook returns to the same instruction as ever.
//! - Signals are blocked while a first hit changes anything: no handler forks there, or leaves by `siglongjmp`.
//! - Its text can't be unmapped while the hook runs, since the hook returns there.
//! - Stubs are executable and never writable, from the moment that they are anybody's. What was discovered in an object
//!   that is gone is used again only after every thread has left the hook that may have looked at it.
//!
//! # Cost
//! A first hit takes some 2.0 µs where text is open, and 1.6 where it is sealed; with its share of opening and sealing pages, which takes the kernel 5.3 µs each time, 3.1 in the mean
//! (figure `discovery`). Latent, a call is a NOP and what the compiler does to pass the arguments. Active, one that lies in a word is some 2.5 ns,
//! as for Rust's sites; one across two words, and that is every other one, is a call of the hook again, which knows where to go on (figure `discovery/active`). Of
//! thousands of such calls, some share the place where that is written: those beyond one are looked up each time, 18 ns. 500 bytes of memory a call site.
//!
//! An operation looks at what was discovered, patched or left undone since the last one, and at what it is about: 26 µs after one function's
//! first call, most of which is for opening pages and reading its name, however many are known. Sites that came one by one are moved to where the others
//! are once they are a quarter as many. When objects come or go it looks at everything: 26 ms with 30,000 call sites.
//!
//! # Names
//! Debug information is read from the file that was loaded, and not from a file of its own (`objcopy --only-keep-debug`, `debuginfod`): who has
//! split it off gets names from what was left. Where there is none for a function,
//! - its file is the object's, and its line 0, so that functions of two objects stay two;
//! - of several functions with one name each is `<name>::0x<offset in the object's file>`;
//! - one without a symbol is `<the object's file name>::0x<offset>`.
//!
//! A compiler may hand the hook the address of a function that has taken the place of the one that is running: another object's of the same name, or
//! the executable's linkage table. The probe is then named by where its call is, and lies in its own object.
//!
//! # Linking
//! Objects that are linked into the program find the hooks there. Those that are loaded at run time find them only if the
//! executable exports them, which Rust's do not by themselves; from `build.rs`:
//! `println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=__cyg_profile_func_*");`. Otherwise they find those of the C library,
//! which do nothing.
//!
//! # Known limits
//! A signal handler that interrupts a hook, and leaves by `siglongjmp`, leaves its thread marked as being in a hit: whoever detaches then waits for
//! that thread's end, as for a [consumer](crate::Consumer::hit) that is left so.
//!
//! Calls across two aligned words can't be switched under [`TextPolicy::Alias`](crate::TextPolicy); jumps can. Neither heeds `strict`: one aligned write switches them, and
//! `int3` would not survive a thread that blocks `SIGTRAP`. While such a call, or jump, is
//! active, its bytes don't tell one object from another that was loaded in its place with the same layout: until the next operation, the
//! one's hits count as the other's.
//!
//! A compiler may let two inlined functions share one call of the exit hook, with different arguments. The site is then the one's that reached it first; while that is
//! active, its stub tells the other's hits apart, and the hook delivers them: all of them, if its probe is attached. From then on the call is known for
//! a shared one, and is a real call for good ([`Reason::Shared`]). Until then, while it is latent, the other's hits are not seen. `-fno-crossjumping` forbids such calls.
//!
//! A program's own `memcpy`, `memmove`, `memset`, `memcmp`, `__errno_location`, `syscall`, `pthread_setcancelstate` and `pthread_setspecific` must not be
//! instrumented (`no_instrument_function`): the hooks are made of them. Its own `mmap`, `open`, `sigaction` and the like may be.
//!
//! On targets without patching the hooks do nothing, and nothing is discovered.

#[cfg(probe_discovers)]
mod absorbed;
#[cfg(probe_discovers)]
mod call;
#[cfg(probe_discovers)]
mod callback;
#[cfg(probe_discovers)]
mod chunk;
#[cfg(probe_discovers)]
mod counters;
#[cfg(probe_discovers)]
mod discovery;
#[cfg(probe_discovers)]
mod extents;
#[cfg(probe_discovers)]
mod fast;
#[cfg(probe_discovers)]
mod first;
#[cfg(probe_discovers)]
mod growing;
#[cfg(probe_discovers)]
mod hooks;
#[cfg(probe_discovers)]
mod jumps;
#[cfg(probe_discovers)]
mod live;
#[cfg(probe_discovers)]
mod loaded;
#[cfg(probe_discovers)]
mod naming;
#[cfg(probe_discovers)]
mod news;
#[cfg(probe_discovers)]
mod policy;
mod reason;
#[cfg(probe_discovers)]
mod shared;
mod stats;
#[cfg(probe_discovers)]
mod straddlers;
#[cfg(probe_discovers)]
mod switch;
#[cfg(probe_discovers)]
mod symbols;
#[cfg(probe_discovers)]
mod table;
#[cfg(probe_discovers)]
mod tails;
#[cfg(probe_discovers)]
mod vanished;
#[cfg(probe_discovers)]
mod waiting;

#[cfg(not(probe_discovers))]
mod idle;
#[cfg(not(probe_discovers))]
use idle as live;

pub use live::{Attachment, Discovered, attach, kept, on_discovery, start, stats, stop_telling, text};
pub use reason::{Kept, Reason};
pub use stats::Stats;

#[cfg(probe_discovers)]
pub(crate) use {
    absorbed::{Absorbed, absorb, absorb_new},
    discovery::{Discovery, Wanted},
    growing::{Growing, begin, end, is_growing, pause, take_tally},
    live::get_ready,
    loaded::Loaded,
    naming::Names,
    news::{News, has_news, note_all, take_news},
    straddlers::switch_each,
    vanished::{Taken, Vanished},
    waiting::patch_waiting,
};
