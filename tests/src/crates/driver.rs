//! A program of ours that works with a copy.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Copy, Crate};
use crate::nested::{cargo_into, lend_lock_file};

/// A program, ready to be built.
#[derive(Clone, Copy, Debug)]
pub struct Driver<'a> {
    /// The crate that it depends on.
    pub of: &'a Crate,
    /// The copy that stands in for the crate.
    pub copy: &'a Copy,
    /// Further lines of its manifest's `[dependencies]`.
    pub dependencies: &'a str,
    /// Its files in `src`, by name; `main.rs` is one of them.
    pub sources: &'a [(&'a str, &'a str)],
}

impl Driver<'_> {
    /// Writes the package to `folder`, builds it in release, and returns the program's path below
    /// `target`.
    ///
    /// # Panics
    /// If it can't be written, or does not compile.
    #[must_use]
    pub fn build(&self, folder: &Path, target: &Path) -> PathBuf {
        let manifest = format!(
            "[package]\nname = \"driver\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [profile.release]\ncodegen-units = 1\n\n[dependencies]\n{} = {{ path = '{}' }}\n{}",
            self.of.name,
            self.copy.folder.display(),
            self.dependencies,
        );
        fs::create_dir_all(folder.join("src")).expect("a folder can be made");
        for (name, text) in self.sources {
            fs::write(folder.join("src").join(name), text).expect("a file can be written");
        }
        fs::write(folder.join("Cargo.toml"), manifest).expect("a file can be written");
        lend_lock_file(folder);
        let mut cargo = cargo_into(folder, "build", target);
        let output = cargo.args(["--release", "--offline"]).output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        target.join("release/driver")
    }
}
