//! Sanitizers check the functions while sites are active beneath them; their runtime comes first in
//! the child.
//!
//! Their own code is in the functions, before and after each access; the sites lie where they lie
//! without it, and count the same. A slice has one language of one compiler for each sanitizer.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use probe_build::Sites;
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::whole;

use super::{play_all, reference};

#[test]
fn undefined_behaviour() {
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        let flags = "-O1 -g -fsanitize=undefined -fsanitize-undefined-trap-on-error";
        let without = match compiler {
            Compiler::Gcc => "",
            // With it, clang 14 makes no object of a coroutine, with or without sites.
            Compiler::Clang => "-fno-sanitize=function",
        };
        for (language, flags) in [(Language::C, flags), (Language::Cpp, &format!("{flags} {without}"))] {
            if is_played(compiler, language, (Compiler::Gcc, Language::C)) {
                with_both(compiler, language, flags, &[]);
            }
        }
    }
}

#[test]
fn addresses() {
    let options = "detect_leaks=0:verify_asan_link_order=0:detect_stack_use_after_return=0:handle_segv=0";
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        let (runtime, flags) = match compiler {
            Compiler::Gcc => ("libasan.so", "-O1 -g -fsanitize=address"),
            Compiler::Clang => ("libclang_rt.asan-x86_64.so", "-O1 -g -fsanitize=address -shared-libsan"),
        };
        let languages = [Language::C, Language::Cpp];
        for language in
            languages.into_iter().filter(|it| is_played(compiler, *it, (Compiler::Clang, Language::Cpp)))
        {
            let Some(first) = runtime_of(compiler, language, runtime) else { continue };
            let variables = vec![("LD_PRELOAD", first), ("ASAN_OPTIONS", options.into())];
            with_both(compiler, language, flags, &variables);
        }
    }
}

/// In Rust code, the sanitizer's runtime sees only the functions that it intercepts, not the
/// atomics that order them. So an option tells it to ignore their accesses.
#[test]
fn races() {
    let options =
        "report_signal_unsafe=0:handle_segv=0:ignore_interceptors_accesses=1:exitcode=66:halt_on_error=1";
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        let languages = [Language::C, Language::Cpp];
        for language in
            languages.into_iter().filter(|it| is_played(compiler, *it, (Compiler::Gcc, Language::C)))
        {
            // Code of either compiler calls the same functions, and the shared one of clang 14
            // crashes on kernels of today, in an empty program, too.
            let Some(first) = runtime_of(Compiler::Gcc, language, "libtsan.so") else { continue };
            let variables = vec![("LD_PRELOAD", first), ("TSAN_OPTIONS", options.into())];
            with_both(compiler, language, "-O1 -g -fsanitize=thread", &variables);
        }
    }
}

/// Whether a compiler plays a language: each is played, and in a slice this one, or gcc's C if
/// there is no clang.
fn is_played(compiler: Compiler, language: Language, slice: (Compiler, Language)) -> bool {
    let slice = if slice.0.is_there() { slice } else { (Compiler::Gcc, Language::C) };
    whole::is_asked_for() || (compiler, language) == slice
}

/// Plays both strategies, or one for each language in a slice, with further variables.
fn with_both(compiler: Compiler, language: Language, flags: &str, variables: &[(&str, OsString)]) {
    let root = env!("CARGO_TARGET_TMPDIR");
    let notes = reference::of(compiler, language, root);
    let strategies: &[Sites] = match language {
        _ if whole::is_asked_for() => &[Sites::EntryReturn, Sites::InstrumentFunctions],
        Language::C => &[Sites::EntryReturn],
        Language::Cpp => &[Sites::InstrumentFunctions],
    };
    let recipes: Vec<_> =
        strategies.iter().map(|sites| Recipe::new(compiler, language, *sites, flags)).collect();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_os_str())).collect();
    play_all(recipes, root, &notes, &variables);
}

/// Returns a sanitizer's runtime, for preloading. Prints a message if it is not installed.
fn runtime_of(compiler: Compiler, language: Language, name: &str) -> Option<OsString> {
    let Some(runtime) = library(compiler, name) else {
        println!("skipped: {compiler:?} has no {name}");
        return None;
    };
    let mut first = runtime.into_os_string();
    if language == Language::Cpp {
        // It looks up the functions that throw when it is loaded, and this program has no C++.
        first.push(":");
        first.push(library(compiler, "libstdc++.so.6").expect("a compiler of C++ has its library"));
    }
    Some(first)
}

/// A library of a compiler's, if it is installed.
fn library(compiler: Compiler, name: &str) -> Option<PathBuf> {
    let output =
        Command::new(compiler.program(Language::C)).arg(format!("-print-file-name={name}")).output().ok()?;
    let path = PathBuf::from(OsStr::new(String::from_utf8(output.stdout).ok()?.trim()));
    path.is_absolute().then_some(path)
}
