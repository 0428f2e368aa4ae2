//! Building the fixture programs of the linker matrix and of the codegen test.
//!
//! A nested cargo builds a fixture workspace (`tests/link`, `tests/codegen`) with the flags under
//! test. It uses the outer workspace's lock file, so it resolves and downloads nothing. `--target`
//! keeps the flags away from build scripts and procedural macros, so cargo compiles these once for
//! all configurations. Each configuration has its own folder for programs. The configurations of
//! all workspaces share the intermediate files, so that equal ones compile the runtime once.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, PoisonError};

use crate::nested::{self, cargo};
use crate::whole;

pub mod site_table;
pub mod stapsdt;
pub mod transcript;

/// The target that the fixtures are built for.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The linker of a fixture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linker {
    /// The toolchain's own, the default since Rust 1.90.
    Lld,
    /// GNU ld, also called bfd.
    Gnu,
    /// GNU gold.
    Gold,
    /// mold.
    Mold,
}

impl Linker {
    /// Returns the flag for the compiler, unless it is the toolchain's own.
    fn flag(self) -> Option<&'static str> {
        match self {
            Self::Lld => None,
            Self::Gnu => Some("-Clink-arg=-fuse-ld=bfd"),
            Self::Gold => Some("-Clink-arg=-fuse-ld=gold"),
            Self::Mold => Some("-Clink-arg=-fuse-ld=mold"),
        }
    }

    /// Returns whether it is here.
    #[must_use]
    pub fn is_there(self) -> bool {
        let name = self.flag().and_then(|flag| flag.rsplit_once('='));
        name.is_none_or(|(_, name)| Command::new(format!("ld.{name}")).arg("--version").output().is_ok())
    }
}

/// The part of a fixture that is optimised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Optimised {
    /// A debug build.
    Nothing,
    /// The packages of the workspace.
    Program,
    /// A release build.
    All,
}

/// One configuration of a fixture workspace.
#[derive(Clone, Debug)]
pub struct Configuration {
    root: PathBuf,
    workspace: PathBuf,
    name: &'static str,
    linker: Linker,
    compiler: Option<&'static str>,
    optimised: Optimised,
    settings: Vec<(&'static str, &'static str)>,
    flags: Vec<&'static str>,
    program_flags: Vec<&'static str>,
    features: Vec<&'static str>,
    has_default_features: bool,
    has_shared_libraries: bool,
}

impl Configuration {
    /// Creates a debug build of `tests/<workspace>`, linked by lld. An absolute `workspace` may lie
    /// elsewhere. `root` is the test's `CARGO_TARGET_TMPDIR`; `name` identifies the configuration.
    pub fn new(root: &str, workspace: impl Into<PathBuf>, name: &'static str) -> Self {
        Self {
            root: root.into(),
            workspace: workspace.into(),
            name,
            linker: Linker::Lld,
            compiler: None,
            optimised: Optimised::Nothing,
            settings: Vec::new(),
            flags: Vec::new(),
            program_flags: Vec::new(),
            features: Vec::new(),
            has_default_features: true,
            has_shared_libraries: false,
        }
    }

    /// Links with this linker.
    #[must_use]
    pub fn linker(mut self, linker: Linker) -> Self {
        self.linker = linker;
        self
    }

    /// Builds with the release profile.
    #[must_use]
    pub fn release(mut self) -> Self {
        self.optimised = Optimised::All;
        self
    }

    /// Changes one setting of the profile, named as in cargo's environment, such as `LTO`.
    #[must_use]
    pub fn setting(mut self, key: &'static str, value: &'static str) -> Self {
        self.settings.push((key, value));
        self
    }

    /// Lets clippy's driver compile the fixture's own packages, if there is one. It makes the same
    /// programs as rustc, and refuses those lints of clippy that the sources deny.
    #[must_use]
    pub fn linted(mut self) -> Self {
        self.compiler = Some("clippy-driver").filter(|driver| {
            let output = Command::new(driver).arg("--version").output();
            output.is_ok_and(|output| output.status.success())
        });
        if self.compiler.is_none() {
            println!("left out: lints, since there is no clippy-driver");
        }
        self
    }

    /// Adds flags to `RUSTFLAGS`.
    #[must_use]
    pub fn flags(mut self, flags: &[&'static str]) -> Self {
        self.flags.extend(flags);
        self
    }

    /// Adds flags for the program alone. Cargo does not recompile its dependencies for them.
    #[must_use]
    pub fn flags_of_program(mut self, flags: &[&'static str]) -> Self {
        self.program_flags.extend(flags);
        self
    }

    /// Switches on features of the package that is built.
    #[must_use]
    pub fn features(mut self, features: &[&'static str]) -> Self {
        self.features.extend(features);
        self
    }

    /// Switches off the default features of the package that is built.
    #[must_use]
    pub fn no_default_features(mut self) -> Self {
        self.has_default_features = false;
        self
    }

    /// Builds as with the release profile, but leaves all that is not in the workspace unoptimised,
    /// with the runtime: it takes most of the time to compile. The program's own sites and inlined
    /// code are optimised. The whole tests optimise everything: see `whole`.
    #[must_use]
    pub fn release_on_plain_runtime(mut self) -> Self {
        self.optimised = if whole::is_asked_for() { Optimised::All } else { Optimised::Program };
        self
    }

    /// Keeps the intermediate files of each linker apart: names of shared libraries have no hash.
    #[must_use]
    pub fn with_shared_libraries(mut self) -> Self {
        self.has_shared_libraries = true;
        self
    }

    /// Whether the program is optimised.
    pub fn is_release(&self) -> bool {
        self.optimised != Optimised::Nothing
    }

    /// Builds one package and its dependencies.
    ///
    /// # Panics
    /// If the build fails; the message has the configuration and cargo's output.
    pub fn build(&self, package: &str) -> Built {
        self.require_linker();
        let verb = if self.own_flags().is_empty() { "build" } else { "rustc" };
        self.run_cargo(verb, package, TARGET);
        let (dir, profile) = self.directories();
        Built { dir: dir.join(TARGET).join(profile), description: self.description() }
    }

    /// Checks one package and its dependencies, for any target whose `core` is installed.
    ///
    /// # Panics
    /// If the check fails; the message has the configuration and cargo's output.
    pub fn check(&self, package: &str, target: &str) {
        self.run_cargo("check", package, target);
    }

    /// Runs clippy on one package and on its dependencies in the same workspace.
    ///
    /// # Panics
    /// If clippy finds a denied lint; the message has the configuration and clippy's output.
    pub fn lint(&self, package: &str) {
        self.run_cargo("clippy", package, TARGET);
    }

    /// Returns names and versions of a package's run-time dependencies, the package itself first.
    /// Procedural macros and their dependencies are left out.
    ///
    /// # Panics
    /// If `cargo tree` fails.
    pub fn dependencies(&self, package: &str) -> Vec<String> {
        let mut cargo = cargo(&self.prepared_workspace(), "tree");
        cargo.args(["--offline", "--edges=normal,no-proc-macro", "--prefix=none", "--format={p}"]);
        cargo.args(["--package", package, "--target", TARGET]).args(self.chosen_features());
        let output = cargo.output().expect("cargo runs");
        assert!(
            output.status.success(),
            "the tree of {package}, {}:\n{}",
            self.description(),
            text(&output.stderr)
        );
        let packages = text(&output.stdout);
        packages.lines().map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect()
    }

    fn chosen_features(&self) -> Vec<String> {
        let mut arguments = vec![format!("--features={}", self.features.join(","))];
        arguments.extend((!self.has_default_features).then(|| "--no-default-features".to_owned()));
        arguments
    }

    fn prepared_workspace(&self) -> PathBuf {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join(&self.workspace);
        lend_lock_file(&workspace);
        workspace
    }

    fn run_cargo(&self, verb: &str, package: &str, target: &str) {
        let mut cargo = cargo(&self.prepared_workspace(), verb);
        cargo.args(["--offline", "--target", target, "--package", package]);
        cargo.args(self.chosen_features());
        self.choose_profile(&mut cargo);
        cargo
            .env("CARGO_ENCODED_RUSTFLAGS", self.rustflags().join("\x1f"))
            .env("CARGO_TARGET_DIR", self.directories().0)
            .env("CARGO_BUILD_BUILD_DIR", self.build_dir());
        if let Some(compiler) = self.compiler {
            // As `cargo clippy -- -Aclippy::all` passes it on: only what the sources ask for.
            cargo
                .env("RUSTC_WORKSPACE_WRAPPER", compiler)
                .env("CLIPPY_ARGS", "-Aclippy::all__CLIPPY_HACKERY__");
        }
        if verb == "rustc" {
            // Flags are for one target, and not for the package's library, if it has one.
            cargo.args(["--bins", "--"]).args(self.own_flags());
        }
        let output = cargo.output().expect("cargo runs");
        assert!(
            output.status.success(),
            "{verb} of {package} for {target} fails, {}:\n{}",
            self.description(),
            text(&output.stderr)
        );
    }

    fn choose_profile(&self, cargo: &mut Command) {
        let profile = match self.optimised {
            Optimised::All => {
                cargo.arg("--release");
                // Macros and build scripts would inherit these from the program's profile.
                for setting in ["debug=0", "codegen-units=256"] {
                    cargo.arg(format!("--config=profile.release.build-override.{setting}"));
                }
                "RELEASE"
            }
            Optimised::Program => {
                // Those of a release build. All else is compiled as in debug builds, so just once.
                for setting in ["opt-level=3", "codegen-units=16", "debug=0"] {
                    cargo.arg(format!("--config=profile.dev.{setting}"));
                }
                cargo.arg("--config=profile.dev.package.\"*\".opt-level=0");
                for check in ["debug-assertions", "overflow-checks"] {
                    cargo.arg(format!("--config=profile.dev.{check}=false"));
                    for part in ["package.\"*\"", "build-override"] {
                        cargo.arg(format!("--config=profile.dev.{part}.{check}=true"));
                    }
                }
                "DEV"
            }
            Optimised::Nothing => "DEV",
        };
        for (key, value) in &self.settings {
            cargo.env(format!("CARGO_PROFILE_{profile}_{key}"), value);
        }
    }

    fn rustflags(&self) -> Vec<&str> {
        let mut flags = self.flags.clone();
        // The linker also links each of the program's own shared libraries.
        flags.extend(self.flag_of_linker().filter(|_| self.has_shared_libraries));
        flags
    }

    fn flag_of_linker(&self) -> Option<&'static str> {
        self.linker.flag()
    }

    /// Returns the flags for the program alone.
    fn own_flags(&self) -> Vec<&'static str> {
        let linker = self.flag_of_linker().filter(|_| !self.has_shared_libraries);
        self.program_flags.iter().copied().chain(linker).collect()
    }

    fn build_dir(&self) -> PathBuf {
        let name = match (self.has_shared_libraries, self.linker) {
            (false, _) | (true, Linker::Lld) => "build",
            (true, Linker::Gnu) => "build-gnu",
            (true, Linker::Gold) => "build-gold",
            (true, Linker::Mold) => "build-mold",
        };
        self.root.join(name)
    }

    /// Returns the folder for the programs, and the profile's folder inside of it.
    fn directories(&self) -> (PathBuf, &'static str) {
        let profile = if self.optimised == Optimised::All { "release" } else { "debug" };
        (self.root.join(&self.workspace).join(self.name), profile)
    }

    fn description(&self) -> String {
        let Self { workspace, name, optimised, settings, features, .. } = self;
        format!(
            "configuration {name} of {} (optimised: {optimised:?}, profile: {settings:?}, features: {features:?}, \
             flags: {:?}, the program's: {:?})",
            workspace.display(),
            self.rustflags(),
            self.own_flags()
        )
    }

    fn require_linker(&self) {
        let (is_there, linker) = (self.linker.is_there(), self.linker);
        assert!(is_there, "{} needs a linker that is not in PATH: {linker:?}", self.description());
    }
}

/// Copies the outer workspace's lock file to a fixture workspace, once per process. Cargo removes
/// unneeded entries here, before concurrent builds would each try to.
fn lend_lock_file(workspace: &Path) {
    static LENT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    if !lent.insert(workspace.to_owned()) {
        return;
    }
    nested::lend_lock_file(workspace);
    let output = cargo(workspace, "metadata").args(["--offline", "--format-version", "1"]).output();
    let output = output.expect("cargo runs");
    assert!(output.status.success(), "the fixtures' lock file:\n{}", text(&output.stderr));
}

/// A configuration that has been built.
#[derive(Clone, Debug)]
pub struct Built {
    dir: PathBuf,
    description: String,
}

impl Built {
    /// Returns the configuration, for messages.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the path of a program or shared library.
    pub fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// Reads a program or shared library.
    ///
    /// # Panics
    /// If the file can't be read.
    pub fn bytes(&self, file: &str) -> Vec<u8> {
        let path = self.path(file);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}, {}", path.display(), self.description))
    }

    /// Runs a program and returns its output.
    ///
    /// # Panics
    /// If it fails; the message has the configuration and what the program printed.
    pub fn run(&self, program: &str, arguments: &[&Path]) -> String {
        let mut command = Command::new(self.path(program));
        command.args(arguments).env("LD_LIBRARY_PATH", self.libraries());
        let output =
            command.output().unwrap_or_else(|error| panic!("{program}: {error}, {}", self.description));
        let Output { status, stdout, stderr } = &output;
        assert!(
            status.success(),
            "{program} ends with {status}, {}:\n{}\n{}",
            self.description,
            text(stdout),
            text(stderr)
        );
        text(stdout)
    }

    /// Returns a search path: the configuration's own shared libraries, then the toolchain's.
    fn libraries(&self) -> String {
        let rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
            .args(["--print", "target-libdir", "--target", TARGET])
            .output()
            .expect("rustc runs");
        format!("{}:{}", self.dir.display(), text(&rustc.stdout).trim())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
