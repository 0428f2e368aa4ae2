#include <stdint.h>
/* A constructor runs before main. */
static uint64_t started;
__attribute__((noinline)) static uint64_t start(uint64_t x) { return x + 7; }
__attribute__((constructor)) static void begin(void) { started = start(1) ? 1 : 0; }
__attribute__((noinline)) static uint64_t twice(uint64_t x) { return 2 * x; }
uint64_t work(uint64_t x) { return twice(x) + started; }
uint64_t never(uint64_t x) { return x; }
