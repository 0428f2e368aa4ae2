/* A small function, and a loop that calls it below at least sixteen frames. Each begins a cache
 * line. */
#include <stdint.h>

__attribute__((noipa, aligned(64))) void NAME(callee)(void) { __asm__ volatile("" : : : "memory"); }

static __attribute__((noipa, aligned(64))) void many(uint64_t calls) {
    for (uint64_t call = 0; call < calls; call++) {
        NAME(callee)();
    }
}

static __attribute__((noipa, aligned(64))) void below(uint64_t frames, uint64_t calls) {
    if (frames == 0) {
        many(calls);
    } else {
        below(frames - 1, calls);
    }
    __asm__ volatile("" : : : "memory");
}

__attribute__((visibility("default"), aligned(64))) uint64_t workload(uint64_t calls) {
    below(16, calls);
    return calls;
}
