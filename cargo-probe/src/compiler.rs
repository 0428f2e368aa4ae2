//! The compiler's wrapper: compiles a crate from a [mirror] of its files with probes.
//!
//! ```text
//! cargo ──▶ wrapper rustc --crate-name net src/lib.rs …
//!             sources ▶ functions ▶ choice ▶ insert ▶ mirror
//!             rustc … --extern __latent_probes=…, in the mirror of the folder
//!               │ fails: the functions that it blames lose their probes, and again
//!               └ fails still: the crate as it is, whose errors are the user's
//! ```
//! Errors and warnings appear once the crate's fate is known. A message that lets cargo
//! begin with other crates passes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::{env, fs};

use cargo_metadata::diagnostic::{Diagnostic, DiagnosticLevel, DiagnosticSpan};
use probe_expand::{FoundFunction, in_module_path};
use probe_lang::Selector;
use rustc_hash::FxHasher;

use crate::cargo::{COMPILER, exit_code};
use crate::choice::{Candidate, Choice, Library};
use crate::insert::{
    ALLOCATOR, ALLOCATOR_DECLARATION, DECLARATION, Insertion, RUNTIME, SYSTEM_ALLOCATOR, insert, wrap,
};
use crate::invocation::Invocation;
use crate::listing::{Listed, Listing};
use crate::mirror;
use crate::sources::{self, Source};

/// How often functions that the compiler blames lose their probes.
const MAX_ROUNDS: usize = 10;
/// How many of these rounds take single functions; later ones take whole files.
const ROUNDS_BY_FUNCTION: usize = 7;

/// Runs the compiler. `folder` has the choice; the first argument is the compiler.
pub fn run(folder: &Path, arguments: &[OsString]) -> io::Result<ExitCode> {
    let choice = Choice::read(folder)?;
    // Cargo puts the wrapper of all crates around that of the workspace's. Both are this program.
    let is_of_workspace =
        arguments.first().is_some_and(|it| Path::new(it).file_name().is_some_and(|name| name == COMPILER));
    let arguments = if is_of_workspace { &arguments[1..] } else { arguments };
    let Some((rustc, arguments)) = arguments.split_first() else {
        return Err(io::Error::other("the compiler is missing"));
    };
    let compiler = Compiler { choice: &choice, rustc, arguments, is_of_workspace };
    let invocation = Invocation::of(arguments);
    let Some(invocation) = invocation.filter(|it| compiler.is_chosen(it)) else {
        return Ok(exit_code(compiler.plain(arguments).status()?));
    };
    let mut unit = Unit::of(folder, &choice, &invocation, is_of_workspace)?;
    let Some(runtime) = compiler.runtime_for(&invocation) else {
        unit.give_up(&no_runtime(&invocation));
        unit.listing.write(&unit.folder)?;
        return Ok(exit_code(compiler.plain(arguments).status()?));
    };
    let mut last = None;
    for round in 0..MAX_ROUNDS {
        if !unit.write(&invocation)? {
            break;
        }
        let mut command = compiler.plain(&invocation.with_root(arguments, &unit.root));
        command.current_dir(mirror::within(&unit.mirror, &unit.home)).arg(joined(&[
            "--remap-path-prefix=".as_ref(),
            unit.mirror.as_os_str(),
            "=/".as_ref(),
        ]));
        let allocator: &[_] = if choice.memory { &runtime.allocator } else { &[] };
        let libraries = runtime.files.iter().map(|file| (RUNTIME, file));
        for (name, file) in libraries.chain(allocator.iter().map(|file| (ALLOCATOR, file))) {
            command.arg("--extern").arg(joined(&[name.as_ref(), "=".as_ref(), file.as_os_str()]));
        }
        let run = Run::of(command)?;
        if run.status.success() {
            unit.correct_files_read(&invocation)?;
            run.tell();
            return Ok(ExitCode::SUCCESS);
        }
        if unit.drop_system(&run) {
            continue;
        }
        // An error of the user's own is told by the compiler that sees the user's own files.
        if last.is_none() && run.errors().any(|error| !is_of_probe(error)) {
            let plain = Run::of(compiler.plain(arguments))?;
            if !plain.status.success() {
                plain.tell();
                return Ok(exit_code(plain.status));
            }
        }
        let is_allocators = unit.blame_allocator(&run);
        if !is_allocators && !unit.blame(&run.errors().collect::<Vec<_>>(), round >= ROUNDS_BY_FUNCTION) {
            unit.give_up(&refusal(&run));
        }
        last = Some(run);
    }
    if let Some(run) = &last {
        unit.give_up(&refusal(run));
        unit.listing.write(&unit.folder)?;
    }
    Ok(exit_code(compiler.plain(arguments).status()?))
}

fn joined(parts: &[&OsStr]) -> OsString {
    parts.iter().copied().collect()
}

struct Compiler<'a> {
    choice: &'a Choice,
    rustc: &'a OsStr,
    arguments: &'a [OsString],
    is_of_workspace: bool,
}

impl Compiler<'_> {
    /// Returns the compiler with these arguments. It finds the runtime that crates were built with.
    fn plain(&self, arguments: &[OsString]) -> Command {
        let mut command = match &self.choice.wrapper {
            Some(wrapper) => {
                let mut command = Command::new(wrapper);
                command.arg(self.rustc);
                command
            }
            None => Command::new(self.rustc),
        };
        command.args(arguments);
        if self.arguments.iter().any(|it| it == "--crate-name") {
            self.choice.runtime.add_folders_to(&mut command);
        }
        command
    }

    /// Returns whether functions of this crate get probes.
    fn is_chosen(&self, invocation: &Invocation) -> bool {
        !invocation.is_for_compiler && (self.is_of_workspace || self.choice.deps.is_some())
    }

    /// Returns the runtime for this crate, if there is one.
    fn runtime_for(&self, invocation: &Invocation) -> Option<&Library> {
        let libraries = &self.choice.runtime.libraries;
        let panic = invocation.panic.as_deref().unwrap_or("unwind");
        let fits = |it: &&Library| {
            it.panic == panic && invocation.target.as_ref().is_none_or(|target| *target == it.target)
        };
        libraries.iter().find(fits)
    }
}

/// A crate's files and functions.
struct Unit {
    /// The folder of this crate.
    folder: PathBuf,
    /// The root of the mirror.
    mirror: PathBuf,
    /// The folder of all mirrors: of all choices.
    mirrors: PathBuf,
    /// The folder in which the compiler was started.
    home: PathBuf,
    /// The root file, as the compiler is told it.
    root: PathBuf,
    sources: Vec<Source>,
    listing: Listing,
    /// The functions: number of the file, and of the function in it.
    places: Vec<(usize, usize)>,
    /// Whether its allocators get probes.
    has_allocator: bool,
    /// Whether a program gets the system's allocator. Its own ones may be under conditions that
    /// don't hold.
    has_system: bool,
}

impl Unit {
    fn of(
        folder: &Path,
        choice: &Choice,
        invocation: &Invocation,
        is_of_workspace: bool,
    ) -> io::Result<Self> {
        let home = env::current_dir()?;
        let mirrors = folder.parent().unwrap_or(folder).to_owned();
        let folder = folder.join("crates").join(invocation.unit_name());
        let mirror = folder.join("mirror");
        fs::create_dir_all(&mirror)?;
        let root = if invocation.root.is_absolute() {
            mirror::within(&mirror, &invocation.root)
        } else {
            invocation.root.clone()
        };
        let before = Listing::read(&folder).unwrap_or_default();
        let was_refused = |path: &str, text: u64| {
            before.functions.iter().find(|it| it.path == path && it.refused == Some(text))
        };
        let sources = sources::read(&invocation.root);
        let selector = if is_of_workspace { &choice.only } else { &choice.deps };
        let selector = selector.as_deref().map(Selector::parse).transpose().map_err(io::Error::other)?;
        let (mut functions, mut places, mut unread) = (Vec::new(), Vec::new(), Vec::new());
        for (file, source) in sources.iter().enumerate() {
            let name = source.path.display().to_string();
            let found = match &source.found {
                Ok(found) => found,
                Err(error) => {
                    unread.push((name, error.clone()));
                    continue;
                }
            };
            for (number, function) in found.functions.iter().enumerate() {
                let line = source.lines.line(function.name_at);
                let modules =
                    [&invocation.crate_name].into_iter().chain(&source.modules).chain(&function.modules);
                let modules = modules.map(|name| in_module_path(name, &invocation.edition));
                let path: Vec<_> = modules.chain([function.name.clone()]).collect();
                let path = path.join("::");
                let candidate =
                    Candidate { path: &path, file: &name, line: u32::try_from(line).unwrap_or(u32::MAX) };
                let refused = was_refused(&path, hash_of(source, function));
                let by_attribute = refused.is_some_and(|it| it.by_attribute);
                let reason = match () {
                    () if function.refusal.is_some() => function.refusal,
                    () if selector.as_ref().is_some_and(|it| !it.matches(&candidate)) => Some("filtered"),
                    () if !choice.all && function.too_small.is_some() => function.too_small,
                    () if source.probe(function, by_attribute).is_none() => Some("line"),
                    () => refused.and_then(|it| it.reason.as_deref()),
                };
                functions.push(Listed {
                    reason: reason.map(str::to_owned),
                    path,
                    file: name.clone(),
                    line,
                    by_attribute,
                    refused: refused.and_then(|it| it.refused),
                });
                places.push((file, number));
            }
        }
        let listing = Listing {
            krate: invocation.crate_name.clone(),
            root: invocation.root.display().to_string(),
            is_test: invocation.is_test,
            is_dependency: !is_of_workspace,
            functions,
            unread,
            has_allocator: false,
            allocator: None,
        };
        let has_allocator = choice.memory;
        let has_system = true;
        Ok(Self { folder, mirror, mirrors, home, root, sources, listing, places, has_allocator, has_system })
    }

    fn found(&self, number: usize) -> Option<(&Source, &FoundFunction)> {
        let (file, function) = *self.places.get(number)?;
        let source = self.sources.get(file)?;
        Some((source, source.found.as_ref().ok()?.functions.get(function)?))
    }

    /// Writes the mirror and the listing. Returns whether a function has a probe.
    fn write(&mut self, invocation: &Invocation) -> io::Result<bool> {
        let mut insertions: BTreeMap<usize, Vec<Insertion>> = BTreeMap::new();
        // Ahead of an attribute for the function behind an allocator.
        self.add_allocators(invocation, &mut insertions);
        for (number, listed) in self.listing.functions.iter().enumerate() {
            if listed.reason.is_none()
                && let Some((source, function)) = self.found(number)
                && let Some(insertion) = source.probe(function, listed.by_attribute)
            {
                insertions.entry(self.places[number].0).or_default().push(insertion);
            }
        }
        self.listing.write(&self.folder)?;
        if insertions.is_empty() {
            return Ok(false);
        }
        if invocation.edition == "2015"
            && let Some(root) = self.sources.first()
        {
            let allocator = if self.has_allocator { ALLOCATOR_DECLARATION } else { "" };
            let text = [DECLARATION, allocator].concat();
            insertions.entry(0).or_default().push(Insertion { at: root.text.len(), text });
        }
        // The compiler finds an included file by the name of the package's folder. In the mirror it
        // needs the mirror's, too.
        let mirror = format!("{:?}, ", self.mirror.to_string_lossy());
        let including = (0..)
            .zip(&self.sources)
            .flat_map(|(file, source)| source.in_package().map(move |(at, included)| (file, at, included)));
        for (file, at, included) in including {
            if let Some(included) = self.sources.iter().position(|it| it.path == included) {
                insertions.entry(file).or_default().push(Insertion { at, text: mirror.clone() });
                insertions.entry(included).or_default();
            }
        }
        let mut texts: BTreeMap<PathBuf, String> = insertions
            .into_iter()
            .map(|(file, insertions)| {
                let source = &self.sources[file];
                (self.home.join(&source.path), insert(&source.text, insertions))
            })
            .collect();
        // The root has to be there also if it has no function.
        if let Some(root) = self.sources.first() {
            texts.entry(self.home.join(&root.path)).or_insert_with(|| root.text.clone());
        }
        // A link to it would lead nowhere once it is taken away.
        let lock = self.home.join("Cargo.lock");
        if let Ok(text) = fs::read_to_string(&lock) {
            texts.insert(lock, text);
        }
        mirror::update(&self.mirror, &top(&self.home), &self.mirrors, &texts)?;
        Ok(true)
    }

    /// Puts probes ahead of the crate's own allocators. A program gets the system's, too, until the
    /// compiler finds two.
    fn add_allocators(&mut self, invocation: &Invocation, insertions: &mut BTreeMap<usize, Vec<Insertion>>) {
        self.listing.has_allocator = false;
        if !self.has_allocator {
            return;
        }
        let mut is_own = false;
        for (file, source) in self.sources.iter().enumerate() {
            for allocator in source.found.iter().flat_map(|found| &found.allocators) {
                is_own = true;
                insertions.entry(file).or_default().extend(wrap(&source.text, allocator));
            }
        }
        self.listing.has_allocator = is_own;
        if let Some(root) = self.sources.first().filter(|_| self.has_system && invocation.is_program) {
            let system = Insertion { at: root.text.len(), text: SYSTEM_ALLOCATOR.to_owned() };
            insertions.entry(0).or_default().push(system);
        }
    }

    /// Takes the system's allocator if the compiler says that the crate has one of its own. Returns
    /// whether it does.
    fn drop_system(&mut self, run: &Run) -> bool {
        let is_beside = self.has_allocator && self.has_system && self.listing.has_allocator;
        let has_own = is_beside && run.errors().any(|it| it.message.contains("multiple global allocators"));
        self.has_system &= !has_own;
        has_own
    }

    /// Takes the probes of the allocators if an error is about them. Returns whether one is.
    fn blame_allocator(&mut self, run: &Run) -> bool {
        let Some(root) = self.sources.first().filter(|_| self.has_allocator) else { return false };
        let last = root.lines.line(root.text.len());
        let is_behind =
            |span: &DiagnosticSpan| Path::new(&span.file_name) == root.path && span.line_start > last;
        let names = ["global allocator", "global_allocator", "__LATENT_ALLOCATOR", ALLOCATOR];
        let is_about = |it: &&Diagnostic| {
            names.iter().any(|name| it.message.contains(name)) || it.spans.iter().any(is_behind)
        };
        let all = run.lines.iter().filter_map(|(_, it)| it.as_ref());
        let mut errors = all.filter(|it| matches!(it.level, DiagnosticLevel::Error | DiagnosticLevel::Ice));
        let Some(error) = errors.find(is_about) else { return false };
        self.listing.allocator = Some(first_line(&error.message).to_owned());
        self.has_allocator = false;
        true
    }

    /// Lets cargo watch the user's files: those that the program includes from the package's folder
    /// were read from the mirror, by absolute paths.
    fn correct_files_read(&self, invocation: &Invocation) -> io::Result<()> {
        if self.sources.iter().all(|source| source.in_package().next().is_none()) {
            return Ok(());
        }
        let list = invocation.files_read();
        let Ok(text) = fs::read_to_string(&list) else { return Ok(()) };
        // As the compiler writes names with spaces.
        let mirror = self.mirror.to_string_lossy().replace(' ', "\\ ");
        let corrected = text.replace(&format!("{mirror}/"), "/");
        if corrected == text { Ok(()) } else { fs::write(list, corrected) }
    }

    /// Takes the probes of the functions that the first error names, and others of its kind. Errors
    /// of another kind may only follow from it. A probe that was a statement first becomes an
    /// attribute. Returns whether there was one.
    ///
    /// The first of these that finds a function decides: the primary places of the errors, all
    /// their places, their lines, their files. An attribute around functions has only the last.
    fn blame(&mut self, errors: &[&Diagnostic], by_file: bool) -> bool {
        let Some(first) = errors.first().map(|it| kind(it)) else { return false };
        let spans: Vec<_> = errors
            .iter()
            .filter(|it| kind(it) == first)
            .flat_map(|error| {
                error.spans.iter().map(|span| (span.is_primary, outermost(span), &error.message))
            })
            .collect();
        let at = |(_, span, message): &(bool, &DiagnosticSpan, &String)| {
            Some((self.function_at(&span.file_name, span.line_start)?, first_line(message).to_owned()))
        };
        let within = |lines: fn(&DiagnosticSpan) -> RangeInclusive<usize>| {
            let functions = spans.iter().flat_map(|(_, span, message)| {
                let functions = self.functions_within(&span.file_name, lines(span));
                functions.map(|number| (number, first_line(message).to_owned()))
            });
            functions.collect()
        };
        let mut blamed = BTreeMap::new();
        if !by_file {
            blamed = spans.iter().filter(|(is_primary, ..)| *is_primary).filter_map(at).collect();
            if blamed.is_empty() {
                blamed = spans.iter().filter_map(at).collect();
            }
            if blamed.is_empty() {
                blamed = within(|span| span.line_start..=span.line_end);
            }
        }
        if blamed.is_empty() {
            blamed = within(|_| 0..=usize::MAX);
        }
        for (number, message) in &blamed {
            let Some((source, function)) = self.found(*number) else { continue };
            let text = hash_of(source, function);
            let attribute = source.probe(function, true);
            let is_other = attribute.is_some() && attribute != source.probe(function, false);
            let listed = &mut self.listing.functions[*number];
            listed.refused = Some(text);
            if is_other && !by_file && !listed.by_attribute {
                listed.by_attribute = true;
            } else {
                listed.reason = Some(format!("the compiler refuses it: {message}"));
            }
        }
        !blamed.is_empty()
    }

    /// Returns the functions with a probe that have one of these lines.
    fn functions_within(&self, file: &str, lines: RangeInclusive<usize>) -> impl Iterator<Item = usize> {
        let has = move |number: &usize| {
            let Some((source, function)) = self.found(*number) else { return false };
            let (Some([_, end]), true) = (function.body, source.path == Path::new(file)) else {
                return false;
            };
            let begin = function.attributes.first().map_or(function.begin, |[begin, _]| *begin);
            source.lines.line(begin) <= *lines.end() && *lines.start() <= source.lines.line(end)
        };
        (0..self.places.len()).filter(|number| self.listing.functions[*number].reason.is_none()).filter(has)
    }

    /// Returns the innermost function with a probe at a line.
    fn function_at(&self, file: &str, line: usize) -> Option<usize> {
        self.functions_within(file, line..=line)
            .max_by_key(|number| self.found(*number).map(|(_, function)| function.begin))
    }

    /// Takes all probes that are left.
    fn give_up(&mut self, reason: &str) {
        for listed in &mut self.listing.functions {
            listed.reason.get_or_insert_with(|| reason.to_owned());
        }
    }
}

/// Returns why a crate has no probes, whichever of them is wrong.
fn refusal(run: &Run) -> String {
    let error = run.errors().next().map_or("the compiler failed", |it| first_line(&it.message));
    format!("the compiler refuses the crate with probes: {error}")
}

/// Returns why a crate has no runtime.
fn no_runtime(invocation: &Invocation) -> String {
    match &invocation.target {
        Some(target) => format!("built for {target}, by cargo's settings; give --target {target}"),
        None => "built with panics that neither unwind nor abort".to_owned(),
    }
}

/// Returns what errors of one kind share: the code, or else the message.
fn kind(error: &Diagnostic) -> &str {
    error.code.as_ref().map_or(&error.message, |it| &it.code)
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Returns a hash of a function's text, from its first token to its closing brace.
fn hash_of(source: &Source, function: &FoundFunction) -> u64 {
    let end = function.body.map_or(function.name_at, |[_, end]| end);
    let mut hasher = FxHasher::default();
    source.text[function.begin..end].hash(&mut hasher);
    hasher.finish()
}

/// Returns the highest folder whose entries a file here may name: that of the repository, or of the
/// workspace, in which cargo starts the compiler.
fn top(home: &Path) -> PathBuf {
    home.ancestors().find(|folder| folder.join(".git").exists()).unwrap_or(home).to_owned()
}

/// Returns the place in the user's text that a span comes from.
fn outermost(span: &DiagnosticSpan) -> &DiagnosticSpan {
    match &span.expansion {
        Some(expansion) => outermost(&expansion.span),
        None => span,
    }
}

/// Returns whether an error comes from a probe's own code.
fn is_of_probe(error: &Diagnostic) -> bool {
    fn names_runtime(span: &DiagnosticSpan) -> bool {
        span.expansion
            .as_ref()
            .is_some_and(|it| it.macro_decl_name.contains(RUNTIME) || names_runtime(&it.span))
    }
    error.message.contains(RUNTIME) || error.spans.iter().any(names_runtime)
}

/// Tells cargo a line. If it is gone, nobody is there to be told.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A run of the compiler, with its messages.
struct Run {
    status: ExitStatus,
    /// Its lines for people, as cargo reads them, and as diagnostics.
    lines: Vec<(String, Option<Diagnostic>)>,
}

impl Run {
    fn of(mut command: Command) -> io::Result<Self> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let mut lines = Vec::new();
        if let Some(stderr) = child.stderr.take() {
            for line in BufReader::new(stderr).lines() {
                let line = line?;
                if line.starts_with('{') && line.contains("\"$message_type\":\"artifact\"") {
                    // Cargo begins with crates that only need this file.
                    tell(&line);
                } else {
                    let diagnostic = serde_json::from_str(&line).ok();
                    lines.push((line, diagnostic));
                }
            }
        }
        Ok(Self { status: child.wait()?, lines })
    }

    fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.lines.iter().filter_map(|(_, it)| it.as_ref()).filter(|it| {
            matches!(it.level, DiagnosticLevel::Error | DiagnosticLevel::Ice) && !it.spans.is_empty()
        })
    }

    fn tell(&self) {
        let mut told = BTreeSet::new();
        for (line, diagnostic) in &self.lines {
            if diagnostic.as_ref().is_none_or(|it| !is_of_probe(it)) && told.insert(line) {
                tell(line);
            }
        }
    }
}
