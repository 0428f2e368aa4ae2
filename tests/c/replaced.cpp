// A function whose replacement throws.
#include <cstdint>

#include "torture.h"

static COUNTER_(replaced_catches, "replaced_catches", EXACT);

extern "C" __attribute__((noinline)) int N(calm)(int x) {
    // Callers rely on what compilers see: that it throws nothing, or returns its argument.
    volatile int result = x;
    if (result < 0) {
        throw x;
    }
    return result;
}

extern "C" __attribute__((noinline)) int N(throwing)(int x) {
    if (x % 2) {
        throw x;
    }
    return -x;
}

// Returns the number of wrong results, and 1,000,000 for each number thrown, times that number.
extern "C" uint64_t N(catching)(uint64_t calls) {
    uint64_t sum = 0;
    for (uint64_t call = 0; call < calls; call++) {
        try {
            sum += (uint64_t)(N(calm)((int)call) != (int)call);
        } catch (int thrown) {
            __atomic_fetch_add(&replaced_catches.entries, 1, __ATOMIC_RELAXED);
            sum += (uint64_t)thrown * 1000000;
        }
    }
    return sum;
}
