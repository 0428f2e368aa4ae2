//! Callers and stacks of C functions are those that the program's own tally has.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::{fs, mem};

use object::{Object, ObjectSymbol};
use probe_build::Sites;
use probe_runtime::{Aggregate, Attachment, Trace, probes, select, sleds};
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::folder::Folder;
use probe_tests::instrumented;
use probe_tests::library::Library;
use probe_tests::whole;
use probe_trace::{FieldValue, Item, Trace as Read};

/// Functions of each build are the same probes, so one is loaded at a time.
static TURN: Mutex<()> = Mutex::new(());

const ROOT: &str = env!("CARGO_TARGET_TMPDIR");

/// Stacks from the outermost caller inside of `callers`, with their calls.
type Tally = BTreeMap<String, u64>;

/// Makes all calls; returns the program's tally.
fn play(library: &Library) -> Tally {
    // SAFETY: functions of these types; the log ends with a NUL, and stays.
    let log = unsafe {
        mem::transmute::<*mut c_void, extern "C" fn()>(library.symbol("callers"))();
        let log: extern "C" fn() -> *const c_char = mem::transmute(library.symbol("callers_log"));
        CStr::from_ptr(log()).to_str().unwrap()
    };
    let parsed = |line: &str| {
        let (stack, calls) = line.rsplit_once(' ').unwrap();
        (stack.strip_suffix(";callee").unwrap().to_owned(), calls.parse().unwrap())
    };
    log.lines().map(parsed).collect()
}

/// Returns the calls of each caller.
fn by_caller(tally: &Tally) -> Tally {
    let mut callers = Tally::new();
    for (stack, calls) in tally {
        *callers.entry(stack.rsplit(';').next().unwrap().to_owned()).or_default() += calls;
    }
    callers
}

fn tally(attached: &Aggregate) -> Tally {
    attached.groups().iter().map(|group| (group.keys()[0].clone(), group.count())).collect()
}

/// Returns the stacks of a trace's hits.
fn traced(trace: &Attachment<Trace>) -> Tally {
    let folder = Folder::new("callers-traced");
    let path = folder.join("callers.probetrace");
    trace.snapshot(&path).unwrap();
    let mut tally = Tally::new();
    for item in Read::open(&[&path]).unwrap().items() {
        if let Item::Event(event) = item.unwrap()
            && let Some(stack @ FieldValue::Stack(_)) = event.fields.last()
        {
            *tally.entry(stack.to_string()).or_default() += 1;
        }
    }
    tally
}

/// Leaves out the callers of `callers`, and the way of a signal.
fn inside(stacks: &Tally) -> Tally {
    let mut inside = Tally::new();
    for (stack, calls) in stacks {
        let (_, stack) = stack.split_once("callers;").unwrap_or_else(|| panic!("{stack}"));
        let stack = match stack.split_once(";(signal);") {
            Some((before, after)) => format!("{};{after}", before.split(';').next().unwrap()),
            None => stack.to_owned(),
        };
        *inside.entry(stack).or_default() += calls;
    }
    inside
}

/// Compares callers and stacks with what the program says.
fn check(library: &Library, name: &str, has_exits: bool) {
    let attach = |text| select("callee").unwrap().attach(Aggregate::new(text).unwrap()).unwrap();
    let (callers, stacks) = (attach("count by(caller)"), attach("count by(stack)"));
    let timed = has_exits.then(|| attach("latency by(caller)"));
    let trace = select("callee").unwrap().attach(Trace::first().stacks()).unwrap();
    let expected = play(library);
    assert_eq!(tally(&callers), by_caller(&expected), "{name}");
    assert!(timed.is_none_or(|timed| tally(&timed) == by_caller(&expected)), "{name}");
    assert_eq!(inside(&tally(&stacks)), expected, "{name}");
    assert_eq!(stacks.groups().notes(), [""; 0]);
    assert_eq!(inside(&traced(&trace)), expected, "{name}: traced");
    drop(trace);
    if has_exits {
        let exits = select("callee kind=exit").unwrap();
        let callers = exits.attach(Aggregate::new("count by(caller)").unwrap()).unwrap();
        let stacks = exits.attach(Aggregate::new("count by(stack)").unwrap()).unwrap();
        assert_eq!(play(library), expected);
        assert_eq!(tally(&callers), by_caller(&expected), "{name}: exits");
        assert_eq!(inside(&tally(&stacks)), expected, "{name}: exits");
    }
}

fn flags() -> Vec<String> {
    let levels: &[&str] =
        if whole::is_asked_for() { &["-O0", "-O1", "-O2", "-O3", "-Os", "-Og"] } else { &["-O0", "-O2"] };
    let with_and_without = ["-fomit-frame-pointer", "-fno-omit-frame-pointer"];
    levels.iter().flat_map(|level| with_and_without.map(|frames| format!("{level} {frames}"))).collect()
}

#[test]
fn callers_are_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for flags in flags() {
            let recipe = Recipe::new(compiler, Language::C, Sites::EntryReturn, &flags).files(&["callers.c"]);
            let library = Library::open(&recipe.build(ROOT).0);
            check(&library, &recipe.name(), true);
            library.close();
        }
    }
}

#[test]
fn callers_at_hooks_are_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/c/callers.c"));
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for flags in flags() {
            let flags = format!("{flags} -DHOOKED");
            let recipe = Recipe::new(compiler, Language::C, Sites::InstrumentFunctions, &flags);
            let placed = recipe.files(&["callers.c"]).build(ROOT).0;
            let folder = instrumented::folder("callers");
            let hooked = folder.join("hooked.so");
            let flags: Vec<_> = flags.split(' ').chain(["-shared", "-fPIC"]).collect();
            instrumented::build(compiler.program(Language::C), source, &hooked, &flags);
            for path in [placed, hooked] {
                let library = Library::open(&path);
                // Calls of hooks are discovered by their first hits.
                (0..2).for_each(|_| _ = play(&library));
                assert!(!probes().is_empty());
                check(&library, &format!("{compiler:?} {flags:?} {}", path.display()), true);
                library.close();
            }
        }
    }
}

#[test]
fn callers_at_sleds_are_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for (compiler, flags, has_exits) in [
        (Compiler::Gcc, "-O2 -fpatchable-function-entry=5", false),
        (Compiler::Clang, "-O2 -fxray-instrument -fxray-instruction-threshold=1", true),
    ] {
        if compiler.is_there() {
            let recipe = Recipe::new(compiler, Language::C, Sites::None, flags).files(&["callers.c"]);
            let library = Library::open(&recipe.build(ROOT).0);
            sleds::look_ahead();
            check(&library, &recipe.name(), has_exits);
            library.close();
        }
    }
}

/// Puts the names of functions in the place of addresses in this file, which is loaded.
fn named(tally: Tally, path: &Path, library: &Library) -> Tally {
    let file = fs::read(path).unwrap();
    let file = object::File::parse(&*file).unwrap();
    let callee = file.symbols().find(|symbol| symbol.name() == Ok("callee")).unwrap().address();
    let base = library.symbol("callee").addr() as u64 - callee;
    let symbols = file.symbol_map();
    let name = |part: &str| match part.strip_prefix("0x") {
        Some(digits) => {
            let addr = u64::from_str_radix(digits, 16).unwrap();
            symbols.containing(addr - base).unwrap().name().to_owned()
        }
        None => part.to_owned(),
    };
    let mut names = Tally::new();
    for (stack, calls) in tally {
        *names.entry(stack.split(';').map(name).collect::<Vec<_>>().join(";")).or_default() += calls;
    }
    names
}

/// The second library lies where the first one was, without a report in between.
#[test]
fn callers_in_a_library_that_was_built_anew() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let attach = |text| select("callee").unwrap().attach(Aggregate::new(text).unwrap()).unwrap();
    for sites in [Sites::EntryReturn, Sites::InstrumentFunctions] {
        let [framed, frameless] = ["-O0 -fno-omit-frame-pointer", "-O2 -fomit-frame-pointer"].map(|flags| {
            let flags =
                if sites == Sites::EntryReturn { flags.to_owned() } else { format!("{flags} -DHOOKED") };
            Recipe::new(Compiler::Gcc, Language::C, sites, &flags).files(&["callers.c"]).build(ROOT).0
        });
        for paths in [[&framed, &frameless], [&frameless, &framed]] {
            let [first, second] = paths.map(PathBuf::as_path);
            let library = Library::open(first);
            (0..2).for_each(|_| _ = play(&library));
            assert!(!probes().is_empty());
            let (callers, stacks) = (attach("count by(caller)"), attach("count by(stack)"));
            // Each thread has seen its rules.
            play(&library);
            (_, _) = (callers.reset(), stacks.reset());
            library.close();
            let library = Library::open(second);
            assert!(!probes().is_empty());
            let expected = play(&library);
            assert_eq!(
                named(tally(&callers), second, &library),
                by_caller(&expected),
                "{sites:?} {second:?}"
            );
            assert_eq!(inside(&named(tally(&stacks), second, &library)), expected, "{sites:?} {second:?}");
            library.close();
        }
    }
}

/// Builds a library whose functions call a function: `outer` calls `inner`, which has no
/// symbol once it is stripped.
fn caller(name: &str, flags: &[&str]) -> PathBuf {
    let folder = instrumented::folder(name);
    let text = "static __attribute__((noinline)) void inner(void (*call)(unsigned long)) {\n\
                call(1); __asm__ volatile(\"\" ::: \"memory\"); }\n\
                void outer(void (*call)(unsigned long)) { inner(call); inner(call);\n\
                __asm__ volatile(\"\" ::: \"memory\"); }\n";
    let (source, library) = (instrumented::source(&folder, "caller.c", text), folder.join("caller.so"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).args(flags);
    assert!(gcc.status().unwrap().success());
    library
}

/// A library whose code may lie where the other one's was: `other` calls `nested`.
fn other_caller(name: &str) -> PathBuf {
    let folder = instrumented::folder(name);
    let text = "static __attribute__((noinline)) void nested(void (*call)(unsigned long)) {\n\
                call(1); __asm__ volatile(\"\" ::: \"memory\"); }\n\
                void other(void (*call)(unsigned long)) { nested(call); nested(call);\n\
                __asm__ volatile(\"\" ::: \"memory\"); }\n";
    let (source, library) = (instrumented::source(&folder, "caller.c", text), folder.join("caller.so"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(source);
    assert!(gcc.status().unwrap().success());
    library
}

/// Once another library is in the place of a call's, nobody knows whose it was.
#[test]
fn traces_name_no_call_of_a_library_by_another_one() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let recipe = Recipe::new(Compiler::Gcc, Language::C, Sites::EntryReturn, "-O2").files(&["callers.c"]);
    let probed = Library::open(&recipe.build(ROOT).0);
    let (callee, select) = (probed.symbol("callee"), || select("callee kind=entry").unwrap());
    let paths = [caller("callers-one", &["-O2"]), other_caller("callers-other")];
    let folder = Folder::new("callers-other-trace");
    for is_flushed in [false, true] {
        let path = folder.join("callers.probetrace");
        let trace = select().attach(Trace::to_file(&path).callers()).unwrap();
        let mut places = Vec::new();
        for (path, function) in paths.iter().zip(["outer", "other"]) {
            let library = Library::open(path);
            places.push(library.symbol(function).addr());
            call_by(&library, function, callee);
            if is_flushed {
                trace.flush().unwrap();
            }
            library.close();
        }
        trace.finish().unwrap();
        let mut names = Vec::new();
        for item in Read::open(&[&path]).unwrap().items() {
            if let Item::Event(event) = item.unwrap() {
                names.extend(event.fields.last().map(ToString::to_string));
            }
        }
        assert_eq!(names.len(), 4);
        for (name, known) in names.iter().zip(["inner", "inner", "nested", "nested"]) {
            // Those of the first library could have names if nothing had come in its place.
            let is_right = name.starts_with("0x") || (is_flushed && places[0] != places[1] && name == known);
            assert!(is_right, "{names:?} {is_flushed} {places:x?}");
        }
    }
    probed.close();
}

/// Lets a library call `callee` twice.
fn call(library: &Library, callee: *mut c_void) {
    call_by(library, "outer", callee);
}

fn call_by(library: &Library, function: &str, callee: *mut c_void) {
    // SAFETY: a function of this type.
    unsafe { mem::transmute::<*mut c_void, extern "C" fn(*mut c_void)>(library.symbol(function))(callee) }
}

#[test]
fn callers_in_libraries_that_come_and_go() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let recipe = Recipe::new(Compiler::Gcc, Language::C, Sites::EntryReturn, "-O2").files(&["callers.c"]);
    let probed = Library::open(&recipe.build(ROOT).0);
    let callee = probed.symbol("callee");
    let attach = |text| select("callee").unwrap().attach(Aggregate::new(text).unwrap()).unwrap();
    let names = |attached: &Aggregate| tally(attached).into_keys().collect::<Vec<_>>();
    let plain = caller("callers-plain", &["-O2"]);

    // It comes after the attachment, and is gone after a report.
    let (callers, stacks) = (attach("count by(caller)"), attach("count by(stack)"));
    let library = Library::open(&plain);
    call(&library, callee);
    assert_eq!(names(&callers), ["inner"]);
    // Its unwind tables are known since the report.
    assert_eq!(names(&stacks), ["(unknown);inner"]);
    call(&library, callee);
    let known: Vec<_> = names(&stacks).into_iter().filter(|it| it.ends_with(";outer;inner")).collect();
    assert_eq!(known.len(), 1, "{stacks}");
    library.close();
    assert_eq!(tally(&callers), [("inner".to_owned(), 4)].into());

    // It was there, and is gone at the first report.
    let library = Library::open(&plain);
    let callers = attach("count by(caller)");
    call(&library, callee);
    library.close();
    let [name] = &names(&callers)[..] else { panic!("{callers}") };
    assert!(name.starts_with("caller.so+0x1"), "{name}");

    // Nobody has seen it.
    let callers = attach("count by(caller)");
    let library = Library::open(&plain);
    call(&library, callee);
    library.close();
    let [name] = &names(&callers)[..] else { panic!("{callers}") };
    assert!(name.starts_with("0x"), "{name}");

    // Without symbols, and without unwind tables.
    let stripped = caller("callers-stripped", &["-O2", "-s"]);
    let untold = ["-O2", "-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"];
    for path in [stripped.clone(), caller("callers-untold", &untold)] {
        let library = Library::open(&path);
        let stacks = attach("count by(stack)");
        call(&library, callee);
        let [stack] = &names(&stacks)[..] else { panic!("{stacks}") };
        if path == stripped {
            let (stack, place) = stack.rsplit_once(';').unwrap();
            assert!(place.starts_with("caller.so+0x1"), "{place}");
            assert!(stack.ends_with("callers::call_by;outer"), "{stack}");
        } else {
            assert_eq!(stack, "(unknown);inner");
        }
        library.close();
    }
    probed.close();
}
