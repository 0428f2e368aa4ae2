/* A stream of bits. */
#include "squeeze.h"

void bits_put(struct bits *bits, unsigned value, unsigned count) {
    bits->held |= (uint64_t)value << bits->count;
    bits->count += count;
    while (bits->count >= 8) {
        bits->out[bits->at++] = (uint8_t)bits->held;
        bits->held >>= 8;
        bits->count -= 8;
    }
}

void bits_flush(struct bits *bits) {
    if (bits->count > 0) bits_put(bits, 0, 8 - bits->count);
}

unsigned bits_get(struct bits *bits, unsigned count) {
    unsigned value;
    while (bits->count < count) {
        if (bits->at == bits->len) {
            bits->is_exhausted = 1;
            return 0;
        }
        bits->held |= (uint64_t)bits->in[bits->at++] << bits->count;
        bits->count += 8;
    }
    value = (unsigned)bits->held & ((1U << count) - 1);
    bits->held >>= count;
    bits->count -= count;
    return value;
}
