// The other file of linkage.c.
#include "linkage.h"
#include "torture.h"

__attribute__((section("counters"), used)) struct counter in_header_counter = {.path = "in_header", .file = "linkage.h"};

COUNTED(same_name);
static NOINLINE long same_name(long x) { ENTER(same_name); return x + 200; }

COUNTED(overridden);
long overridden(long x) { ENTER(overridden); return x - 2; }

COUNTED(other_file);
NOINLINE long other_file(long x) { ENTER(other_file); return same_name(x) + in_header(x); }
