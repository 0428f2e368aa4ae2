//! The example of a user's consumer keeps the last large answers, and sees all answers.
#![cfg(not(probe_off))]

use probe_examples::Run;

#[test]
fn keeps_the_last_large_answers() {
    let run = Run::example("consumer").finish();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let lines: Vec<&str> = run.stdout.lines().collect();
    let [heading, kept @ .., seen] = lines.as_slice() else { panic!("{run:?}") };
    assert_eq!(*heading, "the last 3 answers of 400 bytes and more:");
    assert_eq!(kept.len(), 3, "{run:?}");
    let large = [
        "  consumer::answered  method=Get  path=/a/picture/of/a/lighthouse.jpeg  bytes=961",
        "  consumer::answered  method=Get  path=/films/the-tide.webm  bytes=400",
    ];
    assert!(kept.iter().all(|line| large.contains(line)), "{run:?}");
    assert!(seen.starts_with("4000 answers seen; "), "{run:?}");
}

#[test]
fn the_environment_names_it() {
    let run = Run::example("consumer").probes("consumer::answered=large(least=900)").finish();
    let large =
        "  consumer::answered  method=Get  path=/a/picture/of/a/lighthouse.jpeg  bytes=961\n".repeat(3);
    let report = format!("the last 3 answers of 900 bytes and more:\n{large}4000 answers seen; ");
    assert!(run.code == Some(0) && run.stderr.starts_with(&report), "{run:?}");
}

#[test]
fn a_mistake_in_its_options_is_pointed_at() {
    let run = Run::example("consumer").probes("consumer::answered=large(least=all)").finish();
    let problem =
        "Error: PROBES, column 32: write a number of bytes\n  consumer::answered=large(least=all)\n";
    assert!(run.code == Some(1) && run.stderr.starts_with(problem), "{run:?}");
    let run = Run::example("consumer").probes("consumer::answered=large(most=1)").finish();
    assert!(run.stderr.contains("`most` is not an option of `large`; there is least, text"), "{run:?}");
}

#[test]
fn an_unsupported_format_is_an_error_and_help_lists_the_consumer() {
    let run = Run::example("consumer").probes("consumer::answered=large").out("large.json").finish();
    assert!(run.stderr.contains("`large` has no report as .json; it has txt"), "{run:?}");
    let run = Run::example("consumer").probes("help").finish();
    let line = run.stderr.lines().find(|line| line.starts_with("  large(least=400)"));
    assert!(line.is_some_and(|it| it.ends_with("the last events with many bytes")), "{run:?}");
}
