//! The start, when the dynamic linker has loaded the library, before the program's own code.
//!
//! ```text
//! LD_PRELOAD ▸ started ─┬─▶ nothing asked, no probes, or a runtime of the program's own: nothing
//!                       └─▶ `init_from_env`, as in the program's `main`, with a guard that stays
//! ```
//! Cost: reading the environment, and a look at the loaded objects; where there is something to
//! serve, that of `init_from_env`.

// Safety: relies on the dynamic linker, which calls the functions in this section once, without
// arguments that matter, before `main`, so no thread reads the environment but those that
// constructors of the program's libraries have started.
#![expect(unsafe_code, reason = "see above")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::mem;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic;
use std::path::Path;

use probe_runtime::__preload::{Loaded, find_modules, find_sleds, has_sleds, heed_filters, names_modules};
use probe_runtime::{finstrument, init_from_env};

/// The variable with the words of `probectl run`.
const VARIABLE: &str = "PROBE_PRELOAD";

/// The dynamic linker's variable.
const PRELOAD: &str = "LD_PRELOAD";

/// The beginning of its path if `probectl attach` has loaded it.
const INJECTED: &str = "/proc/self/./fd/";

/// The dynamic linker finds the function here.
#[used]
// SAFETY: the section holds addresses of functions to call.
#[unsafe(link_section = ".init_array")]
static STARTED: extern "C" fn() = started;

extern "C" fn started() {
    // A panic has printed its message, and must not end the program.
    let _ = panic::catch_unwind(start);
}

/// The variable's words.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Words {
    /// Child processes are left alone.
    only: bool,
    /// Probes may come with plugins.
    plugins: bool,
}

impl Words {
    fn read(text: &str) -> Self {
        // Words of a later version are for it.
        let has = |word: &str| text.split(',').any(|it| it.trim() == word);
        Self { only: has("only"), plugins: has("plugins") }
    }
}

fn start() {
    let words = env::var_os(VARIABLE).map(|it| Words::read(&it.to_string_lossy())).unwrap_or_default();
    let is_set = |name: &&str| env::var_os(name).is_some();
    let is_served = ["PROBE_AGENT", "PROBE_RULES"].iter().any(is_set);
    let is_asked = is_served || is_set(&"PROBES");
    if !is_asked && !words.only {
        return;
    }
    let loaded = Loaded::look();
    if loaded.file.starts_with(INJECTED) {
        // Into a program that runs. The tool that has loaded it calls its entry.
        return;
    }
    if words.only {
        leave_environment(&loaded.file);
    }
    if !is_asked || loaded.has_runtime {
        return;
    }
    let has_sleds = has_sleds();
    let names_modules = names_modules();
    let has_probes = loaded.has_probes || loaded.calls_hooks || has_sleds || words.plugins || names_modules;
    if !has_probes {
        return;
    }
    heed_filters();
    if loaded.calls_hooks {
        // Before the program's own code runs, so that nothing is missed.
        finstrument::look_ahead();
    }
    if has_sleds || words.plugins {
        find_sleds();
    }
    if names_modules || is_served {
        find_modules().unwrap_or_else(|error| eprintln!("libprobe_agent: {error}; no module is found"));
    }
    match init_from_env() {
        // Reports are written when the program exits.
        Ok(guard) => mem::forget(guard),
        // The variable is for other programs, too.
        Err(error) => eprintln!("libprobe_agent: {error}; nothing is attached"),
    }
}

/// Removes this library from the environment of later programs. Other preloaded libraries stay.
fn leave_environment(file: &str) {
    let rest = env::var_os(PRELOAD).and_then(|list| without(&list, file));
    // SAFETY: before `main`; `run --only` is not for programs whose libraries start threads that
    // read the environment so early (README.md, Limits).
    unsafe {
        env::remove_var(VARIABLE);
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
    fn words_stand_in_any_order() {
        assert_eq!(Words::read(""), Words::default());
        assert_eq!(Words::read("plugins, only"), Words { only: true, plugins: true });
        assert_eq!(Words::read("only,later"), Words { only: true, plugins: false });
    }

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
