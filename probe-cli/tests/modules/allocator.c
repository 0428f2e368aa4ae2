#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

void *kept(size_t bytes);
void passing(size_t bytes);
void *moved(void *block, size_t bytes);

int main(void) {
    size_t bytes = 0, resized = 0, before = 0;
    for (size_t round = 0; round < 100; round++) bytes += malloc_usable_size(kept(1000 + round));
    for (size_t round = 0; round < 50; round++) passing(300);
    void *block = malloc(100);
    for (size_t round = 0; round < 10; round++) {
        before += malloc_usable_size(block);
        block = moved(block, 5000 * (round + 1));
        resized += malloc_usable_size(block);
    }
    printf("%zu %zu %zu\n", bytes, before, resized);
    return 0;
}
