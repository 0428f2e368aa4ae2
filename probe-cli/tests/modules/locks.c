// Takes and gives locks, and counts that. A line has the function, the lock, the times that it was
// taken and given, and the times that it is still taken.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 400 };

static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER, waited = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER, left = PTHREAD_MUTEX_INITIALIZER, recursive;
static pthread_mutex_t forked = PTHREAD_MUTEX_INITIALIZER, lost = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t robust, jumped = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static int turn;

static void *each_kind(void *unused) {
    (void)unused;
    for (int n = 0; n < ROUNDS; n++) {
        pthread_mutex_lock(&shared);
        pthread_mutex_unlock(&shared);
        pthread_rwlock_rdlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        pthread_rwlock_wrlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        pthread_spin_lock(&spin);
        pthread_spin_unlock(&spin);
        // One of these three is the outermost.
        for (int depth = 0; depth < 3; depth++) pthread_mutex_lock(&recursive);
        for (int depth = 0; depth < 3; depth++) pthread_mutex_unlock(&recursive);
    }
    return NULL;
}

// Another thread holds the lock meanwhile.
static void *fails(void *unused) {
    (void)unused;
    struct timespec past = {0, 0};
    int failures = 0;
    for (int n = 0; n < ROUNDS; n++) {
        failures += pthread_mutex_trylock(&busy) == EBUSY;
        failures += pthread_mutex_timedlock(&busy, &past) == ETIMEDOUT;
    }
    return (void *)(long)failures;
}

// Two threads take turns.
static void *ping(void *own) {
    for (int n = 0; n < ROUNDS; n++) {
        pthread_mutex_lock(&waited);
        while (turn != (int)(long)own) pthread_cond_wait(&cond, &waited);
        turn = !turn;
        pthread_cond_broadcast(&cond);
        pthread_mutex_unlock(&waited);
    }
    return NULL;
}

static void *ends_while_holding(void *mutex) {
    pthread_mutex_lock(mutex);
    return NULL;
}

static void *posts(void *unused) {
    (void)unused;
    sem_post(&sem);
    return NULL;
}

static void *run(void *(*function)(void *), void *argument) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, function, argument);
    pthread_join(thread, &result);
    return result;
}

static jmp_buf back;

__attribute__((noinline)) static void takes_and_jumps(void) {
    pthread_mutex_lock(&jumped);
    longjmp(back, 1);
}

static void told(const char *path, void *lock, int holds, int open) {
    printf("%s %lu %d %d\n", path, (unsigned long)lock, holds, open);
}

int main(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_spin_init(&spin, 0);
    sem_init(&sem, 0, 0);

    pthread_t threads[THREADS];
    for (int n = 0; n < THREADS; n++) pthread_create(&threads[n], NULL, each_kind, NULL);
    for (int n = 0; n < THREADS; n++) pthread_join(threads[n], NULL);
    told("lock::mutex_lock", &shared, THREADS * ROUNDS, 0);
    told("lock::read_lock", &rwlock, THREADS * ROUNDS, 0);
    told("lock::write_lock", &rwlock, THREADS * ROUNDS, 0);
    told("lock::spin_lock", (void *)&spin, THREADS * ROUNDS, 0);
    told("lock::mutex_lock", &recursive, THREADS * ROUNDS, 0);

    pthread_mutex_lock(&busy);
    if ((long)run(fails, NULL) != 2 * ROUNDS) return 1;
    pthread_mutex_unlock(&busy);
    if (pthread_mutex_trylock(&busy) != 0) return 1;
    pthread_mutex_unlock(&busy);
    told("lock::mutex_lock", &busy, 1, 0);
    told("lock::mutex_trylock", &busy, 1, 0);

    // Each wait gives the lock, and takes it again, also one that ends by its time.
    for (int n = 0; n < 2; n++) pthread_create(&threads[n], NULL, ping, (void *)(long)n);
    for (int n = 0; n < 2; n++) pthread_join(threads[n], NULL);
    pthread_mutex_lock(&lost);
    struct timespec past = {0, 0};
    for (int n = 0; n < ROUNDS; n++) {
        if (pthread_cond_timedwait(&cond, &lost, &past) != ETIMEDOUT) return 1;
    }
    pthread_mutex_unlock(&lost);
    told("lock::mutex_lock", &waited, 2 * ROUNDS, 0);
    told("lock::mutex_lock", &lost, 1, 0);
    told("lock::cond_timedwait", &lost, ROUNDS, 0);

    for (int n = 0; n < 10; n++) {
        if (setjmp(back) == 0) takes_and_jumps();
        pthread_mutex_unlock(&jumped);
    }
    told("lock::mutex_lock", &jumped, 10, 0);

    // Another thread ends what this one began, which nobody can tell from the lock of two threads.
    run(posts, NULL);
    sem_wait(&sem);
    sem_post(&sem);
    sem_wait(&sem);
    run(posts, NULL);
    told("lock::sem_wait", &sem, 1, 1);

    // A thread has ended, and its lock is the next one's. No later thread has its memory.
    run(ends_while_holding, &robust);
    if (pthread_mutex_lock(&robust) != EOWNERDEAD) return 1;
    pthread_mutex_consistent(&robust);
    pthread_mutex_unlock(&robust);

    fflush(stdout);
    pthread_mutex_lock(&forked);
    pid_t child = fork();
    if (child == 0) _exit(pthread_mutex_unlock(&forked));
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
    pthread_mutex_unlock(&forked);
    told("lock::mutex_lock", &forked, 1, 0);

    pthread_mutex_lock(&left);
    told("lock::mutex_lock", &left, 0, 1);
    return 0;
}
