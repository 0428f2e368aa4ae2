//! `top`: the CPU time that a program loses to `probectl top`: a program of three functions, and
//! one of 5,000. Both do the same work with and without it, in turns; `again` is the noise of that.
//! `threads` is the part of the program's CPU time that the runtime's own threads take meanwhile,
//! which has less noise.
//!
//! The program is a process of its own, and so is `top`, in a terminal that `script` of util-linux
//! provides.

// Safety: relies on `generated_functions`, whose functions lie one behind the other and begin with
// the bytes that this program searches for.
#![expect(unsafe_code, reason = "see above")]

use std::env;
use std::fs::DirBuilder;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{slice, thread};

use clap::Parser;
use probe_benches::{IS_PATCHED, Scale, figure, median, process_ns, thread_ns};
use probe_cli::args::Arguments;
use probe_cli::{commands, output};
use probe_protocol::Client;
use probe_runtime::{init_from_env, probe};
use probe_tests::folder::Folder;

const FUNCTIONS: usize = 5_000;
probe_benches::generated_functions!(5_000);

/// The work of a process that this program has started, and the process that `top` looks at.
const SAMPLE: &str = "PROBE_BENCHES_TOP";
const TARGET: &str = "PROBE_BENCHES_TARGET";

fn main() -> ExitCode {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return ExitCode::SUCCESS;
    }
    match env::var(SAMPLE).as_deref() {
        Ok("top") => return top(),
        Ok("few") => return serve(&mut |number| serve_order(number)),
        Ok("many") => {
            let all = all();
            return serve(&mut |number| all.iter().fold(number, |sum, function| function(spin(sum, 150))));
        }
        _ => (),
    }
    if Command::new("script").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("there is no `script`, which brings a terminal");
        return ExitCode::SUCCESS;
    }
    // Seconds each, under `cargo bench`.
    measure("few", "top::**", 3, 30_000);
    measure("many", "generated::**", FUNCTIONS, 3_000);
    ExitCode::SUCCESS
}

fn measure(name: &str, selector: &str, functions: usize, work: u64) {
    let scale = Scale::from_args();
    let (rounds, work) = (scale.of(7), scale.of(work));
    let folder = Folder::new("top");
    DirBuilder::new().mode(0o700).create(folder.join("run")).expect("a folder");
    let mut program = Program::start(name, &folder);
    program.work(work);
    let [mut without, mut with, mut again, mut threads] = [const { Vec::new() }; 4];
    for _ in 0..rounds {
        without.push(program.work(work).0);
        let top = Top::start(&program, selector, functions, &folder);
        // The beginning differs: the program lists its probes, and rehearses hits.
        program.work(work);
        let (all, others) = program.work(work);
        with.push(all);
        threads.push(others / all);
        top.quit(&program);
        again.push(program.work(work).0);
    }
    let without = median(without);
    let percent = |ratio: f64| format!("{:.2}", 100.0 * (ratio - 1.0));
    for (name, value) in [(name.to_owned(), median(with)), (format!("{name}-again"), median(again))] {
        let ratio = value / without;
        figure(&format!("top/{name}"), percent(ratio), "% slower", ratio, "the same program alone");
    }
    let part = median(threads);
    let percent = format_args!("{:.3}", 100.0 * part);
    figure(&format!("top/{name}-threads"), percent, "%", part, "the program's CPU time");
}

/// A program that works when it is asked.
struct Program {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(sample: &str, folder: &Folder) -> Self {
        let mut command = Command::new(env::current_exe().expect("this program has a file"));
        command.env(SAMPLE, sample).env("PROBE_AGENT", "1").env("XDG_RUNTIME_DIR", folder.join("run"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let stdin = child.stdin.take().expect("a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, stdin, stdout }
    }

    /// Lets the program work. Returns the nanoseconds of CPU time, and those of threads that do not
    /// work.
    fn work(&mut self, amount: u64) -> (f64, f64) {
        writeln!(self.stdin, "{amount}").expect("it reads");
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        let (all, others) = line.trim_end().split_once(' ').expect("two numbers");
        (all.parse().expect("a number"), others.parse().expect("a number"))
    }

    fn has_attachments(&self) -> bool {
        let mut client = Client::connect(self.child.id()).expect("an agent");
        !client.status().expect("its status").attachments.is_empty()
    }

    fn wait_until(&self, has_attachments: bool) {
        let begin = Instant::now();
        while self.has_attachments() != has_attachments {
            assert!(begin.elapsed() < Duration::from_secs(60), "top neither comes nor goes");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program also ends with its input.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `top` in a terminal.
struct Top {
    script: Child,
    keys: ChildStdin,
}

impl Top {
    fn start(program: &Program, selector: &str, functions: usize, folder: &Folder) -> Self {
        let this = env::current_exe().expect("this program has a file");
        let line = format!("stty cols 200 rows 50; exec {} '{selector}'", this.display());
        let mut command = Command::new("script");
        command.args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").env(SAMPLE, "top");
        command.env(TARGET, program.child.id().to_string()).env("XDG_RUNTIME_DIR", folder.join("run"));
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut script = pipes.spawn().expect("it runs");
        let keys = script.stdin.take().expect("a pipe");
        program.wait_until(true);
        let mut client = Client::connect(program.child.id()).expect("an agent");
        let listed = client.list(&format!("{selector} kind=entry")).expect("its probes");
        let active = client.status().expect("its status").attachments;
        assert_eq!((listed.len(), active.len()), (functions, 1), "all functions are estimated: {active:?}");
        Self { script, keys }
    }

    fn quit(mut self, program: &Program) {
        self.keys.write_all(b"q").expect("it reads");
        assert!(self.script.wait().expect("it ends").success());
        program.wait_until(false);
    }
}

/// Becomes `probectl top`.
fn top() -> ExitCode {
    let target = env::var(TARGET).expect("a process");
    let selector = env::args().nth(1).expect("a selector");
    let arguments = Arguments::parse_from(["probectl", "top", "-p", &target, &selector]);
    output::print(commands::run(&arguments)).into()
}

/// Reads lines, and works as often as each says.
fn serve(work: &mut dyn FnMut(u64) -> u64) -> ExitCode {
    let _probes = init_from_env().expect("an agent");
    let mut out = io::stdout().lock();
    for line in io::stdin().lines() {
        let amount: u64 = line.expect("a line").parse().expect("a number");
        let (all, own) = (process_ns(), thread_ns());
        (0..amount).for_each(|number| _ = black_box(work(black_box(number))));
        let own = thread_ns() - own;
        let all = process_ns() - all;
        writeln!(out, "{all} {}", all.saturating_sub(own)).expect("it is read");
    }
    ExitCode::SUCCESS
}

fn spin(number: u64, rounds: u64) -> u64 {
    (0..rounds).fold(number, |sum, n| black_box(sum ^ n))
}

#[probe]
#[inline(never)]
fn serve_order(number: u64) -> u64 {
    (0..3).map(|article| price(number + article)).fold(0, |sum, cents| sum ^ cents) ^ pay(number)
}

#[probe]
#[inline(never)]
fn price(article: u64) -> u64 {
    spin(article, 20_000)
}

#[probe]
#[inline(never)]
fn pay(number: u64) -> u64 {
    spin(number, 20_000)
}

/// Finds the generated functions.
fn all() -> Vec<extern "C" fn(u64) -> u64> {
    /// The site, and the first instruction behind it.
    const BEGIN: [u8; 9] = [0x0f, 0x1f, 0x44, 0x00, 0x08, 0x48, 0x8d, 0x47, 0x01];
    let first = generated_first as extern "C" fn(u64) -> u64 as usize;
    let mut found = Vec::new();
    for at in (first..).step_by(16) {
        // SAFETY: all functions lie behind the first one, in text that no thread patches yet.
        let bytes = unsafe { slice::from_raw_parts(at as *const u8, BEGIN.len()) };
        if bytes == BEGIN {
            // SAFETY: a generated function begins here, which has this type.
            found.push(unsafe { std::mem::transmute::<usize, extern "C" fn(u64) -> u64>(at) });
        }
        if found.len() == FUNCTIONS {
            break;
        }
    }
    found
}
