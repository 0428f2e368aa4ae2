//! Latent probes in C and C++: a build-script helper on top of the [`cc`] crate.
//!
//! With another builder in its `build.rs`, a crate that compiles C or C++ with cc gets probes in
//! each of its functions, like those of `#[probe]` in Rust code:
//!
//! ```no_run
//! probe_build::Build::new()                  // was: cc::Build::new()
//!     .file("src/parser.c")
//!     .file("src/scanner.cpp")
//!     .include("include")
//!     .exclude_functions("scan_char")        // called for each byte: nobody wants to know
//!     .min_instructions(8)
//!     .compile("parser");
//! ```
//!
//! ```toml
//! [build-dependencies]
//! probe-build = "0.1"
//! ```
//!
//! Nothing else changes in the Rust code or the C code. A program that uses `probe-runtime` lists
//! these functions, and attaches to them, with the same selectors: `parse_*`,
//! `geo::Stack<int>::push`, `@parser.c:120`, `kind=exit`. In a program without `probe-runtime`, the
//! probes stay NOPs for good.
//!
//! # The life of a unit
//! ```text
//! parser.c ──▶ cc -S -g1 ──▶ place sites ──▶ assemble ──▶ parser.o ──▶ archive ──▶ cargo:rustc-link-lib
//!                 │               │              │
//!                 └───────────────┴──────────────┴─ something is in the way ──▶ cc -c ──▶ parser.o, plain, and a warning
//! ```
//! 1. [`cc`] names the compiler and its arguments. The compiler preprocesses an empty file, which
//!    tells its family and its target.
//! 2. The compiler makes assembly, with the line numbers that the definitions of probes need. If
//!    the build did not ask for debug information, it is removed again. The compiler's warnings are
//!    passed on.
//! 3. Each function is read as a whole. An aligned 5-byte NOP is placed at its entry and before
//!    each of its exits. The record of a site lies in a section of its own, which the linker drops
//!    together with the function. A function that is not understood stays unchanged, and is named.
//! 4. The compiler's driver assembles the result, as it would assemble its own output. cc makes the
//!    archive and tells cargo.
//!
//! # Costs
//! Building: the compiler takes the same time as before. Reading and rewriting 8 MB of assembly
//! takes a second, and ten bytes of memory a byte. The assembler takes a tenth of a millisecond
//! more for each function. With the feature `parallel`, as in cc, files are compiled in parallel,
//! as many as cargo allows.
//!
//! [`Sites::InstrumentFunctions`] makes several times as much code, since the calls of each inlined
//! function are sites, too. C++ of 123,000 sites in one file (64 MB of assembly) takes half a
//! gigabyte. It takes a third longer than the compiler alone with that flag, though build scripts
//! are not optimised.
//!
//! Running, while latent: [`Sites::EntryReturn`] costs a NOP at each end of a function, 1.02 of the
//! plain time for `SQLite`. [`Sites::InstrumentFunctions`] costs most if inlined functions are
//! tiny, since the compiler treats each site as a call. `zstd` takes 1.9 of the plain time while
//! latent, and 8 while all calls are counted.
//!
//! # Which strategy
//! | | [`Sites::EntryReturn`] | [`Sites::InstrumentFunctions`] |
//! |---|---|---|
//! | the code | the compiler's own, untouched | compiled with `-finstrument-functions`, each call of a hook replaced by a NOP |
//! | inlined functions | are part of their callers | have sites |
//! | latent | 1.02 of the plain time (`SQLite`) | 1.22; 1.9 where inlined functions are tiny (`zstd`) |
//! | an active site | keeps all registers, vector state too | is a call that the compiler knows of: cheaper |
//! | left by exception or `longjmp` | no exit | an exception is an exit where the compiler makes it one |
//!
//! Take the first one, unless the functions in question are inlined and have to be seen one by one.
//! If an exception, `longjmp`, or a call that never returns leaves a function, its entry is hit and
//! none of its exits.
//!
//! # Code without sites
//! - Functions from the system's headers (mostly instances of the standard library's templates),
//!   unless [`Build::system_headers`] includes them. Functions that [`Build::exclude_functions`],
//!   [`Build::exclude_files`] and [`Build::min_instructions`] exclude.
//! - Functions that are written in assembly (`asm("…")` at file scope). Their results in
//!   flags and the registers that they expect to survive are unknown.
//! - Functions that are not understood: naked functions (from which hooks are removed again);
//!   inline assembly that returns; an indirect jump, if the compiler does not tell whether it
//!   leaves the function; returns of a special form (`-mlvi-cfi`,
//!   `-mfunction-return=thunk-inline`). Warnings name a handful of these for each file; [`Report`]
//!   has all of them.
//! - Files that are not C or C++; code for targets other than x86-64 Linux with 64-bit pointers;
//!   code with `-flto`, `-emit-llvm`, `-fsplit-stack`, `-gsplit-dwarf`, `-gstabs`, `-masm=intel`,
//!   `-mcmodel=medium` or `large`; code of compilers other than gcc and clang. These become plain
//!   objects, as cc alone makes them, with a warning: [`PlainReason`].
//! - All code, in a build with `--cfg probe_off` or with this crate's feature `off`, without a
//!   warning; under `--cfg probe_portable`, with a warning. The feature is for applications, in
//!   addition to `probe-runtime`'s feature of the same name, which build scripts don't see.
//!
//! Sites never break a build: if anything about them fails, the object is the plain one. A mistake
//! in the C code is an error, and is reported once, in the compiler's words.
//!
//! clang's `-finstrument-functions` makes references to members of `std::string` that no library
//! defines. So some C++ code does not link with [`Sites::InstrumentFunctions`] and clang; it does
//! not link with clang alone and that flag, either.
//!
//! # Elsewhere
//! Outside of build scripts, set the values that cargo would have set:
//!
//! ```no_run
//! # fn main() -> Result<(), probe_build::Error> {
//! let target = "x86_64-unknown-linux-gnu";
//! let mut build = probe_build::Build::new();
//! build.target(target).host(target).opt_level(2).out_dir("objects").cargo_metadata(false);
//! let (objects, report) = build.file("parser.c").try_compile_intermediates()?;
//! println!("{report}");
//! # Ok(())
//! # }
//! ```
//!
//! `probe.h` has probes to place by hand, inside a function. [`Build`] finds that header, and
//! [`include()`] tells where it is.
#![deny(unsafe_code)]

mod asm;
mod build;
mod command_line;
mod console;
mod dialect;
#[doc(hidden)]
pub mod driver;
mod error;
mod filter;
mod jobs;
mod outcome;
mod placing;
mod report;
mod section_names;
mod unit;

pub use build::{Build, include};
pub use error::Error;
pub use outcome::{Cause, Exclusion, Outcome, Reason, Sites};
pub use report::{FileReport, FunctionReport, PlainReason, Report};
