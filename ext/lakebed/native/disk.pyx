# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Force many files to disk in one call.

Calling ``os.fsync`` from several threads passes the interpreter lock around for every file, which costs more processor
time than the calls themselves; here a thread gives the lock up once for all its files.
"""

from libc.errno cimport EINTR, errno

cdef extern from "unistd.h" nogil:
    int fsync(int fd)


def fsync_all(const int[::1] descriptors, int[::1] errors):
    """Call fsync(2) for each descriptor; ``errors`` (same length) gets its error number, 0 where it went well."""
    cdef Py_ssize_t i, n = descriptors.shape[0]
    if errors.shape[0] != n:
        raise ValueError("errors must be as long as descriptors")
    with nogil:
        for i in range(n):
            errors[i] = 0
            while fsync(descriptors[i]) != 0:
                if errno != EINTR:
                    errors[i] = errno
                    break
