//! Running a built example.
//!
//! `cargo test` builds the examples beside the tests: `…/<profile>/examples/first` for
//! `…/<profile>/deps/first-0123456789abcdef`, in any target directory that `build.build-dir` does
//! not split. (`cargo test --test first` builds only that test. Build the examples first then, with
//! `cargo build --examples`.)

use std::env::{self, consts::EXE_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An example to run, in the workspace's root, without `PROBES`.
#[derive(Debug)]
pub struct Run(Command);

/// The user-visible outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
}

impl Run {
    /// Prepares a run of the named example.
    ///
    /// # Panics
    /// If the example has not been built.
    pub fn example(name: &str) -> Self {
        let path = built(name);
        assert!(path.is_file(), "{} is missing; build it with `cargo build --examples`", path.display());
        Self::program(path)
    }

    /// Prepares a run of the program with this path.
    pub fn program(path: impl AsRef<Path>) -> Self {
        let mut command = Command::new(path.as_ref());
        command
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
            .env_remove("PROBES")
            .env_remove("PROBES_OUT");
        Self(command)
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<Path>) -> Self {
        self.0.arg(arg.as_ref());
        self
    }

    /// Sets the environment variable `PROBES`.
    #[must_use]
    pub fn probes(mut self, value: &str) -> Self {
        self.0.env("PROBES", value);
        self
    }

    /// Sets the environment variable `PROBES_OUT`.
    #[must_use]
    pub fn out(mut self, value: &str) -> Self {
        self.0.env("PROBES_OUT", value);
        self
    }

    /// Runs the example to its end.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn finish(mut self) -> Outcome {
        let output = self.0.output().expect("a built example can be started");
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn built(name: &str) -> PathBuf {
    let test = env::current_exe().expect("a test knows its own path");
    let profile = test.ancestors().nth(2).expect("a test lies in <profile>/deps");
    profile.join("examples").join(format!("{name}{EXE_SUFFIX}"))
}
