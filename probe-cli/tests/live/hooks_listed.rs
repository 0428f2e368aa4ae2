//! The list of a file whose functions call the compiler's hooks is the list of the running program
//! that has an agent, however the program has got it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_tests::c_library::{self, makes};
use probe_tests::whole;
use serde_json::Value;

use crate::injected_into::{Target, done};
use crate::preloaded::{Served, output, with_agent};
use crate::program::{Folder, Ran, run};

/// Templates, lambdas, inlined functions of the C++ library, an exception's landing pad, a hidden
/// namespace, a virtual function, a function that ends in the exit hook, one with a table of jumps.
const PROGRAM: &str = r#"
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>
extern "C" long shared(long x);
namespace geo {
template <typename T> struct Stack {
    std::vector<T> items;
    void push(T item) { items.push_back(item); }
    T sum() const { T all{}; for (const T &item : items) all += item; return all; }
};
struct Shape { virtual ~Shape() = default; virtual double area() const = 0; };
struct Square : Shape { double side; explicit Square(double s) : side(s) {} double area() const override { return side * side; } };
}
namespace {
__attribute__((noinline)) void ends(long *x) { *x += 2; }
__attribute__((noinline)) long chosen(long x) {
    switch (x % 6) {
    case 0: return shared(x); case 1: ends(&x); break; case 2: return x ^ 3; case 3: ends(&x); return x;
    case 4: x = shared(x) + 7; break; default: x = 1; break;
    }
    return x * 3;
}
}
static long worked() {
    geo::Stack<long> longs;
    geo::Stack<double> doubles;
    auto add = [&](long x) { longs.push(chosen(x)); doubles.push(0.5); };
    std::function<void(long)> later = add;
    std::map<std::string, std::unique_ptr<geo::Shape>> shapes;
    for (long i = 0; i < 30; i++) later(i);
    shapes["square"] = std::make_unique<geo::Square>(2);
    try { std::string("short").at(99) = 'x'; } catch (const std::exception &error) { longs.push(error.what()[0] != 0); }
    return longs.sum() + static_cast<long>(doubles.sum() + shapes["square"]->area());
}
int main() {
    puts("ready");
    fflush(stdout);
    long sum = 0;
    char line[99];
    while (fgets(line, sizeof line, stdin)) sum += worked();
    puts("right");
    return sum < 0;
}
"#;

const LIBRARY: &str = "\
__attribute__((noinline)) static long inner(long x) { return x + 1; }
long shared(long x) { return inner(x) * 2; }
long never(long x) { return inner(x) + shared(x); }
";

/// Makes the program and its library.
fn made(folder: &Folder, make: c_library::Make, flags: &[&str]) -> (PathBuf, PathBuf) {
    let [source, shared] = [("program.cpp", PROGRAM), ("shared.c", LIBRARY)].map(|(name, text)| {
        let source = folder.0.join(name);
        fs::write(&source, text).unwrap();
        source
    });
    let (program, library) = (folder.0.join("program"), folder.0.join("libshared.so"));
    // Of inlined functions of the C++ library, clang tells the hooks addresses that nobody has.
    let hooks = [if make.cpp == "clang++" {
        "-finstrument-functions-after-inlining"
    } else {
        "-finstrument-functions"
    }];
    let compile = |compiler: &str, flags: &[&str], files: &[&Path], out: &Path| {
        let said = c_library::run(compiler, &[&hooks[..], flags].concat(), files, out);
        assert!(said.is_done, "{compiler} {flags:?}: {}", said.messages);
    };
    compile(make.c, &[flags, &["-shared", "-fPIC"]].concat(), &[&shared], &library);
    compile(make.cpp, &[&["-std=c++17"], flags].concat(), &[&source, &library], &program);
    (program, library)
}

/// Probes of a list without their states, and the numbers of their sites.
type Listed = BTreeMap<(String, String, String, u64), u64>;

/// Returns a list.
fn listed(folder: &Folder, of: &str) -> Listed {
    let document: Value = serde_json::from_str(&run(folder, &["--json", "list", of]).out).unwrap();
    let rows = document["rows"].as_array().unwrap().iter();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    let row = |row: &Value| {
        let key = (text(row, "probe"), text(row, "kind"), text(row, "file"), row["line"].as_u64().unwrap());
        (key, row["sites"].as_u64().unwrap())
    };
    let (many, listed) = (rows.clone().count(), rows.map(row).collect::<Listed>());
    assert_eq!(listed.len(), many, "each once");
    listed
}

/// How programs are built.
const FLAGS: [&[&str]; 5] = [
    &["-O0", "-g"],
    &["-O2", "-g"],
    &["-O3", "-g", "-fno-plt", "-Wl,-z,now"],
    &["-O1", "-g", "-no-pie", "-fno-pie"],
    &["-O2", "-s"],
];

#[test]
fn the_file_has_what_the_agent_has() {
    let folder = Folder::new("hooks-listed");
    for (at, make) in makes().into_iter().enumerate() {
        for (number, flags) in FLAGS.into_iter().enumerate() {
            // A slice has each set of flags by one compiler.
            if !whole::is_asked_for() && (at + number) % 2 != 0 {
                continue;
            }
            let case = format!("{} {flags:?}", make.cpp);
            let (program, library) = made(&folder, make, flags);
            let [mut files, of_library] =
                [&program, &library].map(|file| listed(&folder, file.to_str().unwrap()));
            assert!(
                files.len() > 10 && matches!(of_library.len(), 4 | 6),
                "{case}: {files:?} {of_library:?}"
            );
            files.extend(of_library);
            let is_same = |pid: &str, way: &str| {
                let live = listed(&folder, pid);
                let all = live.keys().chain(files.keys());
                let differing: Vec<_> = all.filter(|key| live.get(*key) != files.get(*key)).collect();
                assert!(differing.is_empty(), "{case} {way}: {differing:?}");
            };
            let mut served = Served::start(&folder, &[program.to_str().unwrap()]);
            is_same(&served.pid(), "run");
            assert_eq!(served.end(), Some(0));
            let mut target = Target::start(&folder, &mut Command::new(&program));
            if done(&folder, &["attach", "-p", &target.pid()]).is_some() {
                is_same(&target.pid(), "attach");
            }
            assert_eq!(target.end(), "right");
        }
    }
}

#[test]
fn a_spec_knows_functions_before_their_first_call() {
    let folder = Folder::new("hooks-known");
    let (program, library) = made(&folder, makes()[0], &["-O2", "-g"]);
    let report = folder.0.join("report.json");
    let mut command = with_agent(&folder, &["run", "--"]);
    command
        .arg(&program)
        .env("PROBES", "**=count")
        .env("PROBES_OUT", &report)
        .stdin(std::process::Stdio::null());
    let ran = Ran::from(output(&mut command));
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ready\nright\n"), "{ran:?}");
    let counted: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let rows = counted["rows"].as_array().unwrap().iter();
    let counted: BTreeSet<_> = rows
        .map(|row| (row["probe"].as_str().unwrap().to_owned(), row["kind"].as_str().unwrap().to_owned()))
        .collect();
    let files = [&program, &library].map(|file| listed(&folder, file.to_str().unwrap()));
    let expected: BTreeSet<_> =
        files.into_iter().flatten().map(|((probe, kind, ..), _)| (probe, kind)).collect();
    assert_eq!(counted, expected);
}
