//! However a program ends, or its file does: each hit is in the file, or counted as lost, as the
//! file itself tells. Each program is a child of this one, and `PROBES` asks for its trace.

use std::ffi::CString;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read as _, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use probe_runtime::probe;
use probe_tests::folder::Folder;
use probe_tests::perfetto;
use probe_tests::scenario;
use probe_trace::{Item, Trace as Read};

#[probe(args(number))]
#[inline(never)]
fn ended(number: u64) -> u64 {
    black_box(number)
}

/// Calls of each program. Each makes two hits.
const CALLS: u64 = 2_000;
/// The longest file of a program that has a limit.
const LIMIT: u64 = 32 << 10;
/// Begins the line with the number of hits.
const HITS: &str = "hits: ";

fn call(calls: u64) {
    (0..calls).for_each(|number| _ = ended(number));
}

/// Hits, and ends in one of these ways.
pub fn play(way: &str) {
    // SAFETY: the actions that programs in C have, and a limit of this process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if way.starts_with("reaches a limit") {
            let length = if way.ends_with("of nothing") { 0 } else { LIMIT };
            let limit = libc::rlimit { rlim_cur: length, rlim_max: length };
            assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
        }
    }
    let probes = probe_runtime::init_from_env().unwrap();
    if way == "loses its reader" {
        fs::write("attached", "").unwrap();
        while !Path::new("left").exists() {
            thread::sleep(Duration::from_millis(1));
        }
    }
    println!("\n{HITS}{}", 2 * CALLS);
    if way == "reaches a limit" {
        // No ring gets full before the file does.
        for _ in 0..20 {
            call(CALLS / 20);
            probes.report();
        }
    } else {
        call(CALLS);
    }
    match way {
        "exits" => std::process::exit(0),
        "aborts" => std::process::abort(),
        "is ended" | "is killed" => {
            let signal = if way == "is ended" { libc::SIGTERM } else { libc::SIGKILL };
            // SAFETY: no pointers.
            unsafe { libc::kill(libc::getpid(), signal) };
            loop {
                thread::park();
            }
        }
        "becomes another" => panic!("{}", Command::new("true").exec()),
        "closes all" => {
            println!("\n{HITS}{}", 4 * CALLS);
            let mut files = take_over();
            call(CALLS);
            probes.report();
            drop(probes);
            for (number, file) in files.iter_mut().enumerate() {
                file.write_all(b"is open\n").unwrap();
                assert_eq!(fs::read(format!("data{number}")).unwrap(), b"mine\nis open\n");
            }
        }
        _ => drop(probes),
    }
}

/// Closes all descriptors, as programs do that become daemons, and opens files by the same numbers.
fn take_over() -> Vec<File> {
    let before = fs::read_dir("/proc/self/fd").unwrap().flatten();
    let numbers = before.filter_map(|it| it.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<libc::c_int> = numbers.filter(|number| *number > 2).collect();
    numbers.sort_unstable();
    // SAFETY: those of the runtime, and one of a folder that is closed already.
    numbers.iter().for_each(|number| _ = unsafe { libc::close(*number) });
    let mut files = Vec::new();
    for (place, number) in numbers.into_iter().enumerate() {
        let mut file = File::create(format!("data{place}")).unwrap();
        if file.as_raw_fd() != number {
            // SAFETY: a number that nobody has, and that this file has afterwards.
            file = unsafe {
                assert_eq!(libc::dup2(file.as_raw_fd(), number), number);
                File::from_raw_fd(number)
            };
        }
        file.write_all(b"mine\n").unwrap();
        files.push(file);
    }
    files
}

/// The contents of a program's file.
#[derive(Debug)]
struct Found {
    events: u64,
    /// Hits that the file says are lost.
    lost: u64,
    problems: String,
}

fn read(path: &Path) -> Found {
    if path.extension().is_some_and(|ending| ending == "pftrace") {
        let all = perfetto::events(path);
        let events = all.iter().filter(|it| [perfetto::BEGIN, perfetto::END].contains(&it.kind)).count();
        return Found { events: events as u64, lost: perfetto::lost(&all), problems: String::new() };
    }
    let mut trace = Read::open(&[path]).unwrap();
    let problems = trace.problems().join("\n");
    let totals = trace.totals();
    let mut found = Found { events: 0, lost: 0, problems };
    for item in trace.items() {
        match item.unwrap() {
            Item::Event(_) => found.events += 1,
            Item::Gap(gap) => found.lost += gap.lost,
            _ => (),
        }
    }
    if let Some(totals) = totals {
        found.lost += totals.without_ring + totals.nested;
        // Two ways to count them.
        assert_eq!((totals.written, totals.lost()), (found.events, found.lost), "{found:?}");
    }
    found
}

/// The numbers that the last report states: events in the file, and lost ones.
fn said(stderr: &str) -> Option<[u64; 2]> {
    let line = stderr.lines().rfind(|line| line.contains(" events of "))?;
    let mut numbers = line.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok());
    let (events, _threads) = (numbers.next()?, numbers.next()?);
    Some([events, numbers.next()?])
}

fn run(way: &str, options: &str, folder: &Folder) -> (Output, String, u64) {
    let mut command = scenario::start(&format!("ended {way}"));
    command.env("PROBES", format!("**::ended::ended=trace({options})")).current_dir(&**folder);
    let output = command.env_remove("PROBES_OUT").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let hits = stdout.lines().filter_map(|line| line.strip_prefix(HITS)).next_back();
    let hits = hits.unwrap_or_else(|| panic!("{way}: {stdout}{stderr}")).parse().unwrap();
    (output, stderr, hits)
}

const FORMATS: [&str; 3] =
    ["file=run-%p.probetrace", "file=run-%p.pftrace", "flight, map=run-%p.probetrace, ring=1M"];

/// Returns what the only trace of a folder says.
fn of(folder: &Folder) -> Found {
    let names = folder.names();
    let mut traces = names.iter().filter(|name| !name.starts_with("data"));
    let (Some(name), None) = (traces.next(), traces.next()) else { panic!("{names:?}") };
    assert!(!name.contains('%') && name.starts_with("run-"), "{name}");
    read(&folder.join(name))
}

#[test]
fn all_hits_are_in_the_file_of_a_program_that_can_finish_it() {
    for (way, signal) in
        [("returns", None), ("exits", None), ("is ended", Some(libc::SIGTERM)), ("closes all", None)]
    {
        for format in FORMATS {
            let folder = Folder::new("trace-ended");
            let (output, stderr, hits) = run(way, format, &folder);
            assert_eq!(output.status.signal(), signal, "{way}: {}", scenario::said(&output));
            assert!(signal.is_some() || output.status.success(), "{way}: {}", scenario::said(&output));
            let found = of(&folder);
            assert_eq!((found.events, found.lost), (hits, 0), "{way}, {format}: {found:?} {stderr}");
            assert_eq!(said(&stderr), Some([hits, 0]), "{way}, {format}: {stderr}");
            let is_open = format.contains("map") && way != "returns" && way != "closes all";
            assert_eq!(found.problems.contains("did not finish"), is_open, "{way}, {format}: {found:?}");
        }
    }
}

#[test]
fn the_file_of_a_program_that_can_not_finish_it_says_so() {
    for (way, signal) in
        [("aborts", Some(libc::SIGABRT)), ("is killed", Some(libc::SIGKILL)), ("becomes another", None)]
    {
        for format in FORMATS {
            let folder = Folder::new("trace-cut-short");
            let (output, stderr, hits) = run(way, format, &folder);
            assert_eq!(output.status.signal(), signal, "{way}: {}", scenario::said(&output));
            let found = of(&folder);
            if format.contains("map") {
                // The kernel has kept each store.
                assert_eq!((found.events, found.lost), (hits, 0), "{way}: {found:?} {stderr}");
            }
            assert!(found.events <= hits && found.lost == 0, "{way}, {format}: {found:?}");
            let is_said = format.contains("pftrace") || found.problems.contains("did not finish");
            assert!(is_said, "{way}, {format}: {found:?}");
        }
    }
}

#[test]
fn a_limit_on_files_ends_the_file_and_not_the_program() {
    for format in FORMATS {
        let folder = Folder::new("trace-limit");
        let (output, stderr, hits) = run("reaches a limit", &format!("{format}, ring=16K"), &folder);
        assert!(output.status.success(), "{format}: {}", scenario::said(&output));
        let why = "File too large (os error 27); the process may make no longer files (`ulimit -f`)";
        assert!(stderr.contains(why), "{format}: {stderr}");
        if format.contains("map") {
            // It has its room from the beginning, or is refused.
            assert!(stderr.contains("is not attached: ") && folder.names().is_empty(), "{stderr}");
            continue;
        }
        let found = of(&folder);
        let [events, lost] = said(&stderr).unwrap();
        assert_eq!((events, events + lost), (found.events, hits), "{format}: {found:?} {stderr}");
        assert!(events > 100, "{format}: {found:?}");
        if format.contains("probetrace") {
            assert_eq!((found.events + found.lost, found.lost), (hits, lost), "{found:?}");
            assert!(found.problems.contains("the file had to end before the trace"), "{found:?}");
        }
    }
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_trace_and_not_the_program() {
    for name in ["pipe", "pipe.pftrace"] {
        let folder = Folder::new("trace-pipe");
        let path = folder.join(name);
        let c_path = CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: a string that ends in zero.
        assert_eq!(unsafe { libc::mkfifo(c_path.as_ptr(), 0o600) }, 0);
        let [attached, left] = ["attached", "left"].map(|name| folder.join(name));
        let reader = thread::spawn(move || {
            let mut pipe = File::open(path).unwrap();
            pipe.read_exact(&mut [0; 16]).unwrap();
            // A pipe that breaks earlier is no trace.
            while !attached.exists() {
                thread::sleep(Duration::from_millis(1));
            }
            drop(pipe);
            fs::write(left, "").unwrap();
        });
        let (output, stderr, hits) = run("loses its reader", &format!("file={name}, ring=16K"), &folder);
        reader.join().unwrap();
        assert!(output.status.success(), "{name}: {}", scenario::said(&output));
        assert!(stderr.contains("Broken pipe"), "{name}: {stderr}");
        let [events, lost] = said(&stderr).unwrap_or_else(|| panic!("{name}: {stderr}"));
        assert_eq!(events + lost, hits, "{name}: {stderr}");
        assert_ne!(lost, 0, "{name}: {stderr}");
    }
}

#[test]
fn a_limit_on_files_is_a_line_for_a_report() {
    for (probes, out) in [("count", "run.json"), ("trace(flight)", "run.probetrace"), ("trace", "run.json")] {
        let folder = Folder::new("trace-limit-report");
        let mut command = scenario::start("ended reaches a limit of nothing");
        command.env("PROBES", format!("**::ended::ended={probes}")).env("PROBES_OUT", out);
        let output = command.current_dir(&*folder).output().unwrap();
        assert!(output.status.success(), "{probes}: {}", scenario::said(&output));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(stderr.matches("File too large").count(), 1, "{probes}: {stderr}");
        assert_eq!(folder.names(), [""; 0], "{probes}");
    }
    // The line itself may have no place either.
    let folder = Folder::new("trace-limit-stderr");
    let stderr = File::create(folder.join("stderr")).unwrap();
    let mut command = scenario::start("ended reaches a limit of nothing");
    command.env("PROBES", "**::ended::ended=count").env_remove("PROBES_OUT").stderr(stderr);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", scenario::said(&output));
    assert_eq!(fs::read(folder.join("stderr")).unwrap(), b"");
}
