//! The example counts the words of its pages, and traces each step, in each format.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_off, probe_portable))))]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn scratch(ending: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{ending}.{ending}", std::process::id()))
}

fn run(to: &Path) -> (Output, Vec<u8>) {
    let output = Command::new(env!("CARGO_BIN_EXE_traced")).arg(to).output().unwrap();
    let trace = fs::read(to).unwrap_or_default();
    let _ = fs::remove_file(to);
    (output, trace)
}

/// Returns how often a text occurs.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn each_call_of_each_page_is_in_the_trace() {
    let path = scratch("json");
    let (output, trace) = run(&path);
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!((output.status.code(), stderr.as_str()), (Some(0), ""), "{stdout}");
    // A page is polled four times, composed in three parts, counted and merged; beside these calls,
    // there is a point for each page, and one call fetches them all.
    let events = 2 * (60 * (4 + 3 + 1 + 1) + 1) + 60;
    assert!(stdout.contains(&format!("{events} events, and 0 were lost: {}", path.display())), "{stdout}");
    let trace = String::from_utf8(trace).unwrap();
    assert_eq!(count(&trace, r#""ph":"i","name":"traced::words""#), 60);
    assert_eq!(count(&trace, r#""ph":"C","name":"traced::words""#), 60);
    assert_eq!(count(&trace, r#""name":"traced::count""#), 2 * 60);
    // One worker may find no page.
    let workers = (0..3).filter(|it| count(&trace, &format!(r#""name":"worker {it}""#)) == 1);
    assert!((1..=3).contains(&workers.count()), "{trace}");
    assert!(!path.with_extension("probetrace").exists());
}

#[test]
fn a_trace_for_perfetto_is_written_at_once() {
    let path = scratch("pftrace");
    let (output, trace) = run(&path);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let has = |text: &str| trace.windows(text.len()).any(|part| part == text.as_bytes());
    // Names of threads, of a future's track, and of a counter; the file of a source location.
    for text in ["fetcher", "traced::fetch", "traced::words known", "traced/src/main.rs"] {
        assert!(has(text), "{text}");
    }
    assert!(!path.with_extension("probetrace").exists());
}

#[test]
fn folded_stacks_have_the_calls_of_each_thread() {
    let (output, trace) = run(&scratch("folded"));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let trace = String::from_utf8(trace).unwrap();
    let lines: Vec<_> = trace.lines().filter(|line| line.starts_with("traced;fetcher;")).collect();
    assert!(lines.iter().any(|line| line.contains("fetch_all") && line.contains("compose")), "{trace}");
    assert!(lines.iter().all(|line| line.rsplit(' ').next().unwrap().parse::<u64>().is_ok()), "{trace}");
}

#[test]
fn an_ending_that_names_no_format_is_explained() {
    let (output, trace) = run(&scratch("docx"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), trace.len()), (Some(1), 0), "{stderr}");
    assert!(stderr.contains("docx") && stderr.contains(".pftrace"), "{stderr}");
}
