/* Compressing and expanding, block by block. */
#include "squeeze.h"

#include <stdlib.h>
#include <string.h>

/* Two probes by hand: points inside a function, with a value. */
#define PROBE_PROVIDER "squeeze"
#include <probe.h>

/* Returns the number of bits of a number, less one. */
static unsigned bucket_of(unsigned number) {
    unsigned bucket = 0;
    while (number >> (bucket + 1) != 0) bucket++;
    return bucket;
}

size_t squeeze_bound(size_t len) {
    return len * 2 + (len / BLOCK + 1) * 256;
}

/* Cuts a block into tokens, and counts them. */
static size_t tokenise(struct window *window, size_t start, size_t end, struct token *tokens, uint32_t *symbols, uint32_t *distances) {
    size_t at = start, count = 0;
    while (at < end) {
        struct token token = lz77_find(window, at, end);
        size_t next = at + (token.length > 0 ? token.length : 1);
        if (token.length > 0) {
            PROBE_U64("match", token.length);
            symbols[256 + bucket_of(token.length - 3U)]++;
            distances[bucket_of(token.what + 1U)]++;
        } else {
            symbols[token.what]++;
        }
        for (; at < next; at++) lz77_remember(window, at);
        tokens[count++] = token;
    }
    return count;
}

static void write_number(const struct code *code, struct bits *bits, unsigned base, unsigned number) {
    unsigned bucket = bucket_of(number);
    huffman_write(code, bits, base + bucket);
    bits_put(bits, number - (1U << bucket), bucket);
}

static void compress_block(struct window *window, size_t start, size_t end, struct token *tokens, struct bits *bits) {
    uint32_t symbol_frequency[SYMBOLS] = {0}, distance_frequency[DISTANCES] = {0};
    struct code symbols, distances;
    size_t count = tokenise(window, start, end, tokens, symbol_frequency, distance_frequency), n;
    huffman_measure(&symbols, SYMBOLS, symbol_frequency);
    huffman_measure(&distances, DISTANCES, distance_frequency);
    huffman_assign(&symbols, SYMBOLS);
    huffman_assign(&distances, DISTANCES);
    bits_put(bits, (unsigned)(end - start - 1), 16);
    for (n = 0; n < SYMBOLS; n++) bits_put(bits, symbols.length[n], 4);
    for (n = 0; n < DISTANCES; n++) bits_put(bits, distances.length[n], 4);
    for (n = 0; n < count; n++) {
        if (tokens[n].length > 0) {
            write_number(&symbols, bits, 256, tokens[n].length - 3U);
            write_number(&distances, bits, 0, tokens[n].what + 1U);
        } else {
            huffman_write(&symbols, bits, tokens[n].what);
        }
    }
}

size_t squeeze_compress(const uint8_t *in, size_t len, uint8_t *out) {
    struct window *window = calloc(1, sizeof *window);
    struct token *tokens = malloc(BLOCK * sizeof *tokens);
    struct bits bits = {0};
    size_t start;
    if (window == NULL || tokens == NULL) abort();
    window->text = in;
    window->len = len;
    bits.out = out;
    for (start = 0; start < len; start += BLOCK)
        compress_block(window, start, len - start < BLOCK ? len : start + BLOCK, tokens, &bits);
    bits_flush(&bits);
    free(tokens);
    free(window);
    return bits.at;
}

/* Returns a number from its bucket and the bits that follow; 0 if `bucket` is negative. */
static unsigned read_number(struct bits *bits, int bucket) {
    return bucket < 0 ? 0 : (1U << bucket) + bits_get(bits, (unsigned)bucket);
}

/* Returns the end of the block's text in `out`, or SIZE_MAX on damage. */
static size_t expand_block(struct bits *bits, uint8_t *out, size_t at, size_t capacity) {
    struct code symbols, distances;
    size_t end = at + bits_get(bits, 16) + 1, n;
    for (n = 0; n < SYMBOLS; n++) symbols.length[n] = (uint8_t)bits_get(bits, 4);
    for (n = 0; n < DISTANCES; n++) distances.length[n] = (uint8_t)bits_get(bits, 4);
    if (bits->is_exhausted || end > capacity) return SIZE_MAX;
    if (!huffman_assign(&symbols, SYMBOLS) || !huffman_assign(&distances, DISTANCES)) return SIZE_MAX;
    while (at < end) {
        int symbol = huffman_read(&symbols, bits);
        if (symbol < 0) return SIZE_MAX;
        if (symbol < 256) {
            out[at++] = (uint8_t)symbol;
        } else {
            size_t length = read_number(bits, symbol - 256) + 3;
            size_t distance = read_number(bits, huffman_read(&distances, bits));
            if (distance == 0 || distance > at || length > end - at) return SIZE_MAX;
            PROBE_U64("copy", length);
            for (; length > 0; length--, at++) out[at] = out[at - distance];
        }
    }
    return bits->is_exhausted ? SIZE_MAX : at;
}

size_t squeeze_expand(const uint8_t *in, size_t len, uint8_t *out, size_t capacity) {
    struct bits bits = {0};
    size_t at = 0;
    bits.in = in;
    bits.len = len;
    while (at != SIZE_MAX && bits.at < len) at = expand_block(&bits, out, at, capacity);
    return at;
}
