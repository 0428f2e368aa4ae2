//! Latent probes in C and C++: a build-script helper on top of the [`cc`] crate.
//!
//! A crate that compiles C or C++ with cc gets probes in each of its functions, like those of
//! `#[probe]` in Rust code, by the name of another builder in its `build.rs`:
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
//! Nothing else changes: no line in the Rust code, none in the C code. A program that uses
//! `probe-runtime` lists these functions, and attaches to them, by the same selectors: `parse_*`,
//! `geo::Stack<int>::push`, `@parser.c:120`, `kind=exit`. Without it, nobody ever does, and the
//! program is what it was, but for the NOPs.
//!
//! # The life of a unit
//! ```text
//! parser.c ──▶ cc -S -g1 ──▶ place sites ──▶ assemble ──▶ parser.o ──▶ archive ──▶ cargo:rustc-link-lib
//!                 │               │              │
//!                 └───────────────┴──────────────┴─ something is in the way ──▶ cc -c ──▶ parser.o, plain, and a warning
//! ```
//! 1. [`cc`] says which compiler with which arguments; the compiler says, for an empty file, what
//!    it is and what for.
//! 2. The compiler makes assembly, with the line numbers that the probes' definitions need. If
//!    nobody asked for debug info, it is taken out again. The compiler's warnings are passed on.
//! 3. Each function is read, whole. At its entry and before each of its exits comes an aligned
//!    5-byte NOP, with a record in a section of its own that goes when the linker drops the
//!    function. What is not understood stays as it is, and is named.
//! 4. The compiler's driver assembles it, as it would have done itself. cc makes the archive and
//!    tells cargo.
//!
//! # What it costs
//! Building: the compiler runs as long as before; reading 8 MB of assembly and writing it again
//! takes a second, and GNU as takes longer the more functions a file has, with their square: for
//! SQLite's 1,600 a second more, for 10,000 in one file seven. With the feature `parallel`, as in
//! cc, files are compiled side by side, as many as cargo allows.
//!
//! [`Sites::InstrumentFunctions`] makes several times the code, of which each inlined function's
//! calls are sites: C++ of 123,000 sites in one file (64 MB of assembly) takes half a gigabyte, and
//! a third more than the compiler alone with that flag, though build scripts are not optimised.
//!
//! Running, while latent: [`Sites::EntryReturn`] costs a NOP at each end of a function: 1.02 of the
//! plain time for `SQLite`. [`Sites::InstrumentFunctions`] costs most where inlined functions are
//! tiny, since the compiler keeps a call's place for each: 1.9 of the plain time for `zstd` while
//! latent, 8 while all is counted.
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
//! Take the first, unless the functions in question are inlined and have to be seen one by one. A
//! function that is left by an exception, by `longjmp`, or by a call that never returns has an
//! entry's hit and none of an exit.
//!
//! # What has no sites, and why
//! - Functions from the system's headers (mostly instances of the standard library's templates),
//!   unless [`Build::system_headers`]; those that [`Build::exclude_functions`],
//!   [`Build::exclude_files`] and [`Build::min_instructions`] name.
//! - Functions that are written in assembly (`asm("…")` at file scope): what they return in flags,
//!   or expect to survive, is theirs to know.
//! - Functions that are not understood: naked ones (out of which hooks are taken again), inline
//!   assembly that returns, an indirect jump of which the compiler does not say whether it leaves
//!   the function; what returns in a way of its own (`-mlvi-cfi`,
//!   `-mfunction-return=thunk-inline`). Each is named in a warning, a handful for each file;
//!   [`Report`] has them all.
//! - Files that are not C or C++; code for targets other than x86-64 Linux with 64-bit pointers;
//!   what `-flto`, `-emit-llvm`, `-fsplit-stack`, `-gsplit-dwarf`, `-gstabs`, `-masm=intel`,
//!   `-mcmodel=medium` and `large` make; what compilers other than gcc and clang make. These are
//!   plain objects, as cc alone makes them, with a warning: [`PlainReason`].
//! - Everything, silently, in a build with `--cfg probe_off` or with this crate's feature `off`;
//!   with a warning, under `--cfg probe_portable`. The feature is for applications, beside
//!   `probe-runtime`'s of the same name: build scripts don't see that one.
//!
//! Sites never break a build: where anything about them fails, the object is the plain one. A
//! mistake in the C code is an error, told once, in the compiler's words.
//!
//! clang's `-finstrument-functions` makes references to members of `std::string` that no library
//! defines, so some C++ code does not link with [`Sites::InstrumentFunctions`] and clang, nor with
//! clang alone.
//!
//! # Elsewhere
//! Outside of build scripts, say what cargo would have said:
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
//! Probes by hand, inside a function, are in `probe.h`; [`Build`] finds it, and [`include()`] says
//! where it is.
#![deny(unsafe_code)]

mod asm;
mod build;
mod command;
mod console;
mod dialect;
mod error;
mod filter;
mod flags;
mod jobs;
mod names;
mod outcome;
mod plain;
mod report;
mod sites;
mod text;
mod unit;

use std::path::PathBuf;

pub use build::Build;
pub use error::Error;
pub use outcome::{Cause, Exclusion, Outcome, Reason};
pub use plain::PlainReason;
pub use report::{FileReport, FunctionReport, Report};
pub use sites::Sites;

/// The directory of `probe.h`.
///
/// [`Build`] searches it after all other directories; this is for other build tools.
///
/// ```
/// println!("cargo::metadata=include={}", probe_build::include().display());
/// ```
pub fn include() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
}
