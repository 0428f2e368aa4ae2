//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, CommandFactory, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
use probe_lang::units::{self, time};

use crate::output::Failure;

/// Lists, checks and reports latent probes from outside of the program.
///
/// A selector names probes: `net::**`, `**::handle kind=entry`, `@server.rs:42`, `group=db`,
/// `net::*, !net::poll`. Quote it, since shells take `*` and `!` for themselves.
#[derive(Clone, PartialEq, Eq, Debug, Parser)]
#[command(name = "probectl", version, after_help = EXIT_CODES)]
pub struct Arguments {
    /// Writes JSON in place of a table
    #[arg(long, global = true)]
    pub json: bool,
    /// Keeps tables whole on a terminal; else they are cut to its width
    #[arg(long, global = true)]
    pub wide: bool,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "Exit codes:
  0  done; watch also if the program has ended
  1  audit, diff --fail or doctor has found something
  2  the command line is wrong, or a selector in it
  3  a file can't be read or written, or ends early, or a program can't be asked
  4  no probe matches the selector, a file has none, or points match only where calls are timed
  130  ended by a second signal, such as Ctrl-C twice";

/// A command, with its arguments.
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum Command {
    /// Lists the probes of a file, without running it, or of a running program
    ///
    /// The file may be stripped. A field's type is that of its value in the code. A probe without
    /// sites was optimised away.
    List(List),
    /// Checks each site of a file
    ///
    /// Shows the place of each site, the way it is switched, and its state. Findings are sites that
    /// can't be switched safely, and tables that can't be read. Ends with 1 if there is one.
    Audit(Audit),
    /// Makes latent probes of the calls of hooks in a file that is compiled already
    ///
    /// FILE was built with -finstrument-functions. Each call of a hook becomes a NOP in OUT, which
    /// gets a table of its sites. A call whose function the code does not tell stays, and is named.
    Coldpatch(Coldpatch),
    /// Converts traces for other tools
    ///
    /// The ending of OUT tells its format: .pftrace or .perfetto-trace for Perfetto, .json for
    /// Chrome's trace events, .folded for flame graphs. Traces of several processes become one time
    /// line.
    Convert(Convert),
    /// Reports the calls in traces, a row for each function
    ///
    /// Traces of several processes are merged. With --json, the report is one that `diff` reads.
    Report(Report),
    /// Compares two traces or reports: what became slower, and by how much
    ///
    /// Compares the mean times of each function's calls. The error holds in 95 of 100 comparisons
    /// if both runs are typical. Two runs of one program may differ by more.
    Diff(Diff),
    /// A command on a running program.
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    Live(LiveCommand),
    /// Runs a build that knows of no probes, and puts one into each function of C and C++
    ///
    /// `probectl cc -- make -j4`, and the same with ./configure, cmake, meson or cargo. Sets CC and
    /// CXX to `probe-cc` and `probe-cxx`, also as arguments of make, so that they win over the
    /// Makefile. The compilers that they named before stand behind these. The build takes the place
    /// of `probectl`, and ends as it would without.
    #[cfg(target_os = "linux")]
    Cc(Cc),
    /// Tells what this machine and this process allow, and what to do
    ///
    /// Ends with 1 if sites can't be switched here.
    Doctor,
    /// Writes completions for a shell to stdout
    Completions(Completions),
    /// Writes the manual page to stdout: `probectl man | man -l -`
    Man(Man),
}

/// A command on a running program, with its arguments.
#[cfg(target_os = "linux")]
#[derive(Clone, PartialEq, Eq, Debug, Subcommand)]
pub enum LiveCommand {
    /// Counts hits in a running program
    ///
    /// Shows numbers as the program runs: on a terminal a table that is refreshed, into a pipe one
    /// at the end, or one at each interval of --every. The probes are latent again when it ends,
    /// also if it is killed; then, with --ptrace, `disable --ptrace` makes them so.
    #[command(override_usage = "probectl count [OPTIONS] <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Count(Count),
    /// Measures how long calls take in a running program: mean, percentiles, maximum
    ///
    /// Shows times as `count` shows numbers.
    #[command(override_usage = "probectl latency [OPTIONS] <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Latency(Timed),
    /// Groups the hits of a running program by their fields: sums, extremes, histograms
    ///
    /// `probectl aggregate -p PID 'sum(bytes) by(path)' 'net::handle[ok]'`. There are count, sum,
    /// min, max, avg, quantize, latency, until and held. Shows groups as `count` shows numbers.
    #[command(
        override_usage = "probectl aggregate [OPTIONS] <AGGREGATION> <SELECTOR> <-p PID|-n NAME|-- CMD...>"
    )]
    Aggregate(Aggregate),
    /// Draws the call tree of a running program, with times
    ///
    /// Shows trees as `count` shows numbers.
    #[command(override_usage = "probectl calls [OPTIONS] <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Calls(Timed),
    /// Estimates calls and times of all functions of a running program, for 1 % of its CPU time
    ///
    /// Shows estimates as `count` shows numbers.
    #[command(override_usage = "probectl profile [OPTIONS] <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Profile(Measure),
    /// Counts cycles, cache misses and page faults of functions in a running program
    ///
    /// Shows events as `count` shows numbers.
    #[command(override_usage = "probectl perf [OPTIONS] <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Perf(Measure),
    /// Shows the functions of a running program on the whole terminal: rates, times, callers
    ///
    /// Estimates all functions of the selector, for 0.3 % of the program's CPU time; answering
    /// takes up to 0.1 % of a processor more, and attaching to many thousands of sites takes
    /// milliseconds. Keys measure each call of some functions, make all latent, filter, sort, and
    /// show callers; `?` lists them.
    /// The probes are latent again when it ends. The output of a program that it starts is
    /// discarded.
    #[command(override_usage = "probectl top [OPTIONS] [SELECTOR] <-p PID|-n NAME|-- CMD...>")]
    Top(Top),
    /// Shows each hit in a running program, a line each, as it comes
    ///
    /// A line has the seconds since the first one, the thread, the kind, the probe and its fields.
    /// An exit has the time of its call. With --json, each line is an object. The probes are latent
    /// again when it ends, also if it is killed.
    #[command(override_usage = "probectl trace [OPTIONS] <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Trace(Trace),
    /// Records a trace of a running program into a file
    ///
    /// The program writes the file while it runs. The ending of FILE tells the format: .probetrace
    /// for `report` and `convert`, or .pftrace for Perfetto. The latter is made at the end, of a
    /// .pftrace.probetrace beside it, which goes. If hits are lost, try a larger --ring.
    #[command(override_usage = "probectl record [OPTIONS] -o <FILE> <SELECTOR> <-p PID|-n NAME|-- CMD...>")]
    Record(Record),
    /// Writes the latest events of a running program's flight recorder into a file
    ///
    /// `enable --keep -p PID '**=trace(flight)'` begins such a recorder. The ending of FILE tells
    /// the format: .pftrace, .probetrace, .json, .firefox.json or .folded.
    Snapshot(Snapshot),
    /// Watches a running program by rules: when a condition holds, then it acts
    ///
    /// `probectl watch -p PID 'when p99(net::handle) > 5ms for 2s then record db::* for 1s'`. Rules
    /// arm and disarm consumers, record traces, take snapshots and run commands. Each firing is a
    /// line on stdout, with --json an object. All is detached when it ends, also if it is killed.
    #[command(override_usage = "probectl watch [OPTIONS] <RULE>... <-p PID|-n NAME|-- CMD...>")]
    Watch(Watch),
    /// Attaches consumers to a running program, in the grammar of PROBES
    ///
    /// They stay until Ctrl-C, or with --keep until `disable` or the program's end. A selector
    /// alone counts.
    Enable(Enable),
    /// Detaches what `enable --keep` has attached, and shows the last reports
    Disable(Disable),
    /// Shows a running program: its probes, clients and attachments
    Status(Status),
    /// Brings an agent to a running program that has probes, and none
    ///
    /// The runtime of the program's own serves, or a library that is loaded into it. One thread at
    /// a time is stopped for that, for less than a millisecond as a rule. The other commands do so
    /// by themselves with -p, and take the agent away again.
    Attach(AttachTo),
    /// Takes the agent of a running program away
    ///
    /// All that clients have attached is detached. No thread, socket or descriptor of the agent
    /// stays; a library that was loaded does. `attach` brings the agent back.
    Detach(Detach),
    /// Starts a program that has probes, but no agent: a preloaded library brings one
    ///
    /// The program takes the place of `probectl`, and ends as it would without. Its children get
    /// the agent, too. Programs without probes stay as they are. An agent of the program's own
    /// serves in place of this one.
    Run(Run),
}

impl Command {
    /// Returns the reason why a command has no document. `top` names other commands itself.
    pub fn has_no_json(&self) -> Option<&'static str> {
        match self {
            Self::Completions(_) => Some("completions are a script for a shell"),
            Self::Man(_) => Some("a manual page is no document"),
            #[cfg(target_os = "linux")]
            Self::Cc(_) => Some("all output of `cc` is the build's own"),
            #[cfg(target_os = "linux")]
            Self::Live(LiveCommand::Run(_)) => Some("all output of `run` is the program's own"),
            _ => None,
        }
    }

    /// Returns whether it switches sites from outside.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn is_by_ptrace(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Self::Live(
                LiveCommand::Count(Count { ptrace, .. })
                | LiveCommand::Enable(Enable { ptrace, .. })
                | LiveCommand::Disable(Disable { ptrace, .. })
                | LiveCommand::Status(Status { ptrace, .. }),
            ) => *ptrace,
            _ => false,
        }
    }
}

/// The arguments of `list`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct List {
    /// An executable, a shared object, or the id of a process
    #[arg(value_hint = ValueHint::FilePath, value_name = "FILE|PID", required_unless_present = "pid")]
    pub file: Option<PathBuf>,
    /// Which probes [default: all]
    pub selector: Option<String>,
    /// A process, in place of FILE|PID
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Describes the file, or the program's objects, in place of the probes
    #[arg(long, conflicts_with = "selector")]
    pub objects: bool,
    /// Writes a program for bpftrace that counts hits of a file's entries and USDT probes
    #[arg(long, conflicts_with = "objects")]
    pub bpftrace: bool,
    /// A list of the file's sites, by `coldpatch --list`
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath, conflicts_with = "pid")]
    pub list: Option<PathBuf>,
}

/// The arguments of `audit`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Audit {
    /// An executable or a shared object
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// Shows findings and totals only
    #[arg(long, short)]
    pub quiet: bool,
}

/// The arguments of `coldpatch`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Coldpatch {
    /// An executable, a shared object, an object file, or an archive
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// The file to write
    #[arg(short, long, value_name = "OUT", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,
    /// Writes the sites to LIST in place of a table in OUT, which keeps its size
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath)]
    pub list: Option<PathBuf>,
    /// Lets OUT be FILE itself
    #[arg(short, long)]
    pub force: bool,
}

/// The arguments of `convert`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Convert {
    /// Traces: .probetrace files
    #[arg(required = true, value_hint = ValueHint::FilePath, value_name = "IN")]
    pub traces: Vec<PathBuf>,
    /// The file to write
    #[arg(value_hint = ValueHint::FilePath, value_name = "OUT")]
    pub out: PathBuf,
}

/// The arguments of `report`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Report {
    /// Traces: .probetrace files
    #[arg(required = true, value_hint = ValueHint::FilePath, value_name = "FILE")]
    pub traces: Vec<PathBuf>,
    /// Shows this many rows
    #[arg(long, value_name = "ROWS")]
    pub top: Option<usize>,
}

/// The arguments of `diff`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Diff {
    /// A trace, or what `report --json` wrote
    #[arg(value_hint = ValueHint::FilePath)]
    pub before: PathBuf,
    /// Another one, of the same program later
    #[arg(value_hint = ValueHint::FilePath)]
    pub after: PathBuf,
    /// Ends with 1 if a mean, a percentile or rare calls are slower by more than this: 10%
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail: Option<Percent>,
}

/// The arguments of `aggregate`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Aggregate {
    /// Figure and groups: `sum(bytes) by(path)`
    pub aggregation: String,
    /// The rest is as for `count`.
    #[command(flatten)]
    pub measure: Measure,
}

/// The arguments of `count`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Count {
    /// The selector and the rest are as for the others.
    #[command(flatten)]
    pub measure: Measure,
    /// Counts from outside, without any agent: also in static and sandboxed programs
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
    /// A list of sites, by `coldpatch --list`
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath, requires = "ptrace")]
    pub list: Option<PathBuf>,
}

/// The arguments of `latency` and `calls`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Timed {
    /// The rest is as for `count`.
    #[command(flatten)]
    pub measure: Measure,
    /// Splits times: on a processor, blocked, waiting for a processor
    #[arg(long)]
    pub cpu: bool,
}

/// The arguments of `count`, `latency`, `calls`, `profile` and `perf`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Measure {
    /// Which probes
    pub selector: String,
    /// The program.
    #[command(flatten)]
    pub target: Target,
    /// Ends after this time [default: at Ctrl-C, or with the program]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
    /// Shows it so often [default: 1s on a terminal, else at the end]
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub every: Option<Duration>,
}

/// The arguments of `top`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Top {
    /// Refused; see [`has_no_json`](Command::has_no_json).
    #[arg(long, hide = true)]
    pub json: bool,
    /// Which functions
    #[arg(default_value = "**")]
    pub selector: String,
    /// The program.
    #[command(flatten)]
    pub target: Target,
}

/// The arguments of `trace`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Trace {
    /// Which probes
    pub selector: String,
    /// The program.
    #[command(flatten)]
    pub target: Target,
    /// Ends after this time [default: at Ctrl-C, or with the program]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
}

/// The arguments of `record`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Record {
    /// Which probes
    pub selector: String,
    /// The file to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,
    /// The program.
    #[command(flatten)]
    pub target: Target,
    /// Ends after this time [default: at Ctrl-C, or with the program]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
    /// The memory of each thread's ring, such as 16M; hits that find it full are lost. All rings
    /// together have 256M at most [default: 4M]
    #[arg(long, value_name = "SIZE")]
    pub ring: Option<String>,
    /// The disk space after which the file grows no further, such as 1G; later hits are lost, and
    /// counted [default: none]
    #[arg(long, value_name = "SIZE")]
    pub limit: Option<String>,
    /// Records when threads were off the processor, too
    #[arg(long)]
    pub threads: bool,
    /// Records the calls that led to each entry and each point, up to 16, too
    #[arg(long)]
    pub stack: bool,
}

/// The arguments of `snapshot`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Snapshot {
    /// The number of the attachment, as `status` shows it [default: the only flight recorder]
    pub attachment: Option<u32>,
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// The file to write
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: PathBuf,
}

/// The arguments of `watch`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Watch {
    /// Rules: `when rate(net::handle) > 1K then arm db::*=latency`
    #[arg(required_unless_present = "files", value_name = "RULE")]
    pub rules: Vec<String>,
    /// A file of rules, one on each line; lines that begin with `#` are comments
    #[arg(short = 'f', long = "file", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files: Vec<PathBuf>,
    /// The program.
    #[command(flatten)]
    pub target: Target,
    /// The time of a window, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = window)]
    pub every: Duration,
    /// Ends after this time [default: at Ctrl-C, or with the program]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub time: Option<Duration>,
}

/// The arguments of `enable`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Enable {
    /// Selectors and consumers: `net::**=latency, db::**=count`
    pub spec: String,
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// Leaves them attached
    #[arg(long)]
    pub keep: bool,
    /// Counts from outside, without any agent, as `count --ptrace` does
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
    /// A list of sites, by `coldpatch --list`
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath, requires = "ptrace")]
    pub list: Option<PathBuf>,
}

/// The arguments of `disable`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Disable {
    /// Numbers of attachments, as `status` shows them [default: all that were kept]
    pub attachments: Vec<u32>,
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// Ends what `--ptrace` has begun, also if its `probectl` was killed
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
    /// A list of sites, by `coldpatch --list`
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath, requires = "ptrace")]
    pub list: Option<PathBuf>,
}

/// The arguments of `status`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Status {
    /// The program.
    #[command(flatten)]
    pub running: Running,
    /// Shows what `--ptrace` counts
    #[arg(long, conflicts_with = "no_inject")]
    pub ptrace: bool,
    /// A list of sites, by `coldpatch --list`
    #[arg(long, value_name = "LIST", value_hint = ValueHint::FilePath, requires = "ptrace")]
    pub list: Option<PathBuf>,
}

/// The arguments of `attach`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct AttachTo {
    /// A process
    #[arg(short, long, value_name = "PID")]
    pub pid: u32,
    /// The library [default: `libprobe_agent.so`, beside `probectl` or in ../lib]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent: Option<PathBuf>,
    /// Serves a program without probes, too: its plugins may bring some, and modules have others
    #[arg(long)]
    pub plugins: bool,
}

/// The arguments of `detach`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[command(group(ArgGroup::new("program").required(true)))]
pub struct Detach {
    /// A process
    #[arg(short, long, value_name = "PID", group = "program")]
    pub pid: Option<u32>,
    /// The only process of this name that can be asked
    #[arg(short, long, value_name = "NAME", group = "program")]
    pub name: Option<String>,
}

/// The arguments of `run`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Run {
    /// Refused; see [`has_no_json`](Command::has_no_json).
    #[arg(long, hide = true)]
    pub json: bool,
    /// The library [default: `libprobe_agent.so`, beside `probectl` or in ../lib]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub agent: Option<PathBuf>,
    /// Leaves the program's children alone: they don't inherit the library
    #[arg(long)]
    pub only: bool,
    /// Serves a program without probes, too: its plugins may bring some, and modules have others
    #[arg(long)]
    pub plugins: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// The arguments of `cc`.
#[cfg(target_os = "linux")]
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Cc {
    /// Refused; see [`has_no_json`](Command::has_no_json).
    #[arg(long, hide = true)]
    pub json: bool,
    /// Which functions get probes: `net::*;!*_hash;!vendor/**`
    #[arg(long, value_name = "GLOBS")]
    pub filter: Option<OsString>,
    /// Adds a line for each source: its functions with probes, and those without
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub log: Option<PathBuf>,
    /// The build's command and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD",
        value_hint = ValueHint::CommandWithArguments
    )]
    pub command: Vec<OsString>,
}

/// A running program, by its process id or its name.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[command(group(ArgGroup::new("program").required(true)))]
pub struct Running {
    /// A process
    #[arg(short, long, value_name = "PID", group = "program")]
    pub pid: Option<u32>,
    /// The only process of this name that can be asked
    #[arg(short, long, value_name = "NAME", group = "program")]
    pub name: Option<String>,
    /// Asks an agent that is there, and brings none
    #[arg(long)]
    pub no_inject: bool,
}

/// A running program, by its process id or its name, or one to start.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
#[command(group(ArgGroup::new("program").required(true)))]
pub struct Target {
    /// A process
    #[arg(short, long, value_name = "PID", group = "program")]
    pub pid: Option<u32>,
    /// The only process of this name that can be asked
    #[arg(short, long, value_name = "NAME", group = "program")]
    pub name: Option<String>,
    /// A program to start
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments, group = "program")]
    pub command: Vec<String>,
    /// Asks an agent that is there, and brings none
    #[arg(long)]
    pub no_inject: bool,
}

/// The arguments of `completions`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Completions {
    /// Refused; see [`has_no_json`](Command::has_no_json).
    #[arg(long, hide = true)]
    pub json: bool,
    /// The shell
    pub shell: Shell,
}

impl Completions {
    /// Returns the script for the shell.
    pub fn script(&self) -> String {
        let mut out = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "probectl", &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The arguments of `man`.
#[derive(Clone, PartialEq, Eq, Debug, Args)]
pub struct Man {
    /// Refused; see [`has_no_json`](Command::has_no_json).
    #[arg(long, hide = true)]
    pub json: bool,
    /// The command whose page to write [default: that of probectl itself]
    pub command: Option<String>,
}

impl Man {
    /// Returns the page.
    ///
    /// # Errors
    /// If there is no such command.
    pub fn page(&self) -> Result<String, Failure> {
        let mut command = Arguments::command();
        command.build();
        if let Some(name) = &self.command {
            let found = command.find_subcommand(name).cloned();
            let unknown = || Failure::Usage(format!("there is no command `{name}`; see `probectl help`"));
            command = found.ok_or_else(unknown)?;
        }
        let mut out = Vec::new();
        clap_mangen::Man::new(command).render(&mut out).map_err(Failure::input)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
}

/// A part of a hundred, in thousandths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Percent(pub u32);

impl Percent {
    /// Returns the part of one.
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 100_000.0
    }
}

/// Reads a percentage.
fn percent(text: &str) -> Result<Percent, String> {
    match units::percent(text) {
        Some(percent) if (0.0..=1e6).contains(&percent) => {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
            let thousandths = (percent * 1e3).round() as u32;
            Ok(Percent(thousandths))
        }
        _ => Err(format!("`{text}` is no percentage; write `10%` or `2.5%`")),
    }
}

/// Reads the time of a window.
fn window(text: &str) -> Result<Duration, String> {
    match time(text)? {
        time if time < Duration::from_millis(10) => Err("a window takes at least 10ms".to_owned()),
        time => Ok(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// The tour has the same exit codes as the help.
    #[test]
    fn exit_codes() {
        let tour = include_str!("../../docs/probectl.md").replace('`', "");
        let told: Vec<_> = tour
            .lines()
            .skip_while(|line| *line != "- 0: done; watch also if the program has ended")
            .collect();
        let codes = EXIT_CODES.lines().skip(1).map(|line| line.trim().replacen("  ", ": ", 1));
        let codes: Vec<_> = codes.map(|code| format!("- {code}")).collect();
        assert_eq!(told[..codes.len()], codes);
        assert_eq!(told[codes.len()], "");
    }

    #[test]
    fn percentages() {
        assert_eq!(percent("10%"), Ok(Percent(10_000)));
        assert_eq!(percent("2.5"), Ok(Percent(2_500)));
        for text in ["", "%", "-1%", "nan", "1e9", "x"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn windows() {
        assert_eq!(window("10ms"), Ok(Duration::from_millis(10)));
        assert_eq!(window("9ms"), Err("a window takes at least 10ms".to_owned()));
        assert!(window("soon").is_err());
    }
}
