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

/// All pairs of two sets. A slice has each of `others` in one pair, with each of `these` in turn.
///
/// ```
/// use probe_tests::whole;
///
/// let pairs = whole::pairs(&["gcc", "clang"], &["-O1", "-O2"]);
/// if !whole::is_asked_for() {
///     assert_eq!(pairs, [("gcc", "-O1"), ("clang", "-O2")]);
/// }
/// ```
///
/// # Panics
/// As [`is_asked_for`].
#[must_use]
pub fn pairs<A: Clone, B: Clone>(these: &[A], others: &[B]) -> Vec<(A, B)> {
    let (is_whole, mut pairs) = (is_asked_for(), Vec::new());
    for (number, other) in others.iter().enumerate() {
        for (turn, this) in these.iter().enumerate() {
            if is_whole || number % these.len() == turn {
                pairs.push((this.clone(), other.clone()));
            }
        }
    }
    pairs
}
