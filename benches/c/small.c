/* The smallest useful function, and a loop. Both begin a cache line. */
#include <stdint.h>

__attribute__((noipa, aligned(64))) void SMALL(void) {
    __asm__ volatile("" : : : "memory");
}

__attribute__((visibility("default"), aligned(64))) uint64_t workload(uint64_t calls) {
    for (uint64_t call = 0; call < calls; call++) {
        SMALL();
    }
    return calls;
}
