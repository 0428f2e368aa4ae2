//! From settings to objects and an archive.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{env, fs};

use super::Build;
use crate::command_line::invocation::LANGUAGES;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::outcome::Sites;
use crate::report::{FileReport, PlainReason, Report};
use crate::unit::{Context, Names, Unit};
use crate::{command_line, jobs};

/// Whether the program is built without probes.
fn is_off() -> bool {
    cfg!(feature = "off") || env::var_os("CARGO_CFG_PROBE_OFF").is_some()
}

impl Build {
    /// Compiles the files, with their sites, to the static library `lib<name>.a`, and tells cargo
    /// to link it. See [`cc::Build::compile`] for names.
    ///
    /// Warnings name the files and functions that should have sites but have none: a few lines for
    /// each file, and the number of the others. [`try_compile`](Self::try_compile) returns all of
    /// them.
    ///
    /// # Panics
    /// If the code does not compile, or for another reason of [`Error`]. A problem that only
    /// prevents sites is a warning.
    pub fn compile(&self, name: &str) -> Report {
        self.try_compile(name).unwrap_or_else(|error| panic!("lib{name}.a can't be built: {error}"))
    }

    /// Like [`compile`](Self::compile), but returns errors.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), probe_build::Error> {
    /// let report = probe_build::Build::new().file("src/parser.c").try_compile("parser")?;
    /// assert_eq!(report.left_out(), 0, "{report}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Error`].
    pub fn try_compile(&self, name: &str) -> Result<Report, Error> {
        let (objects, report) = self.try_compile_intermediates()?;
        let library = self.whole().try_create_archive(name, objects)?;
        cc::try_emit_link_directives(self.whole(), library)?;
        Ok(report)
    }

    /// Compiles the files to objects, in their order, without an archive.
    ///
    /// # Panics
    /// As [`compile`](Self::compile).
    pub fn compile_intermediates(&self) -> (Vec<PathBuf>, Report) {
        self.try_compile_intermediates().unwrap_or_else(|error| panic!("the objects can't be built: {error}"))
    }

    /// Like [`compile_intermediates`](Self::compile_intermediates), but returns errors.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn try_compile_intermediates(&self) -> Result<(Vec<PathBuf>, Report), Error> {
        let files = self.compile_files()?;
        let objects = files.iter().map(|file| file.object().to_owned()).collect();
        let report = Report::new(files);
        self.console.warn_of(&report);
        Ok((objects, report))
    }

    fn compile_files(&self) -> Result<Vec<FileReport>, Error> {
        let out_dir = self.out_dir.clone().or_else(|| env::var_os("OUT_DIR").map(PathBuf::from));
        let out_dir = out_dir.ok_or(Error::OutDir)?;
        fs::create_dir_all(&out_dir).map_err(Error::file(&out_dir, "create"))?;
        // An invalid pattern is an error in every configuration.
        let filter = self.exclusions.compile()?;
        let is_msvc = self.cc.try_get_compiler()?.is_like_msvc();
        let cc = self.with_include(!is_msvc && !self.is_cuda);
        let msvc = || is_msvc.then(|| PlainReason::Compiler("this is MSVC, or clang-cl".to_owned()));
        if let Some(reason) = self.asked().or_else(msvc) {
            return self.plain_files(&cc, &reason);
        }
        let compiler = cc.try_get_compiler()?.to_command();
        let arguments: Vec<_> = compiler.get_args().map(OsStr::to_owned).collect();
        if let Some(reason) = command_line::obstacle(&arguments) {
            return self.plain_files(&cc, &reason);
        }
        if cc.get_files().next().is_none() {
            // cc checks whether it is disabled, and whether there is a place for objects.
            cc.try_compile_intermediates()?;
        }
        let units = self.units(&out_dir)?;
        let mut dialects = HashMap::new();
        for extension in units.iter().map(Unit::extension).filter(|extension| LANGUAGES.contains(extension)) {
            if !dialects.contains_key(extension) {
                dialects.insert(extension.to_owned(), Dialect::query(&compiler, extension, &out_dir)?);
            }
        }
        let (sites, console) = (self.sites, self.console.clone());
        let context = Context { cc, compiler, dialects, filter, sites, console };
        self.compile_units(&context, &units)
    }

    /// Returns why this build gets no sites, as far as that is known without a compiler.
    fn asked(&self) -> Option<PlainReason> {
        let is_set = |name: &str| env::var_os(name).is_some();
        if self.sites == Sites::None {
            Some(PlainReason::Asked)
        } else if is_off() {
            Some(PlainReason::Off)
        } else if is_set("CARGO_CFG_PROBE_PORTABLE")
            || is_set("CARGO_CFG_PROBE_SEEN")
            || is_set("CARGO_CFG_MIRI")
        {
            Some(PlainReason::Portable)
        } else if self.is_cuda {
            Some(PlainReason::Compiler("this is nvcc".to_owned()))
        } else {
            None
        }
    }

    /// Returns the settings without the files, with the directory of `probe.h` as the last include
    /// directory.
    fn with_include(&self, is_gnu: bool) -> cc::Build {
        let mut cc = self.cc.clone();
        if is_gnu {
            cc.flag("-idirafter").flag(super::include());
        } else {
            cc.include(super::include());
        }
        if is_off() {
            cc.define("PROBE_OFF", None); // also disables the probes of `probe.h`
        }
        cc
    }

    /// Compiles all files as cc does.
    fn plain_files(&self, cc: &cc::Build, reason: &PlainReason) -> Result<Vec<FileReport>, Error> {
        let mut cc = cc.clone();
        let objects = cc.files(&self.files).try_compile_intermediates()?;
        let report = |(source, object)| FileReport::plain_object(source, object, reason.clone());
        Ok(self.sources().into_iter().zip(objects).map(report).collect())
    }

    /// Returns the files, each once.
    fn units(&self, out_dir: &Path) -> Result<Vec<Unit>, Error> {
        let mut names = Names::new(out_dir);
        let mut units: Vec<Unit> = Vec::new();
        for source in self.sources() {
            let stem = names.stem(&source)?;
            if !units.iter().any(|unit| unit.stem == stem) {
                units.push(Unit { source, stem });
            }
        }
        Ok(units)
    }

    /// Returns a report for each file, even for one that was given twice.
    fn compile_units(&self, context: &Context, units: &[Unit]) -> Result<Vec<FileReport>, Error> {
        let reports = jobs::run(units, |unit| context.compile(unit))?;
        let of = |source: &PathBuf| reports.iter().find(|report| report.source() == source).cloned();
        Ok(self.sources().iter().filter_map(of).collect())
    }
}
