//! C and C++ that is compiled with `-finstrument-functions` while a test runs.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::folder;
use crate::library::Library;

/// The compilers for C that there are here; gcc at least.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn compilers() -> Vec<&'static str> {
    let is_here =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|it| it.status.success());
    let found: Vec<_> = ["gcc", "clang"].into_iter().filter(is_here).collect();
    assert!(!found.is_empty(), "a C compiler");
    found
}

/// A folder for what one test makes, empty. It ends with the process: names and lines are read from
/// the files while they are loaded.
///
/// # Panics
/// If it can't be made.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    folder::of_this_process(name)
}

/// Writes a source file.
///
/// # Panics
/// If it can't be written.
#[must_use]
pub fn source(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file in the folder");
    path
}

/// Compiles and links; instrumented, with debug information.
///
/// # Panics
/// If the compiler fails; the message has its output.
pub fn build(compiler: &str, source: &Path, output: &Path, flags: &[&str]) {
    let fixed = ["-g", "-finstrument-functions", "-o"].map(OsStr::new);
    let flags = flags.iter().map(OsStr::new);
    let args = fixed.into_iter().chain([output.as_os_str(), source.as_os_str()]).chain(flags);
    let said = Command::new(compiler).args(args).output().expect("the compiler runs");
    assert!(
        said.status.success(),
        "{compiler} {flags:?}: {}",
        String::from_utf8_lossy(&said.stderr),
        flags = said.status
    );
}

/// As [`build`], a shared object; returns its path.
#[must_use]
pub fn shared(compiler: &str, source: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let output = source.with_file_name(name);
    build(compiler, source, &output, &[&["-shared", "-fPIC"], flags].concat());
    output
}

/// Compiles source text with gcc, in a folder of its own, and loads the result.
#[must_use]
pub fn load(name: &str, file: &str, text: &str, flags: &[&str]) -> Library {
    let source = source(&folder(name), file, text);
    let object = Path::new(file).with_extension("so");
    Library::open(&shared("gcc", &source, &object.to_string_lossy(), flags))
}

/// An instrumented function, of one number to another.
pub type Function = extern "C" fn(u64) -> u64;

/// C of functions `f0`, `f1`, …, which add their number to their argument.
#[must_use]
pub fn numbered(count: usize) -> String {
    let functions =
        (0..count).map(|number| format!("uint64_t f{number}(uint64_t x) {{ return x + {number}; }}\n"));
    "#include <stdint.h>\n".to_owned() + &functions.collect::<String>()
}

/// The functions of a library that [`numbered`] is the source of.
#[must_use]
pub fn functions(library: &Library, count: usize) -> Vec<Function> {
    (0..count).map(|number| library.function(&format!("f{number}"))).collect()
}

/// Loads [`numbered`] functions.
#[must_use]
pub fn load_numbered(name: &str, count: usize) -> (Library, Vec<Function>) {
    let library = load(name, "code.c", &numbered(count), &["-O1"]);
    let functions = functions(&library, count);
    (library, functions)
}

/// Assembly of functions that add their number, from 1, to their argument, and call both hooks from
/// the same offset in an aligned word: up to 3, the call lies in one, from 4 on across two. Without
/// debug information.
#[must_use]
pub fn calls_at(offset: usize, names: &[&str]) -> String {
    let mut code = String::from("\t.text\n");
    for (name, number) in names.iter().zip(1..) {
        let hook = |hook: &str| {
            format!(
                "\tleaq .L{name}(%rip), %rdi\n\txorl %esi, %esi\n\t.p2align 3\n\t.skip {offset}, 0x90\n\
                 \tcall __cyg_profile_func_{hook}@PLT\n"
            )
        };
        write!(
            code,
            "\t.globl {name}\n\t.type {name}, @function\n\t.p2align 4\n{name}:\n.L{name}:\n\tpushq %rbx\n\tmovq %rdi, %rbx\n\
             {}{}\tleaq {number}(%rbx), %rax\n\tpopq %rbx\n\tret\n\t.size {name}, . - {name}\n",
            hook("enter"),
            hook("exit")
        )
        .expect("a String takes all text");
    }
    code + "\t.section .note.GNU-stack,\"\",@progbits\n"
}

/// Takes a file's section headers away, and all that no segment has, as `sstrip` does.
///
/// # Panics
/// If it is no ELF file of 64 bits, or can't be written.
pub fn without_sections(file: &Path) {
    let mut bytes = fs::read(file).expect("a file");
    let number = |at: usize, len: usize| {
        bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let segments = (0..number(56, 2)).map(|it| number(32, 8) + 56 * it);
    let end = segments.map(|at| number(at + 8, 8) + number(at + 32, 8)).max();
    bytes.truncate(end.expect("a program header"));
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    fs::write(file, bytes).expect("a file that can be written");
}
