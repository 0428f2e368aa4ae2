/* Functions that tests replace, and what their callers make of them. Each build has names of its
 * own: a library with a replaced function stays loaded. */
#include <stdarg.h>
#include <stdint.h>

#include "torture.h"

#ifdef __clang__
#define GLOBAL __attribute__((noinline))
#else
#define GLOBAL __attribute__((noinline, noclone))
#endif

/* The support code wants one. */
COUNTED(replaced_stores);

GLOBAL int N(add)(int a, int b) {
    __asm__ volatile("");
    return a + b;
}

GLOBAL long N(many)(long a, int b, short c, signed char d, long e, long f, long g, double x, float y, long h) {
    __asm__ volatile("");
    return a + b + c + d + e + f + g + (long)x + (long)y + h;
}

GLOBAL float N(half)(float x) {
    __asm__ volatile("");
    return x / 2;
}

GLOBAL void N(store)(long *at, long value) {
    ADD(replaced_stores, entries);
    *at = value;
}

struct pair_of { long a, b; };
GLOBAL long N(pair)(struct pair_of pair) { return pair.a - pair.b; }
GLOBAL long N(variadic)(int count, ...) {
    va_list list;
    va_start(list, count);
    long sum = 0;
    while (count-- > 0) {
        sum += va_arg(list, int);
    }
    va_end(list);
    return sum;
}

/* Touches one register. With -fipa-ra, gcc's callers keep values in the others. */
static NOINLINE long N(leaf)(long x) {
    __asm__ volatile("" : "+r"(x));
    return x ^ 1;
}

uint64_t N(leaves)(uint64_t calls) {
    uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6;
    double x = 0.5, y = 1.5;
    for (uint64_t call = 0; call < calls; call++) {
        uint64_t result = (uint64_t)N(leaf)((long)call);
        a += result, b ^= a, c += b, d ^= c, e += d, f ^= e;
        x += (double)(result & 7), y += x;
    }
    return a + b + c + d + e + f + (uint64_t)x + (uint64_t)y;
}

/* Returns how many calls had the sum as their result, and how many another one: one number. */
uint64_t N(calls)(uint64_t calls) {
    uint64_t own = 0;
    for (uint64_t call = 0; call < calls; call++) {
        own += N(add)((int)call, 3) == (int)call + 3;
    }
    return own << 32 | (calls - own);
}

long N(all)(void) {
    long stored = 0;
    N(store)(&stored, 5);
    return N(many)(1, 2, 3, 4, 5, 6, 7, 8.0, 9.0f, 10) * 1000 + (long)(N(half)(7) * 10) + stored * 100000000;
}
