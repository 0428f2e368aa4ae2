//! Outputs of the worst kind: a disk that gets full, a pipe whose reader goes away or is slow, and
//! a file that somebody cuts off.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::io::{Cursor, Read as _, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use probe_tests::folder::Folder;
use probe_tests::scenario;
use probe_tests::turn::turn;
use probe_trace::Trace as Read;

use super::{Found, HITS, Keep, call, check, check_items};

/// Bytes of the disk that gets full.
const DISK: u64 = 96 << 10;

/// Begins the line with the totals.
const TOTALS: &str = "totals: ";

/// Hits until the disk is full, and on. Plays in a process of its own, whose files must not be
/// longer.
pub fn play() {
    let path = PathBuf::from(std::env::var_os("TRACE_FILE").unwrap());
    // SAFETY: of this process.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        let limit = libc::rlimit { rlim_cur: DISK, rlim_max: DISK };
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit), 0);
    }
    let trace = Keep::File.attach(&path, 4 << 10, 8);
    let mut calls = 0;
    while trace.flush().is_ok() {
        call(10);
        calls += 10;
    }
    call(1_000);
    let totals = trace.totals();
    assert_eq!(totals.written + totals.lost, (calls + 1_000) * HITS);
    println!("\n{TOTALS}{} {}", totals.written, totals.lost);
    let error = trace.finish().unwrap_err().to_string();
    let expected = format!("the trace can't be written to {}: File too large", path.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_disk_that_gets_full() {
    let folder = Folder::new("trace-fills");
    let path = folder.join("fills.probetrace");
    let output = scenario::start("stressed fills disk").env("TRACE_FILE", &path).output().unwrap();
    assert!(output.status.success(), "{}", scenario::said(&output));
    // The thread that writes has said it at once, in one line.
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains("can't be written")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    // It ends with the last block that was whole.
    let length = fs::metadata(&path).unwrap().len();
    assert!((DISK - (2 << 10)..=DISK).contains(&length), "{length}");
    let mut trace = Read::open(&[&path]).unwrap();
    let [problem] = trace.problems() else { panic!("{:?}", trace.problems()) };
    assert!(problem.contains("the file had to end before the trace"), "{problem}");
    let found = check_items(&mut trace, Keep::File);
    let stdout = String::from_utf8_lossy(&output.stdout);
    let said = stdout.lines().find_map(|line| line.strip_prefix(TOTALS)).unwrap();
    assert_eq!(said, format!("{} {}", found.events, found.lost));
    assert!(found.events > 1_000, "{found:?}");
}

/// Makes a FIFO.
fn fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a string that ends in zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

/// Checks a file that was read from a pipe.
fn check_bytes(bytes: Vec<u8>, problems: &[&str]) -> Found {
    let mut trace = Read::read([("the pipe", Cursor::new(bytes))]).unwrap();
    let shown = trace.problems().join("\n");
    assert!(problems.iter().all(|problem| shown.contains(problem)), "{shown}");
    check_items(&mut trace, Keep::File)
}

#[test]
fn a_pipe_whose_reader_goes_away() {
    let _turn = turn();
    let folder = Folder::new("trace-closed");
    let path = folder.join("closed");
    fifo(&path);
    let reader = {
        let path = path.clone();
        thread::spawn(move || {
            let mut bytes = vec![0; 40_000];
            File::open(path).unwrap().read_exact(&mut bytes).unwrap();
            bytes
        })
    };
    let trace = Keep::File.attach(&path, 4 << 10, 8);
    let mut calls = 0;
    while !reader.is_finished() {
        call(10);
        calls += 10;
    }
    let bytes = reader.join().unwrap();
    // More than a pipe holds: the thread that writes finds it closed.
    call(10_000);
    let totals = trace.totals();
    assert_eq!(totals.written + totals.lost, (calls + 10_000) * HITS);
    let error = trace.finish().unwrap_err().to_string();
    let expected = format!("the trace can't be written to {}: Broken pipe", path.display());
    assert!(error.starts_with(&expected), "{error}");
    assert!(check_bytes(bytes, &["did not finish"]).events > 1_000);
}

#[test]
fn a_pipe_whose_reader_is_slow() {
    let _turn = turn();
    let folder = Folder::new("trace-slow");
    let path = folder.join("slow");
    fifo(&path);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut file = File::open(&path).unwrap();
            let (mut bytes, mut part) = (Vec::new(), [0; 256]);
            loop {
                // A disk that is far slower than the threads, while they run.
                if !is_over.load(Ordering::Relaxed) {
                    (0..50).for_each(|_| thread::yield_now());
                }
                match file.read(&mut part).unwrap() {
                    0 => return bytes,
                    read => bytes.extend_from_slice(&part[..read]),
                }
            }
        });
        let trace = Keep::File.attach(&path, 4 << 10, 8);
        let mut calls = 0;
        // No hit waits for the reader, however slow it is.
        while trace.totals().lost == 0 || calls < 20_000 {
            thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(|| call(250))));
            calls += 1_000;
        }
        is_over.store(true, Ordering::Relaxed);
        let totals = trace.finish().unwrap();
        assert_eq!(totals.written + totals.lost, calls * HITS, "{totals:?}");
        // A pipe can't be marked as whole at its beginning, but nothing is missing.
        let found = check_bytes(reader.join().unwrap(), &["did not finish"]);
        assert_eq!((found.events, found.lost), (totals.written, totals.lost));
    });
}

#[test]
fn a_file_that_somebody_cuts_off() {
    let _turn = turn();
    let folder = Folder::new("trace-cut-off");
    // Nothing, a part of the header, some blocks.
    for length in [0, 100, 10_000] {
        let path = folder.join(format!("{length}.probetrace"));
        let trace = Keep::File.attach(&path, 4 << 10, 8);
        let mut calls = 0;
        while fs::metadata(&path).unwrap().len() < 50_000 {
            call(10);
            calls += 10;
        }
        OpenOptions::new().write(true).open(&path).unwrap().set_len(length).unwrap();
        call(1_000);
        let totals = trace.finish().unwrap();
        assert_eq!(totals.written + totals.lost, (calls + 1_000) * HITS, "{totals:?}");
        // The thread continues where it was, so the file has a hole.
        match Read::open(&[&path]) {
            Ok(mut trace) => {
                let shown = trace.problems().join("\n");
                assert!(shown.contains("are no whole block"), "{shown}");
                let found = check_items(&mut trace, Keep::File);
                let expected = if length == 100 { 0..1 } else { 100..totals.written };
                assert!(expected.contains(&found.events), "{length}: {found:?}");
            }
            Err(error) => {
                assert_eq!(length, 0, "{error}");
                assert!(error.to_string().contains("is no trace"), "{error}");
            }
        }
    }
}

/// A file that grows while it is read is read as far as it was when it was opened.
#[test]
fn a_file_that_is_cut_off_while_it_is_read() {
    let _turn = turn();
    let folder = Folder::new("trace-read-and-cut");
    let path = folder.join("read.probetrace");
    let trace = Keep::File.attach(&path, 1 << 20, 8);
    call(1_000);
    let totals = trace.finish().unwrap();
    assert_eq!(check(&path, Keep::File).events, totals.written);
    let mut read = Read::open(&[&path]).unwrap();
    OpenOptions::new().append(true).open(&path).unwrap().write_all(b"more than there was").unwrap();
    assert_eq!(check_items(&mut read, Keep::File).events, totals.written);
    OpenOptions::new().write(true).open(&path).unwrap().set_len(8_000).unwrap();
    let mut items = read.items();
    let error = items.find_map(Result::err).expect("the rest is missing");
    assert!(error.to_string().contains("can't be read: failed to fill whole buffer"), "{error}");
    assert!(items.next().is_none(), "it ends after an error");
}
