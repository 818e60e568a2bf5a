"""Defaults that a user may change before opening a dataset."""

from __future__ import annotations

import os

# Size of the cache of whole chunks, in bytes per open dataset.
CACHE_BYTES = 256 * 1024 * 1024

# Seconds after which a thread publishes appended rows that were neither flushed nor committed. The end of a ``with``
# block publishes the rows of the block.
MAX_UNPUBLISHED_SECONDS = 30.0

# Seconds after which another writer may take over from a writer that makes no progress; a live writer renews its
# lease in time. The locks of Deep Lake 3.9.52 last as long. The time matters for writers on other machines or on a
# store, whose death cannot be detected: with fewer seconds, their successors start earlier.
LEASE_SECONDS = float(os.environ.get("LAKEBED_LEASE_SECONDS") or 300)

# Seconds for which garbage is kept, because readers on other hosts or Deep Lake 3.9.52 may still use it. If all readers
# are known, garbage is removed as soon as KEEP_HEADS newer heads exist.
GRACE_SECONDS = 3600.0
KEEP_HEADS = 64

# Maximum number of chunks per tensor that a head lists itself; small, because every publish writes that list again.
# If a head has more chunks, the session turns it into a checkpoint (a version that users do not see) and continues
# with a new head above the checkpoint.
CHECKPOINT_CHUNKS = 1024

# If true, a publish waits until the disk has stored everything. LAKEBED_FSYNC=0 switches that off, for data that may
# be lost if the power fails: benchmarks against programs that do not wait, tests, scratch folders.
FSYNC = os.environ.get("LAKEBED_FSYNC", "1") != "0"

# If true, new class names of label tensors are printed on standard output, as in 3.9.52. Switch it off in programs
# whose standard output is read by other programs, such as a sync.
TELL_NEW_CLASSES = os.environ.get("LAKEBED_TELL_NEW_CLASSES", "1") != "0"

# If true, large files of local datasets go through the cache of the operating system, which is best for files that
# are read again. A process that moves much data once, such as a sync, may switch it off: writing then takes less
# processor time (`storage/files/direct.py`), but the first read waits for the disk.
OS_CACHE = True

# Object stores. REQUESTS: initial limit of concurrent requests. The limit of reads is halved if a store refuses them,
# and grows, to at most four times REQUESTS, while that brings more bytes per second (a REQUESTS below 8 never grows).
# STALL_SECONDS: time after which a stream without data is requested again. REQUEST_SECONDS: limit of one request that
# writes. RETRY_SECONDS: time for which a failing request is repeated.
REQUESTS = 64
STALL_SECONDS = 15.0
REQUEST_SECONDS = 300.0
RETRY_SECONDS = 60.0

# Maximum number of bytes that are read ahead and not used yet, per open dataset on an object store.
AHEAD_BYTES = 128 * 1024 * 1024

# Objects above this size are written in parts.
PART_BYTES = 8 * 1024 * 1024

# Maximum total size of objects that are uploaded at the same time, in bytes.
UPLOAD_BYTES = 64 * 1024 * 1024

# Time limit for one file over HTTP, from connecting to the last byte, in seconds.
HTTP_TIMEOUT = 60.0

# Where links of a dataset may lead; limited because the dataset's writer chose them, not its reader. Allowed are
# files in the dataset's own folder and in LINK_ROOTS, the internet, the hosts LINK_HOSTS of private networks ("nas",
# "*.example.org", "10.1.0.0/16", "localhost:8000"), and links that this process appended itself. lakebed.allow_links
# adds folders and hosts.
LINK_SCHEMES: frozenset[str] = frozenset({"file", "http", "https", "s3", "gs", "gcs", "az", "azure"})
LINK_ROOTS: tuple[str, ...] = tuple(filter(None, os.environ.get("LAKEBED_LINK_ROOTS", "").split(os.pathsep)))
LINK_HOSTS: tuple[str, ...] = tuple(os.environ.get("LAKEBED_LINK_HOSTS", "").replace(",", " ").split())

# If true, links that the user's own calls append to a dataset on this machine are recorded in ~/.config/lakebed, and
# links that are recorded there, also by `lakebed allow`, are followed. Switch it off in services that read datasets
# of other users.
REMEMBER_LINKS = os.environ.get("LAKEBED_REMEMBER_LINKS", "1") != "0"

# Maximum number of links to servers that are followed at the same time; the limit for files on this machine is lower.
LINK_THREADS = 48

# Seconds after which named credentials are requested from their provider again, unless the entry has a ttl.
CREDS_SECONDS = 300.0

# Number of threads that decode the images of one call; 1 decodes in the calling thread.
THREADS = int(os.environ.get("LAKEBED_THREADS") or len(os.sched_getaffinity(0)))

# Author of commits and tags; if None, the environment variable LAKEBED_AUTHOR, or else the user of the operating
# system.
AUTHOR: str | None = None


def author() -> str:
    """Return the author of commits and tags."""
    name = AUTHOR or os.environ.get("LAKEBED_AUTHOR")
    if name:
        return name
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "public"
