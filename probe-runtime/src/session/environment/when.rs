//! When to report besides at the end: `PROBES_EVERY`, `PROBES_ON`, `PROBES_SIGNALS`. Pure.

use std::time::Duration;

use crate::engine::os::signal_catcher::Signal;
use probe_lang::ParseError;
use probe_lang::units::time;

pub(super) const EVERY: &str = "PROBES_EVERY";
pub(super) const ON: &str = "PROBES_ON";
pub(super) const SIGNALS: &str = "PROBES_SIGNALS";

/// The intervals and signals at which to report.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct When {
    pub(super) every: Option<Duration>,
    /// Signals that ask for a report.
    pub(super) on: Vec<Signal>,
    /// Signals that end the program after a report.
    pub(super) ends: Vec<Signal>,
}

impl When {
    /// Parses the variables' values; an empty value counts as none. An error carries the variable's
    /// name.
    pub(super) fn parse(every: &str, on: &str, signals: &str) -> Result<Self, (&'static str, ParseError)> {
        let every = (!every.is_empty()).then(|| time(every).and_then(at_least)).transpose();
        let every = every.map_err(|problem| (EVERY, ParseError { at: 0, problem }))?;
        let on = if on.is_empty() { Vec::new() } else { names(on, &[]).map_err(|it| (ON, it))? };
        let mut ends = match signals.trim() {
            "" => Signal::ENDS.to_vec(),
            none if none.eq_ignore_ascii_case("none") => Vec::new(),
            _ => names(signals, Signal::ENDS).map_err(|it| (SIGNALS, it))?,
        };
        ends.retain(|signal| !on.contains(signal));
        Ok(Self { every, on, ends })
    }

    /// Returns whether no report is asked for.
    pub(super) fn is_never(&self) -> bool {
        self.every.is_none() && self.on.is_empty() && self.ends.is_empty()
    }
}

/// The shortest interval.
const LEAST: Duration = Duration::from_millis(1);

fn at_least(every: Duration) -> Result<Duration, String> {
    if every >= LEAST { Ok(every) } else { Err("reports are made every 1ms at most".to_owned()) }
}

/// Parses signal names separated by commas, without repetitions. If `only` is not empty, other
/// signals are errors.
fn names(value: &str, only: &[Signal]) -> Result<Vec<Signal>, ParseError> {
    let mut at = 0;
    let mut signals = Vec::new();
    for name in value.split(',') {
        let name_at = at + name.len() - name.trim_start().len();
        let known = Signal::named(name.trim()).filter(|it| only.is_empty() || only.contains(it));
        let Some(signal) = known else {
            let all: Vec<_> = if only.is_empty() {
                Signal::names().collect()
            } else {
                only.iter().map(|signal| signal.name()).chain(["none"]).collect()
            };
            let problem = match all.as_slice() {
                [] => "there are no signals on this system".to_owned(),
                all => format!("`{}` is not a signal for this; there is {}", name.trim(), all.join(", ")),
            };
            return Err(ParseError { at: name_at, problem });
        };
        if signals.contains(&signal) {
            let problem = format!("`{}` is there already: each signal is named once", name.trim());
            return Err(ParseError { at: name_at, problem });
        }
        signals.push(signal);
        at += name.len() + 1;
    }
    Ok(signals)
}

#[cfg(all(test, unix, not(miri)))]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> Vec<Signal> {
        names.iter().map(|name| Signal::named(name).unwrap()).collect()
    }

    #[test]
    fn the_usual_ends_unless_told_otherwise() {
        let usual = named(&["SIGHUP", "SIGINT", "SIGTERM"]);
        let nothing = When { every: None, on: Vec::new(), ends: usual };
        assert_eq!(When::parse("", "", ""), Ok(nothing));
        let never = When::parse("", "", "none").unwrap();
        assert!(never.is_never());
        assert_eq!(When::parse("", "", "INT, SIGTERM").unwrap().ends, named(&["INT", "TERM"]));
    }

    #[test]
    fn names_are_read_in_either_case() {
        let when = When::parse("", "usr1,sigWinch", "int, SigTerm").unwrap();
        assert_eq!((when.on, when.ends), (named(&["USR1", "WINCH"]), named(&["INT", "TERM"])));
        assert!(When::parse("", "", "None").unwrap().is_never());
        assert!(When::parse("", "", "sig").is_err() && When::parse("", "SIGSIGINT", "").is_err());
    }

    #[test]
    fn a_signal_that_asks_for_a_report_does_not_end_the_program() {
        let when = When::parse("10s", "USR1,SIGHUP", "").unwrap();
        assert_eq!(when.every, Some(Duration::from_secs(10)));
        assert_eq!((when.on, when.ends), (named(&["USR1", "HUP"]), named(&["INT", "TERM"])));
    }

    #[test]
    fn mistakes_say_where() {
        let of = |every, on, signals| {
            let (variable, ParseError { at, problem }) = When::parse(every, on, signals).unwrap_err();
            (variable, at, problem)
        };
        let (variable, at, problem) = of("often", "", "");
        assert_eq!((variable, at), (EVERY, 0));
        assert!(problem.starts_with("`often` is not a span of time"), "{problem}");
        assert_eq!(of("7us", "", ""), (EVERY, 0, "reports are made every 1ms at most".to_owned()));
        let all = "SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGWINCH";
        let problem = format!("`KILL` is not a signal for this; there is {all}");
        assert_eq!(of("", "USR1, KILL", ""), (ON, 6, problem));
        let problem = "`USR1` is not a signal for this; there is SIGHUP, SIGINT, SIGTERM, none".to_owned();
        assert_eq!(of("", "", "USR1"), (SIGNALS, 0, problem));
        let again = |name: &str| format!("`{name}` is there already: each signal is named once");
        assert_eq!(of("", "", "INT, TERM, INT"), (SIGNALS, 11, again("INT")));
        assert_eq!(of("", "", "SIGINT, int"), (SIGNALS, 8, again("int")));
        assert_eq!(of("", "usr1,SIGUSR1", ""), (ON, 5, again("SIGUSR1")));
    }
}
