"""Many arrays cut from one buffer, without a Python call per array.

NumPy's C functions are called through the table that its extension module publishes, whose slots are part of NumPy's
binary interface, so that building needs no NumPy. Tests compare with slicing and ``reshape``.
"""

from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject, PyTypeObject
from cpython.pycapsule cimport PyCapsule_GetPointer
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t, uint8_t, uint32_t

import numpy as np

ctypedef PyObject* (*new_from_descr_t)(
    PyTypeObject*, PyObject*, int, const Py_ssize_t*, const Py_ssize_t*, void*, int, PyObject*) except NULL
ctypedef int (*set_base_t)(PyObject*, PyObject*) except -1

cdef extern from "Python.h":
    void Py_DECREF(PyObject*)

cdef enum:
    # Slots of NumPy's function table.
    NEW_FROM_DESCR = 94
    SET_BASE_OBJECT = 282
    # Flags of a C-contiguous, aligned, writeable array.
    CARRAY = 0x0501
    MOST_AXES = 32

cdef new_from_descr_t new_from_descr
cdef set_base_t set_base


cdef int find_numpy() except -1:
    """Look up the two functions in NumPy's table."""
    global new_from_descr, set_base
    cdef void** table
    core = getattr(np, "_core", None) or np.core
    table = <void**> PyCapsule_GetPointer(core._multiarray_umath._ARRAY_API, NULL)
    new_from_descr = <new_from_descr_t> table[NEW_FROM_DESCR]
    set_base = <set_base_t> table[SET_BASE_OBJECT]
    return 0


find_numpy()


def cut(base, dtype, const int64_t[::1] offsets, const uint32_t[:, ::1] shapes):
    """Return array i as bytes ``offsets[i]`` to ``offsets[i + 1]`` of ``base``, with the shape in row i of ``shapes``.

    Parameters
    ----------
    base
        Writeable one-dimensional uint8 array; the returned arrays are views of it.
    dtype
        Dtype of numbers.

    Raises
    ------
    ValueError
        If the bytes of an array do not fill its shape, or lie outside of ``base``, or are not aligned.
    TypeError
        If ``base`` is not such an array, or ``dtype`` is not a dtype of numbers.
    """
    cdef Py_ssize_t count = offsets.shape[0] - 1, axes = shapes.shape[1], i, axis, itemsize, room
    cdef int64_t nbytes, start, stop
    cdef Py_ssize_t[MOST_AXES] shape
    cdef uint8_t[::1] data
    cdef uint8_t* first
    cdef PyObject* made
    cdef bint fits
    if type(base) is not np.ndarray or not isinstance(dtype, np.dtype):
        raise TypeError("views are cut from an array, by a dtype")
    if dtype.hasobject or dtype.subdtype is not None or dtype.itemsize == 0:
        raise TypeError(f"views hold numbers, not {dtype}")
    if count < 0 or shapes.shape[0] != count or axes > MOST_AXES:
        raise ValueError(f"{count} arrays can not have {shapes.shape[0]} shapes of {axes} axes")
    data = base
    room = data.shape[0]
    first = &data[0] if room else NULL
    itemsize = dtype.itemsize
    if room and (<size_t> first) % 16:
        raise ValueError("the buffer is not aligned")
    found = PyList_New(count)
    for i in range(count):
        start = offsets[i]
        stop = offsets[i + 1]
        fits = 0 <= start <= stop <= room and start % itemsize == 0
        nbytes = itemsize
        for axis in range(axes):
            shape[axis] = shapes[i, axis]
            if nbytes and shape[axis] > room // nbytes:
                # The extents are larger than the buffer, unless a later axis has extent 0.
                nbytes = 0 if has_zero(shapes, i, axes) else -1
                if nbytes < 0:
                    break
            nbytes *= shape[axis]
        for axis in range(axes):
            shape[axis] = shapes[i, axis]
        if not fits or nbytes != stop - start:
            raise ValueError(f"array {i}: bytes {start} to {stop} of {room} do not fill its shape")
        Py_INCREF(dtype)  # because the call below takes over a reference
        if nbytes:
            made = new_from_descr(
                <PyTypeObject*> np.ndarray, <PyObject*> dtype, <int> axes, shape, NULL, first + start, CARRAY, NULL)
            Py_INCREF(base)  # likewise
            set_base(made, <PyObject*> base)
        else:
            made = new_from_descr(
                <PyTypeObject*> np.ndarray, <PyObject*> dtype, <int> axes, shape, NULL, NULL, 0, NULL)
        view = <object> made
        Py_DECREF(made)
        Py_INCREF(view)  # likewise
        PyList_SET_ITEM(found, i, view)
    return found


cdef inline bint has_zero(const uint32_t[:, ::1] shapes, Py_ssize_t i, Py_ssize_t axes) noexcept:
    cdef Py_ssize_t axis
    for axis in range(axes):
        if shapes[i, axis] == 0:
            return True
    return False
