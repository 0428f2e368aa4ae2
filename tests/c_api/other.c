/* The second file that uses the header. */
#include "shared.h"

unsigned long other_file(unsigned long x) {
    return in_header(x + 1);
}
