//! What stands in parentheses after a consumer: `profile(budget=1%)`. Pure.

#[cfg(feature = "perf")]
use crate::consumers::Perf;
#[cfg(feature = "profiler")]
use crate::consumers::{Budget, Profiler};
use crate::error::Mistake;

/// Where a term assigns, and where it ends, if it ends with a consumer and its options: these have commas and a `=` of their own.
pub(super) fn with_options(value: &str, at: usize, end: usize) -> Option<(usize, usize)> {
    let options = |name: &str| {
        let named = at + value[at..end].rfind(name)?;
        let before = value[at..named].trim_end().strip_suffix('=')?;
        let closed = named + value[named..].find(')')? + 1;
        let rest = value[closed..].split(',').next()?;
        Some((at + before.len(), closed + rest.len()))
    };
    ["profile(", "perf("].into_iter().filter_map(options).max()
}

/// A consumer, and what stands in parentheses after it.
pub(super) fn split_options(consumer: &str) -> (&str, Option<&str>) {
    let split = consumer.strip_suffix(')').and_then(|text| text.split_once('('));
    split.map_or((consumer, None), |(consumer, options)| (consumer, Some(options)))
}

/// Looks at a consumer's options. A mistake's byte is from where the consumer is named.
pub(super) fn check(consumer: &str, options: &str) -> Result<(), Mistake> {
    #[cfg(feature = "perf")]
    if consumer == "perf" {
        return Perf::from_options(options).map(drop).map_err(|mistake| mistake.after(consumer.len() + 1));
    }
    #[cfg(feature = "profiler")]
    if consumer == "profile" {
        return budget(options).map(drop).ok_or_else(|| {
            let right = "write `budget=1%` or `budget=1000/s`";
            Mistake { at: 0, problem: format!("`{options}` is not an option of `profile`; {right}") }
        });
    }
    Err(Mistake { at: 0, problem: format!("`{consumer}` has no options, so not `({options})`") })
}

#[cfg(feature = "profiler")]
fn budget(options: &str) -> Option<Budget> {
    let (name, value) = options.split_once('=')?;
    if name.trim() == "budget" { value.parse().ok() } else { None }
}

#[cfg(feature = "profiler")]
pub(super) fn profiler(options: Option<&str>) -> Profiler {
    options.and_then(budget).map_or_else(Profiler::new, |budget| Profiler::new().budget(budget))
}

#[cfg(feature = "perf")]
pub(super) fn perf(options: Option<&str>) -> Perf {
    // `requests` has looked at them.
    options.and_then(|options| Perf::from_options(options).ok()).unwrap_or_default()
}
