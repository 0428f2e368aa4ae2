// As clean.c, in C++.
#include <probe.h>

int clean(int x, const char *text, const unsigned char *bytes);

namespace {
template <typename T>
T twice(T x) {
    PROBE_I64("template", x);
    return static_cast<T>(x + x);
}

class Counter {
public:
    explicit Counter(int start) : count(start) { PROBE_U64("constructor", count); }
    ~Counter() { PROBE("destructor"); }
    int count;
};
}  // namespace

int clean(int x, const char *text, const unsigned char *bytes) {
    int used_by_a_probe_only = x * 2;
    bool truth = x > 4;
    PROBE("statement");
    PROBE_U64("from_int", used_by_a_probe_only);
    PROBE_U64("from_bool", truth);
    PROBE_STR("text", text);
    PROBE_BYTES("bytes", bytes, x);
#ifndef NO_FLOATS
    PROBE_F64("float", 1.5F);
    PROBE_2("two", U64, "left", x, F64, "right", x);
#endif
    PROBE_1("one", STR, "field", text);
    for (; x < 3; PROBE("increment"), x++) {
    }
    return PROBE_I64("comma", x), twice(x) + twice(static_cast<short>(x));
}

int scopes(int x);
int scopes(int x) {
    Counter outer(x);
#if __cplusplus >= 201103L || !defined(__clang__)
    // clang before 17 refuses several probes with destructors between them in C++98.
    PROBE("outer");
    if (x > 3) {
        Counter inner(x + 1);
        PROBE_U64("inner", inner.count);
        return inner.count;
    }
#endif
    PROBE("end");
    return outer.count;
}
