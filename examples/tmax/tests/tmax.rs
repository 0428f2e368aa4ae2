//! The calibration completes its matrix, draws it, and explains mistakes on the command line.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_off, probe_portable, probe_seen))))]

use std::fs;
use std::path::{Path, PathBuf};

use probe_examples::{Outcome, Run};

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}.svg", std::process::id()))
}

fn run(args: &str, svg: &Path) -> Outcome {
    args.split_whitespace().fold(Run::example("tmax"), Run::arg).arg("--svg").arg(svg).finish()
}

/// Returns the rows of the table, as words; the first is the wait. If no toggle was seen, a dash
/// stands in place of the times.
fn rows(run: &Outcome) -> Vec<Vec<&str>> {
    let lines = run.stdout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let is_row = |row: &Vec<&str>| {
        row.len() >= 3
            && (row[0] == "barrier" || row[0].parse::<u64>().is_ok())
            && row[1].parse::<f64>().is_ok()
    };
    lines.filter(is_row).collect()
}

#[test]
fn a_quick_run_has_a_row_for_each_wait_and_a_chart() {
    let svg = scratch("taste");
    let run = run("--quick --toggles 1000", &svg);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let rows = rows(&run);
    let waits: Vec<_> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(waits, ["0", "1200", "2400", "barrier"], "{run:?}");
    // A barrier needs no luck: none of the four splits failed.
    assert_eq!(rows[3][1..5], ["0", "0", "0", "0"], "{run:?}");
    assert!(run.stdout.contains("by split"), "{run:?}");
    let chart = fs::read_to_string(&svg).unwrap();
    fs::remove_file(&svg).unwrap();
    assert!(chart.contains("<svg") && chart.contains("barrier"), "{chart}");
}

#[test]
fn without_int3_the_longest_wait_shows_mixes_and_the_run_goes_on() {
    let svg = scratch("bare");
    let run = run("--quick --without-int3 --splits 2 --max-wait 2000000 --step 2000000 --toggles 200", &svg);
    fs::remove_file(&svg).unwrap();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let rows = rows(&run);
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), ["0", "2000000", "barrier"], "{run:?}");
    // Between its two writes, half a millisecond apart, the instruction equals neither state.
    #[expect(clippy::unwrap_used, reason = "the filter has parsed it")]
    let wrong: f64 = rows[1][1].parse().unwrap();
    assert!(wrong > 0.0 || std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2));
    assert!(!run.stdout.contains("Recommended"), "{run:?}");
}

#[test]
fn mistakes_are_explained() {
    for (args, message) in [
        ("--splits 5", "`5` is not a number from 1 to 4"),
        ("--executors 3-2", "the range `3-2` ends before it begins"),
        ("--step 0", "it is at least 1"),
        ("--toggles many", "not a whole number"),
        ("--across words", "it is `line` or `page`"),
        ("--fast", "invalid option '--fast'; --help lists the options"),
        ("more", "unexpected argument \"more\"; --help lists the options"),
    ] {
        let run = run(args, Path::new("unused.svg"));
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.stderr.starts_with("tmax: "), "{run:?}");
        assert!(run.stderr.contains(message), "{args}: {run:?}");
    }
}

#[test]
fn a_chart_that_cant_be_written_is_named() {
    let svg = Path::new("/nonexistent/chart.svg");
    let run = run("--quick --splits 1 --max-wait 0 --toggles 2", svg);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("can't write /nonexistent/chart.svg: "), "{run:?}");
}

#[test]
fn help_names_every_option() {
    let run = Run::example("tmax").arg("--help").finish();
    assert_eq!(run.code, Some(0), "{run:?}");
    for option in [
        "--quick", "--without-int3", "--across", "--splits", "--executors", "--max-wait", "--step",
        "--toggles", "--svg",
    ] {
        assert!(run.stdout.contains(option), "{option}: {run:?}");
    }
}
