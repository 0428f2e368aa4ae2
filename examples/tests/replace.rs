//! The example of a replaced function shows each of its steps.

use probe_examples::Run;

#[test]
#[cfg(not(probe_off))]
fn each_step_prints_its_effect() {
    let run = Run::example("replace").finish();
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{run:?}");
    let expected = "  looking up pear
  looking up apple
  looking up pear
as it is: Ok(13)
  looking up pear
  looking up apple
with a cache: Ok(13)
with a fault, and a fallback: Ok(0)
with a fault: Err(\"no more apples\")
  looking up pear
  looking up apple
  looking up pear
as it was: Ok(13)
";
    assert_eq!(run.stdout, expected);
}

#[test]
#[cfg(probe_off)]
fn says_that_it_was_built_without_probes() {
    let run = Run::example("replace").finish();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("this program was built without probes"), "{run:?}");
}
