/* The limit of region decoding: a bare loop that decodes the scan lines of each box into one hot buffer, and nothing else. */
#include <stdlib.h>
#include <time.h>

#include "lakebed/native/jpeg_abi.h"

static jpeg_library library;

int limit_bind(const char *path, char *message, size_t room) {
  return jpeg_library_bind(&library, path, message, room) == NULL;
}

/* Decode each box (top, left, height, width), scaled down by scales[i]; returns how many failed. */
int limit_decode(const uint8_t *const *files, const size_t *sizes, const int32_t *boxes, const int32_t *scales, int n,
                 uint8_t *room, size_t room_size, int partial) {
  jpeg_reader reader;
  int i, failed = 0;
  if (!jpeg_reader_open(&library, &reader)) return n;
  for (i = 0; i < n; i++) {
    jpeg_decoder *d = &reader.decoder;
    if (JPEG_CATCH(reader.out)) {
      failed++;
    } else {
      const int32_t *box = boxes + 4 * i;
      const unsigned int scale = (unsigned int)scales[i];
      library.from_memory(d, files[i], (unsigned long)sizes[i]);
      library.read_header(d, 1);
      d->out_color = COLOR_RGB;
      d->scale_numerator = 1;
      d->scale_denominator = scale;
      library.start(d);
      unsigned int top = 0, bottom = d->output_height;
      if (partial) {
        unsigned int left = (unsigned int)box[1] / scale, width = ((unsigned int)box[3] + scale - 1) / scale;
        if (left + width > d->output_width) width = d->output_width - left;
        library.crop(d, &left, &width);
        top = (unsigned int)box[0] / scale;
        bottom = ((unsigned int)(box[0] + box[2]) + scale - 1) / scale;
        if (bottom > d->output_height) bottom = d->output_height;
        library.skip(d, top);
      }
      size_t stride = (size_t)d->output_width * 3;
      if (stride * (bottom - top) > room_size) bottom = top;
      while (d->output_scanline < bottom) {
        uint8_t *row = room + stride * (d->output_scanline - top);
        library.read(d, &row, 1);
      }
    }
    library.abort(&reader.decoder);
  }
  library.destroy(&reader.decoder);
  return failed;
}
