//! The search example works on real files, counts exactly (it checks itself), and reports errors.

use std::fs;
use std::path::{Path, PathBuf};

use probe_examples::{Outcome, Run};

#[cfg(not(probe_off))]
const PROBES: [(&str, &str); 8] = [
    ("index_document", "entry"),
    ("index_document", "exit"),
    ("matched", "point"),
    ("query", "entry"),
    ("query", "exit"),
    ("token", "point"),
    ("tokenise", "entry"),
    ("tokenise", "exit"),
];

/// An unused path for a file of a test.
fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()))
}

/// The last column of the first line that begins with these words.
#[cfg(not(probe_off))]
fn number(text: &str, words: [&str; 2]) -> u64 {
    let row = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let row = row.into_iter().find(|row| row.starts_with(&words));
    let cell = row.as_ref().and_then(|row| row.last()).unwrap_or_else(|| panic!("no {words:?} in\n{text}"));
    cell.parse().unwrap_or_else(|_| panic!("{words:?} has {cell}"))
}

fn quickstart() -> Run {
    Run::program(env!("CARGO_BIN_EXE_quickstart"))
}

fn assert_fails_with(run: &Outcome, message: &str) {
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.starts_with("quickstart: "), "{run:?}");
    assert!(run.stderr.contains(message), "{run:?}");
    assert!(!run.stderr.contains("panicked"), "{run:?}");
}

#[test]
#[cfg(not(probe_off))]
fn searches_the_repository_in_all_phases() {
    let run = quickstart().finish();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");

    let list = run.stdout.lines().filter(|line| line.contains("examples/quickstart/src/main.rs:"));
    assert_eq!(list.count(), PROBES.len(), "{run:?}");

    let rates: Vec<_> = (run.stdout.lines())
        .map(|line| line.replace(',', ""))
        .filter_map(|line| {
            let mut words = line.split_whitespace().map(str::to_owned);
            Some((words.next()?, words.next()?.parse::<u64>().ok()?, words.next()?.parse::<u64>().ok()?))
        })
        .collect();
    let names: Vec<_> = rates.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["latent", "active", "toggling", "latent"], "{run:?}");
    assert!(rates.iter().all(|(_, queries, tokens)| *queries > 0 && *tokens > 0), "{run:?}");

    // Each entry has its exit. Each query tokenises once and matches once; each indexing tokenises
    // once.
    let (_, table) = run.stdout.split_once("Counted in the active phase").expect("a table of counts");
    let hits = |name: &str, kind| number(table, [&format!("quickstart::{name}"), kind]);
    let [indexed, indexed_exit, matched, query, query_exit, token, tokenise, tokenise_exit] =
        PROBES.map(|(name, kind)| hits(name, kind));
    assert!(indexed > 0 && query > 0 && token > 0, "{run:?}");
    assert_eq!((indexed, query, tokenise), (indexed_exit, query_exit, tokenise_exit), "{run:?}");
    assert_eq!((matched, tokenise), (query, query + indexed), "{run:?}");
}

#[test]
#[cfg(not(probe_off))]
fn counts_for_the_environment_as_well() {
    let file = scratch("poem.txt");
    fs::write(&file, "The tide rises, the tide falls,\nThe twilight darkens, the curlew calls").unwrap();
    let run = quickstart().arg(&file).probes("quickstart::query kind=entry=count").finish();
    fs::remove_file(&file).unwrap();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stdout.contains("over 1 file with 70 bytes"), "{run:?}");
    // `PROBES` counts in all phases, the program's own attachment in the active phase only.
    let words = ["quickstart::query", "entry"];
    let (_, table) = run.stdout.split_once("Counted in the active phase").expect("a table of counts");
    assert!(number(&run.stderr, words) > number(table, words), "{run:?}");
    assert_eq!(run.stderr.lines().count(), 2, "{run:?}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let file = scratch("absent.txt");
    let run = quickstart().arg(&file).finish();
    assert_fails_with(&run, &format!("can't read {}: ", file.display()));
}

#[test]
fn no_text_is_an_error() {
    let file = scratch("empty.txt");
    fs::write(&file, " -- \n").unwrap();
    let run = quickstart().arg(&file).finish();
    fs::remove_file(&file).unwrap();
    assert_fails_with(&run, "there is no text to search in");
}

#[test]
fn a_mistake_in_the_environment_is_pointed_at() {
    let run = quickstart().probes("quickstart::query=conut").finish();
    assert_fails_with(&run, "`conut` is not a consumer");
}

#[test]
#[cfg(probe_off)]
fn says_that_it_was_built_without_probes() {
    assert_fails_with(&quickstart().finish(), "this program was built without probes");
}
