"""Verification of backups: everything is read, and compared with its checksums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from lakebed import config
from lakebed.copying.repository import Repository, sha256
from lakebed.documents.backup import OBJECTS, BackupPoint, FileList, StoredFile
from lakebed.errors import ChecksumError, KeyNotFound
from lakebed.runtime.progress import Advance, bytes_bar
from lakebed.storage.base import Storage, traits_of
from lakebed.storage.concurrently import concurrently

# Number of contents that are read at the same time; small, because each is held in memory.
_WORKERS = 16
_LOCAL_WORKERS = 4


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file of a point that cannot be restored.

    Parameters
    ----------
    point
        Id of the point.
    key
        The file in the dataset; empty for the list of files.
    object
        Key of its content.
    why
        The damage.
    """

    point: str
    key: str
    object: str
    why: str

    def __str__(self) -> str:
        what = self.key or "the list of its files"
        return f"point {self.point}, {what}: {self.object}: {self.why}"


@dataclass
class BackupFindings:
    """The result of a verification of backups.

    Attributes
    ----------
    url
        Address of the repository.
    points
        The verified points.
    objects, bytes
        Number and bytes of contents that were read.
    damage
        The damaged files.
    """

    url: str
    points: tuple[BackupPoint, ...] = ()
    objects: int = 0
    bytes: int = 0
    damage: list[DamagedFile] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage

    def to_json(self) -> dict[str, Any]:
        """Return the findings as plain data."""
        return {
            "url": self.url,
            "sound": self.is_sound,
            "points": [point.id for point in self.points],
            "objects": self.objects,
            "bytes": self.bytes,
            "damage": [asdict(damage) for damage in self.damage],
        }


def verify_backups(target: Storage, *, progressbar: bool = False) -> BackupFindings:
    """Read all contents of the points of a repository.

    Raises
    ------
    DatasetNotFoundError
        If no backups exist.
    ChecksumError
        If the catalog is damaged.
    """
    repository = Repository(target)
    points = repository.catalog().points
    findings = BackupFindings(repository.url, points)
    lists: list[FileList] = []
    for point in points:
        try:
            lists.append(repository.files(point.id))
        except ChecksumError as error:
            findings.damage.append(DamagedFile(point.id, "", f"points/{point.id}", str(error)))
    contents = {key: file for found in lists for key, file in found.objects.items()}
    findings.objects, findings.bytes = len(contents), sum(file.size for file in contents.values())
    with bytes_bar("Verifying", findings.bytes, shown=progressbar) as advance:
        wrong = wrong_objects(target, contents.values(), advance)
    findings.damage += [
        DamagedFile(found.id, file.key, file.object, wrong[file.object])
        for found in lists
        for file in found.files.values()
        if file.object in wrong
    ]
    return findings


def wrong_objects(
    target: Storage, files: Iterable[StoredFile], advance: Advance = lambda _: None
) -> dict[str, str]:
    """Read stored contents, each once; return {key: damage} for contents that are missing or damaged."""
    here = {key: stat.size for key, stat in target.list(OBJECTS)}
    wrong: dict[str, str] = {}

    def check(some: Sequence[StoredFile]) -> None:
        for file in some:
            why = _difference(target, file, here.get(file.object))
            if why is not None:
                wrong[file.object] = why
            advance(file.size)

    ordered = sorted(files, key=lambda file: -file.size)
    # Sort by size and deal out in 64 runs: large files are spread over the threads, and each run also takes many small
    # ones.
    workers = _LOCAL_WORKERS if traits_of(target).local else min(config.REQUESTS, _WORKERS)
    runs = [ordered[first::64] for first in range(64)]
    concurrently([partial(check, run) for run in runs if run], workers=workers)
    return wrong


def _difference(target: Storage, file: StoredFile, size: int | None) -> str | None:
    if size is None:
        return "it is missing"
    if size != file.size:
        return f"it has {size} bytes instead of {file.size}"
    try:
        data = target.get(file.object)
    except KeyNotFound:
        return "it is missing"
    return difference(data, file)


def difference(data: bytes, file: StoredFile) -> str | None:
    """Return the difference between content and its record; None if they agree."""
    if len(data) != file.size:
        return f"it has {len(data)} bytes instead of {file.size}"
    return None if sha256(data) == file.digest else "its checksum is wrong"
