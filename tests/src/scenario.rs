//! Scenarios that need a process of their own: a test runs its own program again, with the
//! scenario's name in the environment.
//!
//! Each file, or each program, has one test called `scenario`, which only children run: it is
//! ignored otherwise. A child's temporary files go with the child, however it ends.

use std::env;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use crate::folder::Folder;
use crate::processes;

const VARIABLE: &str = "PROBE_TEST_SCENARIO";

/// A scenario that takes longer than this many seconds hangs.
const LIMIT: libc::c_uint = 120;

/// Returns the scenario that the environment asks for. Sets an alarm, and resets the signals that
/// end a program to their default actions.
#[must_use]
pub fn asked() -> Option<String> {
    let asked = env::var(VARIABLE).ok()?;
    // SAFETY: no pointers; nobody has handlers yet.
    unsafe {
        libc::alarm(LIMIT);
        // Background jobs of a non-interactive shell ignore SIGINT, and children of nohup SIGHUP.
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
    Some(asked)
}

/// Returns the scenario that another test asks this process to play.
///
/// # Panics
/// If the environment names no scenario.
#[must_use]
pub fn to_play() -> String {
    asked().expect("this is no test: other tests play it, in children, and say what")
}

/// Plays a scenario in a child, with further variables in its environment.
///
/// # Panics
/// If the child can't be started, or hangs.
#[must_use]
pub fn play(scenario: &str, variables: &[(&str, &OsStr)]) -> Output {
    let mut command = start(scenario);
    let folder = Folder::new("scenario");
    command.env("TMPDIR", &*folder);
    let output = command.envs(variables.iter().copied()).output().expect("the test's own program runs");
    assert_ne!(output.status.signal(), Some(libc::SIGALRM), "{scenario} hangs: {}", said(&output));
    output
}

/// Returns a scenario's command, for callers that start the child themselves.
///
/// # Panics
/// If the test's own file is not known.
#[must_use]
pub fn start(scenario: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("the test's own file"));
    command
        .args(names())
        .args(["--exact", "--ignored", "--nocapture"])
        .env(VARIABLE, scenario)
        // Many panic on purpose, and a backtrace may take seconds.
        .env("RUST_BACKTRACE", "0");
    command
}

/// Returns the names of the test that plays scenarios: the file's, or one for all files.
fn names() -> [String; 2] {
    [processes::test("scenario"), "scenario".to_owned()]
}

/// Plays a scenario under a tool: a program and its arguments; the child's command line follows.
/// Prints a message and returns `None` if the tool is not installed.
///
/// # Panics
/// If it can't be started, or hangs.
#[must_use]
pub fn under(tool: &[&str], scenario: &str) -> Option<Output> {
    let (name, arguments) = tool.split_first().expect("a tool's name");
    let program = env::current_exe().expect("the test's own file");
    let folder = Folder::new("scenario");
    let mut command = Command::new(name);
    command.args(arguments).arg(program).args(names()).args(["--exact", "--ignored", "--nocapture"]);
    match command.env(VARIABLE, scenario).env("TMPDIR", &*folder).output() {
        Ok(output) => {
            assert_ne!(output.status.signal(), Some(libc::SIGALRM), "{scenario} hangs: {}", said(&output));
            Some(output)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: there is no {name} here");
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

/// Plays a scenario that must reach its end.
///
/// # Panics
/// If the scenario fails; the message has the child's output.
pub fn pass(scenario: &str, variables: &[(&str, &OsStr)]) {
    let output = play(scenario, variables);
    assert!(output.status.success(), "{scenario} ends with {}: {}", output.status, said(&output));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 passed"), "{scenario} was not played: {stdout}");
}

/// Plays a scenario in the test `name` of the same file, and prints the child's output.
///
/// # Panics
/// If the scenario fails, or ends without printing that it is done.
#[track_caller]
pub fn runs_in_a_child(name: &str, scenario: &str) {
    let program = env::current_exe().expect("the test's own file");
    let mut command = Command::new(program);
    let folder = Folder::new("scenario");
    let command = command
        .args(["--exact", &processes::test(name), "--include-ignored", "--nocapture"])
        .env(VARIABLE, scenario)
        .env("TMPDIR", &*folder);
    let output = command.output().expect("the test's own program runs");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains(&format!("done: {scenario}")), "{stdout}");
    print!("{stdout}");
}

/// Returns the output of a child.
#[must_use]
pub fn said(output: &Output) -> String {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("\n{stdout}\n{stderr}")
}

/// Forks; the child runs `body` and exits without the parent's destructors. Returns the child's
/// exit status: 0 if `body` returned before the alarm, without a panic.
///
/// # Panics
/// If the fork fails.
pub fn in_a_child(body: impl FnOnce()) -> libc::c_int {
    // SAFETY: the child calls what a child of a program with threads may, and the runtime, which
    // takes its locks across a fork.
    let child = unsafe { libc::fork() };
    assert_ne!(child, -1);
    if child == 0 {
        // SAFETY: no pointers.
        unsafe { libc::alarm(20) };
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let mut status = -1;
    // SAFETY: `status` is a place for the result.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!(waited, child);
    status
}
