// Counters and notes of the functions under test, to compare with the hits of their probes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#define THREAD thread_local
#else
#define THREAD _Thread_local
#endif

// One function. It has an exit for each entry, but for those that were left otherwise.
struct counter {
    const char *path;   // of its probe
    const char *file;
    uint64_t entries;
    uint64_t jumped;    // left by longjmp, or for good
    uint64_t unwound;   // left by an exception
    uint64_t kind;      // see below
    uint64_t padding[2];
} __attribute__((aligned(64)));

enum {
    EXACT,     // as many hits as counted here
    IF_PLACED, // or none: nobody has promised that it has sites
    TAIL,      // its exit is hit also if an exception leaves it from a call in tail position
    STRUCTOR,  // up to twice as many: a con- or destructor's body may call another of its name
};

#define COUNTER_(variable, path, kind) \
    __attribute__((section("counters"), used)) struct counter variable = {path, __FILE__, 0, 0, 0, kind, {0, 0}}
// A static counter of the function `name`.
#define COUNTED(name) static COUNTER_(name##_counter, #name, EXACT)
#define COUNTED_IF_PLACED(name) static COUNTER_(name##_counter, #name, IF_PLACED)
// A static counter of the function whose probe has this path.
#define COUNTED_AS(name, path) static COUNTER_(name##_counter, path, EXACT)

#define ADD(name, what) ((void)__atomic_fetch_add(&name##_counter.what, 1, __ATOMIC_RELAXED))
// The first thing in each function under test.
#define ENTER(name) ADD(name, entries)
#define NOINLINE __attribute__((noinline))

// Notes a value, which must be the same in every build and state.
void note(unsigned line, const void *bytes, size_t size);
#define NOTE(value) \
    do { \
        __typeof__(value) noted_ = (value); \
        note(__LINE__, &noted_, sizeof noted_); \
    } while (0)
// An x87 number has six bytes of padding.
#define NOTE_LONG(value) \
    do { \
        long double noted_ = (value); \
        note(__LINE__, &noted_, 10); \
    } while (0)

// Hides a value from the optimiser.
#define OPAQUE(value) \
    __extension__({ \
        __typeof__(value) hidden_ = (value); \
        __asm__ volatile("" : "+m"(hidden_)); \
        hidden_; \
    })

#ifdef __cplusplus
}
#endif
