/* A loop that calls a function, below this number of frames and two more. */
#include <stdint.h>

#define APART static __attribute__((noipa, aligned(64)))

typedef void (*function)(uint64_t);

APART void many(uint64_t calls, function callee) {
    for (uint64_t call = 0; call < calls; call++) {
        callee(call & 1);
    }
    __asm__ volatile("" : : : "memory");
}

APART void below(uint64_t frames, uint64_t calls, function callee) {
    if (frames == 0) {
        many(calls, callee);
    } else {
        below(frames - 1, calls, callee);
    }
    __asm__ volatile("" : : : "memory");
}

void run(uint64_t frames, uint64_t calls, function callee) { below(frames, calls, callee); }
