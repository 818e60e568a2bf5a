/* Decoding of one LZ4 block into memory of the size that it decodes to (the LZ4 block format, lz4_Block_format.md).

   A block is a series of sequences:

       1 byte    token: literals (upper 4 bits), length of the match - 4 (lower 4 bits)
       0 or more if the literals are 15: more of them, a byte each; 255 goes on
       literals
       2 bytes   how far back the match begins, little-endian, at least 1
       0 or more if the lower 4 bits are 15: more of the match, as above

   The last one ends with its literals. It has at least 5 of them, and the last match begins at least 12 bytes before the
   end, unless there is no match at all; what breaks that is refused, as the library of the format's author refuses it.

   Nothing is read outside of the block nor written outside of the memory. Copies go on beyond what is wanted, in steps of
   16 or 32 bytes, only where that much is left of both. */
#ifndef LAKEBED_LZ4_BLOCK_H
#define LAKEBED_LZ4_BLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
  LZ4_DONE = 0,
  LZ4_ENDS = 1,     /* the block ends inside of a sequence */
  LZ4_LONG = 2,     /* it decodes to more than the memory holds, or the last bytes are no literals */
  LZ4_SHORT = 3,    /* it decodes to less */
  LZ4_DISTANCE = 4, /* a match begins before the first byte, or at itself */
};

enum {
  LZ4_LEAST_MATCH = 4,
  LZ4_LAST_LITERALS = 5,
  LZ4_LAST_MATCH = 12, /* before the end at least */
  /* What a short sequence may read of the block, and what it may write: 16 bytes for up to 14 literals behind a token,
     and a distance; 16 bytes, and 32 for a match of up to 18. */
  LZ4_READ_ROOM = 32,
  LZ4_WRITE_ROOM = 64
};

#if defined(__GNUC__)
#define LZ4_LIKELY(x) __builtin_expect(!!(x), 1)
#define LZ4_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define LZ4_INLINE static inline __attribute__((always_inline))
#else
#define LZ4_LIKELY(x) (x)
#define LZ4_UNLIKELY(x) (x)
#define LZ4_INLINE static inline
#endif

LZ4_INLINE void lz4_copy8(uint8_t *to, const uint8_t *from) { memcpy(to, from, 8); }

LZ4_INLINE void lz4_copy16(uint8_t *to, const uint8_t *from) { memcpy(to, from, 16); }

/* Copy in steps of 32 bytes; up to 31 more than `n` are read and written. `from` lies elsewhere, or 32 bytes before. */
LZ4_INLINE void lz4_copy_beyond(uint8_t *to, const uint8_t *from, size_t n) {
  uint8_t *const end = to + n;
  do {
    lz4_copy16(to, from);
    lz4_copy16(to + 16, from + 16);
    to += 32;
    from += 32;
  } while (to < end);
}

/* What lies 4 and 8 bytes behind the start of a match repeats what lies so far before it: multiples of its distance. */
static const uint8_t LZ4_FAR4[8] = {0, 4, 4, 6, 4, 5, 6, 7};
static const uint8_t LZ4_FAR8[8] = {0, 8, 8, 9, 8, 10, 12, 14};

/* Copy 8 bytes of a match that begins less than 8 bytes before `to`. */
LZ4_INLINE void lz4_repeat8(uint8_t *to, size_t distance) {
  to[0] = to[0 - (ptrdiff_t)distance];
  to[1] = to[1 - (ptrdiff_t)distance];
  to[2] = to[2 - (ptrdiff_t)distance];
  to[3] = to[3 - (ptrdiff_t)distance];
  memcpy(to + 4, to + 4 - LZ4_FAR4[distance], 4);
}

/* Copy a match that begins less than 32 bytes before `to`; up to 31 bytes more than `n` are written. */
static void lz4_copy_near(uint8_t *to, size_t distance, size_t n) {
  uint8_t *const end = to + n;
  size_t far = distance;
  /* The distance grows by multiples of itself, so that a step reads nothing that it writes. */
  if (far < 8) {
    lz4_repeat8(to, distance);
    to += 8;
    far = LZ4_FAR8[distance];
    if (to >= end) return;
  }
  if (far < 16) {
    lz4_copy8(to, to - far);
    lz4_copy8(to + 8, to + 8 - far);
    to += 16;
    far *= 2;
    if (to >= end) return;
  }
  if (far < 32) {
    lz4_copy16(to, to - far);
    lz4_copy16(to + 16, to + 16 - far);
    to += 32;
    far *= 2;
    if (to >= end) return;
  }
  lz4_copy_beyond(to, to - far, (size_t)(end - to));
}

/* Add the bytes that go on with a length; it may be `most`. */
LZ4_INLINE int lz4_length(const uint8_t **at, const uint8_t *end, size_t most, size_t *length) {
  const uint8_t *in = *at;
  uint64_t sum = *length;
  uint8_t byte;
  do {
    if (LZ4_UNLIKELY(in >= end)) return LZ4_ENDS;
    byte = *in++;
    sum += byte;
  } while (LZ4_UNLIKELY(byte == 255));
  if (LZ4_UNLIKELY(sum > most)) return LZ4_LONG;
  *at = in;
  *length = (size_t)sum;
  return LZ4_DONE;
}

static int lz4_decode_block(const uint8_t *block, size_t block_size, uint8_t *memory, size_t size) {
  const uint8_t *in = block, *const in_end = block + block_size;
  uint8_t *out = memory, *const out_end = memory + size;
  size_t literals, match, distance;
  unsigned token;
  int status;
  if (!size) return block_size == 1 && !*block ? LZ4_DONE : LZ4_LONG;
  for (;;) {
    /* Sequences far from both ends. */
    while (LZ4_LIKELY((size_t)(in_end - in) >= LZ4_READ_ROOM && (size_t)(out_end - out) >= LZ4_WRITE_ROOM)) {
      token = *in++;
      literals = token >> 4;
      if (LZ4_LIKELY(literals != 15)) {
        lz4_copy16(out, in);
      } else {
        status = lz4_length(&in, in_end, size, &literals);
        if (status) return status;
        /* Room for the rest of a copy, for the distance behind it, and for a short match. */
        if (literals + LZ4_READ_ROOM > (size_t)(in_end - in) || literals + LZ4_WRITE_ROOM > (size_t)(out_end - out))
          goto last_literals;
        if (literals > 512)
          memcpy(out, in, literals);
        else
          lz4_copy_beyond(out, in, literals);
      }
      out += literals;
      in += literals;
      distance = (size_t)in[0] | (size_t)in[1] << 8;
      in += 2;
      match = token & 15;
      if (LZ4_UNLIKELY(distance - 1 >= (size_t)(out - memory))) return LZ4_DISTANCE;
      if (match != 15) {
        /* Up to 18 bytes, and there is room for 50: short literals leave that of WRITE_ROOM, long ones all of it. */
        match += LZ4_LEAST_MATCH;
        if (LZ4_LIKELY(distance >= 8)) {
          lz4_copy8(out, out - distance);
          lz4_copy8(out + 8, out + 8 - distance);
          lz4_copy8(out + 16, out + 16 - distance);
        } else {
          const size_t far = LZ4_FAR8[distance];
          lz4_repeat8(out, distance);
          lz4_copy8(out + 8, out + 8 - far);
          lz4_copy8(out + 16, out + 16 - far);
        }
        out += match;
        continue;
      }
      status = lz4_length(&in, in_end, size, &match);
      if (status) return status;
      match += LZ4_LEAST_MATCH;
      if (match + 32 > (size_t)(out_end - out)) goto last_match;
      if (LZ4_LIKELY(distance >= 32))
        lz4_copy_beyond(out, out - distance, match);
      else
        lz4_copy_near(out, distance, match);
      out += match;
    }
    /* One near an end: byte by byte where it may not go beyond. */
    if (in >= in_end) return LZ4_ENDS;
    token = *in++;
    literals = token >> 4;
    if (literals == 15) {
      status = lz4_length(&in, in_end, size, &literals);
      if (status) return status;
    }
  last_literals:
    if (literals > (size_t)(in_end - in)) return LZ4_ENDS;
    if (literals > (size_t)(out_end - out)) return LZ4_LONG;
    if (literals) memcpy(out, in, literals);
    out += literals;
    in += literals;
    if (in == in_end) return out == out_end ? LZ4_DONE : LZ4_SHORT;
    /* A distance, and a sequence of at least 5 literals. */
    if ((size_t)(in_end - in) < 2 + 1 + LZ4_LAST_LITERALS) return LZ4_ENDS;
    if ((size_t)(out_end - out) < LZ4_LAST_MATCH) return LZ4_LONG;
    distance = (size_t)in[0] | (size_t)in[1] << 8;
    in += 2;
    if (distance - 1 >= (size_t)(out - memory)) return LZ4_DISTANCE;
    match = token & 15;
    if (match == 15) {
      status = lz4_length(&in, in_end, size, &match);
      if (status) return status;
    }
    match += LZ4_LEAST_MATCH;
  last_match:
    if (match + LZ4_LAST_LITERALS > (size_t)(out_end - out)) return LZ4_LONG;
    if (match > 32) { /* all but its end */
      const size_t most = match - 32;
      if (distance >= 32)
        lz4_copy_beyond(out, out - distance, most);
      else
        lz4_copy_near(out, distance, most);
      out += most;
      match = 32;
    }
    for (; match; match--, out++) *out = out[-(ptrdiff_t)distance];
  }
}

#endif
