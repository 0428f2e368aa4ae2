//! Functions of C and C++ that any build has compiled with `-finstrument-functions`. Each becomes a
//! probe when it is first called.
//!
//! With that option, compilers call `__cyg_profile_func_enter` at each function's entry and
//! `__cyg_profile_func_exit` before its returns, also for inlined functions. This module has these
//! two functions, the *hooks*. ("Living on the edge", section 7.)
//!
//! ```no_run
//! use probe_runtime::{Count, finstrument, probes};
//!
//! finstrument::on_discovery(|found| {
//!     if !found.is_patched() {
//!         eprintln!("{found:?} stays a real call for now");
//!     }
//! });
//! // Counts from each function's first call on.
//! let calls = finstrument::attach(Count::new(), 10_000)?;
//! // … the program runs …
//! for probe in probes() {
//!     println!("{probe}"); // with names, files and lines
//! }
//! println!("{calls}");
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! # Life of a call
//! ```text
//!  call hook  ──first hit──▶  NOP5 (latent)  ◀──attach, drop──▶  CALL of its own stub (active)
//!                    └─────▶  a real call, delivered by a look-up: see `unpatched`
//!  jmp hook   ──operation──▶  ret         ◀──attach, drop──▶  the jump, delivered by the hook
//! ```
//! 1. A function that is never called costs nothing. Its bytes are the compiler's, and it is no
//!    probe, unless the program [looks ahead](look_ahead).
//! 2. The first hit takes a definition and a stub from memory near the text, and notes the call
//!    site.
//!    - Where text is open, that hit replaces the call at once. Where text is sealed, calls share
//!      the opening of their page: the eighth first hit on a page patches all of them, unless a
//!      call's second hit or an operation does so before.
//!    - The call becomes a NOP of five bytes. While an [attachment to all](attach) counts, it
//!      becomes a CALL of its stub. The stub checks that the hook was called for this function,
//!      loads the definition, and jumps. This takes the paper's optimised argument one step
//!      further: the call site itself tells the probe, and nothing is looked up any more.
//!    - A call through a pointer (`-fno-plt`) keeps its sixth byte as a prefix.
//!    - A call that lies across two aligned words stays the compiler's while it is active, and its
//!      hits are looked up. While latent it is a jump over itself, or a call of a `ret`.
//! 3. The next operation ([`probes`](crate::probes), [`select`](crate::select), [`attach`], …)
//!    gives each new call site its number and its name. The name is the function's symbol in the
//!    `.symtab` or `.dynsym` of its object, demangled, without parameters. File and line come from
//!    the debug information in the object's own file; without any, they are that file and 0
//!    ([names](#names)). From then on it is a probe like any other, an entry or an exit. Before the
//!    process's first operation ([`start`], say), call sites are noted and stay calls, since only
//!    an operation sets up patching.
//! 4. When an object is unloaded, its probes go. Functions of an object that is loaded in its place
//!    are discovered anew. A function with the same name, file and line is the same probe.
//!
//! A function that returns nothing often ends in a *jump* to the exit hook, which does not tell
//! where it came from. An operation decodes the function from its object's file, compares that with
//! memory, and makes each such jump a `ret` of one byte, since the hook would return to the
//! function's caller, too. While a consumer listens, it is the jump again. So after a program's
//! first round of work, one more operation ([`start`], say) makes these functions latent. A jump
//! that is not certain stays as it is ([`Reason::NotACall`]):
//! - a conditional jump, since no single byte makes it return where it would jump and continue
//!   where it would not,
//! - a function with jumps through tables,
//! - an argument on which not all paths agree,
//! - a function of a stripped object.
//!
//! # Context of hooks
//! Hooks may run anywhere: in signal handlers, in an allocator, before `main`, on a thread
//! that Rust does not know, and while this very thread holds this crate's locks. They allocate
//! nothing from the heap, wait for no other thread, and keep `errno`. They put off work that needs
//! more: the call stays a real call until a later hit or operation patches it, and its hits are
//! delivered meanwhile.
//!
//! After [`look_ahead`], hooks make no system calls while nothing is attached, and otherwise only
//! `mmap`, `gettid` and `prctl` at a thread's first hit. A thread that calls into an object which
//! was loaded after the last operation waits for the next one, if a thread looks for probes by
//! itself (under `PROBES`, and while a client of the agent has something attached). If no look
//! begins, it waits for 2·10⁹ ticks of the processor's counter, which is half a second to a second;
//! in all, for ten times as long. After it has waited in vain, no thread waits again before an
//! object has come.
//!
//! # Why it is safe
//! - The compiler expects a call there. So a callee may change the registers that calls may change,
//!   and nothing lives below the stack pointer.
//! - A call is replaced only if its bytes are one of three calls, and if it leads to the hook that
//!   has just been reached, perhaps through a linkage table. Any other bytes, such as foreign
//!   patches and breakpoints, fail the comparison.
//! - One aligned write switches it. The write covers the whole call if that lies in one word
//!   ([`patch`](crate::patch)), and otherwise one of its two words, as in
//!   [`patch::call`](crate::patch::call). A thread in the hook returns to the same instruction as
//!   ever.
//! - No `int3` is involved, unless an operation uses
//!   [`TextPolicy::Alias`](crate::patch::TextPolicy). A thread that blocks `SIGTRAP` would not
//!   survive one.
//! - Signals are blocked while a first hit changes anything. So no handler forks there, or leaves
//!   by `siglongjmp`.
//! - The text can't be unmapped while the hook runs, since the hook returns there.
//! - A published stub is executable and never writable. Memory of discoveries whose object is gone
//!   is used again only after every thread has left the hook that may have looked at them.
//!
//! # Cost
//! Figures `discovery` and `discovery/active`.
//! - A first hit takes some 2.0 µs where text is open, and 1.6 µs where it is sealed. Opening and
//!   sealing a page takes the kernel 5.3 µs; with its share of that, a first hit in sealed text
//!   takes 3.1 µs in the mean.
//! - A latent call is a NOP, and the instructions by which the compiler passes the arguments.
//! - An active call that lies in one word takes some 2.5 ns, the same as one of Rust's sites.
//! - An active call across two words (every other call is one) is a call of the hook again. The
//!   hook finds its definition in a small cache. Of thousands of such calls, some share a place in
//!   it: all but one of these are looked up each time, in 18 ns. After [`look_ahead`], the cache
//!   also has calls that stay real calls and that no consumer wants.
//! - A call site takes 500 bytes of memory.
//!
//! An operation looks at the call sites that were discovered, patched or put off since the last
//! one, and at its own probes. After one function's first call it takes 26 µs, however many are
//! known; most of that is opening pages and reading a name. Sites that came one by one join the
//! others once they are a quarter as many. With 30,000 call sites, an operation after objects were
//! loaded looks at these alone, in 39 µs. After objects were unloaded it looks at everything: 26
//! ms.
//!
//! # Names
//! Symbols and debug information are read from the file that was loaded. If it was stripped, they
//! are read from the separate file (`objcopy --only-keep-debug`): by the build's id below
//! `/usr/lib/debug`, by `.gnu_debuglink`, or from debuginfod's cache if `DEBUGINFOD_URLS` is set.
//! Nothing is fetched. For a function without debug information,
//! - the file is the object's, and the line 0, so that functions of two objects remain two;
//! - each of several functions with one name is `<name>::0x<offset in the object's file>`;
//! - a function without a symbol is `<the object's file name>::0x<offset>`.
//!
//! A compiler may hand the hook the address of a function that has replaced the running one: one of
//! the same name in another object, or an entry of the executable's linkage table. The probe is
//! then named by the place of its call, and belongs to the object there.
//!
//! # Linking
//! Objects that are linked into the program find the hooks there. Objects that are loaded at run
//! time find them only if the executable exports them, which those of Rust do not by themselves. In
//! `build.rs`:
//! `println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=__cyg_profile_func_*");`.
//! Otherwise they find the hooks of the C library, which do nothing, until [`redirect`] leads their
//! calls here.
//!
//! # Known limits
//! - A signal handler that interrupts a hook and leaves by `siglongjmp` leaves its thread marked as
//!   being in a hit. A thread that detaches then waits for that thread's end, as for a
//!   [consumer](crate::Consumer::hit) that a handler leaves in this way.
//! - Calls across two aligned words can't be switched under
//!   [`TextPolicy::Alias`](crate::patch::TextPolicy); jumps can. Neither heeds `strict`: one
//!   aligned write switches them, and a thread that blocks `SIGTRAP` would not survive an `int3`.
//!   While such a call or jump is active, its bytes are the same in another object that was loaded
//!   in its place with the same layout. Until the next operation, hits of the new object count as
//!   those of the old one.
//! - A compiler may let two inlined functions share one call of the exit hook, with different
//!   arguments. The site then belongs to the function that reached it first. While it is active,
//!   its stub tells the hits of the other function apart. The hook delivers these, all of them, if
//!   that function's probe is attached. From then on the call is known to be shared, and is a real
//!   call for good ([`Reason::Shared`]). Until then, while the site is latent, hits of the other
//!   function are not seen. [`look_ahead`] finds such calls before they run, so that none is a
//!   site. `-fno-crossjumping` forbids them.
//! - A program's own `memcpy`, `memmove`, `memset`, `memcmp`, `__errno_location`, `syscall`,
//!   `pthread_setcancelstate` and `pthread_setspecific` must not be instrumented
//!   (`no_instrument_function`), since the hooks call them. Its own `mmap`, `open`, `sigaction` and
//!   the like may be.
//! - On targets without patching the hooks do nothing, and nothing is discovered.

#[cfg(probe_discovers)]
mod discovery;
mod outcome;
#[cfg(not(probe_discovers))]
mod stub;

#[cfg(not(probe_discovers))]
use stub as discovery;

pub use discovery::{
    DiscoveryAttachment, HookCall, attach, look_ahead, on_discovery, redirect, start, stats,
    stop_redirecting, stop_telling, text_policy, unpatched,
};
#[cfg(probe_discovers)]
pub use outcome::{Reason, Redirected, Stats, Unpatched};
