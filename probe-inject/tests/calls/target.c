/* Programs in which tests call `called`. Each checks its results, and says "right" at its end. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif

static atomic_long calls, alarms;
static atomic_int ends;
static long wrong;

__attribute__((noinline)) long called(char *text, long size, long number) {
    /* All that a function may change. */
    __asm__ volatile("vpcmpeqd %%ymm0, %%ymm0, %%ymm0; vmovdqa %%ymm0, %%ymm15; fldz; fstp %%st(0)" ::: "xmm0", "xmm15");
    calls++;
    snprintf(text, size, "call %ld", number);
    return number * 2;
}

__attribute__((noinline)) long refuses(void) {
    return 0;
}

/* Waits for a byte. */
__attribute__((noinline)) long reads(void) {
    char byte;
    calls++;
    return read(0, &byte, 1);
}

__attribute__((noinline)) const char *reason(void) {
    return "it refuses";
}

static long turns(void);

/* An address that a call in `locks` leaves on the stack. */
static void *left;
__attribute__((noinline)) static void leaf(int spins) {
    left = __builtin_return_address(0);
    while (spins && !ends) wrong |= turns();
}
__attribute__((noinline)) static void locks(int spins) {
    leaf(spins);
    __asm__ volatile("");
}

/* Works with such addresses on its stack, to which nobody will return. */
__attribute__((noinline)) static void stale(void) {
    void *volatile words[48];
    for (int at = 0; at < 48; at++) words[at] = left;
    while (!ends) wrong |= turns();
    for (int at = 0; at < 48; at++) wrong |= words[at] != left;
}

static void on_alarm(int signal) {
    (void)signal;
    alarms++;
}

/* A handler has run where the room is later. */
__attribute__((noinline)) static void handled(void) {
    volatile char room[4096];
    room[0] = 1;
    raise(SIGALRM);
    room[4095] = room[0];
}
__attribute__((noinline)) static void stale_handler(void) {
    volatile char room[32768];
    room[32767] = 1;
    while (!ends) wrong |= turns();
    wrong |= room[32767] != 1;
}

static void on_alarm_waits(int signal) {
    (void)signal;
    char byte;
    puts("handles");
    fflush(stdout);
    wrong |= read(0, &byte, 1) != 1;
}

static void on_end(int signal) {
    (void)signal;
    ends = 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* A thousand turns with all registers, flags and the red zone in use. Returns the changes. */
static long turns(void) {
    static const double values[4] __attribute__((aligned(32))) = {1, 2, 3, 4};
    long changed;
    __asm__ volatile(
        "vmovapd (%%rsi), %%ymm0; vmovapd (%%rsi), %%ymm15; fldpi\n"
        "mov $1, %%rbx; mov $2, %%rcx; mov $3, %%rdx; mov $4, %%r8; mov $5, %%r9; mov $6, %%r10; mov $7, %%r11\n"
        "mov $8, %%r12; mov $9, %%r13; mov $10, %%r14; mov $11, %%r15; movq $12, -8(%%rsp); movq $13, -128(%%rsp)\n"
        "mov $1000, %%rdi; std; stc\n"
        "1: dec %%rdi; jnz 1b\n"
        "setnc %%al; movzbq %%al, %%rax\n"
        /* The red zone first: pushing overwrites it. */
        "mov -8(%%rsp), %%rdi; xor $12, %%rdi; or %%rdi, %%rax; mov -128(%%rsp), %%rdi; xor $13, %%rdi; or %%rdi, %%rax\n"
        "pushfq; pop %%rdi; cld; shr $10, %%rdi; not %%rdi; and $1, %%rdi; or %%rdi, %%rax\n"
        "xor $1, %%rbx; or %%rbx, %%rax; xor $2, %%rcx; or %%rcx, %%rax; xor $3, %%rdx; or %%rdx, %%rax\n"
        "xor $4, %%r8; or %%r8, %%rax; xor $5, %%r9; or %%r9, %%rax; xor $6, %%r10; or %%r10, %%rax\n"
        "xor $7, %%r11; or %%r11, %%rax; xor $8, %%r12; or %%r12, %%rax; xor $9, %%r13; or %%r13, %%rax\n"
        "xor $10, %%r14; or %%r14, %%rax; xor $11, %%r15; or %%r15, %%rax\n"
        "vcmppd $4, (%%rsi), %%ymm0, %%ymm1; vmovmskpd %%ymm1, %%rdi; or %%rdi, %%rax\n"
        "vcmppd $4, (%%rsi), %%ymm15, %%ymm1; vmovmskpd %%ymm1, %%rdi; or %%rdi, %%rax\n"
        "fldpi; fcomip %%st(1), %%st; fstp %%st(0); setne %%dil; movzbq %%dil, %%rdi; or %%rdi, %%rax\n"
        : "=a"(changed)
        : "S"(values)
        : "rbx", "rcx", "rdx", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm15",
          "cc", "memory");
    return changed;
}

static void *spin(void *unused) {
    (void)unused;
    while (!ends) wrong |= turns();
    return 0;
}

static void *spends_first(void *unused) {
    (void)unused;
    char byte;
    while (read(0, &byte, 1) == 1) { }
    printf("%ld %s\n", (long)calls, wrong ? "wrong" : "right");
    exit(0);
}

static ucontext_t of_main, of_coroutine;

static void coroutine(void) {
    char byte;
    while (read(0, &byte, 1) == 1) { }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void on_end_unlocks(int signal) {
    (void)signal;
    pthread_mutex_unlock(&lock);
}

static void *waits(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!ends) pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* Begins the next one, and ends. */
static void *chain(void *unused) {
    pthread_t next;
    pthread_attr_t alone;
    pthread_attr_init(&alone);
    pthread_attr_setdetachstate(&alone, PTHREAD_CREATE_DETACHED);
    if (!ends && pthread_create(&next, &alone, chain, 0) != 0) wrong = 1;
    pthread_attr_destroy(&alone);
    return unused;
}

static char **again;
static void *execs(void *unused) {
    execv("/proc/self/exe", again);
    wrong = 1;
    return unused;
}

static void restrict_calls(unsigned number, unsigned action) {
    /* Another architecture ends the program, too. */
    struct sock_filter filter[] = {
        {.code = 0x20, .k = 4}, {.code = 0x15, .k = 0xc000003e, .jt = 1}, {.code = 0x06, .k = 0x80000000},
        {.code = 0x20, .k = 0}, {.code = 0x15, .k = number, .jf = 1}, {.code = 0x06, .k = action},
        {.code = 0x06, .k = 0x7fff0000},
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    wrong |= prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, 2, &program) != 0;
}

/* Makes the kernel start an io_uring worker, which is a thread of this process. */
static const char *begins_worker(void) {
#ifdef IOSQE_ASYNC
    /* Since Linux 5.12. Before, workers are threads of the kernel. */
    const unsigned native_workers = 1 << 9;
    static char byte;
    int ends_of_pipe[2];
    struct io_uring_params made = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &made);
    if (ring < 0 || !(made.features & native_workers)) return "refused";
    if (pipe(ends_of_pipe) != 0) return "has no pipe";
    size_t length = made.sq_off.array + made.sq_entries * sizeof(unsigned);
    char *queue = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    length = made.sq_entries * sizeof(struct io_uring_sqe);
    struct io_uring_sqe *entry = mmap(0, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || entry == MAP_FAILED) return "has no memory";
    entry->opcode = IORING_OP_READ;
    entry->flags = IOSQE_ASYNC;
    entry->fd = ends_of_pipe[0];
    entry->addr = (unsigned long)&byte;
    entry->len = 1;
    *(unsigned *)(queue + made.sq_off.array) = 0;
    atomic_store((atomic_uint *)(queue + made.sq_off.tail), 1);
    return syscall(SYS_io_uring_enter, ring, 1, 0, 0, 0, 0) == 1 ? "works" : "has not entered";
#else
    return "refused";
#endif
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "read";
    struct sigaction action = {.sa_handler = on_end};
    sigaction(SIGTERM, &action, 0);
    action = (struct sigaction){.sa_handler = on_alarm_waits, .sa_flags = SA_RESTART};
    if (!strcmp(mode, "handler")) sigaction(SIGALRM, &action, 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    if (!strcmp(mode, "sigwait")) sigprocmask(SIG_BLOCK, &set, 0);
    locks(0);
    if (count < 3) {
        printf("%p %p %p %p %p\n", (void *)called, (void *)refuses, (void *)reason, (void *)reads, left);
    }
    fflush(stdout);
    if (!strcmp(mode, "read")) {
        char byte;
        while (read(0, &byte, 1) == 1) wrong |= byte != 'x';
    } else if (!strcmp(mode, "spin")) {
        spin(0);
    } else if (!strcmp(mode, "stale")) {
        stale();
    } else if (!strcmp(mode, "handled")) {
        action = (struct sigaction){.sa_handler = on_alarm};
        sigaction(SIGALRM, &action, 0);
        handled();
        stale_handler();
    } else if (!strcmp(mode, "locked")) {
        locks(1);
    } else if (!strcmp(mode, "futex")) {
        while (!ends) {
            long result = syscall(SYS_futex, &ends, 128, 0, 0, 0, 0);
            wrong |= result != -1 || errno != EINTR;
        }
    } else if (!strcmp(mode, "mutex")) {
        action = (struct sigaction){.sa_handler = on_end_unlocks};
        sigaction(SIGTERM, &action, 0);
        wrong |= pthread_mutex_lock(&lock) != 0 || pthread_mutex_lock(&lock) != 0;
        wrong |= pthread_mutex_trylock(&lock) == 0;
    } else if (!strcmp(mode, "poll")) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        wrong |= poll(&input, 1, -1) != 1;
    } else if (!strcmp(mode, "epoll")) {
        int epoll = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(epoll, EPOLL_CTL_ADD, 0, &event);
        wrong |= epoll_wait(epoll, &event, 1, -1) != 1;
    } else if (!strcmp(mode, "limited")) {
        /* The whole time, and no error. */
        struct pollfd input = {.fd = 0, .events = POLLIN};
        for (int got = 0; got == 0;) {
            double begun = now();
            got = poll(&input, 1, 100);
            wrong |= got < 0 || (got == 0 && now() - begun < 0.1);
        }
    } else if (!strcmp(mode, "sleep")) {
        struct pollfd input = {.fd = 0, .events = POLLIN};
        while (poll(&input, 1, 0) == 0) {
            struct timespec time = {.tv_nsec = 100000000};
            double begun = now();
            wrong |= nanosleep(&time, &time) != 0 || now() - begun < 0.1;
        }
    } else if (!strcmp(mode, "long") || !strcmp(mode, "long-memory")) {
        if (mode[4]) restrict_calls(SYS_mmap, 0x50001);
        /* Nobody but the kernel knows the rest of the time. */
        while (!ends) wrong |= nanosleep(&(struct timespec){.tv_sec = 1000}, 0) == 0 || errno != EINTR;
    } else if (!strcmp(mode, "signals")) {
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, 0);
        struct itimerval often = {{0, 500}, {0, 500}};
        setitimer(ITIMER_REAL, &often, 0);
        while (!ends) wrong |= turns();
        wrong |= alarms == 0;
    } else if (!strcmp(mode, "threads")) {
        pthread_t threads[16];
        for (int at = 0; at < 16; at++) pthread_create(&threads[at], 0, at % 2 ? spin : waits, 0);
        while (!ends) {
            /* Threads that begin and end. */
            pthread_t other;
            pthread_create(&other, 0, (void *(*)(void *))turns, 0);
            void *changed;
            pthread_join(other, &changed);
            wrong |= (long)changed;
        }
        pthread_mutex_lock(&lock);
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&lock);
        for (int at = 0; at < 16; at++) pthread_join(threads[at], 0);
    } else if (!strcmp(mode, "until")) {
        /* A condition's limit is a point in time: the whole time, and no error. */
        pthread_mutex_lock(&lock);
        while (!ends) {
            struct timespec time;
            clock_gettime(CLOCK_REALTIME, &time);
            time.tv_nsec += 200000000;
            time.tv_sec += time.tv_nsec / 1000000000;
            time.tv_nsec %= 1000000000;
            double begun = now();
            int result = pthread_cond_timedwait(&condition, &lock, &time);
            wrong |= result != ETIMEDOUT || now() - begun < 0.19;
        }
        pthread_mutex_unlock(&lock);
    } else if (!strcmp(mode, "sigwait")) {
        wrong |= sigwaitinfo(&set, 0) != SIGTERM;
    } else if (!strcmp(mode, "handler")) {
        char byte;
        while (read(0, &byte, 1) == 1) wrong |= byte != 'x';
    } else if (!strcmp(mode, "container") || !strcmp(mode, "sandbox") || !strcmp(mode, "handlers")) {
        /* `unshare` gets an error, or ends the program; no handler may return. */
        restrict_calls(*mode == 'h' ? 15 : 272, *mode == 's' ? 0x80000000 : 0x50001);
        char byte;
        while (read(0, &byte, 1) == 1) wrong |= byte != 'x';
    } else if (!strcmp(mode, "memory")) {
        restrict_calls(SYS_mmap, 0x50001);
        char byte;
        while (read(0, &byte, 1) == 1) wrong |= byte != 'x';
    } else if (!strcmp(mode, "ring")) {
        /* The worker has the filter, too. */
        char byte;
        restrict_calls(272, 0x50001);
        puts(begins_worker());
        fflush(stdout);
        while (read(0, &byte, 1) == 1) wrong |= byte != 'x';
    } else if (!strcmp(mode, "restart")) {
        /* The call by which the kernel continues with another one ends the program. */
        restrict_calls(219, 0x80000000);
        struct pollfd input = {.fd = 0, .events = POLLIN};
        while (poll(&input, 1, 20) <= 0) {
            struct timespec time = {.tv_nsec = 20000000};
            double begun = now();
            wrong |= nanosleep(&time, &time) != 0 || now() - begun < 0.02;
        }
    } else if (!strcmp(mode, "chain")) {
        for (int at = 0; at < 4; at++) chain(0);
        char byte;
        while (read(0, &byte, 1) == 1) { }
        ends = 1;
    } else if (!strcmp(mode, "exec")) {
        pthread_t threads[17];
        int left = count > 2 ? atoi(arguments[2]) : 100;
        char text[20];
        snprintf(text, sizeof text, "%d", left - 1);
        again = (char *[]){arguments[0], "exec", text, 0};
        for (int at = 0; left && at < 17; at++) pthread_create(&threads[at], 0, at == 16 ? execs : at % 2 ? spin : waits, 0);
        while (left) pause();
    } else if (!strcmp(mode, "coroutine")) {
        static char stack[1 << 16];
        getcontext(&of_coroutine);
        of_coroutine.uc_stack.ss_sp = stack;
        of_coroutine.uc_stack.ss_size = sizeof stack;
        of_coroutine.uc_link = &of_main;
        makecontext(&of_coroutine, coroutine, 0);
        wrong |= swapcontext(&of_main, &of_coroutine) != 0;
    } else if (!strcmp(mode, "first")) {
        pthread_t thread;
        char byte;
        wrong |= read(0, &byte, 1) != 1 || pthread_create(&thread, 0, spends_first, 0) != 0;
        pthread_exit(0);
    } else if (!strcmp(mode, "vfork")) {
        /* Waits for a child that uses its memory. */
        if (vfork() == 0) {
            char byte;
            if (read(0, &byte, 1) < 0) _exit(1);
            _exit(0);
        }
    }
    printf("%ld %s\n", (long)calls, wrong ? "wrong" : "right");
    return 0;
}
