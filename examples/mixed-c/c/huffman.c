/* Canonical Huffman codes: only the lengths are written, since the codes follow from them. */
#include "squeeze.h"

#include <string.h>

/* Removes and returns the rarest tree; returns `trees` if none is left. */
static unsigned take_rarest(uint32_t *weight, unsigned trees, uint32_t *taken) {
    unsigned tree, rarest = trees;
    for (tree = 0; tree < trees; tree++)
        if (weight[tree] > 0 && (rarest == trees || weight[tree] < weight[rarest])) rarest = tree;
    if (rarest < trees) {
        *taken += weight[rarest];
        weight[rarest] = 0;
    }
    return rarest;
}

/* Computes the lengths of an optimal code, by joining the two rarest trees until one is left.
 * Returns the longest. */
static unsigned join_rarest(struct code *code, const uint32_t *frequency) {
    uint32_t weight[2 * SYMBOLS];
    uint16_t parent[2 * SYMBOLS] = {0};
    unsigned symbol, left = 0, next = code->symbols, longest = 0;
    for (symbol = 0; symbol < code->symbols; symbol++) {
        weight[symbol] = frequency[symbol];
        left += frequency[symbol] > 0;
    }
    for (; left > 1; left--, next++) {
        uint32_t joined = 0;
        parent[take_rarest(weight, next, &joined)] = (uint16_t)next;
        parent[take_rarest(weight, next, &joined)] = (uint16_t)next;
        weight[next] = joined;
    }
    for (symbol = 0; symbol < code->symbols; symbol++) {
        unsigned at = symbol, length = 0;
        for (; parent[at] != 0; at = parent[at]) length++;
        /* A single symbol needs a bit, too. */
        if (frequency[symbol] > 0 && length == 0) length = 1;
        code->length[symbol] = (uint8_t)length;
        if (length > longest) longest = length;
    }
    return longest;
}

/* Computes lengths of up to LONGEST_CODE for symbols with these frequencies. */
void huffman_measure(struct code *code, unsigned symbols, const uint32_t *frequency) {
    uint32_t flattened[SYMBOLS];
    unsigned symbol;
    code->symbols = symbols;
    memcpy(flattened, frequency, symbols * sizeof *flattened);
    while (join_rarest(code, flattened) > LONGEST_CODE)
        for (symbol = 0; symbol < symbols; symbol++) flattened[symbol] = (flattened[symbol] + 1) / 2;
}

/* Computes the codes from their lengths. Returns whether such codes exist. */
int huffman_assign(struct code *code, unsigned symbols) {
    unsigned next[LONGEST_CODE + 2], place[LONGEST_CODE + 2], symbol, length;
    long left = 1;
    code->symbols = symbols;
    memset(code->count, 0, sizeof code->count);
    for (symbol = 0; symbol < symbols; symbol++) code->count[code->length[symbol]]++;
    code->count[0] = 0;
    next[1] = place[1] = 0;
    for (length = 1; length <= LONGEST_CODE; length++) {
        left = left * 2 - code->count[length];
        if (left < 0) return 0;
        next[length + 1] = (next[length] + code->count[length]) << 1;
        place[length + 1] = place[length] + code->count[length];
    }
    for (symbol = 0; symbol < symbols; symbol++) {
        unsigned bits, reversed = 0, n;
        if ((length = code->length[symbol]) == 0) continue;
        bits = next[length]++;
        for (n = 0; n < length; n++) reversed |= (bits >> n & 1) << (length - 1 - n);
        code->bits[symbol] = (uint16_t)reversed;
        code->ordered[place[length]++] = (uint16_t)symbol;
    }
    return 1;
}

void huffman_write(const struct code *code, struct bits *bits, unsigned symbol) {
    bits_put(bits, code->bits[symbol], code->length[symbol]);
}

/* Returns the next symbol; -1 if no code begins with these bits. */
int huffman_read(const struct code *code, struct bits *bits) {
    unsigned first = 0, index = 0, read = 0, length;
    for (length = 1; length <= LONGEST_CODE && !bits->is_exhausted; length++) {
        read |= bits_get(bits, 1);
        if (read < first + code->count[length]) return code->ordered[index + read - first];
        index += code->count[length];
        first = (first + code->count[length]) << 1;
        read <<= 1;
    }
    return -1;
}
