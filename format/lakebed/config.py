"""Defaults that a user may change before opening a dataset."""

from __future__ import annotations

import os

# Bound of the cache of whole chunks per open dataset, in bytes.
CACHE_BYTES = 256 * 1024 * 1024

# Seconds after which a thread publishes appended rows that were neither flushed nor committed. The end of a ``with``
# block publishes the rows of the block.
MAX_UNPUBLISHED_SECONDS = 30.0

# Seconds for which a writer that makes no progress keeps others out; a thread renews the lease in time. The locks of
# Deep Lake 3.9.52 last as long. A shorter time admits other writers sooner after the kill of one whose end cannot be
# detected: one on a store, or on another machine.
LEASE_SECONDS = float(os.environ.get("LAKEBED_LEASE_SECONDS") or 300)

# Seconds for which garbage is kept, because readers on other hosts or Deep Lake 3.9.52 may still use it. If all readers
# are known, it is removed once KEEP_HEADS newer heads exist.
GRACE_SECONDS = 3600.0
KEEP_HEADS = 64

# Most chunks of one tensor that an uncommitted version lists itself, since every publish writes the whole list. Beyond
# that, publishes go on in a version below it, as after a commit, which no user sees.
CHECKPOINT_CHUNKS = 1024

# A publish waits until the disk has everything. LAKEBED_FSYNC=0 switches that off, for data that may be lost when the
# power fails: comparisons with programs that do not wait, tests, scratch folders.
FSYNC = os.environ.get("LAKEBED_FSYNC", "1") != "0"

# New class names of label tensors are printed on standard output, as in 3.9.52. Switch it off in programs whose
# standard output is read by others, such as a sync.
TELL_NEW_CLASSES = os.environ.get("LAKEBED_TELL_NEW_CLASSES", "1") != "0"

# Large files of local datasets go through the cache of the operating system, as is best for files that are read again.
# A process that moves much data once, such as a sync, leaves the cache to others: its bytes then cost less processor
# time (`storage/files/direct.py`), and their first reader waits for the disk.
OS_CACHE = True

# Object stores. Concurrent requests: fewer reads if a store refuses them, and up to four times as many if that brings
# more bytes per second, unless this is below 8; seconds after which a stream without data is requested again; seconds
# for one request that writes; seconds for which a failing request is repeated.
REQUESTS = 64
STALL_SECONDS = 15.0
REQUEST_SECONDS = 300.0
RETRY_SECONDS = 60.0

# Most bytes that are read ahead for an open dataset on a store and not used yet.
AHEAD_BYTES = 128 * 1024 * 1024

# Objects above this size are written in parts.
PART_BYTES = 8 * 1024 * 1024

# Most bytes of several objects that are uploaded at the same time.
UPLOAD_BYTES = 64 * 1024 * 1024

# Seconds for one file over HTTP, from connecting to the last byte.
HTTP_TIMEOUT = 60.0

# Places to which the links of a dataset may lead, because its writer chose them, not its reader. Allowed are files of
# its own folder and of these folders; the internet, and these hosts of private networks ("nas", "*.example.org",
# "10.1.0.0/16", "localhost:8000"); links that this process appended itself. lakebed.allow_links adds folders and hosts.
LINK_SCHEMES: frozenset[str] = frozenset({"file", "http", "https", "s3", "gs", "gcs", "az", "azure"})
LINK_ROOTS: tuple[str, ...] = tuple(filter(None, os.environ.get("LAKEBED_LINK_ROOTS", "").split(os.pathsep)))
LINK_HOSTS: tuple[str, ...] = tuple(os.environ.get("LAKEBED_LINK_HOSTS", "").replace(",", " ").split())

# Files that the user's own calls link in a dataset of this machine are remembered in ~/.config/lakebed, and links that
# are listed there, also by `lakebed allow`, are followed. Switch it off in services that read datasets of others.
REMEMBER_LINKS = os.environ.get("LAKEBED_REMEMBER_LINKS", "1") != "0"

# Links to servers that are followed at the same time; fewer for files of this machine.
LINK_THREADS = 48

# Seconds after which a provider of named credentials is asked again, unless the entry has a ttl.
CREDS_SECONDS = 300.0

# Threads that decode the images of one call; 1 decodes in the calling thread.
THREADS = int(os.environ.get("LAKEBED_THREADS") or len(os.sched_getaffinity(0)))

# Author of commits and tags; None takes LAKEBED_AUTHOR of the environment, or the user of the operating system.
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
