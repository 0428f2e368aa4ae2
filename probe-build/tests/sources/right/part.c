#include "shared.h"

/* The other file has a function of the same name. */
__attribute__((noinline)) static int step(int x) {
    if (x > 100) return x - shared_twice(x);
    return shared_twice(x) - 1;
}

int right_part(int x) {
    switch (x % 7) {
    case 0: return step(x);
    case 1: return step(x) + 11;
    case 2: return step(x + 1) ^ 5;
    case 3: return -step(x);
    case 4: return step(-x) | 1;
    case 5: return left_part(x);
    default: return left_part(step(x));
    }
}

double mean(const double *values, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++) sum += values[i];
    return count ? sum / count : 0;
}
