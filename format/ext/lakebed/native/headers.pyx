"""Headers of JPEG (ITU-T T.81, annex B) and PNG (W3C PNG, section 5) files: extents, channels, depth, EXIF or not.

Every read is checked against the end of its buffer first. A batch is read by one loop, without Python code per file;
damage behind the header is found by the decoder.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

import numpy as np

# Flags of a header.
EXIF = 1      # the file has EXIF data
PLAIN = 2     # 8 bits per channel and a common colour type: the array is uint8 with the shape in the header
DAMAGED = 4   # the file has no valid header

cdef enum:
    F_EXIF = 1
    F_PLAIN = 2
    F_DAMAGED = 4

cdef struct Header:
    uint32_t height
    uint32_t width
    uint32_t channels
    uint32_t depth
    uint32_t kind        # JPEG: low half of the SOF marker; PNG: colour type
    uint32_t flags
    const char* error


cdef inline uint32_t be16(const uint8_t* p) noexcept nogil:
    return (<uint32_t> p[0] << 8) | p[1]


cdef inline uint32_t be32(const uint8_t* p) noexcept nogil:
    return (<uint32_t> p[0] << 24) | (<uint32_t> p[1] << 16) | (<uint32_t> p[2] << 8) | p[3]


cdef void fail(Header* h, const char* why) noexcept nogil:
    h.flags = F_DAMAGED
    h.height = h.width = h.channels = h.depth = h.kind = 0
    h.error = why


cdef void read_jpeg(const uint8_t* p, int64_t n, Header* h) noexcept nogil:
    """Walk the marker segments up to the first scan."""
    cdef int64_t at = 2, length
    cdef uint8_t marker
    cdef bint framed = False
    h.height = h.width = h.channels = h.depth = h.kind = h.flags = 0
    h.error = NULL
    if n < 4 or p[0] != 0xFF or p[1] != 0xD8:
        fail(h, "it does not start with FF D8")
        return
    while True:
        while at < n and p[at] != 0xFF:     # decoders skip bytes between segments
            at += 1
        while at < n and p[at] == 0xFF:
            at += 1
        if at >= n:
            fail(h, "it ends before the first scan")
            return
        marker = p[at]
        at += 1
        if marker == 0x00 or marker == 0x01 or 0xD0 <= marker <= 0xD8:
            continue
        if marker == 0xD9:
            fail(h, "it has no scan")
            return
        if n - at < 2 or be16(p + at) < 2 or n - at < be16(p + at):
            fail(h, "it ends inside a marker segment")
            return
        length = be16(p + at)
        if marker == 0xDA:
            break
        if marker == 0xE1 and length >= 8 and memcmp(p + at + 2, b"Exif\0\0", 6) == 0:
            h.flags |= F_EXIF
        elif 0xC0 <= marker <= 0xCF and marker != 0xC4 and marker != 0xC8 and marker != 0xCC:
            if framed:
                fail(h, "it has two frame headers")
                return
            if length < 8 or length != 8 + 3 * <int64_t> p[at + 7]:
                fail(h, "its frame header has the wrong length")
                return
            framed = True
            h.kind = marker & 0x0F
            h.depth = p[at + 2]
            h.height = be16(p + at + 3)
            h.width = be16(p + at + 5)
            h.channels = p[at + 7]
        at += length
    if not framed:
        fail(h, "it has no frame header before its first scan")
    elif h.height == 0 or h.width == 0 or h.channels == 0:
        fail(h, "its frame header says that it is empty")
    elif h.depth == 8 and h.kind <= 2 and (h.channels == 1 or h.channels == 3):
        h.flags |= F_PLAIN


cdef inline uint32_t png_channels(uint32_t kind, uint32_t depth) noexcept nogil:
    """Return the number of channels of a colour type, 0 if it does not allow the depth (PNG 11.2.1)."""
    cdef bint any_depth = depth == 1 or depth == 2 or depth == 4 or depth == 8
    if kind == 0:
        return 1 if any_depth or depth == 16 else 0
    if kind == 3:
        return 1 if any_depth else 0
    if depth != 8 and depth != 16:
        return 0
    if kind == 2:
        return 3
    if kind == 4:
        return 2 if depth == 8 else 4       # decoders have no 16-bit grey with alpha: it becomes RGBA
    return 4 if kind == 6 else 0


cdef void read_png(const uint8_t* p, int64_t n, Header* h) noexcept nogil:
    """Read IHDR, and search the other chunks for EXIF data."""
    cdef int64_t at = 33
    cdef uint32_t length
    h.height = h.width = h.channels = h.depth = h.kind = h.flags = 0
    h.error = NULL
    if n < 33 or memcmp(p, b"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR", 16) != 0:
        fail(h, "it does not start with the PNG signature and an IHDR chunk")
        return
    h.width = be32(p + 16)
    h.height = be32(p + 20)
    h.depth = p[24]
    h.kind = p[25]
    h.channels = png_channels(h.kind, h.depth)
    if h.channels == 0 or p[26] != 0 or p[27] != 0 or p[28] > 1:
        fail(h, "its IHDR chunk has a depth, colour type or method that does not exist")
        return
    if h.width == 0 or h.height == 0 or h.width > 0x7FFFFFFF or h.height > 0x7FFFFFFF:
        fail(h, "its IHDR chunk says that it is empty or larger than 2^31")
        return
    if h.depth == 8:
        h.flags |= F_PLAIN
    while n - at >= 12:
        length = be32(p + at)
        if length > n - at - 12:
            return
        if memcmp(p + at + 4, b"eXIf", 4) == 0:
            h.flags |= F_EXIF
        elif memcmp(p + at + 5, b"TXt", 3) == 0 and length >= 21:
            if memcmp(p + at + 8, b"Raw profile type exif", 21) == 0:
                h.flags |= F_EXIF
        elif memcmp(p + at + 4, b"IEND", 4) == 0:
            return
        at += 12 + <int64_t> length


ctypedef void (*Reader)(const uint8_t*, int64_t, Header*) noexcept nogil

cdef uint8_t NOTHING = 0


cdef inline const uint8_t* start_of(const uint8_t[::1] data) noexcept:
    return &data[0] if data.shape[0] else &NOTHING


cdef tuple one(const uint8_t[::1] data, Reader reader):
    cdef Header h
    reader(start_of(data), data.shape[0], &h)
    if h.flags & F_DAMAGED:
        raise ValueError(h.error.decode("ascii"))
    return h.height, h.width, h.channels, h.depth, h.kind, h.flags


cdef tuple many(list buffers, Reader reader):
    cdef Py_ssize_t n = len(buffers), i
    cdef Py_buffer view
    cdef Header h
    shapes = np.empty((n, 3), dtype=np.uint32)
    flags = np.empty(n, dtype=np.uint8)
    if n == 0:
        return shapes, flags
    cdef uint32_t[:, ::1] shape_rows = shapes
    cdef uint8_t[::1] flag_rows = flags
    for i in range(n):
        PyObject_GetBuffer(buffers[i], &view, PyBUF_SIMPLE)
        reader(<const uint8_t*> view.buf if view.len else &NOTHING, view.len, &h)
        PyBuffer_Release(&view)
        shape_rows[i, 0] = h.height
        shape_rows[i, 1] = h.width
        shape_rows[i, 2] = h.channels
        flag_rows[i] = <uint8_t> h.flags
    return shapes, flags


cdef tuple packed(const uint8_t[::1] data, const int64_t[::1] offsets, Reader reader):
    cdef Py_ssize_t n = offsets.shape[0] - 1, i
    cdef int64_t length = data.shape[0]
    cdef const uint8_t* base = start_of(data)
    cdef Header h
    cdef bint ok = True
    if n < 0:
        raise ValueError("offsets hold one entry more than there are files")
    shapes = np.empty((n, 3), dtype=np.uint32)
    flags = np.empty(n, dtype=np.uint8)
    if n == 0:
        return shapes, flags
    cdef uint32_t[:, ::1] shape_rows = shapes
    cdef uint8_t[::1] flag_rows = flags
    with nogil:
        for i in range(n):
            if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > length:
                ok = False
                break
            reader(base + offsets[i], offsets[i + 1] - offsets[i], &h)
            shape_rows[i, 0] = h.height
            shape_rows[i, 1] = h.width
            shape_rows[i, 2] = h.channels
            flag_rows[i] = <uint8_t> h.flags
    if not ok:
        raise ValueError(f"file {i} leaves the buffer of {length} bytes")
    return shapes, flags


def jpeg_header(const uint8_t[::1] data):
    """Return ``(height, width, channels, bits per channel, SOF number, flags)`` of a JPEG file.

    Raises
    ------
    ValueError
        If there is no valid header; the message says what is wrong.
    """
    return one(data, read_jpeg)


def png_header(const uint8_t[::1] data):
    """Return ``(height, width, channels, bits per channel, colour type, flags)`` of a PNG file; palettes are 1 channel.

    Raises
    ------
    ValueError
        If there is no valid header; the message says what is wrong.
    """
    return one(data, read_png)


def jpeg_headers(list files):
    """Return shapes (uint32, rows of height, width, channels) and flags (uint8) of JPEG files; zeros where damaged."""
    return many(files, read_jpeg)


def png_headers(list files):
    """Return shapes (uint32, rows of height, width, channels) and flags (uint8) of PNG files; zeros where damaged."""
    return many(files, read_png)


def packed_jpeg_headers(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Like :func:`jpeg_headers` for files that lie in one buffer; ``offsets`` has a last entry for the end.

    Raises
    ------
    ValueError
        If an offset leaves the buffer or decreases.
    """
    return packed(data, offsets, read_jpeg)


def packed_png_headers(const uint8_t[::1] data, const int64_t[::1] offsets):
    """Like :func:`png_headers` for files that lie in one buffer; ``offsets`` has a last entry for the end.

    Raises
    ------
    ValueError
        If an offset leaves the buffer or decreases.
    """
    return packed(data, offsets, read_png)
