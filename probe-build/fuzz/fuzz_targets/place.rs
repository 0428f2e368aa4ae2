//! Runs the assembly rewriter on any text. It rejects the text or places sites, and never panics;
//! apart from the sites, the output is the source.
#![no_main]
#![allow(dead_code, reason = "the rewriter is included as source: it is no public interface of probe-build")]

#[path = "../../src/asm/mod.rs"]
mod asm;
#[path = "../../src/outcome.rs"]
mod outcome;

pub use outcome::{Cause, Exclusion, Outcome, Reason, Sites};

libfuzzer_sys::fuzz_target!(|source: &str| {
    for compiler in [asm::Family::Gnu, asm::Family::Clang] {
        for sites in [Sites::EntryReturn, Sites::InstrumentFunctions, Sites::None] {
            for keep_debug in [true, false] {
                let request = asm::Request {
                    sites,
                    compiler,
                    keep_debug,
                    package: "",
                    folder: "",
                    wants: &|_| Ok(()),
                    without_hooks: &|| None,
                };
                let Ok(placed) = asm::place(source, &request) else { continue };
                if sites == Sites::EntryReturn && keep_debug && !source.contains(".Lprobe_") {
                    // All lines of the source are in the output, in order, except conditional tail
                    // calls.
                    let mut lines = placed.text.lines();
                    for line in source.lines().filter(|line| !line.trim_start().starts_with('j')) {
                        assert!(lines.any(|it| it == line), "{line:?} is lost");
                    }
                }
            }
        }
    }
});
