//! The smallest example prints the count of the one call.

use probe_examples::Run;

#[test]
#[cfg(not(probe_off))]
fn counts_one_entry_and_one_exit() {
    let run = Run::example("first").finish();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let rows: Vec<Vec<&str>> = run.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    let [heading, entry, exit] = rows.as_slice() else { panic!("{run:?}") };
    assert_eq!(heading, &["probe", "kind", "sites", "hits"]);
    assert!(matches!(entry.as_slice(), ["first::handle", "entry", _, "1"]), "{run:?}");
    assert!(matches!(exit.as_slice(), ["first::handle", "exit", _, "1"]), "{run:?}");
}

#[test]
#[cfg(probe_off)]
fn says_that_it_was_built_without_probes() {
    let run = Run::example("first").finish();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("this program was built without probes"), "{run:?}");
}
