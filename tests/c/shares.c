/* Functions with known parts of the work: 6, 3 and 2 of 12; one part is of a function without
 * probes. */
#include <stdint.h>
#ifdef POINTS
#include <probe.h>
#else
#define PROBE(name)
#endif

static inline __attribute__((always_inline, no_instrument_function)) uint64_t spin(uint64_t rounds) {
    uint64_t x = rounds;
    for (uint64_t round = 0; round < rounds; round++) {
        x = x ^ (x << 7) ^ (x >> 9) ^ round;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

__attribute__((noinline)) uint64_t NAME(much)(uint64_t rounds) {
    PROBE("shares_points::much");
    return spin(6 * rounds);
}

/* With -finstrument-functions, also an inlined function has its own time. */
static inline __attribute__((always_inline)) uint64_t NAME(inlined)(uint64_t rounds) {
    return spin(2 * rounds);
}

__attribute__((noinline)) uint64_t NAME(less)(uint64_t rounds) {
    PROBE("shares_points::less");
    return NAME(inlined)(rounds) + spin(3 * rounds);
}

__attribute__((noinline, no_instrument_function)) uint64_t NAME(outside)(uint64_t rounds) {
    return spin(rounds);
}

__attribute__((noinline)) uint64_t NAME(never)(uint64_t rounds) {
    return spin(rounds);
}

__attribute__((visibility("default"), no_instrument_function)) uint64_t workload(uint64_t rounds) {
    uint64_t x = NAME(much)(rounds) + NAME(less)(rounds) + NAME(outside)(rounds);
    return x == 1 ? NAME(never)(x) : rounds;
}
