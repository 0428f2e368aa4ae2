// Between the two files.
#pragma once

#include "torture.h"

long other_file(long x);

// A copy in each file: one probe.
extern struct counter in_header_counter;
__attribute__((unused)) static NOINLINE long in_header(long x) { ENTER(in_header); return x * 3 + 1; }
