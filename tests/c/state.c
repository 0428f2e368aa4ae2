// Functions that leave almost every register as it was, whatever it held. A change that the tests
// see around one of them comes from a site.
#include <complex.h>

#include "torture.h"

COUNTED(state_nothing);
NOINLINE void state_nothing(void) { ENTER(state_nothing); }

COUNTED(state_tail);
NOINLINE void state_tail(void) { ENTER(state_tail); state_nothing(); }

static void (*volatile pointer)(void) = state_tail;
COUNTED(state_memory_tail);
NOINLINE void state_memory_tail(void) {
    ENTER(state_memory_tail);
    // Through memory, so that it needs no register.
    __asm__ volatile("" : : : "memory");
    pointer();
}

COUNTED(state_branch);
NOINLINE void state_branch(long x) {
    ENTER(state_branch);
    if (x < 0) state_nothing();
}

static long double number = 3.25L;
static long double _Complex numbers = 1.5L + 2.75L * I;
COUNTED(state_x87);
NOINLINE long double state_x87(void) { ENTER(state_x87); return number; }
COUNTED(state_x87_pair);
NOINLINE long double _Complex state_x87_pair(void) { ENTER(state_x87_pair); return numbers; }

struct pair { long a; double b; };
static struct pair pair = {0x1122334455667788, 0.3};
COUNTED(state_pair);
NOINLINE struct pair state_pair(void) { ENTER(state_pair); return pair; }

static __int128 wide = (__int128)0x99aabbccddeeff00 << 64 | 0x1122334455667788;
COUNTED(state_wide);
NOINLINE __int128 state_wide(void) { ENTER(state_wide); return wide; }

struct big { long a[9]; };
COUNTED(state_memory);
// The argument is where its caller wants it, and so is rax after it.
NOINLINE void state_memory(struct big *to) { ENTER(state_memory); to->a[0] = 1; to->a[8] = 9; }
