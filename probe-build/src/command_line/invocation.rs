//! Reads a command line of a compiler's driver: does it ask for objects that get sites, or for
//! something else, which the compiler itself does?
//!
//! Only two forms get sites: each source to an object (`-c`), and sources to a program. All others,
//! such as those with further outputs that are named after the object, are the compiler's own
//! affair.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::{WITH_VALUE, obstacle};
use crate::asm::Family;
use crate::report::PlainReason;

/// The file extensions that gcc and clang accept for C and C++.
pub(crate) const LANGUAGES: &[&str] = &["c", "i", "cc", "cp", "cxx", "cpp", "CPP", "c++", "C", "ii"];

/// A command line that makes objects from C or C++.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// The arguments without files, `-c` and `-o`.
    pub flags: Vec<OsString>,
    /// The sources, in their order.
    pub sources: Vec<PathBuf>,
    /// Where the object, or the program, comes from the sources.
    pub form: Form,
    /// The flag for optimisation while linking that the objects are compiled without.
    pub without: Option<String>,
    /// The source's language, if `-x` names it.
    pub language: Option<String>,
}

/// The output of an [`Invocation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// The objects of the sources.
    Objects(Vec<PathBuf>),
    /// A program or library. The arguments are those of the whole command, and the numbers the
    /// places of the sources in them.
    Linked(Vec<OsString>, Vec<usize>),
}

/// A command line that gets no sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// The files that it compiles or assembles.
    pub sources: Vec<PathBuf>,
    /// Why these have no sites.
    pub reason: PlainReason,
}

impl Other {
    fn new(sources: Vec<PathBuf>, what: &str) -> Self {
        Self { sources, reason: PlainReason::Command(what.to_owned()) }
    }
}

impl Invocation {
    /// Reads the arguments behind the compiler's name.
    ///
    /// # Errors
    /// [`Other`] if they ask for something else.
    pub fn read(args: &[OsString]) -> Result<Self, Other> {
        let args = expanded(args.to_vec(), 0);
        let mut reader = Reader::default();
        let mut at = 0;
        for (flag, option) in super::options(&args) {
            reader.argument(at, flag, option);
            at += option.len();
        }
        reader.finished(&args)
    }

    /// Returns the extension of an empty file in the source's language.
    pub(crate) fn extension<'a>(&self, source: &'a Path) -> &'a str {
        match self.language.as_deref() {
            Some("c++" | "c++-cpp-output") => "cpp",
            Some(_) => "c",
            None => extension(source),
        }
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(OsStr::to_str).unwrap_or_default()
}

/// The arguments, sorted.
#[derive(Default)]
struct Reader {
    flags: Vec<OsString>,
    /// Place, file, and the language that `-x` names.
    inputs: Vec<(usize, PathBuf, Option<String>)>,
    language: Option<String>,
    output: Option<OsString>,
    is_compile_only: bool,
    /// Nothing is compiled into a file.
    is_query: bool,
    writes_dependencies: bool,
    refused: Option<PlainReason>,
}

impl Reader {
    fn argument(&mut self, at: usize, flag: &str, option: &[OsString]) {
        let value = || option.get(1).cloned().unwrap_or_default();
        let bytes = option[0].as_encoded_bytes();
        if bytes == b"-" {
            self.refuse(PlainReason::Command("the source is standard input".to_owned()));
        } else if !bytes.starts_with(b"-") {
            self.inputs.push((at, PathBuf::from(&option[0]), self.language.clone()));
        } else if WITH_VALUE.contains(&flag) && option.len() == 1 {
            self.refuse(PlainReason::Command(format!("{flag} without a value")));
        } else if flag == "-c" {
            self.is_compile_only = true;
        } else if let Some(joined) = flag.strip_prefix("-o") {
            self.output = Some(if joined.is_empty() { value() } else { joined.into() });
        } else {
            if let Some(joined) = flag.strip_prefix("-x") {
                let value = value().into_string().unwrap_or_default();
                let language = if joined.is_empty() { &*value } else { joined };
                self.language = (language != "none").then(|| language.to_owned());
            } else if matches!(flag, "-E" | "-M" | "-MM" | "-fsyntax-only" | "-###") {
                self.is_query = true;
            } else if matches!(flag, "-MD" | "-MMD") || flag.starts_with("-Wp,-M") {
                self.writes_dependencies = true;
            } else if is_for_the_compiler_alone(flag) {
                self.refuse(PlainReason::Flag(flag.to_owned()));
            }
            self.flags.extend_from_slice(option);
        }
    }

    fn refuse(&mut self, reason: PlainReason) {
        self.refused.get_or_insert(reason);
    }

    fn finished(mut self, args: &[OsString]) -> Result<Invocation, Other> {
        let is_source = |(_, path, language): &&(usize, PathBuf, Option<String>)| match language {
            Some(name) => matches!(&**name, "c" | "c++" | "cpp-output" | "c++-cpp-output"),
            None => LANGUAGES.contains(&extension(path)),
        };
        let is_assembly = |(_, path, _): &&(usize, PathBuf, Option<String>)| {
            matches!(extension(path), "s" | "S" | "sx" | "asm")
        };
        let (places, sources): (Vec<_>, Vec<_>) =
            self.inputs.iter().filter(is_source).map(|(at, path, _)| (*at, path.clone())).unzip();
        if self.is_query {
            return Err(Other::new(Vec::new(), "nothing is compiled"));
        }
        if let Some(reason) = self.refused {
            return Err(Other { sources, reason });
        }
        if sources.is_empty() {
            let assembly: Vec<_> = self.inputs.iter().filter(is_assembly).map(|it| it.1.clone()).collect();
            let reason = assembly.first().map(|path| PlainReason::Language(extension(path).to_owned()));
            let reason = reason.unwrap_or_else(|| PlainReason::Command("nothing is compiled".to_owned()));
            return Err(Other { sources: assembly, reason });
        }
        let other = |what| Err(Other::new(sources.clone(), what));
        let language = self.inputs.last().and_then(|(_, _, language)| language.clone());
        if language != self.language {
            return other("a flag `-x` behind the source");
        }
        let output = self.output.clone().unwrap_or_default();
        if output == "-" || output == "/dev/null" {
            return other("the object is not kept");
        }
        if ["gch", "pch", "pcm", "s", "i", "ii", "bc", "ll"].contains(&extension(Path::new(&output))) {
            return other("the output's name is none of an object");
        }
        let without = super::optimises_while_linking(&self.flags).map(str::to_owned);
        if without.is_some() {
            self.flags.push("-fno-lto".into());
        }
        if let Some(reason) = obstacle(&self.flags) {
            return Err(Other { sources, reason });
        }
        let form = if !self.is_compile_only {
            if self.language.is_some() || self.writes_dependencies {
                return other("compiled and linked by one command with -x, -MD or -MMD");
            }
            Form::Linked(args.to_vec(), places)
        } else if output.is_empty() {
            let is_mixed = self.inputs.len() > sources.len() || self.language.is_some();
            if self.inputs.len() > 1 && is_mixed {
                return other("files of several kinds, or with -x, in one command with -c");
            }
            let object = |source: &PathBuf| {
                let mut name = source.file_stem().unwrap_or_default().to_owned();
                name.push(".o");
                name.into()
            };
            Form::Objects(sources.iter().map(object).collect())
        } else if self.inputs.len() > 1 {
            return other("several files in one command with -c and -o");
        } else {
            Form::Objects(vec![output.into()])
        };
        Ok(Invocation { flags: self.flags, sources, form, without, language: self.language })
    }
}

/// Returns whether only the compiler itself can do what a flag asks for.
fn is_for_the_compiler_alone(flag: &str) -> bool {
    const WHOLE: &[&str] = &[
        "-v", "-S", "-MJ", "-wrapper", "-cc1", "-cc1as", "-ObjC", "-ObjC++", "-fcompare-debug",
        "-fprofile-arcs", "-ftest-coverage", "-fauto-profile", "-fstack-usage", "-fembed-bitcode",
        "-fwhole-program", "-frecord-gcc-switches", "-frecord-command-line",
    ];
    // Queries, other files beside the object, whose names are those of the output, and modules.
    const BEGINNINGS: &[&str] = &[
        "-save-temps", "-print-", "-d", "-emit-", "-fdump-", "-fprofile-generate", "-fprofile-use",
        "-fprofile-dir", "-fbranch-probabilities", "-fcallgraph-info", "-ftime-trace",
        "-fsave-optimization-record", "-foptimization-record", "-fmodules", "-fmodule-", "-fcxx-modules",
        "-fcrash-diag", "-serialize-diagnostics", "-fproc-stat-report", "-fthinlto-index",
    ];
    const LONG: &[&str] = &[
        "--param", "--sysroot", "--target=", "--std=", "--gcc-toolchain=", "--gcc-install-dir=", "--rtlib=",
        "--stdlib=", "--unwindlib=", "--start-no-unused-arguments", "--end-no-unused-arguments",
    ];
    let begins = |all: &[&str]| all.iter().any(|it| flag.starts_with(it));
    WHOLE.contains(&flag)
        || begins(BEGINNINGS)
        || (flag.starts_with("--") && !begins(LONG))
        || (flag.starts_with("-fdiagnostics-format=") && flag.ends_with("-file"))
        || (flag.starts_with("-fdiagnostics-add-output=") && flag.contains("file="))
}

/// Returns the arguments by which making assembly writes the dependency file that making the object
/// would write: without these, its name and its target are those of the assembly.
pub(crate) fn dependencies(flags: &[OsString], object: &Path, family: Family) -> Vec<OsString> {
    let (mut writes, mut has_file, mut has_target) = (false, false, false);
    for (flag, _) in super::options(flags) {
        match flag.strip_prefix("-Wp,") {
            // gcc hands them to the preprocessor, whose target is named after the source.
            Some(list) if family == Family::Clang => {
                has_target |= list.contains("-MT") || list.contains("-MQ");
                let is_output = list.contains("-MD") || list.contains("-MMD");
                writes |= is_output;
                has_file |= is_output;
            }
            Some(list) => has_target |= list.contains("-MT") || list.contains("-MQ"),
            None => {
                writes |= matches!(flag, "-MD" | "-MMD");
                has_file |= flag.starts_with("-MF");
                has_target |= flag.starts_with("-MT") || flag.starts_with("-MQ");
            }
        }
    }
    let mut added = Vec::new();
    if writes && !has_file {
        let name = object.file_name().unwrap_or_default().to_string_lossy();
        let stem = name.rsplit_once('.').map_or(&*name, |(stem, _)| stem);
        added.extend(["-MF".into(), object.with_file_name(format!("{stem}.d")).into_os_string()]);
    }
    if writes && !has_target {
        added.extend(["-MQ".into(), object.as_os_str().to_owned()]);
    }
    added
}

/// Files within files are followed this far, as a file may name itself.
const MAX_DEPTH: usize = 16;

/// Replaces each `@file` by the arguments in the file. As in the compilers, a file that can't be
/// read is an argument.
fn expanded(args: Vec<OsString>, depth: usize) -> Vec<OsString> {
    let mut all = Vec::new();
    for arg in args {
        let path = arg.to_str().and_then(|arg| arg.strip_prefix('@'));
        match path.filter(|_| depth < MAX_DEPTH).and_then(|path| fs::read_to_string(path).ok()) {
            Some(text) => all.extend(expanded(words(&text), depth + 1)),
            None => all.push(arg),
        }
    }
    all
}

/// Splits a text as the compilers do: at white space, with quotes of both kinds, and a backslash
/// before each character to be taken as it is.
fn words(text: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, quote) {
            ('\\', _) => word.get_or_insert_default().extend(characters.next()),
            (_, Some(end)) if c == end => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, None) if c.is_ascii_whitespace() => words.extend(word.take().map(OsString::from)),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.map(OsString::from));
    words
}

/// Returns the arguments of a command that links objects in place of sources.
pub(crate) fn linking(
    args: &[OsString],
    places: &[usize],
    objects: &[PathBuf],
    family: Family,
) -> Vec<OsString> {
    let mut args = args.to_vec();
    for (place, object) in places.iter().zip(objects) {
        object.as_os_str().clone_into(&mut args[*place]);
    }
    if family == Family::Clang {
        // Flags about the language have no effect here, which is not a mistake.
        args.push("-Qunused-arguments".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        words(line)
    }

    fn read(line: &str) -> Result<Invocation, Other> {
        Invocation::read(&args(line))
    }

    #[test]
    fn one_source_to_one_object() {
        for (line, object, flags) in [
            ("-c a.c", "a.o", ""),
            ("-c sub/a.b.c", "a.b.o", ""),
            ("-O2 -c -o x/y.o -Wall ../a.cpp", "x/y.o", "-O2 -Wall"),
            ("-ox.lo a.i -c", "x.lo", ""),
            ("-x c++ -c a.inc -o a.o", "a.o", "-x c++"),
            ("-xc -c a", "a.o", "-xc"),
            ("-I -E -D -S -c a.c -MD -MF a.d", "a.o", "-I -E -D -S -MD -MF a.d"),
            (
                "-pipe -pthread --param inline-unit-growth=3 -c a.c",
                "a.o",
                "-pipe -pthread --param inline-unit-growth=3",
            ),
        ] {
            let invocation = read(line).unwrap_or_else(|other| panic!("{line}: {other:?}"));
            assert_eq!(invocation.form, Form::Objects(vec![object.into()]), "{line}");
            assert_eq!(invocation.flags, args(flags), "{line}");
            assert_eq!(invocation.sources.len(), 1);
        }
    }

    #[test]
    fn several_sources_to_their_objects() {
        let invocation = read("-O2 -c sub/a.c b.c ../a.cpp -MD").unwrap();
        assert_eq!(invocation.form, Form::Objects(["a.o", "b.o", "a.o"].map(PathBuf::from).into()));
        assert_eq!((invocation.sources.len(), invocation.flags), (3, args("-O2 -MD")));
    }

    #[test]
    fn everything_else_is_the_compilers() {
        for line in [
            "", "--version", "-v", "-dumpmachine", "-print-search-dirs", "-E a.c", "-M -c a.c", "-MM a.c",
            "-fsyntax-only a.c", "-### -c a.c", "a.o b.o -o a", "-shared -o l.so a.o -lm",
        ] {
            let other = read(line).expect_err(line);
            assert_eq!(other.sources, [] as [PathBuf; 0], "{line}");
        }
        for (line, reason) in [
            ("-S a.c", "sites are not placed with -S"),
            ("-c a.c b.c -o c.o", "several files in one command with -c and -o"),
            ("-c a.c b.o", "files of several kinds, or with -x, in one command with -c"),
            ("-c -x c a.c b.c", "files of several kinds, or with -x, in one command with -c"),
            ("-c a.c -save-temps=obj", "sites are not placed with -save-temps=obj"),
            ("-c a.c -o -", "the object is not kept"),
            ("-c a.c -o a.gch", "the output's name is none of an object"),
            ("-c a.c --coverage", "sites are not placed with --coverage"),
            ("-c a.c -masm=intel", "sites are not placed with -masm=intel"),
            ("-c a.S", "not C or C++ (.S)"),
            ("-MD a.c -o a", "compiled and linked by one command with -x, -MD or -MMD"),
            ("-c -x c a.inc -x none", "a flag `-x` behind the source"),
        ] {
            let other = read(line).expect_err(line);
            assert_eq!(
                (other.sources.len(), other.reason.to_string().as_str()),
                (1 + usize::from(line.contains("b.c")), reason),
                "{line}"
            );
        }
        assert_eq!(read("-xc -c -").expect_err("-").reason.to_string(), "the source is standard input");
        assert_eq!(read("-c a.h").expect_err("a header").sources, [] as [PathBuf; 0]);
    }

    #[test]
    fn objects_are_compiled_without_optimisation_while_linking() {
        let invocation = read("-flto=auto -c a.c").unwrap();
        assert_eq!(invocation.without.as_deref(), Some("-flto=auto"));
        assert_eq!(invocation.flags, args("-flto=auto -fno-lto"));
        assert_eq!(read("-flto -fno-lto -c a.c").unwrap().without, None);
    }

    #[test]
    fn a_program_is_linked_from_objects_in_place_of_its_sources() {
        let Form::Linked(all, places) = read("-O2 a.c b.o c.cpp -o p -lm").unwrap().form else { panic!() };
        let objects = ["1.o", "2.o"].map(PathBuf::from);
        assert_eq!(linking(&all, &places, &objects, Family::Gnu), args("-O2 1.o b.o 2.o -o p -lm"));
        assert!(linking(&all, &places, &objects, Family::Clang).ends_with(&args("-lm -Qunused-arguments")));
    }

    #[test]
    fn dependency_files_have_the_objects_name() {
        let added = |flags: &str, object: &str, family| dependencies(&args(flags), Path::new(object), family);
        for family in [Family::Gnu, Family::Clang] {
            assert_eq!(added("-MD", "a/b.c.o", family), args("-MF a/b.c.d -MQ a/b.c.o"));
            assert_eq!(added("-MMD", "x", family), args("-MF x.d -MQ x"));
            assert_eq!(added("-MD", ".o", family), args("-MF .d -MQ .o"));
            assert_eq!(added("-MD -MF y.d", "x.o", family), args("-MQ x.o"));
            assert_eq!(added("-MD -MT t -MFy.d", "x.o", family), args(""));
            assert_eq!(added("-MP -O2", "x.o", family), args(""));
        }
        assert_eq!(added("-Wp,-MMD,y.d", "x.o", Family::Gnu), args(""));
        assert_eq!(added("-Wp,-MMD,y.d", "x.o", Family::Clang), args("-MQ x.o"));
    }

    #[test]
    fn words_are_split_as_in_the_compilers() {
        assert_eq!(words(" a 'b c'\n\"d\\\"e\"f g\\ h '' "), ["a", "b c", "d\"ef", "g h", ""]);
    }

    #[test]
    fn files_of_arguments_are_read() {
        let folder = std::env::temp_dir().join(format!("probe-build-arguments-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (one, other) = (folder.join("one"), folder.join("other"));
        fs::write(&one, format!("-c @{}", other.display())).unwrap();
        fs::write(&other, "'a b.c' -o x.o").unwrap();
        let invocation = Invocation::read(&[format!("@{}", one.display()).into()]).unwrap();
        let form = Form::Objects(vec!["x.o".into()]);
        assert_eq!((invocation.sources, invocation.form), (vec!["a b.c".into()], form));
        // A file that names itself ends somewhere, and a missing one is an argument.
        fs::write(&one, format!("@{}", one.display())).unwrap();
        assert!(Invocation::read(&[format!("@{}", one.display()).into(), "@none".into()]).is_err());
        fs::remove_dir_all(&folder).unwrap();
    }
}
