//! `agent`: the cost of other processes that ask the program. The time that starting the agent adds
//! to the start of a program; enabling 10,000 sites over the socket, the first time in a process
//! and again; listing their probes; the time from a client's connection to its first number.
//!
//! Each sample is a process, which this program runs: the kernel copies each page of code once in a
//! process.

use std::env;
use std::fs::DirBuilder;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Instant;

use probe_benches::{IS_PATCHED, Scale, figure, median, monotonic_ns};
use probe_protocol::{Attach, Client};
use probe_runtime::spec::attach_spec;
use probe_runtime::{Error, agent, init_from_env, probes};
use probe_tests::folder::Folder;

probe_benches::generated_functions!(5_000);

const PROBES: u64 = 10_000;
const ONE: &str = "generated::f000000 kind=entry=count";
const COUNT: &str = "generated::**=count";
/// The work of a sample's process.
const SAMPLE: &str = "PROBE_BENCHES_AGENT";

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    black_box(generated_first as extern "C" fn(u64) -> u64);
    match env::var(SAMPLE).as_deref() {
        Ok("inside") => return inside(),
        Ok("first") => return first(),
        Ok("outside") => return serve(),
        _ => (),
    }
    let folder = Folder::new("agent");
    DirBuilder::new().mode(0o700).create(folder.join("run")).expect("a folder");
    let rounds = Scale::from_args().of(51);
    let (mut starts, mut steps) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut calls = Vec::new();
    for _ in 0..rounds {
        for (agent, starts) in ["0", "1"].iter().zip(&mut starts) {
            let program = Program::start("outside", agent, &folder);
            starts.push(program.started);
            calls.extend(program.numbers.first().copied().filter(|_| *agent == "1"));
            program.end();
        }
        let mut program = Program::start("inside", "0", &folder);
        let mut took = program.numbers();
        program.end();
        let mut program = Program::start("first", "0", &folder);
        took.extend(program.numbers());
        program.end();
        steps[0].push(took);
        steps[1].push(outside(&folder));
    }
    let [without, with] = starts.map(median);
    figure(
        "agent/start",
        format_args!("{with:.3}"),
        "ms",
        with / without,
        &format!("{without:.3} ms without"),
    );
    let call = median(calls);
    figure("agent/start-added", format_args!("{call:.3}"), "ms", call / without, "the program's start");
    let of = |side: usize, step: usize| median(steps[side].iter().map(|it| it[step]).collect());
    for (step, name) in
        ["enable-10k-first", "enable-10k-again", "list-10k", "to-first-number"].iter().enumerate()
    {
        let (inside, outside) = (of(0, step), of(1, step));
        figure(
            &format!("agent/{name}"),
            format_args!("{outside:.2}"),
            "ms",
            outside / inside,
            &format!("{inside:.2} ms in the program"),
        );
    }
    Ok(())
}

/// A running program.
struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// Milliseconds until it was ready.
    started: f64,
    /// The rest of its first line.
    numbers: Vec<f64>,
}

impl Program {
    fn start(sample: &str, agent: &str, folder: &Folder) -> Self {
        let mut command = Command::new(env::current_exe().expect("this program has a file"));
        command.env(SAMPLE, sample).env("PROBE_AGENT", agent).env("XDG_RUNTIME_DIR", folder.join("run"));
        let before = monotonic_ns();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut program = Self { child, stdout, started: 0.0, numbers: Vec::new() };
        let mut numbers = program.numbers();
        program.started = numbers.remove(0) - ms(before);
        program.numbers = numbers;
        program
    }

    /// Reads a line of numbers.
    fn numbers(&mut self) -> Vec<f64> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.split_ascii_whitespace().map(|it| it.parse().expect("a number")).collect()
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

/// Says when it was ready, and how long the agent took to start; then waits.
fn serve() -> Result<(), Error> {
    let begun = Instant::now();
    let _probes = init_from_env()?;
    println!("{} {}", ms(monotonic_ns()), milliseconds(begun));
    let mut lines = io::stdin().lines();
    while let Some(Ok(_)) = lines.next() {
        println!("{}", black_box(generated_first as extern "C" fn(u64) -> u64)(7));
    }
    Ok(())
}

/// Attaches, twice, in the program itself.
fn inside() -> Result<(), Error> {
    println!("{}", ms(monotonic_ns()));
    // The same threads as with an agent.
    let _agent = agent::start()?;
    let mut took = Vec::new();
    for _ in 0..2 {
        let start = Instant::now();
        let attached = attach_spec(COUNT)?;
        took.push(milliseconds(start));
        let counts = attached[0].attachment::<probe_runtime::Count>().expect("it counts");
        assert_eq!(counts.report().patched() as u64, PROBES);
    }
    let start = Instant::now();
    assert!(probes().len() as u64 >= PROBES);
    println!("{} {} {}", took[0], took[1], milliseconds(start));
    wait();
    Ok(())
}

/// Attaches and reads a number, before anything else.
fn first() -> Result<(), Error> {
    println!("{}", ms(monotonic_ns()));
    let _agent = agent::start()?;
    let start = Instant::now();
    let attached = attach_spec(ONE)?;
    black_box(attached[0].to_json());
    println!("{}", milliseconds(start));
    wait();
    Ok(())
}

fn wait() {
    io::stdout().flush().expect("a pipe");
    let _ = io::stdin().lines().next();
}

/// The same from outside.
fn outside(folder: &Folder) -> Vec<f64> {
    let mut program = Program::start("outside", "1", folder);
    let start = Instant::now();
    let mut client = Client::connect(program.child.id()).expect("an agent");
    let one = client.attach(&Attach::new(ONE)).expect("a probe");
    black_box(client.report(one.id, 0, "json").expect("a number"));
    let first = milliseconds(start);
    client.detach(one.id).expect("it is attached");
    drop(client);
    program.end();

    program = Program::start("outside", "1", folder);
    let mut client = Client::connect(program.child.id()).expect("an agent");
    let mut took = Vec::new();
    for _ in 0..2 {
        let start = Instant::now();
        let attached = client.attach(&Attach::new(COUNT)).expect("its probes");
        took.push(milliseconds(start));
        assert_eq!(attached.consumers[0].sites, PROBES);
        writeln!(program.child.stdin.as_ref().expect("a pipe"), "call").expect("it reads");
        program.numbers();
        let text = client.report(attached.id, 0, "csv").expect("a report").text;
        assert_eq!(text.lines().filter(|line| line.ends_with(",1")).count(), 2, "an entry and an exit");
        client.detach(attached.id).expect("it is attached");
    }
    let start = Instant::now();
    assert_eq!(client.list("generated::**").expect("its probes").len() as u64, PROBES);
    took.push(milliseconds(start));
    drop(client);
    program.end();
    took.push(first);
    took
}

fn ms(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e6
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
