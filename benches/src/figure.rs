//! Prints one line for each figure.

use std::fmt::Display;

use crate::{Medians, Scale};

/// Prints `figure <name> = <value> <unit>, <ratio> of <baseline>`; `smoke …` if the value is not
/// a real measurement.
pub fn figure(name: &str, value: impl Display, unit: &str, ratio: f64, baseline: &str) {
    let kind = if Scale::from_args() == Scale::Full { "figure" } else { "smoke" };
    println!("{kind} {name} = {value} {unit}, {ratio:.3} of {baseline}");
}

/// Prints the figure of one case: nanoseconds, and the ratio to the case `baseline`.
///
/// # Panics
/// If there is no case of that name.
pub fn timing(bench: &str, medians: &Medians, case: &str, baseline: &str) {
    let (ns, ratio) = (medians.ns(case), medians.ratio(case, baseline));
    figure(&format!("{bench}/{case}"), format_args!("{ns:.2}"), "ns", ratio, baseline);
}
