//! How many snapshots a trigger takes and keeps. Pure.

use std::time::Duration;

use probe_lang::ParseError;
use probe_lang::options::settings;
use probe_lang::units::time;

/// The options of `snapshot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Keep {
    /// The most snapshots that the trigger takes.
    pub(super) at_most: u32,
    /// The time between a snapshot and the next one.
    pub(super) rest: Duration,
    /// Whether each snapshot replaces the one before.
    pub(super) replace: bool,
}

impl Default for Keep {
    fn default() -> Self {
        Self { at_most: 10, rest: Duration::from_secs(1), replace: false }
    }
}

const NAMES: [&str; 3] = ["at_most", "rest", "replace"];

impl Keep {
    /// Parses the text in parentheses. Places of errors count from its beginning.
    pub(super) fn parse(options: &str) -> Result<Self, ParseError> {
        let mut keep = Self::default();
        let mut is_limited = false;
        for it in settings(options) {
            match it.name() {
                "at_most" => {
                    let number = it.value().parse().ok().filter(|number| *number != 0);
                    let problem =
                        || format!("`{}` is not a number of snapshots; write `at_most=20`", it.value());
                    keep.at_most = number.ok_or_else(|| it.invalid_value(problem()))?;
                    is_limited = true;
                }
                "rest" => keep.rest = time(it.value()).map_err(|problem| it.invalid_value(problem))?,
                "replace" if it.value().is_empty() => keep.replace = true,
                "replace" => {
                    return Err(it.invalid_value("`replace` has no value; write `snapshot(replace)`"));
                }
                other => {
                    let names = NAMES.join(", ");
                    return Err(it.invalid_name(format!(
                        "`{other}` is not an option of `snapshot`; there is {names}"
                    )));
                }
            }
        }
        if keep.replace && !is_limited {
            // There is one file.
            keep.at_most = u32::MAX;
        }
        Ok(keep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_say_how_many_how_often_and_where() {
        let keep = |options| Keep::parse(options).unwrap();
        assert_eq!(
            keep("at_most=3, rest=1m"),
            Keep { at_most: 3, rest: Duration::from_secs(60), replace: false }
        );
        assert_eq!(keep("replace"), Keep { at_most: u32::MAX, replace: true, ..Keep::default() });
        assert_eq!(keep("replace, at_most=3"), Keep { at_most: 3, replace: true, ..Keep::default() });
    }

    #[test]
    fn mistakes_say_where() {
        for (options, at, problem) in [
            ("", 0, "`` is not an option of `snapshot`; there is at_most, rest, replace"),
            ("rest=1s, atmost=3", 9, "`atmost` is not an option of `snapshot`; there is "),
            ("at_most=0", 8, "`0` is not a number of snapshots; write `at_most=20`"),
            ("at_most", 7, "`` is not a number of snapshots; write `at_most=20`"),
            ("rest=1", 5, "`1` is not a span of time; write `500ms`, "),
            ("replace=yes", 8, "`replace` has no value; write `snapshot(replace)`"),
        ] {
            let mistake = Keep::parse(options).unwrap_err();
            assert!(mistake.at == at && mistake.problem.starts_with(problem), "{options}: {mistake:?}");
        }
    }
}
