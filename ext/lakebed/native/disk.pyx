"""Read, or force to disk, many files in one call.

Calling ``os.fsync`` from several threads passes the interpreter lock around for every file, which costs more processor
time than the calls themselves; here a thread gives the lock up once for all its files. Reading thousands of small files
into one buffer saves the memory, and the steps of the interpreter, that each would take by itself.
"""

from libc.errno cimport EINTR, EIO, EINVAL, ENOSPC, EDQUOT, errno
from libc.stdlib cimport free, malloc
from libc.string cimport strlen

cdef extern from "unistd.h" nogil:
    int fsync(int fd)
    int close(int fd)
    ssize_t read(int fd, void *into, size_t count)

# Linux alone can be told to begin writing a file without waiting for it.
cdef extern from *:
    """
    #if defined(__linux__)
    #include <fcntl.h>
    static int begin_writing(int fd) { return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE); }
    #else
    static int begin_writing(int fd) { (void)fd; return 0; }
    #endif
    """
    int begin_writing(int fd) nogil

# A file system of this kind counts and maps what is written block by block, unless it is told before how much will come.
cdef extern from *:
    """
    #if defined(__linux__)
    #include <fcntl.h>
    #include <sys/vfs.h>
    #ifndef FALLOC_FL_KEEP_SIZE
    #define FALLOC_FL_KEEP_SIZE 1
    #endif
    static int reserve_blocks(int fd, long long size) {
        struct statfs found;
        if (fstatfs(fd, &found) != 0 || found.f_type != 0xEF53) return 0; /* ext2, ext3, ext4 */
        return fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size);
    }
    #else
    static int reserve_blocks(int fd, long long size) { (void)fd; (void)size; return 0; }
    #endif
    """
    int reserve_blocks(int fd, long long size) nogil

# Elsewhere all counts as resident: then nothing is read past the cache.
cdef extern from *:
    """
    #if defined(__linux__)
    #include <sys/mman.h>
    #include <unistd.h>
    static long long resident_pages(int fd, size_t size, unsigned char *seen) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE), i, pages = (size + page - 1) / page;
        long long found = 0;
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) return -1;
        if (mincore(map, size, seen) != 0) found = -1;
        else for (i = 0; i < pages; i++) found += seen[i] & 1;
        munmap(map, size);
        return found;
    }
    static long long pages_of(size_t size) {
        size_t page = (size_t) sysconf(_SC_PAGESIZE);
        return (long long) ((size + page - 1) / page);
    }
    #else
    static long long resident_pages(int fd, size_t size, unsigned char *seen) {
        (void)fd; (void)size; (void)seen; return -1;
    }
    static long long pages_of(size_t size) { return (long long) (size / 4096 + 1); }
    #endif
    """
    long long resident_pages(int fd, size_t size, unsigned char *seen) nogil
    long long pages_of(size_t size) nogil

cdef extern from "fcntl.h" nogil:
    int open(const char *path, int flags)
    const int O_RDONLY, O_CLOEXEC, O_NONBLOCK

cdef extern from "sys/stat.h" nogil:
    cdef struct stat_t "stat":
        unsigned int st_mode
        long long st_size
    int fstat(int fd, stat_t *found)
    bint S_ISREG(unsigned int mode)


def fsync_all(const int[::1] descriptors, int[::1] errors):
    """Call fsync(2) for each descriptor; ``errors`` (same length) gets its error number, 0 where it went well.

    The disk is told of all of them before the first one is waited for: their writes then share commits of the journal.
    """
    cdef Py_ssize_t i, n = descriptors.shape[0]
    if errors.shape[0] != n:
        raise ValueError("errors must be as long as descriptors")
    with nogil:
        for i in range(n):
            errors[i] = 0
            # Of what can go wrong here only this may be news that fsync does not tell again. Folders are refused.
            if begin_writing(descriptors[i]) != 0 and (errno == EIO or errno == ENOSPC or errno == EDQUOT):
                errors[i] = errno
        for i in range(n):
            while fsync(descriptors[i]) != 0:
                if errno != EINTR:
                    errors[i] = errno
                    break


def reserve(int fd, long long size):
    """Tell the file system how long an empty file will be, where that makes writing it cheaper: on ext4 by a quarter.

    The length of the file stays what it is, so that what is cut off while it is written looks cut off.

    Returns
    -------
    int
        ENOSPC or EDQUOT if there is no room; else 0, whatever the file system says: writing will tell.
    """
    cdef int found
    with nogil:
        found = errno if reserve_blocks(fd, size) != 0 else 0
    return found if found == ENOSPC or found == EDQUOT else 0


def resident(int fd, long long size):
    """Return which part of the first ``size`` bytes of a file the system has in memory, from 0 to 1.

    1 where it does not tell: it is asked with mincore(2), which answers those who might write to the file.
    """
    cdef long long pages, found
    cdef unsigned char *seen
    cdef stat_t stated
    if fstat(fd, &stated) != 0 or not S_ISREG(stated.st_mode):
        return 1.0
    size = min(size, stated.st_size)
    if size <= 0:
        return 1.0
    pages = pages_of(size)
    seen = <unsigned char *> malloc(pages)
    if seen == NULL:
        raise MemoryError()
    with nogil:
        found = resident_pages(fd, size, seen)
    free(seen)
    return 1.0 if found < 0 else found / <double> pages


def read_files(list paths, unsigned char[::1] buffer, long long[::1] offsets):
    """Read whole files into one buffer, back to back, until one does not fit or cannot be read.

    Parameters
    ----------
    paths
        Absolute or relative paths, as bytes.
    buffer
        Where their content goes.
    offsets
        Gets the start of each file in the buffer and the end of the last one: at least ``len(paths) + 1`` entries.

    Returns
    -------
    tuple of int
        How many were read, and the error number that ended it: 0 if all were read or the next one did not fit.
        A file that is no regular one, or changes its size while it is read, counts as an error.
    """
    cdef Py_ssize_t i, n = len(paths), done = 0
    cdef long long at = 0, room = buffer.shape[0], size, got
    cdef int problem = 0
    cdef char *start = <char *> &buffer[0] if room > 0 else NULL
    cdef const char **names
    cdef bytes path
    if offsets.shape[0] < n + 1:
        raise ValueError("offsets must have an entry more than there are paths")
    names = <const char **> malloc((n + 1) * sizeof(char *))
    if names == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            path = paths[i]
            names[i] = path
            if strlen(names[i]) != <size_t> len(path):
                raise ValueError("a path holds a null byte")
        with nogil:
            offsets[0] = 0
            while done < n:
                got = _read_file(names[done], start + at, room - at, &problem)
                if got < 0:
                    break
                at += got
                done += 1
                offsets[done] = at
    finally:
        free(names)
    return done, problem


cdef long long _read_file(const char *path, char *into, long long room, int *problem) noexcept nogil:
    """Return the bytes read; -1 where there is no room (problem 0) or on an error (its number)."""
    cdef stat_t found
    cdef long long at = 0
    cdef ssize_t got
    cdef char beyond
    # Not blocking: opening a pipe that nobody writes to would otherwise never return.
    cdef int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    if fd < 0:
        problem[0] = errno
        return -1
    if fstat(fd, &found) != 0:
        problem[0] = errno
    elif not S_ISREG(found.st_mode):
        problem[0] = EINVAL
    elif found.st_size > room:
        at = -1
    else:
        while problem[0] == 0:
            got = read(fd, into + at, found.st_size - at) if at < found.st_size else read(fd, &beyond, 1)
            if got < 0:
                if errno != EINTR:
                    problem[0] = errno
            elif got == 0 or at == found.st_size:
                # The end, where fstat said it is, or not.
                problem[0] = 0 if got == 0 and at == found.st_size else EIO
                break
            else:
                at += got
    close(fd)
    return -1 if problem[0] else at
