/* Threads of OpenMP: each line names a probe of the runtime, and how often it is hit. */
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 250, BARRIERS = 5 };

int main(void) {
    long guarded = 0, named = 0;
#pragma omp parallel num_threads(THREADS)
    {
        for (int round = 0; round < ROUNDS; round++) {
#pragma omp critical
            guarded++;
#pragma omp critical(other)
            named++;
        }
        for (int round = 0; round < BARRIERS; round++) {
#pragma omp barrier
        }
    }
    if (guarded != THREADS * ROUNDS || named != THREADS * ROUNDS) return 1;
    printf("omp::parallel 1\nomp::barrier %d\n", THREADS * BARRIERS);
    printf("omp::critical %ld\nomp::critical_end %ld\n", guarded, guarded);
    printf("omp::named_critical %ld\nomp::named_critical_end %ld\n", named, named);
    return 0;
}
