/* A copy that takes the checksum of what it copies on the way: xxh3-64 with the seed 0, for more than 240 bytes.
 *
 * Written after the specification of XXH3 (xxHash, doc/xxhash_spec.md). Input is taken in stripes of 64 bytes, into eight
 * accumulators; after 16 stripes, a block of 1024 bytes, these are scrambled. What is left of the last block goes in by
 * stripes, too, and the last 64 bytes of all make one more stripe, which may overlap the one before it. A sum of memory
 * that is not in the cache, then, costs hardly more than the copy alone: both wait for the memory.
 */
#ifndef LAKEBED_SUMMED_COPY_H
#define LAKEBED_SUMMED_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define XXH3_STRIPE 64
#define XXH3_STRIPES 16
#define XXH3_LONG 241 /* fewer bytes are summed in other ways */
#define XXH3_SECRET 192

static const uint8_t xxh3_secret[XXH3_SECRET] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

#define XXH3_PRIME32_1 0x9E3779B1u
#define XXH3_PRIME32_2 0x85EBCA77u
#define XXH3_PRIME32_3 0xC2B2AE3Du
#define XXH3_PRIME64_1 UINT64_C(0x9E3779B185EBCA87)
#define XXH3_PRIME64_2 UINT64_C(0xC2B2AE3D27D4EB4F)
#define XXH3_PRIME64_3 UINT64_C(0x165667B19E3779F9)
#define XXH3_PRIME64_4 UINT64_C(0x85EBCA77C2B2AE63)
#define XXH3_PRIME64_5 UINT64_C(0x27D4EB2F165667C5)
#define XXH3_PRIME_MX1 UINT64_C(0x165667919E3779F9)

/* Reads eight bytes, the lowest first, wherever they lie. */
static inline uint64_t xxh3_word(const uint8_t *place) {
  uint64_t found = 0;
  for (int i = 0; i < 8; i++) found |= (uint64_t)place[i] << (8 * i);
  return found;
}

/* Multiplies two words and folds the product of 128 bits into 64. */
static inline uint64_t xxh3_folded(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
  const unsigned __int128 product = (unsigned __int128)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
  const uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu), high = (a >> 32) * (b >> 32);
  const uint64_t one = (a >> 32) * (b & 0xFFFFFFFFu), other = (a & 0xFFFFFFFFu) * (b >> 32);
  const uint64_t middle = (low >> 32) + (one & 0xFFFFFFFFu) + other; /* at most 2^64 - 1 */
  return ((middle << 32) | (low & 0xFFFFFFFFu)) ^ (high + (one >> 32) + (middle >> 32));
#endif
}

static inline void xxh3_begin(uint64_t *sums) {
  sums[0] = XXH3_PRIME32_3;
  sums[1] = XXH3_PRIME64_1;
  sums[2] = XXH3_PRIME64_2;
  sums[3] = XXH3_PRIME64_3;
  sums[4] = XXH3_PRIME64_4;
  sums[5] = XXH3_PRIME32_2;
  sums[6] = XXH3_PRIME64_5;
  sums[7] = XXH3_PRIME32_1;
}

static inline void xxh3_stripe(uint64_t *sums, const uint8_t *in, const uint8_t *secret) {
  for (int i = 0; i < 8; i++) {
    const uint64_t word = xxh3_word(in + 8 * i), key = word ^ xxh3_word(secret + 8 * i);
    sums[i ^ 1] += word;
    sums[i] += (key & 0xFFFFFFFFu) * (key >> 32);
  }
}

static inline uint64_t xxh3_end(const uint64_t *sums, size_t size) {
  uint64_t found = (uint64_t)size * XXH3_PRIME64_1;
  for (int i = 0; i < 8; i += 2) {
    const uint8_t *secret = xxh3_secret + 11 + 8 * i;
    found += xxh3_folded(sums[i] ^ xxh3_word(secret), sums[i + 1] ^ xxh3_word(secret + 8));
  }
  found ^= found >> 37;
  found *= XXH3_PRIME_MX1;
  return found ^ (found >> 32);
}

/* Copies whole blocks, and adds them to the sums: by instructions that every processor has. */
static inline void xxh3_copy_plainly(uint64_t *sums, uint8_t *out, const uint8_t *in, size_t blocks) {
  for (; blocks; blocks--, out += XXH3_STRIPE * XXH3_STRIPES, in += XXH3_STRIPE * XXH3_STRIPES) {
    memcpy(out, in, XXH3_STRIPE * XXH3_STRIPES);
    for (int n = 0; n < XXH3_STRIPES; n++) xxh3_stripe(sums, out + XXH3_STRIPE * n, xxh3_secret + 8 * n);
    for (int i = 0; i < 8; i++) {
      const uint64_t mixed = sums[i] ^ (sums[i] >> 47) ^ xxh3_word(xxh3_secret + XXH3_SECRET - XXH3_STRIPE + 8 * i);
      sums[i] = mixed * XXH3_PRIME32_1;
    }
  }
}

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>

#define XXH3_LOAD(place) _mm_loadu_si128((const __m128i *)(place))

/* Adds 16 bytes of a stripe to two sums. */
static inline __m128i xxh3_add(__m128i sums, __m128i words, const uint8_t *secret) {
  const __m128i key = _mm_xor_si128(words, XXH3_LOAD(secret));
  const __m128i product = _mm_mul_epu32(key, _mm_shuffle_epi32(key, _MM_SHUFFLE(0, 3, 0, 1)));
  return _mm_add_epi64(_mm_add_epi64(sums, product), _mm_shuffle_epi32(words, _MM_SHUFFLE(1, 0, 3, 2)));
}

static inline __m128i xxh3_scramble(__m128i sums, const uint8_t *secret) {
  const __m128i prime = _mm_set1_epi32((int)XXH3_PRIME32_1);
  const __m128i mixed = _mm_xor_si128(_mm_xor_si128(sums, _mm_srli_epi64(sums, 47)), XXH3_LOAD(secret));
  const __m128i high = _mm_mul_epu32(_mm_srli_epi64(mixed, 32), prime);
  return _mm_add_epi64(_mm_mul_epu32(mixed, prime), _mm_slli_epi64(high, 32));
}

/* Copies whole blocks, and adds them to the sums. All of a stripe is read before any of it is written: where both ends
 * lie alike, modulo 4096, processors take a read for one of what was just written. */
static inline void xxh3_copy(uint64_t *sums, uint8_t *out, const uint8_t *in, size_t blocks) {
  const uint8_t *last = xxh3_secret + XXH3_SECRET - XXH3_STRIPE;
  __m128i s = XXH3_LOAD(sums), t = XXH3_LOAD(sums + 2), u = XXH3_LOAD(sums + 4), v = XXH3_LOAD(sums + 6);
  for (; blocks; blocks--) {
    const uint8_t *secret = xxh3_secret;
    for (int n = 0; n < XXH3_STRIPES; n++, secret += 8, in += XXH3_STRIPE, out += XXH3_STRIPE) {
      const __m128i a = XXH3_LOAD(in), b = XXH3_LOAD(in + 16), c = XXH3_LOAD(in + 32), d = XXH3_LOAD(in + 48);
      _mm_storeu_si128((__m128i *)out, a);
      _mm_storeu_si128((__m128i *)(out + 16), b);
      _mm_storeu_si128((__m128i *)(out + 32), c);
      _mm_storeu_si128((__m128i *)(out + 48), d);
      s = xxh3_add(s, a, secret);
      t = xxh3_add(t, b, secret + 16);
      u = xxh3_add(u, c, secret + 32);
      v = xxh3_add(v, d, secret + 48);
    }
    s = xxh3_scramble(s, last);
    t = xxh3_scramble(t, last + 16);
    u = xxh3_scramble(u, last + 32);
    v = xxh3_scramble(v, last + 48);
  }
  _mm_storeu_si128((__m128i *)sums, s);
  _mm_storeu_si128((__m128i *)(sums + 2), t);
  _mm_storeu_si128((__m128i *)(sums + 4), u);
  _mm_storeu_si128((__m128i *)(sums + 6), v);
}

#else

static inline void xxh3_copy(uint64_t *sums, uint8_t *out, const uint8_t *in, size_t blocks) {
  xxh3_copy_plainly(sums, out, in, blocks);
}

#endif

/* Copies `size` bytes, at least XXH3_LONG, to a place apart, and returns their checksum: that of the bytes that were
 * written, whatever becomes of the source meanwhile. `plainly`: by the instructions that every processor has. */
static inline uint64_t summed_copy(uint8_t *out, const uint8_t *in, size_t size, int plainly) {
  const size_t blocks = (size - 1) / (XXH3_STRIPE * XXH3_STRIPES), done = blocks * XXH3_STRIPE * XXH3_STRIPES;
  const size_t stripes = (size - 1 - done) / XXH3_STRIPE;
  uint64_t sums[8];
  xxh3_begin(sums);
  if (plainly) xxh3_copy_plainly(sums, out, in, blocks);
  else xxh3_copy(sums, out, in, blocks);
  memcpy(out + done, in + done, size - done);
  for (size_t n = 0; n < stripes; n++) xxh3_stripe(sums, out + done + XXH3_STRIPE * n, xxh3_secret + 8 * n);
  xxh3_stripe(sums, out + size - XXH3_STRIPE, xxh3_secret + XXH3_SECRET - XXH3_STRIPE - 7);
  return xxh3_end(sums, size);
}

#endif
