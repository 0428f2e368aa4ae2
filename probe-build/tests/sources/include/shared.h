/* A function of which several files have a copy. */
#ifndef SHARED_H
#define SHARED_H

__attribute__((noinline)) static int shared_twice(int x) {
    return 2 * x + (x < 0);
}

int left_part(int x);
int right_part(int x);
int sum_of(int count, ...);
double mean(const double *values, int count);

#endif
