//! Slices of tests that take minutes. `PROBE_TEST_WHOLE=1` asks for the whole tests, whose
//! assertions are the same. See `tests/README.md`.

use std::env;

/// Whether a test is to run that only the whole has. If not, says so.
///
/// # Panics
/// As [`is_asked_for`].
#[must_use]
pub fn has(test: &str) -> bool {
    let has = is_asked_for();
    if !has {
        println!("left out: {test} is a part of the whole (`PROBE_TEST_WHOLE=1`)");
    }
    has
}

/// Whether the whole is asked for.
///
/// # Panics
/// If the variable says something else than yes or no.
#[must_use]
pub fn is_asked_for() -> bool {
    match env::var("PROBE_TEST_WHOLE").as_deref() {
        Err(_) | Ok("" | "0") => false,
        Ok("1") => true,
        Ok(other) => panic!("PROBE_TEST_WHOLE={other} is neither 0 nor 1"),
    }
}
