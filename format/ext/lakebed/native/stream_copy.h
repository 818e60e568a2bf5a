/* Copies of large samples to where they are not read soon: past the cache, as far as the instructions are there.
 *
 * memcpy brings the memory that it writes into the cache first. Beside that its speed depends on how both ends lie: where
 * the target is a few bytes beyond the source, modulo 4096, it takes three times as long (glibc 2.36 on an EPYC,
 * copying by `rep movsb`). A streamed copy does neither; a steady one is as fast wherever both ends lie, and leaves what
 * it writes in the cache.
 */
#ifndef LAKEBED_STREAM_COPY_H
#define LAKEBED_STREAM_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__) || defined(_M_X64)
#include <emmintrin.h>
#define STREAM_LINE 64
#define STREAM_AHEAD 1024

/* Copies `size` bytes; nothing beyond them is read or written, and both ends may lie anywhere, apart from each other. */
static inline void stream_copy(uint8_t *out, const uint8_t *in, size_t size) {
  size_t head = (size_t)(-(uintptr_t)out) & (STREAM_LINE - 1);
  if (head > size) head = size;
  memcpy(out, in, head);
  out += head;
  in += head;
  size -= head;
  for (; size >= STREAM_LINE; out += STREAM_LINE, in += STREAM_LINE, size -= STREAM_LINE) {
    if (size > STREAM_AHEAD) _mm_prefetch((const char *)in + STREAM_AHEAD, _MM_HINT_NTA);
    const __m128i a = _mm_loadu_si128((const __m128i *)in), b = _mm_loadu_si128((const __m128i *)(in + 16));
    const __m128i c = _mm_loadu_si128((const __m128i *)(in + 32)), d = _mm_loadu_si128((const __m128i *)(in + 48));
    _mm_stream_si128((__m128i *)out, a);
    _mm_stream_si128((__m128i *)(out + 16), b);
    _mm_stream_si128((__m128i *)(out + 32), c);
    _mm_stream_si128((__m128i *)(out + 48), d);
  }
  memcpy(out, in, size);
}

/* Copies `size` bytes, as `stream_copy` does, into the cache. */
static inline void steady_copy(uint8_t *out, const uint8_t *in, size_t size) {
  for (; size >= STREAM_LINE; out += STREAM_LINE, in += STREAM_LINE, size -= STREAM_LINE) {
    const __m128i a = _mm_loadu_si128((const __m128i *)in), b = _mm_loadu_si128((const __m128i *)(in + 16));
    const __m128i c = _mm_loadu_si128((const __m128i *)(in + 32)), d = _mm_loadu_si128((const __m128i *)(in + 48));
    _mm_storeu_si128((__m128i *)out, a);
    _mm_storeu_si128((__m128i *)(out + 16), b);
    _mm_storeu_si128((__m128i *)(out + 32), c);
    _mm_storeu_si128((__m128i *)(out + 48), d);
  }
  memcpy(out, in, size);
}

/* Of how many bytes beyond the source, modulo 4096, a target makes copies by `rep movsb` slow, as those of the kernel. */
#define SLOW_BYTES 40

/* Makes what was streamed visible to other threads before what is written next. */
static inline void stream_end(void) { _mm_sfence(); }

/* Has a line of memory brought into the cache, wherever it is; where nothing is mapped, nothing happens. */
static inline void prefetch_line(const uint8_t *place) { _mm_prefetch((const char *)place, _MM_HINT_T0); }

#else

static inline void stream_copy(uint8_t *out, const uint8_t *in, size_t size) { memcpy(out, in, size); }
static inline void steady_copy(uint8_t *out, const uint8_t *in, size_t size) { memcpy(out, in, size); }
#define SLOW_BYTES 0
static inline void stream_end(void) {}
static inline void prefetch_line(const uint8_t *place) { (void)place; }

#endif
#endif
