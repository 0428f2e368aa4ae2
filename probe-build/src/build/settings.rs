//! The settings of this crate, those of cc that this crate must know, and those that are handed on
//! to cc.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use cc::BuildMessageLogger;

use super::Build;
use crate::outcome::Sites;

/// Which functions get sites.
impl Build {
    /// Sets the places of the sites. The default is each entry and exit of the compiler's untouched
    /// code. [`Sites`] explains which to use when.
    pub fn sites(&mut self, sites: Sites) -> &mut Self {
        self.sites = sites;
        self
    }

    /// Excludes functions whose path matches the glob. A path is the symbol of a C function, or the
    /// demangled name of a C++ function without parameters; `*` matches `::`, too. May be called
    /// several times. An invalid glob is an error when compiling.
    ///
    /// ```
    /// # let mut build = probe_build::Build::new();
    /// build.exclude_functions("sqlite3Hash*").exclude_functions("geo::{Point,Line}::*");
    /// ```
    pub fn exclude_functions(&mut self, pattern: &str) -> &mut Self {
        self.exclusions.functions.push(pattern.to_owned());
        self
    }

    /// Excludes functions that are defined in a file that matches the glob; a header is such a
    /// file, too. The file's name is the compiler's, which is usually the name that the build or an
    /// `#include` uses. `*` stays within one directory, `**` does not. May be called several times.
    /// An invalid glob is an error when compiling.
    ///
    /// ```
    /// # let mut build = probe_build::Build::new();
    /// build.exclude_files("**/vendor/**").exclude_files("src/*_generated.c");
    /// ```
    pub fn exclude_files(&mut self, pattern: &str) -> &mut Self {
        self.exclusions.files.push(pattern.to_owned());
        self
    }

    /// Sets whether functions from the system's headers get sites. Most of these are instances of
    /// the standard library's templates. The default is false. System headers are those in
    /// directories that the compiler searches by default, or by `-isystem`.
    pub fn system_headers(&mut self, has_sites: bool) -> &mut Self {
        self.exclusions.system_headers = has_sites;
        self
    }

    /// Excludes functions of fewer machine instructions. The default is 0. Functions this small are
    /// often called so often that their probes say little and, while active, cost much.
    pub fn min_instructions(&mut self, count: usize) -> &mut Self {
        self.exclusions.min_instructions = count;
        self
    }

    /// Changes any setting of cc.
    ///
    /// Prefer [`file`](Self::file) and [`out_dir`](Self::out_dir) for files and the output
    /// directory, and this type's methods for the settings of messages: cc has no getters for
    /// those. A file that is added here is compiled with its sites, and once more, uselessly, for
    /// each file that is neither C nor C++.
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

/// Methods of cc whose values this crate needs, too.
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

    /// [`cc::Build::cuda`]. A CUDA build gets no sites.
    pub fn cuda(&mut self, cuda: bool) -> &mut Self {
        self.is_cuda = cuda;
        self.cc_mut().cuda(cuda);
        self
    }

    /// [`cc::Build::cargo_metadata`]. `false` also disables the warnings about missing sites.
    pub fn cargo_metadata(&mut self, cargo_metadata: bool) -> &mut Self {
        self.console.metadata = cargo_metadata;
        self.cc_mut().cargo_metadata(cargo_metadata);
        self
    }

    /// [`cc::Build::cargo_warnings`]. `false` also disables the warnings about missing sites.
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

    /// [`cc::Build::message_logger`]. It gets this crate's warnings, too. Files with sites are not
    /// in a compilation database, because their commands produce assembly.
    pub fn message_logger(&mut self, logger: Option<Arc<dyn BuildMessageLogger>>) -> &mut Self {
        self.console.logger.clone_from(&logger);
        self.cc_mut().message_logger(logger);
        self
    }
}

/// Generates, for each line, a method that calls cc's method of that name. A line has name,
/// generics and arguments.
macro_rules! delegate {
    ($($name:ident [$($generics:tt)*] ($($argument:ident: $type:ty),*);)*) => {
        /// Methods of cc's, unchanged.
        impl Build {
            $(
                #[doc = concat!("[`cc::Build::", stringify!($name), "`].")]
                pub fn $name<$($generics)*>(&mut self, $($argument: $type),*) -> &mut Self {
                    self.cc_mut().$name($($argument),*);
                    self
                }
            )*
        }
    };
}

delegate! {
    include [] (dir: impl AsRef<Path>);
    includes [] (dirs: impl IntoIterator<Item: AsRef<Path>>);
    define ['a] (name: &str, value: impl Into<Option<&'a str>>);
    object [] (object: impl AsRef<Path>);
    objects [] (objects: impl IntoIterator<Item: AsRef<Path>>);
    flag [] (flag: impl AsRef<OsStr>);
    flags [] (flags: impl IntoIterator<Item: AsRef<OsStr>>);
    remove_flag [] (flag: &str);
    ar_flag [] (flag: impl AsRef<OsStr>);
    asm_flag [] (flag: impl AsRef<OsStr>);
    flag_if_supported [] (flag: impl AsRef<OsStr>);
    no_default_flags [] (no_default_flags: bool);
    source_root [] (root: impl AsRef<Path>);
    remap_source_path [] (from: impl AsRef<Path>, to: impl AsRef<Path>);
    reproducible_codeview [] (enabled: bool);
    cpp [] (cpp: bool);
    cudart [] (cudart: &str);
    ccbin [] (ccbin: bool);
    std [] (std: &str);
    warnings_into_errors [] (warnings_into_errors: bool);
    warnings [] (warnings: bool);
    extra_warnings [] (warnings: bool);
    cpp_link_stdlib ['a] (stdlib: impl Into<Option<&'a str>>);
    cpp_link_stdlib_static [] (is_static: bool);
    cpp_set_stdlib ['a] (stdlib: impl Into<Option<&'a str>>);
    target [] (target: &str);
    host [] (host: &str);
    opt_level [] (opt_level: u32);
    opt_level_str [] (opt_level: &str);
    debug [] (debug: bool);
    debug_str [] (debug: &str);
    force_frame_pointer [] (force: bool);
    compiler [] (compiler: impl AsRef<Path>);
    archiver [] (archiver: impl AsRef<Path>);
    ranlib [] (ranlib: impl AsRef<Path>);
    cargo_debug [] (cargo_debug: bool);
    link_lib_modifier [] (modifier: impl AsRef<OsStr>);
    pic [] (pic: bool);
    use_plt [] (use_plt: bool);
    emit_rerun_if_env_changed [] (emit: bool);
    static_crt [] (static_crt: bool);
    shell_escaped_flags [] (shell_escaped_flags: bool);
    inherit_rustflags [] (inherit_rustflags: bool);
    inherit_trim_paths [] (inherit_trim_paths: bool);
    prefer_clang_cl_over_msvc [] (prefer_clang_cl_over_msvc: bool);
    env [] (key: impl AsRef<OsStr>, value: impl AsRef<OsStr>);
}

impl Build {
    /// [`cc::Build::try_flags_from_environment`].
    ///
    /// # Errors
    /// As in cc: the variable is not set, or its text is not a list of flags.
    pub fn try_flags_from_environment(&mut self, key: &str) -> Result<&mut Self, cc::Error> {
        self.cc_mut().try_flags_from_environment(key)?;
        Ok(self)
    }

    /// [`cc::Build::shared_flag`].
    #[deprecated = "as in cc: it does nothing"]
    pub fn shared_flag(&mut self, shared_flag: bool) -> &mut Self {
        #[expect(deprecated, reason = "so is this method")]
        self.cc_mut().shared_flag(shared_flag);
        self
    }

    /// [`cc::Build::static_flag`].
    #[deprecated = "as in cc: it does nothing"]
    pub fn static_flag(&mut self, static_flag: bool) -> &mut Self {
        #[expect(deprecated, reason = "so is this method")]
        self.cc_mut().static_flag(static_flag);
        self
    }
}
