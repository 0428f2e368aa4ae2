//! Third-party code bases, built in several ways, each with a workload of ours.
//!
//! [`CodeBase`] lists sources and workload ▸ [`CodeBase::build`] makes a shared library of them,
//! once for each [`Way`] and each state of the inputs; the library exports the workload alone ▸
//! [`Built::load`] loads it beside the others ▸ [`Loaded::workload`] runs and returns a digest of
//! all results, which must be the same for every way. [`accounts`] parses the report on each
//! function, [`object_file`] reads the objects, [`counters`] has the true numbers of calls.

use std::path::{Path, PathBuf};

pub mod accounts;
mod build;
mod cases;
pub mod checks;
pub mod counters;
mod known;
pub mod object_file;
pub mod workload;

pub use build::Built;
pub use known::{CLIPPER, SQLITE, ZLIB};
pub use workload::Loaded;

/// Sources of a package of the registry, and a workload.
#[derive(Clone, Copy, Debug)]
pub struct CodeBase {
    /// For folders and messages.
    pub name: &'static str,
    /// The package that bundles it; none if the workload is the whole code base.
    pub package: Option<&'static str>,
    /// The files to compile, in the package's folder.
    pub files: &'static [&'static str],
    /// Folders of headers, in the package's folder.
    pub includes: &'static [&'static str],
    /// The file of the workload.
    pub workload: &'static str,
    /// Whether this is C++.
    pub is_cpp: bool,
    /// Flags for the compiler.
    pub flags: &'static [&'static str],
    /// The level of optimisation of the builds with probes.
    pub opt_level: u32,
    /// The ways to compile it that slices of tests play: large ones take long.
    pub in_slices: &'static [Way],
    /// Libraries to link.
    pub libraries: &'static [&'static str],
    /// Prefixes of function names that the source does not have: macros or the compiler make them.
    pub made: &'static [&'static str],
    /// Functions that are never inlined; the counted build counts their calls.
    pub counted: &'static [Counted],
}

/// A function whose calls are counted by hand.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The file that defines it, one of [`CodeBase::files`].
    pub file: &'static str,
    /// Its name as the definition spells it.
    pub name: &'static str,
    /// The path of its probes.
    pub path: &'static str,
}

/// A way to compile a code base. All ways use the same compiler; all but [`Way::Counted`] optimise:
/// those with probes by [`CodeBase::opt_level`], the others by 2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Unchanged.
    Plain,
    /// With a counter in each function of [`CodeBase::counted`], in the source text. Unoptimised,
    /// so it compiles in a fifth of the time. The results of all other ways must equal its results.
    Counted,
    /// By `probe_build`, with sites at entries and returns.
    EntryReturn,
    /// By `probe_build`, with sites where the compiler calls a hook.
    InstrumentFunctions,
    /// With `-finstrument-functions`, and two empty hooks in the library.
    EmptyHooks,
    /// With `-finstrument-functions`; the hooks are the program's.
    Hooks,
}

impl Way {
    /// The ways that use `probe_build`.
    pub const PROBED: [Self; 2] = [Self::EntryReturn, Self::InstrumentFunctions];

    /// For folders and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Counted => "counted",
            Self::EntryReturn => "entry-return",
            Self::InstrumentFunctions => "instrument-functions",
            Self::EmptyHooks => "empty-hooks",
            Self::Hooks => "hooks",
        }
    }
}

impl CodeBase {
    /// A file of C that is the whole code base.
    #[must_use]
    pub const fn of_file(name: &'static str, workload: &'static str) -> Self {
        Self {
            name,
            package: None,
            files: &[],
            includes: &[],
            workload,
            is_cpp: false,
            flags: &[],
            opt_level: 2,
            in_slices: &Way::PROBED,
            libraries: &[],
            made: &[],
            counted: &[],
        }
    }

    /// Builds the code base below `root`, the `CARGO_TARGET_TMPDIR` of a test or bench. Reuses an
    /// earlier build with the same compiler, sources and `probe_build`.
    ///
    /// # Panics
    /// If the sources are unavailable, or don't compile.
    #[must_use]
    pub fn build(&self, root: &str, way: Way) -> Built {
        build::build(self, Path::new(root), way)
    }

    /// Builds the code base as [`build`](Self::build) does, and loads it.
    ///
    /// # Panics
    /// As `build`, and if the library can't be loaded.
    #[must_use]
    pub fn load(&self, root: &str, way: Way) -> Loaded {
        self.build(root, way).load()
    }

    /// Returns the folder of the package.
    fn folder(&self) -> PathBuf {
        self.package.map_or_else(PathBuf::new, crate::sources::folder_of)
    }
}
