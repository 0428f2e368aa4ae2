//! A process for each file of tests.
//!
//! A folder of `tests/tests` is one program, and its files are modules of it: one program takes far
//! less time to compile and link than one for each file. A file still needs a process of its own,
//! for its probes, its text and its signal handlers. So [`a_process_for_each_file`] makes the
//! program start itself again, once for each file with tests that the arguments choose. The
//! arguments are those of every test program.
//!
//! Life cycle: the program asks a first child which tests there are. One child for each file then
//! plays these, with a few children at a time. The output of a child appears when it has ended. If
//! all tests are of one file, the program becomes that child, so a debugger or a terminal has it.
//! A child that hangs is ended after minutes, unless whole tests are asked for.
//!
//! [`a_process_for_each_file`]: crate::a_process_for_each_file

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek, Write};
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, thread};

use crate::folder::Folder;
use crate::whole;

mod arguments;

use arguments::Arguments;

/// Names the file that a child plays. Empty in the child that lists the tests.
const FILE: &str = "PROBE_TEST_FILE";

/// Says how many files to play at a time.
const JOBS: &str = "PROBE_TEST_JOBS";

/// Gives each file of this program's tests a process of its own: see [`processes`](self). The
/// program starts the files that are named here first: they take longest.
#[macro_export]
macro_rules! a_process_for_each_file {
    ($($first:ident),* $(,)?) => {
        /// Runs before `main`, which the compiler writes for a program of tests.
        #[used]
        #[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
        static BEFORE_MAIN: extern "C" fn() = {
            extern "C" fn split() {
                $crate::processes::split(&[$(stringify!($first)),*]);
            }
            split
        };
    };
}

/// Returns the whole name of a test of the file that this process plays, for its command line.
#[must_use]
pub fn test(name: &str) -> String {
    match env::var(FILE) {
        Ok(file) if !file.is_empty() => format!("{file}::{name}"),
        _ => name.to_owned(),
    }
}

/// Plays each file in a child, and exits; returns in a child. The files in `first` are the first to
/// be played.
///
/// # Panics
/// If a child can't be started.
pub fn split(first: &[&str]) {
    let arguments = Arguments::parse(env::args().skip(1));
    if env::var_os(FILE).is_some() || arguments.is_for_one_process() {
        return;
    }
    let mut files: Vec<_> = tests(&arguments).into_iter().collect();
    match files.as_slice() {
        [] => return,
        [(file, tests)] => panic!("{}", child(file, tests, &arguments).exec()),
        _ => files.sort_by_key(|(file, _)| first.iter().position(|it| it == file).unwrap_or(first.len())),
    }
    process::exit(play(files, &arguments));
}

/// A child that plays these tests, which are all of one file.
fn child(file: &str, tests: &[String], arguments: &Arguments) -> Command {
    let mut command = this_program();
    command.env(FILE, file).args(arguments.options()).arg("--exact").args(tests);
    command
}

fn this_program() -> Command {
    Command::new(env::current_exe().expect("the test's own file"))
}

/// Returns the tests that the arguments choose, by their files.
fn tests(arguments: &Arguments) -> BTreeMap<String, Vec<String>> {
    let mut command = this_program();
    command.env(FILE, "").args(["--list", "--format=terse"]).args(arguments.choice());
    let output = command.stderr(Stdio::inherit()).output().expect("the test's own program runs");
    if !output.status.success() {
        process::exit(output.status.code().unwrap_or(FAILURE));
    }
    let mut files = BTreeMap::<_, Vec<_>>::new();
    for line in String::from_utf8(output.stdout).expect("names of tests").lines() {
        let name = line.strip_suffix(": test").expect("a test");
        let file = name.split_once("::").map_or("", |(file, _)| file);
        files.entry(file.to_owned()).or_default().push(name.to_owned());
    }
    files
}

/// A file whose tests take longer than this many seconds hangs. The slowest take a minute.
const LIMIT: libc::c_uint = 900;

/// The exit code of failed tests, as that of every test program.
const FAILURE: i32 = 101;

/// Plays all files, and returns the exit code.
fn play(files: Vec<(String, Vec<String>)>, arguments: &Arguments) -> i32 {
    // More than there are processors: many wait for a moment, or for a build that another one has
    // begun.
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let asked = env::var(JOBS).ok().map(|it| it.parse().expect("PROBE_TEST_JOBS is a number"));
    let jobs = arguments.threads().or(asked).unwrap_or(2 * processors + 1);
    let count = files.len();
    let next = Mutex::new(files.into_iter());
    let failed = Mutex::new(Vec::new());
    let work = || {
        loop {
            let Some((file, tests)) = next.lock().expect("no panic").next() else { return };
            let ended = Ended::play(&file, &tests, arguments);
            let mut failed = failed.lock().expect("no panic");
            ended.show(&file);
            if !ended.status.success() {
                failed.push(file);
            }
        }
    };
    thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let mut failed = failed.into_inner().expect("no panic");
    failed.sort();
    if failed.is_empty() {
        println!("\n{count} files pass, each in a process of its own");
        return 0;
    }
    println!("\n{} of {count} files fail: {}", failed.len(), failed.join(", "));
    FAILURE
}

/// A child that has ended.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    took: Duration,
    /// On processors, with the processes that the child has waited for.
    processors: Duration,
}

impl Ended {
    fn play(file: &str, tests: &[String], arguments: &Arguments) -> Self {
        let began = Instant::now();
        // A file, not a pipe: it is whole when the child ends, even if the child leaves processes.
        let mut to = unnamed_file().expect("a temporary file");
        let [out, err] = [&to, &to].map(|file| file.try_clone().expect("a second descriptor"));
        let mut command = child(file, tests, arguments);
        if io::stdout().is_terminal() && !arguments.say_color() {
            command.arg("--color=always");
        }
        if !whole::is_asked_for() {
            // SAFETY: the child calls nothing else. A program keeps its alarm across `execve`.
            unsafe { command.pre_exec(|| Ok(_ = libc::alarm(LIMIT))) };
        }
        let child = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn();
        let (status, processors) = wait(&child.expect("the test's own program runs"));
        let mut output = Vec::new();
        to.rewind().and_then(|()| to.read_to_end(&mut output)).expect("the child's output");
        Self { status, output, took: began.elapsed(), processors }
    }

    /// Prints the output. The caller holds a lock, so that no other child's comes between.
    fn show(&self, file: &str) {
        let mut out = io::stdout().lock();
        let end = match self.status.signal() {
            None => String::new(),
            Some(libc::SIGALRM) => format!(" hangs, and is ended after {LIMIT} s"),
            Some(_) => format!(" ends with {}", self.status),
        };
        let [took, processors] = [self.took, self.processors].map(|it| it.as_secs_f64());
        let shown = writeln!(out, "\n     File {file}{end} ({took:.1} s, {processors:.1} s of processors)")
            .and_then(|()| out.write_all(&self.output))
            .and_then(|()| out.flush());
        shown.expect("standard output");
    }
}

/// Waits for a child, and returns how it ended and the time that it took of processors.
fn wait(child: &Child) -> (ExitStatus, Duration) {
    let mut status = 0;
    // SAFETY: numbers, for which zeros are values.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    let id = child.id().cast_signed();
    // SAFETY: both places outlive the call, which writes to nothing else. Nobody else waits for
    // this child: its owner lends it.
    while unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) } != id {
        let error = io::Error::last_os_error();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted, "a child of this process: {error}");
    }
    let of = |time: libc::timeval| {
        Duration::from_micros(u64::try_from(time.tv_sec * 1_000_000 + time.tv_usec).expect("not negative"))
    };
    (ExitStatus::from_raw(status), of(usage.ru_utime) + of(usage.ru_stime))
}

/// Returns a file that goes with its last descriptor.
fn unnamed_file() -> io::Result<File> {
    let folder = Folder::new("output");
    let path = folder.join("output");
    File::options().read(true).write(true).create_new(true).open(path)
}
