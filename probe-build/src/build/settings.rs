//! The settings that are ours, and those of cc's that have to be known here.

use std::path::Path;
use std::sync::Arc;

use cc::BuildMessageLogger;

use super::Build;
use crate::Sites;

/// Which functions get sites.
impl Build {
    /// Where sites are placed: at each entry and exit of the compiler's untouched code by default.
    /// See [`Sites`] for when to take which.
    pub fn sites(&mut self, sites: Sites) -> &mut Self {
        self.sites = sites;
        self
    }

    /// Functions whose path matches the glob get no sites. A path is the symbol of a C function,
    /// and the demangled name of a C++ function without parameters; `*` goes over `::`. May be said
    /// again. What is not a glob is an error when compiling.
    ///
    /// ```
    /// # let mut build = probe_build::Build::new();
    /// build.exclude_functions("sqlite3Hash*").exclude_functions("geo::{Point,Line}::*");
    /// ```
    pub fn exclude_functions(&mut self, pattern: &str) -> &mut Self {
        self.exclusions.functions.push(pattern.to_owned());
        self
    }

    /// Functions that are defined in a file that matches the glob get no sites; a header is such a
    /// file, too. The file is named as the compiler names it, which is mostly how the build or an
    /// `#include` names it. `*` stays within one directory, `**` does not. May be said again. What
    /// is not a glob is an error when compiling.
    ///
    /// ```
    /// # let mut build = probe_build::Build::new();
    /// build.exclude_files("**/vendor/**").exclude_files("src/*_generated.c");
    /// ```
    pub fn exclude_files(&mut self, pattern: &str) -> &mut Self {
        self.exclusions.files.push(pattern.to_owned());
        self
    }

    /// Whether functions from the system's headers get sites: mostly instances of the standard
    /// library's templates. False by default. The system's headers are those in directories that
    /// the compiler searches by itself, or by `-isystem`.
    pub fn system_headers(&mut self, has_sites: bool) -> &mut Self {
        self.exclusions.system_headers = has_sites;
        self
    }

    /// Functions of fewer machine instructions get no sites. 0 by default. What is this small is
    /// often called so often that its probes say little and, while active, cost much.
    pub fn min_instructions(&mut self, count: usize) -> &mut Self {
        self.exclusions.min_instructions = count;
        self
    }

    /// Anything of cc's, as it is there.
    ///
    /// Files and the output directory are better given by [`file`](Self::file) and
    /// [`out_dir`](Self::out_dir), and so are the settings about what is printed: cc does not tell
    /// what was set here. A file that is given here is compiled with its sites, and once more, in
    /// vain, for each file that is none of C or C++.
    ///
    /// ```
    /// # let mut build = probe_build::Build::new();
    /// build.configure_cc(|cc| {
    ///     cc.define("NDEBUG", None).opt_level(3);
    /// });
    /// ```
    pub fn configure_cc(&mut self, configure: impl FnOnce(&mut cc::Build)) -> &mut Self {
        configure(self.cc_mut());
        self
    }
}

/// Methods of cc's whose values are needed here, too.
impl Build {
    /// [`cc::Build::file`].
    pub fn file(&mut self, path: impl AsRef<Path>) -> &mut Self {
        self.whole.take();
        self.files.push(path.as_ref().to_owned());
        self
    }

    /// [`cc::Build::files`].
    pub fn files(&mut self, paths: impl IntoIterator<Item: AsRef<Path>>) -> &mut Self {
        self.whole.take();
        self.files.extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
        self
    }

    /// [`cc::Build::out_dir`].
    pub fn out_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.out_dir = Some(directory.as_ref().to_owned());
        self.cc_mut().out_dir(directory);
        self
    }

    /// [`cc::Build::cuda`]. Nothing of a CUDA build gets sites.
    pub fn cuda(&mut self, cuda: bool) -> &mut Self {
        self.is_cuda = cuda;
        self.cc_mut().cuda(cuda);
        self
    }

    /// [`cc::Build::cargo_metadata`]. Without it there are no warnings about what has no sites,
    /// either.
    pub fn cargo_metadata(&mut self, cargo_metadata: bool) -> &mut Self {
        self.console.metadata = cargo_metadata;
        self.cc_mut().cargo_metadata(cargo_metadata);
        self
    }

    /// [`cc::Build::cargo_warnings`]. Without it there are no warnings about what has no sites,
    /// either.
    pub fn cargo_warnings(&mut self, cargo_warnings: bool) -> &mut Self {
        self.console.warnings = cargo_warnings;
        self.cc_mut().cargo_warnings(cargo_warnings);
        self
    }

    /// [`cc::Build::cargo_output`].
    pub fn cargo_output(&mut self, cargo_output: bool) -> &mut Self {
        self.console.output = cargo_output;
        self.cc_mut().cargo_output(cargo_output);
        self
    }

    /// [`cc::Build::message_logger`]. It gets our warnings, too. Files that have sites are no
    /// entries of a compilation database: their commands end in assembly.
    pub fn message_logger(&mut self, logger: Option<Arc<dyn BuildMessageLogger>>) -> &mut Self {
        self.console.logger.clone_from(&logger);
        self.cc_mut().message_logger(logger);
        self
    }
}
