"""Defaults that a user may change before opening a dataset."""

from __future__ import annotations

import os

# Bound of the cache of whole chunks per open dataset, in bytes.
CACHE_BYTES = 256 * 1024 * 1024

# What was appended, and neither flushed nor committed, is published by a thread after so many seconds; the end of a
# ``with`` block publishes what was appended inside.
MAX_UNPUBLISHED_SECONDS = 30.0

# How long a writer that stands still keeps others out, in seconds; a thread renews the lease in good time. Deep Lake
# 3.9.52 takes its own locks to be valid for as long. A shorter one lets others in sooner after a writer was killed that
# the system can not tell of: one on a store, or of another machine.
LEASE_SECONDS = float(os.environ.get("LAKEBED_LEASE_SECONDS") or 300)

# Garbage stays for so long, in seconds: readers of another host or of Deep Lake 3.9.52 may still want it. Where readers
# are known it goes earlier once so many newer heads have been replaced.
GRACE_SECONDS = 3600.0
KEEP_HEADS = 64

# Chunks of one tensor that an uncommitted version names itself at most: every publish writes the names of all of them.
# Beyond that what is published goes on below it, as if it was committed, which nobody gets to see.
CHECKPOINT_CHUNKS = 1024

# Whether a publish waits until the disk has everything. LAKEBED_FSYNC=0 switches it off, for data that may be lost when
# the power fails: measurements beside programs that do not wait either, tests, scratch folders.
FSYNC = os.environ.get("LAKEBED_FSYNC", "1") != "0"

# Whether a name that becomes a class of a tensor of labels is told on standard output, as 3.9.52 does. Not for programs
# whose standard output is read by others, as that of a sync.
TELL_NEW_CLASSES = os.environ.get("LAKEBED_TELL_NEW_CLASSES", "1") != "0"

# Whether large files of local datasets go through the cache of the operating system, as what is used again should. A
# process that moves much data once, as a sync does, leaves the cache to others: its own bytes then cost less processor
# time (`storage/files/direct.py`), and the first one to read them waits for the disk.
OS_CACHE = True

# Object stores. Requests that are under way at the same time: of those that read fewer where a store refuses, and up to
# four times as many where that brings more bytes per second, unless this is below 8; seconds in which a stream must
# bring something or is asked for again; seconds for one request that writes; seconds after which a request that fails
# again and again fails.
REQUESTS = 64
STALL_SECONDS = 15.0
REQUEST_SECONDS = 300.0
RETRY_SECONDS = 60.0

# What is read ahead of an open dataset on a store and not used yet, in bytes.
AHEAD_BYTES = 128 * 1024 * 1024

# Objects above this size are written in parts.
PART_BYTES = 8 * 1024 * 1024

# Bytes of several objects that are on their way to an object store at the same time.
UPLOAD_BYTES = 64 * 1024 * 1024

# Seconds for one file over HTTP, from connecting to the last byte.
HTTP_TIMEOUT = 60.0

# Where the links of a dataset may lead: whoever wrote it chose them, not who reads it. Files of its own folder and of
# these folders; the internet, and these hosts of private networks ("nas", "*.example.org", "10.1.0.0/16",
# "localhost:8000"); links that this process appended itself. lakebed.allow_links adds to both.
LINK_SCHEMES: frozenset[str] = frozenset({"file", "http", "https", "s3", "gs", "gcs", "az", "azure"})
LINK_ROOTS: tuple[str, ...] = tuple(filter(None, os.environ.get("LAKEBED_LINK_ROOTS", "").split(os.pathsep)))
LINK_HOSTS: tuple[str, ...] = tuple(os.environ.get("LAKEBED_LINK_HOSTS", "").replace(",", " ").split())

# Whether files that the user's own calls link in a dataset of this machine are remembered in ~/.config/lakebed, and
# what stands there, `lakebed allow` included, is followed. Not for services that read datasets of others.
REMEMBER_LINKS = os.environ.get("LAKEBED_REMEMBER_LINKS", "1") != "0"

# Links to servers that are followed at the same time; fewer are if they lead to files of this machine.
LINK_THREADS = 48

# Seconds after which a provider of named credentials is asked again, unless the entry has a ttl.
CREDS_SECONDS = 300.0

# Threads that decode the images of one call. 1 decodes in the thread that calls.
THREADS = int(os.environ.get("LAKEBED_THREADS") or len(os.sched_getaffinity(0)))

# Name that commits and tags carry; None is LAKEBED_AUTHOR in the environment, or else the operating system's user.
AUTHOR: str | None = None


def author() -> str:
    """Return the name that commits and tags carry."""
    name = AUTHOR or os.environ.get("LAKEBED_AUTHOR")
    if name:
        return name
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "public"
