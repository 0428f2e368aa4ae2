//! One command line: objects with sites, or the real compiler in place of this program.

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use probe_build::PlainReason;
use probe_build::driver::{Driver, Form, Invocation, Object, Other, environment_obstacle};

use crate::compiler::{self, Language};
use crate::log::Log;
use crate::setup::Setup;
use crate::signals::Signals;
use crate::{check, choice};

/// Runs a command line. Returns only if this program has done what the compiler would do.
pub(crate) fn run(language: Language, args: &[OsString]) -> Result<ExitCode, Setup> {
    let compiler = compiler::find(language)?;
    let folder = env::current_dir().unwrap_or_default();
    let log = Log::open(&folder)?;
    let invocation = match invocation(args, &folder) {
        Ok(invocation) => invocation,
        Err(Other { sources, reason }) => {
            sources.iter().for_each(|source| log.plain(source, &reason));
            return instead(compiler, args);
        }
    };
    let filter = choice::of(&invocation.sources[0])?;
    let signals = Signals::caught();
    let scratch = match tempfile::Builder::new().prefix("probe-cc-").tempdir() {
        Ok(scratch) => scratch,
        Err(error) => {
            let reason = PlainReason::Command(format!("there is no folder for its assembly: {error}"));
            invocation.sources.iter().for_each(|source| log.plain(source, &reason));
            return instead(compiler, args);
        }
    };
    let mut driver = Driver::new(&compiler, &invocation, &filter, scratch.path(), &folder);
    // On a terminal, the compiler has its colours and the width. With several sources, nobody would
    // know which of them it has told about if one fails.
    driver.shows = io::stderr().is_terminal() && invocation.sources.len() == 1;
    let ending = match objects(&mut driver, scratch.path(), &signals) {
        Ok(made) => {
            // A reader that has gone away loses messages, as the compiler's own would be lost.
            let _ = io::stdout().write_all(&made.iter().flat_map(|it| it.stdout.clone()).collect::<Vec<_>>());
            let _ = io::stderr().write_all(&made.iter().flat_map(|it| it.stderr.clone()).collect::<Vec<_>>());
            for object in &made {
                log.placed(&object.report, invocation.without.as_deref());
            }
            match &invocation.form {
                Form::Objects(_) => Ending::Done(Ok(ExitCode::SUCCESS)),
                Form::Linked(args, places) => {
                    let objects: Vec<_> = made.iter().map(|it| it.report.object().to_owned()).collect();
                    Ending::Done(status(&mut driver.linking(args, places, &objects)))
                }
            }
        }
        Err(reason) => {
            invocation.sources.iter().for_each(|source| log.plain(source, &reason));
            if driver.shows && matches!(reason, PlainReason::Assembly(_)) {
                // The compiler has told its mistakes: only its exit status is missing.
                let mut again = compiler::again(&compiler);
                again.args(args);
                Ending::Done(status(again.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())))
            } else {
                Ending::Instead { is_told: driver.shows }
            }
        }
    };
    // In a failure, nobody else would tell it.
    let _ = scratch.close();
    signals.obey();
    match ending {
        Ending::Done(code) => code,
        Ending::Instead { is_told: false } => instead(compiler, args),
        Ending::Instead { is_told: true } => instead(compiler, &[args, &["-w".into()]].concat()),
    }
}

/// The end of a command line whose objects could get sites.
enum Ending {
    /// All is done, or the linker can't be run.
    Done(Result<ExitCode, Setup>),
    /// The compiler has to do it. Its warnings may stand on the terminal already.
    Instead { is_told: bool },
}

/// Returns the command line, if its objects get sites.
fn invocation(args: &[OsString], folder: &Path) -> Result<Invocation, Other> {
    let invocation = Invocation::read(args)?;
    let is_check = || invocation.sources.iter().any(|source| check::is_one(source, folder));
    let question =
        || is_check().then(|| PlainReason::Command("a question of the build's configuration".to_owned()));
    match environment_obstacle().or_else(question) {
        Some(reason) => Err(Other { sources: invocation.sources, reason }),
        None => Ok(invocation),
    }
}

/// Makes all objects with sites; the reason is that of the first one which must be the compiler's
/// own.
fn objects(driver: &mut Driver<'_>, scratch: &Path, signals: &Signals) -> Result<Vec<Object>, PlainReason> {
    let paths: Vec<PathBuf> = match &driver.invocation.form {
        Form::Objects(objects) => objects.clone(),
        Form::Linked(_, places) => places.iter().map(|at| scratch.join(format!("{at}.o"))).collect(),
    };
    let mut made = Vec::new();
    for (number, path) in paths.iter().enumerate() {
        let object = driver.object(number, path).map_err(|error| PlainReason::Command(error.to_string()))?;
        if signals.have_come() {
            return Err(PlainReason::Command("interrupted".to_owned()));
        }
        made.push(object?);
    }
    Ok(made)
}

/// Runs a command to its end.
fn status(command: &mut Command) -> Result<ExitCode, Setup> {
    let status = command.status().map_err(|error| cannot_run(command, error))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

/// Runs the compiler in place of this program.
fn instead(mut compiler: Command, args: &[OsString]) -> Result<ExitCode, Setup> {
    let error = compiler.args(args).exec();
    Err(cannot_run(&compiler, error))
}

fn cannot_run(command: &Command, error: io::Error) -> Setup {
    Setup::Run { program: command.get_program().display().to_string(), error }
}
