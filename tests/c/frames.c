// A stack of functions, walked from each of their sites. A test asserts these line numbers.
#include "torture.h"

COUNTED(leaf);
NOINLINE long leaf(long x) {
    ENTER(leaf);
    return x * 3;
} // line 8

COUNTED(framed);
NOINLINE long framed(long x) {
    long values[40] = {0};
    ENTER(framed);
    __asm__ volatile("" : : "r"(values) : "memory");
    long sum = leaf(x); // line 15
    __asm__ volatile("" : "+r"(sum) : "r"(values) : "memory", "rbx", "r12", "r15");
    return sum + values[7];
} // line 18

COUNTED(tail_calls);
NOINLINE long tail_calls(long x) {
    ENTER(tail_calls);
    return leaf(x + 1); // line 23
}

COUNTED(variable);
NOINLINE long variable(long x) {
    ENTER(variable);
    char array[x + 8];
    __asm__ volatile("" : : "r"(array) : "memory");
    long sum = framed(x); // line 31
    __asm__ volatile("" : "+r"(sum) : "r"(array) : "memory");
    return sum + 1;
} // line 34

COUNTED(root);
long root(long x) {
    ENTER(root);
    long sum = framed(x); // line 39
    sum += tail_calls(x); // line 40
    sum += variable(x); // line 41
    return sum + 5;
} // line 43
