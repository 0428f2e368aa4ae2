//! `first_number`: the time from the start of `probectl count -p PID SELECTOR` on a terminal to the
//! first number that it shows: for a program that serves a socket; for one whose agent is started
//! from outside; for a program in C, into which the library is injected. The goal is at most 100
//! ms. Each sample is a process.
//!
//! Beside them, for the same program: `perf stat` to its first number, and gdb to the result of a
//! function that it calls in the program. `script` of util-linux provides the terminals, and its
//! start is a part of each time.

use std::env;
use std::fs::{self, DirBuilder};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use probe_benches::{IS_PATCHED, Scale, figure, median};
use probe_cli::args::Arguments;
use probe_cli::{commands, output};
use probe_runtime::{init_from_env, probe};
use probe_tests::folder::Folder;
use probe_tests::{c_library, instrumented};

/// The work that this program's child process does.
const SAMPLE: &str = "PROBE_BENCHES_FIRST";

/// The program in C. It ends with its input.
const SOURCE: &str = r#"
#include <probe.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static unsigned long order(unsigned long x) {
    PROBE_U64("order", x);
    return 3 * x + 1;
}
static void *works(void *unused) {
    for (unsigned long x = 0;; x++) { order(x); usleep(100); }
    return unused;
}
int main(void) {
    pthread_t thread;
    char byte;
    pthread_create(&thread, 0, works, 0);
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0) { }
    return 0;
}
"#;

fn main() -> ExitCode {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return ExitCode::SUCCESS;
    }
    match env::var(SAMPLE).as_deref() {
        Ok("serve") => return serve(),
        Ok("probectl") => {
            let arguments =
                Arguments::parse_from([String::from("probectl")].into_iter().chain(env::args().skip(1)));
            return output::print(commands::run(&arguments)).into();
        }
        _ => (),
    }
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("there is no `script`, which brings a terminal");
        return ExitCode::SUCCESS;
    }
    let bench = Bench::new();
    let rounds = Scale::from_args().of(31);
    let [mut served, mut started, mut loaded, mut perf, mut gdb] = [const { Vec::new() }; 5];
    for _ in 0..rounds {
        served.extend(bench.counts(&bench.own("1")));
        started.extend(bench.counts(&bench.own("0")));
        loaded.extend(bench.counts(&bench.of_c()));
        let of = |line: &str, number: &str| bench.shows(&bench.own("0"), line, number);
        perf.extend(of("perf stat -e task-clock -I 10 -p", "msec"));
        gdb.extend(of("gdb -nx -q -batch -ex 'print (int)getpid()' -p", "$1 = "));
    }
    let both = [("perf stat", perf), ("gdb, which calls a function", gdb)];
    let both = both.map(|(name, times)| (name, (!times.is_empty()).then(|| median(times))));
    for (name, times, (tool, beside)) in
        [("served", served, both[0]), ("started", started, both[1]), ("loaded", loaded, both[1])]
    {
        match (times.is_empty(), beside) {
            (true, _) => println!("nobody may trace here, so there is no first_number/{name}"),
            (_, None) => println!("there is no {tool}, so nothing is beside first_number/{name}"),
            (_, Some(beside)) => {
                let ms = median(times);
                let tool = format!("{beside:.1} ms by {tool}");
                figure(&format!("first_number/{name}"), format_args!("{ms:.1}"), "ms", ms / beside, &tool);
            }
        }
    }
    ExitCode::SUCCESS
}

/// The files of all samples.
struct Bench {
    folder: Folder,
    this: PathBuf,
}

impl Bench {
    fn new() -> Self {
        let folder = Folder::new("first");
        DirBuilder::new().mode(0o700).create(folder.join("run")).expect("a folder");
        fs::write(folder.join("order.c"), SOURCE).expect("a file");
        let flags = ["-O1", "-g", "-pthread", "-D_GNU_SOURCE"];
        let (source, out) = (folder.join("order.c"), folder.join("order"));
        let said = c_library::run(instrumented::compilers()[0], &flags, &[&source], &out);
        assert!(said.is_done, "{}", said.messages);
        Self { folder, this: env::current_exe().expect("this program has a file") }
    }

    /// This program, with its agent or without.
    fn own(&self, agent: &str) -> Program {
        Program::start(Command::new(&self.this).env(SAMPLE, "serve").env("PROBE_AGENT", agent), self)
    }

    fn of_c(&self) -> Program {
        Program::start(&mut Command::new(self.folder.join("order")), self)
    }

    /// Returns the milliseconds for `probectl count`; `None` if this machine forbids tracing.
    fn counts(&self, program: &Program) -> Option<f64> {
        let took = self.shows(program, &format!("{} count '**::order' -p", self.this.display()), "order ");
        took.map_err(|said| assert!(said.contains("can't be traced"), "{said}")).ok()
    }

    /// Runs a command on a program, in a terminal, until the command has shown a line with these
    /// words. Returns the milliseconds, or the whole output if the command ends before.
    fn shows(&self, program: &Program, command: &str, words: &str) -> Result<f64, String> {
        let mut script = Command::new("script");
        script.args(["-qec", &format!("exec {command} {}", program.0.id()), "/dev/null"]);
        // Cargo builds the library for this bench.
        let library = self.this.with_file_name("libprobe_agent.so");
        script.env("TERM", "xterm").env("SHELL", "/bin/sh").env("PROBE_AGENT_LIBRARY", library);
        script.env(SAMPLE, "probectl").env("XDG_RUNTIME_DIR", self.folder.join("run"));
        let begun = Instant::now();
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let took = shown(script.stdout.take().expect("a pipe"), words).map(|()| begun.elapsed());
        // This closes the terminal, which ends the command.
        let _ = script.kill();
        script.wait().expect("it has ended");
        took.map(|it| it.as_secs_f64() * 1e3)
    }
}

/// Reads until a line has these words. Returns the whole output if no line has.
fn shown(mut out: ChildStdout, words: &str) -> Result<(), String> {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    while let Ok(many @ 1..) = out.read(&mut bytes) {
        text.push_str(&String::from_utf8_lossy(&bytes[..many]));
        if text.find(words).is_some_and(|at| text[at..].contains('\n')) {
            return Ok(());
        }
    }
    Err(text)
}

/// A running program.
struct Program(Child);

impl Program {
    fn start(command: &mut Command, bench: &Bench) -> Self {
        let command = command.env("XDG_RUNTIME_DIR", bench.folder.join("run")).env_remove("PROBES");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut line = String::new();
        let stdout = child.stdout.as_mut().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self(child)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // This program ends with its input, too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Works until its input ends.
fn serve() -> ExitCode {
    let _probes = init_from_env().expect("an agent");
    thread::spawn(|| {
        for number in 0.. {
            black_box(order(black_box(number)));
            thread::sleep(Duration::from_micros(100));
        }
    });
    println!("ready");
    io::stdout().flush().expect("a pipe");
    let _ = io::stdin().read(&mut [0]);
    ExitCode::SUCCESS
}

#[probe]
#[inline(never)]
fn order(number: u64) -> u64 {
    3 * number + 1
}
