//! cc's builder methods that are delegated unchanged: a list, and the macro that generates the
//! methods.

use std::ffi::OsStr;
use std::path::Path;

use super::Build;

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
