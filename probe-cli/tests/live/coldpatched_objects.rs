//! Cold-patched objects in programs with a runtime: their own one, a preloaded one, or one that is
//! brought to them. Plugins join with the first look behind their load.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use probe_protocol::Client;
use probe_runtime::registry::discover_probes;
use probe_runtime::{Count, Kind, select_persistent};
use probe_tests::c_library;
use probe_tests::instrumented::compilers;
use probe_tests::library::Library;
use serde_json::Value;

use crate::coldpatched::{coldpatch, strip};
use crate::injected_into::{Target, done};
use crate::outside::counting;
use crate::preloaded::{agent, differing, with_agent};
use crate::program::{Folder, Ran, signal, until};

/// Compiles with calls of hooks.
fn compile(compiler: &str, flags: &[&str], source: &Path, text: &str, to: &Path) {
    fs::write(source, text).unwrap();
    let said = c_library::run(compiler, &[&["-g", "-finstrument-functions"], flags].concat(), &[source], to);
    assert!(said.is_done, "{}", said.messages);
}

fn ran(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Makes a library of two functions whose names begin with `name`, of which the first one calls
/// the second one twice: of a cold-patched object file, of an archive, or cold-patched itself.
fn library(folder: &Folder, compiler: &str, form: &str, name: &str) -> PathBuf {
    let at = |ending: &str| folder.0.join(name).with_extension(ending);
    let text = format!(
        "#define NAME(x) {name}_##x\n\
         unsigned long __attribute__((noinline)) NAME(once)(unsigned long x) {{ return 3 * x; }}\n\
         unsigned long NAME(twice)(unsigned long x) {{ return NAME(once)(x) + NAME(once)(x + 1); }}\n"
    );
    let (object, patched, library) = (at("o"), at("patched.o"), at("so"));
    compile(compiler, &["-O2", "-fPIC", "-c"], &at("c"), &text, &object);
    let link = |files: &[&Path]| {
        let whole = ["-Wl,--whole-archive"].iter().map(AsRef::as_ref).chain(files.iter().copied());
        let all = whole.chain(["-Wl,--no-whole-archive".as_ref()]);
        ran(Command::new(compiler).args(["-shared", "-o"]).arg(&library).args(all));
    };
    match form {
        "object" => {
            coldpatch(folder, &object, &patched, &[]);
            link(&[&patched]);
        }
        "archive" => {
            let archive = at("a");
            ran(Command::new("ar").arg("rcs").args([&archive, &object]));
            coldpatch(folder, &archive, &at("patched.a"), &[]);
            link(&[&at("patched.a")]);
        }
        _ => {
            link(&[&object]);
            coldpatch(folder, &library, &library, &["--force"]);
        }
    }
    library
}

/// This program has a runtime.
#[test]
fn a_runtime_arms_objects_that_are_cold_patched() {
    let folder = Folder::new("coldpatched-own");
    for (number, compiler) in compilers().into_iter().enumerate() {
        for form in ["object", "archive", "library", "stripped"] {
            let name = format!("cold{number}_{form}");
            let file = library(&folder, compiler, form, &name);
            if form == "stripped" {
                strip(&file);
            }
            let hits = select_persistent(&format!("{name}_*")).unwrap().attach(Count::new()).unwrap();
            let library = Library::open(&file);
            let twice = library.function(&format!("{name}_twice"));
            // Nobody has looked yet.
            assert_eq!((twice(1), hits.total()), (9, 0));
            discover_probes();
            (0..1000).for_each(|x| assert_eq!(twice(x), 6 * x + 3));
            let counts: Vec<_> = hits.counts().iter().map(|it| (it.probe.kind(), it.hits)).collect();
            let of = |kind| {
                let mut of_kind: Vec<_> = counts.iter().filter(|it| it.0 == kind).map(|it| it.1).collect();
                of_kind.sort_unstable();
                of_kind
            };
            assert_eq!((of(Kind::Entry), of(Kind::Exit)), (vec![1000, 2000], vec![1000, 2000]), "{name}");
            drop(hits);
            assert_eq!((twice(1), differing(std::process::id(), &file)), (9, 0), "{name}");
        }
    }
}

/// A program of C whose link names the agent's library, and cold-patched objects.
#[test]
fn a_program_that_links_the_agent_reports() {
    let folder = Folder::new("coldpatched-linked");
    let compiler = compilers()[0];
    let at = |name: &str| folder.0.join(name);
    compile(compiler, &["-O2", "-c"], &at("main.c"), HOST, &at("main.o"));
    coldpatch(&folder, &at("main.o"), &at("main.patched.o"), &[]);
    let agent = agent();
    let mut command = Command::new(compiler);
    command.args(["-rdynamic", "-o"]).arg(at("host")).arg(at("main.patched.o"));
    command
        .arg("-Wl,--no-as-needed")
        .arg(&agent)
        .arg(format!("-Wl,-rpath,{}", agent.parent().unwrap().display()));
    ran(&mut command);
    for is_stripped in [false, true] {
        if is_stripped {
            strip(&at("host"));
        }
        let report = at("report.json");
        let mut command = Command::new("env");
        command.arg("PROBES=**=count").arg(at("host")).env("PROBES_OUT", &report);
        let mut target = Target::start(&folder, &mut command);
        assert_eq!(target.asked(b'w'), "own=30 plugged=0");
        assert_eq!(target.end(), "right");
        let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
        assert_eq!(counts(&report["rows"]), [("main", 1), ("own", 30)].map(named).into());
    }
}

fn named((name, many): (&str, u64)) -> (String, u64) {
    (name.to_owned(), many)
}

/// Returns the entries of each function. It has as many exits, but for `main`, which has not ended.
#[track_caller]
fn counts(rows: &Value) -> BTreeMap<String, u64> {
    let mut hits = [const { BTreeMap::new() }; 2];
    for row in rows.as_array().unwrap() {
        let of_kind = &mut hits[usize::from(row["kind"] == "exit")];
        of_kind.insert(row["probe"].as_str().unwrap().to_owned(), row["hits"].as_u64().unwrap());
    }
    let [entries, mut exits] = hits;
    exits.entry("main".to_owned()).and_modify(|it| *it = entries["main"]);
    assert_eq!(entries, exits);
    entries
}

/// A program that loads a plugin when it is told to, and calls it.
const HOST: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
static volatile long owns, pluggeds;
__attribute__((noinline)) static long own(long x) { owns++; return x + 2; }
int main(int count, char **arguments)
{
    int wrong = 0;
    long (*plugged)(long) = 0;
    puts("ready");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) == 1; fflush(stdout)) {
        if (byte == 'o') {
            void *plugin = count > 1 ? dlopen(arguments[1], RTLD_NOW) : 0;
            if (plugin) *(void **)&plugged = dlsym(plugin, "plugged");
            puts(plugged ? "opened" : "failed");
            continue;
        }
        owns = pluggeds = 0;
        for (long x = 0; x < 30; x++) wrong |= own(x) != x + 2;
        for (long x = 0; plugged && x < 20; x++) wrong |= (pluggeds++, plugged(x)) != 2 * x + 1;
        printf("own=%ld plugged=%ld\n", owns, pluggeds);
    }
    puts(wrong ? "wrong" : "right");
    return 0;
}
"#;

const PLUGIN: &str = "\
__attribute__((noinline)) static long inner(long x) { return 2 * x; }
long plugged(long x) { return inner(x) + 1; }
";

/// Makes the program and its plugin, cold-patched.
fn host(folder: &Folder, compiler: &str, is_stripped: bool) -> [PathBuf; 2] {
    let at = |name: &str| folder.0.join(name);
    compile(compiler, &["-O2"], &at("host.c"), HOST, &at("host"));
    compile(compiler, &["-O2", "-shared", "-fPIC"], &at("plugin.c"), PLUGIN, &at("plugin.so"));
    let files = [at("host"), at("plugin.so")];
    for file in &files {
        coldpatch(folder, file, file, &["--force"]);
        if is_stripped {
            strip(file);
        }
    }
    files
}

/// Ends kept attachments. Returns the hits of each function that has some.
fn disabled(folder: &Folder, pid: &str) -> BTreeMap<String, u64> {
    let told = done(folder, &["--json", "disable", "-p", pid]).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    let mut all = counts(&told["rows"][0]["consumers"][0]["report"]["rows"]);
    all.retain(|_, hits| *hits != 0);
    all
}

/// By an agent that is preloaded, and by one that is brought to the program.
#[test]
fn an_agent_arms_programs_and_the_plugins_that_they_load() {
    for (number, compiler) in compilers().into_iter().enumerate() {
        for is_stripped in [false, true] {
            let folder = Folder::new("coldpatched-plugins");
            let [program, plugin] = host(&folder, compiler, is_stripped);
            let is_preloaded = (number == 0) == is_stripped;
            // The tool sets the variable that each of these tests removes.
            let mut command = Command::new("env");
            if is_preloaded {
                let run = with_agent(&folder, &["run", "--"]);
                command.arg("PROBE_AGENT=1").arg(run.get_program()).args(run.get_args());
                command.env("PROBE_AGENT_LIBRARY", agent());
            }
            let mut target = Target::start(&folder, command.args([&program, &plugin]));
            let pid = target.pid();
            assert_eq!(Client::connect(target.id()).is_ok(), is_preloaded);
            if done(&folder, &["enable", "--keep", "-p", &pid, "**=count"]).is_none() {
                continue;
            }
            assert_eq!(target.asked(b'w'), "own=30 plugged=0");
            // Any request looks for new objects.
            assert_eq!(target.asked(b'o'), "opened");
            done(&folder, &["status", "-p", &pid]).unwrap();
            assert_eq!(target.asked(b'w'), "own=30 plugged=20");
            let expected = [("inner", 20), ("own", 60), ("plugged", 20)].map(named).into();
            assert_eq!(disabled(&folder, &pid), expected, "{compiler} {is_stripped}");
            assert_eq!([&program, &plugin].map(|it| differing(target.id(), it)), [0, 0]);
            assert_eq!(target.end(), "right");
        }
    }
}

/// While a client is connected, the agent looks by itself.
#[test]
fn a_plugin_joins_a_measurement_that_runs() {
    let folder = Folder::new("coldpatched-joins");
    let [program, plugin] = host(&folder, compilers()[0], false);
    let mut target = Target::start(&folder, Command::new(&program).arg(&plugin));
    let pid = target.pid();
    if done(&folder, &["attach", "-p", &pid]).is_none() {
        return;
    }
    let counting = counting(&folder, &["--json", "count", "-p", &pid, "plugged, inner"]);
    until(|| done(&folder, &["status", "-p", &pid]).unwrap().contains("plugged, inner"));
    assert_eq!(target.asked(b'o'), "opened");
    // Three bytes of each of four sites at least.
    until(|| differing(target.id(), &plugin) >= 12);
    assert_eq!(target.asked(b'w'), "own=30 plugged=20");
    signal("-INT", &counting);
    let ran = Ran::from(counting.wait_with_output().unwrap());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    let expected = [("inner", 20), ("plugged", 20)].map(named).into();
    assert_eq!(counts(&report["rows"]), expected);
    assert_eq!(target.end(), "right");
}
