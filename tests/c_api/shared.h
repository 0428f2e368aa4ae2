/* Probes in functions of a header, which both files use. */
#ifndef SHARED_H
#define SHARED_H

#include <probe.h>

#ifdef __cplusplus
extern "C" {
#endif

static unsigned long in_header(unsigned long x) {
    PROBE_U64("in_header", x);
    return x * 5;
}

unsigned long other_file(unsigned long x);

#ifdef __cplusplus
}

/* An inline function of C++ and a template lie in COMDAT groups of their own. */
inline unsigned long in_inline(unsigned long x) {
    PROBE_U64("in_inline", x);
    return x + 3;
}

template <typename T>
__attribute__((noinline)) T in_template(T x) {
    PROBE_I64("in_template", x);
    return static_cast<T>(x + 1);
}
#endif
#endif
