//! Compiles and links a code base, once for each way and each state of the inputs.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command};

use probe_build::Sites;

use super::accounts::{self, Account};
use super::counters;
use super::{CodeBase, Loaded, Way};
use crate::fixture::TARGET;

/// A code base that has been built.
#[derive(Clone, Debug)]
pub struct Built {
    /// How.
    pub way: Way,
    /// The shared library.
    pub library: PathBuf,
    /// The objects that it was linked from.
    pub objects: Vec<PathBuf>,
    /// What `probe_build` said of each function.
    pub accounts: Vec<Account>,
    /// How many counters it has.
    pub(super) counted: usize,
}

impl Built {
    /// Loads it.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn load(&self) -> Loaded {
        Loaded::new(self.clone())
    }

    /// The same code in a file of its own, so that it can be loaded once more.
    ///
    /// # Panics
    /// If there can be no such file.
    #[must_use]
    pub fn copy(&self, name: &str) -> Self {
        let library = self.library.with_file_name(format!("{name}.so"));
        fs::copy(&self.library, &library).expect("a file beside the library");
        Self { library, ..self.clone() }
    }
}

const LIBRARY: &str = "lib.so";
const ACCOUNTS: &str = "accounts";

/// Builds it in a folder of this process's own, which then gets the name that others look for.
pub(super) fn build(base: &CodeBase, root: &Path, way: Way) -> Built {
    let package = base.folder();
    let key = key(base, &package, way);
    let folder = root.join("real").join(format!("{}-{}-{key:016x}", base.name, way.name()));
    let _alone = turn(&folder);
    if !folder.join(LIBRARY).is_file() {
        let own = folder.with_extension(process::id().to_string());
        fs::create_dir_all(&own).expect("a folder for the objects");
        let (objects, accounts) = compile(base, &package, &own, way);
        link(base, &own, &objects, way);
        accounts::write(&own.join(ACCOUNTS), &accounts);
        fs::rename(&own, &folder).expect("no other build has the turn");
    }
    let mut objects = Vec::new();
    objects_below(&folder, &mut objects);
    objects.sort();
    let counted = if way == Way::Counted { base.counted.len() } else { 0 };
    Built {
        way,
        library: folder.join(LIBRARY),
        objects,
        accounts: accounts::read(&folder.join(ACCOUNTS)),
        counted,
    }
}

/// Waits until no other thread builds the same folder, in this process or in another. The lock goes
/// with the file.
fn turn(folder: &Path) -> File {
    fs::create_dir_all(folder.parent().expect("the folder of all builds")).expect("a folder for builds");
    let file = File::create(folder.with_extension("lock")).expect("a file for the lock");
    // SAFETY: an open descriptor; nothing else is passed.
    assert_eq!(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }, 0, "{}", io::Error::last_os_error());
    file
}

/// Hashes everything that a build depends on: the compiler, the sources, the way, and the text of
/// this crate and `probe_build`.
fn key(base: &CodeBase, package: &Path, way: Way) -> u64 {
    let mut key = DefaultHasher::new();
    let compiler =
        compiler(base, Path::new("/"), way).to_command().arg("--version").output().expect("a C compiler");
    (compiler.stdout, package, format!("{base:?}"), way.name(), include_str!("build.rs")).hash(&mut key);
    (include_str!("counters.rs"), fs::read(base.workload).expect("the workload")).hash(&mut key);
    if Way::PROBED.contains(&way) {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
        include_str!("accounts.rs").hash(&mut key);
        hash_files(&tests.with_file_name("probe-build"), &mut key);
    }
    key.finish()
}

fn hash_files(folder: &Path, key: &mut DefaultHasher) {
    let entries = fs::read_dir(folder).expect("a folder of this repository");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash_files(&path, key);
        } else {
            fs::read(&path).expect("a file of this repository").hash(key);
        }
    }
}

const fn opt_level(base: &CodeBase, way: Way) -> u32 {
    match way {
        Way::Counted => 0,
        Way::EntryReturn | Way::InstrumentFunctions | Way::Hooks => base.opt_level,
        _ => 2,
    }
}

/// Says the same to `cc` and to `probe_build`, which has its methods.
macro_rules! configured {
    ($build:expr, $base:expr, $out:expr, $way:expr) => {{
        let mut build = $build;
        build
            .target(TARGET)
            .host(TARGET)
            .opt_level(opt_level($base, $way))
            .debug(false)
            .pic(true)
            .warnings(false);
        build.out_dir($out).cargo_metadata(false).cpp($base.is_cpp).flag("-fvisibility=hidden");
        for flag in $base.flags {
            build.flag(flag);
        }
        build
    }};
}

fn compiler(base: &CodeBase, out: &Path, way: Way) -> cc::Tool {
    configured!(cc::Build::new(), base, out, way).get_compiler()
}

fn compile(base: &CodeBase, package: &Path, out: &Path, way: Way) -> (Vec<PathBuf>, Vec<Account>) {
    let includes = base.includes.iter().map(|it| package.join(it));
    let mut files: Vec<_> = base.files.iter().map(|it| package.join(it)).collect();
    if way == Way::Counted {
        files = counting_files(base, package, out);
    }
    files.push(base.workload.into());
    let sites = match way {
        Way::EntryReturn => Sites::EntryReturn,
        Way::InstrumentFunctions => Sites::InstrumentFunctions,
        _ => {
            let mut build = configured!(cc::Build::new(), base, out, way);
            if matches!(way, Way::EmptyHooks | Way::Hooks) {
                build.flag("-finstrument-functions");
            }
            if way == Way::Hooks {
                // Files and lines are read from there.
                build.flag("-g1");
            }
            let objects = build.files(files).includes(includes).try_compile_intermediates();
            return (
                objects.unwrap_or_else(|error| panic!("{} does not compile: {error}", base.name)),
                Vec::new(),
            );
        }
    };
    let mut build = configured!(probe_build::Build::new(), base, out, way);
    let result = build.files(files).includes(includes).sites(sites).try_compile_intermediates();
    let (objects, report) = result.unwrap_or_else(|error| panic!("{} does not compile: {error}", base.name));
    (objects, accounts::of(&report))
}

/// The sources, those that are counted in as copies, and the counters.
fn counting_files(base: &CodeBase, package: &Path, out: &Path) -> Vec<PathBuf> {
    let definition = out.join("counters.c");
    fs::write(&definition, counters::definition(base.counted.len())).expect("a file for the counters");
    let copy = |file: &&'static str| {
        let source = package.join(file);
        let counted: Vec<_> = base.counted.iter().enumerate().filter(|(_, it)| it.file == *file).collect();
        if counted.is_empty() {
            return source;
        }
        let text = fs::read_to_string(&source).expect("a source that is text");
        let copy = out.join(source.file_name().expect("a file has a name"));
        fs::write(&copy, counters::counting(&text, &counted)).expect("a file for the copy");
        copy
    };
    base.files.iter().map(copy).chain([definition]).collect()
}

/// Links a library that exports the workload, and the counters if it has any.
fn link(base: &CodeBase, folder: &Path, objects: &[PathBuf], way: Way) {
    let exports = folder.join("exports");
    let text = format!("{{ global: workload; {}; local: *; }};\n", counters::NAME);
    fs::write(&exports, text).expect("a file for the linker");
    let mut command = compiler(base, folder, way).to_command();
    command.args(["-shared", "-o"]).arg(folder.join(LIBRARY)).args(objects);
    if way == Way::EmptyHooks {
        let hooks = folder.join("hooks.c");
        fs::write(&hooks, EMPTY_HOOKS).expect("a file for the hooks");
        command.arg(hooks);
    }
    if way != Way::Hooks {
        // There, the hooks are the program's.
        command.arg("-Wl,-z,defs");
    }
    run(command.args(base.libraries).arg(format!("-Wl,--version-script={}", exports.display())));
}

const EMPTY_HOOKS: &str = "\
#ifdef __cplusplus
#define HOOK extern \"C\" __attribute__((no_instrument_function)) void
#else
#define HOOK __attribute__((no_instrument_function)) void
#endif
HOOK __cyg_profile_func_enter(void *function, void *caller) {}
HOOK __cyg_profile_func_exit(void *function, void *caller) {}
";

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn objects_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder of a build") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            objects_below(&path, found);
        } else if path.extension().is_some_and(|it| it == "o") {
            found.push(path);
        }
    }
}
