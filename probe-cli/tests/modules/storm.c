/* Calls functions of the C library, and prints how often. Its first argument chooses the work. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 2000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static int zero = -1, null = -1;
static atomic_ulong mallocs, frees, locks, unlocks, reads, writes;
static unsigned long guarded;

static void fail(const char *what) {
    fprintf(stderr, "wrong: %s\n", what);
    _exit(3);
}

static void work(unsigned seed) {
    unsigned char *block = malloc(64 + seed % 64);
    atomic_fetch_add(&mallocs, 1);
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&locks, 1);
    guarded++;
    pthread_mutex_unlock(&lock);
    atomic_fetch_add(&unlocks, 1);
    errno = 77;
    if (read(zero, block, 32) != 32) fail("read");
    atomic_fetch_add(&reads, 1);
    if (write(null, block, 16) != 16) fail("write");
    atomic_fetch_add(&writes, 1);
    if (errno != 77) fail("errno");
    free(block);
    atomic_fetch_add(&frees, 1);
}

static void *thread(void *rounds) {
    for (unsigned round = 0; round < (unsigned)(size_t)rounds; round++) work(round);
    return 0;
}

static void storm(size_t rounds) {
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], 0, thread, (void *)rounds);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], 0);
}

static void say(void) {
    printf("memory::malloc %lu\nmemory::free %lu\nlock::mutex_lock %lu\nlock::mutex_unlock %lu\n", mallocs, frees,
           locks, unlocks);
    printf("io::read %lu\nio::write %lu\n", reads, writes);
    fflush(stdout);
}

static void on_signal(int number) {
    (void)number;
    int before = errno;
    if (write(null, "x", 1) != 1) fail("write in a handler");
    atomic_fetch_add(&writes, 1);
    errno = before;
}

static void signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 200}, {0, 200}}, none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, 0);
    storm(ROUNDS);
    setitimer(ITIMER_REAL, &none, 0);
}

static void forks(void) {
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], 0, thread, (void *)(size_t)ROUNDS);
    for (int child = 0; child < 30; child++) {
        pid_t id = fork();
        if (id == 0) {
            for (int round = 0; round < 50; round++) free(malloc(100));
            _exit(9);
        }
        int status = 0;
        waitpid(id, &status, 0);
        if (WEXITSTATUS(status) != 9) fail("a child");
    }
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], 0);
}

/* The plugin's calls are its own, and of no interest. */
static void unloads(const char *plugin) {
    pthread_t threads[THREADS];
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], 0, thread, (void *)(size_t)ROUNDS);
    for (int round = 0; round < 300; round++) {
        void *loaded = dlopen(plugin, round % 2 ? RTLD_NOW : RTLD_LAZY);
        if (!loaded || dlclose(loaded)) fail("a plugin");
    }
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], 0);
}

static int has_cleaned_up;

static void clean_up(void *of) {
    has_cleaned_up++;
    pthread_mutex_unlock(of);
}

static void *waits(void *none) {
    pthread_mutex_lock(&lock);
    guarded++;
    pthread_cleanup_push(clean_up, &lock);
    for (;;) pthread_cond_wait(&never, &lock);
    pthread_cleanup_pop(1);
    return none;
}

static void cancels(void) {
    for (int round = 0; round < 50; round++) {
        pthread_t waiting;
        void *result = 0;
        unsigned long before = guarded;
        pthread_create(&waiting, 0, waits, 0);
        for (unsigned long now = before; now == before;) {
            pthread_mutex_lock(&lock);
            now = guarded;
            pthread_mutex_unlock(&lock);
        }
        pthread_cancel(waiting);
        pthread_join(waiting, &result);
        if (result != PTHREAD_CANCELED || has_cleaned_up != round + 1) fail("a cancellation");
    }
    printf("cleaned up %d\n", has_cleaned_up);
}

static jmp_buf out;

static int leaves(const void *one, const void *other) {
    (void)one, (void)other;
    longjmp(out, 1);
}

static void jumps(void) {
    int numbers[] = {3, 1, 2};
    volatile int jumped = 0;
    for (volatile int round = 0; round < 100; round++) {
        if (setjmp(out) == 0) qsort(numbers, 3, sizeof *numbers, leaves);
        jumped++;
    }
    printf("jumped %d\n", jumped);
}

/* Takes the place of `malloc`. */
static void *other(size_t size) { return calloc(1, size); }

/* Follows lines: `w` works, `h` takes a lock that it keeps, `l` loads the plugin, `x` works with
 * it, `p` says whether calls of `malloc` lead to the C library's, `o` leads them to another
 * function, if they lead there. */
static int served(const char *plugin) {
    char line[99];
    void (*plugged)(void) = 0;
    static pthread_mutex_t kept = PTHREAD_MUTEX_INITIALIZER;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'w') storm(ROUNDS);
        if (line[0] == 'h') pthread_mutex_lock(&kept);
        if (line[0] == 'l') *(void **)&plugged = dlsym(dlopen(plugin, RTLD_LAZY), "plugged");
        if (line[0] == 'x')
            for (int round = 0; round < 100; round++) plugged();
#ifndef WITHOUT_ADDRESSES
        if (line[0] == 'p') {
            void *(*volatile found)(size_t) = malloc;
            void *(*own)(size_t);
            *(void **)&own = dlsym(RTLD_DEFAULT, "malloc");
            puts(found == own ? "latent" : found == other ? "other" : "active");
            fflush(stdout);
            continue;
        }
        if (line[0] == 'o') {
            /* The words of this program, which nobody seals. */
            extern void *_GLOBAL_OFFSET_TABLE_[];
            void *(*volatile found)(size_t) = malloc, *(*with)(size_t) = other;
            for (void **word = _GLOBAL_OFFSET_TABLE_ - 64; word < _GLOBAL_OFFSET_TABLE_ + 64; word++)
                if (!memcmp(word, (void *)&found, sizeof found)) memcpy(word, &with, sizeof with);
        }
#endif
        puts("done");
        fflush(stdout);
    }
    say();
    return 0;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    setvbuf(stdout, 0, _IOLBF, 4096);
    zero = open("/dev/zero", O_RDONLY);
    null = open("/dev/null", O_WRONLY);
    if (!strcmp(what, "storm")) storm(ROUNDS);
    if (!strcmp(what, "signals")) signals();
    if (!strcmp(what, "forks")) forks();
    if (!strcmp(what, "unloads")) unloads(arguments[2]);
    if (!strcmp(what, "served")) return served(arguments[2]);
    if (!strcmp(what, "cancels")) return cancels(), 0;
    if (!strcmp(what, "jumps")) return jumps(), 0;
    say();
    return 0;
}
