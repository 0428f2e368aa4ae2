// The notes of a thread, and what the tests ask of a library. Has no sites.
#include <stdlib.h>
#include <string.h>

#include "torture.h"

struct entry {
    uint32_t line, size;
    uint64_t hash;
};

struct notes {
    uint64_t count;
    struct entry entries[1 << 14];
};

static THREAD struct notes *notes;

void note(unsigned line, const void *bytes, size_t size) {
    if (!notes) notes = calloc(1, sizeof *notes);
    if (notes->count == sizeof notes->entries / sizeof *notes->entries) abort();
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t at = 0; at < size; at++) hash = (hash ^ ((const unsigned char *)bytes)[at]) * 0x100000001b3;
    notes->entries[notes->count++] = (struct entry){line, (uint32_t)size, hash};
}

// Runs a scenario of this library. Returns the notes that this thread took meanwhile.
const struct entry *torture_notes(void (*scenario)(void), uint64_t *count) {
    if (notes) notes->count = 0;
    scenario();
    *count = notes ? notes->count : 0;
    return notes ? notes->entries : NULL;
}

extern struct counter __start_counters[] __attribute__((visibility("hidden")));
extern struct counter __stop_counters[] __attribute__((visibility("hidden")));

// All counters of this library.
const struct counter *torture_counters(uint64_t *count) {
    *count = (uint64_t)(__stop_counters - __start_counters);
    return __start_counters;
}
