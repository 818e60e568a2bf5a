/* Regions of images, resized straight into the rooms of a batch: of JPEG files, of which only what a region needs is
   decoded, and of arrays. No Python here; one call does many samples with one block of scratch memory. */
#ifndef LAKEBED_REGIONS_H
#define LAKEBED_REGIONS_H

#include <stdlib.h>

#include "lakebed/native/jpeg_abi.h"
#include "lakebed/native/resample.h"

enum {
  REGION_DONE = 0,
  REGION_BOX = 1,     /* the box leaves the image, or is resized too far */
  REGION_OTHER = 2,   /* a JPEG file of another kind or shape than the caller says */
  REGION_DAMAGED = 3, /* the library complains about the data */
  REGION_ENDS = 4,    /* no end-of-image marker: cut off */
  REGION_MEMORY = 5,
  REGION_LIBRARY = 6 /* no library is bound */
};

enum { MAX_SIDE = 65535, ROWS_AT_ONCE = 4 };

/* One sample: a box of an image becomes `resized` pixels, of which the window at `offset` with the size of the room is
   written into the room. What of the window lies outside of the resized box becomes 0. A room of floats gets
   value * factors[c] + factors[channels + c] of each value. */
typedef struct {
  const uint8_t *data; /* a JPEG file; pixels of an array */
  size_t size;         /* bytes */
  int height, width, channels;
  int top, left, box_height, box_width;
  int resized_height, resized_width, offset_y, offset_x;
  void *room;           /* uint8_t, or float if there are factors */
  const float *factors; /* NULL, or those to multiply with, then those to add, one per channel */
  int room_height, room_width, room_channels;
  int planar; /* channels first */
  int flip;
  int is_float; /* the room is of floats, and there are factors */
  int status;
} region;

typedef struct {
  uint8_t *memory;
  size_t capacity;
} scratch;

/* What is prepared for one sample: plans of both sides, and the lines between them. */
typedef struct {
  const region *sample;
  int is_copy; /* nothing is resized */
  int is_direct; /* lines are those of the room */
  side_plan y, x;
  column_plan columns;
  rows_function rows;
  columns_function make;
  split_function split;
  int16_t *line;
  uint8_t *out_line;
  uint8_t *planes; /* a line for each channel */
  int variant;
  float scale[96], shift[96]; /* of rooms of floats: of 24 values after each other, for each line if it is planar */
  /* of a copy: the part of the window that has pixels, and where they come from */
  int from_y, until_y, from_x, until_x, source_y, source_x;
} region_plan;

static int scratch_reserve(scratch *memory, size_t size) {
  if (size > memory->capacity) {
    uint8_t *larger = (uint8_t *)realloc(memory->memory, size + size / 2);
    if (larger == NULL) return 0;
    memory->memory = larger;
    memory->capacity = size + size / 2;
  }
  return 1;
}

static int region_is_sound(const region *r) {
  return r->height > 0 && r->width > 0 && r->height <= MAX_SIDE && r->width <= MAX_SIDE && r->top >= 0 &&
         r->left >= 0 && r->box_height > 0 && r->box_width > 0 && r->box_height <= r->height - r->top &&
         r->box_width <= r->width - r->left && r->resized_height > 0 && r->resized_width > 0 &&
         r->resized_height <= MAX_SIDE && r->resized_width <= MAX_SIDE && r->offset_y > -MAX_SIDE &&
         r->offset_x > -MAX_SIDE && r->offset_y < MAX_SIDE && r->offset_x < MAX_SIDE && r->room_height > 0 &&
         r->room_width > 0 && r->room_height <= MAX_SIDE && r->room_width <= MAX_SIDE;
}

static size_t aligned(size_t size) { return (size + 63) & ~(size_t)63; }

/* The part of a window of `room` pixels at `offset` that lies within `size` pixels. */
static void window_part(int offset, int room, int size, int *from, int *until) {
  *from = offset < 0 ? -offset : 0;
  *until = size - offset < room ? size - offset : room;
  if (*from > room) *from = room;
  if (*until < *from) *until = *from;
}

/* Prepare a sample of an image that was scaled down by `scale`, `height` x `width` pixels now. `extra` bytes of the
   scratch memory are left to the caller, at the address that comes back; NULL where memory is missing. */
static uint8_t *region_prepare(region_plan *plan, const region *r, scratch *memory, int scale, int height, int width,
                               int variant, size_t extra) {
  const int channels = r->room_channels;
  const int groups = (r->room_width + 7) / 8;
  const size_t out_line = aligned((size_t)channels * 8 * groups + SLACK);
  uint8_t *at;
  int i, most;
  plan->sample = r;
  plan->variant = variant;
  for (i = 0; r->factors != NULL && i < 96; i++) {
    const int c = r->planar && channels > 1 ? i / 24 % channels : i % channels;
    plan->scale[i] = r->factors[c];
    plan->shift[i] = r->factors[channels + c];
  }
  plan->split = split_of(variant);
  plan->is_direct = r->factors == NULL && !(r->planar && channels > 1);
  plan->is_copy = scale == 1 && r->box_height == r->resized_height && r->box_width == r->resized_width;
  if (plan->is_copy) {
    window_part(r->offset_y, r->room_height, r->resized_height, &plan->from_y, &plan->until_y);
    window_part(r->offset_x, r->room_width, r->resized_width, &plan->from_x, &plan->until_x);
    plan->source_y = r->top + r->offset_y + plan->from_y;
    plan->source_x = r->left + r->offset_x + plan->from_x;
    plan->y.low = plan->source_y;
    plan->y.high = plan->source_y + plan->until_y - plan->from_y;
    plan->x.low = plan->source_x;
    plan->x.high = plan->source_x + plan->until_x - plan->from_x;
    if (!scratch_reserve(memory, extra + 2 * out_line + 64)) return NULL;
    plan->out_line = (uint8_t *)aligned((size_t)memory->memory);
    plan->planes = plan->out_line + out_line;
    return plan->planes + out_line;
  }
  const double top = (double)r->top / scale, left = (double)r->left / scale;
  const double box_height = (double)r->box_height / scale, box_width = (double)r->box_width / scale;
  side_plan *y = &plan->y, *x = &plan->x;
  y->outputs = r->room_height;
  x->outputs = r->room_width;
  y->taps = side_taps(box_height, r->resized_height);
  x->taps = side_taps(box_width, r->resized_width);
  const int most_pixels = width - (int)left;
  const size_t y_index = aligned(sizeof(int32_t) * y->outputs), x_index = aligned(sizeof(int32_t) * x->outputs);
  const size_t y_weights = aligned(sizeof(uint16_t) * y->outputs * y->taps);
  const size_t x_weights = aligned(sizeof(uint16_t) * x->outputs * x->taps);
  const size_t spread = aligned((size_t)8 * groups * (x->taps / 2) * 16), starts = aligned(sizeof(int32_t) * 8 * groups);
  const size_t line = aligned(sizeof(int16_t) * channels * ((size_t)most_pixels + x->taps) + 2 * SLACK);
  if (!scratch_reserve(memory,
                       2 * y_index + 2 * x_index + y_weights + x_weights + spread + starts + line + 2 * out_line + extra + 64))
    return NULL;
  at = (uint8_t *)aligned((size_t)memory->memory);
  y->first = (int32_t *)at, at += y_index;
  y->count = (int32_t *)at, at += y_index;
  x->first = (int32_t *)at, at += x_index;
  x->count = (int32_t *)at, at += x_index;
  y->weights = (uint16_t *)at, at += y_weights;
  x->weights = (uint16_t *)at, at += x_weights;
  plan->columns.spread = (int16_t *)at, at += spread;
  plan->columns.starts = (int32_t *)at, at += starts;
  plan->line = (int16_t *)at, at += line;
  plan->out_line = at, at += out_line;
  plan->planes = at, at += out_line;
  side_make(y, top, box_height, height, r->resized_height, r->offset_y, 1 << 16, 0);
  side_make(x, left, box_width, width, r->resized_width, r->offset_x, 1 << 15, r->flip);
  plan->columns.plan = x;
  plan->columns.channels = channels;
  plan->columns.groups = groups;
  for (i = 0, most = 1; i < x->outputs; i++)
    if (x->count[i] > most) most = x->count[i];
  plan->columns.pairs = (most + 1) / 2;
  for (i = 0; i < 8 * groups; i++)
    plan->columns.starts[i] = i < x->outputs && x->count[i] ? (x->first[i] - x->low) * channels : 0;
  /* What lies behind the last pixel is read and given no weight. */
  memset(plan->line + (size_t)channels * (x->high - x->low), 0, sizeof(int16_t) * channels * x->taps + 2 * SLACK);
  plan->rows = rows_of(variant);
  plan->make = columns_of(variant, &plan->columns);
  return at;
}

/* Write n values of one plane as floats. */
static void floats_plain(float *out, const uint8_t *values, int n, float scale, float shift) {
  int i;
  for (i = 0; i < n; i++) out[i] = (float)values[i] * scale + shift;
}

/* Write n pixels as floats. */
static void pixels_plain(float *out, const uint8_t *line, int n, int channels, const float *factors) {
  int i, c;
  for (c = 0; c < channels; c++)
    for (i = 0; i < n; i++) out[i * channels + c] = (float)line[i * channels + c] * factors[c] + factors[channels + c];
}

#if RESAMPLE_X86
/* Write n values as floats; `scale` and `shift` are those of 24 values, after which they repeat. Aligned rooms are
   written past the cache: they are read when the batch is done. */
__attribute__((target("avx2"))) static void floats_avx2(float *out, const uint8_t *values, int n, const float *scale,
                                                        const float *shift) {
  const int streams = ((size_t)out & 31) == 0;
  int i, k;
  for (i = 0; i + 24 <= n; i += 24)
    for (k = 0; k < 24; k += 8) {
      const __m256 made = _mm256_add_ps(
          _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(values + i + k)))),
                        _mm256_loadu_ps(scale + k)),
          _mm256_loadu_ps(shift + k));
      if (streams)
        _mm256_stream_ps(out + i + k, made);
      else
        _mm256_storeu_ps(out + i + k, made);
    }
  for (k = 0; i + k < n; k++) out[i + k] = (float)values[i + k] * scale[k] + shift[k];
}
#endif

/* Write a line of the room, channels last, into it. */
static void region_store(const region_plan *plan, int row, int from, int until, const uint8_t *line) {
  const region *r = plan->sample;
  const int channels = r->room_channels, n = until - from;
  const size_t plane = (size_t)r->room_height * r->room_width, at = (size_t)row * r->room_width + from;
  const int is_planar = r->planar && channels > 1;
  uint8_t *out = (uint8_t *)r->room;
  size_t step = plane;
  int c, i;
  if (n <= 0) return;
  if (!is_planar) {
    if (r->factors == NULL) {
      memcpy(out + at * channels, line, (size_t)n * channels);
      return;
    }
    float *floats = (float *)r->room + at * channels;
#if RESAMPLE_X86
    if (plan->variant == VARIANT_AVX2) {
      floats_avx2(floats, line, n * channels, plan->scale, plan->shift);
      return;
    }
#endif
    pixels_plain(floats, line, n, channels, r->factors);
    return;
  }
  if (r->factors != NULL) { /* by way of a line for each channel */
    out = plan->planes;
    step = (size_t)r->room_width;
  } else {
    out += at;
  }
  if (channels == 3)
    plan->split(out, step, line, n);
  else
    for (c = 0; c < channels; c++)
      for (i = 0; i < n; i++) out[c * step + i] = line[i * channels + c];
  if (r->factors == NULL) return;
  for (c = 0; c < channels; c++) {
    float *floats = (float *)r->room + c * plane + at;
#if RESAMPLE_X86
    if (plan->variant == VARIANT_AVX2) {
      floats_avx2(floats, out + c * step, n, plan->scale + 24 * c, plan->shift + 24 * c);
      continue;
    }
#endif
    floats_plain(floats, out + c * step, n, r->factors[c], r->factors[channels + c]);
  }
}

/* Write zeros. */
static void region_clear(const region *r, int row, int from, int until) {
  const int channels = r->room_channels, is_planar = r->planar && channels > 1;
  const size_t plane = (size_t)r->room_height * r->room_width, at = (size_t)row * r->room_width + from;
  int c, i;
  if (until <= from) return;
  if (r->factors != NULL) {
    for (c = 0; c < channels; c++) {
      float *floats = (float *)r->room + (is_planar ? c * plane + at : at * channels + c);
      for (i = 0; i < until - from; i++) floats[(size_t)i * (is_planar ? 1 : channels)] = r->factors[channels + c];
    }
    return;
  }
  if (!is_planar) {
    memset((uint8_t *)r->room + at * channels, 0, (size_t)(until - from) * channels);
    return;
  }
  for (c = 0; c < channels; c++) memset((uint8_t *)r->room + c * plane + at, 0, (size_t)(until - from));
}

/* Make row `y` of the room of the source rows that it needs; each begins at pixel plan->x.low. */
static void region_row(const region_plan *plan, int y, const uint8_t *const *rows) {
  const region *r = plan->sample;
  if (plan->y.count[y] == 0) {
    region_clear(r, y, 0, r->room_width);
    return;
  }
  const size_t line = (size_t)r->room_width * r->room_channels;
  plan->rows(plan->line, rows, plan->y.weights + (size_t)y * plan->y.taps, plan->y.count[y],
             (plan->x.high - plan->x.low) * r->room_channels);
  /* What is written behind a line is overwritten by the next ones. */
  if (plan->is_direct && (size_t)(r->room_height - 1 - y) * line >= SLACK) {
    plan->make((uint8_t *)r->room + (size_t)y * line, plan->line, &plan->columns);
    return;
  }
  plan->make(plan->out_line, plan->line, &plan->columns);
  region_store(plan, y, 0, r->room_width, plan->out_line);
}

/* Copy a source row, which begins at pixel plan->x.low, into row `y` of the room. */
static void region_copy_row(const region_plan *plan, int y, const uint8_t *row) {
  const region *r = plan->sample;
  const int channels = r->room_channels, n = plan->until_x - plan->from_x;
  const int from = r->flip ? r->room_width - plan->until_x : plan->from_x, until = from + n;
  int i, c;
  region_clear(r, y, 0, from);
  region_clear(r, y, until, r->room_width);
  if (r->flip) {
    for (i = 0; i < n; i++)
      for (c = 0; c < channels; c++) plan->out_line[i * channels + c] = row[(n - 1 - i) * channels + c];
    row = plan->out_line;
  }
  region_store(plan, y, from, until, row);
}

static void region_clear_outside(const region_plan *plan) {
  int y;
  for (y = 0; y < plan->from_y; y++) region_clear(plan->sample, y, 0, plan->sample->room_width);
  for (y = plan->until_y; y < plan->sample->room_height; y++)
    region_clear(plan->sample, y, 0, plan->sample->room_width);
}

/* ---- arrays ---- */

/* A region of an array of height x width x channels. */
static int region_of_array(const region *r, scratch *memory, int variant) {
  region_plan plan;
  const uint8_t *rows[MAX_TAPS + 2];
  const size_t stride = (size_t)r->width * r->channels;
  int y, k;
  if (!region_is_sound(r) || r->channels != r->room_channels || r->size < stride * r->height) return REGION_BOX;
  if (side_taps(r->box_height, r->resized_height) > MAX_TAPS || side_taps(r->box_width, r->resized_width) > MAX_TAPS)
    return REGION_BOX;
  if (region_prepare(&plan, r, memory, 1, r->height, r->width, variant, 0) == NULL) return REGION_MEMORY;
  if (plan.y.low >= plan.y.high || plan.x.low >= plan.x.high) {
    for (y = 0; y < r->room_height; y++) region_clear(r, y, 0, r->room_width);
    return REGION_DONE;
  }
  const uint8_t *source = r->data + (size_t)plan.x.low * r->channels;
  if (plan.is_copy) {
    region_clear_outside(&plan);
    for (y = plan.from_y; y < plan.until_y; y++)
      region_copy_row(&plan, y, source + (size_t)(plan.source_y + y - plan.from_y) * stride);
    return REGION_DONE;
  }
  for (y = 0; y < r->room_height; y++) {
    for (k = 0; k < plan.y.count[y]; k++) rows[k] = source + (size_t)(plan.y.first[y] + k) * stride;
    region_row(&plan, y, rows);
  }
  return REGION_DONE;
}

/* ---- JPEG files ---- */

/* Tell whether there is an end-of-image marker behind the first bytes; files that were cut off have none. */
static int jpeg_ends(const uint8_t *data, size_t size) {
  size_t at;
  for (at = size; at >= 4; at--)
    if (data[at - 1] == 0xD9 && data[at - 2] == 0xFF) return 1;
  return 0;
}

/* How far the file may be scaled down while it is decoded: the box has still at least the pixels that are wanted. */
static int jpeg_scale(const region *r) {
  int scale = 8;
  while (scale > 1 && (r->box_height < r->resized_height * scale || r->box_width < r->resized_width * scale))
    scale /= 2;
  return scale;
}

/* The sample that a worker decodes lies outside of the function that errors return to. */
typedef struct {
  jpeg_reader reader;
  const jpeg_library *library;
  scratch memory;
  int variant, scaled;
} jpeg_worker;

static int region_read(jpeg_worker *worker, const region *r) {
  jpeg_decoder *decoder = &worker->reader.decoder;
  const jpeg_library *library = worker->library;
  const int channels = r->room_channels;
  const int scale = worker->scaled ? jpeg_scale(r) : 1;
  const int height = (r->height + scale - 1) / scale, width = (r->width + scale - 1) / scale;
  region_plan plan;
  const uint8_t *rows[MAX_TAPS + 2];
  uint8_t *into[ROWS_AT_ONCE];
  uint8_t *ring, *spare;
  size_t stride;
  int slots, next, y, k, left, n, wanted, direct;

  if (side_taps((double)r->box_height / scale, r->resized_height) > MAX_TAPS ||
      side_taps((double)r->box_width / scale, r->resized_width) > MAX_TAPS)
    return REGION_BOX;
  library->from_memory(decoder, r->data, (unsigned long)r->size);
  if (library->read_header(decoder, 1) != 1) return REGION_DAMAGED;
  if ((int64_t)decoder->image_height != r->height || (int64_t)decoder->image_width != r->width ||
      decoder->components != r->channels || decoder->precision != 8)
    return REGION_OTHER;
  if (decoder->components == 1 ? decoder->jpeg_color != COLOR_GRAY
                               : decoder->jpeg_color != COLOR_YCC && decoder->jpeg_color != COLOR_RGB)
    return REGION_OTHER;
  decoder->out_color = channels == 1 ? COLOR_GRAY : COLOR_RGB;
  decoder->scale_numerator = 1;
  decoder->scale_denominator = (unsigned int)scale;

  /* Room for the rows that one output row needs, those that are read at once, and one to read the margin into. */
  slots = side_taps((double)r->box_height / scale, r->resized_height) + ROWS_AT_ONCE;
  stride = aligned((size_t)width * channels + SLACK);
  spare = region_prepare(&plan, r, &worker->memory, scale, height, width, worker->variant, stride * slots + SLACK);
  if (spare == NULL) return REGION_MEMORY;
  /* libjpeg-turbo writes aligned rows past the cache, where they would have to be read back from memory. */
  ring = (uint8_t *)aligned((size_t)spare) + 8;
  if (plan.is_copy) region_clear_outside(&plan);
  if (plan.y.low >= plan.y.high || plan.x.low >= plan.x.high) {
    for (y = 0; y < r->room_height; y++) region_clear(r, y, 0, r->room_width);
    return REGION_DONE;
  }

  library->start(decoder);
  if ((int64_t)decoder->output_width != width || (int64_t)decoder->output_height != height ||
      decoder->output_components != channels)
    return REGION_OTHER;
  left = 0;
  /* Smooth upsampling looks one chroma sample to each side: two pixels more make the region's own ones exact. */
  if (plan.x.low > 2 || plan.x.high + 2 < width) {
    unsigned int from = plan.x.low > 2 ? (unsigned int)plan.x.low - 2 : 0;
    unsigned int size = (unsigned int)(plan.x.high + 2 < width ? plan.x.high + 2 : width) - from;
    library->crop(decoder, &from, &size);
    left = (int)from;
    if (left > plan.x.low || (int64_t)decoder->output_width < plan.x.high - left ||
        (int64_t)decoder->output_width > width - left)
      return REGION_OTHER;
  }
  next = plan.y.low;
  if (next > 0 && library->skip(decoder, (unsigned int)next) != (unsigned int)next) return REGION_DAMAGED;
  const size_t shift = (size_t)(plan.x.low - left) * channels;

  if (plan.is_copy) {
    direct = shift == 0 && decoder->output_width == (unsigned int)(plan.x.high - plan.x.low) && !r->flip &&
             plan.from_x == 0 && plan.until_x == r->room_width && !(r->planar && channels > 1) && r->factors == NULL;
    y = plan.from_y;
    while (y < plan.until_y) {
      wanted = plan.until_y - y < ROWS_AT_ONCE ? plan.until_y - y : ROWS_AT_ONCE;
      for (k = 0; k < wanted; k++)
        into[k] = direct ? (uint8_t *)r->room + (size_t)(y + k) * r->room_width * channels : ring + stride * k;
      n = (int)library->read(decoder, into, (unsigned int)wanted);
      if (n <= 0 || n > wanted) return REGION_DAMAGED;
      for (k = 0; k < n && !direct; k++) region_copy_row(&plan, y + k, into[k] + shift);
      y += n;
    }
    return REGION_DONE;
  }
  for (y = 0; y < r->room_height; y++) {
    const int first = plan.y.first[y], until = first + plan.y.count[y];
    while (plan.y.count[y] && next < until) {
      wanted = plan.y.high - next < ROWS_AT_ONCE ? plan.y.high - next : ROWS_AT_ONCE;
      for (k = 0; k < wanted; k++) into[k] = ring + stride * ((next + k) % slots);
      n = (int)library->read(decoder, into, (unsigned int)wanted);
      if (n <= 0 || n > wanted) return REGION_DAMAGED;
      next += n;
    }
    const uint8_t *row = ring + stride * (first % slots) + shift, *const end = ring + stride * slots;
    for (k = 0; k < plan.y.count[y]; k++) {
      rows[k] = row;
      row += stride;
      if (row >= end) row -= stride * slots;
    }
    region_row(&plan, y, rows);
  }
  return REGION_DONE;
}

static int region_of_jpeg(jpeg_worker *worker, const region *r) {
  int status;
  if (!region_is_sound(r)) return REGION_BOX;
  if ((r->channels != 1 && r->channels != 3) || (r->room_channels != r->channels && r->room_channels != 3))
    return REGION_OTHER;
  if (!jpeg_ends(r->data, r->size)) return REGION_ENDS;
  if (JPEG_CATCH(worker->reader.out))
    status = REGION_DAMAGED;
  else
    status = region_read(worker, r);
  worker->library->abort(&worker->reader.decoder);
  return status;
}

/* Let other threads see what was written past the cache before they see that it is done. */
static void regions_written(void) {
#if RESAMPLE_X86
  _mm_sfence();
#endif
}

/* Decode samples; each gets its status. */
static void regions_of_jpegs(const jpeg_library *library, region *samples, ptrdiff_t n, int scaled, int variant) {
  jpeg_worker worker;
  ptrdiff_t i;
  int is_open;
  worker.library = library;
  worker.memory.memory = NULL;
  worker.memory.capacity = 0;
  worker.variant = variant;
  worker.scaled = scaled;
  is_open = library->create != NULL && jpeg_reader_open(library, &worker.reader);
  for (i = 0; i < n; i++) samples[i].status = is_open ? region_of_jpeg(&worker, &samples[i]) : REGION_LIBRARY;
  if (is_open) library->destroy(&worker.reader.decoder);
  free(worker.memory.memory);
  regions_written();
}

/* Resize samples of arrays; each gets its status. */
static void regions_of_arrays(region *samples, ptrdiff_t n, int variant) {
  scratch memory = {NULL, 0};
  ptrdiff_t i;
  for (i = 0; i < n; i++) samples[i].status = region_of_array(&samples[i], &memory, variant);
  free(memory.memory);
  regions_written();
}

#endif
