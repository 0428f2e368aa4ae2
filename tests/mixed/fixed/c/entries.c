/* Sites at entries and returns: a tail call, a table of absolute addresses, a function pointer. */

static __attribute__((noinline)) int leaf(int value) {
    return value + 1;
}

__attribute__((noinline)) int NAME(tail)(int value) {
    __asm__ volatile("" : "+r"(value));
    return leaf(value * 2);
}

__attribute__((noinline)) int NAME(choose)(int value, int (*function)(int)) {
    switch (value) {
    case 0: return function(3);
    case 1: return leaf(7) - function(1);
    case 2: return function(value) + function(5);
    case 3: __asm__ volatile("nop"); return 11;
    case 4: __asm__ volatile("nop; nop"); return function(12) * 5;
    default: return -1;
    }
}

int NAME(entries)(int value) {
    return NAME(tail)(value) + NAME(choose)(value, NAME(tail));
}
