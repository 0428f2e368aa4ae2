// Functions that use the machine in their own way: vectors, x87 and MMX, a foreign calling
// convention, a full red zone, values in registers that calls may change, handwritten instructions.
#include <fenv.h>
#include <mmintrin.h>
#include <string.h>

#include "torture.h"

// A naked function has no place for a hook, and gcc would put a canary into its caller's frame.
#define NAKED __attribute__((naked, no_instrument_function, no_stack_protector)) NOINLINE

// Vectors of 16, 32 and 64 bytes: each lane, in all argument registers, on the stack, in calls.
#define VECTOR(bits, target_name) \
    typedef long vector_##bits __attribute__((vector_size(bits / 8))); \
    COUNTED(noting_##bits); \
    __attribute__((target(target_name))) NOINLINE vector_##bits noting_##bits( \
        vector_##bits a, vector_##bits b, vector_##bits c, vector_##bits d, vector_##bits e, vector_##bits f, \
        vector_##bits g, vector_##bits h, vector_##bits i, long j) { \
        ENTER(noting_##bits); \
        NOTE(a); NOTE(b); NOTE(c); NOTE(d); NOTE(e); NOTE(f); NOTE(g); NOTE(h); NOTE(i); NOTE(j); \
        return g; \
    } \
    COUNTED(first_##bits); \
    __attribute__((target(target_name))) NOINLINE vector_##bits first_##bits(vector_##bits a) { ENTER(first_##bits); return a; } \
    COUNTED(sum_##bits); \
    __attribute__((target(target_name))) NOINLINE vector_##bits sum_##bits( \
        vector_##bits a, vector_##bits b, vector_##bits c, vector_##bits d, vector_##bits e, vector_##bits f, \
        vector_##bits g, vector_##bits h) { \
        ENTER(sum_##bits); \
        return a + b + c + d + e + f + g + h; \
    } \
    COUNTED(touch_##bits); \
    static __attribute__((target(target_name))) NOINLINE void touch_##bits(long *x) { ENTER(touch_##bits); *x += 1; } \
    COUNTED(across_##bits); \
    /* More vectors than there are registers, across a call that changes none of them. */ \
    __attribute__((target(target_name))) NOINLINE vector_##bits across_##bits(const vector_##bits *in, long *x) { \
        ENTER(across_##bits); \
        vector_##bits v[24]; \
        for (int at = 0; at < 24; at++) v[at] = in[at % 9] * (at + 1); \
        touch_##bits(x); \
        for (int at = 0; at < 24; at++) v[at] ^= in[(at + 1) % 9]; \
        touch_##bits(x); \
        vector_##bits sum = v[0]; \
        for (int at = 1; at < 24; at++) sum = sum * 3 + v[at]; \
        return sum; \
    } \
    COUNTED(run_##bits); \
    __attribute__((target(target_name))) NOINLINE void run_##bits(void) { \
        ENTER(run_##bits); \
        vector_##bits v[9]; \
        for (int at = 0; at < 9; at++) \
            for (int lane = 0; lane < bits / 64; lane++) v[at][lane] = (at + 1) * 0x0102030405060708 ^ lane << 24; \
        vector_##bits (*volatile noting)(vector_##bits, vector_##bits, vector_##bits, vector_##bits, vector_##bits, \
                                         vector_##bits, vector_##bits, vector_##bits, vector_##bits, long) = noting_##bits; \
        NOTE(noting(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], 9)); \
        NOTE(first_##bits(v[3])); \
        NOTE(sum_##bits(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7])); \
        long x = 3; \
        NOTE(across_##bits(v, &x)); \
        NOTE(x); \
    }
VECTOR(128, "sse2")
VECTOR(256, "avx2")
VECTOR(512, "avx512f,avx512bw,avx512dq,avx512vl")

// Mask registers, as values of a function that calls another.
COUNTED(masked);
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) NOINLINE long masked(const vector_512 *in, long *x) {
    ENTER(masked);
    vector_512 less = in[0] < in[1], equal = in[2] == in[5], more = in[1] > in[0];
    touch_512(x);
    vector_512 sum = (less & in[3]) + (equal & in[4]) - (more & in[5]);
    touch_512(x);
    long result = 0;
    for (int lane = 0; lane < 8; lane++) result = result * 7 + sum[lane];
    return result;
}

// x87: values on its stack across calls, and as many as it holds.
COUNTED(powers);
NOINLINE long double powers(long double x, long double y) {
    ENTER(powers);
    long double a = x * y, b = a + x, c = b * y, d = c - x, e = d * a, f = e - b, g = f * 0.5L;
    return ((a + b) * (c + d) - (e + f) * g) / (x + y);
}
COUNTED(deep);
NOINLINE long double deep(int depth, long double x) {
    ENTER(deep);
    if (depth == 0) return x;
    return x * 1.25L + deep(depth - 1, x + 0.75L) / (depth + 1);
}
COUNTED(exact);
// All eight registers of the stack, loaded and stored between a call's sites.
NOINLINE long double exact(long double x) {
    ENTER(exact);
    long double values[9];
    __asm__ volatile("fldt %1\n\tfld1\n\tfldpi\n\tfldl2e\n\tfldl2t\n\tfldlg2\n\tfldln2\n\tfldz\n\t"
                     "faddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfaddp\n\tfmulp\n\tfstpt %0"
                     : "=m"(values[0]) : "m"(x) : "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
    return values[0];
}
COUNTED(media);
NOINLINE long media(long a, long b) {
    ENTER(media);
    __m64 x = _mm_cvtsi64_m64(a), y = _mm_cvtsi64_m64(b);
    long sum = _mm_cvtm64_si64(_mm_add_pi16(_mm_mullo_pi16(x, y), _mm_xor_si64(x, y)));
    _mm_empty();
    return sum;
}

// The rounding mode, and which exceptions have occurred, are the program's.
COUNTED(divide);
NOINLINE double divide(double a, double b) { ENTER(divide); return a / b; }
COUNTED(whole_quotient);
NOINLINE double whole_quotient(double a, double b) { ENTER(whole_quotient); return divide(a, b); }
COUNTED(environment);
NOINLINE void environment(void) {
    ENTER(environment);
    fenv_t before;
    fegetenv(&before);
    static const int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    for (int at = 0; at < 4; at++) {
        fesetround(modes[at]);
        feclearexcept(FE_ALL_EXCEPT);
        NOTE(whole_quotient(OPAQUE(8.0), 2.0));
        NOTE(fetestexcept(FE_ALL_EXCEPT));
        NOTE(divide(OPAQUE(1.0), 3.0));
        NOTE(fetestexcept(FE_ALL_EXCEPT));
        NOTE(divide(OPAQUE(1.0), 0.0));
        NOTE(fetestexcept(FE_ALL_EXCEPT));
        NOTE(fegetround());
    }
    fesetenv(&before);
}

// Another system's calling convention: other argument registers, xmm6 to xmm15 are the caller's.
COUNTED(of_windows);
__attribute__((ms_abi)) NOINLINE double of_windows(long a, double b, long c, double d, long e, double f) {
    ENTER(of_windows);
    NOTE(a); NOTE(b); NOTE(c); NOTE(d); NOTE(e); NOTE(f);
    return b + d * 10 + f * 100;
}
COUNTED(leaf_of_windows);
__attribute__((ms_abi)) NOINLINE long leaf_of_windows(long a, long b, long c, long d) {
    ENTER(leaf_of_windows);
    return a + b * 10 + c * 100 + d * 1000;
}
COUNTED(to_windows);
NOINLINE double to_windows(double x) {
    ENTER(to_windows);
    return of_windows(1, x, 2, x + 1, 3, x + 2) * x + (double)leaf_of_windows(1, 2, 3, 4);
}
#ifdef __clang__
COUNTED(preserves_most);
__attribute__((preserve_most)) NOINLINE void preserves_most(long *x) { ENTER(preserves_most); *x += 3; }
COUNTED_AS(by_registers, "__regcall3__by_registers");
__regcall NOINLINE long by_registers(long a, long b, long c, long d, long e, long f, long g, long h, long i, double j, double k) {
    ENTER(by_registers);
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9 + (long)(j * k);
}
#endif

// A leaf whose values lie below the stack pointer.
COUNTED(red_zone);
NOINLINE long red_zone(long a, long b, long c, long d, long e, long f) {
    long values[14];
    ENTER(red_zone);
    for (int at = 0; at < 14; at++) values[at] = a + at * b;
    __asm__ volatile("" : : "r"(values) : "memory");
    for (int at = 1; at < 14; at++) values[at] ^= values[at - 1] * c + d;
    __asm__ volatile("" : : "r"(values) : "memory");
    return values[13] * e + values[7] * f;
}
COUNTED(red_zone_tail);
NOINLINE long red_zone_tail(long a, long b) {
    volatile long values[6] = {a, b, a + b, a - b, a * b, a ^ b};
    ENTER(red_zone_tail);
    long sum = values[0] + values[5];
    return red_zone(sum, values[1], values[2], values[3], values[4], a);
}

// The compiler knows the registers that `knock` changes: its callers keep values in the others.
static long knocks;
COUNTED(knock);
static NOINLINE void knock(void) { ENTER(knock); (void)__atomic_fetch_add(&knocks, 1, __ATOMIC_RELAXED); }
COUNTED(knock_tail);
static NOINLINE void knock_tail(void) { ENTER(knock_tail); (void)__atomic_fetch_add(&knocks, 2, __ATOMIC_RELAXED); knock(); }
COUNTED(keeps);
NOINLINE long keeps(long a, long b, long c, long d, long e, long f, double x, double y) {
    ENTER(keeps);
    long r[12] = {a + 1, b + 2, c + 3, d + 4, e + 5, f + 6, a ^ b, c ^ d, e ^ f, a * c, b * d, e * a};
    double s[12] = {x + 1, y + 2, x * y, x - y, x + 3, y + 4, x * 5, y * 6, x * x, y * y, x + y, y - x};
    knock();
    for (int at = 0; at < 12; at++) { r[at] = r[at] * 5 + at; s[at] = s[at] * 1.5 + at; }
    knock_tail();
    for (int at = 0; at < 12; at++) { r[at] ^= r[(at + 1) % 12] << 3; s[at] -= s[(at + 5) % 12]; }
    knock();
    long sum = 0;
    double total = 0;
    for (int at = 0; at < 12; at++) { sum = sum * 3 + r[at]; total = total * 2 + s[at]; }
    return sum ^ (long)total;
}

// Without a prologue: whatever becomes of it, it works.
COUNTED_IF_PLACED(naked);
NAKED long naked(long x) {
    __asm__("lock incq %0\n\tleaq 5(%%rdi,%%rdi,2), %%rax\n\tret" : : "m"(naked_counter.entries));
}

// Inline assembly: text that only looks like an end, a string, labels, a section of its own.
COUNTED_IF_PLACED(by_hand);
NOINLINE long by_hand(long x) {
    ENTER(by_hand);
    long result;
    __asm__ volatile("leaq -128(%%rsp), %%rsp\n\t"
                     "call 1f # ret; jmp elsewhere\n\t"
                     "leaq 128(%%rsp), %%rsp\n\t"
                     "jmp 2f\n"
                     "1:\tleaq 7(%1), %0; ret /* ret */\n"
                     "2:\t.pushsection .rodata.by_hand, \"a\", @progbits; .ascii \"ret; # \\\"\"; .popsection"
                     : "=&r"(result) : "r"(x) : "cc", "memory");
    return result * 2;
}
COUNTED_IF_PLACED(just_a_nop);
NOINLINE long just_a_nop(long x) {
    ENTER(just_a_nop);
    __asm__ volatile("nop # ret\n\t/* jmp nowhere */ nop" : : : "memory");
    return x + 9;
}
COUNTED_IF_PLACED(by_goto);
NOINLINE long by_goto(long x) {
    ENTER(by_goto);
    __asm__ goto("testq %0, %0\n\tjs %l1" : : "r"(x) : "cc" : below);
    return x;
below:
    return -x * 2;
}

COUNTED(machine);
void machine(void) {
    ENTER(machine);
    __builtin_cpu_init();
    run_128();
    if (__builtin_cpu_supports("avx2")) run_256();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
        run_512();
        vector_512 in[6];
        for (int at = 0; at < 6; at++)
            for (int lane = 0; lane < 8; lane++) in[at][lane] = (at * 37 + lane * 11) % 17;
        long x = 1;
        NOTE(masked(in, &x));
    }
    NOTE_LONG(powers(OPAQUE(1.5L), 2.25L)); NOTE_LONG(deep(12, 0.5L)); NOTE_LONG(exact(3.25L));
    NOTE(media(0x0102030405060708, 0x1112131415161718));
    environment();
    NOTE(to_windows(OPAQUE(1.5)));
#ifdef __clang__
    long y = 1;
    preserves_most(&y);
    if (y != 4 || by_registers(1, 2, 3, 4, 5, 6, 7, 8, 9, 2, 3) != 291) NOTE(y);
#endif
    NOTE(red_zone(1, 2, 3, 4, 5, 6)); NOTE(red_zone_tail(7, 8));
    NOTE(keeps(OPAQUE(1L), 2, 3, 4, 5, 6, OPAQUE(1.5), 2.5));
    NOTE(naked(4)); NOTE(by_hand(5)); NOTE(just_a_nop(6)); NOTE(by_goto(7)); NOTE(by_goto(-7));
}
