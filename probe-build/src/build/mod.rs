//! [`Build`]: cc's builder, extended by the placing of sites.

mod compile;
mod settings;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::console::Console;
use crate::filter::Exclusions;
use crate::outcome::Sites;

/// The directory of `probe.h`.
///
/// [`Build`] searches it after all other directories; this is for other build tools.
///
/// ```
/// println!("cargo::metadata=include={}", probe_build::include().display());
/// ```
pub fn include() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
}

/// A [`cc::Build`] that adds probes to C and C++ code.
///
/// Every builder method of [`cc::Build`] exists here under the same name, with the same meaning.
/// `Deref` gives access to its getters, and [`configure_cc`](Self::configure_cc) to the methods of
/// later versions of cc. The other methods configure probes. The [crate's documentation](crate)
/// explains the processing of the files.
///
/// ```no_run
/// probe_build::Build::new()
///     .file("src/parser.c")
///     .include("include")
///     .flag("-Wall")
///     .exclude_functions("hash_*")
///     .compile("parser");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Build {
    /// All settings but the files, which are compiled one by one.
    cc: cc::Build,
    files: Vec<PathBuf>,
    /// `cc` with the files, made on demand.
    whole: OnceLock<cc::Build>,
    // Settings that cc has no getters for.
    out_dir: Option<PathBuf>,
    is_cuda: bool,
    console: Console,
    // Settings of this crate.
    sites: Sites,
    exclusions: Exclusions,
}

impl Build {
    /// Returns a build without files, with sites at each entry and exit.
    ///
    /// ```
    /// let mut build = probe_build::Build::new();
    /// build.file("src/parser.c");
    /// assert_eq!(build.get_files().count(), 1);
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the settings for a change.
    fn cc_mut(&mut self) -> &mut cc::Build {
        self.whole.take();
        &mut self.cc
    }

    /// Returns cc's builder with the files.
    fn whole(&self) -> &cc::Build {
        self.whole.get_or_init(|| {
            let mut whole = self.cc.clone();
            whole.files(&self.files);
            whole
        })
    }

    /// Returns all files, first those that `configure_cc` has added.
    fn sources(&self) -> Vec<PathBuf> {
        self.whole().get_files().map(Path::to_owned).collect()
    }
}

/// Gives access to cc's getters: `get_files`, `get_compiler`, `is_flag_supported`, `expand`, ….
impl Deref for Build {
    type Target = cc::Build;

    fn deref(&self) -> &cc::Build {
        self.whole()
    }
}
