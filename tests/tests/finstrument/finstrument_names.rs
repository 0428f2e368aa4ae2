//! Names of discovered functions: C++ with templates, constructors, lambdas and exceptions; objects
//! without symbols; the dynamic symbol table alone.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::env;
use std::ffi::OsStr;
use std::process::Command;

use probe_runtime::{Count, Kind, finstrument};
use probe_tests::instrumented::{compilers, folder, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario;

const CPP: &str = "\
#include <cstdint>
#include <stdexcept>
namespace geo {
template <class T> struct Stack {
    T items[8]; int used = 0;
    Stack() : used(0) {}
    ~Stack() { used = -1; }
    void push(T item) { if (used == 8) throw std::length_error(\"full\"); items[used++] = item; }
};
}
static uint64_t fill(uint64_t n) {
    geo::Stack<int> stack;
    auto add = [&](uint64_t i) { stack.push((int)i); };
    for (uint64_t i = 0; i < n; i++) add(i);
    return stack.used;
}
extern \"C\" uint64_t run(uint64_t n) {
    try { return fill(n); } catch (const std::length_error &) { return 100; }
}
";

const C: &str = "\
#include <stdint.h>
__attribute__((noinline)) static uint64_t inner(uint64_t x) { return x + 1; }
uint64_t outer(uint64_t x) { return inner(x) * 2; }
";

/// The C library has a function of this name, and its address is what compilers tell the hooks.
const INLINED: &str = "\
extern inline __attribute__((gnu_inline)) int tolower(int x) {
    if (x < 0)
        x = -x;
    return x;
}
unsigned long far(unsigned long x) {
    return tolower(-(int)x) + 1;
}
";

#[test]
fn a_function_that_is_inlined_and_another_objects() {
    scenario::runs_in_a_child("scenario", "inlined");
}

#[test]
fn cpp_with_exceptions() {
    scenario::runs_in_a_child("scenario", "cpp");
}

#[test]
fn without_symbols() {
    scenario::runs_in_a_child("scenario", "stripped");
}

#[test]
fn symbols_in_separate_files() {
    scenario::runs_in_a_child("scenario", "separate");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "cpp" => cpp(),
        "stripped" => stripped(),
        "separate" => separate(),
        "inlined" => inlined(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn cpp() {
    let folder = folder("cpp");
    for compiler in ["g++", "clang++"] {
        if !Command::new(compiler).arg("--version").output().is_ok_and(|it| it.status.success()) {
            continue;
        }
        let file = source(&folder, &format!("{compiler}.cpp"), CPP);
        let flags = ["-O1", "-fno-inline", "-finstrument-functions-exclude-file-list=include"];
        let flags = if compiler == "g++" { &flags[..] } else { &flags[..2] };
        let library = Library::open(&shared(compiler, &file, &format!("{compiler}.so"), flags));
        let run = library.function("run");
        let calls = finstrument::attach(Count::new(), 1_000).unwrap();
        assert_eq!((run(3), run(8), run(9), run(9)), (3, 8, 100, 100));
        let counts = calls.counts();
        let said = format!("{compiler}\n{counts}");
        let hits = |path: &str| (counts.hits(path, Kind::Entry), counts.hits(path, Kind::Exit));
        assert_eq!(hits("run"), (Some(4), Some(4)), "{said}");
        assert_eq!(hits("geo::Stack<int>::Stack"), (Some(4), Some(4)), "{said}");
        assert_eq!(hits("geo::Stack<int>::~Stack"), (Some(4), Some(4)), "{said}");
        // Functions left by an exception have an exit if the compiler calls the hook there, too.
        let (entries, exits) = hits("geo::Stack<int>::push");
        assert_eq!(entries, Some(3 + 8 + 9 + 9), "{said}");
        assert!([Some(27), Some(29)].contains(&exits), "{said}");
        assert_eq!(hits("fill").0, Some(4), "{said}");
        let lambda =
            counts.iter().find(|it| it.probe.path().starts_with("fill") && it.probe.path() != "fill");
        let lambda = lambda.unwrap_or_else(|| panic!("no lambda: {said}"));
        assert_eq!((lambda.hits, lambda.probe.line()), (29, 13), "{said}");
        assert!(counts.iter().all(|it| !it.probe.path().contains(' ')), "{said}");
        let line = |path: &str| counts.iter().find(|it| it.probe.path() == path).map(|it| it.probe.line());
        assert_eq!((line("run"), line("fill"), line("geo::Stack<int>::push")), (Some(17), Some(11), Some(8)));
        let of_file = counts.iter().find(|it| it.probe.path() == "run").unwrap();
        assert_eq!(of_file.probe.file(), file.to_str().unwrap());
        drop(calls);
        library.close();
    }
}

fn stripped() {
    let folder = folder("stripped");
    let file = source(&folder, "stripped.c", C);
    for (name, flags) in
        [("dynamic.so", &["-O1", "-g0", "-s"][..]), ("none.so", &["-O1", "-g0", "-s", "-Wl,-Bsymbolic"])]
    {
        let path = shared("gcc", &file, name, flags);
        let library = Library::open(&path);
        let outer = library.function("outer");
        let calls = finstrument::attach(Count::new(), 100).unwrap();
        assert_eq!(outer(4), 10);
        let counts = calls.counts();
        let paths: Vec<_> = counts
            .iter()
            .map(|it| (it.probe.path(), it.probe.kind(), it.probe.line(), it.probe.file()))
            .collect();
        assert_eq!(paths.len(), 4, "{counts}");
        assert_eq!(counts.hits("outer", Kind::Entry), Some(1), "{counts}");
        // A function of the file's own is in no symbol table: it is called by where it is.
        let nameless: Vec<_> = paths.iter().filter(|it| it.0 != "outer").collect();
        assert!(nameless.iter().all(|it| it.0.starts_with(&format!("{name}::0x"))
            && it.2 == 0
            && it.3 == path.to_str().unwrap()));
        assert_eq!(nameless.len(), 2, "{counts}");
        drop(calls);
        library.close();
    }
}

/// Its entry and its exit are those of one function.
fn inlined() {
    let folder = folder("inlined");
    let file = source(&folder, "inlined.c", INLINED);
    // GCC makes no hook calls in such functions.
    let Some(clang) = compilers().into_iter().find(|it| it.contains("clang")) else { return };
    let library = Library::open(&shared(clang, &file, "inlined.so", &["-O2", "-g"]));
    let far = library.function("far");
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    assert_eq!((far(4), far(5)), (5, 6));
    let counts = calls.counts();
    let of = |kind| {
        let found = counts.iter().find(|it| it.probe.path() == "tolower" && it.probe.kind() == kind);
        found.map(|it| (it.hits, it.probe.file().to_owned(), it.probe.line()))
    };
    assert_eq!(of(Kind::Entry), Some((2, file.to_str().unwrap().to_owned(), 1)), "{counts}");
    assert_eq!(of(Kind::Exit), of(Kind::Entry), "{counts}");
    drop(calls);
    library.close();
}

/// Runs a tool, which has to succeed.
fn tool(name: &str, arguments: &[&dyn AsRef<OsStr>]) {
    let status = Command::new(name).args(arguments.iter().map(AsRef::as_ref)).status().unwrap();
    assert!(status.success(), "{name}");
}

/// Names and lines come from the file that `.gnu_debuglink` names, or that debuginfod has fetched
/// before; never from one of another build.
fn separate() {
    let folder = folder("separate");
    let cache = folder.join("cache");
    // SAFETY: this process has one thread.
    unsafe {
        env::set_var("DEBUGINFOD_URLS", "http://127.0.0.1:9");
        env::set_var("DEBUGINFOD_CACHE_PATH", &cache);
    }
    let file = source(&folder, "separate.c", C);
    let other = source(&folder, "other.c", &C.replace("x + 1", "x + 2"));
    let id = "0123456789abcdef0123456789abcdef01234567";
    let with_id: &str = &format!("-Wl,--build-id=0x{id}");
    // The place of the separate file, whether it is of this build, and the linker's flag.
    for (place, is_own, flag) in [
        ("beside.debug", true, "-Wl,--build-id=none"),
        (".debug/below.debug", true, with_id),
        ("cache/0123456789abcdef0123456789abcdef01234567/debuginfo", true, with_id),
        ("wrong.debug", false, "-Wl,--build-id=none"),
    ] {
        let name = format!("{}.so", place.replace(['/', '.'], "-"));
        let path = shared("gcc", &file, &name, &["-O1", "-g", flag]);
        let debug = folder.join(place);
        std::fs::create_dir_all(debug.parent().unwrap()).unwrap();
        tool("objcopy", &[&"--only-keep-debug", &path, &debug]);
        tool("strip", &[&path]);
        if !place.starts_with("cache/") {
            let link = format!("--add-gnu-debuglink={}", debug.display());
            tool("objcopy", &[&link, &path]);
        }
        if !is_own {
            let other = shared("gcc", &other, "other.so", &["-O1", "-g", flag]);
            tool("objcopy", &[&"--only-keep-debug", &other, &debug]);
        }
        let library = Library::open(&path);
        let outer = library.function("outer");
        let calls = finstrument::attach(Count::new(), 100).unwrap();
        assert_eq!(outer(4), 10);
        let counts = calls.counts();
        let mut entries: Vec<_> = (counts.iter().filter(|it| it.probe.kind() == Kind::Entry))
            .map(|it| (it.probe.path().to_owned(), it.probe.line(), it.hits))
            .collect();
        entries.sort();
        if is_own {
            assert_eq!(entries, [("inner".to_owned(), 2, 1), ("outer".to_owned(), 3, 1)], "{place}");
        } else {
            assert_eq!((entries.len(), &*entries[0].0, entries[0].1), (2, "outer", 0), "{counts}");
        }
        drop(calls);
        library.close();
    }
}
