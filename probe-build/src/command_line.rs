//! A compiler's command line, and commands made from it. Reads which flags rule sites out, whether
//! the build asks for debug info, and which arguments are useless or harmful in a second run of a
//! command.
//!
//! `invocation` reads whole command lines, of which `cc` has no share.
//!
//! The last flag about a subject decides, as in the compilers. The compiler itself is queried
//! about everything that the flags leave open (the target, the code model), see `dialect`.

pub(crate) mod invocation;

use std::ffi::{OsStr, OsString};
use std::process::Command;

use crate::report::PlainReason;

/// Arguments whose value is the next argument.
const WITH_VALUE: &[&str] = &[
    "-I", "-D", "-U", "-F", "-o", "-x", "-include", "-imacros", "-include-pch", "-isystem", "-iquote",
    "-idirafter", "-iprefix", "-iwithprefix", "-iwithprefixbefore", "-isysroot", "-iwithsysroot",
    "-cxx-isystem", "-isystem-after", "-stdlib++-isystem", "-iframework", "-ivfsoverlay", "-imultilib",
    "-imultiarch", "-Xclang", "-Xassembler", "-Xpreprocessor", "-Xlinker", "-mllvm", "-MF", "-MT", "-MQ",
    "-MJ", "-arch", "-target", "-aux-info", "-T", "-Tbss", "-Tdata", "-Ttext", "-L", "-l", "-B", "-A", "-G",
    "-u", "-z", "-e", "-h", "-R", "-rpath", "-framework", "-dumpbase", "-dumpbase-ext", "-dumpdir",
    "-wrapper", "-serialize-diagnostics", "--serialize-diagnostics", "--param", "--sysroot",
    "-gcc-toolchain",
];

/// Returns the arguments, each with its value if that is a separate argument.
fn options(args: &[OsString]) -> impl Iterator<Item = (&str, &[OsString])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let first = args.get(at)?.to_str().unwrap_or_default();
        let len = if WITH_VALUE.contains(&first) && at + 1 < args.len() { 2 } else { 1 };
        let option = &args[at..at + len];
        at += len;
        Some((first, option))
    })
}

/// Returns why code that is compiled with these arguments gets no sites.
pub(crate) fn obstacle(args: &[OsString]) -> Option<PlainReason> {
    // A later flag can revoke each of these.
    let lto = optimises_while_linking(args);
    let (mut split_stack, mut split_dwarf, mut intel) = (None, None, None);
    let (mut stabs, mut others) = (None, None);
    for (flag, option) in options(args) {
        match flag {
            "-fno-split-stack" => split_stack = None,
            "-gno-split-dwarf" => split_dwarf = None,
            "-g0" => stabs = None,
            "-fsplit-stack" => split_stack = Some(flag),
            "-emit-llvm" | "-fsyntax-only" | "-S" | "-E" | "-M" | "-MM" => others = Some(flag),
            "-x" => others = others.or(option.get(1).and_then(|name| foreign_language(name))),
            _ if flag.starts_with("-gsplit-dwarf") => split_dwarf = Some(flag),
            // Debug information with another kind of line numbers.
            _ if flag.starts_with("-gstabs") => stabs = (!flag.ends_with('0')).then_some(flag),
            _ if flag.starts_with("-masm=") => intel = (flag != "-masm=att").then_some(flag),
            _ if flag.starts_with("-x") => others = others.or(foreign_language(OsStr::new(&flag[2..]))),
            _ => {}
        }
    }
    let flag = lto.or(split_stack).or(split_dwarf).or(stabs).or(intel).or(others)?;
    Some(PlainReason::Flag(flag.to_owned()))
}

/// Returns the flag by which code is optimised while it is linked. Its objects have no assembly.
pub(crate) fn optimises_while_linking(args: &[OsString]) -> Option<&str> {
    let is_about_it = |flag: &&str| matches!(*flag, "-flto" | "-fno-lto") || flag.starts_with("-flto=");
    let last = options(args).map(|(flag, _)| flag).filter(is_about_it).last();
    last.filter(|flag| *flag != "-fno-lto")
}

/// Returns the name in `-x name`, unless it is C, C++, or nothing.
fn foreign_language(name: &OsStr) -> Option<&str> {
    let name = name.to_str().unwrap_or("-x");
    (!matches!(name, "c" | "c++" | "none" | "cpp-output" | "c++-cpp-output")).then_some(name)
}

/// Returns whether the arguments ask for debug info.
pub(crate) fn wants_debug_info(args: &[OsString]) -> bool {
    let level = |flag: &str| match flag {
        "-g0" | "-ggdb0" | "-gstabs0" => Some(false),
        "-g"
        | "-g1"
        | "-g2"
        | "-g3"
        | "-gmlt"
        | "-gfull"
        | "-gused"
        | "-gline-tables-only"
        | "-gline-directives-only" => Some(true),
        _ if flag.starts_with("-gdwarf") && flag != "-gdwarf64" && flag != "-gdwarf32" => Some(true),
        _ if flag.starts_with("-ggdb") || flag.starts_with("-gstabs") || flag.starts_with("-glldb") => {
            Some(true)
        }
        _ => None,
    };
    options(args).filter_map(|(flag, _)| level(flag)).last().unwrap_or(false)
}

/// Returns whether the arguments ask for optimisation.
pub(crate) fn optimises(args: &[OsString]) -> bool {
    let level = options(args).filter_map(|(flag, _)| flag.strip_prefix("-O")).last();
    level.is_some_and(|level| level != "0")
}

/// Returns the arguments for querying the compiler. Arguments that write files, add directories of
/// the project, or read headers are removed: those headers may not exist for an empty file.
pub(crate) fn for_query(args: &[OsString]) -> Vec<OsString> {
    keep(args, |flag| {
        !is_dependency_output(flag)
            && !is_inclusion(flag)
            && !flag.starts_with("-I")
            && !flag.starts_with("-save-temps")
            && !matches!(flag, "-o" | "-Werror")
    })
}

/// Returns the arguments for making assembly. Those of the assembler are removed: clang warns that
/// they are unused.
pub(crate) fn for_compiling(args: &[OsString]) -> Vec<OsString> {
    keep(args, |flag| !flag.starts_with("-Wa,") && flag != "-Xassembler")
}

/// Returns the arguments for assembling. Arguments that set a file's language, read headers or
/// write dependency files are removed.
pub(crate) fn for_assembly(args: &[OsString]) -> Vec<OsString> {
    keep(args, |flag| {
        !is_dependency_output(flag)
            && !is_inclusion(flag)
            && !flag.starts_with("-x")
            && !flag.starts_with("-save-temps")
            && flag != "-o"
    })
}

/// Returns the arguments without those that set a file's language, so that its extension does.
pub(crate) fn without_language(args: &[OsString]) -> Vec<OsString> {
    keep(args, |flag| !flag.starts_with("-x"))
}

fn keep(args: &[OsString], is_kept: impl Fn(&str) -> bool) -> Vec<OsString> {
    options(args).filter(|(flag, _)| is_kept(flag)).flat_map(|(_, option)| option.iter().cloned()).collect()
}

fn is_dependency_output(flag: &str) -> bool {
    flag.starts_with("-M") || flag.starts_with("-Wp,-M")
}

fn is_inclusion(flag: &str) -> bool {
    flag.starts_with("-include") || flag.starts_with("-imacros")
}

/// Returns the same program in the same environment, with these arguments.
pub(crate) fn with_arguments(command: &Command, arguments: &[OsString]) -> Command {
    let mut new = Command::new(command.get_program());
    new.args(arguments);
    for (key, value) in command.get_envs() {
        match value {
            Some(value) => new.env(key, value),
            None => new.env_remove(key),
        };
    }
    new
}

/// Returns the first line of a command's error output that names a problem, for one line of a
/// message.
pub(crate) fn complaint(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines()
        .find(|line| line.to_ascii_lowercase().contains("error"))
        .or_else(|| lines().next())
        .unwrap_or("it fails without a word")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Vec<OsString> {
        line.split_whitespace().map(OsString::from).collect()
    }

    fn joined(args: &[OsString]) -> String {
        args.join(OsStr::new(" ")).into_string().unwrap()
    }

    #[test]
    fn the_last_flag_decides_whether_code_is_optimised() {
        for (line, expected) in [
            ("", false),
            ("-O0", false),
            ("-O", true),
            ("-O2 -O0", false),
            ("-O0 -Os -g", true),
            ("-o -O2", false),
        ] {
            assert_eq!(optimises(&args(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_last_flag_decides_whether_there_are_sites() {
        let cases = [
            ("-O2 -fPIC -Wall", None),
            ("-flto", Some("-flto")),
            ("-flto=thin -O2", Some("-flto=thin")),
            ("-flto -fno-lto", None),
            ("-fno-lto -flto=auto", Some("-flto=auto")),
            ("-ffat-lto-objects", None),
            ("-fsplit-stack", Some("-fsplit-stack")),
            ("-fsplit-stack -fno-split-stack", None),
            ("-gsplit-dwarf", Some("-gsplit-dwarf")),
            ("-gsplit-dwarf=single", Some("-gsplit-dwarf=single")),
            ("-gstabs", Some("-gstabs")),
            ("-g -gstabs+ -O2", Some("-gstabs+")),
            ("-gstabs -g0", None),
            ("-gstabs0", None),
            ("-masm=intel", Some("-masm=intel")),
            ("-masm=intel -masm=att", None),
            ("-emit-llvm", Some("-emit-llvm")),
            ("-x c", None),
            ("-x c++", None),
            ("-xc++", None),
            ("-x objective-c", Some("objective-c")),
            ("-xassembler-with-cpp", Some("assembler-with-cpp")),
            // Values of other flags.
            ("-D -flto -I -emit-llvm", None),
            ("-Xclang -flto", None),
        ];
        for (line, expected) in cases {
            let expected = expected.map(|flag| PlainReason::Flag(flag.to_owned()));
            assert_eq!(obstacle(&args(line)), expected, "{line}");
        }
    }

    #[test]
    fn the_last_level_decides_about_debug_info() {
        let cases = [
            ("-O2", false),
            ("-g", true),
            ("-g0", false),
            ("-g -g0", false),
            ("-g0 -g1", true),
            ("-g2 -gz", true),
            ("-gz -grecord-gcc-switches -gcolumn-info -gno-column-info -gdwarf64", false),
            ("-gdwarf-4", true),
            ("-ggdb3 -ggdb0", false),
            ("-gline-tables-only", true),
            ("-D -g", false),
        ];
        for (line, expected) in cases {
            assert_eq!(wants_debug_info(&args(line)), expected, "{line}");
        }
    }

    #[test]
    fn a_second_run_writes_nothing_that_the_first_one_has_written() {
        let line = args(
            "-O2 -I a -Ib -isystem c -MD -MF x.d -Wp,-MD,y.d -include h.h -x c++ -save-temps=obj -DX -Wa,-a",
        );
        assert_eq!(joined(&for_query(&line)), "-O2 -isystem c -x c++ -DX -Wa,-a");
        assert_eq!(joined(&for_assembly(&line)), "-O2 -I a -Ib -isystem c -DX -Wa,-a");
    }
}
