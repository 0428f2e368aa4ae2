//! One compiler, its flags, a strategy: to a shared object.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use probe_build::{Build, Report, Sites};

use crate::whole;

/// The target of the sources.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Which compiler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiler {
    /// `gcc` and `g++`, with GNU ld.
    Gcc,
    /// `clang` and `clang++`, with lld where it is there.
    Clang,
}

/// Which of the sources.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// Those in C.
    C,
    /// Those in C++.
    Cpp,
}

/// The builds that tests play: each compiler that is there with each language and each strategy. A
/// slice has each of these in one of two builds.
///
/// # Panics
/// As [`whole::is_asked_for`].
#[must_use]
pub fn builds() -> Vec<(Compiler, Language, Sites)> {
    let all = |compiler, language| {
        [Sites::EntryReturn, Sites::InstrumentFunctions].map(|sites| (compiler, language, sites))
    };
    let slice = [
        (Compiler::Gcc, Language::C, Sites::InstrumentFunctions),
        (Compiler::Clang, Language::Cpp, Sites::EntryReturn),
    ];
    let whole = Compiler::ALL.map(|it| [all(it, Language::C), all(it, Language::Cpp)].concat()).concat();
    let chosen = if whole::is_asked_for() { whole } else { slice.to_vec() };
    chosen.into_iter().filter(|(compiler, ..)| compiler.is_there()).collect()
}

impl Compiler {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Gcc, Self::Clang];

    /// The program's name.
    #[must_use]
    pub fn program(self, language: Language) -> &'static str {
        match (self, language) {
            (Self::Gcc, Language::C) => "gcc",
            (Self::Gcc, Language::Cpp) => "g++",
            (Self::Clang, Language::C) => "clang",
            (Self::Clang, Language::Cpp) => "clang++",
        }
    }

    /// Whether it is installed. If not, says so.
    #[must_use]
    pub fn is_there(self) -> bool {
        let missing =
            [Language::C, Language::Cpp].map(|it| self.program(it)).into_iter().find(|it| !is_there(it));
        if let Some(missing) = missing {
            println!("skipped: there is no `{missing}`");
        }
        missing.is_none()
    }
}

/// Whether there is a program of this name.
#[must_use]
pub fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

impl Language {
    /// The files that are under test.
    #[must_use]
    pub fn sources(self) -> &'static [&'static str] {
        match self {
            Self::C => &["values.c", "flow.c", "machine.c", "jumps.c", "linkage.c", "linkage_other.c"],
            Self::Cpp => {
                &["exceptions.cpp", "objects.cpp", "templates.cpp", "templates_other.cpp", "coroutines.cpp"]
            }
        }
    }

    /// The functions to call: one for each topic.
    #[must_use]
    pub fn scenarios(self) -> &'static [&'static str] {
        match self {
            Self::C => &["values", "flow", "machine", "jumps", "linkage"],
            Self::Cpp => &["exceptions_run", "objects_run", "templates_run", "coroutines_run"],
        }
    }
}

/// How to build.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// With which compiler.
    pub compiler: Compiler,
    /// With sites where.
    pub sites: Sites,
    /// What.
    pub language: Language,
    /// Files of `tests/c` in place of the language's own.
    pub files: Vec<&'static str>,
    /// Flags of the compiler, the level of optimisation among them.
    pub flags: Vec<&'static str>,
}

impl Recipe {
    /// Of the language's own files.
    #[must_use]
    pub fn new(compiler: Compiler, language: Language, sites: Sites, flags: &str) -> Self {
        let flags = flags.split_whitespace().map(|flag| &*flag.to_owned().leak()).collect();
        Self { compiler, sites, language, files: language.sources().to_vec(), flags }
    }

    /// Of other files.
    #[must_use]
    pub fn files(mut self, files: &[&'static str]) -> Self {
        self.files = files.to_vec();
        self
    }

    /// A name for folders and messages.
    #[must_use]
    pub fn name(&self) -> String {
        let Self { compiler, sites, language, flags, .. } = self;
        format!("{compiler:?}-{language:?}-{sites:?}{}", flags.concat()).replace(['/', '=', ','], "_")
    }

    /// Builds it into a folder under `root` that no other test uses; gives the shared object's
    /// path, and what became of each function.
    ///
    /// # Panics
    /// If it does not build.
    #[must_use]
    pub fn build(&self, root: &str) -> (PathBuf, Report) {
        let program = env::current_exe().expect("the test's own file");
        let program = program.file_stem().and_then(|name| name.to_str()).expect("a name");
        let test = thread::current().name().unwrap_or("test").replace(':', "_");
        let dir = Path::new(root)
            .join("c")
            .join(program.split('-').next().expect("a name"))
            .join(test)
            .join(self.name());
        // Remove files of an earlier version of the sources.
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a folder of this test's own");
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
        let mut build = Build::new();
        self.configure(&mut build, &dir).sites(self.sites);
        build.files(self.files.iter().map(|file| sources.join(file)));
        let (mut objects, report) =
            build.try_compile_intermediates().unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        let support = self.support(&sources, &dir);
        objects.push(support);
        let library = dir.join(format!("lib{}.so", self.name()));
        self.link(&objects, &library);
        (library, report)
    }

    fn configure<'a>(&self, build: &'a mut Build, dir: &Path) -> &'a mut Build {
        build
            .target(TARGET)
            .host(TARGET)
            .out_dir(dir)
            .opt_level(0)
            .cargo_metadata(false)
            .cargo_warnings(false);
        build
            .cpp(self.language == Language::Cpp)
            .compiler(self.compiler.program(self.language))
            .warnings(false);
        build.debug(false).pic(true).flag("-fwrapv");
        if self.language == Language::Cpp {
            build.std("c++20");
        }
        for flag in &self.flags {
            build.flag(flag);
        }
        build
    }

    /// Compiles the C code that has no sites, without sanitizers. Returns the object file.
    fn support(&self, sources: &Path, dir: &Path) -> PathBuf {
        let object = dir.join("support.o");
        let mut command = Command::new(self.compiler.program(Language::C));
        command.args(["-O1", "-fPIC", "-c", "-o"]).arg(&object).arg(sources.join("support.c"));
        succeed(&mut command);
        object
    }

    fn link(&self, objects: &[PathBuf], library: &Path) {
        let mut command = Command::new(self.compiler.program(self.language));
        command.args(["-shared", "-o"]).arg(library).args(objects).args(["-lm", "-Wl,--gc-sections"]);
        let needs_runtime = |flag: &&&str| {
            matches!(**flag, "-fsanitize=address" | "-fsanitize=thread") || flag.starts_with("-shared-lib")
        };
        command.args(self.flags.iter().filter(needs_runtime));
        // With a function's blocks in sections of their own, C++ that lld 14 has linked does not
        // find its handlers, with or without sites. GNU ld drops what lld drops if it is told to.
        let is_apart = self.flags.iter().any(|flag| flag.starts_with("-fbasic-block-sections"));
        if is_apart {
            command.args(["-fuse-ld=bfd", "-Wl,-z,start-stop-gc"]);
        } else if self.compiler == Compiler::Clang && is_there("ld.lld") {
            command.arg("-fuse-ld=lld");
        }
        succeed(&mut command);
    }
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
