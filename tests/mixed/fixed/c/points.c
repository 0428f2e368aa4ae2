#include "probe.h"

/* Points, placed by hand. */
unsigned long NAME(points)(unsigned long value) {
    unsigned long sum = 0;
    for (unsigned long at = 0; at < value; at++) {
        sum += at;
        PROBE_U64("sum", sum);
    }
    PROBE("done");
    return sum;
}
