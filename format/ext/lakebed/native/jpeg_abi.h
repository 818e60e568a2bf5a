/* The public binary interface of libjpeg-turbo, bound at run time: libjpeg.so.62, which Pillow's wheels, Debian, Fedora
   and macOS have, or libjpeg.so.8, which Ubuntu and conda have.

   No header of the library is needed to build this. The structures below declare what that interface fixes: order,
   types and so the size of the fields, under names of our own where nothing here uses them. jpeg_CreateDecompress is
   given the version and the size and refuses a library that was built for another layout. */
#ifndef LAKEBED_JPEG_ABI_H
#define LAKEBED_JPEG_ABI_H

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#ifdef _WIN32
#define JPEG_ABI_BINDS 0
#else
#define JPEG_ABI_BINDS 1
#include <dlfcn.h>
#endif

/* Without the signal mask, whose keeping is a system call where setjmp includes it. */
#ifdef _WIN32
#define JPEG_CATCH setjmp
#define JPEG_THROW longjmp
#else
#define JPEG_CATCH _setjmp
#define JPEG_THROW _longjmp
#endif

enum { COLOR_GRAY = 1, COLOR_RGB = 2, COLOR_YCC = 3 };

struct jpeg_decoder;

typedef struct {
  void (*error_exit)(struct jpeg_decoder *);
  void (*emit_message)(struct jpeg_decoder *, int);
  void (*output_message)(struct jpeg_decoder *);
  void (*format_message)(struct jpeg_decoder *, char *);
  void (*reset)(struct jpeg_decoder *);
  int message_code;
  union {
    int numbers[8];
    char text[80];
  } message_arguments;
  int trace_level;
  long warnings;
  const char *const *messages;
  int last_message;
  const char *const *more_messages;
  int first_more, last_more;
} jpeg_errors;

/* Fields that nothing here uses, from where the versions differ. */
#define JPEG_DECODER_REST(BASELINE, MIN_TRANSFORM, BLOCK)                     \
  struct {                                                                    \
    BASELINE int progressive, arithmetic;                                     \
    uint8_t arithmetic_low[16], arithmetic_high[16], arithmetic_k[16];        \
    unsigned int restart_interval;                                            \
    int has_jfif;                                                             \
    uint8_t jfif_major, jfif_minor, density_unit;                             \
    uint16_t density_x, density_y;                                            \
    int has_adobe;                                                            \
    uint8_t adobe_transform;                                                  \
    int ccir601;                                                              \
    void *markers;                                                            \
    int max_h, max_v;                                                         \
    MIN_TRANSFORM;                                                            \
    unsigned int total_rows;                                                  \
    void *range_limit;                                                        \
    int components_in_scan;                                                   \
    void *scan_components[4];                                                 \
    unsigned int units_per_row, unit_rows;                                    \
    int blocks_in_unit, unit_membership[10];                                  \
    int spectral_start, spectral_end, high_bits, low_bits;                    \
    BLOCK int unread_marker;                                                  \
    void *modules[11];                                                        \
  }

typedef struct jpeg_decoder {
  jpeg_errors *errors;
  void *memory, *progress, *client;
  int is_decoder, state;
  void *source;
  unsigned int image_width, image_height;
  int components;
  int jpeg_color, out_color;
  unsigned int scale_numerator, scale_denominator;
  double gamma;
  int buffered, raw, transform, smooth_upsampling, smooth_blocks;
  int quantize, dither, two_pass, colors, one_pass_quantizer, external_quantizer, two_pass_quantizer;
  unsigned int output_width, output_height;
  int output_colors, output_components, recommended_rows;
  int actual_colors;
  void *color_map;
  unsigned int output_scanline;
  int input_scan;
  unsigned int input_row;
  int output_scan;
  unsigned int output_row;
  void *coefficient_bits;
  void *quantization_tables[4], *dc_tables[4], *ac_tables[4];
  int precision;
  void *component_table;
  union {
    JPEG_DECODER_REST(/* none */, int min_transform, /* none */) of_62;
    JPEG_DECODER_REST(int baseline;, int min_transform_height; int min_transform_width,
                      int block_size; const int *order; int last_coefficient;) of_80;
  } rest;
} jpeg_decoder;

enum { JPEG_VERSIONS = 2 };

static const struct {
  int version;
  size_t size;
} JPEG_LAYOUTS[JPEG_VERSIONS] = {
    {62, offsetof(jpeg_decoder, rest) + sizeof(((jpeg_decoder *)0)->rest.of_62)},
    {80, offsetof(jpeg_decoder, rest) + sizeof(((jpeg_decoder *)0)->rest.of_80)},
};

/* The functions that are used, of the library that is bound. */
typedef struct {
  int layout;
  jpeg_errors *(*std_error)(jpeg_errors *);
  void (*create)(jpeg_decoder *, int, size_t);
  void (*destroy)(jpeg_decoder *);
  void (*from_memory)(jpeg_decoder *, const unsigned char *, unsigned long);
  int (*read_header)(jpeg_decoder *, int);
  int (*start)(jpeg_decoder *);
  void (*crop)(jpeg_decoder *, unsigned int *, unsigned int *);
  unsigned int (*skip)(jpeg_decoder *, unsigned int);
  unsigned int (*read)(jpeg_decoder *, uint8_t **, unsigned int);
  void (*abort)(jpeg_decoder *);
} jpeg_library;

/* A decoder with its way out of errors. The decoder is the first field: the library hands back a pointer to it. */
typedef struct {
  jpeg_decoder decoder;
  jpeg_errors errors;
  jmp_buf out;
  char message[200]; /* JMSG_LENGTH_MAX */
} jpeg_reader;

static void jpeg_reader_fail(jpeg_decoder *decoder) {
  jpeg_reader *reader = (jpeg_reader *)decoder;
  reader->errors.format_message(decoder, reader->message);
  JPEG_THROW(reader->out, 1);
}

/* A warning tells of damaged data: the file is left to a decoder that has the last word on it. */
static void jpeg_reader_warn(jpeg_decoder *decoder, int level) {
  if (level < 0) jpeg_reader_fail(decoder);
}

static void jpeg_reader_silent(jpeg_decoder *decoder) { (void)decoder; }

/* Make a decoder; 0 if the library refuses its version or its size, with a message. */
static int jpeg_reader_open(const jpeg_library *library, jpeg_reader *reader) {
  memset(reader, 0, sizeof *reader);
  reader->decoder.errors = library->std_error(&reader->errors);
  reader->errors.error_exit = jpeg_reader_fail;
  reader->errors.emit_message = jpeg_reader_warn;
  reader->errors.output_message = jpeg_reader_silent;
  if (JPEG_CATCH(reader->out)) return 0;
  library->create(&reader->decoder, JPEG_LAYOUTS[library->layout].version, JPEG_LAYOUTS[library->layout].size);
  return 1;
}

/* Bind the library in a file. Returns NULL, or why it cannot be used: a text in `message`. */
static const char *jpeg_library_bind(jpeg_library *library, const char *path, char *message, size_t room) {
#if JPEG_ABI_BINDS
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  jpeg_reader reader;
  size_t i;
  struct {
    const char *name;
    void **target;
  } functions[] = {
      {"jpeg_crop_scanline", (void **)&library->crop}, /* of libjpeg-turbo alone */
      {"jpeg_skip_scanlines", (void **)&library->skip},
      {"jpeg_std_error", (void **)&library->std_error},
      {"jpeg_CreateDecompress", (void **)&library->create},
      {"jpeg_destroy_decompress", (void **)&library->destroy},
      {"jpeg_mem_src", (void **)&library->from_memory},
      {"jpeg_read_header", (void **)&library->read_header},
      {"jpeg_start_decompress", (void **)&library->start},
      {"jpeg_read_scanlines", (void **)&library->read},
      {"jpeg_abort_decompress", (void **)&library->abort},
  };
  if (handle == NULL) {
    const char *why = dlerror();
    snprintf(message, room, "%s", why != NULL ? why : "it cannot be loaded");
    return message;
  }
  for (i = 0; i < sizeof functions / sizeof *functions; i++) {
    *functions[i].target = dlsym(handle, functions[i].name);
    if (*functions[i].target == NULL) {
      snprintf(message, room, "it has no %s", functions[i].name);
      dlclose(handle);
      return message;
    }
  }
  for (library->layout = 0; library->layout < JPEG_VERSIONS; library->layout++)
    if (jpeg_reader_open(library, &reader)) {
      library->destroy(&reader.decoder);
      return NULL;
    }
  snprintf(message, room, "%s", reader.message);
  dlclose(handle);
  return message;
#else
  (void)library, (void)path;
  snprintf(message, room, "libraries are not bound at run time on this system");
  return message;
#endif
}

#endif
