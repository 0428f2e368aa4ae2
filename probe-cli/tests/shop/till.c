/* A till, which has a probe and no runtime. With an argument, it works until somebody ends it. */

#include <stdio.h>
#include <unistd.h>

#include <probe.h>

int main(int count, char **arguments) {
    unsigned long sum = 0;
    (void)arguments;
    do {
        for (unsigned long cents = 1; cents <= 1000; cents++) {
            sum += cents;
            PROBE_U64("paid", cents);
        }
    } while (count > 1 && !usleep(1000));
    printf("sum %lu\n", sum);
    return 0;
}
