//! Drives cargo: the compiler's wrapper, the runner of programs, and their measurement.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::{env, fs, io, path};

use cargo_metadata::{Metadata, MetadataCommand};
use probe_cli::output::Failure;
use probe_lang::Selector;

use crate::args::Build;
use crate::choice::{BUILD, CHOICES, Candidate, Choice};
use crate::listing::{FILE, Listed, Listing, meaning};
use crate::lock::{self, LockFile};
use crate::runtime::{self, Cargo, LIBRARY_VARIABLE};

/// The names under which cargo starts this program, in the folder of the choice.
pub const COMPILER: &str = "rustc-with-probes";
/// As above, for documentation tests.
pub const DOCUMENTER: &str = "rustdoc-with-probes";
/// As above, for the programs: `probectl run`.
pub const PROBECTL: &str = "probectl";

/// As above, to take `Cargo.lock` away after a kill.
pub const KEEPER: &str = "keeper";

/// The variable that names cargo's target.
const TARGET_VARIABLE: &str = "CARGO_BUILD_TARGET";

/// The measurement of the programs, and how they learn of it.
pub enum Measured {
    /// Nothing: `PROBES` is the user's.
    Nothing,
    /// The text of `PROBES`.
    Probes(String),
    /// A command of `probectl` starts them: its words before the program.
    Probectl(Vec<OsString>),
}

/// A build of the workspace with probes.
pub struct Workspace {
    cargo: Cargo,
    version: String,
    targets: Vec<String>,
    /// The folder of the choice.
    folder: PathBuf,
    /// The workspace's folder.
    root: PathBuf,
    target_folder: PathBuf,
    /// Whether cargo takes the words of a runner, and not only their text.
    takes_words: bool,
    choice: Choice,
    /// Cargo's own arguments.
    arguments: Vec<OsString>,
    /// Those of the program, with their `--`.
    program: Vec<OsString>,
}

impl Workspace {
    /// Gets ready: builds the runtime, and writes the choice.
    pub fn new(build: &Build) -> Result<Self, Failure> {
        for text in [&build.only, &build.deps].into_iter().flatten() {
            selector(text)?;
        }
        let split = build.cargo.iter().position(|it| it == "--").unwrap_or(build.cargo.len());
        let (arguments, program) = build.cargo.split_at(split);
        let arguments = if build.command().is_some() { &arguments[1..] } else { arguments };
        let is_offline = arguments.iter().any(|it| it == "--offline" || it == "--frozen");
        let cargo = Cargo::new(is_offline);
        let (version, host) = runtime::compiler()?;
        let mut targets: Vec<_> = values(arguments, "--target").collect();
        if targets.is_empty() {
            let chosen = env::var(TARGET_VARIABLE).ok().filter(|it| !it.is_empty());
            targets.push(chosen.unwrap_or(host));
        }
        let (metadata, takes_words) = metadata(&cargo, arguments, &targets)?;
        let target_folder = match values(arguments, "--target-dir").next() {
            Some(folder) => path::absolute(folder).map_err(Failure::input)?,
            None => metadata.target_directory.join(BUILD).into_std_path_buf(),
        };
        let choice = Choice {
            only: build.only.clone(),
            deps: build.deps.clone(),
            all: build.all,
            memory: build.memory,
            runtime: runtime::build(&cargo, &version, &targets)?,
            wrapper: env::var_os("RUSTC_WRAPPER").filter(|it| !it.is_empty()).map(PathBuf::from),
            documenter: env::var_os("RUSTDOC").filter(|it| !it.is_empty()).map(PathBuf::from),
        };
        let folder = target_folder.join(CHOICES).join(choice.name());
        // Cargo knows a wrapper only for crates of the workspace.
        let target_folder = if choice.deps.is_some() { folder.join("target") } else { target_folder };
        let workspace = Self {
            cargo,
            version,
            targets,
            folder,
            root: metadata.workspace_root.into_std_path_buf(),
            target_folder,
            takes_words,
            choice,
            arguments: arguments.to_vec(),
            program: program.to_vec(),
        };
        workspace
            .write()
            .map_err(|error| Failure::Input(format!("{}: {error}", workspace.folder.display())))?;
        Ok(workspace)
    }

    fn write(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        self.choice.write(&self.folder)?;
        let own = env::current_exe()?;
        for name in [COMPILER, DOCUMENTER, PROBECTL, KEEPER] {
            let link = self.folder.join(name);
            if fs::read_link(&link).is_ok_and(|to| to == own) {
                continue;
            }
            let _ = fs::remove_file(&link);
            symlink(&own, link)?;
        }
        Ok(())
    }

    /// Runs a command of cargo's.
    pub fn run(&self, command: &str, measured: &Measured) -> Result<ExitCode, Failure> {
        let mut cargo = Command::new(&self.cargo.program);
        cargo.arg(command);
        if values(&self.arguments, "--target-dir").next().is_none() {
            cargo.arg("--target-dir").arg(&self.target_folder);
        }
        if command != "build" {
            cargo.env(LIBRARY_VARIABLE, runtime::agent(&self.cargo, &self.version)?);
            self.add_runner(&mut cargo, &self.runner(measured)?)?;
        }
        cargo.args(&self.arguments).args(&self.program);
        // The first also takes the place of one in cargo's settings. An empty one would do so, but
        // then cargo asks the compiler for its version at each call.
        for variable in ["RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"] {
            cargo.env(variable, self.folder.join(COMPILER));
        }
        cargo.env("RUSTDOC", self.folder.join(DOCUMENTER));
        if let Measured::Probes(text) = measured {
            cargo.env("PROBES", text);
        }
        let mut lock = LockFile::absent(&self.root, &self.target_folder, &self.folder.join(KEEPER))
            .map_err(Failure::input)?;
        let status = lock::run(cargo, &mut lock)?;
        drop(lock);
        for note in self.notes() {
            eprintln!("note: {note}");
        }
        Ok(exit_code(status))
    }

    /// Returns a note for each selector that selects no function with a probe. Without one, it is
    /// a note if no function has a probe.
    fn notes(&self) -> Vec<String> {
        let listings = self.listings();
        let is_all = self.choice.only.is_none() && self.choice.deps.is_none();
        let mut functions = listings.iter().flat_map(|it| &it.functions).peekable();
        if is_all && functions.peek().is_some() && functions.all(|it| it.reason.is_some()) {
            return vec!["no function has a probe; see `cargo probe explain`".to_owned()];
        }
        let chosen = [("--only", &self.choice.only, false), ("--deps", &self.choice.deps, true)];
        let without = listings.iter().filter_map(|it| {
            let why = it.allocator.as_ref()?;
            let why = match why.split_once("conflicts with global allocator in: ") {
                Some((_, other)) if listings.iter().any(|it| it.krate == other && it.has_allocator) => {
                    return None;
                }
                Some((_, other)) => &format!("it is that of {other}; try --deps '{other}::**'"),
                None => why,
            };
            Some(format!("the allocator of {} has no probes: {why}", it.root))
        });
        let note = |(option, text, is_dependency): (&str, &Option<String>, bool)| {
            let text = text.as_ref()?;
            let functions = listings.iter().filter(|it| it.is_dependency == is_dependency);
            let functions: Vec<_> = functions.flat_map(|it| &it.functions).collect();
            let selector = Selector::parse(text).ok()?;
            let candidates: Vec<_> = functions.iter().map(|it| Candidate::of(it)).collect();
            let selected = || functions.iter().zip(&candidates).filter(|(_, it)| selector.matches(*it));
            if functions.is_empty() || selected().any(|(it, _)| it.reason.is_none()) {
                return None;
            }
            Some(match selected().count() {
                0 => {
                    let meant = selector.suggest(candidates.iter()).to_string();
                    format!("{option} {text} selects no function; {meant}")
                        .trim_end_matches([' ', ';'])
                        .to_owned()
                }
                _ => {
                    format!("no function that {option} {text} selects has a probe; see `cargo probe explain`")
                }
            })
        };
        chosen.into_iter().filter_map(note).chain(without).collect()
    }

    /// Tells cargo the words that start a program.
    fn add_runner(&self, cargo: &mut Command, runner: &[String]) -> Result<(), Failure> {
        let with_space = runner.iter().find(|it| it.contains(char::is_whitespace));
        if let Some(word) = with_space.filter(|_| !self.takes_words) {
            return Err(Failure::Input(format!(
                "`{word}` has a space, and cargo's settings have a `runner` that is a string; write that one as an array"
            )));
        }
        for target in &self.targets {
            if self.takes_words {
                cargo.args(["--config", &setting(target, runner)]);
            } else {
                let name = target.to_uppercase().replace('-', "_");
                cargo.env(format!("CARGO_TARGET_{name}_RUNNER"), runner.join(" "));
            }
        }
        Ok(())
    }

    /// Returns the words that start a program with an agent.
    fn runner(&self, measured: &Measured) -> Result<Vec<String>, Failure> {
        let words: Vec<OsString> = match measured {
            Measured::Probectl(words) => words.clone(),
            Measured::Nothing | Measured::Probes(_) => vec!["run".into()],
        };
        let words =
            [self.folder.join(PROBECTL).into_os_string()].into_iter().chain(words).chain(["--".into()]);
        words
            .map(|word| {
                word.into_string()
                    .map_err(|word| Failure::Input(format!("{}: cargo needs names in UTF-8", word.display())))
            })
            .collect()
    }

    /// Returns the crates of this choice, as their files are now. Those of earlier builds may have
    /// changed or gone.
    pub fn listings(&self) -> Vec<Listing> {
        let Ok(entries) = fs::read_dir(self.folder.join("crates")) else { return Vec::new() };
        let mut listings: Vec<_> =
            entries.flatten().filter_map(|entry| self.current(&entry.path())).collect();
        listings.sort_by(|a, b| (&a.krate, &a.root, a.is_test).cmp(&(&b.krate, &b.root, b.is_test)));
        listings
    }

    /// Reads the listing of a crate; `None` if one of its files is newer, or has gone.
    fn current(&self, folder: &Path) -> Option<Listing> {
        let modified = |file: &Path| fs::metadata(file).and_then(|it| it.modified()).ok();
        let listing = Listing::read(folder)?;
        let written = modified(&folder.join(FILE))?;
        let mut files: BTreeSet<_> = listing.functions.iter().map(|it| &it.file).collect();
        files.insert(&listing.root);
        let is_older = |file: &String| modified(&self.root.join(file)).is_some_and(|it| it <= written);
        let is_current = files.into_iter().all(is_older);
        is_current.then_some(listing)
    }

    /// Returns the functions of all crates, each once.
    pub fn functions(&self) -> Vec<Listed> {
        let mut seen = BTreeSet::new();
        let all = self.listings().into_iter().flat_map(|it| it.functions);
        let mut functions: Vec<_> =
            all.filter(|it| seen.insert((it.path.clone(), it.file.clone(), it.line))).collect();
        functions.sort_by(|a, b| (&a.file, a.line, &a.path).cmp(&(&b.file, b.line, &b.path)));
        functions
    }

    /// Prints the functions with a probe, or those without one and why.
    pub fn print(&self, with_probe: bool) {
        let functions = self.functions();
        let place = |it: &Listed| format!("{}:{}", it.file, it.line);
        let shown: Vec<_> = functions.iter().filter(|it| it.reason.is_none() == with_probe).collect();
        let width = shown.iter().map(|it| it.path.chars().count()).max().unwrap_or(0).min(60);
        let places = shown.iter().map(|it| place(it).chars().count()).max().unwrap_or(0).min(40);
        for it in &shown {
            let reason = it.reason.as_deref().map_or("", meaning);
            println!("{}", format!("{:width$}  {:places$}  {reason}", it.path, place(it)).trim_end());
        }
        for (file, error) in self.listings().into_iter().flat_map(|it| it.unread) {
            println!("{file}: not read as Rust: {error}");
        }
        let probed = functions.iter().filter(|it| it.reason.is_none()).count();
        eprintln!(
            "{} functions, {probed} with a probe; see {}",
            functions.len(),
            self.folder.join("crates/*").join(FILE).display()
        );
    }
}

/// Checks a selector before all that takes time.
pub fn selector(text: &str) -> Result<(), Failure> {
    Selector::parse(text).map(drop).map_err(|error| Failure::Usage(error.to_string()))
}

/// Returns the exit code of a program. As in a shell, one that a signal ended has 128 and the
/// signal's number.
pub fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(101))
}

/// Returns the values of one of cargo's options: `--target X`, `--target=X`.
fn values<'a>(arguments: &'a [OsString], option: &'a str) -> impl Iterator<Item = String> + 'a {
    let text = |it: &OsString| it.to_string_lossy().into_owned();
    arguments.iter().enumerate().filter_map(move |(at, argument)| {
        let argument = text(argument);
        if argument == option {
            return arguments.get(at + 1).map(text);
        }
        Some(argument.strip_prefix(option)?.strip_prefix('=')?.to_owned())
    })
}

/// Returns cargo's setting of the words that start programs for a target.
fn setting(target: &str, runner: &[String]) -> String {
    format!("target.{target}.runner={runner:?}")
}

/// Returns what cargo tells of the workspace, and whether it takes a runner's words. It does not if
/// its settings have a runner that is a string.
fn metadata(cargo: &Cargo, arguments: &[OsString], targets: &[String]) -> Result<(Metadata, bool), Failure> {
    let ask = |settings: Vec<String>| {
        let mut command = MetadataCommand::new();
        command.cargo_path(&cargo.program).no_deps().other_options(settings);
        if let Some(manifest) = values(arguments, "--manifest-path").next() {
            command.manifest_path(manifest);
        }
        command.exec()
    };
    let words = ["word".to_owned()];
    let settings = targets.iter().flat_map(|target| ["--config".to_owned(), setting(target, &words)]);
    if let Ok(told) = ask(settings.collect()) {
        return Ok((told, true));
    }
    let told = ask(Vec::new());
    told.map(|told| (told, false))
        .map_err(|error| Failure::Input(error.to_string().trim_start_matches("error: ").to_owned()))
}

/// Runs rustdoc for the tests in comments: it finds the runtime that the crate was built with.
pub fn document(folder: &Path, arguments: &[OsString]) -> Result<ExitCode, Failure> {
    let choice = Choice::read(folder).map_err(|error| Failure::Input(error.to_string()))?;
    let mut command = Command::new(choice.documenter.as_deref().unwrap_or(Path::new("rustdoc")));
    command.args(arguments);
    choice.runtime.add_folders_to(&mut command);
    let status = command.status().map_err(|error| {
        Failure::Input(format!("{} can't be started: {error}", command.get_program().display()))
    })?;
    Ok(exit_code(status))
}
