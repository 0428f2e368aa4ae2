#include "shared.h"

#include <stdarg.h>

__attribute__((noinline)) static int step(int x) {
    return shared_twice(x) + 1;
}

int left_part(int x) {
    return step(x) * 3;
}

int sum_of(int count, ...) {
    va_list values;
    int sum = 0;
    va_start(values, count);
    while (count-- > 0) sum += va_arg(values, int);
    va_end(values);
    return sum;
}
