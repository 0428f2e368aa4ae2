/* Takes a recursive mutex and a file twice, gives them once, and holds them for a while. */
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static long now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000L + time.tv_nsec;
}

static pthread_mutex_t mutex;

static void take(void) {
    pthread_mutex_lock(&mutex);
    flockfile(stdin);
}

static void give(void) {
    funlockfile(stdin);
    pthread_mutex_unlock(&mutex);
}

int main(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&mutex, &attributes);
    long around = now();
    take();
    long begun = now();
    take();
    give();
    while (now() < begun + 5000000) {}
    long inside = now() - begun;
    give();
    printf("%ld %ld\n", inside, now() - around);
    return 0;
}
