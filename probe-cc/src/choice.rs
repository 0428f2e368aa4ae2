//! Which functions get sites: the text of `PROBE_CC_FILTER`, or else the file `.probe-cc` in the
//! source's folder or the next one above it.
//!
//! ```text
//! # A glob a line; in the variable, `;` ends a line, too.
//! net::*            only functions whose path matches such a line
//! src/*.c           only functions in files that match such a line
//! !*_hash           but not these
//! !vendor/**        and not those in these files
//! ```
//! A line is about files if it has a `/`, or ends in a dot and letters. Names of functions are
//! their symbols in C, and in C++ their paths without parameters.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use probe_build::Error;
use probe_build::driver::{Filter, Globs};

use crate::setup::Setup;

const VARIABLE: &str = "PROBE_CC_FILTER";
const FILE: &str = ".probe-cc";

/// Returns the filter for a source.
pub(crate) fn of(source: &Path) -> Result<Filter, Setup> {
    let (origin, text) = match env::var(VARIABLE) {
        Ok(text) => (VARIABLE.to_owned(), text),
        Err(env::VarError::NotUnicode(_)) => return Err(Setup::NotText(VARIABLE)),
        Err(env::VarError::NotPresent) => found(source)?.unwrap_or_default(),
    };
    globs(&text).compile().map_err(|error| {
        let error = match error {
            Error::Pattern { pattern, error, .. } => format!("`{pattern}` is no glob: {error}"),
            other => other.to_string(),
        };
        Setup::Filter { origin, error }
    })
}

/// Returns the name and the text of the next file.
fn found(source: &Path) -> Result<Option<(String, String)>, Setup> {
    let Ok(source) = fs::canonicalize(source) else { return Ok(None) };
    for folder in source.ancestors().skip(1) {
        let file = folder.join(FILE);
        let origin = file.display().to_string();
        match fs::read_to_string(&file) {
            Ok(text) => return Ok(Some((origin, text))),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(Setup::Filter { origin, error: format!("can't be read: {error}") }),
        }
    }
    Ok(None)
}

fn globs(text: &str) -> Globs {
    let mut globs = Globs::default();
    let lines = text.split(['\n', ';']).map(str::trim);
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (is_excluded, glob) = match line.strip_prefix('!') {
            Some(glob) => (true, glob.trim()),
            None => (false, line),
        };
        match (is_of_files(glob), is_excluded) {
            (false, false) => globs.functions.push(glob.to_owned()),
            (false, true) => globs.no_functions.push(glob.to_owned()),
            (true, false) => globs.files.push(anywhere(glob)),
            (true, true) => globs.no_files.push(anywhere(glob)),
        }
    }
    globs
}

fn is_of_files(glob: &str) -> bool {
    let is_of_endings = |c: char| c.is_ascii_alphabetic() || "+*?{,}[]".contains(c);
    let ending = glob.rsplit_once('.').map_or("", |(_, ending)| ending);
    glob.contains('/') || (!ending.is_empty() && ending.chars().all(is_of_endings))
}

/// Compilers name files as the build does, with or without folders in front.
fn anywhere(glob: &str) -> String {
    if glob.starts_with(['/', '*']) && glob.contains('/') { glob.to_owned() } else { format!("**/{glob}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_choose_and_exclude_functions_and_files() {
        let text = "# all\n\n net::* ; *_init\nsrc/*.c\n!*_hash\n! vendor/** ; !a.h;f.constprop.0\n";
        let owned = |all: &[&str]| all.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            globs(text),
            Globs {
                functions: owned(&["net::*", "*_init", "f.constprop.0"]),
                files: owned(&["**/src/*.c"]),
                no_functions: owned(&["*_hash"]),
                no_files: owned(&["**/vendor/**", "**/a.h"]),
            }
        );
        assert_eq!(globs(""), Globs::default());
    }

    #[test]
    fn a_slash_or_an_ending_makes_a_file() {
        for file in ["a/", "*.c", "x.c++", "*.{c,h}", "**/gen/*", "/usr/*"] {
            assert!(is_of_files(file), "{file}");
        }
        for function in ["main", "a::b", "f.part.0", "std::vector<*>::*", "*", "ends."] {
            assert!(!is_of_files(function), "{function}");
        }
        assert_eq!(["*.c", "**/a/*.c", "/x/y.c"].map(anywhere), ["**/*.c", "**/a/*.c", "/x/y.c"]);
    }
}
