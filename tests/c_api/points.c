/* Hand-placed probes in C89 functions of `unsigned long`. The command line sets PROBE_PROVIDER. */
#include "shared.h"

unsigned long leaf(unsigned long x) {
    PROBE("leaf");
    return x + 1;
}

unsigned long one_field(unsigned long x) {
    PROBE_U64("one_field", x * 3);
    return x * 7;
}

/* A leaf function whose red zone is in use across the probes. */
unsigned long red_zone(unsigned long x) {
    volatile unsigned long area[14];
    unsigned long i, sum = 0;
    for (i = 0; i < 14; i++) area[i] = x * (i + 1);
    PROBE("red_zone");
    PROBE_2("red_zone_two", U64, "first", area[0], U64, "last", area[13]);
    for (i = 0; i < 14; i++) sum = sum * 31 + area[i];
    return sum;
}

static double sums[20];

/* More doubles than there are registers, alive in a loop with a probe. */
unsigned long floats(unsigned long x) {
    double a = (double)x, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7, j = a + 8, k = a + 9;
    double l = a * 2, m = b * 2, n = c * 2, o = d * 2, p = e * 2, q = f * 2, r = g * 2, s = h * 2;
    unsigned long i;
    for (i = 0; i < 10; i++) {
        a += 0.5 * b; b += 0.5 * c; c += 0.5 * d; d += 0.5 * e; e += 0.5 * f; f += 0.5 * g; g += 0.5 * h; h += 0.5 * j; j += 0.5 * k;
        PROBE_F64("floats", a);
        k -= 0.25 * l; l -= 0.25 * m; m -= 0.25 * n; n -= 0.25 * o; o -= 0.25 * p; p -= 0.25 * q; q -= 0.25 * r; r -= 0.25 * s;
    }
    sums[0] = a + b + c + d + e + f + g + h + j + k + l + m + n + o + p + q + r + s;
    return (unsigned long)(long)(sums[0] * 1024.0);
}

typedef double wide __attribute__((vector_size(64)));

/* Vectors as wide as the target has them, alive in a loop with a probe. */
unsigned long vectors(unsigned long x) {
    double y = (double)x, sum = 0;
    wide a = {1, 2, 3, 4, 5, 6, 7, 8}, b = {8, 7, 6, 5, 4, 3, 2, 1};
    int i;
    a = a * y;
    for (i = 0; i < 10; i++) {
        a = a * 0.5 + b;
        PROBE("vectors");
        b = b * 0.75 - a;
    }
    for (i = 0; i < 8; i++) sum += a[i] * (i + 1) + b[i];
    return (unsigned long)(long)(sum * 1024.0);
}

/* Values on the x87 stack across a probe. */
unsigned long long_doubles(unsigned long x) {
    long double a = (long double)x, b = a * 3, c = a / 7;
    int i;
    for (i = 0; i < 10; i++) {
        a = a * b / 3 + c;
        PROBE_U64("long_doubles", i);
        b = b - c / 5;
        c = c + 1 / (a + 2);
    }
    return (unsigned long)((a / 1e30L + b + c) * 65536);
}

static unsigned long evaluated;

static unsigned long evaluate(void) {
    return ++evaluated;
}

/* How often values have been computed: at hits only. */
unsigned long evaluations(unsigned long x) {
    PROBE_U64("evaluations", evaluate());
    return x + evaluated;
}

static unsigned long inlined(unsigned long x) {
    PROBE_I64("inlined", -(long)x);
    return x * 3;
}

unsigned long copies(unsigned long x) {
    return inlined(x) + inlined(x + 1) * inlined(x ^ 5) + in_header(x);
}

/* Every kind of value. */
unsigned long values(unsigned long x) {
    unsigned char byte = 255;
    signed char negative = -1;
    char text[4];
    text[0] = 'a'; text[1] = (char)('b' + x % 2); text[2] = 'c'; text[3] = '\0';
    PROBE_U64("u64", ~0UL);
    PROBE_U64("u64_narrow", byte);
    PROBE_I64("i64", -9223372036854775807L - 1);
    PROBE_I64("i64_narrow", negative);
    PROBE_F64("f64", 0.1);
    PROBE_F64("f64_narrow", 1.5f);
    PROBE_STR("str", text);
    PROBE_STR("str_literal", "h\303\251");
    PROBE_STR("str_latin1", "h\351");
    PROBE_STR("str_null", (const char *)0);
    PROBE_BYTES("bytes", text + 1, 3);
    PROBE_BYTES("bytes_null", (const void *)0, 0);
    PROBE_1("named", U64, "count", x);
    PROBE_1("named_str", STR, "text", text);
    PROBE_2("pair", I64, "low", -1, F64, "high", 2.25);
    PROBE_2("pair_str", STR, "key", text, U64, "value", x);
    PROBE("deep::path::to::it");
    return PROBE("comma"), x + (unsigned long)text[1];
}

unsigned long long_text(unsigned long x) {
    PROBE_U64("a_path_that_is_as_long_as_a_path_can_be::when_modules_are_nested_deeply::and_named_verbosely::"
              "so_that_text_does_not_fit_into_the_144_bytes_of_a_definition", x);
    return x;
}

#ifndef ONE_FILE
unsigned long both_files(unsigned long x) {
    return in_header(x) + other_file(x);
}
#endif

__attribute__((noinline)) unsigned long unwound_inner(unsigned long x) {
    PROBE_U64("unwound", x);
    return x + 1;
}

__attribute__((noinline)) unsigned long unwound_outer(unsigned long x) {
    volatile unsigned long area[8];
    area[x % 8] = unwound_inner(x);
    return area[x % 8] + 1;
}
