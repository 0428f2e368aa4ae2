//! `PROBE_AGENT=1`: starts the agent.

use std::env;

use super::malformed;
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::stderr::print_line;
use probe_lang::ParseError;

const VARIABLE: &str = "PROBE_AGENT";

/// Starts the agent if the variable asks for it. If it can't be started, one line on stderr says
/// so.
pub(super) fn start_if_set() -> Result<(), Error> {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    if !is_asked(&value.to_string_lossy())? {
        return Ok(());
    }
    if os::process::has_raised_rights() {
        print_line(&format!(
            "{VARIABLE}: this program has rights that whoever started it lacks (setuid, setgid, capabilities); no \
             other process may ask it"
        ));
        return Ok(());
    }
    start();
    Ok(())
}

fn is_asked(value: &str) -> Result<bool, Error> {
    match value.trim() {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        _ => {
            let problem = "write `PROBE_AGENT=1`, or `0` for no agent".to_owned();
            Err(malformed(VARIABLE, value, ParseError { at: 0, problem }))
        }
    }
}

#[cfg(feature = "agent")]
fn start() {
    if let Err(error) = crate::session::agent::start() {
        print_line(&format!("{VARIABLE}: {error}"));
    }
}

#[cfg(not(feature = "agent"))]
fn start() {
    print_line(&format!(
        "{VARIABLE}: this program was built without the feature `agent`: cargo add probe-runtime --features agent"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_asks_and_other_words_are_mistakes() {
        for (value, expected) in [("", false), ("0", false), ("1", true), (" 1 ", true)] {
            assert_eq!(is_asked(value).unwrap(), expected, "{value}");
        }
        let error = is_asked("yes").unwrap_err().to_string();
        assert!(error.starts_with("PROBE_AGENT, column 1: write `PROBE_AGENT=1`"), "{error}");
    }
}
