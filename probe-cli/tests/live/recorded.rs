//! Files of traces, read back after each end of programs in C: under `PROBES` with a preloaded
//! agent, and recorded through an agent that was preloaded or injected.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use probe_tests::{c_library, instrumented, perfetto};
use probe_trace::{Item, Trace};

use crate::preloaded::with_agent;
use crate::program::{Folder, Ran, run, signal, until};

/// Hits 4,000 times once it may, and ends in the way of its first argument.
const SOURCE: &str = r#"
#include <probe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
__attribute__((noinline)) void work(long x) { PROBE_I64("value", x); PROBE("bare"); }
int main(int count, char **arguments) {
    const char *way = arguments[1];
    if (!strcmp(way, "limit")) {
        struct rlimit limit = { 32 << 10, 32 << 10 };
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    if (count > 2) {
        fclose(fopen("ready", "w"));
        while (access(arguments[2], F_OK)) usleep(1000);
    }
    for (long x = 0; x < 2000; x++) work(x);
    if (!strcmp(way, "exit")) exit(0);
    if (!strcmp(way, "term")) for (raise(SIGTERM);;) pause();
    if (!strcmp(way, "abort")) abort();
    if (!strcmp(way, "exec")) execlp("true", "true", (char *)0);
    if (!strcmp(way, "close")) {
        for (int number = 3; number < 4096; number++) close(number);
        FILE *files[8];
        char name[] = "data0";
        for (int place = 0; place < 8; place++) {
            name[4] = '0' + place;
            files[place] = fopen(name, "w");
            fputs("mine", files[place]);
            fflush(files[place]);
        }
        for (long x = 0; x < 2000; x++) work(x);
    }
    if (!strcmp(way, "wait")) {
        fclose(fopen("done", "w"));
        pause();
    }
    return 0;
}
"#;

const SIGTERM: i32 = 15;

/// Compiles it into the folder.
fn compiled(folder: &Folder) -> PathBuf {
    let (source, out) = (folder.0.join("program.c"), folder.0.join("program"));
    fs::write(&source, SOURCE).unwrap();
    let said = c_library::run(instrumented::compilers()[0], &["-O1"], &[&source], &out);
    assert!(said.is_done, "{}", said.messages);
    out
}

/// Returns the number of a file's events, and of the lost ones that it tells; with its problems.
fn read(path: &Path) -> ([u64; 2], String) {
    let mut trace = Trace::open(&[path]).unwrap();
    let (problems, totals) = (trace.problems().join("\n"), trace.totals());
    let (mut events, mut lost) = (0, totals.map_or(0, |it| it.without_ring + it.nested));
    for item in trace.items() {
        match item.unwrap() {
            Item::Event(_) => events += 1,
            Item::Gap(gap) => lost += gap.lost,
            _ => (),
        }
    }
    ([events, lost], problems)
}

/// Returns the hits of points in a file for Perfetto.
fn instants(path: &Path) -> u64 {
    let events = perfetto::events(path);
    events.iter().filter(|it| it.kind == perfetto::INSTANT && !it.is_after_loss).count() as u64
}

fn data(folder: &Folder) -> Vec<String> {
    (0..8).map(|place| fs::read_to_string(folder.0.join(format!("data{place}"))).unwrap()).collect()
}

#[test]
fn a_preloaded_program_leaves_whole_files() {
    let folder = Folder::new("ended");
    let program = compiled(&folder);
    for (way, hits) in [("return", 4000), ("exit", 4000), ("term", 4000), ("close", 8000), ("limit", 4000)] {
        for ending in ["probetrace", "pftrace"] {
            let at = folder.0.join(format!("{way}-{ending}"));
            fs::create_dir(&at).unwrap();
            let mut command = with_agent(&folder, &["run", "--"]);
            command.arg(&program).arg(way).current_dir(&at);
            command.env("PROBES", format!("**=trace(file=run-%p.{ending})"));
            let output = command.output().unwrap();
            let signal = (way == "term").then_some(SIGTERM);
            assert_eq!(output.status.signal(), signal, "{way}: {output:?}");
            assert!(signal.is_some() || output.status.success(), "{way}: {output:?}");
            let stderr = String::from_utf8_lossy(&output.stderr);
            let names = fs::read_dir(&at).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap());
            let names: Vec<_> = names.filter(|name| name.starts_with("run-")).collect();
            let [name] = &names[..] else { panic!("{way}: {names:?} {stderr}") };
            assert!(!name.contains('%'), "{name}");
            if way == "limit" {
                assert!(stderr.contains("File too large"), "{stderr}");
            }
            let path = at.join(name);
            if ending == "pftrace" {
                let events = instants(&path);
                assert_eq!(events == hits, way != "limit", "{way}: {events} {stderr}");
                assert!(stderr.contains(&format!("{events} events of 1 thread, and {} lost", hits - events)));
            } else {
                let ([events, lost], problems) = read(&path);
                assert_eq!(problems.is_empty(), way != "limit", "{way}: {problems}");
                assert_eq!((events + lost, lost == 0), (hits, way != "limit"), "{way}: {problems}");
                let said = format!("{events} events of 1 thread, and {lost} lost");
                assert!(stderr.contains(&said), "{way}: {said}: {stderr}");
            }
            if way == "close" {
                assert_eq!(data(&Folder(at)), ["mine"; 8]);
            }
        }
    }
}

/// Records a program that ends in this way, and reads the file.
fn recorded(folder: &Folder, program: &Path, (way, ending, is_injected): (&str, &str, bool)) {
    let at = folder.0.join(format!("{way}-{ending}"));
    fs::create_dir(&at).unwrap();
    let (out, go) = (at.join(format!("run.{ending}")), at.join("go"));
    let mut command = Command::new(program);
    if !is_injected {
        command = with_agent(folder, &["run", "--"]);
        command.arg(program);
    }
    command.arg(way).arg(&go).current_dir(&at).stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    until(|| at.join("ready").exists());
    let (pid, to) = (child.id().to_string(), out.display().to_string());
    let mut record = with_agent(folder, &["record", "-p", &pid, "**", "-o", &to]);
    let record = record.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program writes it from now on.
    let written = if ending == "pftrace" { at.join("run.pftrace.probetrace") } else { out.clone() };
    until(|| written.exists());
    fs::write(&go, "").unwrap();
    if way == "wait" {
        until(|| at.join("done").exists());
        signal("-INT", &record);
    } else {
        child.wait().unwrap();
    }
    let ran = Ran::from(record.wait_with_output().unwrap());
    let _ = child.kill();
    child.wait().unwrap();
    let shown = format!("{way}, {ending}: {ran:?}");
    assert_eq!(ran.code, Some(if way == "limit" { 3 } else { 0 }), "{shown}");
    assert_eq!(ran.err.contains("had no agent"), is_injected, "{shown}");
    if ending == "pftrace" {
        assert!(!written.exists(), "{shown}");
        assert_eq!(instants(&out) == 4000, way != "limit", "{shown}");
        return;
    }
    let ([events, lost], problems) = read(&out);
    match way {
        "limit" => assert!(events + lost == 4000 && lost != 0, "{shown} {problems}"),
        "abort" | "exec" => assert!(problems.contains("did not finish"), "{shown} {problems}"),
        _ => assert_eq!(([events, lost], &*problems), ([4000, 0], ""), "{shown}"),
    }
}

#[test]
fn a_recording_tells_how_it_ended() {
    let folder = Folder::new("recorded");
    let program = compiled(&folder);
    let injected = ["return", "exit", "wait", "limit", "abort", "exec"].map(|way| (way, "probetrace", true));
    let preloaded = ["exit", "wait", "limit"].map(|way| (way, "pftrace", false));
    // Bringing an agent to a program that sleeps may take a second.
    thread::scope(|scope| {
        for case in injected.into_iter().chain(preloaded) {
            let (folder, program) = (&folder, &program);
            scope.spawn(move || recorded(folder, program, case));
        }
    });
    let ran = run(&folder, &["record", "--help"]);
    assert!(ran.out.contains("--ring") && ran.out.contains("--limit"), "{ran:?}");
}
