// Takes objects out of two pools, and gives them back.
#include <stdio.h>

extern void *pool_get(void *pool);
extern void pool_put(void *object);

static char pools[2][6];

int main(void) {
    int given = 0, refused = 0;
    for (int round = 0; round < 100; round++) {
        for (int pool = 0; pool < 2; pool++) {
            void *objects[3];
            for (int at = 0; at < 3; at++) objects[at] = pool_get(pools[pool]);
            if (round < 2) refused += pool_get(pools[pool]) == NULL;
            for (int at = 0; at < 3; at++) pool_put(objects[at]), given++;
        }
    }
    printf("%d %d\n", given, refused);
    return 0;
}
