/* Every macro, wherever a statement or an expression can be. Compiled with all warnings. */
#include <probe.h>

int clean(int x, const char *text, const unsigned char *bytes);

static int helper(void) {
    return 3;
}

int clean(int x, const char *text, const unsigned char *bytes) {
    int used_by_a_probe_only = x * 2;
    unsigned char byte = 3;
    PROBE("statement");
    PROBE_U64("from_int", used_by_a_probe_only);
    PROBE_I64("from_unsigned", byte);
    PROBE_U64("from_call", helper());
    PROBE_STR("text", text);
    PROBE_STR("literal", "literal");
    PROBE_BYTES("bytes", bytes, x);
#ifndef NO_FLOATS
    PROBE_F64("float", 1.5);
    PROBE_2("two", U64, "left", x, F64, "right", x);
#endif
    PROBE_1("one", STR, "field", text);
    PROBE_U64("comparison", x > 3);
    if (x == 1)
        PROBE("branch");
    else
        PROBE_U64("other_branch", x);
    for (; x < 3; PROBE("increment"), x++) {
    }
    switch (x) {
    case 1: PROBE("case"); break;
    default: PROBE_U64("default", x);
    }
    return PROBE_I64("comma", x), x;
}
