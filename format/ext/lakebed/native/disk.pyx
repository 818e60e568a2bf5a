"""Create many files, or force them to disk, in one call; map files without keeping them open.

If several threads call ``os.fsync``, the interpreter lock changes hands for every file, which costs more processor time
than the calls themselves; here a thread releases the lock once for all its files. Creating a hundred files in new
folders in one call saves the steps of the interpreter for each file.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_SetFromErrno
from libc.errno cimport EINTR, EIO, ENOSPC, ENOSYS, EDQUOT, EPERM, errno
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport strlen

cdef extern from "Python.h":
    bytes PyUnicode_EncodeFSDefault(object)

cdef extern from "unistd.h" nogil:
    int fsync(int fd)
    int close(int fd)
    int unlink(const char *path)
    ssize_t read(int fd, void *into, size_t count)
    ssize_t write(int fd, const void *what, size_t count)
    long sysconf(int name)
    const int _SC_PAGESIZE

cdef extern from "sys/mman.h" nogil:
    void *mmap(void *where, size_t size, int protection, int flags, int fd, long long offset)
    int munmap(void *where, size_t size)
    void *MAP_FAILED
    const int PROT_READ, PROT_WRITE, MAP_PRIVATE

cdef extern from "lakebed/native/stream_copy.h" nogil:
    const int SLOW_BYTES
    void steady_copy(unsigned char *out, const unsigned char *source, size_t size)

# Only Linux can begin to write a file to disk without waiting for it. If this fails, ext4 drops the data for which it
# found no space, and no later call reports the failure again: the error numbers in `is_told_once`. Other error numbers
# mean that the call is impossible, as for folders, or did nothing: then a later fsync reports failures.
cdef extern from *:
    """
    #if defined(__linux__)
    #include <errno.h>
    #include <fcntl.h>
    static int begin_writing(int fd) { return sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 ? 0 : errno; }
    static int is_told_once(int number) {
        switch (number) {
            case EIO: case ENOSPC: case EDQUOT: case EROFS: case EUCLEAN: case EBADMSG: return 1;
            default: return 0;
        }
    }
    #else
    static int begin_writing(int fd) { (void)fd; return 0; }
    static int is_told_once(int number) { (void)number; return 0; }
    #endif
    """
    bint is_told_once(int number) nogil
    int begin_writing(int fd) nogil

# Only on Linux does syncfs(2) report failed writes. It is used on ext4 and XFS, where it is known to write everything,
# and to take no longer than fsync(2) except for data that other programs have written.
cdef extern from *:
    """
    #if defined(__linux__)
    #include <errno.h>
    #include <sys/stat.h>
    #include <sys/syscall.h>
    #include <sys/vfs.h>
    #include <unistd.h>
    static int on_one_disk(const int *files, Py_ssize_t n) {
        struct statfs disk;
        struct stat first, other;
        if (fstatfs(files[0], &disk) != 0 || fstat(files[0], &first) != 0) return 0;
        if (disk.f_type != 0xEF53 && disk.f_type != 0x58465342) return 0;
        for (Py_ssize_t i = 1; i < n; i++)
            if (fstat(files[i], &other) != 0 || other.st_dev != first.st_dev) return 0;
        return 1;
    }
    static int sync_whole_disk(int fd) { return syscall(SYS_syncfs, fd) == 0 ? 0 : errno; }
    #else
    static int on_one_disk(const int *files, Py_ssize_t n) { (void)files; (void)n; return 0; }
    static int sync_whole_disk(int fd) { (void)fd; return 0; }
    #endif
    """
    bint on_one_disk(const int *files, Py_ssize_t n) nogil
    int sync_whole_disk(int fd) nogil

# ext4 allocates the blocks of a file one by one during writes, unless the length of the file is announced before.
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

# On other systems all pages count as resident, so that no read bypasses the cache.
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
    int open(const char *path, int flags, ...)
    const int O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_CLOEXEC, O_NOFOLLOW

cdef extern from "sys/stat.h" nogil:
    cdef struct stat_t "stat":
        unsigned int st_mode
        long long st_size
    int fstat(int fd, stat_t *found)
    int mkdir(const char *path, unsigned int mode)
    bint S_ISREG(unsigned int mode)


def fsync_all(const int[::1] descriptors, int[::1] errors):
    """Call fsync(2) for each descriptor; ``errors`` (same length) receives the error numbers, 0 for success.

    Writing of all files begins before the first wait, so that the writes share commits of the journal.
    """
    cdef Py_ssize_t i, n = descriptors.shape[0]
    if errors.shape[0] != n:
        raise ValueError("errors must be as long as descriptors")
    with nogil:
        for i in range(n):
            errors[i] = begin_writing(descriptors[i])
            if not is_told_once(errors[i]):
                errors[i] = 0
        for i in range(n):
            while fsync(descriptors[i]) != 0:
                if errno != EINTR:
                    errors[i] = errno
                    break


cdef Py_ssize_t _held = 0


@cython.auto_pickle(False)
cdef class Descriptor:
    """An open file that is closed when this object is freed, without Python code, which could swallow a Ctrl-C.

    Parameters
    ----------
    number
        Descriptor of the file.
    """

    cdef readonly int number

    def __cinit__(self, int number):
        global _held
        self.number = number
        _held += 1

    def __dealloc__(self):
        global _held
        close(self.number)
        _held -= 1

    @staticmethod
    def held():
        """Return the number of these objects in this process."""
        return _held


@cython.auto_pickle(False)
cdef class _Mapping:
    """Private mapping of a range of a file, which exists as long as a view of it."""

    cdef void *pages
    cdef Py_ssize_t before, length

    def __cinit__(self, int fd, long long start, Py_ssize_t length):
        self.before = start % sysconf(_SC_PAGESIZE)
        self.length = length
        self.pages = mmap(
            NULL, self.before + length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, start - self.before
        )
        if self.pages == MAP_FAILED:
            self.pages = NULL
            PyErr_SetFromErrno(OSError)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, <char *> self.pages + self.before, self.length, 0, flags)

    def __dealloc__(self):
        if self.pages != NULL:
            munmap(self.pages, self.before + self.length)


def mapped(int fd, long long start, Py_ssize_t length):
    """Map a range of a file into memory; writes to it stay private.

    The module ``mmap`` keeps a descriptor for each mapping (before Python 3.13 in any case), so that a process could
    not map more files than it may have open.

    Raises
    ------
    OSError
        If the system cannot map the file, or the file is shorter.
    """
    cdef stat_t found
    if fstat(fd, &found) != 0:
        PyErr_SetFromErrno(OSError)
    if start < 0 or length < 0 or start > found.st_size or length > found.st_size - start:
        raise OSError(EIO, "the file is too short")
    return memoryview(_Mapping(fd, start, length) if length else bytearray())


def reserve(int fd, long long size):
    """Reserve the blocks of an empty file on ext4, where this makes writing the file a quarter cheaper.

    The length of the file does not change, so that a file whose writing was interrupted looks truncated.

    Returns
    -------
    int
        ENOSPC or EDQUOT if the disk is full; else 0, because writing the file reports other errors.
    """
    cdef int found
    with nogil:
        found = errno if reserve_blocks(fd, size) != 0 else 0
    return found if found == ENOSPC or found == EDQUOT else 0


def slow_bytes(list pieces):
    """Return the number of bytes of a future file that the system would copy slowly, by the addresses of its pieces.

    `stream_copy.h` explains why.

    Parameters
    ----------
    pieces
        Contiguous buffers that will be in the file back to back.
    """
    cdef Py_buffer view
    cdef long long at = 0, slow = 0, beyond
    for piece in pieces:
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        beyond = (at - <long long> <size_t> view.buf) & 4095
        if 0 < beyond < SLOW_BYTES:
            slow += view.len
        at += view.len
        PyBuffer_Release(&view)
    return slow


def fill(unsigned char[::1] buffer, list pieces):
    """Copy contiguous buffers into one buffer, back to back, and return their total number of bytes.

    Raises
    ------
    ValueError
        If they do not fit; the first buffers, as many as fit, were copied then.
    """
    cdef Py_buffer view
    cdef long long done = 0
    for piece in pieces:
        PyObject_GetBuffer(piece, &view, PyBUF_SIMPLE)
        try:
            if view.len > buffer.shape[0] - done:
                raise ValueError(f"more than {buffer.shape[0]} bytes")
            if view.len:
                with nogil:
                    steady_copy(&buffer[done], <const unsigned char *> view.buf, <size_t> view.len)
                done += view.len
        finally:
            PyBuffer_Release(&view)
    return done


def sync_disk(const int[::1] descriptors):
    """Force all data on the file system of some open files to disk by one syncfs(2).

    Writing of each file is begun by a separate call first: it allocates space on the disk, and syncfs does not report
    if that fails.

    Parameters
    ----------
    descriptors
        At least one. Errors of any file of the file system since the first descriptor was opened are reported.

    Returns
    -------
    int
        1 if all data is on the disk; 0 if this is not certain, because the files are on several file systems, or on a
        file system without this guarantee; else the negative error number: then it is unknown which data is on the
        disk, and forcing the files one by one does not show it.
    """
    cdef int found
    if descriptors.shape[0] == 0:
        raise ValueError("there are no descriptors")
    with nogil:
        found = _sync_disk(descriptors)
    return found


cdef int _sync_disk(const int[::1] descriptors) noexcept nogil:
    cdef Py_ssize_t i, n = descriptors.shape[0]
    cdef int problem
    if not on_one_disk(&descriptors[0], n):
        return 0
    for i in range(n):
        problem = begin_writing(descriptors[i])
        if problem != 0:
            return -problem if is_told_once(problem) else 0
    problem = sync_whole_disk(descriptors[0])
    if problem == 0:
        return 1
    return 0 if problem == ENOSYS or problem == EPERM else -problem


def make_folders(list paths):
    """Create folders, given as text, in the order given, until one cannot be created.

    Returns
    -------
    tuple of int
        The number of created folders, and the error number of the failed one: 0 if all folders were created.
    """
    cdef Py_ssize_t n = len(paths), done = 0
    cdef int problem = 0
    cdef list encoded = _encoded(paths)
    cdef const char **names = _names(encoded)
    try:
        with nogil:
            while done < n:
                if mkdir(names[done], 0o777) != 0:
                    problem = errno
                    break
                done += 1
    finally:
        free(names)
    return done, problem


def write_new_files(list paths, list pieces, const int[::1] counts, int[::1] descriptors):
    """Create and fill new files until one cannot be created or written; the failed file is removed.

    Parameters
    ----------
    paths
        Absolute or relative paths, as text.
    pieces
        Contents of the files, one file after the other: contiguous buffers.
    counts
        Number of pieces of each file.
    descriptors
        As long as `paths`: receives the descriptors of the open files, which the caller forces to disk and closes. If
        empty, the files are closed.

    Returns
    -------
    tuple of int
        The number of written files, and the error number of the failed file: 0 if all files were written.
    """
    cdef Py_ssize_t i, n = len(paths), parts = len(pieces), total = 0, held = 0, done = 0, at = 0
    cdef bint keep = descriptors.shape[0] > 0
    cdef int problem = 0, fd
    cdef Py_buffer *buffers
    cdef const char **names
    for i in range(counts.shape[0]):
        if counts[i] < 0:
            raise ValueError("a count is negative")
        total += counts[i]
    if counts.shape[0] != n or total != parts or (keep and descriptors.shape[0] != n):
        raise ValueError("counts and descriptors (if any) must be as many as paths, and pieces as many as counted")
    cdef list encoded = _encoded(paths)
    names = _names(encoded)
    buffers = <Py_buffer *> calloc(parts + 1, sizeof(Py_buffer))
    try:
        if buffers == NULL:
            raise MemoryError()
        for i in range(parts):
            PyObject_GetBuffer(pieces[i], &buffers[i], PyBUF_SIMPLE)
            held = i + 1
        with nogil:
            while done < n:
                fd = _write_new(names[done], &buffers[at], counts[done], &problem)
                if fd < 0:
                    break
                if keep:
                    descriptors[done] = fd
                elif close(fd) != 0:
                    problem = errno
                    unlink(names[done])
                    break
                at += counts[done]
                done += 1
    finally:
        for i in range(held):
            PyBuffer_Release(&buffers[i])
        free(buffers)
        free(names)
    return done, problem


cdef int _write_new(const char *path, Py_buffer *pieces, Py_ssize_t count, int *problem) noexcept nogil:
    """Return the descriptor of a new file; on an error -1, with the error number in ``problem`` and without a file."""
    cdef Py_ssize_t i, at
    cdef ssize_t got
    cdef int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o666)
    if fd < 0:
        problem[0] = errno
        return -1
    for i in range(count):
        at = 0
        while at < pieces[i].len:
            got = write(fd, <const char *> pieces[i].buf + at, pieces[i].len - at)
            if got > 0:
                at += got
            elif got == 0 or errno != EINTR:
                problem[0] = EIO if got == 0 else errno
                close(fd)
                unlink(path)
                return -1
    return fd


cdef list _encoded(list paths):
    """Return paths as bytes, in the encoding of the file system."""
    return [PyUnicode_EncodeFSDefault(<str?> path) for path in paths]


cdef const char **_names(list paths) except NULL:
    """Return an array of C strings, which the caller frees; it is valid as long as the list is not changed."""
    cdef Py_ssize_t i, n = len(paths)
    cdef bytes path
    cdef const char **names = <const char **> malloc((n + 1) * sizeof(char *))
    if names == NULL:
        raise MemoryError()
    try:
        for i in range(n):
            path = paths[i]
            names[i] = path
            if strlen(names[i]) != <size_t> len(path):
                raise ValueError("a path holds a null byte")
    except BaseException:
        free(names)
        raise
    return names


def resident(int fd, long long size):
    """Return the share of the first ``size`` bytes of a file that is in the system's cache, from 0 to 1.

    Returns 1 if the system does not report it: mincore(2) answers only users who may write to the file.
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
