/* Resampling with a triangle filter that widens when the image shrinks, in fixed point.

   Output pixel i of a side that `length` pixels become `resized` pixels has its centre at (i + 0.5) * length / resized;
   a pixel at distance d from it has the weight max(0, 1 - d / support), support = max(1, length / resized); weights are
   scaled to sum 1. That is Pillow's BILINEAR, and `antialias=True` of torchvision.

   Rows first: out(Q7, int16) = sum((pixel << 8) * weight(Q16) >> 16) >> 1.
   Then columns: out(uint8) = (sum(in(Q7) * weight(Q15)) + 2^21) >> 22.
   All variants for processors give the same values, as integers are added in any order. */
#ifndef LAKEBED_RESAMPLE_H
#define LAKEBED_RESAMPLE_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define RESAMPLE_X86 1
#include <immintrin.h>
#else
#define RESAMPLE_X86 0
#endif

enum { SLACK = 64, MAX_TAPS = 500 };

/* One side of the image: which pixels make each output pixel. Outputs without taps lie outside of the image. */
typedef struct {
  int outputs;   /* number of output pixels */
  int taps;      /* weights that each output has room for, even */
  int low, high; /* pixels that are needed: low <= pixel < high */
  int32_t *first;
  int32_t *count;
  uint16_t *weights; /* outputs * taps */
} side_plan;

/* Upper bound of the taps of an output. */
static int side_taps(double length, int resized) {
  double scale = length / resized;
  int taps;
  if (scale < 1) scale = 1;
  if (scale > MAX_TAPS) return MAX_TAPS + 2;
  taps = (int)(2 * scale) + 2;
  return (taps + 1) & ~1;
}

/* Plan a side: `length` pixels from `start` become `resized` pixels, of which `outputs` from `offset` on are wanted.

   Pixels outside of [floor(start), ceil(start + length)) and of [0, limit) have no part in it. `one` is the fixed point
   form of 1.0; a single weight is one - 1. With `mirrored`, the outputs are kept in reverse order. */
static void side_make(side_plan *plan, double start, double length, int limit, int resized, int offset, int32_t one,
                      int mirrored) {
  const double scale = length / resized, support = scale > 1 ? scale : 1, narrow = 1 / support;
  const int base = (int)start;
  const double fraction = start - base;
  int size = (int)(fraction + length);
  int i, j, k;
  if (size < fraction + length) size++;
  if (size > limit - base) size = limit - base;
  plan->low = limit;
  plan->high = 0;
  for (i = 0; i < plan->outputs; i++) {
    const int row = mirrored ? plan->outputs - 1 - i : i;
    uint16_t *weights = plan->weights + (size_t)row * plan->taps;
    double values[MAX_TAPS + 4], sum = 0, part = 0;
    int32_t given = 0;
    int from, to, at = offset + i;
    plan->first[row] = plan->count[row] = 0;
    if (at < 0 || at >= resized) {
      memset(weights, 0, sizeof *weights * plan->taps);
      continue;
    }
    const double centre = fraction + (at + 0.5) * scale;
    from = centre - support + 0.5 > 0 ? (int)(centre - support + 0.5) : 0;
    to = (int)(centre + support + 0.5);
    if (to > size) to = size;
    if (from >= to) from = to - 1;
    if (to - from > plan->taps) to = from + plan->taps;
    for (j = from; j < to; j++) {
      double distance = (j - centre + 0.5) * narrow;
      double value = 1 - (distance < 0 ? -distance : distance);
      values[j - from] = value > 0 ? value : 0;
      sum += values[j - from];
    }
    if (sum <= 0) values[0] = sum = 1, to = from + 1;
    sum = one / sum;
    for (j = from, k = 0; j < to; j++) {
      int32_t all, weight;
      part += values[j - from];
      all = j + 1 == to ? one : (int32_t)(part * sum + 0.5);
      weight = all - given;
      given = all;
      if (weight == 0 && k == 0) continue; /* nothing before the first weight */
      if (k == 0) plan->first[row] = base + j;
      weights[k++] = (uint16_t)(weight < one ? weight : one - 1);
    }
    for (j = k; j < plan->taps; j++) weights[j] = 0;
    while (k > 1 && weights[k - 1] == 0) k--;
    plan->count[row] = k;
    if (plan->first[row] < plan->low) plan->low = plan->first[row];
    if (plan->first[row] + k > plan->high) plan->high = plan->first[row] + k;
  }
  if (plan->low > plan->high) plan->low = plan->high;
}

/* ---- rows ---- */

/* One pixel of one row, in Q8: 16 bits times 16 bits, of which the upper half counts. */
static inline uint16_t weighed(uint8_t pixel, uint16_t weight) {
  return (uint16_t)(((uint32_t)(uint16_t)(pixel << 8) * weight) >> 16);
}

/* A fixed number of rows, so that their sum stays in a register. */
#define ROWS_FIXED(TAPS, SUM)                                                                                       \
  static void rows_fixed_##TAPS(int16_t *restrict out, const uint8_t *const *rows, const uint16_t *weights, int n) { \
    const uint8_t *restrict a = rows[0], *restrict b = rows[TAPS > 1], *restrict c = rows[TAPS > 2 ? 2 : 0];        \
    const uint8_t *restrict d = rows[TAPS > 3 ? 3 : 0];                                                             \
    const uint16_t p = weights[0], q = weights[TAPS > 1], r = weights[TAPS > 2 ? 2 : 0];                            \
    const uint16_t s = weights[TAPS > 3 ? 3 : 0];                                                                   \
    int i;                                                                                                          \
    (void)b, (void)c, (void)d, (void)q, (void)r, (void)s;                                                           \
    for (i = 0; i < n; i++) out[i] = (int16_t)((uint16_t)((TAPS + 1) / 2 + SUM) >> 1);                              \
  }

ROWS_FIXED(1, weighed(a[i], p))
ROWS_FIXED(2, weighed(a[i], p) + weighed(b[i], q))
ROWS_FIXED(3, weighed(a[i], p) + weighed(b[i], q) + weighed(c[i], r))
ROWS_FIXED(4, weighed(a[i], p) + weighed(b[i], q) + weighed(c[i], r) + weighed(d[i], s))

static void rows_plain(int16_t *out, const uint8_t *const *rows, const uint16_t *weights, int taps, int n) {
  enum { BLOCK = 128 };
  int at, i, k;
  if (taps == 1) {
    rows_fixed_1(out, rows, weights, n);
    return;
  }
  if (taps == 2) {
    rows_fixed_2(out, rows, weights, n);
    return;
  }
  if (taps == 3) {
    rows_fixed_3(out, rows, weights, n);
    return;
  }
  if (taps == 4) {
    rows_fixed_4(out, rows, weights, n);
    return;
  }
  for (at = 0; at < n; at += BLOCK) {
    uint16_t sums[BLOCK];
    const int size = n - at < BLOCK ? n - at : BLOCK;
    for (i = 0; i < size; i++) sums[i] = (uint16_t)((taps + 1) / 2); /* what the shifts cut off, on average */
    for (k = 0; k < taps; k++) {
      const uint8_t *row = rows[k] + at;
      const uint16_t weight = weights[k];
      for (i = 0; i < size; i++) sums[i] = (uint16_t)(sums[i] + weighed(row[i], weight));
    }
    for (i = 0; i < size; i++) out[at + i] = (int16_t)(sums[i] >> 1);
  }
}

#if RESAMPLE_X86
__attribute__((target("avx2"))) static void rows_avx2(
    int16_t *out, const uint8_t *const *rows, const uint16_t *weights, int taps, int n) {
  const __m256i zero = _mm256_setzero_si256(), start = _mm256_set1_epi16((short)((taps + 1) / 2));
  int at, k;
  if (n < 32) {
    rows_plain(out, rows, weights, taps, n);
    return;
  }
  for (at = 0;; at += 32) {
    __m256i low = start, high = start;
    if (at > n - 32) at = n - 32; /* the last ones once more, instead of reading behind the row */
    for (k = 0; k < taps; k++) {
      const __m256i pixels = _mm256_loadu_si256((const __m256i *)(rows[k] + at));
      const __m256i weight = _mm256_set1_epi16((short)weights[k]);
      low = _mm256_add_epi16(low, _mm256_mulhi_epu16(_mm256_unpacklo_epi8(zero, pixels), weight));
      high = _mm256_add_epi16(high, _mm256_mulhi_epu16(_mm256_unpackhi_epi8(zero, pixels), weight));
    }
    low = _mm256_srli_epi16(low, 1);
    high = _mm256_srli_epi16(high, 1);
    _mm256_storeu_si256((__m256i *)(out + at), _mm256_permute2x128_si256(low, high, 0x20));
    _mm256_storeu_si256((__m256i *)(out + at + 16), _mm256_permute2x128_si256(low, high, 0x31));
    if (at + 32 >= n) break;
  }
}
#endif

/* ---- columns ---- */

/* Columns of one row: `in` begins at pixel plan->low. The out row has SLACK bytes behind it. */
typedef struct {
  const side_plan *plan;
  int channels;
  int groups;      /* of 8 output pixels */
  int pairs;       /* of taps */
  int16_t *spread; /* weights as the variant takes them */
  int32_t *starts; /* index into `in`, groups * 8 */
} column_plan;

static void columns_plain(uint8_t *out, const int16_t *in, const column_plan *columns) {
  const side_plan *plan = columns->plan;
  const int taps = 2 * columns->pairs, channels = columns->channels;
  int i, c, k;
  if (channels == 3) {
    for (i = 0; i < plan->outputs; i++) {
      const int16_t *from = in + columns->starts[i];
      const uint16_t *weights = plan->weights + (size_t)i * plan->taps;
      int32_t r = 1 << 21, g = 1 << 21, b = 1 << 21;
      for (k = 0; k < taps; k++, from += 3) {
        const int32_t weight = weights[k];
        r += from[0] * weight;
        g += from[1] * weight;
        b += from[2] * weight;
      }
      out[3 * i] = (uint8_t)(r >> 22);
      out[3 * i + 1] = (uint8_t)(g >> 22);
      out[3 * i + 2] = (uint8_t)(b >> 22);
    }
    return;
  }
  for (i = 0; i < plan->outputs; i++)
    for (c = 0; c < channels; c++) {
      const int16_t *from = in + columns->starts[i] + c;
      const uint16_t *weights = plan->weights + (size_t)i * plan->taps;
      int32_t sum = 1 << 21;
      for (k = 0; k < taps; k++) sum += from[k * channels] * (int32_t)weights[k];
      out[channels * i + c] = (uint8_t)(sum >> 22);
    }
}

#if RESAMPLE_X86
/* r0 g0 b0 r1 g1 b1 . . -> r0 r1 g0 g1 b0 b1 . . (16 bits each) */
#define PAIR_SHUFFLE 0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1
/* r g b x, four times -> twelve bytes and room */
#define DENSE_SHUFFLE 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1

__attribute__((target("sse4.1"))) static void columns_sse41(uint8_t *out, const int16_t *in,
                                                            const column_plan *columns) {
  const __m128i pair = _mm_setr_epi8(PAIR_SHUFFLE), dense = _mm_setr_epi8(DENSE_SHUFFLE);
  const __m128i half = _mm_set1_epi32(1 << 21);
  const int pairs = columns->pairs;
  const int32_t *starts = columns->starts;
  const __m128i *weights = (const __m128i *)columns->spread;
  int group, k, t;
  for (group = 0; group < 2 * columns->groups; group++, starts += 4, out += 12) {
    __m128i sums[4];
    for (k = 0; k < 4; k++) {
      const int16_t *from = in + starts[k];
      __m128i sum = half;
      for (t = 0; t < pairs; t++, from += 6) {
        const __m128i pixels = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)from), pair);
        sum = _mm_add_epi32(sum, _mm_madd_epi16(pixels, _mm_loadu_si128(weights++)));
      }
      sums[k] = _mm_srai_epi32(sum, 22);
    }
    const __m128i packed = _mm_packus_epi16(_mm_packs_epi32(sums[0], sums[1]), _mm_packs_epi32(sums[2], sums[3]));
    _mm_storeu_si128((__m128i *)out, _mm_shuffle_epi8(packed, dense));
  }
}

/* Eight output pixels at once: the lower half of a register has pixel k, the upper half pixel k + 4. */
#define COLUMNS_AVX2(NAME, PAIRS)                                                                                   \
  __attribute__((target("avx2"))) static void NAME(uint8_t *out, const int16_t *in, const column_plan *columns) {   \
    const __m256i pair = _mm256_setr_epi8(PAIR_SHUFFLE, PAIR_SHUFFLE);                                              \
    const __m256i dense = _mm256_setr_epi8(DENSE_SHUFFLE, DENSE_SHUFFLE);                                           \
    const __m256i half = _mm256_set1_epi32(1 << 21);                                                                \
    const int pairs = PAIRS;                                                                                        \
    const int32_t *starts = columns->starts;                                                                        \
    const __m256i *weights = (const __m256i *)columns->spread;                                                      \
    int group, k, t;                                                                                                \
    for (group = 0; group < columns->groups; group++, starts += 8, out += 24) {                                     \
      __m256i sums[4];                                                                                              \
      for (k = 0; k < 4; k++) {                                                                                     \
        const int16_t *left = in + starts[k], *right = in + starts[k + 4];                                          \
        __m256i sum = half;                                                                                         \
        for (t = 0; t < pairs; t++, left += 6, right += 6) {                                                        \
          const __m256i pixels =                                                                                    \
              _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)left)),               \
                                      _mm_loadu_si128((const __m128i *)right), 1);                                  \
          sum = _mm256_add_epi32(                                                                                   \
              sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, pair), _mm256_loadu_si256(weights++)));            \
        }                                                                                                           \
        sums[k] = _mm256_srai_epi32(sum, 22);                                                                       \
      }                                                                                                             \
      const __m256i packed = _mm256_shuffle_epi8(                                                                   \
          _mm256_packus_epi16(_mm256_packs_epi32(sums[0], sums[1]), _mm256_packs_epi32(sums[2], sums[3])), dense);  \
      _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(packed));                                             \
      _mm_storeu_si128((__m128i *)(out + 12), _mm256_extracti128_si256(packed, 1));                                 \
    }                                                                                                               \
  }

COLUMNS_AVX2(columns_avx2_1, 1)
COLUMNS_AVX2(columns_avx2_2, 2)
COLUMNS_AVX2(columns_avx2_any, columns->pairs)
#endif

/* ---- channels apart ---- */

/* Take a line of n pixels of three channels apart; `step` bytes lie between the channels of `out`. */
static void split_plain(uint8_t *out, size_t step, const uint8_t *line, int n) {
  int i, c;
  for (c = 0; c < 3; c++)
    for (i = 0; i < n; i++) out[c * step + i] = line[3 * i + c];
}

#if RESAMPLE_X86
__attribute__((target("sse4.1"))) static void split_sse41(uint8_t *out, size_t step, const uint8_t *line, int n) {
  /* Channel c of 16 pixels: some bytes of each of three registers. */
  int8_t picks[3][3][16];
  __m128i shuffles[3][3];
  int at, c, part, i;
  if (n < 16) {
    split_plain(out, step, line, n);
    return;
  }
  for (c = 0; c < 3; c++)
    for (part = 0; part < 3; part++) {
      for (i = 0; i < 16; i++) {
        const int from = 3 * i + c - 16 * part;
        picks[c][part][i] = (int8_t)(from >= 0 && from < 16 ? from : -1);
      }
      shuffles[c][part] = _mm_loadu_si128((const __m128i *)picks[c][part]);
    }
  for (at = 0;; at += 16) {
    if (at > n - 16) at = n - 16;
    const __m128i a = _mm_loadu_si128((const __m128i *)(line + 3 * at));
    const __m128i b = _mm_loadu_si128((const __m128i *)(line + 3 * at + 16));
    const __m128i d = _mm_loadu_si128((const __m128i *)(line + 3 * at + 32));
    for (c = 0; c < 3; c++)
      _mm_storeu_si128((__m128i *)(out + c * step + at),
                       _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(a, shuffles[c][0]), _mm_shuffle_epi8(b, shuffles[c][1])),
                                    _mm_shuffle_epi8(d, shuffles[c][2])));
    if (at + 16 >= n) break;
  }
}
#endif

/* ---- the variant for this processor ---- */

typedef void (*rows_function)(int16_t *, const uint8_t *const *, const uint16_t *, int, int);
typedef void (*split_function)(uint8_t *, size_t, const uint8_t *, int);
typedef void (*columns_function)(uint8_t *, const int16_t *, const column_plan *);

enum { VARIANT_PLAIN = 0, VARIANT_SSE41 = 1, VARIANT_AVX2 = 2 };

static int resample_best(void) {
#if RESAMPLE_X86
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) return VARIANT_AVX2;
  if (__builtin_cpu_supports("sse4.1")) return VARIANT_SSE41;
#endif
  return VARIANT_PLAIN;
}

static rows_function rows_of(int variant) {
#if RESAMPLE_X86
  if (variant == VARIANT_AVX2) return rows_avx2;
#endif
  (void)variant;
  return rows_plain;
}

static split_function split_of(int variant) {
#if RESAMPLE_X86
  if (variant >= VARIANT_SSE41) return split_sse41;
#endif
  (void)variant;
  return split_plain;
}

/* Choose the function for columns; lay out the weights as it takes them. */
static columns_function columns_of(int variant, column_plan *columns) {
#if RESAMPLE_X86
  const side_plan *plan = columns->plan;
  int group, k, t, lane;
  if (columns->channels != 3) return columns_plain;
  if (variant == VARIANT_AVX2 || variant == VARIANT_SSE41) {
    const int avx = variant == VARIANT_AVX2, lanes = avx ? 2 : 1, rounds = avx ? columns->groups : 2 * columns->groups;
    uint32_t *out = (uint32_t *)columns->spread;
    for (group = 0; group < rounds; group++)
      for (k = 0; k < 4; k++)
        for (t = 0; t < columns->pairs; t++)
          for (lane = 0; lane < lanes; lane++, out += 4) {
            const int i = group * 4 * lanes + lane * 4 + k;
            uint32_t weights = 0;
            if (i < plan->outputs) memcpy(&weights, plan->weights + (size_t)i * plan->taps + 2 * t, 4);
            out[0] = out[1] = out[2] = out[3] = weights;
          }
    if (!avx) return columns_sse41;
    return columns->pairs == 1 ? columns_avx2_1 : columns->pairs == 2 ? columns_avx2_2 : columns_avx2_any;
  }
#endif
  (void)variant;
  return columns_plain;
}

#endif
