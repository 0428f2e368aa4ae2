// Takes and gives locks, and counts them.
#include <setjmp.h>

#include "torture.h"

COUNTED(held_play);

#ifdef HOOKED
// Hooks do not know results.
#define UNPROBED __attribute__((noinline, no_instrument_function))
#define SUCCEEDS(round) 1
#else
#define UNPROBED __attribute__((noinline))
#define SUCCEEDS(round) (round % 5 > 1)
#endif

static jmp_buf back;
static int held[4];

// Returns whether it has taken the lock. A negative number leaves it by a jump.
__attribute__((noinline)) int take(long lock, int how) {
    if (how < 0) longjmp(back, 1);
    held[lock] += how;
    __asm__ volatile("" ::: "memory");
    return how;
}

__attribute__((noinline)) void give(long lock) {
    __asm__ volatile("" ::"r"(lock) : "memory");
}

UNPROBED void held_play(void) {
    ADD(held_play, entries);
    for (int round = 0; round < 300; round++) {
        long lock = round % 3;
        if (setjmp(back) == 0 && take(lock, round % 5 == 4 ? -1 : SUCCEEDS(round))) give(lock);
    }
    // It stays taken.
    take(3, 1);
}

UNPROBED int held_count(int lock) { return held[lock]; }
