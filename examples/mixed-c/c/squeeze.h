/* squeeze: a small compressor. LZ77 finds repeated text, and canonical Huffman codes encode it.
 *
 * A compressed text is a sequence of blocks, each of up to BLOCK bytes of the original:
 *
 *     16 bits     the block's bytes, less one
 *     281 × 4     the code lengths of SYMBOLS symbols and DISTANCES distances
 *     codes       a symbol up to 255 is a byte; from 256 on, a match:
 *                 symbol 256 + n, n bits: its length is 3 + 2^n + those bits
 *                 distance n, n bits: it lies 2^n + those bits back
 */
#ifndef SQUEEZE_H
#define SQUEEZE_H

#include <stddef.h>
#include <stdint.h>

/* Returns the maximum compressed size of `len` bytes. */
size_t squeeze_bound(size_t len);

/* Compresses; returns the compressed size. `out` has squeeze_bound(len) bytes. */
size_t squeeze_compress(const uint8_t *in, size_t len, uint8_t *out);

/* Expands; returns the expanded size, or SIZE_MAX if `in` is damaged or `capacity` too small. */
size_t squeeze_expand(const uint8_t *in, size_t len, uint8_t *out, size_t capacity);

/* ---- bits.c: a stream of bits, the lowest of each byte first ---- */

struct bits {
    uint8_t *out;
    const uint8_t *in;
    size_t at, len;
    uint64_t held;
    unsigned count;
    int is_exhausted;
};

void bits_put(struct bits *bits, unsigned value, unsigned count);
void bits_flush(struct bits *bits);
unsigned bits_get(struct bits *bits, unsigned count);

/* ---- huffman.c: canonical codes of up to 15 bits ---- */

enum { SYMBOLS = 265, DISTANCES = 16, LONGEST_CODE = 15 };

struct code {
    unsigned symbols;
    uint8_t length[SYMBOLS];
    uint16_t bits[SYMBOLS];             /* for writing: the code, its first bit lowest */
    uint16_t count[LONGEST_CODE + 1];   /* for reading: the number of codes of each length, */
    uint16_t ordered[SYMBOLS];          /* and the symbols by code */
};

void huffman_measure(struct code *code, unsigned symbols, const uint32_t *frequency);
int huffman_assign(struct code *code, unsigned symbols);
void huffman_write(const struct code *code, struct bits *bits, unsigned symbol);
int huffman_read(const struct code *code, struct bits *bits);

/* ---- lz77.c: repeated text ---- */

enum { BLOCK = 1 << 16, WINDOW = 1 << 15, SHORTEST = 4, LONGEST = 258, BUCKETS = 1 << 14, TRIES = 32 };

struct window {
    const uint8_t *text;
    size_t len;
    uint32_t newest[BUCKETS];           /* a place with this hash, plus one */
    uint32_t older[WINDOW];             /* the one before it with the same hash, plus one */
};

struct token {
    uint16_t length;                    /* 0: a byte */
    uint16_t what;                      /* the byte, or the distance less one */
};

void lz77_remember(struct window *window, size_t at);
struct token lz77_find(const struct window *window, size_t at, size_t end);

#endif
