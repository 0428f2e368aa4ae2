//! Counting from outside in programs that stop meanwhile, and whose libraries come and go.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_tests::{c_library, instrumented};
use serde_json::Value;

use crate::injected_into::{Target, asked, compiled, done, left_out};
use crate::outside::{code_of_no_file, counting, counting_until};
use crate::preloaded::differing;
use crate::program::{Folder, Ran, signal, words};

/// Returns the hits of each report.
fn reported(text: &str) -> Vec<u64> {
    let lines = words(text).into_iter().filter(|it| it.first() == Some(&"working"));
    lines.map(|it| it[3].parse().unwrap()).collect()
}

/// Threads that stand are read and led. Giving memory back needs one that runs.
#[test]
fn a_program_is_stopped_meanwhile() {
    let folder = Folder::new("outside-stopped");
    let program = compiled(&folder, &["-static", "-DSTATIC"]);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    let pid = target.pid();
    let mut counting = counting(&folder, &["count", "--ptrace", "-p", &pid, "**", "--every", "5ms"]);
    let mut out = BufReader::new(counting.stdout.take().unwrap());
    let mut text = String::new();
    if out.read_line(&mut text).unwrap() == 0 {
        return left_out(&counting.wait_with_output().unwrap().into());
    }
    target.stop();
    // Reports of before may be on their way.
    let (mut before, mut same) = (0, 0);
    while same < 50 {
        let mut line = String::new();
        assert_ne!(out.read_line(&mut line).unwrap(), 0);
        for hits in reported(&line) {
            same = if hits == before { same + 1 } else { 0 };
            before = hits;
        }
    }
    signal("-INT", &counting);
    out.read_to_string(&mut text).unwrap();
    let ran: Ran = counting.wait_with_output().unwrap().into();
    let error = format!(
        "error: no thread of process {pid} was in a place where it can be asked, for 10s; try again\n"
    );
    let lines = ran.err.strip_prefix(&error).unwrap_or_else(|| panic!("{ran:?}"));
    assert!(lines.lines().count() == 8 && lines.lines().all(|it| it.ends_with(" is stopped")), "{lines}");
    assert_eq!(ran.code, Some(3));
    // The last report has the hits of threads that stood in a stub, too.
    let last = *reported(&text).last().unwrap();
    assert!(before != 0 && (before..=before + 16).contains(&last), "{before}, {last}");
    assert_eq!((code_of_no_file(target.id()).len(), differing(target.id(), &program)), (1, 0));

    let commands = [&["disable", "--ptrace", "-p", &pid][..], &["count", "--ptrace", "-p", &pid, "**"]];
    for command in commands {
        let ran = asked(&folder, command);
        let error = "is stopped by a signal; let it go on first (kill -CONT)";
        assert_eq!((ran.code, ran.err), (Some(3), format!("error: process {pid} {error}\n")));
    }
    target.go_on();
    assert!(done(&folder, &["disable", "--ptrace", "-p", &pid]).is_some());
    assert_eq!((code_of_no_file(target.id()), differing(target.id(), &program)), (vec![], 0));
    target.is_running();
    assert_eq!(target.end(), "right");
}

/// A program with a probe, and a library with one, which it works with, closes and opens.
const SOURCE: &str = r#"
#include <dlfcn.h>
#include <probe.h>
#include <stdio.h>
#include <unistd.h>
#ifdef LIBRARY
unsigned long twice(unsigned long x) {
    PROBE_U64(LIBRARY, x);
    return 2 * x;
}
#else
__attribute__((noinline)) unsigned long work(unsigned long x) {
    PROBE_U64("own", x);
    return 3 * x + 1;
}
int main(int count, char **arguments) {
    int wrong = count != 3;
    void *library = dlopen(arguments[1], RTLD_NOW);
    void *place = dlsym(library, "twice");
    puts("ready");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) == 1; fflush(stdout)) {
        if (byte == 'w') {
            for (unsigned long x = 0; x < 7; x++) wrong |= work(x) != 3 * x + 1;
            unsigned long (*twice)(unsigned long) = 0;
            if (library) *(void **)&twice = dlsym(library, "twice");
            for (unsigned long x = 0; twice && x < 5; x++) wrong |= twice(x) != 2 * x;
            puts("done");
        } else if (byte == 'c') {
            wrong |= dlclose(library) != 0;
            library = 0;
            puts("closed");
        } else if (byte == 'o') {
            library = dlopen(arguments[2], RTLD_NOW);
            puts(dlsym(library, "twice") == place ? "same place" : "elsewhere");
        }
    }
    puts(wrong ? "wrong" : "right");
    return 0;
}
#endif
"#;

/// The files of the program, of its library, and of the library that takes the same place.
struct Files([PathBuf; 3]);

impl Files {
    fn new(folder: &Folder) -> Self {
        let source = folder.0.join("objects.c");
        fs::write(&source, SOURCE).unwrap();
        let library = ["-O1", "-shared", "-fPIC"];
        let compiled = [
            ("program", &["-O1"][..], "-ldl"),
            ("libfirst.so", &library, "-DLIBRARY=\"first\""),
            ("libother.so", &library, "-DLIBRARY=\"other\""),
        ];
        Self(compiled.map(|(name, flags, last)| {
            let out = folder.0.join(name);
            c_library::compile(instrumented::compilers()[0], &[flags, &[last]].concat(), &[&source], &out);
            out
        }))
    }

    fn start(&self, folder: &Folder) -> Target {
        let Self([program, first, other]) = self;
        Target::start(folder, Command::new(program).args([first, other]))
    }
}

/// Returns the path, the sites and the hits of each row.
fn rows(document: &str) -> Vec<(String, u64, u64)> {
    let document: Value = serde_json::from_str(document).unwrap();
    let row = |it: &Value| {
        let number = |name: &str| it[name].as_u64().unwrap();
        (it["probe"].as_str().unwrap().to_owned(), number("sites"), number("hits"))
    };
    document["rows"].as_array().unwrap().iter().map(row).collect()
}

fn expected(rows: &[(&str, u64)]) -> Vec<(String, u64, u64)> {
    rows.iter().map(|(path, hits)| ((*path).to_owned(), 1, *hits)).collect()
}

/// Checks that a program has no memory of counters, and that these files are in it as they are.
#[track_caller]
fn is_as_before(target: &mut Target, files: &[&Path]) {
    assert_eq!(code_of_no_file(target.id()), vec![]);
    files.iter().for_each(|it| assert_eq!(differing(target.id(), it), 0, "{}", it.display()));
    assert_eq!(target.asked(b'w'), "done");
    target.is_running();
    assert_eq!(target.end(), "right");
}

#[test]
fn a_program_and_its_library_are_counted() {
    let folder = Folder::new("outside-objects");
    let files = Files::new(&folder);
    let mut target = files.start(&folder);
    let pid = target.pid();
    if done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "**"]).is_none() {
        return;
    }
    assert_eq!(code_of_no_file(target.id()).len(), 2);
    assert_eq!(target.asked(b'w'), "done");
    let counted = done(&folder, &["--json", "status", "--ptrace", "-p", &pid]).unwrap();
    assert_eq!(rows(&counted), expected(&[("own", 7), ("first", 5)]));
    assert_eq!(target.asked(b'w'), "done");
    let counted = done(&folder, &["--json", "disable", "--ptrace", "-p", &pid]).unwrap();
    assert_eq!(rows(&counted), expected(&[("own", 14), ("first", 10)]));
    is_as_before(&mut target, &[&files.0[0], &files.0[1]]);
}

/// The command that counts knows the hits of a library that has gone. Nothing is written to the one
/// in its place.
#[test]
fn a_library_goes_meanwhile() {
    let folder = Folder::new("outside-unloaded");
    let files = Files::new(&folder);
    let [program, first, other] = &files.0;
    for is_replaced in [false, true] {
        let mut target = files.start(&folder);
        let command = ["--json", "count", "--ptrace", "-p", &target.pid(), "**"];
        let are_active = || [program, first].iter().all(|it| differing(target.id(), it) != 0);
        let Some(counting) = counting_until(&folder, &command, are_active) else { return };
        assert_eq!(target.asked(b'w'), "done");
        assert_eq!(target.asked(b'c'), "closed");
        let mut remaining = vec![program.as_path()];
        if is_replaced {
            assert_eq!(target.asked(b'o'), "same place");
            remaining.push(other);
        }
        assert_eq!(target.asked(b'w'), "done");
        signal("-INT", &counting);
        let ran: Ran = counting.wait_with_output().unwrap().into();
        assert_eq!((ran.code, ran.err.lines().count()), (Some(0), 1), "{ran:?}");
        assert!(ran.err.starts_with("note: all threads stood for "), "{ran:?}");
        assert_eq!(rows(&ran.out), expected(&[("own", 14), ("first", 5)]));
        is_as_before(&mut target, &remaining);
    }
}

/// A later command finds the sites that are there.
#[test]
fn another_library_takes_the_place_before_the_end() {
    let folder = Folder::new("outside-replaced");
    let files = Files::new(&folder);
    let [program, _, other] = &files.0;
    let mut target = files.start(&folder);
    let pid = target.pid();
    if done(&folder, &["enable", "--ptrace", "--keep", "-p", &pid, "**"]).is_none() {
        return;
    }
    assert_eq!(target.asked(b'w'), "done");
    assert_eq!((target.asked(b'c'), target.asked(b'o')), ("closed".to_owned(), "same place".to_owned()));
    assert_eq!((target.asked(b'w'), differing(target.id(), other)), ("done".to_owned(), 0));
    let counted = done(&folder, &["--json", "disable", "--ptrace", "-p", &pid]).unwrap();
    assert_eq!(rows(&counted), expected(&[("own", 14)]));
    is_as_before(&mut target, &[program, other]);
}
