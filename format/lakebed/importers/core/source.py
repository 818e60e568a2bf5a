"""What is imported: an object of the program, a file, or a folder with its files, on this machine or in a bucket.

Names of files are relative to the root, with ``/`` between their parts, in the order of their text. No file outside the
root is ever opened: names that an annotation or an archive gives go through :meth:`Source.find`.
"""

# Paths are strings here, as in storage.
# ruff: noqa: PTH100, PTH110, PTH111, PTH112, PTH113, PTH116, PTH117
from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, BinaryIO

import lakebed
from lakebed.errors import (
    IngestionError,
    InvalidPathException,
    KeyNotFound,
    LakebedError,
    NotFoundError,
    StorageError,
)
from lakebed.storage.address import scheme_of, shown
from lakebed.storage.url import open_storage, parse

if TYPE_CHECKING:
    from lakebed.codecs.sample import Sample
    from lakebed.storage.base import Storage

# Files larger than this are not read whole where an importer wants text or JSON.
MAX_DOCUMENT_BYTES = 4 << 30

# What tells the kinds of files whose names do not.
_HEAD_BYTES = 1024

# What a file in a bucket is read by, bytes at a time.
_BLOCK_BYTES = 1 << 20

# Files and folders that systems leave among the files of users, besides those whose names begin with a dot.
_LITTER = frozenset({"thumbs.db", "desktop.ini", "__macosx", "@eadir"})

# What the folder of a dataset holds; its files are no files of a source that it lies in, such as its own.
_OF_DATASETS = frozenset({"version_control_info.json", "dataset_meta.json"})
_IS_DATASET = "a dataset of lakebed or Deep Lake, which is no part of the folder around it"


@dataclass(frozen=True)
class Source:
    """What is imported.

    Parameters
    ----------
    address
        Path or address; empty for objects of the program.
    data
        The object of the program; None for files.
    creds
        Credentials of a bucket or a web server.
    follow_symlinks
        Open files outside the root that symbolic links inside lead to.
    dest
        Address of what is written, which may lie inside; empty if that is not known.
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
            If nothing is at the path, or nobody knows the host of a web address.
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
                    f"nothing is at {text!r}: a file or folder to import was expected there"
                )
            if not os.path.isfile(text) and not os.path.isdir(text):
                raise InvalidPathException(f"{text!r} is neither a file nor a folder that can be imported")
            text = os.path.abspath(text)  # links stay
        elif scheme_of(text) in ("http", "https"):
            _check_host(text)
        return cls(text, None, creds, follow_symlinks, dest)

    def __getstate__(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("address", "data", "creds", "follow_symlinks", "dest")}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for key, value in state.items():
            object.__setattr__(self, key, value)

    def at(self, path: str | os.PathLike[str]) -> Source:
        """Return another source: of a path relative to this one if something is there, otherwise of the path itself."""
        text = os.fspath(path)
        if scheme_of(text) == "file" and not os.path.isabs(text) and self.is_folder:
            if self.is_local and os.path.exists(f"{self.address}/{text}"):
                text = f"{self.address}/{text}"
            elif not self.is_local:
                text = f"{self.address.rstrip('/')}/{text}"
        return Source.of(text, self.creds, follow_symlinks=self.follow_symlinks, dest=self.dest)

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def is_object(self) -> bool:
        """Whether it is an object of the program."""
        return not self.address

    @cached_property
    def is_local(self) -> bool:
        """Whether its files are on this machine."""
        return bool(self.address) and scheme_of(self.address) == "file"

    @cached_property
    def is_file(self) -> bool:
        """Whether it is one file."""
        if self.is_object:
            return False
        if self.is_local:
            return Path(self.address).is_file()
        return scheme_of(self.address) in ("http", "https") or self._one.stat(self._name) is not None

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, or what stands for one in a bucket."""
        return bool(self.address) and not self.is_file

    @property
    def folder(self) -> Source:
        """The folder that a source of one file lies in; other sources as they are."""
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
        """The address without secrets; of objects the type."""
        if self.is_object:
            return f"{type(self.data).__module__}.{type(self.data).__qualname__}"
        return shown(self.address)

    @cached_property
    def suffix(self) -> str:
        """Suffix of a source that is one file, in lower case, with its dot: its first bytes come before its name."""
        return (_suffix_of_bytes(self.head) or suffix_of(self.name)) if self.is_file else ""

    @cached_property
    def head(self) -> bytes:
        """First bytes of a source that is one file, or all that it has; none of others, or if it cannot be read."""
        if not self.is_file:
            return b""
        try:
            with self.open() as file:
                return file.read(_HEAD_BYTES)
        except (LakebedError, OSError):
            return b""  # told by what reads it

    # -- its files ---------------------------------------------------------------------------------------------

    @cached_property
    def files(self) -> dict[str, int]:
        """Size in bytes by name of all files, in the order of the names; of one file, that one.

        Raises
        ------
        InvalidPathException
            If there are none.
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
        """Why by name of what is in the folder and no file of the source: links that lead out, pipes, datasets."""
        is_listed = self.is_local or "_listing" in self.__dict__  # of a bucket, no listing for this alone
        return self._listing[1] if is_listed and self.is_folder else {}

    def is_own(self, name: str) -> bool:
        """Whether a name in the folder is that of what is written, or of a part of it."""
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
        """Names of files by the folder that they are in; "" is the root."""
        found: dict[str, list[str]] = {}
        for name in self.files:
            found.setdefault(name.rpartition("/")[0], []).append(name)
        return found

    def with_suffix(self, *suffixes: str) -> list[str]:
        """Return the names of all files with one of these suffixes: lower case, with the dot."""
        return [name for name in self.files if self.suffix_of(name) in suffixes]

    def suffix_of(self, name: str) -> str:
        """Return the suffix of a file, as :attr:`suffix` is that of a source that is one file."""
        return self.suffix if self.is_file else suffix_of(name)

    def find(self, name: str) -> str:
        """Return the name of a file that an annotation names.

        Raises
        ------
        NotFoundError
            If it is no file of the source: missing, absolute, or outside the root.
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
        """Return the path of a file on this machine; None for files elsewhere."""
        if not self.is_local:
            return None
        return self.address if self.is_file else f"{self.address}/{name}"

    def link(self, name: str) -> str:
        """Return the address of a file, as a link to it is stored."""
        if self.is_file:
            return self.address
        return f"{self.address.rstrip('/')}/{name}"

    def read(self, name: str = "") -> bytes:
        """Return the content of a file; of a source that is one file, of that.

        Raises
        ------
        NotFoundError
            If it is gone.
        StorageError
            If it cannot be read.
        """
        path = self.path(name)
        if path is not None:
            with _reading(path):
                return Path(path).read_bytes()
        if self.is_file:
            return self._one.get(self._name)
        return self._storage.get(name)

    def document(self, name: str = "") -> bytes:
        """Return the content of a file that is read whole into memory, such as JSON.

        Raises
        ------
        IngestionError
            If it is larger than 4 GB.
        """
        size = self.files.get(name or self.name, 0)
        if size > MAX_DOCUMENT_BYTES:
            raise IngestionError(
                f"{name or self.name} of {size:,} bytes is larger than {MAX_DOCUMENT_BYTES:,}"
            )
        return self.read(name)

    def open(self, name: str = "") -> BinaryIO:
        """Open a file for reading; of a bucket's, only what is read is fetched. Errors as of :meth:`read`."""
        path = self.path(name)
        if path is not None:
            with _reading(path):
                return open(path, "rb")  # noqa: PTH123 - the caller closes it
        if self.is_file:
            raw = Ranges(partial(self._one.get_range, self._name), self._size_elsewhere())
        else:
            raw = Ranges(partial(self._storage.get_range, name), self.files[name])
        return io.BufferedReader(raw, _BLOCK_BYTES)

    def media(self, name: str) -> Sample:
        """Return a file as a sample, which is stored byte for byte where the tensor has its compression."""
        path = self.path(name)
        if path is not None:
            return lakebed.read(path)
        return lakebed.read(self.read(name))

    @cached_property
    def identity(self) -> str:
        """Digest of names and sizes of all files; of objects, of what they are."""
        found = sha256(self.shown.encode())
        for name, size in self.files.items():
            found.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
        return found.hexdigest()[:32]

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(self.files.values())

    # -- where the files are -----------------------------------------------------------------------------------

    @cached_property
    def _listing(self) -> tuple[dict[str, int], dict[str, str]]:
        """Sizes of the files, and what is none of them."""
        left_out: dict[str, str] = {}
        found = dict(sorted(self._walk(left_out) if self.is_local else self._listed(left_out)))
        return found, dict(sorted(left_out.items()))

    def _walk(self, left_out: dict[str, str]) -> Iterator[tuple[str, int]]:
        root = os.path.realpath(self.address)
        folders, seen = [""], {root}
        while folders:
            folder = folders.pop()
            try:
                entries = os.scandir(f"{self.address}/{folder}" if folder else self.address)
            except OSError as error:
                left_out[folder or "."] = f"it cannot be listed: {error.strerror}"
                continue
            with entries:
                found = list(entries)
                if folder and _OF_DATASETS.issubset(entry.name for entry in found):
                    left_out[folder] = _IS_DATASET
                    continue
                for entry in found:
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    if _is_hidden(entry.name):
                        continue
                    if entry.is_symlink():
                        target = os.path.realpath(entry.path)
                        if not self.follow_symlinks and target != root and not target.startswith(f"{root}/"):
                            left_out[name] = (
                                "a symbolic link that leads out of the folder is not followed; to follow such links: "
                                "follow_symlinks=True (--follow-symlinks)"
                            )
                            continue
                        if entry.is_dir() and target in seen:
                            continue  # a link to a folder above: no end
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
        last_parts: dict[str, set[str]] = {}
        for key, _ in found:
            folder, _, last = key.rpartition("/")
            if folder and last in _OF_DATASETS:
                last_parts.setdefault(folder, set()).add(last)
        datasets = [folder for folder, names in last_parts.items() if names == _OF_DATASETS]
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
        """The folder that a single file is in."""
        return open_storage(parse(self.address.rpartition("/")[0], creds=self.creds))

    @property
    def _name(self) -> str:
        return self.address.rpartition("/")[2]


def _check_host(address: str) -> None:
    """Look the host of a web address up: a client, which tries again and again, tells after half a minute.

    Raises
    ------
    InvalidPathException
        If nobody knows it, and no proxy might.
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
    """Turn errors of the operating system into ours."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"the file {path!r} is gone") from error
    except OSError as error:
        raise StorageError(
            f"the file {path!r} cannot be read: {error.strerror}", errno=error.errno
        ) from error


class Ranges(io.RawIOBase):
    """A file of which ranges are asked for: it is in a bucket, or the other side of a pipe has it.

    Parameters
    ----------
    ranged
        Returns the bytes from a place on, as many as are asked for; fewer at the end.
    size
        Bytes of the file.
    """

    def __init__(self, ranged: Callable[[int, int], bytes], size: int) -> None:
        self._ranged, self._size = ranged, size
        self._at = 0

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def seekable(self) -> bool:
        """Tell that it can be positioned."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read what is left, and no more than fits."""
        count = min(len(buffer), max(0, self._size - self._at))
        if not count:
            return 0
        data = self._ranged(self._at, count)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def suffix_of(name: str) -> str:
    """Return the suffix of a name in lower case, with its dot; ``.nii.gz`` and ``.tar.gz`` are one."""
    stem, dot, last = name.rpartition("/")[2].rpartition(".")
    if not dot or not stem:
        return ""
    if last.lower() in ("gz", "bz2", "xz", "zst") and "." in stem:
        return f".{stem.rpartition('.')[2]}.{last}".lower()
    return f".{last}".lower()


def _suffix_of_bytes(head: bytes) -> str | None:
    """Return the suffix that files have which begin so; None if their bytes do not tell."""
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:520]):  # .mat of MATLAB has a block of its own before it
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
    """Tell whether bytes begin with a message of Arrow: a mark, its length, and a flatbuffer whose table is inside."""
    mark, length, root = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 8))
    table = int.from_bytes(head[8 + root : 12 + root], "little", signed=True)
    is_inside = 4 <= root < min(length, len(head) - 12) and 0 <= root - table < length
    return mark == 0xFFFFFFFF and length % 8 == 0 and root % 4 == 0 and is_inside


def stem_of(name: str) -> str:
    """Return the last part of a name without its suffix."""
    last = name.rpartition("/")[2]
    found = suffix_of(name)
    return last[: len(last) - len(found)] if found else last


def kinds_of(names: Iterable[str], kinds: Mapping[str, str]) -> dict[str, int]:
    """Return how many names there are of each kind that their suffixes say."""
    found: dict[str, int] = {}
    for name in names:
        kind = kinds.get(suffix_of(name))
        if kind is not None:
            found[kind] = found.get(kind, 0) + 1
    return found
