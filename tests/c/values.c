// Arguments and results of every kind. Arguments are noted on arrival, results at their return.
#include <complex.h>
#include <stdarg.h>

#include "torture.h"

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef __int128 i128;
typedef unsigned __int128 u128;
typedef long double f80;
typedef float _Complex c32;
typedef double _Complex c64;
typedef long double _Complex c80;
typedef __float128 f128;
typedef void *pointer;

#define NOTE_C80(value) \
    do { \
        c80 complex_ = (value); \
        NOTE_LONG(creall(complex_)); \
        NOTE_LONG(cimagl(complex_)); \
    } while (0)

// Numbers of which no byte is like another.
#define WHOLE(k) ((u128)(k) * 0x9e3779b97f4a7c15u * 0xc2b2ae3d27d4eb4fu + ((u128)(k) << 100))
#define BROKEN(k) ((k) * 1.375 - 1e3 / (k))
#define AS_WHOLE(T, k) ((T)WHOLE(k))
#define AS_BROKEN(T, k) ((T)BROKEN(k))
#define AS_COMPLEX(T, k) ((T)(BROKEN(k) + BROKEN((k) + 100) * I))
#define AS_POINTER(T, k) ((T)(uintptr_t)WHOLE(k))

// Ten arguments: some are in registers, some on the stack. The leaf only returns one of them.
#define KIND(T, NOTE_IT, AS) \
    COUNTED(noting_##T); \
    NOINLINE T noting_##T(T a, T b, T c, T d, T e, T f, T g, T h, T i, T j) { \
        ENTER(noting_##T); \
        NOTE_IT(a); NOTE_IT(b); NOTE_IT(c); NOTE_IT(d); NOTE_IT(e); \
        NOTE_IT(f); NOTE_IT(g); NOTE_IT(h); NOTE_IT(i); NOTE_IT(j); \
        return c; \
    } \
    COUNTED(first_##T); \
    NOINLINE T first_##T(T a, T b) { ENTER(first_##T); (void)b; return a; } \
    COUNTED(last_##T); \
    NOINLINE T last_##T(T a, T b, T c, T d, T e, T f, T g, T h, T i, T j) { \
        ENTER(last_##T); \
        (void)a; (void)b; (void)c; (void)d; (void)e; (void)f; (void)g; (void)h; (void)i; \
        return j; \
    } \
    COUNTED(around_##T); \
    NOINLINE T around_##T(T a, T b) { ENTER(around_##T); return last_##T(b, a, b, a, b, a, b, a, b, a); } \
    COUNTED(stored_##T); \
    static NOINLINE void stored_##T(T *to, T from) { ENTER(stored_##T); *to = from; } \
    COUNTED(run_##T); \
    static NOINLINE void run_##T(void) { \
        ENTER(run_##T); \
        T (*volatile noting)(T, T, T, T, T, T, T, T, T, T) = noting_##T; \
        NOTE_IT(noting(AS(T, 1), AS(T, 2), AS(T, 3), AS(T, 4), AS(T, 5), AS(T, 6), AS(T, 7), AS(T, 8), AS(T, 9), AS(T, 10))); \
        T x = OPAQUE(AS(T, 11)), y = OPAQUE(AS(T, 12)); \
        NOTE_IT(first_##T(x, y)); \
        NOTE_IT(last_##T(x, y, x, y, x, y, x, y, x, AS(T, 13))); \
        NOTE_IT(around_##T(x, y)); \
        T z = y; \
        stored_##T(&z, x); \
        NOTE_IT(x); NOTE_IT(y); NOTE_IT(z); \
    }

#define KINDS(KIND) \
    KIND(_Bool, NOTE, AS_WHOLE) KIND(char, NOTE, AS_WHOLE) KIND(i8, NOTE, AS_WHOLE) KIND(u8, NOTE, AS_WHOLE) \
    KIND(short, NOTE, AS_WHOLE) KIND(u16, NOTE, AS_WHOLE) KIND(int, NOTE, AS_WHOLE) KIND(unsigned, NOTE, AS_WHOLE) \
    KIND(long, NOTE, AS_WHOLE) KIND(uint64_t, NOTE, AS_WHOLE) KIND(i128, NOTE, AS_WHOLE) KIND(u128, NOTE, AS_WHOLE) \
    KIND(pointer, NOTE, AS_POINTER) KIND(float, NOTE, AS_BROKEN) KIND(double, NOTE, AS_BROKEN) \
    KIND(f80, NOTE_LONG, AS_BROKEN) KIND(f128, NOTE, AS_BROKEN) KIND(c32, NOTE, AS_COMPLEX) \
    KIND(c64, NOTE, AS_COMPLEX) KIND(c80, NOTE_C80, AS_COMPLEX)
KINDS(KIND)

// Structures: in integer and vector registers, in both, in memory.
struct int_double { int a; double b; };
struct double_int { double a; int b; };
struct floats { float a, b, c; };
struct bytes { char a[3]; };
struct pair { long a, b; };
struct pair_of_doubles { double a, b; };
struct char_float { char a; float b; };
struct wide { i128 a; };
struct long_double { f80 a; };
struct triple { long a, b, c; };
struct big { char a[100]; };
struct with_bits { unsigned a : 5, b : 11; long c : 40; };

#define NOTE_2(v) do { NOTE((v).a); NOTE((v).b); } while (0)
#define NOTE_3(v) do { NOTE((v).a); NOTE((v).b); NOTE((v).c); } while (0)
#define NOTE_1(v) note(__LINE__, &(v).a, sizeof (v).a)
#define NOTE_80(v) NOTE_LONG((v).a)
#define NOTE_BITS(v) do { NOTE((unsigned)(v).a); NOTE((unsigned)(v).b); NOTE((long)(v).c); } while (0)

#define STRUCTURE(T, NOTE_IT, ...) \
    COUNTED(return_##T); \
    NOINLINE struct T return_##T(struct T value) { ENTER(return_##T); return value; } \
    COUNTED(noting_##T); \
    NOINLINE struct T noting_##T(int first, double second, struct T third, struct T fourth, float fifth, struct T sixth, struct T seventh, long last) { \
        ENTER(noting_##T); \
        NOTE(first); NOTE(second); NOTE_IT(third); NOTE_IT(fourth); NOTE(fifth); NOTE_IT(sixth); NOTE_IT(seventh); NOTE(last); \
        return fourth; \
    } \
    COUNTED(run_##T); \
    static NOINLINE void run_##T(int k) { \
        ENTER(run_##T); \
        struct T one = __VA_ARGS__; \
        k += 7; \
        struct T two = __VA_ARGS__; \
        struct T (*volatile noting)(int, double, struct T, struct T, float, struct T, struct T, long) = noting_##T; \
        struct T three = noting(k, 0.5 * k, one, two, 0.25f, two, one, -k); \
        NOTE_IT(three); \
        three = return_##T(one); \
        NOTE_IT(three); \
    }

#define STRUCTURES(STRUCTURE) \
    STRUCTURE(int_double, NOTE_2, {k, 1.5 * k}) STRUCTURE(double_int, NOTE_2, {2.5 * k, k}) \
    STRUCTURE(floats, NOTE_3, {k, 0.5f * k, -k}) STRUCTURE(bytes, NOTE_1, {{k, k + 1, k + 2}}) \
    STRUCTURE(pair, NOTE_2, {k, ~(long)k}) STRUCTURE(pair_of_doubles, NOTE_2, {0.75 * k, -k}) \
    STRUCTURE(char_float, NOTE_2, {k, 1.25f * k}) STRUCTURE(wide, NOTE_1, {WHOLE(k)}) \
    STRUCTURE(long_double, NOTE_80, {BROKEN(k)}) STRUCTURE(triple, NOTE_3, {k, ~(long)k, k * 3L}) \
    STRUCTURE(big, NOTE_1, {{k, 1, k + 2, 3, k + 4}}) STRUCTURE(with_bits, NOTE_BITS, {k & 31, k * 3, k * -1000L})
STRUCTURES(STRUCTURE)

// More of everything than there are registers for.
COUNTED(mixed);
NOINLINE f80 mixed(u8 a, float b, uint64_t c, double d, int e, double f, u128 g, struct int_double h, i8 i, double j,
                   struct triple k, f80 l, short m, float n, double o, double p, double q, double r, double s, c64 t, c80 u) {
    ENTER(mixed);
    NOTE(a); NOTE(b); NOTE(c); NOTE(d); NOTE(e); NOTE(f); NOTE(g); NOTE_2(h); NOTE(i); NOTE(j); NOTE_3(k); NOTE_LONG(l);
    NOTE(m); NOTE(n); NOTE(o); NOTE(p); NOTE(q); NOTE(r); NOTE(s); NOTE(t); NOTE_C80(u);
    return l;
}

// How many vector registers hold arguments is said in al.
COUNTED(variadic_whole);
NOINLINE long variadic_whole(int count, ...) {
    ENTER(variadic_whole);
    va_list list;
    va_start(list, count);
    long sum = 0;
    for (int at = 0; at < count; at++) sum = sum * 31 + va_arg(list, long);
    va_end(list);
    return sum;
}

COUNTED(take);
static NOINLINE double take(int count, va_list *list) {
    ENTER(take);
    double sum = 0;
    for (int at = 0; at < count; at++) sum = sum * 2 + va_arg(*list, double);
    return sum;
}

COUNTED(variadic_double);
NOINLINE double variadic_double(int count, ...) {
    ENTER(variadic_double);
    va_list list;
    va_start(list, count);
    double sum = take(count, &list);
    va_end(list);
    return sum;
}

COUNTED(variadic_mixed);
NOINLINE void variadic_mixed(const char *types, ...) {
    ENTER(variadic_mixed);
    va_list list;
    va_start(list, types);
    for (; *types; types++) {
        switch (*types) {
        case 'i': NOTE(va_arg(list, int)); break;
        case 'l': NOTE(va_arg(list, long)); break;
        case 'd': NOTE(va_arg(list, double)); break;
        case 'L': NOTE_LONG(va_arg(list, f80)); break;
        case 'w': NOTE(va_arg(list, u128)); break;
        case 'c': NOTE(va_arg(list, c64)); break;
        case 's': { struct int_double s = va_arg(list, struct int_double); NOTE_2(s); break; }
        case 't': { struct triple s = va_arg(list, struct triple); NOTE_3(s); break; }
        }
    }
    va_end(list);
}

COUNTED(run_variadic);
static NOINLINE void run_variadic(void) {
    ENTER(run_variadic);
    long (*volatile whole)(int, ...) = variadic_whole;
    double (*volatile broken)(int, ...) = variadic_double;
    NOTE(variadic_whole(3, 1L, 2L, 3L));
    NOTE(whole(9, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L));
    for (int count = 0; count <= 10; count++) NOTE(broken(count, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5));
    NOTE(broken(1, 0.125));
    NOTE(variadic_double(0));
    struct int_double s = {7, 0.5};
    struct triple t = {1, -2, 3};
    variadic_mixed("idlLwcstidstdddddddd", 1, 2.5, 3L, (f80)4.5, (u128)5 << 99, 6.5 + 7.5 * I, s, t, -8, 9.5, s, t, 1., 2., 3.,
                   4., 5., 6., 7., 8.);
}

#ifndef __clang__
// A nested function finds its frame through r10.
COUNTED(outer);
COUNTED_AS(inner, "inner.0");
NOINLINE long outer(long a, long b) {
    long c = OPAQUE(a * 3);
    long __attribute__((noinline)) inner(long d, double e) {
        ENTER(inner);
        NOTE(a); NOTE(b); NOTE(c); NOTE(e);
        c += d;
        return a * 100 + b * 10 + d;
    }
    ENTER(outer);
    long result = inner(b, 0.5) + inner(a, 1.5);
    NOTE(c);
    return result;
}
#endif

COUNTED(values);
void values(void) {
    ENTER(values);
#define RUN(T, NOTE_IT, AS) run_##T();
    KINDS(RUN)
#define RUN_STRUCTURE(T, ...) run_##T(13);
    STRUCTURES(RUN_STRUCTURE)
    f80 (*volatile call)(u8, float, uint64_t, double, int, double, u128, struct int_double, i8, double, struct triple, f80, short,
                         float, double, double, double, double, double, c64, c80) = mixed;
    NOTE_LONG(call(1, 0.5f, 2, 1.5, -3, 2.5, WHOLE(4), (struct int_double){5, 3.5}, -6, 4.5, (struct triple){7, 8, 9}, 5.5, -10,
                   6.5f, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5 + 13.5 * I, 14.5 + 15.5 * I));
    run_variadic();
#ifndef __clang__
    NOTE(outer(OPAQUE(3L), OPAQUE(4L)));
#endif
}
