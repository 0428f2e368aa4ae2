//! The files of a build, and the names of their objects. A file becomes an object with sites
//! (`placing`), or the plain one that cc makes.
//!
//! The compiler's output is held back until it is known which object results. cc itself reports the
//! messages of a plain object. So a mistake in the user's code is reported once, in cc's words.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::console::Console;
use crate::dialect::Dialect;
use crate::error::Error;
use crate::filter::Filter;
use crate::outcome::Sites;
use crate::placing::{Placing, UnitFiles, package};
use crate::report::{FileReport, PlainReason};

/// One file to compile.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    /// The source, as it was given.
    pub(crate) source: PathBuf,
    /// The path of the files made from it, without an extension.
    pub(crate) stem: PathBuf,
}

impl Unit {
    /// Returns the source's extension; empty if it has none.
    pub(crate) fn extension(&self) -> &str {
        self.source.extension().and_then(OsStr::to_str).unwrap_or_default()
    }
}

/// The paths of the files made from one source, without an extension.
///
/// A name consists of a hash of the source's path and the source's name, so files of the same name
/// in two folders have separate objects. The hash covers the path within the package, or within
/// `OUT_DIR`, so that it is the same on every machine.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    out_dir: &'a Path,
    roots: Vec<(&'static str, PathBuf)>,
    taken: HashMap<String, PathBuf>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(out_dir: &'a Path) -> Self {
        let root = |name| env::var_os(name).map(|value| (name, PathBuf::from(value)));
        Self {
            out_dir,
            roots: ["OUT_DIR", "CARGO_MANIFEST_DIR"].into_iter().filter_map(root).collect(),
            taken: HashMap::new(),
        }
    }

    /// Returns the stem for this source. Equal paths have equal stems, and different paths
    /// different ones.
    pub(crate) fn stem(&mut self, source: &Path) -> Result<PathBuf, Error> {
        let Some(name) = source.file_name() else { return Err(Error::Source(source.to_owned())) };
        let name = name.to_string_lossy().replace('.', "-");
        let inside = |(root, path): &(&'static str, PathBuf)| Some((*root, source.strip_prefix(path).ok()?));
        let (root, path) = self.roots.iter().find_map(inside).unwrap_or(("", source));
        let mut hash = fnv(&[root.as_bytes(), b"\0", path.as_os_str().as_encoded_bytes()].concat());
        loop {
            let stem = format!("{hash:016x}-{name}");
            match self.taken.entry(stem) {
                Entry::Vacant(entry) => {
                    let stem = self.out_dir.join(entry.key());
                    entry.insert(source.to_owned());
                    return Ok(stem);
                }
                Entry::Occupied(entry) if entry.get() == source => return Ok(self.out_dir.join(entry.key())),
                Entry::Occupied(_) => hash = hash.wrapping_add(1),
            }
        }
    }
}

/// Computes FNV-1a, which is small, and the same in every run.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The settings that all units share.
#[derive(Debug)]
pub(crate) struct Context {
    /// All settings but the files.
    pub(crate) cc: cc::Build,
    /// The compiler with its arguments, without files.
    pub(crate) compiler: Command,
    /// The dialect of each extension.
    pub(crate) dialects: HashMap<String, Result<Dialect, PlainReason>>,
    pub(crate) filter: Filter,
    pub(crate) sites: Sites,
    pub(crate) console: Console,
}

impl Context {
    /// Makes the object of a unit.
    pub(crate) fn compile(&self, unit: &Unit) -> Result<FileReport, Error> {
        match self.place(unit)? {
            Ok(report) => Ok(report),
            Err(reason) => Ok(FileReport::plain_object(unit.source.clone(), self.plain(unit)?, reason)),
        }
    }

    /// Compiles the unit as cc does.
    fn plain(&self, unit: &Unit) -> Result<PathBuf, Error> {
        let mut cc = self.cc.clone();
        let objects = cc.file(&unit.source).try_compile_intermediates()?;
        // The last one: `configure_cc` may have added files.
        objects.into_iter().next_back().ok_or_else(|| Error::Source(unit.source.clone()))
    }

    /// Makes the object with sites.
    fn place(&self, unit: &Unit) -> Result<Result<FileReport, PlainReason>, Error> {
        let dialect = match self.dialects.get(unit.extension()) {
            Some(Ok(dialect)) => dialect,
            Some(Err(reason)) => return Ok(Err(reason.clone())),
            None => return Ok(Err(PlainReason::Language(unit.extension().to_owned()))),
        };
        let files = UnitFiles::of(&unit.stem);
        let package = package();
        let placing = Placing {
            compiler: &self.compiler,
            dialect,
            filter: &self.filter,
            sites: self.sites,
            package: &package,
            folder: "",
            is_linked: false,
            stderr: None,
        };
        let placed = match placing.object(&unit.source, &files)? {
            Ok(placed) => placed,
            Err(reason) => return Ok(Err(reason)),
        };
        self.console.forward(&placed.compile, &placed.compiled);
        if !self.saves_temporaries() {
            files.remove();
        }
        Ok(Ok(FileReport::placed(unit.source.clone(), files.object, placed.functions)))
    }

    fn saves_temporaries(&self) -> bool {
        let is_such = |argument: &OsStr| argument.as_encoded_bytes().starts_with(b"-save-temps");
        self.compiler.get_args().any(is_such)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_stable() {
        let mut names = Names { out_dir: Path::new("/out"), roots: Vec::new(), taken: HashMap::new() };
        let mut stem = |source: &str| names.stem(Path::new(source)).unwrap();
        let all = ["a/x.c", "b/x.c", "a/x.cpp", "/a/x.c", "../a/x.c", "a/y.c"].map(&mut stem);
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{all:?}");
            assert_eq!(one.parent(), Some(Path::new("/out")));
            assert_eq!(one.extension(), None);
        }
        assert_eq!(stem("a/x.c"), all[0]);
        assert_eq!(all[5], Path::new("/out/3ccbf5609fddac05-y-c"));
        assert!(matches!(names.stem(Path::new("..")), Err(Error::Source(_))));
    }

    #[test]
    fn a_package_may_lie_anywhere() {
        let names = |root: &str| Names {
            out_dir: Path::new("out"),
            roots: vec![("CARGO_MANIFEST_DIR", root.into())],
            taken: HashMap::new(),
        };
        let here = names("/here").stem(Path::new("/here/src/a.c")).unwrap();
        let there = names("/there").stem(Path::new("/there/src/a.c")).unwrap();
        assert_eq!(here, there);
        // A relative path is not the package's path.
        assert_ne!(names("/here").stem(Path::new("src/a.c")).unwrap(), here);
    }
}
