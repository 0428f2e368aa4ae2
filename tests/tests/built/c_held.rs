//! Intervals between calls of C functions that nobody annotated, by arguments and results, are as
//! many as the program says.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ffi::c_void;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use probe_build::Sites;
use probe_runtime::{Aggregate, probes, select};
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::instrumented;
use probe_tests::library::Library;

/// Functions of each build are the same probes, so one is loaded at a time.
static TURN: Mutex<()> = Mutex::new(());

fn play(library: &Library) -> Vec<u64> {
    // SAFETY: functions of these types.
    unsafe {
        mem::transmute::<*mut c_void, extern "C" fn()>(library.symbol("held_play"))();
        let count: extern "C" fn(i32) -> i32 = mem::transmute(library.symbol("held_count"));
        (0..3).map(|lock| count(lock).try_into().unwrap()).collect()
    }
}

fn check(library: &Library, name: &str) {
    let before = play(library);
    let text = "until(give) by(lock, caller)";
    let held = Aggregate::new(text).unwrap().only_if("ret != 0".parse().unwrap());
    let held = select("@held.c, !held_*").unwrap().attach(held).unwrap();
    let after = play(library);
    let groups = held.groups();
    let count = |lock: usize| groups.get(&[&lock.to_string(), "held_play"]).map_or(0, |it| it.count());
    let expected: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!((0..3).map(count).collect::<Vec<_>>(), expected, "{name}: {groups}");
    assert_eq!(expected.iter().sum::<u64>(), 120);
    let open = groups.get(&["3", "held_play"]).unwrap();
    assert_eq!((open.count(), open.open().len()), (0, 1), "{name}");
    assert_eq!(groups.notes(), [""; 0], "{name}");
}

#[test]
fn sites_measure_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for flags in ["-g -O0", "-g -O2"] {
            let recipe = Recipe::new(compiler, Language::C, Sites::EntryReturn, flags).files(&["held.c"]);
            let library = Library::open(&recipe.build(env!("CARGO_TARGET_TMPDIR")).0);
            check(&library, &recipe.name());
            library.close();
        }
    }
}

#[test]
fn hooks_measure_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/c/held.c"));
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for level in ["-O0", "-O2"] {
            let hooked = instrumented::folder("held").join("hooked.so");
            let flags = ["-g", level, "-DHOOKED", "-finstrument-functions", "-shared", "-fPIC"];
            instrumented::build(compiler.program(Language::C), source, &hooked, &flags);
            let library = Library::open(&hooked);
            // Calls of hooks are discovered by their first hits.
            (0..2).for_each(|_| _ = play(&library));
            assert!(!probes().is_empty());
            check(&library, &format!("{compiler:?} {level}"));
            library.close();
        }
    }
}
