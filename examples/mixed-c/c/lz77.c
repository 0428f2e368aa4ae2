/* Matches, found in chains of places that begin with the same four bytes. */
#include "squeeze.h"

#include <string.h>

static unsigned hash(const uint8_t *text) {
    uint32_t word;
    memcpy(&word, text, sizeof word);
    return word * 2654435761U >> 18;
}

/* Puts a place at the head of its chain. */
void lz77_remember(struct window *window, size_t at) {
    unsigned bucket;
    if (at + SHORTEST > window->len) return;
    bucket = hash(window->text + at);
    window->older[at % WINDOW] = window->newest[bucket];
    window->newest[bucket] = (uint32_t)at + 1;
}

static unsigned match_length(const uint8_t *a, const uint8_t *b, unsigned most) {
    unsigned length = 0;
    while (length < most && a[length] == b[length]) length++;
    return length;
}

/* Returns the longest match of the text at `at` that ends before `end`, or the byte at `at`. */
struct token lz77_find(const struct window *window, size_t at, size_t end) {
    struct token best = {0, 0};
    unsigned most = end - at < LONGEST ? (unsigned)(end - at) : LONGEST, tries = TRIES;
    uint32_t next;
    best.what = window->text[at];
    if (most < SHORTEST) return best;
    for (next = window->newest[hash(window->text + at)]; next != 0 && tries > 0; tries--) {
        size_t place = next - 1;
        unsigned length;
        if (place >= at || at - place > WINDOW - 1) break;
        length = match_length(window->text + place, window->text + at, most);
        if (length >= SHORTEST && length > best.length) {
            best.length = (uint16_t)length;
            best.what = (uint16_t)(at - place - 1);
        }
        next = window->older[place % WINDOW];
    }
    return best;
}
