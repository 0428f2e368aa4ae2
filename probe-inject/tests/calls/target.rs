//! The program in which functions are called, and the tests' way to it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use probe_inject::{CriticalCode, InjectError, Process, RemoteCall, maps};

/// The calls of each program.
pub const CALLS: u64 = 20;

/// The program, by the compiler of this machine.
pub fn program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/calls/target.c");
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("target-{}", std::process::id()));
        let mut command = Command::new("cc");
        command.args(["-O1", "-mavx", "-pthread", "-fcf-protection=none", "-o"]).arg(&out).arg(source);
        assert!(command.status().unwrap().success());
        out
    })
}

/// A program that runs.
pub struct Target {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    pub stdout: BufReader<ChildStdout>,
    /// `called`, `refuses`, `reason` and `reads`.
    pub functions: [u64; 4],
    /// An address in `locks` to which a call returns.
    pub return_address: u64,
}

impl Target {
    pub fn start(mode: &str) -> Self {
        Self::of(Command::new(program()).arg(mode))
    }

    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, mut stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let line = line(&mut stdout);
        let mut words = line.split(' ').map(|word| u64::from_str_radix(&word[2..], 16).unwrap());
        let functions = [(); 4].map(|()| words.next().unwrap());
        let return_address = words.next().unwrap();
        Self { child, stdin, stdout, functions, return_address }
    }

    /// Opens it. `None` if nobody may trace here, which is said.
    pub fn open(&self) -> Option<Process> {
        match Process::open(self.child.id()) {
            Ok(process) => Some(process),
            Err(error @ InjectError::NotAllowed { .. }) => {
                println!("left out: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    pub fn call(&self, process: &mut Process, number: u64) {
        called(process, self.functions[0], number);
    }

    /// Ends its input, and lets it end. Returns its last line.
    pub fn end(&mut self, mode: &str) -> String {
        self.stdin.take();
        let by_signal = [
            "spin", "signals", "threads", "until", "sigwait", "stale", "handled", "locked", "futex", "mutex",
            "long", "long-memory",
        ];
        if by_signal.contains(&mode) {
            let pid = self.child.id().to_string();
            assert!(Command::new("kill").arg(&pid).status().unwrap().success());
        }
        let line = line(&mut self.stdout);
        match self.child.wait() {
            Ok(status) => assert!(status.success()),
            // This process has noticed the end as the tracer that it is, too.
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::ECHILD)),
        }
        line
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls `called`.
pub fn called(process: &mut Process, function: u64, number: u64) {
    called_at(process, function, number, &CriticalCode::default());
}

pub fn called_at(process: &mut Process, function: u64, number: u64, critical: &CriticalCode) {
    let call = RemoteCall { function, arguments: [0, 0, number], takes_text: true, ..RemoteCall::default() };
    let returned = process.call(&call, critical).unwrap();
    assert_eq!((returned.value, returned.text), (2 * number, format!("call {number}")));
}

pub fn line(stdout: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

/// Returns the executable bytes of the program's file in memory.
pub fn code(pid: u32) -> Vec<u8> {
    let memory = probe_inject::Memory::open(pid).unwrap();
    let all = maps(pid).unwrap();
    let own = all.iter().find(|it| it.is_executable && it.name == program().to_str().unwrap()).unwrap();
    memory.bytes(own.start, usize::try_from(own.end - own.start).unwrap()).unwrap()
}

/// Returns the states of a process's threads.
pub fn states(pid: u32) -> Vec<char> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stat = threads.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
    stat.filter_map(|it| it.rsplit_once(") ")?.1.chars().next()).collect()
}

pub fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(100), "it does not happen");
        thread::sleep(Duration::from_millis(1));
    }
}
