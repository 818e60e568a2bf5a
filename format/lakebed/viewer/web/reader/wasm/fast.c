/* Inner loops of the reader: the sums of XXH3 and blocks of LZ4, as in src/xxh3.ts and src/lz4.ts.
 *
 * `node wasm/build.mjs` compiles it into src/wasm.ts. Inputs and outputs lie in memory from `room` on; 32 bytes behind
 * each are free, so that copies may go on in steps of 16 bytes. */

#include <wasm_simd128.h>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
#define EXPORT __attribute__((visibility("default")))

extern u8 __heap_base;
static v128_t sums[4];
static const u8 SECRET[193] =
    "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb\x72\x40\xa4\xa4\xb7\xb3\x67\x1f"
    "\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c"
    "\x3c\x28\x52\xbb\x91\xc3\x00\xcb\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8"
    "\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31\xc8\x9f\x7e\xc9\xd9\x78\x73\x64"
    "\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e"
    "\x2b\x16\xbe\x58\x7d\x47\xa1\xfc\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e";

EXPORT u8 *room(void) {
    return &__heap_base;
}

EXPORT v128_t *begin(void) {
    sums[0] = wasm_u64x2_const(0xc2b2ae3d, 0x9e3779b185ebca87);
    sums[1] = wasm_u64x2_const(0xc2b2ae3d27d4eb4f, 0x165667b19e3779f9);
    sums[2] = wasm_u64x2_const(0x85ebca77c2b2ae63, 0x85ebca77);
    sums[3] = wasm_u64x2_const(0x27d4eb2f165667c5, 0x9e3779b1);
    return sums;
}

static inline void accumulate(const u8 *data, const u8 *key) {
    for (int i = 0; i < 4; i++) {
        v128_t words = wasm_v128_load(data + 16 * i);
        v128_t keyed = wasm_v128_xor(words, wasm_v128_load(key + 16 * i));
        v128_t even = wasm_i32x4_shuffle(keyed, keyed, 0, 2, 0, 2), odd = wasm_i32x4_shuffle(keyed, keyed, 1, 3, 1, 3);
        v128_t added = wasm_i64x2_add(wasm_u64x2_extmul_low_u32x4(even, odd), wasm_i64x2_shuffle(words, words, 1, 0));
        sums[i] = wasm_i64x2_add(sums[i], added);
    }
}

/* Add stripes of 64 bytes, of which the first begins a block of 16. */
EXPORT void stripes(const u8 *data, u32 count) {
    for (u32 stripe = 0; stripe < count; stripe++) {
        accumulate(data + 64 * stripe, SECRET + 8 * (stripe & 15));
        if ((stripe & 15) != 15) continue;
        for (int i = 0; i < 4; i++) {
            v128_t mixed = wasm_v128_xor(sums[i], wasm_u64x2_shr(sums[i], 47));
            mixed = wasm_v128_xor(mixed, wasm_v128_load(SECRET + 128 + 16 * i));
            sums[i] = wasm_i64x2_mul(mixed, wasm_u64x2_const_splat(0x9e3779b1));
        }
    }
}

/* Add the last 64 bytes. */
EXPORT void last(const u8 *data) {
    accumulate(data, SECRET + 121);
}

static inline void copy(u8 *to, const u8 *from, u32 length) {
    for (u32 at = 0; at < length; at += 16) wasm_v128_store(to + at, wasm_v128_load(from + at));
}

/* Fill all `size` bytes of `out` from a block; 0 if it is damaged. */
EXPORT int lz4(const u8 *block, u32 length, u8 *out, u32 size) {
    const u8 *end = block + length;
    u32 at = 0;
    while (block < end) {
        u32 token = *block++, run = token >> 4, more = run == 15 ? 255 : 0;
        while (more == 255) {
            if (block >= end || run > size) return 0;
            run += more = *block++;
        }
        if (run > (u32)(end - block) || run > size - at) return 0;
        copy(out + at, block, run);
        at += run;
        block += run;
        if (block == end) return at == size;
        if (end - block < 2) return 0;
        u32 distance = block[0] | block[1] << 8;
        block += 2;
        if (distance == 0 || distance > at) return 0;
        u32 match = (token & 15) + 4;
        more = match == 19 ? 255 : 0;
        while (more == 255) {
            if (block >= end || match > size) return 0;
            match += more = *block++;
        }
        if (match > size - at) return 0;
        u8 *to = out + at, *from = to - distance, *stop = to + match;
        at += match;
        if (distance < 16) { /* repeat it bytewise until a multiple of the distance is a step */
            u32 step = (15 / distance + 1) * distance;
            for (u8 *near = to + step - distance; to < stop && to < near;) *to++ = *from++;
            from = to - step;
            if (to == stop) continue;
        }
        copy(to, from, stop - to);
    }
    return 0;
}
