//! Programs that have probes and no runtime, started by `probectl run`, and the test's way to them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::OnceLock;

use probe_cli::elf::Image;
use probe_tests::c_library;
use probe_tests::fixture::Configuration;
use probe_tests::instrumented;

use crate::program::{Folder, Ran, probectl, this, until};

/// Works a hundred times for each line of its input, or once. A plugin may do the work, and another
/// one be opened and closed.
const SOURCE: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
#ifndef POINT
#define POINT "working"
#endif
#ifdef PROBED
#include <probe.h>
#else
#define PROBE_U64(name, x) ((void)(x))
#endif
#ifdef NOTE
NOTE
#endif
unsigned long work(unsigned long x);
#ifndef HOST
__attribute__((noinline)) unsigned long work(unsigned long x) {
    PROBE_U64(POINT, x);
    return 3 * x + 1;
}
#endif
#ifndef PLUGIN
int main(int count, char **arguments) {
    char line[99];
#ifdef LATE
    void *late = 0;
    int opened = 0;
#endif
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        unsigned long sum = 0;
#ifdef HOST
        void *plugin = dlopen(arguments[count - 1], RTLD_NOW);
        unsigned long (*work)(unsigned long) = dlsym(plugin, "work");
#endif
        if (line[0] == 'e') execv(arguments[0], arguments);
        if (line[0] == 'f' && fork()) pause();
        if (line[0] == 'c') {
            int child = fork(), status = 0;
            for (unsigned long x = 0; x < 100; x++) sum += work(x);
            if (child == 0) _exit(sum == 14950 ? 5 : 1);
            waitpid(child, &status, 0);
            printf("%d\n", WEXITSTATUS(status));
            fflush(stdout);
            continue;
        }
#ifdef LATE
        if (line[0] == 'l') {
            late = dlopen(arguments[count - 1], RTLD_NOW);
            opened++;
            unsigned long (*plugged)(unsigned long) = dlsym(late, "work");
            for (unsigned long x = 0; x < 100; x++) sum += plugged(x);
            printf("%lu\n", sum);
            fflush(stdout);
            continue;
        }
        if (line[0] == 'u') {
            for (; opened; opened--) dlclose(late);
            printf("%d\n", dlopen(arguments[count - 1], RTLD_NOW | RTLD_NOLOAD) != 0);
            fflush(stdout);
            continue;
        }
#endif
        for (unsigned long x = 0; x < (line[0] == '1' ? 1 : 100); x++) sum += work(x);
        printf("%lu\n", sum);
        fflush(stdout);
    }
    return 7;
}
#endif
"#;

/// The programs of these tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// C with points by hand.
    Points,
    /// C with the compiler's hooks.
    Hooks,
    /// C without probes, which loads the last one.
    Host,
    Plugin,
    /// C with points by hand, which loads the next one later, and may close it.
    Late,
    /// With another point.
    Plugged,
}

/// Compiles one of the programs.
pub fn compiled(folder: &Folder, kind: Kind, flags: &[&str]) -> PathBuf {
    let source = folder.0.join("program.c");
    fs::write(&source, SOURCE).unwrap();
    let out = folder.0.join(format!("{kind:?}-{}", std::process::id()));
    let mut all = vec!["-O1", "-g"];
    all.extend(match kind {
        Kind::Points => &["-DPROBED"][..],
        Kind::Hooks => &["-finstrument-functions"],
        Kind::Host => &["-DHOST"],
        Kind::Plugin => &["-DPROBED", "-DPLUGIN", "-shared", "-fPIC"],
        Kind::Late => &["-DPROBED", "-DLATE", "-ldl"],
        Kind::Plugged => &["-DPROBED", "-DPLUGIN", "-DPOINT=\"plugged\"", "-shared", "-fPIC"],
    });
    all.extend(flags);
    let said = c_library::run(instrumented::compilers()[0], &all, &[&source], &out);
    assert!(said.is_done, "{}", said.messages);
    out
}

/// A Rust program that knows nothing of its library's probes.
pub fn plain() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let plain = || {
        let plain = Configuration::new(env!("CARGO_TARGET_TMPDIR"), "shipped", "plain");
        plain.release_on_plain_runtime().build("plain").path("plain")
    };
    BUILT.get_or_init(plain).clone()
}

/// The library, which cargo builds for this test.
pub fn agent() -> PathBuf {
    this().with_file_name("libprobe_agent.so")
}

/// `probectl` with this library.
pub fn with_agent(folder: &Folder, arguments: &[&str]) -> Command {
    let mut command = probectl(folder, arguments);
    command.env("PROBE_AGENT_LIBRARY", agent());
    for name in ["PROBES", "PROBE_AGENT", "LD_PRELOAD"] {
        command.env_remove(name);
    }
    command
}

/// Runs `probectl run` with a command.
pub fn ran(folder: &Folder, arguments: &[&str]) -> Ran {
    Ran::from(output(with_agent(folder, &["run"]).args(arguments)))
}

pub fn output(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// A program that was started by `probectl run`.
pub struct Served {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Served {
    /// Starts one. It has a socket, if it gets one, before it says that it is ready.
    pub fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let mut command = with_agent(folder, &["run"]);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut served = Self { child, stdin, stdout };
        assert_eq!(served.answer(), "ready");
        served
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn pid(&self) -> String {
        self.id().to_string()
    }

    pub fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn ask(&mut self, line: &str) -> String {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
        self.answer()
    }

    /// Ends its input, and returns its exit code.
    pub fn end(&mut self) -> Option<i32> {
        self.stdin.take();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns how many bytes of code differ between a process and the file that it runs.
pub fn differing(pid: u32, file: &Path) -> usize {
    let file = file.canonicalize().unwrap();
    let bytes = fs::read(&file).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut maps = String::new();
    // The program may be about to close its text after another switch.
    until(|| {
        maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        !maps.lines().any(|line| line.ends_with(file.to_str().unwrap()) && line.contains(" rwxp "))
    });
    let number = |hex| u64::from_str_radix(hex, 16).unwrap();
    let mut differing = 0;
    let mut compared = 0;
    for line in maps.lines().filter(|line| line.ends_with(file.to_str().unwrap())) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (start, end) = words[0].split_once('-').unwrap();
        if !words[1].contains('x') {
            continue;
        }
        assert_eq!(words[1], "r-xp");
        let from = usize::try_from(number(words[2])).unwrap();
        let mut mapped = vec![0; usize::try_from(number(end) - number(start)).unwrap()];
        memory.read_exact_at(&mut mapped, number(start)).unwrap();
        let pairs = mapped.iter().zip(&bytes[from..]);
        compared += pairs.len();
        differing += pairs.filter(|(memory, file)| memory != file).count();
    }
    assert_ne!(compared, 0, "{maps}");
    differing
}

/// Returns the names of a process's threads.
pub fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    // One may end meanwhile.
    let names = tasks.filter_map(|it| fs::read_to_string(it.path().join("comm")).ok());
    names.map(|it| it.trim_end().to_owned()).collect()
}

/// Changes the name of a program's dynamic linker.
pub fn with_loader(program: &Path, name: &str) -> PathBuf {
    let image = Image::open(program).unwrap();
    let loader = image.interpreter().unwrap().unwrap();
    let old = loader.as_os_str();
    assert!(name.len() <= old.len());
    let mut bytes = fs::read(program).unwrap();
    let at = bytes
        .windows(old.len())
        .position(|it| OsStr::new(std::str::from_utf8(it).unwrap_or_default()) == old);
    let at = at.unwrap();
    bytes[at..at + old.len()].fill(0);
    bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
    let changed = program.with_extension("other");
    fs::copy(program, &changed).unwrap();
    fs::write(&changed, bytes).unwrap();
    changed
}
