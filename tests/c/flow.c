// Every way from function to function and out of one: calls in tail position, jumps by tables, cold
// halves, ends that never return, frames of unknown size.
#include <alloca.h>
#include <setjmp.h>
#include <string.h>

#include "torture.h"

#ifdef __clang__
#define MUSTTAIL __attribute__((musttail))
#else
#define MUSTTAIL
#endif
#define COLD __attribute__((cold)) NOINLINE
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef long (*function)(long);

// Tail calls: direct, mutual.
COUNTED(even);
COUNTED(odd);
NOINLINE long odd(long x);
NOINLINE long even(long x) {
    ENTER(even);
    if (x == 0) return 1;
    return odd(x - 1);
}
NOINLINE long odd(long x) {
    ENTER(odd);
    if (x == 0) return 0;
    return even(x - 1);
}

COUNTED(add_one);
NOINLINE long add_one(long x) { ENTER(add_one); return x + 1; }
COUNTED(times_three);
NOINLINE long times_three(long x) { ENTER(times_three); return x * 3; }
COUNTED(negate);
NOINLINE long negate(long x) { ENTER(negate); return -x; }
static const function table[] = {add_one, times_three, negate, even};
struct object { long data; function function; };

// … through a register, a table, a field, an argument.
COUNTED(by_table);
NOINLINE long by_table(long at, long x) { ENTER(by_table); return table[at & 3](x); }
COUNTED(by_field);
NOINLINE long by_field(struct object *object) { ENTER(by_field); return object->function(object->data); }
COUNTED(by_argument);
NOINLINE long by_argument(function function, long x) { ENTER(by_argument); return function(x); }
static function volatile global_function = times_three;
COUNTED(by_global);
NOINLINE long by_global(long x) { ENTER(by_global); return global_function(x + 5); }
COUNTED(by_stack);
NOINLINE long by_stack(long a, long b, long c, long d, long e, long f, function function, long h) {
    ENTER(by_stack);
    return function(a + b + c + d + e + f + h);
}

// … with arguments on the stack, with a result in memory, without a result, under a condition.
struct triple { long a, b, c; };
COUNTED(spread);
NOINLINE struct triple spread(long a, long b, long c, long d, long e, long f, long g, long h) {
    ENTER(spread);
    return (struct triple){a + d * 10, b + e * 100 + g, c + f * 1000 + h};
}
COUNTED(tail_memory);
NOINLINE struct triple tail_memory(long a, long b, long c, long d, long e, long f, long g, long h) {
    ENTER(tail_memory);
    return spread(b, a, d, c, f, e, h, g);
}
static THREAD long effects;
COUNTED(effect);
NOINLINE void effect(long x) { ENTER(effect); effects = effects * 5 + x; }
COUNTED(conditional);
NOINLINE void conditional(long x) { ENTER(conditional); if (x > 3) effect(x); }
COUNTED(conditional_pointer);
NOINLINE void conditional_pointer(void (*to)(long), long x) { ENTER(conditional_pointer); if (to) to(x); }
COUNTED(either);
NOINLINE long either(long x) { ENTER(either); return x & 1 ? add_one(x) : times_three(x); }
COUNTED(chain);
NOINLINE void chain(long x) {
    ENTER(chain);
    if (x & 1) { effect(1); return; }
    if (x & 2) { conditional(x); return; }
    if (x & 4) { conditional_pointer(effect, x); return; }
    effects ^= x;
}

// Tail calls that the compiler has to make, if an attribute can demand it.
// The call goes through a pointer: compilers turn a function that calls itself there into a loop.
NOINLINE long step_down(long x, long sum);
static long (*volatile step)(long, long) = step_down;
COUNTED(step_down);
NOINLINE long step_down(long x, long sum) {
    ENTER(step_down);
    if (x == 0) return sum;
    MUSTTAIL return step(x - 1, sum + x);
}
COUNTED(must_by_table);
NOINLINE long must_by_table(long x) { ENTER(must_by_table); MUSTTAIL return table[x & 1](x); }

// Recursion that is none: a result is used.
NOINLINE long fibonacci(long x);
static function volatile again = fibonacci;
COUNTED(fibonacci);
NOINLINE long fibonacci(long x) { ENTER(fibonacci); return x < 2 ? x : again(x - 1) + again(x - 2); }

// Cold halves: some return, some call in tail position, some never return.
COUNTED(rare);
COLD long rare(long x) { ENTER(rare); return x * 7; }
COUNTED(split_returns);
NOINLINE long split_returns(long x) {
    ENTER(split_returns);
    if (UNLIKELY(x > 100)) {
        long y = rare(x);
        if (y & 1) return y;
        return rare(y) + 2;
    }
    return x + 3;
}
COUNTED(split_tail);
NOINLINE long split_tail(long *x) {
    ENTER(split_tail);
    if (UNLIKELY(*x > 100)) {
        *x = rare(*x);
        effect(*x);
        return rare(*x + 1);
    }
    for (int at = 0; at < 4; at++) x[0] += at;
    return *x;
}
COUNTED(split_hot_tail);
NOINLINE long split_hot_tail(long x) {
    ENTER(split_hot_tail);
    if (UNLIKELY(x < 0)) { effect(rare(x)); return -1; }
    return add_one(x);
}

// Ends that never return.
static THREAD jmp_buf way_out;
COUNTED(leave);
__attribute__((noreturn)) NOINLINE void leave(int value) {
    ENTER(leave);
    ADD(leave, jumped);
    longjmp(way_out, value);
}
COUNTED(ends_nowhere);
NOINLINE long ends_nowhere(long x) {
    ENTER(ends_nowhere);
    if (x < 10) return x;
    ADD(ends_nowhere, jumped);
    leave((int)x);
}
COUNTED(loops_for_ever);
__attribute__((noreturn)) NOINLINE void loops_for_ever(long x) {
    ENTER(loops_for_ever);
    ADD(loops_for_ever, jumped);
    for (;; x++)
        if (x % 64 == 63) ends_nowhere(x);
}
COUNTED(traps);
NOINLINE long traps(long x) {
    ENTER(traps);
    switch (x) {
    case 1: return 10;
    case 2: __builtin_trap();
    case 3: __builtin_unreachable();
    default: return x;
    }
}
COUNTED(nowhere);
NOINLINE void nowhere(void) {
    ENTER(nowhere);
    int value = setjmp(way_out);
    if (value == 0) { NOTE(ends_nowhere(4)); ends_nowhere(12); }
    NOTE(value);
    value = setjmp(way_out);
    if (value == 0) loops_for_ever(20);
    NOTE(value);
    NOTE(traps(1) + traps(7));
}

// Jumps by tables and by computed addresses.
COUNTED(dense);
NOINLINE long dense(long x) {
    ENTER(dense);
    switch (x) {
    case 0: return 12;
    case 1: return add_one(x);
    case 2: effect(2); return 8;
    case 3: return times_three(5);
    case 4: effects += 9; break;
    case 5: return x * x;
    case 6: return table[2](x);
    case 7: effect(x); break;
    case 8: return even(x);
    case 9: return rare(3);
    default: return -1;
    }
    return effects;
}
COUNTED(interpret);
NOINLINE long interpret(const unsigned char *code, long x) {
    static const void *const labels[] = {&&stop, &&add, &&twice, &&call, &&back, &&tail};
    ENTER(interpret);
    long left = 3;
    goto *labels[*code++];
add:
    x += *code++;
    goto *labels[*code++];
twice:
    x *= 2;
    goto *labels[*code++];
call:
    x = times_three(x);
    goto *labels[*code++];
back:
    if (left-- > 0) code -= *code; else code++;
    goto *labels[*code++];
tail:
    return add_one(x);
stop:
    return x;
}

// Frames of unknown size, and aligned ones.
COUNTED(fill);
NOINLINE long fill(unsigned char *bytes, long size) {
    ENTER(fill);
    long sum = 0;
    for (long at = 0; at < size; at++) bytes[at] = (unsigned char)(at * 7);
    for (long at = 0; at < size; at++) sum = sum * 3 + bytes[at];
    return sum;
}
COUNTED(with_alloca);
NOINLINE long with_alloca(long size) { ENTER(with_alloca); return fill(alloca((size_t)size), size); }
COUNTED(with_array);
NOINLINE long with_array(long size) {
    ENTER(with_array);
    unsigned char array[size];
    long sum = fill(array, size);
    if (size & 1) return sum + array[size / 2];
    return sum;
}
COUNTED(aligned);
NOINLINE long aligned(long x, long a, long b, long c, long d, long e, long f, long g) {
    ENTER(aligned);
    unsigned char array[96] __attribute__((aligned(64)));
    NOTE((int)((uintptr_t)OPAQUE(&array[0]) % 64));
    return fill(array, x) + a + b + c + d + e + f + g + (array[x / 2] == 0);
}
COUNTED(aligned_array);
NOINLINE long aligned_array(long size) {
    ENTER(aligned_array);
    unsigned char small[32] __attribute__((aligned(32)));
    unsigned char array[size];
    NOTE((int)((uintptr_t)OPAQUE(&small[0]) % 32));
    return fill(small, 32) ^ fill(array, size);
}
COUNTED(realigned);
__attribute__((force_align_arg_pointer)) NOINLINE long realigned(long x) {
    ENTER(realigned);
    double local[2] __attribute__((aligned(16))) = {(double)x, 2};
    NOTE((int)((uintptr_t)OPAQUE(&local[0]) % 16));
    return (long)(local[0] * local[1]) + add_one(x);
}
COUNTED(big_frame);
NOINLINE long big_frame(long x) {
    ENTER(big_frame);
    unsigned char array[20000];
    memset(array, (int)x, sizeof array);
    __asm__ volatile("" : : "r"(array) : "memory");
    return array[x] + fill(array, 100);
}

// Where it is called from, and its frame.
COUNTED(return_address);
NOINLINE const void *return_address(void) { ENTER(return_address); return __builtin_return_address(0); }
COUNTED(same_address);
NOINLINE int same_address(void) {
    static const void *first;
    ENTER(same_address);
    const void *address = return_address();
    if (!first) first = address;
    return first == address;
}
COUNTED(frame_address);
NOINLINE uintptr_t frame_address(void) { ENTER(frame_address); return (uintptr_t)__builtin_frame_address(0) % 16; }

// It returns twice.
COUNTED(returns_twice);
NOINLINE int returns_twice(void) {
    ENTER(returns_twice);
    jmp_buf here;
    volatile int left = 3;
    int value = setjmp(here);
    if (left-- > 0) { effect(value); longjmp(here, left + 1); }
    return value;
}

// The compiler clones `copied` for a constant argument. `one_of_many` loses its unused argument.
COUNTED(copied);
static NOINLINE long copied(long x, int how) {
    ENTER(copied);
    long sum = 0;
    for (long at = 0; at < x; at++) sum += how == 3 ? at * at : how * at;
    return sum;
}
struct options { long a; char rest[64]; };
COUNTED(one_of_many);
static NOINLINE long one_of_many(struct options *options, long unused) {
    ENTER(one_of_many);
    (void)unused;
    return add_one(options->a) * 2;
}

COUNTED(tails);
static NOINLINE void tails(void) {
    ENTER(tails);
    NOTE(even(OPAQUE(20L)));
    NOTE(odd(OPAQUE(13L)));
    for (long at = 0; at < 4; at++) NOTE(by_table(at, at + 10));
    struct object object = {41, add_one};
    NOTE(by_field(&object));
    NOTE(by_argument(negate, 4));
    NOTE(by_argument(fibonacci, 10));
    NOTE(by_global(6));
    NOTE(by_stack(1, 2, 3, 4, 5, 6, times_three, 8));
    struct triple triple = tail_memory(1, 2, 3, 4, 5, 6, 7, 8);
    NOTE(triple.a); NOTE(triple.b); NOTE(triple.c);
    effects = 1;
    for (long at = 0; at < 9; at++) { conditional(at); conditional_pointer(at & 1 ? effect : NULL, at); NOTE(either(at)); chain(at); }
    NOTE(effects);
    NOTE(step_down(OPAQUE(2000L), 0));
    NOTE(must_by_table(4)); NOTE(must_by_table(5));
}

COUNTED(flow);
void flow(void) {
    ENTER(flow);
    tails();
    for (long at = 90; at < 110; at += 5) { long x = at; NOTE(split_returns(at)); NOTE(split_tail(&x)); NOTE(split_hot_tail(at - 100)); }
    nowhere();
    for (long at = -1; at < 12; at++) NOTE(dense(at));
    static const unsigned char code[] = {1, 5, 2, 3, 4, 4, 1, 7, 0}, other[] = {2, 3, 1, 9, 5};
    NOTE(interpret(code, 3)); NOTE(interpret(other, 4));
    NOTE(with_alloca(33)); NOTE(with_array(40)); NOTE(with_array(41)); NOTE(aligned(64, 1, 2, 3, 4, 5, 6, 7));
    NOTE(aligned_array(77)); NOTE(realigned(21)); NOTE(big_frame(17));
    NOTE(same_address()); NOTE(frame_address()); NOTE(returns_twice());
    NOTE(copied(10, 3) + copied(OPAQUE(7L), 3));
    struct options options = {.a = 5};
    NOTE(one_of_many(&options, 1) + one_of_many(&options, 2));
}
