//! The example of an own consumer keeps the last large answers, and sees all of them.
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
