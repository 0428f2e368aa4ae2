//! Threads that stand in the code that counts from outside, at each of its instructions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use object::{Object, ObjectSymbol};
use probe_tests::{c_library, instrumented};

use crate::injected_into::{Target, asked};
use crate::outside::{code_of_no_file, counting_until, hits};
use crate::preloaded::differing;
use crate::program::{Folder, Ran, signal, until};

/// A program, and its parent, which steps it to an instruction of the stub of its fourth hit.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <probe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
extern char __executable_start, etext;
static int tells[2], releases[2];
static volatile int handled;
#ifdef HOOKED
/* Uses flags across the call of a hook that changes nothing. */
extern int work(void);
__asm__(".text\n.balign 64\n"
    "work: .type work, @function\n"
    "pushq %rbx\n" "leaq work(%rip), %rdi\n" "xorl %eax, %eax\n" "stc\n"
    "call __cyg_profile_func_enter\n"
    "setz %al\n" "setc %cl\n" "andb %cl, %al\n" "movzbl %al, %eax\n" "popq %rbx\n" "ret\n"
    ".size work, . - work\n"
    ".globl __cyg_profile_func_enter\n__cyg_profile_func_enter: .type __cyg_profile_func_enter, @function\n"
    "ret\n.size __cyg_profile_func_enter, . - __cyg_profile_func_enter\n");
/* Steps until the flags lie on the stack. */
#define PUSHED 1
#else
#define PUSHED 2
/* Uses flags, all of the red zone and a register across the site. */
__attribute__((noinline)) static int work(void) {
    unsigned char is_zero, is_carry;
    unsigned long same;
    __asm__ volatile(
        "movq $12, -8(%%rsp); movq $13, -128(%%rsp); mov $14, %%rdi; xor %%eax, %%eax; stc"
        ::: "rax", "rdi");
    PROBE("hit");
    __asm__ volatile(
        "setz %0; setc %1; xor $14, %%rdi; mov -8(%%rsp), %2; xor $12, %2; or %%rdi, %2\n"
        "mov -128(%%rsp), %%rdi; xor $13, %%rdi; or %%rdi, %2"
        : "=&r"(is_zero), "=&r"(is_carry), "=&r"(same) : : "rdi");
    return is_zero && is_carry && same == 0;
}
#endif
static void on_signal(int number) {
    char byte;
    handled = read(releases[0], &byte, 1) == 1 && number == SIGUSR1;
}
/* Works once for each byte, ten times. */
static int works(void) {
    int right = 1;
    char byte;
    while (read(tells[0], &byte, 1) == 1) for (int at = 0; at < 10; at++) right &= work();
    return right;
}
static int is_own(unsigned long at) {
    return at >= (unsigned long)&__executable_start && at < (unsigned long)&etext;
}
/* Steps the child to an instruction of the stub of its fourth hit, and leaves it with a signal. */
static void steps_to(int child, int instruction, int number) {
    struct user_regs_struct registers;
    unsigned long stub = 0, site = 0;
    int hits = 0, steps = 0;
    if (ptrace(PTRACE_SEIZE, child, 0, 0) || ptrace(PTRACE_INTERRUPT, child, 0, 0)) exit(2);
    if (waitpid(child, 0, 0) != child || write(tells[1], "x", 1) != 1) exit(3);
    do {
        if (ptrace(PTRACE_SINGLESTEP, child, 0, 0) || waitpid(child, 0, 0) != child) exit(4);
        if (ptrace(PTRACE_GETREGS, child, 0, &registers)) exit(5);
        if (is_own(registers.rip)) {
            stub = 0;
            site = registers.rip;
        } else if (stub == 0) {
            stub = registers.rip;
            steps = 0;
            hits++;
        } else if (++steps == PUSHED) {
            /* The flags that it has pushed have the trap flag of the step. */
            long flags = ptrace(PTRACE_PEEKDATA, child, registers.rsp, 0);
            if (ptrace(PTRACE_POKEDATA, child, registers.rsp, flags & ~0x100L)) exit(7);
        }
    } while (hits != 4 || steps != instruction);
    /* After a step over `popfq`, the kernel takes the trap flag for the child's own. */
    registers.eflags &= ~0x100UL;
    if (ptrace(PTRACE_SETREGS, child, 0, &registers)) exit(6);
    if (ptrace(PTRACE_DETACH, child, 0, (long)number)) exit(8);
    printf("%lu %lu\n", (unsigned long)registers.rip - stub, site);
}
int main(void) {
    int status = 0, child = 0;
    puts("ready");
    fflush(stdout);
    for (char byte; read(0, &byte, 1) == 1; fflush(stdout)) {
        if (byte == 'f') {
            if (pipe(tells) || pipe(releases)) return 1;
            child = fork();
            if (child == 0) {
                close(tells[1]);
                signal(SIGUSR1, on_signal);
                _exit(works() ? handled : 2);
            }
            printf("%d\n", child);
        } else if (byte >= '0' && byte <= '5') {
            steps_to(child, byte - '0', SIGSTOP);
        } else if (byte >= 'A' && byte <= 'F') {
            steps_to(child, byte - 'A', SIGUSR1);
        } else if (byte == 'r') {
            puts(write(releases[1], "x", 1) == 1 ? "released" : "no pipe");
        } else if (byte == 'g') {
            puts(kill(child, SIGCONT) == 0 ? "goes on" : "gone");
        } else if (byte == 'q') {
            close(tells[1]);
            puts(waitpid(child, &status, 0) != child || !WIFEXITED(status) ? "killed"
                : WEXITSTATUS(status) == 2 ? "wrong" : WEXITSTATUS(status) == 1 ? "handled, right" : "right");
        }
    }
    puts("right");
    return 0;
}
"#;

/// Places in a stub at which instructions begin.
const PLACES: [u64; 6] = [0, 5, 6, 14, 15, 23];
/// The same in the stub of a call of a hook.
const PLACES_OF_HOOK: [u64; 4] = [0, 1, 9, 10];

fn compiled(folder: &Folder, flags: &[&str]) -> PathBuf {
    let (source, out) = (folder.0.join("stub.c"), folder.0.join("stub"));
    fs::write(&source, SOURCE).unwrap();
    let flags = [&["-O1", "-static"], flags].concat();
    c_library::compile(instrumented::compilers()[0], &flags, &[&source], &out);
    out
}

/// Returns the address of the hook in a program with a fixed address.
fn hook(program: &Path) -> u64 {
    let bytes = fs::read(program).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let symbol = file.symbols().find(|it| it.name() == Ok("__cyg_profile_func_enter"));
    symbol.unwrap().address()
}

/// Returns whether a process has a tracer.
fn is_traced(pid: u32) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    !text.contains("\nTracerPid:\t0\n")
}

/// Begins to count hits of a child, which has no tracer then. `None` if nobody may trace here,
/// which is said.
#[track_caller]
fn counting(folder: &Folder, program: &Path, child: u32) -> Option<Child> {
    let command = ["--json", "count", "--ptrace", "-p", &child.to_string(), "**"];
    // Its site is written while it is traced.
    counting_until(folder, &command, || differing(child, program) != 0 && !is_traced(child))
}

/// Lets the child stand at a place of its stub. Returns its site.
#[track_caller]
fn stands(target: &mut Target, told: u8, instruction: usize, places: &[u64]) -> u64 {
    let answer = target.asked(told + u8::try_from(instruction).unwrap());
    let (place, site) = answer.split_once(' ').unwrap();
    assert_eq!(place.parse(), Ok(places[instruction]));
    site.parse().unwrap()
}

/// Returns the address of the instruction before which a thread stands; `None` if it runs, or is in
/// a system call.
fn place(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap();
    let address = text.strip_prefix("-1 ")?.trim_end().split_once(" 0x")?.1;
    Some(u64::from_str_radix(address, 16).unwrap())
}

#[test]
fn a_thread_in_a_stub_is_led_out() {
    led_out(&[], &PLACES, |_, site| site + 5);
    // A hook has its call still.
    led_out(&["-DHOOKED", "-no-pie"], &PLACES_OF_HOOK, |program, _| hook(program));
}

fn led_out(flags: &[&str], places: &[u64], after: impl Fn(&Path, u64) -> u64) {
    let folder = Folder::new("outside-stub");
    let program = compiled(&folder, flags);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    for instruction in 0..places.len() {
        let child = target.forks();
        let Some(counting) = counting(&folder, &program, child) else { return };
        let site = stands(&mut target, b'0', instruction, places);
        signal("-INT", &counting);
        until(|| place(child) == Some(after(&program, site)));
        assert_eq!(target.asked(b'g'), "goes on");
        let ran: Ran = counting.wait_with_output().unwrap().into();
        assert_eq!((ran.code, hits(&ran.out)), (Some(0), 4), "{ran:?}");
        assert!(ran.err.lines().count() == 1 && ran.err.contains("all threads stood for"), "{ran:?}");
        assert_eq!((code_of_no_file(child), differing(child, &program)), (vec![], 0));
        // Six more calls find a latent site.
        assert_eq!(target.asked(b'q'), "right", "{instruction}");
    }
    assert_eq!(target.end(), "right");
}

/// The hit is counted once the handler has ended, which may be after the report.
#[test]
fn a_handler_that_has_interrupted_a_stub_keeps_its_memory() {
    keeps_its_memory(&[], &PLACES, [(2, 3), (3, 4)]);
    keeps_its_memory(&["-DHOOKED"], &PLACES_OF_HOOK, [(1, 3), (2, 4)]);
}

fn keeps_its_memory(flags: &[&str], places: &[u64], interrupted: [(usize, u64); 2]) {
    let folder = Folder::new("outside-handler");
    let program = compiled(&folder, flags);
    let mut target = Target::start(&folder, &mut Command::new(&program));
    for (instruction, shown) in interrupted {
        let child = target.forks();
        let Some(counting) = counting(&folder, &program, child) else { return };
        stands(&mut target, b'A', instruction, places);
        signal("-INT", &counting);
        let ran: Ran = counting.wait_with_output().unwrap().into();
        assert_eq!((ran.code, hits(&ran.out)), (Some(0), shown), "{ran:?}");
        assert!(ran.err.contains("note: the memory of 1 counter stays: "), "{ran:?}");
        assert_eq!((code_of_no_file(child).len(), differing(child, &program)), (1, 0));
        assert_eq!(target.asked(b'r'), "released");
        until(|| {
            let ran = asked(&folder, &["disable", "--ptrace", "-p", &child.to_string()]);
            assert_eq!(ran.code, Some(0), "{ran:?}");
            code_of_no_file(child).is_empty()
        });
        assert_eq!(target.asked(b'q'), "handled, right", "{instruction}");
    }
    assert_eq!(target.end(), "right");
}
