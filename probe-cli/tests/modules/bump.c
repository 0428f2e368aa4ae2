/* An allocator that does not tell the sizes of its blocks. */
#include <stddef.h>
#include <string.h>

static char room[16 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t size) {
    size_t at = __atomic_fetch_add(&used, (size + 31) & ~(size_t)15, __ATOMIC_RELAXED) + 16;
    if (at + size > sizeof room) return NULL;
    *(size_t *)(room + at - 16) = size;
    return room + at;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t size) { return malloc(count * size); }

void *realloc(void *block, size_t size) {
    void *other = malloc(size);
    if (block && other) {
        size_t had = *(size_t *)((char *)block - 16);
        memcpy(other, block, had < size ? had : size);
    }
    return other;
}
