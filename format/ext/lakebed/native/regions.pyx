"""Regions of images, resized straight into a batch without the GIL: of JPEG files, decoded as needed, and of arrays.

The box of an image is resized to ``resized`` pixels. Of these, the window that begins at ``offset`` and has the size of
the sample's target is written; pixels of the window outside of the resized box become 0. The target of each sample is
called its room. libjpeg-turbo is bound at run time (:func:`bind`). The C code is in the headers beside this file: the
interface of the library, the resampling, the loop.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_C_CONTIGUOUS, PyBUF_FORMAT, PyBUF_ND, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release,
    PyObject_GetBuffer,
)
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free

import numpy as np

cdef extern from "lakebed/native/regions.h" nogil:
    ctypedef struct jpeg_library:
        pass
    ctypedef struct region:
        const uint8_t* data
        size_t size
        int height, width, channels
        int top, left, box_height, box_width
        int resized_height, resized_width, offset_y, offset_x
        void* room
        const float* factors
        int room_height, room_width, room_channels
        int planar, flip, is_float, status
    const char* jpeg_library_bind(jpeg_library*, const char*, char*, size_t)
    void regions_of_jpegs(const jpeg_library*, region*, ptrdiff_t, int, int)
    void regions_of_arrays(region*, ptrdiff_t, int)
    int resample_best()
    cdef enum:
        REGION_BOX, REGION_OTHER, REGION_DAMAGED, REGION_ENDS, REGION_MEMORY, REGION_LIBRARY, MAX_SIDE

# Statuses of a sample.
DONE = 0
BOX = REGION_BOX            # the box extends beyond the image, or is reduced by a factor above 249
OTHER = REGION_OTHER        # the JPEG file has another type or shape than the caller passed
DAMAGED = REGION_DAMAGED    # the library reports damage
ENDS = REGION_ENDS          # the file ends without an end-of-image marker
MEMORY = REGION_MEMORY
LIBRARY = REGION_LIBRARY    # no library is bound

# Variants for processors; all compute the same values.
PLAIN = 0
SSE41 = 1
AVX2 = 2
BEST = resample_best()

cdef jpeg_library bound_library
cdef bint is_bound = False


def bind(path):
    """Bind the libjpeg-turbo in a file; for the whole process, once.

    Raises
    ------
    OSError
        If it is not libjpeg-turbo with version 6.2 or 8 of the interface; the message gives the reason.
    """
    global bound_library, is_bound
    cdef char message[512]
    cdef const char* problem
    cdef jpeg_library found
    if is_bound:
        return
    encoded = path.encode("utf-8", "surrogateescape")
    problem = jpeg_library_bind(&found, encoded, message, sizeof(message))
    if problem != NULL:
        raise OSError(f"{path}: {problem.decode('utf-8', 'replace')}")
    bound_library = found
    is_bound = True


def decode_regions(list files, const uint32_t[:, ::1] shapes, const int32_t[:, ::1] boxes, object out,
                   const int32_t[:, ::1] resized=None, const int32_t[:, ::1] offsets=None,
                   const uint8_t[::1] flips=None, *, const float[:, ::1] factors=None, bint planar=False,
                   bint scaled=True, int variant=-1):
    """Decode regions of JPEG files into the rooms of a batch.

    Parameters
    ----------
    files
        JPEG files, bytes-like.
    shapes
        Height, width, channels that the header of each image must have, shape (n, 3).
    boxes
        Top, left, height, width in pixels of the image, shape (n, 4).
    out
        uint8 or float32, C-contiguous, shape (n, height, width, channels) or (n, height, width); with `planar` (n, channels,
        height, width); or a list of n arrays of such shapes without the first axis. A room of 3 channels also accepts
        grey files.
    resized
        Height and width to which each box is resized, shape (n, 2); None takes those of the room.
    offsets
        Row and column in the resized box of the room's first pixel, shape (n, 2); zeros if None.
    flips
        Nonzero if a room is to be mirrored, shape (n,).
    factors
        For rooms of float32: a value v of channel c becomes v * factors[0, c] + factors[1, c]; shape (2, channels).
    planar
        Whether rooms have their channels first.
    scaled
        Whether the decoder may scale an image down (by 2, 4 or 8) if the box still has at least the requested pixels.
    variant
        Processor instructions to use, for tests.

    Returns
    -------
    Statuses, uint8, shape (n,): 0 for success. The content of other rooms is undefined.

    Raises
    ------
    ValueError
        If lengths or shapes do not agree.
    """
    cdef _Samples samples = _Samples(files, len(shapes))
    cdef Py_ssize_t i
    if len(files) != len(shapes) or (shapes.shape[1] != 3):
        raise ValueError(f"{len(files)} files and shapes of shape {shapes.shape[0]} x {shapes.shape[1]}")
    samples.hold(files, PyBUF_SIMPLE)
    samples.place(boxes, out, resized, offsets, flips, factors, planar)
    for i in range(samples.n):
        samples.items[i].height = <int> min(shapes[i, 0], <uint32_t> MAX_SIDE + 1)
        samples.items[i].width = <int> min(shapes[i, 1], <uint32_t> MAX_SIDE + 1)
        samples.items[i].channels = <int> min(shapes[i, 2], 255)
    cdef int chosen = known(variant)
    with nogil:
        regions_of_jpegs(&bound_library, samples.items, samples.n, scaled, chosen)
    return samples.statuses()


def resize_regions(list images, const int32_t[:, ::1] boxes, object out,
                   const int32_t[:, ::1] resized=None, const int32_t[:, ::1] offsets=None,
                   const uint8_t[::1] flips=None, *, const float[:, ::1] factors=None, bint planar=False,
                   int variant=-1):
    """Resize regions of arrays into the rooms of a batch, as :func:`decode_regions` does for files.

    Parameters
    ----------
    images
        uint8, C-contiguous, shape (height, width) or (height, width, channels).
    boxes, out, resized, offsets, flips, factors, planar, variant
        As in :func:`decode_regions`.

    Returns
    -------
    Statuses, uint8, shape (n,): 0 for success.

    Raises
    ------
    ValueError
        If lengths or shapes do not agree.
    """
    cdef _Samples samples = _Samples(images, len(images))
    cdef Py_ssize_t i
    samples.hold(images, PyBUF_ND | PyBUF_C_CONTIGUOUS)
    samples.place(boxes, out, resized, offsets, flips, factors, planar)
    for i in range(samples.n):
        view = &samples.views[i]
        if view.itemsize != 1 or view.ndim < 2 or view.ndim > 3:
            raise ValueError(f"image {i} is no uint8 array of two or three axes")
        samples.items[i].height = side(view.shape[0])
        samples.items[i].width = side(view.shape[1])
        samples.items[i].channels = <int> min(view.shape[2], 255) if view.ndim == 3 else 1
    cdef int chosen = known(variant)
    with nogil:
        regions_of_arrays(samples.items, samples.n, chosen)
    return samples.statuses()


cdef int side(Py_ssize_t length):
    return <int> min(length, MAX_SIDE + 1)


cdef int known(int variant):
    return BEST if variant < 0 or variant > BEST else variant


@cython.auto_pickle(False)
cdef class _Samples:
    """Arguments of the C loop, and the buffers to which they point."""

    cdef region* items
    cdef Py_buffer* views      # buffers of the sources, then of the rooms
    cdef Py_ssize_t n, held

    def __cinit__(self, object sources, Py_ssize_t n):
        self.n = n
        self.held = 0
        self.items = <region*> calloc(max(n, 1), sizeof(region))
        self.views = <Py_buffer*> calloc(2 * n + 1, sizeof(Py_buffer))
        if self.items == NULL or self.views == NULL:
            raise MemoryError()

    def __dealloc__(self):
        cdef Py_ssize_t i
        if self.views != NULL:
            for i in range(self.held):
                PyBuffer_Release(&self.views[i])
        free(self.views)
        free(self.items)

    cdef void take(self, object source, int flags) except *:
        PyObject_GetBuffer(source, &self.views[self.held], flags)
        self.held += 1

    cdef void hold(self, list sources, int flags) except *:
        cdef Py_ssize_t i
        for i in range(self.n):
            self.take(sources[i], flags)
            self.items[i].data = <const uint8_t*> self.views[i].buf
            self.items[i].size = <size_t> self.views[i].len

    cdef void place(self, const int32_t[:, ::1] boxes, object out, const int32_t[:, ::1] resized,
                    const int32_t[:, ::1] offsets, const uint8_t[::1] flips, const float[:, ::1] factors,
                    bint planar) except *:
        cdef Py_ssize_t i
        cdef region* item
        if boxes.shape[0] != self.n or boxes.shape[1] != 4:
            raise ValueError(f"boxes of shape {boxes.shape[0]} x {boxes.shape[1]} for {self.n} samples")
        if resized is not None and (resized.shape[0] != self.n or resized.shape[1] != 2):
            raise ValueError(f"sizes of shape {resized.shape[0]} x {resized.shape[1]} for {self.n} samples")
        if offsets is not None and (offsets.shape[0] != self.n or offsets.shape[1] != 2):
            raise ValueError(f"offsets of shape {offsets.shape[0]} x {offsets.shape[1]} for {self.n} samples")
        if flips is not None and flips.shape[0] != self.n:
            raise ValueError(f"{flips.shape[0]} flips for {self.n} samples")
        self.make_rooms(out, planar)
        for i in range(self.n):
            item = &self.items[i]
            item.top, item.left, item.box_height, item.box_width = (
                boxes[i, 0], boxes[i, 1], boxes[i, 2], boxes[i, 3]
            )
            item.resized_height = resized[i, 0] if resized is not None else item.room_height
            item.resized_width = resized[i, 1] if resized is not None else item.room_width
            if offsets is not None:
                item.offset_y, item.offset_x = offsets[i, 0], offsets[i, 1]
            item.flip = flips is not None and flips[i] != 0
            item.planar = planar
            if item.is_float != (factors is not None):
                raise ValueError("factors are for rooms of float32, and those need them")
            if factors is not None:
                if factors.shape[0] != 2 or factors.shape[1] != item.room_channels:
                    raise ValueError(f"factors of shape {factors.shape[0]} x {factors.shape[1]}")
                item.factors = &factors[0, 0]

    cdef void make_rooms(self, object out, bint planar) except *:
        cdef Py_ssize_t i
        cdef Py_buffer* view
        cdef int flags = PyBUF_ND | PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE | PyBUF_FORMAT
        if isinstance(out, list):
            if len(out) != self.n:
                raise ValueError(f"{len(out)} rooms for {self.n} samples")
            for i in range(self.n):
                self.take(out[i], flags)
                view = &self.views[self.held - 1]
                self.make_room(&self.items[i], view, <uint8_t*> view.buf, 0, planar)
            return
        self.take(out, flags)
        view = &self.views[self.held - 1]
        if view.ndim < 1 or view.shape[0] != self.n:
            raise ValueError(f"no rooms for {self.n} samples")
        for i in range(self.n):
            self.make_room(&self.items[i], view, <uint8_t*> view.buf + i * (view.len // self.n), 1, planar)

    cdef void make_room(self, region* item, Py_buffer* view, uint8_t* at, int skipped, bint planar) except *:
        cdef int ndim = view.ndim - skipped, d
        item.is_float = view.itemsize == 4 and view.format[0] == b"f"
        if (view.itemsize != 1 and not item.is_float) or ndim < 2 or ndim > 3:
            raise ValueError("a room is an array of uint8 or float32 with two or three axes")
        for d in range(view.ndim):
            if view.shape[d] < 1:
                raise ValueError("a room has no pixels")
        cdef Py_ssize_t* shape = view.shape + skipped
        item.room = at
        # A side that is too long is reported as the sample's status.
        if ndim == 2:
            item.room_height, item.room_width, item.room_channels = side(shape[0]), side(shape[1]), 1
        elif planar:
            item.room_channels, item.room_height, item.room_width = side(shape[0]), side(shape[1]), side(shape[2])
        else:
            item.room_height, item.room_width, item.room_channels = side(shape[0]), side(shape[1]), side(shape[2])
        if item.room_channels > 4:
            raise ValueError(f"a room of {item.room_channels} channels")

    cdef object statuses(self):
        cdef Py_ssize_t i
        found = np.empty(self.n, dtype=np.uint8)
        cdef uint8_t[::1] rows = found
        for i in range(self.n):
            rows[i] = <uint8_t> self.items[i].status
        return found
