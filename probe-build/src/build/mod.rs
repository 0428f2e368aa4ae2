//! [`Build`]: cc's builder, and what is done with its files.

mod compile;
mod delegated;
mod settings;

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::Sites;
use crate::console::Console;
use crate::filter::Exclusions;

/// [`cc::Build`], whose C and C++ code has probes.
///
/// Every builder method of [`cc::Build`] is here under its name and does what it does there; its
/// getters are reached by `Deref`, and what a later cc brings by
/// [`configure_cc`](Self::configure_cc). The settings of probes come on top. See the [crate's
/// documentation](crate) for what is done with the files.
///
/// ```no_run
/// probe_build::Build::new()
///     .file("src/parser.c")
///     .include("include")
///     .flag("-Wall")
///     .exclude_functions("hash_*")
///     .compile("parser");
/// ```
#[derive(Clone, Debug)]
pub struct Build {
    /// Everything but the files, which are compiled one by one.
    cc: cc::Build,
    files: Vec<PathBuf>,
    /// `cc` and the files, made when somebody looks.
    whole: OnceLock<cc::Build>,
    // What cc does not tell.
    out_dir: Option<PathBuf>,
    is_cuda: bool,
    console: Console,
    // Ours.
    sites: Sites,
    exclusions: Exclusions,
}

impl Build {
    /// A build without files, with sites at each entry and exit.
    ///
    /// ```
    /// let mut build = probe_build::Build::new();
    /// build.file("src/parser.c");
    /// assert_eq!(build.get_files().count(), 1);
    /// ```
    pub fn new() -> Self {
        Self {
            cc: cc::Build::new(),
            files: Vec::new(),
            whole: OnceLock::new(),
            out_dir: None,
            is_cuda: false,
            console: Console::new(),
            sites: Sites::default(),
            exclusions: Exclusions::default(),
        }
    }

    /// The settings, about to change.
    fn cc_mut(&mut self) -> &mut cc::Build {
        self.whole.take();
        &mut self.cc
    }

    /// cc's builder with the files.
    fn whole(&self) -> &cc::Build {
        self.whole.get_or_init(|| {
            let mut whole = self.cc.clone();
            whole.files(&self.files);
            whole
        })
    }

    /// All files, those that `configure_cc` has added first.
    fn sources(&self) -> Vec<PathBuf> {
        self.whole().get_files().map(Path::to_owned).collect()
    }
}

impl Default for Build {
    fn default() -> Self {
        Self::new()
    }
}

/// For cc's getters: `get_files`, `get_compiler`, `is_flag_supported`, `expand`, ….
impl Deref for Build {
    type Target = cc::Build;

    fn deref(&self) -> &cc::Build {
        self.whole()
    }
}
