/* Functions that are called with known values: the caller writes each value into a log, as a
 * consumer should see it. */
#include <complex.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "torture.h"

#ifdef __clang__
#define GLOBAL __attribute__((noinline))
#else
#define GLOBAL __attribute__((noinline, noclone))
#endif
#define LOCAL static NOINLINE

static char text[1 << 16];
static size_t used;

static void line(const char *format, ...) {
    va_list list;
    va_start(list, format);
    used += (size_t)vsnprintf(text + used, sizeof text - used, format, list);
    va_end(list);
    text[used++] = '\n';
    text[used] = 0;
}

/* Returns the log of the latest run. */
const char *arguments_log(void) { return text; }

enum mode { CLOSED = -1, READ, WRITE = 7 };
enum flags { NONE, FIRST = 1, LAST = 0x80000000u };
struct one { int a; };
struct two { long a, b; };
struct mixed { int a; double b; };
struct large { long a, b, c; };
typedef float vector __attribute__((vector_size(16)));

volatile long arguments_sink;

GLOBAL int integers(int8_t a, uint16_t b, int c, unsigned long d, bool e, char f) {
    arguments_sink += a + b + (long)d + f;
    return e ? c : -c;
}

GLOBAL double floats(float a, double b, int c, long double d, float e) {
    arguments_sink += c + (long)d;
    return (double)a + b + (double)e;
}

GLOBAL float single(float a) { return a * 2; }
GLOBAL bool truth(int a) { return a > 3; }
GLOBAL uint8_t byte(int a) { return (uint8_t)a; }

GLOBAL void many(long a, long b, long c, long d, long e, long f, short g, float x, const char *h) {
    arguments_sink += a + b + c + d + e + f + g + (long)x + *h;
}

/* Without optimisation, its first parameter is in another register behind the entry. */
GLOBAL int kept(register int a, int b) {
    arguments_sink += b;
    return a;
}

GLOBAL enum mode modes(enum mode mode, enum flags flags) {
    arguments_sink += (long)flags;
    return mode;
}

GLOBAL const char *texts(const char *a, char *b, void *c) {
    arguments_sink += (long)(uintptr_t)c + (b ? *b : 0);
    return a;
}

GLOBAL struct two structs(struct one a, int b, struct two c, struct large d, int e, struct mixed f, double g, int h) {
    arguments_sink += a.a + b + d.b + e + f.a + (long)g + h;
    return c;
}

GLOBAL struct large returns_large(int a, int b) {
    struct large it = { a, b, a + b };
    return it;
}

GLOBAL double vectors(float _Complex a, double _Complex b, vector c, double d, int e) {
    arguments_sink += (long)(creal(b) + (double)crealf(a) + (double)c[1]) + e;
    return d;
}

GLOBAL __int128 wide(int a, __int128 b, int c) {
    arguments_sink += a + c;
    return b;
}

GLOBAL long variadic(const char *format, int count, ...) {
    va_list list;
    long sum = *format;
    va_start(list, count);
    for (int i = 0; i < count; i++)
        sum += (long)va_arg(list, double);
    va_end(list);
    return sum;
}

GLOBAL int unused(int a, int b, int c) {
    (void)a;
    (void)b;
    (void)c;
    arguments_sink += 1;
    return 5;
}

GLOBAL long recursion(long depth) {
    if (depth == 0)
        return 1;
    line("recursion depth=%ld", depth - 1);
    long inner = recursion(depth - 1);
    line("recursion ret=%ld", inner);
    return inner * 2 + arguments_sink * 0;
}

/* Calls that may be jumps: the exit's site precedes them. */
GLOBAL int tail(int a) { return integers(1, 2, a, 4, true, 5); }

/* Compilers may change the parameters of these. */
LOCAL int local_some(int a, int b, int c, struct two *d) {
    (void)b;
    arguments_sink += d->a;
    return a + c;
}

LOCAL long local_constant(long a, long b) {
    arguments_sink += a;
    return a * b;
}

LOCAL void local_result(int a, double b) { arguments_sink += a + (long)b; }

LOCAL int local_dropped(int a) {
    arguments_sink += a;
    return a + 1;
}

static void flags(void) {
    static const struct { int8_t a; uint16_t b; int c; unsigned long d; bool e; char f; } calls[] = {
        { -1, 65535, 7, ULONG_MAX, true, 'x' },
        { INT8_MIN, 0, INT_MIN + 1, 0, false, -3 },
        { 127, 4097, INT_MAX, 1ul << 63, true, 0 },
    };
    for (int i = 0; i < 3; i++) {
        line("integers a=%d b=%u c=%d d=%lu e=%s f=%d", calls[i].a, calls[i].b, calls[i].c, calls[i].d,
             calls[i].e ? "true" : "false", calls[i].f);
        int c = integers(calls[i].a, calls[i].b, calls[i].c, calls[i].d, calls[i].e, calls[i].f);
        line("integers ret=%d", c);
    }
}

COUNTED(arguments);
/* Plays all, and begins the log anew. */
void arguments(void) {
    ENTER(arguments);
    used = 0;
    arguments_sink = 0;
    flags();

    line("floats a=1.5 b=-2.25 c=9 d=(absent) e=0.125");
    line("floats ret=%g", floats(1.5f, -2.25, 9, 3.0L, 0.125f));
    line("single a=-0.75");
    line("single ret=%g", (double)single(-0.75f));
    line("truth a=4");
    line("truth ret=%s", truth(4) ? "true" : "false");
    line("truth a=3");
    line("truth ret=%s", truth(3) ? "true" : "false");
    line("byte a=511");
    line("byte ret=%d", byte(511));

    line("many a=1 b=2 c=3 d=4 e=5 f=6 g=-7 x=0.5 h=last");
    many(1, 2, 3, 4, 5, 6, -7, 0.5f, "last");

    line("modes mode=WRITE flags=LAST");
    modes(WRITE, LAST);
    line("modes ret=WRITE");
    line("modes mode=CLOSED flags=NONE");
    modes(CLOSED, NONE);
    line("modes ret=CLOSED");
    line("modes mode=3 flags=257");
    modes((enum mode)3, (enum flags)257);
    line("modes ret=3");

    line("kept a=24 b=25");
    line("kept ret=%d", kept(24, 25));

    line("texts a=first b=(null) c=%lu", (unsigned long)(uintptr_t)&text);
    line("texts ret=%s", texts("first", 0, &text));

    struct one one = { 1 };
    struct two two = { 2, 3 };
    struct large large = { 4, 5, 6 };
    struct mixed mixed = { 7, 8.5 };
    line("structs a=(absent) b=21 c=(absent) d=(absent) e=22 f=(absent) g=2.5 h=23");
    structs(one, 21, two, large, 22, mixed, 2.5, 23);
    line("structs ret=(absent)");
    line("returns_large a=31 b=32");
    returns_large(31, 32);
    line("returns_large ret=(absent)");

    vector vector = { 1, 2, 3, 4 };
    line("vectors a=(absent) b=(absent) c=(absent) d=6.5 e=-41");
    line("vectors ret=%g", vectors(1, 2, vector, 6.5, -41));
    line("wide a=51 b=(absent) c=52");
    wide(51, 1, 52);
    line("wide ret=(absent)");
    line("variadic format=a%%d count=2");
    line("variadic ret=%ld", variadic("a%d", 2, 1.0, 2.0));
    line("unused a=61 b=62 c=63");
    line("unused ret=%d", unused(61, 62, 63));

    line("recursion depth=3");
    line("recursion ret=%ld", recursion(3));

    line("tail a=71");
    line("integers a=1 b=2 c=71 d=4 e=true f=5");
    int c = tail(71);
    line("integers ret=%d", c);
    line("tail ret=%d", c);

    for (int i = 0; i < 3; i++) {
        line("local_some a=%d b=%d c=%d d=%lu", i, i + 1, 5, (unsigned long)(uintptr_t)&two);
        line("local_some ret=%d", local_some(i, i + 1, 5, &two));
        line("local_constant a=%d b=77", i);
        line("local_constant ret=%ld", local_constant(i, 77));
        line("local_result a=%d b=1.5", i);
        local_result(i, 1.5);
        line("local_dropped a=%d", i);
        local_dropped(i);
        line("local_dropped ret=%d", i + 1);
    }
}
