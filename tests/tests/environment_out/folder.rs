//! The folder to which the program writes.

use std::ffi::OsStr;
use std::fs;
use std::process::Output;

use probe_tests::{folder, scenario};
use serde_json::Value;

/// A new folder, gone at the end.
pub(crate) struct Folder(pub(crate) folder::Folder);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        Self(folder::Folder::new(&name.replace('/', "-")))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&*self.0).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(&fs::read_to_string(self.0.join(name)).unwrap()).unwrap()
    }

    /// Runs the scenario with these variables, in which a `@` is this folder.
    pub(crate) fn run(&self, scenario: &str, probes: &str, out: &str) -> Output {
        self.run_with(scenario, probes, out, &[])
    }

    /// The same with further variables.
    pub(crate) fn run_with(&self, scenario: &str, probes: &str, out: &str, more: &[(&str, &str)]) -> Output {
        let out = out.replace('@', &self.0.display().to_string());
        let own = [("PROBES", probes), ("PROBES_OUT", &out)];
        let all: Vec<_> = own.iter().chain(more).map(|(name, value)| (*name, OsStr::new(value))).collect();
        scenario::play(scenario, &all)
    }
}
