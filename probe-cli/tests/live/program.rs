//! The program, and the test's way to it.

use std::env;
use std::fs::{self, DirBuilder};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::{Client, Status};
use probe_runtime::spec::register;
use probe_runtime::{Count, init_from_env, probe, select};
use probe_tests::scenario;
use probe_tests::text::Text;

use crate::watched_stopped::Stopping;
use crate::{service, shown, watched_levels};

/// Begins the lines of the program among those of the test harness.
const MARK: &str = "@ ";

/// The arguments with which this test's program becomes the program.
pub const SCENARIO: &str = "program::scenario --exact --ignored --nocapture";

/// Calls of the program, and wrong results of them.
static CALLS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// The function that is probed.
#[probe(group = "live")]
#[inline(never)]
pub fn work(number: u64) -> u64 {
    probe!("half", half = number / 2);
    black_box(number * 3 + 1)
}

/// Works all the time. Answers one line with another.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let name = scenario::to_play();
    let text = Text::of_this_process();
    register::<Stopping>().unwrap();
    let _guard = init_from_env().unwrap();
    let works = name != "idle";
    thread::spawn(move || {
        for number in (0..1000).cycle().take_while(|_| works) {
            WRONG.fetch_add(u64::from(work(black_box(number)) != number * 3 + 1), Ordering::Relaxed);
            WRONG.fetch_add(u64::from(!shown::serve(black_box(number)).is_multiple_of(3)), Ordering::Relaxed);
            if number > 1000 {
                shown::close(number);
            }
            CALLS.fetch_add(1, Ordering::Relaxed);
            // As programs that others use: not all of a processor.
            thread::sleep(Duration::from_micros(20));
        }
    });
    if name == "toggle" {
        (0..14).for_each(|_| drop(thread::spawn(toggled)));
        thread::spawn(toggle);
    }
    say("ready");
    if name == "serve-on" {
        // Its input may be empty.
        loop {
            thread::park();
        }
    }
    for line in io::stdin().lines() {
        say(&match line.unwrap().as_str() {
            "text" => text.differences().len().to_string(),
            "calls" => CALLS.load(Ordering::Relaxed).to_string(),
            "wrong" => WRONG.load(Ordering::Relaxed).to_string(),
            other => match other.split_once(' ') {
                Some(("requests", requests)) => service::serve(requests.parse().unwrap()).to_string(),
                Some(("level", level)) => watched_levels::reach(level.parse().unwrap()).to_string(),
                _ => panic!("{other}"),
            },
        });
    }
}

/// Works all the time, on one of many threads.
fn toggled() {
    for number in (0..1000).cycle() {
        WRONG.fetch_add(u64::from(work(black_box(number)) != number * 3 + 1), Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_micros(500));
    }
}

/// Switches the sites all the time.
fn toggle() {
    let probes = select("live::program::**").unwrap();
    loop {
        drop(probes.attach(Count::new()).unwrap());
        thread::sleep(Duration::from_micros(500));
    }
}

fn say(answer: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{MARK}{answer}").and_then(|()| out.flush()).unwrap();
}

/// A user's folder of sockets, which goes with the test.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("probectl-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        DirBuilder::new().mode(0o700).create(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A running program.
pub struct Program {
    pub child: Child,
    /// Its id, as it is known here.
    id: u32,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    pub fn start(folder: &Folder) -> Self {
        Self::of(folder, &this())
    }

    /// Starts it from this file, which is a copy of this program's.
    pub fn of(folder: &Folder, file: &Path) -> Self {
        Self::started(folder, &mut Command::new(file))
    }

    /// Starts it from this file, to do nothing but answer.
    pub fn idle(folder: &Folder, file: &Path) -> Self {
        Self::playing(folder, &mut Command::new(file), "idle", "1")
    }

    /// Starts it without its agent.
    pub fn without_agent(folder: &Folder, scenario: &str) -> Self {
        Self::playing(folder, &mut Command::new(this()), scenario, "0")
    }

    /// Starts it from this file, without its agent.
    pub fn without_agent_from(folder: &Folder, file: &Path) -> Self {
        Self::playing(folder, &mut Command::new(file), "serve", "0")
    }

    /// Starts it with rules of its own, from a file in the folder.
    pub fn with_rules(folder: &Folder, rules: &str) -> Self {
        let [file, log] = ["a.rules", "log"].map(|name| folder.0.join(name));
        fs::write(&file, rules).unwrap();
        Self::started(folder, Command::new(this()).env("PROBE_RULES", file).env("PROBE_RULES_LOG", log))
    }

    /// Starts it by a tool, which it is the child of.
    pub fn under(folder: &Folder, tool: &[&str]) -> Self {
        let mut program = Self::started(folder, Command::new(tool[0]).args(&tool[1..]).arg(this()));
        let of = program.child.id();
        let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
        program.id = children.trim().parse().unwrap();
        program
    }

    fn started(folder: &Folder, command: &mut Command) -> Self {
        Self::playing(folder, command, "serve", "1")
    }

    fn playing(folder: &Folder, command: &mut Command, scenario: &str, agent: &str) -> Self {
        command.args(SCENARIO.split(' '));
        command.env("PROBE_TEST_SCENARIO", scenario);
        command.env("XDG_RUNTIME_DIR", &folder.0).env("PROBE_AGENT", agent).env_remove("PROBES");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut program = Self { id: child.id(), child, stdin, stdout };
        assert_eq!(program.answer(), "ready");
        program
    }

    pub fn pid(&self) -> String {
        self.id.to_string()
    }

    pub fn number(&mut self, line: &str) -> u64 {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer().parse().unwrap()
    }

    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it has ended");
            if let Some(answer) = line.strip_prefix(MARK) {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Returns the output of a command that measures, which is stopped once the program has worked
    /// for a while with the consumer attached.
    #[track_caller]
    pub fn measured(&mut self, folder: &Folder, arguments: &[&str]) -> String {
        let before = attachments(self.id);
        let child = spawn(folder, arguments);
        self.until(|status| status.attachments.len() > before);
        let calls = self.number("calls");
        until(|| self.number("calls") > calls + 50);
        signal("-INT", &child);
        let ran = Ran::from(child.wait_with_output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}");
        ran.out
    }

    /// Waits until its status is as it should be.
    #[track_caller]
    pub fn until(&self, mut is_so: impl FnMut(&Status) -> bool) {
        let mut client = Client::connect(self.id).unwrap();
        until(|| is_so(&client.status().unwrap()));
    }

    /// Checks that nothing is attached, that its text equals its file, and that its results are
    /// right.
    pub fn is_as_before(&mut self) {
        self.until(|status| status.attachments.is_empty());
        assert_eq!((self.number("text"), self.number("wrong")), (0, 0));
        let calls = self.number("calls");
        until(|| self.number("calls") > calls);
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the number of attachments in a program.
fn attachments(pid: u32) -> usize {
    Client::connect(pid).unwrap().status().unwrap().attachments.len()
}

/// Waits for a condition.
#[track_caller]
pub fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(100), "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}

/// `probectl`, which ends by a signal also if a shell or `nohup` made these tests ignore it.
pub const PROBECTL: [&str; 3] = ["env", "--default-signal=INT,HUP", env!("CARGO_BIN_EXE_probectl")];

/// Returns `probectl` with arguments.
pub fn probectl(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROBECTL[0]);
    command.args(&PROBECTL[1..]).args(arguments).env("XDG_RUNTIME_DIR", &folder.0).stdin(Stdio::null());
    command
}

/// The output of a run.
#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { out: text(output.stdout), err: text(output.stderr), code: output.status.code() }
    }
}

/// Runs `probectl`.
pub fn run(folder: &Folder, arguments: &[&str]) -> Ran {
    probectl(folder, arguments).output().unwrap().into()
}

/// Returns the stdout of a run that ends well and says nothing else.
#[track_caller]
pub fn out(folder: &Folder, arguments: &[&str]) -> String {
    let ran = run(folder, arguments);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{arguments:?}");
    ran.out
}

/// Starts `probectl` with its output in pipes.
pub fn spawn(folder: &Folder, arguments: &[&str]) -> Child {
    probectl(folder, arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends a signal.
pub fn signal(name: &str, child: &Child) {
    signal_to(name, child.id());
}

/// Sends a signal to a process of this id.
pub fn signal_to(name: &str, id: u32) {
    let status = Command::new("kill").args([name, &id.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Returns the lines of a table as words.
pub fn words(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split_whitespace().collect()).collect()
}

/// Returns this program's file.
pub fn this() -> PathBuf {
    env::current_exe().unwrap()
}

/// Copies a program. Another process does: children that other threads fork meanwhile would have
/// the copy open for writing, and a file that is can't be started.
pub fn copy(program: &Path, to: &Path) {
    assert!(Command::new("cp").args([program, to]).status().unwrap().success());
}

/// Returns the file of the search service, an example whose own tests build it. `None`
/// if nobody has built it, which is said.
pub fn search_service() -> Option<PathBuf> {
    let file = this().ancestors().nth(2).unwrap().join("quickstart");
    if !file.exists() {
        println!("skipped: build the example by `cargo build -p quickstart`");
        return None;
    }
    Some(file)
}

/// Returns the name of a file.
pub fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}
