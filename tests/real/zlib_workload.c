/* A use of zlib: compresses at every level and strategy, in pieces, decompresses, compares. */
#include "zlib.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

/* Text of a few words, with noise in between. */
static void fill(unsigned char *bytes, size_t length) {
    static const char *const WORDS[] = {"latent ", "probe ", "site ", "active ", "entry ", "exit\n"};
    uint64_t random = 0x9e3779b97f4a7c15u;
    for (size_t at = 0; at < length;) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        const char *word = WORDS[random % 6];
        size_t size = random % 17 == 0 ? 1 : strlen(word);
        size = size < length - at ? size : length - at;
        if (size == 1) {
            bytes[at] = (unsigned char)(random >> 32);
        } else {
            memcpy(bytes + at, word, size);
        }
        at += size;
    }
}

/* The compressed length, or 0. */
static size_t deflated(const unsigned char *bytes, size_t length, unsigned char *out, size_t room, int level, int strategy) {
    z_stream stream = {0};
    if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 8, strategy) != Z_OK) {
        return 0;
    }
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    int result = Z_OK;
    for (size_t at = 0; at < length && result == Z_OK; at += stream.total_in - at) {
        size_t piece = length - at < 10000 ? length - at : 10000;
        stream.next_in = (unsigned char *)bytes + at;
        stream.avail_in = (uInt)piece;
        result = deflate(&stream, at + piece == length ? Z_FINISH : Z_NO_FLUSH);
    }
    size_t size = stream.total_out;
    return deflateEnd(&stream) == Z_OK && result == Z_STREAM_END ? size : 0;
}

static int is_inflated(const unsigned char *packed, size_t size, const unsigned char *bytes, unsigned char *out, size_t length) {
    z_stream stream = {0};
    if (inflateInit2(&stream, 15 + 32) != Z_OK) {
        return 0;
    }
    stream.next_in = (unsigned char *)packed;
    stream.avail_in = (uInt)size;
    stream.next_out = out;
    stream.avail_out = (uInt)length;
    int result = inflate(&stream, Z_FINISH);
    return inflateEnd(&stream) == Z_OK && result == Z_STREAM_END && memcmp(bytes, out, length) == 0;
}

/* The digest of what `length` bytes are compressed to; 0 if anything fails. */
EXPORTED uint64_t workload(uint64_t length) {
    size_t room = compressBound(length) + 64;
    unsigned char *bytes = malloc(length), *packed = malloc(room), *out = malloc(length);
    uint64_t digest = 0xcbf29ce484222325u;
    fill(bytes, length);
    for (int level = 0; level <= 9 && digest != 0; level++) {
        for (int strategy = Z_DEFAULT_STRATEGY; strategy <= Z_FIXED; strategy++) {
            size_t size = deflated(bytes, length, packed, room, level, strategy);
            if (size == 0 || !is_inflated(packed, size, bytes, out, length)) {
                digest = 0;
                break;
            }
            uint64_t sums = crc32(0, packed, (uInt)size) ^ (uint64_t)adler32(1, packed, (uInt)size) << 32;
            digest = (digest ^ sums ^ size) * 0x100000001b3u;
        }
    }
    free(bytes);
    free(packed);
    free(out);
    return digest;
}
