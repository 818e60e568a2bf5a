"""Documents of a repository of backups: its catalog, and a list of files for each point.

    catalog.json             {"lakebed_backups": 1, "source": address, "points": [point, ...], "removed": [ids],
                              "run": run or null, "sum": checksum}
    points/<id>              8 bytes magic, 8 bytes xxh3-64 of the rest, deflated JSON:
                             {"id", "tree_time", "branches", "trusted", "damaged", "runs": [ids],
                              "files": [[key, size, SHA-256, number of the run, etag in the source], ...],
                              "refs": {version: [numbers of files]}}
    objects/<run>/<SHA-256>  content of a file

The checksum of the catalog is the xxh3-64 of the document without it, in hexadecimal. Pure.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import xxhash

from lakebed import limits
from lakebed.documents import fields as members
from lakebed.documents import json_style
from lakebed.errors import FormatError

CATALOG_KEY = "catalog.json"
OBJECTS = "objects/"

_VERSION = 1
_MAGIC = b"LBPOINT1"
_CATALOG, _POINT = "the catalog of the backups", "the list of files of a backup"
_ID = re.compile(r"[0-9a-f]{12}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
# Limit of decompression, against deflate bombs. Real lists of files shrink to a quarter at most, because all
# checksums differ.
_MOST_INFLATED = 64
_LEAST_INFLATED = 1 << 24


def point_key(id: str) -> str:  # noqa: A002
    """Return the key of the list of files of a point."""
    return f"points/{id}"


@dataclass(frozen=True, slots=True)
class BackupPoint:
    """A complete backup, as the catalog lists it.

    Parameters
    ----------
    id
        Name of the backup.
    time
        Time at which the state was read, in POSIX seconds.
    source
        Address of the dataset.
    files, bytes
        Number and bytes of its files.
    added_files, added_bytes
        Number and bytes of the contents that earlier points did not have.
    branches
        Names of the branches.
    commits
        Number of commits.
    damaged
        Number of files that were damaged or missing in the source.
    digest
        SHA-256 of its list of files.
    """

    id: str
    time: float
    source: str
    files: int
    bytes: int
    added_files: int
    added_bytes: int
    branches: tuple[str, ...]
    commits: int
    damaged: int = 0
    digest: str = field(default="", repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the entry in the catalog."""
        return {**asdict(self), "branches": list(self.branches)}

    @classmethod
    def from_json(cls, doc: Any) -> BackupPoint:
        """Read an entry of the catalog.

        Raises
        ------
        FormatError
            If a member is missing or of the wrong type.
        """
        if not isinstance(doc, dict) or type(doc.get("time")) not in (int, float):
            raise FormatError(f"{_CATALOG}: {doc!r:.60} is not a point")
        counts = {
            name: members.count(doc, name, _CATALOG)
            for name in ("files", "bytes", "added_files", "added_bytes", "commits", "damaged")
        }
        return cls(
            id=_id(doc.get("id"), _CATALOG),
            time=float(doc["time"]),
            source=members.text(doc, "source", _CATALOG, ""),
            branches=members.texts(doc, "branches", _CATALOG),
            digest=members.text(doc, "digest", _CATALOG, ""),
            **counts,
        )


@dataclass(frozen=True, slots=True)
class Run:
    """A running or interrupted backup.

    Parameters
    ----------
    id
        Id of its future point.
    token
        Identity of the owner; a process that takes the run over writes a token of its own.
    pid, host, node, boot
        The owner's process, see :class:`lakebed.storage.lock.Owner`.
    seen
        Time at which the owner was last seen, in POSIX seconds.
    """

    id: str
    token: str
    pid: int
    host: str
    node: int
    boot: str
    seen: float

    @classmethod
    def from_json(cls, doc: Any) -> Run:
        """Parse the entry of a run.

        Raises
        ------
        FormatError
            If a member is missing or of the wrong type.
        """
        if not isinstance(doc, dict) or type(doc.get("seen")) not in (int, float):
            raise FormatError(f"{_CATALOG}: {doc!r:.60} is not a run")
        return cls(
            id=_id(doc.get("id"), _CATALOG),
            token=members.text(doc, "token", _CATALOG, ""),
            pid=members.count(doc, "pid", _CATALOG),
            host=members.text(doc, "host", _CATALOG, ""),
            node=members.count(doc, "node", _CATALOG),
            boot=members.text(doc, "boot", _CATALOG, ""),
            seen=float(doc["seen"]),
        )


@dataclass(frozen=True, slots=True)
class Catalog:
    """The points of a repository, and the work in progress.

    Parameters
    ----------
    source
        Address of the dataset.
    points
        Complete backups, the oldest first.
    removed
        Removed points whose files still exist.
    run
        The running or interrupted backup.
    """

    source: str = ""
    points: tuple[BackupPoint, ...] = ()
    removed: tuple[str, ...] = ()
    run: Run | None = None

    @classmethod
    def from_bytes(cls, data: bytes) -> Catalog:
        """Parse the file.

        Raises
        ------
        FormatError
            If the file is damaged, or a later release wrote it.
        """
        doc = json_style.load_object(data, _CATALOG)
        found = doc.pop("sum", None)
        if found != _sum(json_style.dump_compact(doc)):
            raise FormatError(f"{_CATALOG} is damaged: its checksum is wrong")
        if doc.get("lakebed_backups") != _VERSION:
            raise FormatError(f"{_CATALOG} has a layout that this release cannot read; use a later release")
        points = doc.get("points")
        if not isinstance(points, list):
            raise FormatError(f"{_CATALOG} lists no points")
        limits.check("MAX_VERSIONS", len(points), f"{_CATALOG}: points")
        run = doc.get("run")
        return cls(
            members.text(doc, "source", _CATALOG, ""),
            tuple(map(BackupPoint.from_json, points)),
            tuple(_id(i, _CATALOG) for i in members.texts(doc, "removed", _CATALOG)),
            None if run is None else Run.from_json(run),
        )

    def to_bytes(self) -> bytes:
        """Write the file."""
        doc = {
            "lakebed_backups": _VERSION,
            "source": self.source,
            "points": [point.to_json() for point in self.points],
            "removed": list(self.removed),
            "run": None if self.run is None else asdict(self.run),
        }
        return json_style.dump_compact({**doc, "sum": _sum(json_style.dump_compact(doc))})

    @property
    def newest(self) -> BackupPoint | None:
        """The newest point."""
        return max(self.points, key=lambda point: point.time, default=None)


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the dataset, and the location of its content in the repository.

    Parameters
    ----------
    key
        Key of the file in the dataset.
    size
        Length of the file.
    digest
        SHA-256 of its content, in hexadecimal.
    run
        The backup that stored the content.
    etag
        Etag of the object in the source; "" if it does not determine the content.
    """

    key: str
    size: int
    digest: str
    run: str
    etag: str

    @property
    def object(self) -> str:
        """Key of the content in the repository."""
        return f"{OBJECTS}{self.run}/{self.digest}"


@dataclass(frozen=True, slots=True)
class FileList:
    """Every file of a point.

    Parameters
    ----------
    id
        The point.
    tree_time
        Time at which the version tree was read, in POSIX seconds.
    files
        Files by key.
    refs
        Keys of each version's own chunks.
    trusted
        Heads with valid manifests.
    damaged
        Description of each damage in the source, by key.
    """

    id: str
    tree_time: float
    branches: Mapping[str, str]
    files: Mapping[str, StoredFile]
    refs: Mapping[str, tuple[str, ...]]
    trusted: tuple[str, ...] = ()
    damaged: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_bytes(cls, data: bytes) -> FileList:
        """Parse the file.

        Raises
        ------
        FormatError
            If the file is damaged.
        """
        limits.check("MAX_MANIFEST_BYTES", len(data), _POINT)
        if data[:8] != _MAGIC or len(data) < 16:
            raise FormatError(f"{_POINT} has a layout that this release cannot read")
        if int.from_bytes(data[8:16], "little") != xxhash.xxh3_64_intdigest(memoryview(data)[16:]):
            raise FormatError(f"{_POINT} is damaged: its checksum is wrong")
        try:
            engine = zlib.decompressobj()
            text = engine.decompress(memoryview(data)[16:], max(_LEAST_INFLATED, _MOST_INFLATED * len(data)))
            doc = json.loads(text) if engine.eof else None
        except (zlib.error, ValueError, RecursionError) as error:
            raise FormatError(f"{_POINT} is damaged: {error}") from error
        if not isinstance(doc, dict) or type(doc.get("tree_time")) not in (int, float):
            raise FormatError(f"{_POINT} is damaged")
        runs = [_id(run, _POINT) for run in members.texts(doc, "runs", _POINT)]
        entries = doc.get("files")
        if not isinstance(entries, list):
            raise FormatError(f"{_POINT} lists no files")
        stored = [_file(entry, runs) for entry in entries]
        keys = [file.key for file in stored]
        refs = {
            members.checked_version(version, _POINT): _keys(numbers, keys)
            for version, numbers in members.mapping(doc, "refs", _POINT).items()
        }
        return cls(
            id=_id(doc.get("id"), _POINT),
            tree_time=float(doc["tree_time"]),
            branches=members.mapping(doc, "branches", _POINT),
            files=dict(zip(keys, stored, strict=True)),
            refs=refs,
            trusted=members.texts(doc, "trusted", _POINT),
            damaged=members.mapping(doc, "damaged", _POINT),
        )

    def to_bytes(self) -> bytes:
        """Write the file."""
        stored = sorted(self.files.values(), key=lambda file: file.key)
        runs = {run: number for number, run in enumerate(sorted({file.run for file in stored}))}
        numbers = {file.key: number for number, file in enumerate(stored)}
        doc = {
            "id": self.id,
            "tree_time": self.tree_time,
            "branches": dict(self.branches),
            "trusted": list(self.trusted),
            "damaged": dict(self.damaged),
            "runs": list(runs),
            "files": [[f.key, f.size, f.digest, runs[f.run], f.etag] for f in stored],
            # A chunk that is missing in the source is left out; its version is then opened again at the next backup.
            "refs": {
                version: [numbers[key] for key in keys]
                for version, keys in self.refs.items()
                if all(key in numbers for key in keys)
            },
        }
        body = zlib.compress(json_style.dump_compact(doc), 1)
        return _MAGIC + xxhash.xxh3_64_intdigest(body).to_bytes(8, "little") + body

    @property
    def objects(self) -> dict[str, StoredFile]:
        """Return one file for each content, by the key of the content."""
        return {file.object: file for file in self.files.values()}


def _sum(data: bytes) -> str:
    return xxhash.xxh3_64_hexdigest(data)


def _id(value: Any, what: str) -> str:
    if not isinstance(value, str) or _ID.fullmatch(value) is None:
        raise FormatError(f"{what}: {value!r:.60} is not an id of a point")
    return value


def _file(entry: Any, runs: list[str]) -> StoredFile:
    if not isinstance(entry, list) or len(entry) != len(fields(StoredFile)):
        raise FormatError(f"{_POINT}: {entry!r:.60} is not a file")
    key, size, digest, run, etag = entry
    if not (
        isinstance(key, str)
        and type(size) is int
        and 0 <= size <= members.LARGEST
        and isinstance(digest, str)
        and _DIGEST.fullmatch(digest)
        and type(run) is int
        and 0 <= run < len(runs)
        and isinstance(etag, str)
    ):
        raise FormatError(f"{_POINT}: {entry!r:.60} is not a file")
    return StoredFile(members.checked_key(key, _POINT), size, digest, runs[run], etag)


def _keys(numbers: Any, keys: list[str]) -> tuple[str, ...]:
    if not isinstance(numbers, list) or not all(type(n) is int and 0 <= n < len(keys) for n in numbers):
        raise FormatError(f"{_POINT}: {numbers!r:.60} are not numbers of files")
    return tuple(keys[n] for n in numbers)
