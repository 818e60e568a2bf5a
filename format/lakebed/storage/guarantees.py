"""Guarantees for datasets by the kind of their storage: the table that `lakebed doctor` shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakebed.storage.base import is_bucket, traits_of

if TYPE_CHECKING:
    from lakebed.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Guarantees:
    """A row of the table.

    Parameters
    ----------
    place
        Kind of storage.
    publish
        Mechanism that makes a version visible as a whole or not at all.
    writers
        Mechanism that separates two writers of a branch, and the outcome if both write nevertheless.
    crash
        State after a process, a machine or an answer is lost.
    """

    place: str
    publish: str
    writers: str
    crash: str


_LEASE = "a lease in the head's folder, renewed, 300 s; whoever publishes second gets CommitFailed"
_ANSWER = "answered writes stay; after a lost answer, reading again shows the outcome"

LOCAL = Guarantees(
    "local disk",
    "a rename, after everything else is synced",
    "a file lock that ends with its process; one writer per branch, the other gets LockedException",
    "nothing published is lost by kill -9 or a power cut (LAKEBED_FSYNC=0 gives up the latter)",
)
NETWORK_FOLDER = Guarantees(
    "network folder (NFS, SMB, FUSE)",
    "a rename by the server, after fsync",
    "a file lock of the server: mount with locks (NFSv4, or lockd)",
    "as on a local disk, if the server keeps synced data",
)
S3 = Guarantees("Amazon S3", "a conditional put (If-Match)", _LEASE, _ANSWER)
S3_LIKE = Guarantees(
    "S3 alike that enforces conditions (R2, Ceph, MinIO, ...)",
    "a conditional put (If-Match); a probe has shown that it is enforced",
    _LEASE,
    _ANSWER,
)
GOOGLE = Guarantees("Google Cloud Storage", "a conditional put (x-goog-if-generation-match)", _LEASE, _ANSWER)
AZURE = Guarantees("Azure blob storage", "a conditional put (If-Match)", _LEASE, _ANSWER)
WEAK = Guarantees(
    "a store without enforced conditions (rclone, older gateways, fsspec)",
    "a plain put, with a read before and after it",
    "a lock file that is written, and read again after 0.5 s; two writers within one round trip may still meet, and "
    "the last one wins: write from one process at a time",
    "depends on whether the server keeps answered writes",
)
WEB = Guarantees("web server", "for reading only", "none can write", "depends on the server")
PACKED = Guarantees(
    "packed dataset (one .lake file)",
    "for reading only",
    "none can write",
    "the file is read completely, or with an error",
)
MEMORY = Guarantees("memory of this process", "a lock", "a lock in this process", "lost with the process")

TABLE = (LOCAL, NETWORK_FOLDER, S3, S3_LIKE, GOOGLE, AZURE, WEAK, WEB, PACKED, MEMORY)

_NETWORK = ("nfs", "cifs", "smb", "9p", "fuse.", "lustre", "ceph", "gluster", "afs", "beegfs")


def guarantees_of(storage: Storage, *, conditional: bool = True) -> Guarantees:
    """Return the row for a storage.

    Parameters
    ----------
    conditional
        Whether a probe found its conditional puts to be enforced.
    """
    traits = traits_of(storage)
    if traits.folder:
        kind = file_system(traits.folder)
        return NETWORK_FOLDER if kind.startswith(_NETWORK) else LOCAL
    if traits.read_only:
        return WEB if is_bucket(storage) else PACKED
    if traits.local:
        return MEMORY
    if not conditional or not is_bucket(storage):
        return WEAK
    scheme = storage.url.partition("://")[0]
    if scheme == "s3":
        return S3_LIKE if storage.endpoint else S3
    return GOOGLE if scheme == "gs" else AZURE


def file_system(path: str) -> str:
    """Return the Linux name of a path's file system; empty if unknown."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:  # noqa: PTH123
            found = [line.split()[1:3] for line in mounts]
    except OSError:
        return ""
    there = [
        (place.encode().decode("unicode_escape"), kind)
        for place, kind in found
        if f"{path.rstrip('/')}/".startswith(f"{place.rstrip('/')}/")
    ]
    return max(there, key=lambda entry: len(entry[0]))[1] if there else ""
