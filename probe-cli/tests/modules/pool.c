// A pool of three objects.
#include <stddef.h>

struct pool { char objects[3], used[3]; };

void *pool_get(struct pool *pool) {
    for (int at = 0; at < 3; at++)
        if (!pool->used[at]) return pool->used[at] = 1, &pool->objects[at];
    return NULL;
}

void pool_put(void *object) { ((char *)object)[3] = 0; }
