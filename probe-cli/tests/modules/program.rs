//! Programs in C without probes, and the agent that is preloaded into them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use probe_tests::c_library::compile;
use probe_tests::folder::Folder;
use probe_tests::instrumented;

pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules").join(name)
}

/// Compiles a source of this folder with the first compiler.
pub fn build(folder: &Folder, name: &str, flags: &[&str], out: &str) -> PathBuf {
    let out = folder.join(out);
    compile(instrumented::compilers()[0], flags, &[&source(name)], &out);
    out
}

/// The program that counts its calls.
pub fn storm(folder: &Folder) -> PathBuf {
    build(folder, "storm.c", &["-O1", "-pthread"], "storm")
}

/// A command with the agent, and with these probes.
pub fn with_agent(program: &Path, probes: &str) -> Command {
    let agent = env::current_exe().unwrap().with_file_name("libprobe_agent.so");
    let mut command = Command::new(program);
    for name in ["PROBE_AGENT", "PROBES_MODULES", "PROBES_OUT", "PROBE_RULES"] {
        command.env_remove(name);
    }
    command.env("LD_PRELOAD", agent).env("PROBES", probes);
    command
}

/// A program's output, and its messages.
#[derive(Debug)]
pub struct Ran {
    pub out: String,
    pub err: String,
}

pub fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let ran = Ran { out: text(output.stdout), err: text(output.stderr) };
    assert_eq!(output.status.code(), Some(0), "{ran:?}");
    ran
}

/// The hits of entries and of exits, by path.
pub type Hits = BTreeMap<String, [u64; 2]>;

/// Reads a report of `count`.
pub fn hits(report: &Path) -> Hits {
    let text = fs::read_to_string(report).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let [probe, kind, count] =
        ["probe", "kind", "hits"].map(|name| head.iter().position(|it| *it == name).unwrap());
    let mut hits = Hits::new();
    for line in lines {
        let at = usize::from(line[kind] == "exit");
        hits.entry(line[probe].to_owned()).or_default()[at] = line[count].parse().unwrap();
    }
    hits
}

/// Reads the program's own counts, of calls that return.
pub fn tally(out: &str) -> Hits {
    let counts = out.lines().filter_map(|line| line.split_once(' '));
    counts.filter_map(|(path, count)| Some((path.to_owned(), [count.parse().ok()?; 2]))).collect()
}

/// Runs the program with all modules counted, and compares its own counts.
pub fn counts_exactly(program: &Path, arguments: &[&str], folder: &Folder) {
    let mut command = with_agent(program, "lock::**, io::**, memory::** = count");
    let expected = compares(command.args(arguments), folder);
    assert!(expected.values().all(|counts| counts[0] > 1000), "{expected:?}");
}

/// Runs a program that counts its calls of six functions. Compares and returns its counts.
pub fn compares(command: &mut Command, folder: &Folder) -> Hits {
    let report = folder.join("hits.csv");
    let ran = ran(command.env("PROBES_OUT", &report));
    let (found, expected) = (hits(&report), tally(&ran.out));
    assert_eq!(expected.len(), 6, "{ran:?}");
    for (path, counts) in &expected {
        assert_eq!(found.get(path), Some(counts), "{path}, {command:?}");
    }
    let _ = fs::remove_file(report);
    expected
}

/// A program that follows lines, with an agent that other processes ask.
pub struct Served<'a> {
    folder: &'a Folder,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl<'a> Served<'a> {
    /// Starts the program with a plugin that it may load.
    pub fn start(folder: &'a Folder, program: &Path, plugin: &Path) -> Self {
        let mut command = with_agent(program, "");
        command.env_remove("PROBES").env("PROBE_AGENT", "1").env("PROBES_MODULES", "lock");
        command.arg("served").arg(plugin).env("XDG_RUNTIME_DIR", &**folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut served = Self { folder, child, stdin, stdout };
        assert_eq!(served.answer(), "ready");
        served
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub fn answered(&mut self) -> String {
        self.answer()
    }

    pub fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Asks `probectl`; returns its output.
    pub fn probectl(&self, command: &str, arguments: &[&str]) -> String {
        let pid = self.child.id().to_string();
        let mut probectl = Command::new(env!("CARGO_BIN_EXE_probectl"));
        probectl.args([command, "-p", &pid]).args(arguments).env("XDG_RUNTIME_DIR", &**self.folder);
        ran(&mut probectl).out
    }

    /// Ends its input; returns the rest of its output.
    pub fn end(mut self) -> String {
        self.stdin.take();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
