/* A till, which has a probe and no runtime. */

#include <stdio.h>

#include <probe.h>

int main(void) {
    unsigned long sum = 0;
    for (unsigned long cents = 1; cents <= 1000; cents++) {
        sum += cents;
        PROBE_U64("paid", cents);
    }
    printf("sum %lu\n", sum);
    return 0;
}
