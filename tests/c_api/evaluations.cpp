// The second file that uses the header's inline functions.
#include "shared.h"

extern "C" unsigned long evaluations(unsigned long x);

unsigned long evaluations(unsigned long x) {
    return in_inline(x) + static_cast<unsigned long>(in_template(static_cast<int>(x))) + in_header(x);
}
