//! The program that is asked, and the test's way to it.

use std::env;
use std::fs::{self, DirBuilder};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use probe_protocol::{Client, Status};
use probe_runtime::spec::register;
use probe_runtime::{EnvGuard, agent, init_from_env};
use probe_tests::folder::Folder;
use probe_tests::library::Library;
use probe_tests::scenario;
use probe_tests::text::Text;

use crate::own::{Leave, Own};
use crate::{strict, worked};

/// The scenario of a file whose programs only serve.
macro_rules! serves {
    () => {
        #[test]
        #[ignore = "other tests play it, in children"]
        fn scenario() {
            match probe_tests::scenario::to_play().as_str() {
                "serve" => $crate::target::serve(),
                other => panic!("{other}"),
            }
        }
    };
}
pub(crate) use serves;

/// Begins the lines of the program among those of the test harness.
const MARK: &str = "@ ";

/// Calls of the busy thread, and wrong results of them.
static CALLS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Plays the program: it answers one line with another.
pub(crate) fn serve() {
    // Rust programs ignore SIGPIPE, and programs in C do not. A test may ask for longer than a
    // scenario takes; this one ends with its standard input.
    // SAFETY: the default action, and a number.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::alarm(1800);
    }
    let text = Text::of_this_process();
    register::<Own>().unwrap();
    register::<Leave>().unwrap();
    let mut guard: Option<EnvGuard> = Some(init_from_env().unwrap());
    let mut library = None;
    say("ready");
    for line in io::stdin().lines() {
        let line = line.unwrap();
        let (command, argument) = line.split_once(' ').unwrap_or((&line, ""));
        say(&match command {
            "work" => worked(argument.parse().unwrap()).to_string(),
            "text" => text.differences().len().to_string(),
            "busy" => busy(),
            "strict" => strict::hits_in_a_thread(argument == "and one call").to_string(),
            "calls" => CALLS.load(Ordering::Relaxed).to_string(),
            "wrong" => WRONG.load(Ordering::Relaxed).to_string(),
            "start" => {
                agent::start().map_or_else(|error| error.to_string(), |path| path.display().to_string())
            }
            "switches" => switches("probe-agent").to_string(),
            "threads" => threads(argument).to_string(),
            "fork" => {
                // SAFETY: the child calls what a child of a program with threads may, and the
                // runtime, which takes its locks across a fork.
                match unsafe { libc::fork() } {
                    0 => {
                        // The child takes over the conversation; its parent waits for its end.
                        process::id().to_string()
                    }
                    child => {
                        let mut status = 0;
                        // SAFETY: a place for the result.
                        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                        format!("{status}")
                    }
                }
            }
            "descriptors" => descriptors("socket:").len().to_string(),
            "reuse" => {
                let null = fs::File::open("/dev/null").unwrap();
                for number in descriptors("socket:") {
                    // SAFETY: the runtime takes it that programs do so.
                    assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), number) }, number);
                }
                descriptors("/dev/null").len().to_string()
            }
            "reused" => (descriptors("/dev/null").len() + 1).to_string(),
            "load" => {
                library = Some(Library::open(argument.as_ref()));
                "loaded".to_owned()
            }
            "call" => (library.as_ref().unwrap().function(argument))(5).to_string(),
            "unload" => {
                library.take().unwrap().close();
                "unloaded".to_owned()
            }
            "drop" => {
                drop(guard.take());
                "dropped".to_owned()
            }
            "exec" => panic!("{}", Command::new("/bin/cat").exec()),
            "exit" => process::exit(argument.parse().unwrap()),
            other => panic!("{other}"),
        });
    }
    if env::var_os("PROBE_TEST_END").is_some_and(|end| end == "exit") {
        process::exit(0);
    }
}

fn say(answer: &str) {
    let mut out = io::stdout().lock();
    writeln!(out, "\n{MARK}{answer}").and_then(|()| out.flush()).unwrap();
}

/// Starts a thread that works until the program ends, and checks its results.
fn busy() -> String {
    let right = worked(100);
    thread::spawn(move || {
        loop {
            let result = black_box(worked(black_box(100)));
            CALLS.fetch_add(100, Ordering::Relaxed);
            WRONG.fetch_add(u64::from(result != right), Ordering::Relaxed);
        }
    });
    right.to_string()
}

/// The times that threads of this name have slept or were interrupted.
fn switches(name: &str) -> u64 {
    let number = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().path());
    let of = |task: PathBuf| {
        let status = fs::read_to_string(task.join("status")).ok()?;
        let is_it = status.lines().next()? == format!("Name:\t{name}");
        let all = status.lines().filter(|line| line.contains("ctxt_switches"));
        is_it.then(|| all.filter_map(number).sum::<u64>())
    };
    tasks.filter_map(of).sum()
}

/// The threads of this name.
fn threads(name: &str) -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().map(|it| it.unwrap().path().join("comm"));
    tasks.filter(|comm| fs::read_to_string(comm).is_ok_and(|it| it.trim_end() == name)).count()
}

/// The numbers of open files whose names begin so.
fn descriptors(name: &str) -> Vec<i32> {
    let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
    all.filter(|it| fs::read_link(it.path()).is_ok_and(|it| it.to_string_lossy().starts_with(name)))
        .map(|it| it.file_name().to_str().unwrap().parse().unwrap())
        .collect()
}

/// A running program.
pub(crate) struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: PathBuf,
    pub(crate) runtime: PathBuf,
    _folder: Folder,
}

impl Target {
    /// Starts one that has an agent.
    pub(crate) fn new() -> Self {
        Self::with(&[("PROBE_AGENT", "1")])
    }

    pub(crate) fn with(variables: &[(&str, &str)]) -> Self {
        Self::prepared(variables, |_| ())
    }

    /// Starts one, after `prepare` has changed its folder.
    pub(crate) fn prepared(variables: &[(&str, &str)], prepare: impl FnOnce(&mut Command)) -> Self {
        let folder = Folder::new("target");
        let runtime = folder.join("run");
        DirBuilder::new().mode(0o700).create(&runtime).unwrap();
        let stderr = folder.join("stderr");
        let mut command = scenario::start("serve");
        command.env("XDG_RUNTIME_DIR", &runtime).env_remove("PROBES").envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(fs::File::create(&stderr).unwrap());
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut target = Self { child, stdin, stdout, stderr, runtime, _folder: folder };
        assert_eq!(target.answer(), "ready", "{}", target.said());
        target
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether a tracer has all of its threads.
    pub(crate) fn is_traced(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap().flatten();
        let statuses = tasks.filter_map(|it| fs::read_to_string(it.path().join("status")).ok());
        statuses.map(|it| it.contains("TracerPid:\t0\n")).all(|is_free| !is_free)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.socket_of(self.pid())
    }

    pub(crate) fn socket_of(&self, pid: u32) -> PathBuf {
        self.runtime.join(format!("latent-probes/{pid}.sock"))
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.pid()).unwrap_or_else(|error| panic!("{error}; {}", self.said()))
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    pub(crate) fn number(&mut self, line: &str) -> u64 {
        self.ask(line).parse().unwrap()
    }

    pub(crate) fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.stdout.read_line(&mut line).unwrap(), 0, "it has ended: {}", self.said());
            if let Some(answer) = line.strip_prefix(MARK) {
                return answer.trim_end().to_owned();
            }
        }
    }

    /// Returns the lines on its stderr so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }

    /// Checks that it works, and that its text is that of its file.
    pub(crate) fn is_as_before(&mut self) {
        assert_eq!(self.number("work 10"), 145);
        assert_eq!(self.number("text"), 0, "bytes differ");
    }

    /// Waits until its status is as it should be.
    pub(crate) fn until(&self, is_so: impl Fn(&Status) -> bool) -> Status {
        // Clients that have just left may still count.
        let mut client = until(|| Client::connect(self.pid()).ok());
        until(|| {
            let status = client.status().unwrap();
            is_so(&status).then_some(status)
        })
    }

    /// Closes its standard input, and waits for its end.
    pub(crate) fn end(&mut self) -> ExitStatus {
        self.stdin.take();
        self.child.wait().unwrap()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks until there is an answer.
pub(crate) fn until<T>(mut is_so: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(it) = is_so() {
            return it;
        }
        assert!(start.elapsed() < Duration::from_secs(100), "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}
