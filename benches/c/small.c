/* The smallest useful function, and a loop. Both begin a cache line. With POINTS, the function has
 * two points; with RESULT, it returns a number, so that its last call is no jump. */
#include <stdint.h>
#ifdef POINTS
#include <probe.h>
#else
#define PROBE(name)
#endif

#ifdef RESULT
#define TYPE int
#define RETURN return 1
#else
#define TYPE void
#define RETURN return
#endif

__attribute__((noipa, aligned(64))) TYPE SMALL(void) {
    PROBE("small_points::begin");
    __asm__ volatile("" : : : "memory");
    PROBE("small_points::end");
    RETURN;
}

__attribute__((visibility("default"), aligned(64))) uint64_t workload(uint64_t calls) {
    for (uint64_t call = 0; call < calls; call++) {
        SMALL();
    }
    return calls;
}
