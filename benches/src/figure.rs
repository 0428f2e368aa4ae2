//! Printing: one line a figure.

use std::fmt::Display;

use crate::Medians;

/// Prints `figure <name> = <value> <unit>, <ratio> of <baseline>`.
pub fn figure(name: &str, value: impl Display, unit: &str, ratio: f64, baseline: &str) {
    println!("figure {name} = {value} {unit}, {ratio:.3} of {baseline}");
}

/// Prints the figure of one case: nanoseconds, and the ratio to the case `baseline`.
///
/// # Panics
/// Where there is no case of that name.
pub fn timing(bench: &str, medians: &Medians, case: &str, baseline: &str) {
    let (ns, ratio) = (medians.ns(case), medians.ratio(case, baseline));
    figure(&format!("{bench}/{case}"), format_args!("{ns:.2}"), "ns", ratio, baseline);
}
