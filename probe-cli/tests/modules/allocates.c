/* Functions that allocate and free, of a library whose calls a module names. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

void *kept(size_t bytes);
void passing(size_t bytes);
void *moved(void *block, size_t bytes);

void *kept(size_t bytes) {
    void *block = 0;
    return posix_memalign(&block, 64, bytes) == 0 ? block : 0;
}

void passing(size_t bytes) {
    free(memset(malloc(bytes), 1, bytes));
    free(calloc(2, bytes));
    free(0);
}

void *moved(void *block, size_t bytes) { return realloc(block, bytes); }
