//! Programs that fork: workers that report, workers that can't, and daemons.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use probe_protocol::Client;
use probe_tests::{c_library, instrumented};
use rustix::process::{Pid, Signal, kill_process};

use crate::preloaded::{output, with_agent};
use crate::program::{Folder, Ran, signal, until, words};

/// Each letter of its argument is a step: a worker that `_exit`s (`l`), exits (`e`), becomes
/// another program (`x`), waits for ever (`w`), or outlives the parent and does the rest of the
/// steps (`d`).
/// The parent then ends, or waits for a signal (`p`), or continues when it gets a line (`i`). A
/// fork that fails (`f`) needs a user other than root.
const SOURCE: &str = r#"
#include <probe.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) unsigned long work(unsigned long x) {
    PROBE_U64("working", x);
    return 3 * x + 1;
}
static void works(int times) {
    static volatile unsigned long sum;
    while (times--) sum += work(times);
}
static void say(const char *text) {
    printf("%s %d\n", text, getpid());
    fflush(stdout);
}
int main(int count, char **arguments) {
    works(10);
    for (const char *step = arguments[count - 1]; *step; step++) {
        char line[9];
        struct rlimit none = { 0, 0 };
        switch (*step) {
        case 'p': say("waits"); for (;;) pause();
        case 'i': say("ready"); if (!fgets(line, sizeof line, stdin)) return 1; continue;
        case 'f': setuid(65534); setrlimit(RLIMIT_NPROC, &none); if (fork() >= 0) _exit(9); continue;
        }
        int parent = getpid(), child = fork();
        if (child < 0) return 1;
        if (child > 0) {
            if (*step != 'd' && *step != 'w') waitpid(child, 0, 0);
            if (*step == 'd') return 0;
            continue;
        }
        works(100);
        switch (*step) {
        case 'l': _exit(0);
        case 'e': return 0;
        case 'x': execl("/bin/true", "true", (char *) 0); _exit(1);
        case 'w': for (;;) pause();
        case 'd':
            setsid();
            while (getppid() == parent) usleep(100);
            if (!step[1]) {
                say("daemon");
                freopen("/dev/null", "w", stdout);
                freopen("/dev/null", "w", stderr);
                for (;;) { works(1); usleep(1000); }
            }
        }
    }
    return 0;
}
"#;

const NOT_ONE: &str = "PROBES: 1 forked process has not reported so far; if it ends by `_exit`, `exec` or a signal, \
                       its hits are in no report";

fn not(count: usize) -> String {
    format!(
        "PROBES: {count} forked processes have not reported so far; if one ends by `_exit`, `exec` or a signal, its \
         hits are in no report"
    )
}

fn compiled(folder: &Folder) -> PathBuf {
    let (source, out) = (folder.0.join("forks.c"), folder.0.join("forks"));
    fs::write(&source, SOURCE).unwrap();
    let said = c_library::run(instrumented::compilers()[0], &["-O1", "-w"], &[&source], &out);
    assert!(said.is_done, "{}", said.messages);
    out
}

/// Returns the hits of each report, and the other lines.
fn reported(text: &str) -> (Vec<u64>, Vec<&str>) {
    let hits = words(text).into_iter().filter(|it| it.first() == Some(&"working"));
    let mut hits: Vec<u64> = hits.map(|it| it[3].parse().unwrap()).collect();
    hits.sort_unstable();
    (hits, text.lines().filter(|line| line.starts_with("PROBES")).collect())
}

fn counted(folder: &Folder, steps: &str) -> Command {
    let program = folder.0.join("forks").display().to_string();
    let mut command = with_agent(folder, &["run", &program, steps]);
    command.env("PROBES", "working=count");
    command
}

#[test]
fn workers_report_or_their_parent_says_that_they_have_not() {
    let folder = Folder::new("forks");
    compiled(&folder);
    let (two, three) = (not(2), not(3));
    for (steps, hits, lines) in [
        ("eee", &[10, 110, 110, 110][..], vec![]),
        ("lll", &[10], vec![&*three]),
        ("lexe", &[10, 110, 110], vec![&*two]),
        // A fork that fails.
        ("f", &[10], vec![]),
        // It is the parent of others in turn.
        ("dll", &[10, 110], vec![NOT_ONE, &*two]),
        ("del", &[10, 110, 210], vec![NOT_ONE, NOT_ONE]),
    ] {
        let ran = output(&mut counted(&folder, steps));
        let said = String::from_utf8(ran.stderr).unwrap();
        let (seen, mut others) = reported(&said);
        others.sort_unstable();
        assert_eq!((seen.as_slice(), others), (hits, lines), "{steps}: {said}");
        assert_eq!(ran.status.code(), Some(0), "{steps}");
    }
}

#[test]
fn so_does_one_that_a_signal_ends() {
    let folder = Folder::new("forks-signal");
    compiled(&folder);
    let mut child = counted(&folder, "elp").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("waits {}\n", child.id()));
    signal("-TERM", &child);
    let ran = child.wait_with_output().unwrap();
    let said = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(reported(&said), (vec![10, 110], vec![NOT_ONE]), "{said}");
    assert_eq!(ran.status.signal(), Some(15));
}

/// Ends with the test.
struct Daemon(u32);

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.0.try_into().unwrap()).unwrap();
        // It may have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns the number of the next line that begins with this word.
fn told(lines: &mut impl BufRead, word: &str) -> u32 {
    let number = |line: String| line.strip_prefix(word).and_then(|it| it.trim().parse().ok());
    lines.lines().find_map(|line| number(line.unwrap())).unwrap()
}

fn left(pid: u32) -> String {
    format!(" has ended (it left process {pid} running; `-p {pid}` asks it)")
}

#[test]
fn a_daemon_is_named_and_can_be_asked() {
    let folder = Folder::new("forks-daemon");
    let program = compiled(&folder).display().to_string();
    let out = folder.0.join("it.probetrace").display().to_string();
    for command in [&["count", "working"][..], &["trace", "working"], &["record", "working", "-o", &out]] {
        let said = folder.0.join("said");
        let mut child = with_agent(&folder, &[command, &["--", &program, "id"]].concat())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&said).unwrap())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap());
        let mut client = Client::connect(told(&mut lines, "ready")).unwrap();
        until(|| !client.status().unwrap().attachments.is_empty());
        writeln!(child.stdin.take().unwrap()).unwrap();
        let Daemon(pid) = &Daemon(told(&mut lines, "daemon"));
        let mut all = String::new();
        lines.read_to_string(&mut all).unwrap();
        child.wait().unwrap();
        all += &fs::read_to_string(&said).unwrap();
        assert!(all.contains(&format!("the program{}", left(*pid))), "{command:?}: {all}");
        if command[0] == "count" {
            let it = ["count", "-p", &pid.to_string(), "working", "--for", "100ms"];
            let ran = Ran::from(output(&mut with_agent(&folder, &it)));
            let (hits, _) = reported(&ran.out);
            assert!(ran.code == Some(0) && hits.len() == 1 && hits[0] > 0, "{ran:?}");
        }
    }
}

/// It may have ended before or after it could be asked. A watch discards its output.
#[test]
fn a_daemon_at_once_is_named_too() {
    let folder = Folder::new("forks-at-once");
    let program = compiled(&folder);
    let file = program.to_str().unwrap();
    for what in [&["count", "working"][..], &["watch", "when rate(working) > 1000 then arm working=count"]] {
        let out = folder.0.join("said");
        let said = File::create(&out).unwrap();
        let mut command = with_agent(&folder, &[what, &["--", file, "d"]].concat());
        command.stdout(said.try_clone().unwrap()).stderr(said).status().unwrap();
        let said = fs::read_to_string(&out).unwrap();
        let pid = said.split("it left process ").nth(1).and_then(|it| it.split(' ').next()?.parse().ok());
        let daemon = Daemon(pid.unwrap_or_else(|| panic!("{what:?}: {said}")));
        assert_eq!(fs::read_link(format!("/proc/{}/exe", daemon.0)).unwrap(), program);
        let before = format!("{file} has ended (exit status: 0) before it could be asked");
        let said = said.replace(&before, "the program has ended");
        assert!(said.contains(&format!("the program{}", left(daemon.0))), "{said}");
    }
}
