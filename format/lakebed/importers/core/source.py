"""The source of an import: an object of the program, a file, or a folder with its files, local or in a bucket.

Names of files are relative to the root, with ``/`` between their parts, sorted. No file outside of the root is opened:
names in annotations and archives are resolved by :meth:`Source.find`.
"""

# Paths are strings here, as in storage.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH116, PTH117
from __future__ import annotations

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from lakebed.errors import (
    IngestionError,
    InvalidPathException,
    KeyNotFound,
    LakebedError,
    NotFoundError,
    StorageError,
)
from lakebed.importers.core.packages import damaged
from lakebed.links.read import read as read_sample
from lakebed.storage.address import scheme_of, shown
from lakebed.storage.url import open_storage, parse

if TYPE_CHECKING:
    from lakebed.codecs.sample import Sample
    from lakebed.storage.base import Storage

K = TypeVar("K")
T = TypeVar("T")

# Largest file, in bytes, that is read whole as text or JSON.
MAX_DOCUMENT_BYTES = 4 << 30

# Number of bytes at the beginning of a file that decide its kind.
_HEAD_BYTES = 1024

# Files of a bucket are read in blocks of this many bytes.
_BLOCK_BYTES = 1 << 20

# Files and folders that operating systems leave behind; names that begin with a dot are skipped anyway.
_LITTER = frozenset({"thumbs.db", "desktop.ini", "__macosx", "@eadir"})

# Files at the root of a dataset. A dataset inside the source folder, such as the destination, is not imported.
_OF_DATASETS = frozenset({"version_control_info.json", "dataset_meta.json"})
_IS_DATASET = "a dataset of lakebed or Deep Lake, which is no part of the folder around it"


@dataclass(frozen=True)
class Elsewhere:
    """A source that does not consist of files, such as a database.

    Parameters
    ----------
    address
        Address of the source, which may contain a password.
    shown
        Address without secrets, for messages.
    """

    address: str = field(repr=False)
    shown: str


@dataclass(frozen=True)
class Source:
    """The source of an import.

    Parameters
    ----------
    address
        Path or address; empty for objects of the program.
    data
        The object of the program; None for files.
    creds
        Credentials of a bucket or a web server.
    follow_symlinks
        Whether to open files outside of the root to which symbolic links lead.
    dest
        Address of the destination, which may be inside the source; empty if it is unknown.
    """

    address: str
    data: Any = None
    creds: Any = field(default=None, repr=False)
    follow_symlinks: bool = False
    dest: str = ""

    @classmethod
    def of(cls, src: Any, creds: Any = None, *, follow_symlinks: bool = False, dest: str = "") -> Source:
        """Return the source of a path, an address or an object.

        Raises
        ------
        InvalidPathException
            If nothing is at the path, or the host of a web address is unknown.
        """
        if isinstance(src, Source):
            return src
        if not isinstance(src, str | os.PathLike):
            return cls("", src)
        text = os.fspath(src)
        if scheme_of(text) == "file":
            text = parse(text).path if "://" in text else os.path.expanduser(text)
            if not os.path.lexists(text):
                raise InvalidPathException(
                    f"{text!r} does not exist: a file or folder to import was expected"
                )
            if not os.path.isfile(text) and not os.path.isdir(text):
                raise InvalidPathException(f"{text!r} is neither a file nor a folder that can be imported")
            text = os.path.abspath(text)  # unlike `realpath`, keeps symbolic links
        elif scheme_of(text) in ("http", "https"):
            _check_host(text)
        return cls(text, None, creds, follow_symlinks, dest)

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.__dataclass_fields__}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state)

    def at(self, path: str | os.PathLike[str]) -> Source:
        """Return the source at a path; the path is relative to this source if such a file or folder exists."""
        text = os.fspath(path)
        if scheme_of(text) == "file" and not os.path.isabs(text) and self.is_folder:
            below = f"{self.address.rstrip('/')}/{text}"
            text = below if not self.is_local or os.path.exists(below) else text
        return Source.of(text, self.creds, follow_symlinks=self.follow_symlinks, dest=self.dest)

    # -- kind --------------------------------------------------------------------------------------------------

    @property
    def is_object(self) -> bool:
        """True if the source is an object of the program."""
        return not self.address

    @cached_property
    def is_local(self) -> bool:
        """True if the files are on this machine."""
        return bool(self.address) and scheme_of(self.address) == "file"

    @cached_property
    def is_file(self) -> bool:
        """True if the source is one file."""
        if self.is_object:
            return False
        if self.is_local:
            return Path(self.address).is_file()
        return scheme_of(self.address) in ("http", "https") or self._one.stat(self._name) is not None

    @property
    def is_folder(self) -> bool:
        """True if the source is a folder, or a prefix in a bucket."""
        return bool(self.address) and not self.is_file

    @property
    def folder(self) -> Source:
        """The folder of a single file; any other source is returned unchanged."""
        if not self.is_file:
            return self
        above = self.address.rpartition("/")[0] or "/"
        return Source.of(above, self.creds, follow_symlinks=self.follow_symlinks, dest=self.dest)

    @property
    def name(self) -> str:
        """Last part of the address."""
        return self.shown.rstrip("/").rpartition("/")[2]

    @property
    def shown(self) -> str:
        """The address without secrets; the type of an object."""
        if isinstance(self.data, Elsewhere):
            return self.data.shown
        if self.is_object:
            return f"{type(self.data).__module__}.{type(self.data).__qualname__}"
        return shown(self.address)

    @cached_property
    def suffix(self) -> str:
        """Suffix of a single file in lower case, with its dot; the file's first bytes take precedence over its name."""
        return (_suffix_of_bytes(self.head) or suffix_of(self.name)) if self.is_file else ""

    @cached_property
    def head(self) -> bytes:
        """First bytes of a single file; empty for other sources and for files that cannot be read."""
        if not self.is_file:
            return b""
        try:
            return self.start_of("", _HEAD_BYTES)
        except (LakebedError, OSError):
            return b""  # the error is reported when the file is read

    # -- its files ---------------------------------------------------------------------------------------------

    @cached_property
    def files(self) -> dict[str, int]:
        """Name -> size in bytes of all files, sorted by name; a source that is a single file has one entry.

        Raises
        ------
        InvalidPathException
            If the source holds no files.
        """
        if self.is_object:
            return {}
        if self.is_file:
            if not self.is_local:
                return {self.name: self._size_elsewhere()}
            with _reading(self.address):
                return {self.name: os.stat(self.address).st_size}
        found, left_out = self._listing
        if not found:
            told = "".join(f"; {name}: {reason}" for name, reason in list(left_out.items())[:1])
            raise InvalidPathException(f"{self.shown} holds no files{told}")
        return found

    @property
    def left_out(self) -> dict[str, str]:
        """Return entries of the folder that are not files of the source, with the reason: links, pipes, datasets."""
        # Do not list a bucket only for this property.
        is_listed = self.is_local or "_listing" in self.__dict__
        return self._listing[1] if is_listed and self.is_folder else {}

    def is_own(self, name: str) -> bool:
        """Return whether a name in the folder is the destination or a part of it."""
        if not self.dest or scheme_of(self.dest) != scheme_of(self.address):
            return False
        if self.is_local:
            dest = parse(self.dest).path if "://" in self.dest else os.path.expanduser(self.dest)
            one, other = os.path.realpath(f"{self.address}/{name}"), os.path.realpath(dest)
        else:
            one, other = f"{self.address.rstrip('/')}/{name}", self.dest.rstrip("/")
        return one == other or one.startswith(f"{other}/")

    @cached_property
    def folders(self) -> dict[str, list[str]]:
        """Names of files by folder; "" is the root."""
        return grouped(self.files, lambda name: name.rpartition("/")[0])

    def with_suffix(self, *suffixes: str) -> list[str]:
        """Return the names of all files with one of these suffixes: lower case, with the dot."""
        return [name for name in self.files if self.suffix_of(name) in suffixes]

    def chosen(self, *suffixes: str) -> list[str]:
        """Return the files of a folder with one of these suffixes; for a single file, its name, whatever the suffix."""
        return [self.name] if self.is_file else self.with_suffix(*suffixes)

    def mainly(self, *suffixes: str) -> list[str]:
        """Return the names of files with one of these suffixes; none if fewer than half of all files have one."""
        names = [] if self.is_object else self.with_suffix(*suffixes)
        return names if self.is_file or 2 * len(names) >= len(self.files) else []

    def suffix_of(self, name: str) -> str:
        """Return the suffix of a file; for a source that is a single file, :attr:`suffix`."""
        return self.suffix if self.is_file else suffix_of(name)

    def find(self, name: str) -> str:
        """Return the name of a file that an annotation names.

        Raises
        ------
        NotFoundError
            If the source has no such file: the name is missing, absolute, or leads outside of the root.
        """
        parts: list[str] = []
        for part in name.replace("\\", "/").split("/"):
            if part == ".." and parts:
                parts.pop()
            elif part == ".." or (part == "" and not parts):
                raise NotFoundError(f"the file {name!r} is not below {self.shown}")
            elif part not in ("", "."):
                parts.append(part)
        found = "/".join(parts)
        if found not in self.files:
            raise NotFoundError(f"the file {name!r} is missing")
        return found

    def path(self, name: str) -> str | None:
        """Return the path of a local file; None for files elsewhere."""
        return self.link(name) if self.is_local else None

    def link(self, name: str) -> str:
        """Return the address of a file that links to the file store."""
        return self.address if self.is_file else f"{self.address.rstrip('/')}/{name}"

    def read(self, name: str = "") -> bytes:
        """Return the content of a file; no name is needed for a single file.

        Raises
        ------
        NotFoundError
            If the file does not exist any more.
        StorageError
            If the file cannot be read.
        """
        path = self.path(name)
        if path is not None:
            with _reading(path):
                return Path(path).read_bytes()
        return self._one.get(self._name) if self.is_file else self._storage.get(name)

    def document(self, name: str = "", most: int = MAX_DOCUMENT_BYTES) -> bytes:
        """Return the content of a file that is read whole into memory, such as JSON.

        Raises
        ------
        IngestionError
            If the file is larger than `most` bytes.
        """
        check_size(name or self.name, self.files.get(name or self.name, 0), most)
        return self.read(name)

    def json(self, name: str, most: int = MAX_DOCUMENT_BYTES) -> dict[str, Any]:
        """Return the JSON object in a file of at most `most` bytes.

        Raises
        ------
        IngestionError
            If the file is larger, or is not a JSON object.
        """
        with damaged(f"{name} of {self.shown} is not JSON", ValueError, RecursionError):
            found = json.loads(self.document(name, most))
        if not isinstance(found, dict):
            raise IngestionError(f"{name} of {self.shown} is not a JSON object")
        return found

    def open(self, name: str = "") -> BinaryIO:
        """Open a file for reading; for a source that is a single file, the name is ignored.

        Errors are those of :meth:`read`. From a bucket, only the ranges that are read are fetched.
        """
        path = self.path(name)
        if path is not None:
            with _reading(path):
                return open(path, "rb")  # noqa: PTH123 - the caller closes it
        if self.is_file:
            raw = Ranges(partial(self._one.get_range, self._name), self._size_elsewhere())
        else:
            raw = Ranges(partial(self._storage.get_range, name), self.files[name])
        return io.BufferedReader(raw, _BLOCK_BYTES)

    def start_of(self, name: str, size: int) -> bytes:
        """Return the first bytes of a file."""
        with self.open(name) as file:
            return file.read(size)

    def media(self, name: str) -> Sample:
        """Return a file as a sample, which is stored byte for byte if the tensor has the same compression."""
        path = self.path(name)
        return read_sample(self.read(name) if path is None else path)

    @cached_property
    def identity(self) -> str:
        """Digest of the names and sizes of all files; for an object of the program, digest of its type."""
        found = sha256(self.shown.encode())
        for name, size in self.files.items():
            found.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:32]

    @property
    def nbytes(self) -> int:
        """Total size of all files in bytes."""
        return sum(self.files.values())

    # -- where the files are -----------------------------------------------------------------------------------

    @cached_property
    def _listing(self) -> tuple[dict[str, int], dict[str, str]]:
        """Name -> size of each file, and name -> reason of each entry that is left out."""
        left_out: dict[str, str] = {}
        found = dict(sorted(self._walk(left_out) if self.is_local else self._listed(left_out)))
        return found, dict(sorted(left_out.items()))

    def _walk(self, left_out: dict[str, str]) -> Iterator[tuple[str, int]]:
        root = os.path.realpath(self.address)
        folders, seen = [""], {root}
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(f"{self.address}/{folder}") as entries:
                    found = [entry for entry in entries if not _is_hidden(entry.name)]
            except OSError as error:
                left_out[folder or "."] = f"it cannot be listed: {error.strerror}"
                continue
            if folder and _OF_DATASETS.issubset(entry.name for entry in found):
                left_out[folder] = _IS_DATASET
                continue
            for entry in found:
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_symlink():
                    target = os.path.realpath(entry.path)
                    if not self.follow_symlinks and target != root and not target.startswith(f"{root}/"):
                        left_out[name] = (
                            "a symbolic link that leads out of the folder is not followed; to follow such links: "
                            "follow_symlinks=True (--follow-symlinks)"
                        )
                        continue
                    if entry.is_dir() and target in seen:
                        continue  # skip links to a folder above, which would lead to endless recursion
                    seen.add(target)
                if entry.is_dir():
                    folders.append(name)
                    continue
                try:
                    stat = entry.stat()
                except OSError as error:
                    left_out[name] = f"it is not there: {error.strerror}"
                    continue
                if S_ISREG(stat.st_mode):
                    yield name, stat.st_size
                else:
                    left_out[name] = "a pipe, a socket or a device is no file"

    def _listed(self, left_out: dict[str, str]) -> Iterator[tuple[str, int]]:
        found = [(key, stat.size) for key, stat in self._storage.list("") if not key.endswith("/")]
        marks = Counter(key.rpartition("/")[0] for key, _ in found if key.rpartition("/")[2] in _OF_DATASETS)
        datasets = [folder for folder, count in marks.items() if folder and count == len(_OF_DATASETS)]
        left_out.update(dict.fromkeys(datasets, _IS_DATASET))
        inside = tuple(f"{folder}/" for folder in datasets)
        for key, size in found:
            if not key.startswith(inside) and not any(map(_is_hidden, key.split("/"))):
                yield key, size

    def _size_elsewhere(self) -> int:
        found = self._one.stat(self._name)
        if found is None:
            raise KeyNotFound(f"there is no file {self.shown}")
        return found.size

    @cached_property
    def _storage(self) -> Storage:
        return open_storage(parse(self.address, creds=self.creds))

    @cached_property
    def _one(self) -> Storage:
        """Storage of the folder that contains a single file."""
        return open_storage(parse(self.address.rpartition("/")[0], creds=self.creds))

    @property
    def _name(self) -> str:
        return self.address.rpartition("/")[2]


def _check_host(address: str) -> None:
    """Look up the host of a web address first, because for an unknown host a client would retry for half a minute.

    Raises
    ------
    InvalidPathException
        If the host is unknown, and no proxy is set that might know it.
    """
    import socket
    from urllib.parse import urlsplit
    from urllib.request import getproxies

    found = urlsplit(address)
    if not found.hostname or getproxies().keys() & {found.scheme, "all"}:
        return
    try:
        socket.getaddrinfo(found.hostname, None)
    except (OSError, UnicodeError) as error:
        raise InvalidPathException(
            f"the host {found.hostname!r} of {shown(address)} is not known; check the address and the network"
        ) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in _LITTER


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Convert errors of the operating system to errors of lakebed."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"the file {path!r} does not exist any more") from error
    except OSError as error:
        raise StorageError(
            f"the file {path!r} cannot be read: {error.strerror}", errno=error.errno
        ) from error


class Ranges(io.RawIOBase):
    """A file whose ranges are fetched on demand: from a bucket, or through a pipe.

    Parameters
    ----------
    ranged
        Function that returns a given number of bytes from a position on; fewer bytes at the end of the file.
    size
        Size of the file in bytes.
    """

    def __init__(self, ranged: Callable[[int, int], bytes], size: int) -> None:
        self._ranged, self._size = ranged, size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes, up to the size of the buffer."""
        count = min(len(buffer), max(0, self._size - self._at))
        if not count:
            return 0
        data = self._ranged(self._at, count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def check_size(what: str, nbytes: int, most: int) -> None:
    """Refuse data that is read whole into memory, if it is too large.

    Raises
    ------
    IngestionError
        If it has more than `most` bytes.
    """
    if nbytes > most:
        raise IngestionError(f"{what} of {nbytes:,} bytes is larger than the allowed {most:,}")


def suffix_of(name: str) -> str:
    """Return the suffix of a name in lower case, with its dot; ``.nii.gz`` and ``.tar.gz`` are single suffixes."""
    stem, dot, last = name.rpartition("/")[2].rpartition(".")
    if not dot or not stem:
        return ""
    if last.lower() in ("gz", "bz2", "xz", "zst") and "." in stem:
        return f".{stem.rpartition('.')[2]}.{last}".lower()
    return f".{last}".lower()


def _suffix_of_bytes(head: bytes) -> str | None:
    """Return the suffix of files that begin with these bytes; None if several kinds of files do."""
    # A .mat file of MATLAB has 512 bytes before the HDF5 signature.
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520]):
        return ".h5"
    if head.startswith(b"PK\3\4") and head[30 : 30 + int.from_bytes(head[26:28], "little")].endswith(b".npy"):
        return ".npz"
    if _is_arrow_stream(head):
        return ".arrow"
    if head[257:262] == b"ustar":
        return ".tar"
    signatures = {b"PAR1": ".parquet", b"ARROW1": ".arrow", b"\x93NUMPY": ".npy"}
    return next((suffix for signature, suffix in signatures.items() if head.startswith(signature)), None)


def _is_arrow_stream(head: bytes) -> bool:
    """Return whether bytes begin with an Arrow message: a marker, the length of the message, and a flatbuffer."""
    mark, length, root = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 8))
    table = int.from_bytes(head[8 + root : 12 + root], "little", signed=True)
    is_inside = 4 <= root < min(length, len(head) - 12) and 0 <= root - table < length
    return mark == 0xFFFFFFFF and length % 8 == 0 and root % 4 == 0 and is_inside


def stem_of(name: str) -> str:
    """Return the last part of a name without its suffix."""
    last = name.rpartition("/")[2]
    return last[: len(last) - len(suffix_of(last))]


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Return items, such as names of files, by the key that a function gives them."""
    found: dict[K, list[T]] = {}
    for one in items:
        found.setdefault(key(one), []).append(one)
    return found


def kinds_of(names: Iterable[str], kinds: Mapping[str, str]) -> dict[str, int]:
    """Count names by the kind of their suffix."""
    return dict(Counter(kinds[suffix] for suffix in map(suffix_of, names) if suffix in kinds))
