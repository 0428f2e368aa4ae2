//! Instrumented functions in the place of those that a first hit itself needs: for memory, for
//! signals, for files.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::env;
use std::process::Command;

use probe_runtime::{Count, Kind, finstrument};
use probe_tests::instrumented::{folder, shared, source};
use probe_tests::library::Library;
use probe_tests::processes;

/// Says what the child is to do.
const ASKED: &str = "PROBE_TESTS_NESTED";

/// Each as the C library has it, but for `errno`.
const IN_THE_PLACE: &str = "\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
void *mmap(void *at, size_t len, int rights, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, at, len, (long)rights, (long)flags, (long)fd, offset);
}
void *mmap64(void *at, size_t len, int rights, int flags, int fd, off_t offset) {
    return (void *)syscall(SYS_mmap, at, len, (long)rights, (long)flags, (long)fd, offset);
}
int munmap(void *at, size_t len) { return syscall(SYS_munmap, at, len); }
int madvise(void *at, size_t len, int advice) { return syscall(SYS_madvise, at, len, (long)advice); }
int mprotect(void *at, size_t len, int rights) { return syscall(SYS_mprotect, at, len, (long)rights); }
ssize_t read(int fd, void *to, size_t len) { return syscall(SYS_read, (long)fd, to, len); }
int close(int fd) { return syscall(SYS_close, (long)fd); }
#define OPEN(name) int name(const char *path, int flags, ...) { \\
    va_list rest; \\
    va_start(rest, flags); \\
    long mode = va_arg(rest, int); \\
    va_end(rest); \\
    return syscall(SYS_openat, (long)AT_FDCWD, path, (long)flags, mode); \\
}
OPEN(open)
OPEN(open64)
/* So that the calls of the hooks lie in all ways to aligned words. */
__asm__(\".pushsection .text\\n.skip 3, 0x90\\n.popsection\");
int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
    static int (*next)(int, const struct sigaction *, struct sigaction *);
    if (!next) next = (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(RTLD_NEXT, \"sigaction\");
    return next(number, new, old);
}
long sysconf(int name) {
    static long (*next)(int);
    if (!next) next = (long (*)(int))dlsym(RTLD_NEXT, \"sysconf\");
    return next(name);
}
";

const CODE: &str = "\
#include <stdint.h>
uint64_t one(uint64_t x) { return x + 1; }
uint64_t two(uint64_t x) { return x + 2; }
uint64_t three(uint64_t x) { return x + 3; }
uint64_t four(uint64_t x) { return x + 4; }
";

#[test]
fn functions_that_first_hits_need() {
    let folder = folder("nested");
    let file = source(&folder, "nested.c", IN_THE_PLACE);
    let code = shared("gcc", &source(&folder, "code.c", CODE), "code.so", &["-O1"]);
    // Calls of all lengths before, so that some hooks' calls lie across words.
    for optimised in ["-O0", "-O1", "-O2"] {
        let preloaded = shared("gcc", &file, &format!("nested{optimised}.so"), &[optimised, "-ldl"]);
        for asked in ["late", "early"] {
            let output = Command::new(env::current_exe().unwrap())
                .args([
                    "--exact",
                    &processes::test("scenario"),
                    "--ignored",
                    "--nocapture",
                    "--test-threads=1",
                ])
                .env("LD_PRELOAD", &preloaded)
                .env(ASKED, asked)
                .env("PROBE_TESTS_CODE", &code)
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let complained = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{optimised} {asked}: {}\n{said}\n{complained}", output.status);
            assert!(said.contains(&format!("done: {asked}")), "{said}\n{complained}");
        }
    }
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = env::var(ASKED).expect("this is no test: the others say what to play");
    let library = Library::open(env::var("PROBE_TESTS_CODE").unwrap().as_ref());
    let functions = ["one", "two", "three", "four"].map(|name| (name, library.function(name)));
    if asked == "late" {
        finstrument::start();
    } else {
        // The first hits are noted.
        functions.iter().for_each(|(_, function)| _ = function(1));
    }
    let calls = finstrument::attach(Count::new(), 1_000).unwrap();
    for _ in 0..3 {
        std::thread::spawn(move || functions.map(|(_, function)| function(1))).join().unwrap();
    }
    let counts = calls.counts();
    for (name, _) in functions {
        assert_eq!(
            (counts.hits(name, Kind::Entry), counts.hits(name, Kind::Exit)),
            (Some(3), Some(3)),
            "{counts}"
        );
    }
    assert_eq!(finstrument::stats().lost, 0);
    // The others were reached, too.
    assert!(counts.hits("mmap64", Kind::Entry).is_some_and(|hits| hits > 0), "{counts}");
    drop(calls);
    library.close();
    println!("done: {asked}");
}
