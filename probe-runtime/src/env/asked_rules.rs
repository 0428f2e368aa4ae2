//! `PROBE_RULES=FILE`: follows rules.

use std::env;

use super::piece::say;
use crate::error::Error;
use crate::os;

const VARIABLE: &str = "PROBE_RULES";
#[cfg(probe_agent)]
const LOG: &str = "PROBE_RULES_LOG";

/// The most bytes of a file of rules.
#[cfg(probe_agent)]
const MOST: u64 = 1 << 20;

/// Follows the rules of the file that the variable names. If the file can't be read, one line on
/// stderr says so.
#[cfg_attr(not(probe_agent), expect(clippy::unnecessary_wraps, reason = "rules that are read may be wrong"))]
pub(super) fn follow_if_asked() -> Result<(), Error> {
    let value = env::var_os(VARIABLE).unwrap_or_default();
    if value.is_empty() {
        return Ok(());
    }
    if os::privilege::is_raised() {
        say(&format!(
            "{VARIABLE}: this program has rights that whoever started it lacks (setuid, setgid, capabilities); it \
             follows no rules that its environment names"
        ));
        return Ok(());
    }
    #[cfg(not(probe_agent))]
    say(&absent());
    #[cfg(probe_agent)]
    follow(value.as_ref())?;
    Ok(())
}

#[cfg(probe_agent)]
fn follow(path: &std::path::Path) -> Result<(), Error> {
    let name = path.display().to_string();
    let log = env::var(LOG).ok().filter(|it| !it.is_empty());
    let log = log.map(|name| name.replace("%p", &std::process::id().to_string()));
    match read(path) {
        Ok(text) => match crate::agent::follow(&name, &text, log.as_deref().map(AsRef::as_ref)) {
            // The file is as it should be.
            Err(error) if !matches!(error, Error::Environment { .. }) => say(&format!("{VARIABLE}: {error}")),
            result => return result,
        },
        Err(problem) => say(&format!("{VARIABLE}: {name} can't be read: {problem}; there are no rules")),
    }
    Ok(())
}

#[cfg(probe_agent)]
fn read(path: &std::path::Path) -> Result<String, String> {
    use std::io::Read;

    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MOST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST { Err(format!("it has more than {MOST} bytes")) } else { Ok(text) }
}

#[cfg(not(probe_agent))]
fn absent() -> String {
    let why = if cfg!(feature = "agent") {
        "this system has no agent, or this program no probes"
    } else {
        "this program was built without the feature `agent`: cargo add probe-runtime --features agent"
    };
    format!("{VARIABLE}: there are no rules; {why}")
}
