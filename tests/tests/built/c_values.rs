//! Arguments and results of C functions are what the program says itself.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;

use probe_build::Sites;
use probe_runtime::{Aggregate, Consumer, Count, Event, Trace, probes, select, sleds};
use probe_tests::c::{Compiler, Language, Recipe};
use probe_tests::folder::Folder;
use probe_tests::instrumented;
use probe_tests::library::Library;
use probe_tests::whole;
use probe_trace::Item;

/// Those that the program's log tells of.
const FUNCTIONS: &str = "@arguments.c, !arguments, !arguments_log, !line, !flags";

/// Functions of each build are the same probes, so one is loaded at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Writes each hit as the program's log has it: `path name=value …`.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Consumer for Log {
    fn hit(&self, event: &Event<'_>) {
        let mut line = event.path().to_owned();
        event.fields().for_each(|(name, value)| write!(line, " {name}={value}").unwrap());
        // An exit without a result has no line.
        if event.fields().count() != 0 {
            self.0.lock().unwrap().push(line);
        }
    }
}

/// Plays all calls; returns the program's log.
fn play(library: &Library) -> Vec<String> {
    // SAFETY: functions of these types; the log ends with a NUL, and stays.
    unsafe {
        std::mem::transmute::<*mut std::ffi::c_void, extern "C" fn()>(library.symbol("arguments"))();
        let log: extern "C" fn() -> *const c_char = std::mem::transmute(library.symbol("arguments_log"));
        CStr::from_ptr(log()).to_str().unwrap().lines().map(str::to_owned).collect()
    }
}

/// Before a call that is a jump, its exit precedes all that the other function does.
fn tails_last(lines: &[String]) -> Vec<String> {
    let (tails, others): (Vec<_>, Vec<_>) =
        lines.iter().cloned().partition(|line| line.starts_with("tail ret="));
    [others, tails].concat()
}

/// Returns how many values are absent although the program has them.
fn compare(found: &[String], expected: &[String], name: &str) -> usize {
    let (found, expected) = (tails_last(found), tails_last(expected));
    let mut absent = 0;
    for (found, expected) in found.iter().zip(&expected) {
        let (found_words, expected_words) = (found.split(' '), expected.split(' '));
        assert_eq!(
            found_words.clone().count(),
            expected_words.clone().count(),
            "{name}: {found}: {expected}"
        );
        for (one, other) in found_words.zip(expected_words) {
            // clang's callers pass nothing where a value is not used.
            let may_be_absent = ["local_", "tail", "unused a="].iter().any(|path| found.starts_with(path))
                || (found.starts_with("recursion") && one.starts_with("ret="));
            let is_absent = one.ends_with("=(absent)") && one != other;
            assert!(one == other || (is_absent && may_be_absent), "{name}: {found}: {expected}");
            absent += usize::from(is_absent);
        }
    }
    assert_eq!(found.len(), expected.len(), "{name}: {:?}", found.get(expected.len()));
    absent
}

fn levels() -> &'static [&'static str] {
    if whole::is_asked_for() { &["-O0", "-O1", "-O2", "-O3", "-Os", "-Og"] } else { &["-O0", "-O2", "-O3"] }
}

/// Builds the functions, and plays them with a log attached.
fn logged(compiler: Compiler, sites: Sites, flags: &str) -> (Vec<String>, Vec<String>, String) {
    let recipe = Recipe::new(compiler, Language::C, sites, flags).files(&["arguments.c"]);
    let path = recipe.build(env!("CARGO_TARGET_TMPDIR")).0;
    let library = Library::open(&path);
    let latent = play(&library);
    let log = select(FUNCTIONS).unwrap().c_values().attach(Log::default()).unwrap();
    let expected = play(&library);
    assert_eq!(latent, expected, "{}: values of the program change with hits", recipe.name());
    let found = std::mem::take(&mut *log.0.lock().unwrap());
    drop(log);
    library.close();
    (found, expected, recipe.name())
}

#[test]
fn values_are_what_the_program_says() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for level in levels() {
            let (found, expected, name) = logged(compiler, Sites::EntryReturn, &format!("-g {level}"));
            let absent = compare(&found, &expected, &name);
            println!("{name}: {absent} of {} lines' values are in no place that is known", expected.len());
            // Without optimisation, each value is where the calling convention puts it.
            assert!(*level != "-O0" || absent == 0, "{name}: {absent}");
        }
    }
}

/// Plays all calls with a log attached; returns its lines, and the program's own.
fn played(library: Library) -> (Vec<String>, Vec<String>) {
    // Calls of hooks are discovered by their first hits.
    (0..2).for_each(|_| _ = play(&library));
    let log = select(FUNCTIONS).unwrap().c_values().attach(Log::default()).unwrap();
    let expected = play(&library);
    let found = std::mem::take(&mut *log.0.lock().unwrap());
    drop(log);
    library.close();
    (found, expected)
}

/// Where hooks are called, debug information alone tells where arguments are, and nothing where
/// results are.
#[test]
fn at_calls_of_hooks_values_are_right_or_absent() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/c/arguments.c"));
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for level in levels() {
            let flags = format!("-g {level}");
            let recipe = Recipe::new(compiler, Language::C, Sites::InstrumentFunctions, &flags);
            let placed = recipe.files(&["arguments.c"]).build(env!("CARGO_TARGET_TMPDIR")).0;
            let folder = instrumented::folder(&format!("values{level}"));
            let hooked = folder.join("hooked.so");
            let flags = ["-shared", "-fPIC", level, "-Wno-psabi"];
            instrumented::build(compiler.program(Language::C), source, &hooked, &flags);
            let counts = [placed, hooked].map(|path| {
                let (found, expected) = played(Library::open(&path));
                let name = format!("{compiler:?} {level} {}", path.display());
                let mut read = 0;
                assert_eq!(found.len(), expected.len(), "{name}: {found:#?}");
                for (found, expected) in found.iter().zip(&expected) {
                    let (words, expected_words) = (found.split(' '), expected.split(' '));
                    for (one, other) in words.zip(expected_words) {
                        assert!(one == other || one.ends_with("=(absent)"), "{name}: {found}: {expected}");
                        read += usize::from(one == other && one.contains('='));
                    }
                }
                println!("{name}: {read} values of {} lines", expected.len());
                read
            });
            // The same code: sites in the place of the calls, or the calls.
            assert_eq!(counts[0], counts[1], "{compiler:?} {level}");
            // gcc keeps all that has a value in memory, clang what the function uses in registers.
            let least = if *level == "-O0" && compiler == Compiler::Gcc { 100 } else { 10 };
            assert!(counts[0] >= least, "{compiler:?} {level}: {counts:?}");
        }
    }
}

/// At sleds, values are as at the sites of `probe-build`: gcc's NOPs of one byte; LLVM's of 6, 8
/// and 16 bytes; XRay's.
#[test]
fn sleds_have_values() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let builds = [
        (Compiler::Gcc, "-fpatchable-function-entry=5", false),
        (Compiler::Clang, "-fxray-instrument -fxray-instruction-threshold=1", true),
        (Compiler::Clang, "-fcf-protection=full -fpatchable-function-entry=6", false),
        (Compiler::Clang, "-fpatchable-function-entry=8", false),
        (Compiler::Clang, "-fpatchable-function-entry=18,2", false),
    ];
    for (compiler, flags, has_exits) in builds.into_iter().filter(|(compiler, ..)| compiler.is_there()) {
        for level in ["-O0", "-O2"] {
            let recipe = Recipe::new(compiler, Language::C, Sites::None, &format!("-g {level} {flags}"));
            let library = Library::open(&recipe.files(&["arguments.c"]).build(env!("CARGO_TARGET_TMPDIR")).0);
            sleds::look_ahead();
            let log = select(FUNCTIONS).unwrap().c_values().attach(Log::default()).unwrap();
            let mut expected = play(&library);
            expected.retain(|line| has_exits || !line.contains(" ret="));
            let found = std::mem::take(&mut *log.0.lock().unwrap());
            drop(log);
            library.close();
            let name = format!("{compiler:?} {level} {flags}");
            if level == "-O0" {
                assert_eq!(compare(&found, &expected, &name), 0, "{name}");
                continue;
            }
            // clang describes some of a function's parameters by expressions.
            assert_eq!(found.len(), expected.len(), "{name}: {found:#?}");
            let (mut read, mut absent) = (0, 0);
            for (found, expected) in tails_last(&found).iter().zip(&tails_last(&expected)) {
                let pairs = found.split(' ').zip(expected.split(' ')).filter(|(word, _)| word.contains('='));
                for (word, expected_word) in pairs {
                    let is_it = word == expected_word;
                    assert!(is_it || word.ends_with("=(absent)"), "{name}: {found}: {expected}");
                    *if is_it { &mut read } else { &mut absent } += 1;
                }
            }
            println!("{name}: {read} values, {absent} absent");
            assert!(read > 2 * absent, "{name}: {read} {absent}");
        }
    }
}

/// One build, loaded.
fn loaded(flags: &str) -> Library {
    let recipe = Recipe::new(Compiler::Gcc, Language::C, Sites::EntryReturn, flags).files(&["arguments.c"]);
    Library::open(&recipe.build(env!("CARGO_TARGET_TMPDIR")).0)
}

/// Of a library that comes back as another build, and of one whose file was replaced, nobody knows
/// where values are.
#[test]
fn other_builds_have_no_values() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let [first, second] = ["-g -O0", "-g -O2"].map(|flags| {
        let recipe = Recipe::new(Compiler::Gcc, Language::C, Sites::EntryReturn, flags);
        recipe.files(&["arguments.c"]).build(env!("CARGO_TARGET_TMPDIR")).0
    });
    let attach = || select(FUNCTIONS).unwrap().c_values().attach(Log::default()).unwrap();
    let take = |log: &Log| std::mem::take(&mut *log.0.lock().unwrap());

    let library = Library::open(&first);
    let log = attach();
    let expected = play(&library);
    assert_eq!(take(&log), expected);
    library.close();
    let library = Library::open(&second);
    // An operation looks for objects.
    assert!(!probes().is_empty());
    play(&library);
    let found = take(&log);
    let is_absent = |line: &String| line.split(' ').skip(1).all(|word| word.ends_with("=(absent)"));
    assert!(!found.is_empty() && found.iter().all(is_absent), "{found:#?}");
    library.close();
    drop(log);

    let folder = Folder::new("c-values-replaced");
    let [path, new] = ["library.so", "new.so"].map(|name| folder.join(name));
    fs::copy(&second, &path).unwrap();
    let library = Library::open(&path);
    fs::copy(&first, &new).unwrap();
    fs::rename(&new, &path).unwrap();
    let log = attach();
    play(&library);
    assert_eq!(take(&log), [""; 0]);
    drop(log);
    library.close();
}

#[test]
fn predicates_and_keys_name_them() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = loaded("-g -O2");
    let count = |selector: &str, predicate: &str| {
        let set = select(selector).unwrap();
        let count = set.attach_if(&predicate.parse().unwrap(), Count::new()).unwrap();
        play(&library);
        count.total()
    };
    assert_eq!(count("integers kind=entry", "c > 5"), 3);
    assert_eq!(count("integers kind=entry", "c == 71 && e"), 1);
    assert_eq!(count("integers kind=entry", "d >= 9223372036854775808"), 2);
    assert_eq!(count("integers", "arg2 == 65535"), 2, "an entry and its exit");
    assert_eq!(count("integers", "ret < 0"), 0);
    assert_eq!(count("integers", "ret == 2147483647"), 2);
    assert_eq!(count("modes kind=entry", "mode == \"WRITE\""), 1);
    assert_eq!(count("modes kind=entry", "flags != \"LAST\""), 1, "a number is no text");
    assert_eq!(count("texts kind=entry", "a ~ \"fi*\""), 1);
    assert_eq!(count("floats, single", "a < 0"), 2);

    let groups = |selector: &str, aggregation: &str| {
        let groups = Aggregate::new(aggregation).unwrap();
        let groups = select(selector).unwrap().attach(groups).unwrap();
        play(&library);
        let groups = groups.groups();
        let mut groups: Vec<_> =
            groups.iter().map(|it| format!("{} {}", it.keys().join(" "), it.count())).collect();
        groups.sort();
        groups
    };
    assert_eq!(groups("recursion", "count by(depth)"), ["0 1", "1 1", "2 1", "3 1"]);
    assert_eq!(groups("recursion", "count by(arg1)"), ["0 1", "1 1", "2 1", "3 1"]);
    assert_eq!(groups("modes", "count by(ret)"), ["3 1", "CLOSED 1", "WRITE 1"]);
    assert_eq!(groups("modes", "count by(mode, flags)"), ["3 257 1", "CLOSED NONE 1", "WRITE LAST 1"]);
    assert_eq!(groups("truth", "count by(ret)"), ["false 1", "true 1"]);
    assert_eq!(groups("many", "sum(g) by(h)"), ["last 1"]);
    assert_eq!(groups("structs", "max(h) by(g)"), ["2.5 1"]);

    let error = |predicate: &str| {
        let set = select("structs").unwrap();
        set.attach_if(&predicate.parse().unwrap(), Count::new()).unwrap_err().to_string()
    };
    assert!(error("c > 5").contains("`c` can't be compared: it has no value"), "{}", error("c > 5"));
    assert!(error("z > 5").contains("`z` is not a field of any probe here"), "{}", error("z > 5"));
    library.close();
}

/// Functions of a class have their object as `this`.
#[test]
fn functions_of_a_class_have_this() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    for compiler in Compiler::ALL.into_iter().filter(|compiler| compiler.is_there()) {
        for level in levels() {
            let flags = format!("-g {level}");
            let recipe =
                Recipe::new(compiler, Language::Cpp, Sites::EntryReturn, &flags).files(&["members.cpp"]);
            let library = Library::open(&recipe.build(env!("CARGO_TARGET_TMPDIR")).0);
            let address = library.function("members_address");
            let [first, second] = [0, 1].map(|number| address(number));
            let groups = |selector: &str, aggregation: &str| {
                let groups = Aggregate::new(aggregation).unwrap();
                let groups = select(selector).unwrap().attach(groups).unwrap();
                library.function("members_play")(5);
                let groups = groups.groups();
                let mut groups: Vec<_> =
                    groups.iter().map(|it| format!("{} {}", it.keys().join(" "), it.sum())).collect();
                groups.sort();
                groups
            };
            let mut expected = [format!("{first} 6"), format!("{second} 4")];
            expected.sort();
            assert_eq!(
                groups("bank::Account::deposit", "sum(amount) by(this)"),
                expected,
                "{compiler:?} {level}"
            );
            let mut expected = [format!("z {first} 0"), format!("z {second} 0")];
            expected.sort();
            assert_eq!(
                groups("bank::Account::close", "count by(reason, this)"),
                expected,
                "{compiler:?} {level}"
            );
            let valid = groups("bank::Account::is_valid", "count by(number, ret)");
            let expected = ["0 false 0", "1 true 0", "2 true 0", "3 true 0", "4 true 0"];
            assert_eq!(valid, expected, "{compiler:?} {level}");
            library.close();
        }
    }
}

#[test]
fn without_debug_information_registers_are_asked_for_by_their_places() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = loaded("-O2");
    let groups = |selector: &str, aggregation: &str| {
        let groups = Aggregate::new(aggregation).unwrap();
        let groups = select(selector).unwrap().attach(groups).unwrap();
        play(&library);
        let groups = groups.groups();
        groups.iter().map(|it| format!("{} {}", it.keys().join(" "), it.count())).collect::<Vec<_>>()
    };
    assert_eq!(groups("many", "count by(arg1, arg6)"), ["1 6 1"]);
    assert_eq!(groups("recursion", "count by(ret)"), ["1 1", "2 1", "4 1", "8 1"]);
    library.close();
}

#[test]
fn each_consumer_has_its_own() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let library = loaded("-g -O2");
    let folder = Folder::new("c-values");
    let path = folder.join("args.probetrace");
    let set = select("many, integers").unwrap();
    // Together at the same sites: a count, all values, none, and those of a predicate. The first
    // hit of a thread takes a way of its own.
    let count = set.attach(Count::new()).unwrap();
    let log = set.clone().c_values().attach(Log::default()).unwrap();
    let plain = set.attach(Log::default()).unwrap();
    let some = set.attach_if(&"h == \"last\"".parse().unwrap(), Log::default()).unwrap();
    let trace = set.clone().c_values().attach(Trace::to_file(&path)).unwrap();
    let expected = thread::scope(|scope| scope.spawn(|| play(&library)).join().unwrap());
    trace.finish().unwrap();
    let expected: Vec<_> = expected
        .into_iter()
        .filter(|line| ["many", "integers"].iter().any(|it| line.starts_with(it)))
        .collect();
    assert_eq!(*log.0.lock().unwrap(), expected);
    assert_eq!(*plain.0.lock().unwrap(), [""; 0]);
    assert_eq!(*some.0.lock().unwrap(), ["many h=last"]);
    // The exit of `many` has no result, and no line.
    assert_eq!(count.total(), expected.len() as u64 + 1);
    let mut trace = probe_trace::Trace::open(&[&path]).unwrap();
    let mut traced = Vec::new();
    let items: Vec<_> = trace.items().map(Result::unwrap).collect();
    for item in items {
        let Item::Event(event) = item else { continue };
        let definition = &event.definition;
        let mut line = definition.path.clone();
        for (name, value) in definition.fields.iter().zip(&event.fields) {
            write!(line, " {name}={value}").unwrap();
        }
        traced.extend((!event.fields.is_empty()).then_some(line));
    }
    assert_eq!(traced, expected);
    drop((count, log, plain, some));
    library.close();
}
