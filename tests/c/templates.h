// Templates that both files instantiate. Each has one probe, whichever copy the linker keeps.
#pragma once

#include "torture.h"

extern struct counter push_int_counter, push_double_counter, sum_int_counter, square_counter, of_class_counter;

namespace templates {

template <typename T> struct counters;
template <> struct counters<int> { static void push() { ADD(push_int, entries); } };
template <> struct counters<double> { static void push() { ADD(push_double, entries); } };

template <typename T> struct Stack {
    T items[16];
    int size = 0;
    NOINLINE void push(T item) { counters<T>::push(); items[size++ & 15] = item; }
};

template <typename T, int N> NOINLINE T sum(const Stack<T> &stack) {
    ENTER(sum_int);
    T result{};
    for (int at = 0; at < stack.size; at++) result = result * N + stack.items[at];
    return result;
}

inline NOINLINE long square(long x) { ENTER(square); return x * x; }

struct Class {
    long x;
    NOINLINE long of_class(long y) { ENTER(of_class); return x * y; }
};

long other(long x);

} // namespace templates
