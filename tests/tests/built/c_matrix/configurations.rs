//! Which flags are tried with which strategy.

use std::collections::BTreeSet;
use std::env;

use probe_build::Sites;
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::whole;

/// A slice of a choice of pairs, the whole choice, or everything with everything.
pub(super) fn of(compiler: Compiler, language: Language) -> Vec<Recipe> {
    let soak = env::var("PROBE_SOAK_C_MATRIX").ok();
    let strategies = [Sites::EntryReturn, Sites::InstrumentFunctions];
    let recipe = |sites, flags: &str| Recipe::new(compiler, language, sites, flags);
    if let Some(part) = soak {
        let levels = ["-O0", "-O1", "-O2", "-O3", "-Os"];
        let levels = levels.into_iter().filter(|level| part == "1" || part == *level);
        let product =
            strategies.into_iter().flat_map(|sites| levels.clone().map(move |level| (sites, level)));
        return product
            .flat_map(|(sites, level)| {
                more(compiler, language)
                    .into_iter()
                    .map(move |more| recipe(sites, &format!("{level} {more}")))
            })
            .collect();
    }
    chosen(compiler, language, whole::is_asked_for())
}

/// The choice of pairs. A slice of it has one language for each compiler, fewer pairs, and each of
/// their flags, with one of the strategies at least.
fn chosen(compiler: Compiler, language: Language, is_whole: bool) -> Vec<Recipe> {
    let is_c = language == Language::C;
    if !is_whole && is_c != (compiler == Compiler::Gcc) {
        return Vec::new();
    }
    let strategies = [Sites::EntryReturn, Sites::InstrumentFunctions];
    let recipe = |sites, flags: &str| Recipe::new(compiler, language, sites, flags);
    let (entry_return, hooks): (&[&str], &[&str]) = match language {
        Language::C if is_whole => (
            &[
                "-O0 -g",
                "-O1 -fcf-protection=full",
                "-O2 -fno-plt -ffunction-sections",
                "-O2 -g -mno-red-zone -fno-omit-frame-pointer",
                "-O3 -fno-asynchronous-unwind-tables -fcf-protection=none",
                "-Os -g -fcf-protection=full",
            ],
            &["-O0", "-O2 -g -fcf-protection=full", "-O3 -fno-plt", "-Os -mno-red-zone"],
        ),
        Language::C => (
            &[
                "-O0 -g",
                "-O3 -mno-red-zone -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none",
            ],
            &["-Os -fno-plt -ffunction-sections"],
        ),
        Language::Cpp if is_whole => (
            &["-O0", "-O2 -g -fcf-protection=full", "-O3 -fno-plt -ffunction-sections"],
            &["-O1 -g", "-O2 -fno-plt"],
        ),
        Language::Cpp => (&["-O2 -g -fcf-protection=full"], &["-O1 -g"]),
    };
    // Parts of functions in sections of their own, jumps from one into another; returns by way of a
    // thunk.
    let special: &[&str] = match compiler {
        Compiler::Clang => &["-O2 -fbasic-block-sections=all"],
        Compiler::Gcc => &["-O2 -mfunction-return=thunk -fcf-protection=none"],
    };
    // Handlers of exceptions that lie apart have hooks among them; jumps that return have tables
    // beside them.
    let special_hooks: &[&str] = match (compiler, language) {
        (Compiler::Clang, Language::Cpp) | (Compiler::Gcc, Language::C) if is_whole => special,
        _ => &[],
    };
    let with = |sites, flags: &[&str]| flags.iter().map(|flags| recipe(sites, flags)).collect::<Vec<_>>();
    [
        with(strategies[0], entry_return),
        with(strategies[0], special),
        with(strategies[1], hooks),
        with(strategies[1], special_hooks),
    ]
    .concat()
}

#[test]
fn a_slice_has_each_flag() {
    let flags = |is_whole| -> BTreeSet<&str> {
        let of = |it| [Language::C, Language::Cpp].map(|language| chosen(it, language, is_whole)).concat();
        let recipes = Compiler::ALL.into_iter().flat_map(of);
        recipes.flat_map(|recipe| recipe.flags).collect()
    };
    assert_eq!(flags(false), flags(true));
}

/// Flags that go with every level.
fn more(compiler: Compiler, language: Language) -> Vec<&'static str> {
    let mut flags = vec![
        "",
        "-g",
        "-g3 -gdwarf-4",
        "-fcf-protection=full",
        "-fcf-protection=none",
        "-fno-plt",
        "-ffunction-sections -fdata-sections",
        "-mno-red-zone",
        "-fno-omit-frame-pointer",
        "-fstack-protector-all",
        "-fstack-clash-protection",
        "-mstackrealign",
        "-mavx2",
        "-fno-optimize-sibling-calls",
        "-fno-semantic-interposition",
        "-fno-jump-tables",
        "-funroll-loops",
    ];
    if language == Language::C {
        flags.extend(["-fno-asynchronous-unwind-tables", "-fexceptions"]);
    }
    match compiler {
        Compiler::Gcc => flags.extend([
            "-fno-reorder-blocks-and-partition",
            "-fno-ipa-ra",
            "-fira-hoist-pressure -fipa-pta",
            "-freorder-blocks-algorithm=stc",
            "-mindirect-branch=thunk",
            "-mfunction-return=thunk -fcf-protection=none",
            "-fno-dwarf2-cfi-asm",
            "-fverbose-asm",
        ]),
        Compiler::Clang => {
            flags.extend(["-mretpoline", "-faddrsig", "-gz=none", "-fbasic-block-sections=all"]);
        }
    }
    flags
}
