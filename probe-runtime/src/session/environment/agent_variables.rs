//! The variables of the agent: `PROBE_AGENT=1` starts it, and `PROBE_RULES=FILE` follows rules.

use std::env;

use super::malformed;
use crate::engine::error::Error;
use crate::engine::os;
use crate::engine::os::stderr::print_line;
use probe_lang::ParseError;
#[cfg(probe_agent)]
use probe_lang::rules::Engine;

const AGENT: &str = "PROBE_AGENT";
const RULES: &str = "PROBE_RULES";
#[cfg(probe_agent)]
const RULES_LOG: &str = "PROBE_RULES_LOG";

/// The most bytes of a file of rules.
#[cfg(probe_agent)]
const MOST_RULES: u64 = 1 << 20;

/// Starts the agent if `PROBE_AGENT` asks for it. If it can't be started, one line on stderr says
/// so.
pub(super) fn start_agent_if_set() -> Result<(), Error> {
    let value = env::var_os(AGENT).unwrap_or_default();
    if !is_asked(&value.to_string_lossy())? {
        return Ok(());
    }
    if os::process::has_raised_rights() {
        print_line(&format!(
            "{AGENT}: this program has rights that whoever started it lacks (setuid, setgid, capabilities); no \
             other process may ask it"
        ));
        return Ok(());
    }
    start_agent();
    Ok(())
}

fn is_asked(value: &str) -> Result<bool, Error> {
    match value.trim() {
        "" | "0" => Ok(false),
        "1" => Ok(true),
        _ => {
            let problem = "write `PROBE_AGENT=1`, or `0` for no agent".to_owned();
            Err(malformed(AGENT, value, ParseError { at: 0, problem }))
        }
    }
}

#[cfg(feature = "agent")]
fn start_agent() {
    if let Err(error) = crate::session::agent::start() {
        print_line(&format!("{AGENT}: {error}"));
    }
}

#[cfg(not(feature = "agent"))]
fn start_agent() {
    print_line(&format!(
        "{AGENT}: this program was built without the feature `agent`: cargo add probe-runtime --features agent"
    ));
}

/// The rules of the file that `PROBE_RULES` names, and its name.
#[derive(Default)]
pub(super) struct RulesFromVariable {
    #[cfg(probe_agent)]
    rules: Option<(Engine, String)>,
}

/// Reads the rules of the file that `PROBE_RULES` names. If the file can't be read, one line on
/// stderr says so.
#[cfg_attr(not(probe_agent), expect(clippy::unnecessary_wraps, reason = "rules that are read may be wrong"))]
pub(super) fn read_rules_if_set() -> Result<RulesFromVariable, Error> {
    let value = env::var_os(RULES).unwrap_or_default();
    if value.is_empty() {
        return Ok(RulesFromVariable::default());
    }
    if os::process::has_raised_rights() {
        print_line(&format!(
            "{RULES}: this program has rights that whoever started it lacks (setuid, setgid, capabilities); it \
             follows no rules that its environment names"
        ));
        return Ok(RulesFromVariable::default());
    }
    #[cfg(not(probe_agent))]
    {
        print_line(&without_rules());
        Ok(RulesFromVariable::default())
    }
    #[cfg(probe_agent)]
    {
        let path: &std::path::Path = value.as_ref();
        let name = path.display().to_string();
        let rules = match read_file(path) {
            Ok(text) => Some((crate::session::agent::read_rules(&name, &text)?, name)),
            Err(problem) => {
                print_line(&format!("{RULES}: {name} can't be read: {problem}; there are no rules"));
                None
            }
        };
        Ok(RulesFromVariable { rules })
    }
}

impl RulesFromVariable {
    /// Follows them from now on. If that is not possible, one line on stderr says so.
    #[cfg(probe_agent)]
    pub(super) fn follow(self) {
        use std::path::PathBuf;

        let Some((engine, file)) = self.rules else { return };
        let log = env::var_os(RULES_LOG).filter(|it| !it.is_empty());
        let named = |name: String| name.replace("%p", &std::process::id().to_string()).into();
        let log = log.map(|it| it.into_string().map_or_else(PathBuf::from, named));
        if let Err(error) = crate::session::agent::follow(engine, file, log.as_deref()) {
            print_line(&format!("{RULES}: {error}"));
        }
    }

    #[cfg(not(probe_agent))]
    #[expect(clippy::unused_self, reason = "there are none")]
    pub(super) fn follow(self) {}
}

#[cfg(probe_agent)]
fn read_file(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;

    let mut text = String::new();
    // A pipe that nobody writes to must not stop the program.
    let opened =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let file = opened.map_err(|error| error.to_string())?;
    if !file.metadata().is_ok_and(|it| it.is_file()) {
        return Err("it is no regular file".to_owned());
    }
    file.take(MOST_RULES + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST_RULES {
        Err(format!("it has more than {MOST_RULES} bytes"))
    } else {
        Ok(text)
    }
}

#[cfg(not(probe_agent))]
fn without_rules() -> String {
    let why = if cfg!(feature = "agent") {
        "this system has no agent, or this program no probes"
    } else {
        "this program was built without the feature `agent`: cargo add probe-runtime --features agent"
    };
    format!("{RULES}: there are no rules; {why}")
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
