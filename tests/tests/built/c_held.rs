//! Intervals between calls of C functions that nobody annotated, by arguments and results, are as
//! many as the program says.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ffi::c_void;
use std::mem;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use probe_build::Sites;
use probe_runtime::aggregate::Group;
use probe_runtime::{Aggregate, Attachment, Count, probes, select};
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

fn check(library: &Library, name: &str, knows_results: bool) {
    let before = play(library);
    let held = Aggregate::new("until(give) by(lock, caller)").unwrap();
    let held = if knows_results { held.only_if("ret != 0".parse().unwrap()) } else { held };
    let held = select("@held.c, !held_*").unwrap().attach(held).unwrap();
    let after = play(library);
    let groups = held.groups();
    let count = |lock: usize| groups.get(&[&lock.to_string(), "held_play"]).map_or(0, Group::count);
    let expected: Vec<_> = after.iter().zip(before).map(|(after, before)| after - before).collect();
    assert_eq!((0..3).map(count).collect::<Vec<_>>(), expected, "{name}: {groups}");
    assert_eq!(expected.iter().sum::<u64>(), if knows_results { 120 } else { 240 });
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
            check(&library, &recipe.name(), true);
            library.close();
        }
    }
}

#[test]
fn hooks_measure_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/c/held.c"));
    // clang's hooks are called where its debug information does not tell the arguments.
    let compiler = Compiler::Gcc;
    if compiler.is_there() {
        for level in ["-O0", "-O2"] {
            let hooked = instrumented::folder("held").join("hooked.so");
            let flags = [level, "-DHOOKED", "-shared", "-fPIC"];
            instrumented::build(compiler.program(Language::C), source, &hooked, &flags);
            let library = Library::open(&hooked);
            // Calls of hooks are discovered by their first hits.
            (0..2).for_each(|_| _ = play(&library));
            assert!(!probes().is_empty());
            check(&library, &format!("{compiler:?} {level}"), false);
            library.close();
        }
    }
}

/// A function that two libraries have is one, and the hits of both count.
#[test]
fn copies_of_a_function_count_together() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let recipe =
        |flags| Recipe::new(Compiler::Gcc, Language::C, Sites::EntryReturn, flags).files(&["held.c"]);
    let [one, other] =
        ["-g -O0", "-g -O2"].map(|flags| Library::open(&recipe(flags).build(env!("CARGO_TARGET_TMPDIR")).0));
    let attach = |text| select("take, give").unwrap().attach(Aggregate::new(text).unwrap()).unwrap();
    let by_lock = attach("count by(lock)");
    let large = select("give").unwrap().attach_if(&"lock > 0".parse().unwrap(), Count::new()).unwrap();
    let times = attach("latency by(lock)");
    for library in [&one, &other] {
        play(library);
    }
    let count = |of: &Attachment<Aggregate>, path: &str| {
        of.groups().iter().filter(|it| it.path() == path).map(Group::count).sum::<u64>()
    };
    assert_eq!([count(&by_lock, "take"), count(&by_lock, "give")], [602, 240], "{by_lock}");
    assert_eq!(count(&times, "give"), 240, "{times}");
    // Entries and exits.
    assert_eq!(large.total(), 2 * 160, "{large}");
    one.close();
    other.close();
}
