// Functions that are left by a jump, and functions that are interrupted: by a signal that they
// raise themselves, by a timer, and after every single instruction.
#define _GNU_SOURCE
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

#include "torture.h"

// Out of many frames at once.
COUNTED(dive);
NOINLINE long dive(long depth, jmp_buf *out) {
    ENTER(dive);
    if (depth == 0) { ADD(dive, jumped); longjmp(*out, 5); }
    ADD(dive, jumped);
    long result = dive(depth - 1, out);
    __asm__ volatile("" : "+r"(result));
    return result + 1;
}
COUNTED(surface);
NOINLINE long surface(long depth) {
    ENTER(surface);
    jmp_buf out;
    volatile long sum = depth;
    int value = setjmp(out);
    if (value == 0) dive(depth, &out);
    sum += value;
    return sum;
}

// A handler that is left by a jump, too; and one that calls functions which it has interrupted.
static volatile long handled;
static sigjmp_buf escape;
COUNTED(mix);
NOINLINE long mix(long x, double y) { ENTER(mix); return x * 31 + (long)(y * 2); }
COUNTED(mix_tail);
NOINLINE long mix_tail(long x, double y) { ENTER(mix_tail); return mix(x + 1, y + 0.5); }
COUNTED(on_signal);
static void on_signal(int signal) {
    ENTER(on_signal);
    handled += mix_tail(signal, 1.5) != 0;
}
COUNTED(on_signal_leave);
static void on_signal_leave(int signal) {
    ENTER(on_signal_leave);
    ADD(on_signal_leave, jumped);
    siglongjmp(escape, signal);
}
COUNTED(interrupted);
NOINLINE long interrupted(long x) {
    ENTER(interrupted);
    long sum = x;
    for (int at = 0; at < 4; at++) { raise(SIGUSR1); sum = mix_tail(sum, at); }
    return sum;
}
COUNTED(escaped);
NOINLINE int escaped(void) {
    ENTER(escaped);
    // A consumer needs more than the smallest stack that there may be.
    static char own[1 << 16];
    stack_t stack = {.ss_sp = own, .ss_size = sizeof own};
    static stack_t before;
    sigaltstack(&stack, &before);
    int value = sigsetjmp(escape, 1);
    if (value == 0) raise(SIGUSR2);
    sigaltstack(&before, 0);
    return value;
}

COUNTED(handle);
static NOINLINE void handle(int signal, void (*handler)(int), int flags) {
    ENTER(handle);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(signal, &action, 0);
}

COUNTED(jumps);
void jumps(void) {
    ENTER(jumps);
    for (long depth = 0; depth < 12; depth++) NOTE(surface(depth));
    handle(SIGUSR1, on_signal, SA_RESTART);
    handle(SIGUSR2, on_signal_leave, SA_ONSTACK);
    NOTE(interrupted(3));
    NOTE(escaped());
    NOTE(escaped());
    for (long depth = 0; depth < 4; depth++) NOTE(mix_tail(surface(depth), 0.5));
}

// Works under a 50 µs timer until it has fired `signals` times. Returns the count of wrong results.
COUNTED(torture_storm);
long torture_storm(long signals) {
    ENTER(torture_storm);
    struct itimerval timer = {{0, 50}, {0, 50}}, stopped = {{0, 0}, {0, 0}};
    long wrong = 0, until = handled + signals;
    handle(SIGALRM, on_signal, SA_RESTART);
    setitimer(ITIMER_REAL, &timer, 0);
    for (long x = 0; handled < until; x++) {
        wrong += mix_tail(x, (double)x) != (x + 1) * 31 + 2 * x + 1;
        wrong += surface(x % 5) != x % 5 + 5;
    }
    setitimer(ITIMER_REAL, &stopped, 0);
    // A late signal, on any thread, must not call the handler: its library may be unloaded.
    handle(SIGALRM, SIG_IGN, 0);
    return wrong;
}

// A trap after each instruction, also in the runtime. Its handler is under test, and calls back.
static volatile long steps;
static void (*volatile each_step)(void *context);
COUNTED(on_step);
static void on_step(int signal, siginfo_t *info, void *context) {
    ENTER(on_step);
    (void)info;
    if (steps++ >= 0) {
        handled += mix(signal, 0.5) != 0;
        if (each_step) each_step(context);
    }
}
COUNTED(stepped);
NOINLINE double stepped(long a, double b, long c, double d, long double e) {
    ENTER(stepped);
    return (double)mix_tail(a + c, b) + d + (double)e;
}

// Single-steps `stepped` and its active sites. Returns the number of steps, and writes the result.
COUNTED(torture_step);
long torture_step(void (*each)(void *context), double *result) {
    ENTER(torture_step);
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_step;
    action.sa_flags = SA_SIGINFO;
    // A frame of unknown size is unwound by its frame pointer, wherever the stack pointer is.
    volatile char *frame = alloca((size_t)OPAQUE(16L));
    *frame = 0;
    each_step = each;
    sigaction(SIGTRAP, &action, &before);
    steps = 0;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" : : : "cc", "memory");
    *result = stepped(1, 1.5, 2, 2.5, 3.5L);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" : : : "cc", "memory");
    long taken = steps;
    sigaction(SIGTRAP, &before, 0);
    each_step = 0;
    return taken;
}
