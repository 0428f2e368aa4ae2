#include "shared.h"

#include <setjmp.h>
#include <stdio.h>

static jmp_buf out;

__attribute__((noinline)) static void leave(int x) {
    if (x % 5 == 0) longjmp(out, x + 1);
}

__attribute__((noinline)) static int deep(int depth, int x) {
    leave(x);
    return depth ? deep(depth - 1, x + 2) + 1 : x;
}

int main(void) {
    double values[3] = {0.5, 1.25, 4};
    long sum = 0;
    for (int i = 0; i < 200; i++) sum = sum * 31 + left_part(i) - right_part(i);
    printf("%ld %d %.3f\n", sum, sum_of(4, 1, 2, 3, shared_twice(-4)), mean(values, 3));
    int how = setjmp(out);
    printf("%d\n", how ? how : deep(7, 2));
    return 0;
}
