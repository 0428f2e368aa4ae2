/* Sites at calls of hooks, with absolute addresses. The compiler may have two for one call. */

static inline __attribute__((always_inline)) int first(int value) {
    return value * 3;
}

static inline __attribute__((always_inline)) int second(int value) {
    return value * 3;
}

__attribute__((noinline)) int NAME(branch)(int value) {
    if (value & 1) return first(value);
    return second(value);
}

int NAME(hooks)(int value) {
    return NAME(branch)(value) - NAME(branch)(value + 1);
}
