/* Functions of five lengths, which call each other, for a caller with a clock. */
#include <stdint.h>

#define CALLED __attribute__((noipa))

static inline __attribute__((always_inline, no_instrument_function)) uint64_t
steps(uint64_t state, uint64_t many) {
    for (; many; many--) {
        state = (state ^ state >> 29) * 0x5bd1e995u + many;
    }
    return state;
}

/* Some 15 ns. */
CALLED static uint64_t clocked_inner(uint64_t state) { return steps(state, 8); }

/* Some 3 µs, of which a sixth is its own. */
CALLED static uint64_t clocked_middle(uint64_t state) {
    for (int call = 0; call < 100; call++) {
        state = clocked_inner(state) + 1;
    }
    return steps(state, 300);
}

/* Some 60 µs, of which a tenth is its own. */
CALLED static uint64_t clocked_outer(uint64_t state) {
    for (int call = 0; call < 20; call++) {
        state = clocked_middle(state) + 1;
    }
    return steps(state, 3000);
}

/* Some 120 ns. */
CALLED static uint64_t clocked_short(uint64_t state) { return steps(state, 70); }

/* Some 300 µs. */
CALLED static uint64_t clocked_long(uint64_t state) { return steps(state, 150000); }

static uint64_t (*const all[])(uint64_t) = {clocked_inner, clocked_middle, clocked_outer, clocked_short, clocked_long};

/* Returns a function. */
__attribute__((visibility("default"), no_instrument_function)) uint64_t workload(uint64_t number) {
    return (uint64_t)(uintptr_t)all[number];
}
