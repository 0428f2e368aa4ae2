//! The selection of functions that get sites.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::asm::Function;
use crate::error::Error;
use crate::outcome::Exclusion;

/// The settings that exclude functions, as the user gave them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exclusions {
    pub(crate) functions: Vec<String>,
    pub(crate) files: Vec<String>,
    /// If there are any, other functions are excluded, too.
    pub(crate) only_functions: Vec<String>,
    /// If there are any, functions in other files are excluded, too.
    pub(crate) only_files: Vec<String>,
    pub(crate) system_headers: bool,
    pub(crate) min_instructions: usize,
}

impl Exclusions {
    /// Checks the patterns.
    pub(crate) fn compile(&self) -> Result<Filter, Error> {
        Ok(Filter {
            // A path of C++ is one name: `*` goes over `::`.
            functions: Patterns::compile("exclude_functions", &self.functions, false)?,
            files: Patterns::compile("exclude_files", &self.files, true)?,
            only_functions: Patterns::compile("functions", &self.only_functions, false)?,
            only_files: Patterns::compile("files", &self.only_files, true)?,
            system_headers: self.system_headers,
            min_instructions: self.min_instructions,
        })
    }
}

/// The patterns of one setting.
#[derive(Clone, Debug)]
struct Patterns {
    set: GlobSet,
    texts: Vec<String>,
}

impl Patterns {
    fn compile(setting: &'static str, texts: &[String], is_path: bool) -> Result<Self, Error> {
        let wrong = |pattern: &str, error: &globset::Error| Error::Pattern {
            setting,
            pattern: pattern.to_owned(),
            error: error.kind().to_string(),
        };
        let mut set = GlobSetBuilder::new();
        for text in texts {
            let glob = GlobBuilder::new(text).literal_separator(is_path).build();
            set.add(glob.map_err(|error| wrong(text, &error))?);
        }
        let set = set.build().map_err(|error| wrong(&texts.join(", "), &error))?;
        Ok(Self { set, texts: texts.to_vec() })
    }

    /// Returns whether there are patterns, of which none matches.
    fn rule_out(&self, text: impl AsRef<Path>) -> bool {
        !self.texts.is_empty() && !self.set.is_match(text)
    }

    /// Returns the first pattern that matches.
    fn matching(&self, text: impl AsRef<Path>) -> Option<&str> {
        self.set.matches(text).first().map(|at| self.texts[*at].as_str())
    }
}

/// Exclusions, compiled for queries.
#[derive(Clone, Debug)]
pub struct Filter {
    functions: Patterns,
    files: Patterns,
    only_functions: Patterns,
    only_files: Patterns,
    system_headers: bool,
    min_instructions: usize,
}

impl Filter {
    /// Returns the check for the functions of one unit, compiled with these system include
    /// directories.
    pub(crate) fn for_unit<'a>(
        &'a self,
        system: &'a [PathBuf],
    ) -> impl Fn(&Function) -> Result<(), Exclusion> + 'a {
        let system: Vec<PathBuf> = system.iter().map(|path| resolved(path)).collect();
        let is_system_file = RefCell::new(HashMap::new());
        move |function| {
            if let Some(pattern) = self.functions.matching(&function.path) {
                return Err(Exclusion::Function(pattern.to_owned()));
            }
            if let Some(pattern) = self.files.matching(&function.file) {
                return Err(Exclusion::File(pattern.to_owned()));
            }
            if self.only_functions.rule_out(&function.path) || self.only_files.rule_out(&function.file) {
                return Err(Exclusion::NotChosen);
            }
            let is_in_system_header = || {
                let mut known = is_system_file.borrow_mut();
                *known.entry(function.file.clone()).or_insert_with(|| {
                    let file = resolved(Path::new(&function.file));
                    system.iter().any(|directory| file.starts_with(directory))
                })
            };
            let is_in_system_header = if function.has_place() {
                !function.file.is_empty() && is_in_system_header()
            } else {
                // The compiler inlined it into the user's code, so its file is the user's.
                ["std::", "__gnu_cxx::"].iter().any(|library| function.path.starts_with(library))
            };
            if !self.system_headers && is_in_system_header {
                return Err(Exclusion::SystemHeader);
            }
            if function.instructions < self.min_instructions {
                let (instructions, minimum) = (function.instructions, self.min_instructions);
                return Err(Exclusion::TooSmall { instructions, minimum });
            }
            Ok(())
        }
    }
}

/// Returns the path without `..` and links, if it exists: compilers spell the same directory in
/// many ways.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
