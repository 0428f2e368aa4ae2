/* A small function without parameters, with one, with four numbers, and with a text; and a loop.
 * Each begins a cache line. */
#include <stdint.h>

__attribute__((noipa, aligned(64))) void NAME(none)(void) { __asm__ volatile("" : : : "memory"); }

__attribute__((noipa, aligned(64))) void NAME(one)(long a) { __asm__ volatile("" : : "r"(a) : "memory"); }

__attribute__((noipa, aligned(64))) void NAME(four)(long a, int b, unsigned char c, long d) {
    __asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__attribute__((noipa, aligned(64))) void NAME(text)(const char *a) { __asm__ volatile("" : : "r"(a) : "memory"); }

__attribute__((visibility("default"), aligned(64))) uint64_t workload(uint64_t calls) {
    for (uint64_t call = 0; call < calls; call++) {
        CALL;
    }
    return calls;
}
