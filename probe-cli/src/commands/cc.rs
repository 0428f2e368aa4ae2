//! `cc`: a build whose compilers of C and C++ are `probe-cc` and `probe-cxx`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::args::Cc;
use crate::output::{Failure, Output};
use crate::preload::found;

/// A compiler: the variable by which builds know it, the one that names the real compiler for this
/// program, and the program.
struct Compiler {
    variable: &'static str,
    real: &'static str,
    program: &'static str,
}

const COMPILERS: [Compiler; 2] = [
    Compiler { variable: "CC", real: "PROBE_CC", program: "probe-cc" },
    Compiler { variable: "CXX", real: "PROBE_CXX", program: "probe-cxx" },
];

/// Runs the command in place of this program.
pub(super) fn run(args: &Cc) -> Result<Output, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::Usage("a command is missing".to_owned()));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let is_make =
        ["make", "gmake"].iter().any(|name| Path::new(program).file_name() == Some(OsStr::new(name)));
    for Compiler { variable, real, program } in COMPILERS {
        let path = located(program)?;
        // The compiler that the build would have is the real one, unless that is named already.
        let is_named = |name| env::var_os(name).filter(|value| !value.is_empty());
        if let Some(before) = is_named(variable).filter(|it| !it.as_bytes().ends_with(program.as_bytes()))
            && is_named(real).is_none()
        {
            command.env(real, before);
        }
        command.env(variable, &path);
        // A Makefile may set the variable itself, and only an argument goes before that.
        let assignment = |argument: &OsString| {
            argument.as_bytes().strip_prefix(variable.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
        };
        if is_make && !arguments.iter().any(assignment) {
            let mut argument = OsString::from(format!("{variable}="));
            argument.push(&path);
            command.arg(argument);
        }
    }
    if let Some(filter) = &args.filter {
        command.env("PROBE_CC_FILTER", filter);
    }
    if let Some(log) = &args.log {
        let log = std::path::absolute(log).map_err(|error| Failure::input(format!("--log: {error}")))?;
        command.env("PROBE_CC_LOG", log);
    }
    Err(Failure::Input(format!("{} can't be started: {}", program.display(), command.exec())))
}

/// Returns the path of a program beside this one, or in `PATH`.
fn located(program: &str) -> Result<PathBuf, Failure> {
    let beside = env::current_exe().ok().map(|this| this.with_file_name(program)).filter(|it| it.is_file());
    let path = beside.or_else(|| found(program.as_ref())).ok_or_else(|| {
        Failure::Input(format!(
            "{program} is neither beside probectl nor in PATH; install it by `cargo install probe-cc --git \
             https://github.com/latent-probes/latent-probes`"
        ))
    })?;
    let path = std::path::absolute(&path).unwrap_or(path);
    if path.as_os_str().as_bytes().iter().any(u8::is_ascii_whitespace) {
        return Err(Failure::Input(format!(
            "{} can't be named by CC, whose value is split at spaces; copy it to another folder",
            path.display()
        )));
    }
    Ok(path)
}
