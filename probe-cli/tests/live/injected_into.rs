//! Programs of C for [`injected`](crate::injected), and the test's way to them.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use probe_tests::c_library;
use probe_tests::instrumented;

use crate::preloaded::{threads, with_agent};
use crate::program::{Folder, Ran, name, signal_to, until};

/// Sixteen threads work, check their results, and get signals; or the program forks all the time;
/// or it is busy with all that takes locks. It ends with its input.
const SOURCE: &str = r#"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#ifdef BARE
#define PROBE_U64(name, x) ((void)(x))
#else
#include <probe.h>
#endif
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile int ends;
static volatile long wrong, alarms;
__attribute__((noinline)) unsigned long work(unsigned long x) {
    PROBE_U64("working", x);
    return 3 * x + 1;
}
#ifdef MANY
#define TEN(x) PROBE_U64("a", x); PROBE_U64("b", x); PROBE_U64("c", x); PROBE_U64("d", x); PROBE_U64("e", x); \
    PROBE_U64("f", x); PROBE_U64("g", x); PROBE_U64("h", x); PROBE_U64("i", x); PROBE_U64("j", x)
#define HUNDRED(x) TEN(x); TEN(x); TEN(x); TEN(x); TEN(x); TEN(x); TEN(x); TEN(x); TEN(x); TEN(x)
void many(unsigned long x) { HUNDRED(x); HUNDRED(x); HUNDRED(x); HUNDRED(x); }
#endif
static void on_alarm(int signal) { (void)signal; alarms++; }
static void *works(void *unused) {
    (void)unused;
    for (unsigned long x = 0; !ends; x++) {
        if (work(x) != 3 * x + 1) wrong++;
        if (x % 100 == 0) usleep(1000);
    }
    return 0;
}
static void *forks(void *unused) {
    (void)unused;
    while (!ends) {
        int status = 0, child = fork();
        if (child == 0) _exit(work(2) == 7 ? 5 : 1);
        if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 5) wrong++;
        usleep(1000);
    }
    return 0;
}
static void *allocates(void *unused) {
    (void)unused;
    for (unsigned long x = 0; !ends; x++) {
        char *bytes[8];
        for (int at = 0; at < 8; at++) bytes[at] = memset(malloc(1 + x % 5000), at, 1 + x % 5000);
        for (int at = 0; at < 50; at++) if (work(x) != 3 * x + 1) wrong++;
        for (int at = 0; at < 8; at++) {
            if (bytes[at][x % 5000] != at) wrong++;
            free(bytes[at]);
        }
    }
    return 0;
}
#ifndef STATIC
static void *loads(void *unused) {
    (void)unused;
    while (!ends) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        double (*rounds)(double) = (double (*)(double))dlsym(library, "floor");
        if (rounds(2.5) != 2) wrong++;
        dlclose(library);
    }
    return 0;
}
/* As a reader of debug information does: below the one that is loaded. */
static void maps_c_library(void) {
    Dl_info info;
    int file = dladdr((void *)puts, &info) ? open(info.dli_fname, O_RDONLY) : -1;
    void *begin = mmap(0, lseek(file, 0, SEEK_END), PROT_READ, MAP_PRIVATE, file, 0);
    if (begin == MAP_FAILED || begin > info.dli_fbase) wrong++;
    close(file);
}
static int mixed(void) {
    pthread_t threads[18];
    maps_c_library();
    for (int at = 0; at < 18; at++) {
        pthread_create(&threads[at], 0, at == 16 ? loads : at == 17 ? forks : allocates, 0);
    }
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    for (int got = 0; got == 0;) {
        got = poll(&input, 1, 1);
        /* By an alarm. */
        if (got < 0 && errno == EINTR) got = 0;
        if (got < 0) wrong++;
        free(malloc(100));
    }
    ends = 1;
    for (int at = 0; at < 18; at++) pthread_join(threads[at], 0);
    puts(wrong ? "wrong" : "right");
    return 0;
}
#endif
/* The end of a thread that calls `unshare`, or an error for it. */
static void restrict_calls(unsigned action) {
    struct { unsigned short code; unsigned char jt, jf; unsigned k; } filter[] = {
        {.code = 0x20, .k = 0}, {.code = 0x15, .k = 272, .jf = 1}, {.code = 0x06, .k = action},
        {.code = 0x06, .k = 0x7fff0000},
    };
    struct { unsigned short length; void *filter; } program = {4, filter};
    if (action == 0) return;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, 2, &program)) wrong++;
}
#ifdef NOTE
NOTE;
#endif
#ifndef FILTER
#define FILTER 0
#endif
int main(int count, char **arguments) {
    restrict_calls(FILTER);
    int is_forking = count > 1 && !strcmp(arguments[1], "fork");
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &often, 0);
#ifndef STATIC
    if (count > 1 && !strcmp(arguments[1], "mixed")) return mixed();
#endif
    pthread_t threads[16];
    int some = is_forking ? 1 : 16;
    for (int at = 0; at < some; at++) pthread_create(&threads[at], 0, is_forking ? forks : works, 0);
    puts("ready");
    fflush(stdout);
    char byte;
    long got;
    while ((got = read(0, &byte, 1)) > 0) {
        /* A child that works until the input ends. */
        int child = byte == 'f' ? fork() : -1;
        if (child > 0) {
            printf("%d\n", child);
            fflush(stdout);
        } else if (child == 0) {
            struct pollfd input = {.fd = 0, .events = POLLIN};
            while (poll(&input, 1, 1) <= 0) if (work(3) != 10) _exit(1);
            _exit(0);
        }
        if (byte == 'e') {
            setitimer(ITIMER_REAL, &(struct itimerval){0}, 0);
            execv("/proc/self/exe", arguments);
        }
    }
    if (got < 0) wrong++;
    ends = 1;
    for (int at = 0; at < some; at++) pthread_join(threads[at], 0);
    for (int status; wait(&status) > 0;) if (status) wrong++;
    puts(wrong ? "wrong" : "right");
    return 0;
}
"#;

/// Compiles the program.
pub fn compiled(folder: &Folder, flags: &[&str]) -> PathBuf {
    compiled_by(instrumented::compilers()[0], folder, flags)
}

pub fn compiled_by(compiler: &str, folder: &Folder, flags: &[&str]) -> PathBuf {
    let source = folder.0.join("injected.c");
    fs::write(&source, SOURCE).unwrap();
    let out = folder.0.join("injected");
    let all = [&["-O1", "-g", "-pthread", "-D_GNU_SOURCE"], flags, &["-ldl"]].concat();
    let said = c_library::run(compiler, &all, &[&source], &out);
    assert!(said.is_done, "{}", said.messages);
    out
}

/// The program, which runs.
pub struct Target {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Its id here.
    id: u32,
}

impl Target {
    pub fn start(folder: &Folder, command: &mut Command) -> Self {
        command.env("XDG_RUNTIME_DIR", &folder.0);
        for name in ["PROBES", "PROBE_AGENT", "LD_PRELOAD"] {
            command.env_remove(name);
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut target = Self { id: child.id(), child, stdin, stdout };
        assert_eq!(target.line(), "ready");
        target
    }

    /// Starts it by a tool that becomes its parent.
    pub fn under(folder: &Folder, tool: &[&str], program: &Path) -> Self {
        let mut target = Self::start(folder, Command::new(tool[0]).args(&tool[1..]).arg(program));
        let of = target.id;
        let children = fs::read_to_string(format!("/proc/{of}/task/{of}/children")).unwrap();
        target.id = children.trim().parse().unwrap();
        target
    }

    pub fn id(&self) -> u32 {
        self.id
    }

    pub fn pid(&self) -> String {
        self.id.to_string()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Tells it something. Returns its answer.
    pub fn asked(&mut self, byte: u8) -> String {
        self.stdin.as_mut().unwrap().write_all(&[byte]).unwrap();
        self.line()
    }

    /// Lets it become itself anew.
    pub fn execs(&mut self) {
        assert_eq!(self.asked(b'e'), "ready");
    }

    /// Lets it have a child that works until the end. Returns the child's id.
    pub fn forks(&mut self) -> u32 {
        self.asked(b'f').parse().unwrap()
    }

    /// Ends its input. Returns its verdict.
    pub fn end(&mut self) -> String {
        self.stdin.take();
        let line = self.line();
        assert!(self.child.wait().unwrap().success());
        line
    }

    /// Returns the numbers of the libraries that came as files in memory.
    pub fn brought(&self) -> BTreeSet<u64> {
        let maps = probe_inject::maps(self.id).unwrap();
        let files = maps.into_iter().filter(|it| it.name.starts_with("/memfd:libprobe_agent.so"));
        files.map(|it| it.file.1).collect()
    }

    /// Returns the number of its descriptors, and the names of its threads.
    pub fn traces(&self) -> (usize, Vec<String>) {
        let mut names = threads(self.id);
        names.sort();
        (fs::read_dir(format!("/proc/{}/fd", self.id)).unwrap().count(), names)
    }

    /// Checks that all of its threads are those of the program.
    #[track_caller]
    pub fn is_alone(&self, program: &Path) {
        let (_, names) = self.traces();
        assert!(names.iter().all(|it| *it == name(program)), "{names:?}");
    }

    /// Waits until no thread is stopped.
    #[track_caller]
    pub fn is_running(&self) {
        until(|| !self.states().iter().any(|it| matches!(it, 't' | 'T')));
    }

    /// Stops it as `kill -STOP` does.
    #[track_caller]
    pub fn stop(&self) {
        signal_to("-STOP", self.id);
        until(|| self.states().iter().all(|it| *it == 'T'));
    }

    /// Lets it continue.
    pub fn go_on(&self) {
        signal_to("-CONT", self.id);
    }

    fn states(&self) -> Vec<char> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id)).unwrap().flatten();
        let stats = threads.filter_map(|it| fs::read_to_string(it.path().join("stat")).ok());
        stats.filter_map(|it| it.rsplit_once(") ")?.1.chars().next()).collect()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `probectl` with the library.
pub fn asked(folder: &Folder, arguments: &[&str]) -> Ran {
    with_agent(folder, arguments).output().unwrap().into()
}

/// Says that nobody may trace here, which must be the reason why a run has ended.
#[track_caller]
pub fn left_out(ran: &Ran) {
    assert!(ran.err.contains("can't be traced"), "{ran:?}");
    println!("left out: {}", ran.err);
}

/// Returns the output of a run that ends well. `None` if nobody may trace here, which is said.
#[track_caller]
pub fn done(folder: &Folder, arguments: &[&str]) -> Option<String> {
    let ran = asked(folder, arguments);
    if ran.err.contains("can't be traced") {
        left_out(&ran);
        return None;
    }
    assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
    Some(ran.out)
}
