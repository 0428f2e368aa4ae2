//! The variable `LD_PRELOAD` of child processes.

// Safety: relies on the dynamic linker: this library is initialised before `main`, so no thread
// reads the environment but those that constructors of the program's libraries have started.
#![expect(unsafe_code, reason = "see above")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// The dynamic linker's variable.
const PRELOAD: &str = "LD_PRELOAD";

/// Removes this library from the environment of later programs. Other preloaded libraries stay.
pub(crate) fn leave(variable: &str, file: &str) {
    let rest = env::var_os(PRELOAD).and_then(|list| without(&list, file));
    // SAFETY: before `main`; `run --only` is not for programs whose libraries start threads that
    // read the environment so early (README.md, Limits).
    unsafe {
        env::remove_var(variable);
        match rest {
            Some(rest) => env::set_var(PRELOAD, rest),
            None => env::remove_var(PRELOAD),
        }
    }
}

/// Returns a list of libraries without this one; `None` if it was the only one. A name without a
/// slash is one that the dynamic linker has looked for.
fn without(list: &OsStr, file: &str) -> Option<OsString> {
    let name = Path::new(file).file_name().unwrap_or_default().as_bytes();
    let is_own = |entry: &&[u8]| *entry == file.as_bytes() || *entry == name;
    let entries = list.as_bytes().split(|byte| matches!(byte, b':' | b' '));
    let rest: Vec<_> = entries.filter(|entry| !entry.is_empty() && !is_own(entry)).collect();
    (!rest.is_empty()).then(|| OsString::from_vec(rest.join(&b':')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_libraries_stay() {
        let rest = |list: &str| {
            let rest = without(list.as_ref(), "/opt/lib/libprobe_agent.so")?;
            Some(rest.into_string().unwrap())
        };
        assert_eq!(rest(""), None);
        assert_eq!(rest("/opt/lib/libprobe_agent.so"), None);
        assert_eq!(rest("libprobe_agent.so: /opt/lib/libprobe_agent.so"), None);
        assert_eq!(rest("/a.so:/opt/lib/libprobe_agent.so:b.so"), Some("/a.so:b.so".to_owned()));
        assert_eq!(rest("/a.so /other/libprobe_agent.so"), Some("/a.so:/other/libprobe_agent.so".to_owned()));
    }
}
