"""LevelDB: values by their keys, from a folder with ``CURRENT``; see ``key_values`` and ``leveldb_tables``.

The files are read and nothing else: no lock is taken, nothing is compacted, no log is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, Literal

from lakebed.errors import IngestionError
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import split_of
from lakebed.importers.key_values.key_scans import Database
from lakebed.importers.key_values.key_values import made, planned
from lakebed.importers.key_values.leveldb_tables import Folder, Value, held

_BESIDE = ("LOCK", "LOG", "LOG.old", "CURRENT")
_SUFFIXES = (".ldb", ".sst", ".log", ".txt", ".md", ".json", ".dbtmp")
_MOST_OPEN = 64
# What snappy can make of a byte at most, and more.
_MOST_RATIO = 32


def recognise(source: Source) -> str | None:
    """Say how many databases there are; None if there are none, or other files besides."""
    if not source.is_folder:
        return None
    folders = _folders(source)
    others = [name for name in source.files if not _is_known(name.rpartition("/")[2])]
    if not folders or others:
        return None
    return f"{len(folders):,} LevelDB databases" if len(folders) > 1 else "a LevelDB database"


def plan(
    source: Source,
    *,
    layout: Literal["auto", "keys", "columns"] = "auto",
    splits: bool = True,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a row for each key.

    Parameters
    ----------
    source
        The folder of the database, or one of several such.
    layout
        Whether keys such as image-0001 and label-0001 are columns of a row, or each key is a row.
    splits
        Whether folders that have a word train, val, test are splits.
    kinds
        What values hold, where some of them do not tell it: value=text, or of columns image=bytes; image, audio, video,
        dicom, array, json, text or bytes.
    compression
        Kind of image that is stored; left out, that of the images, and of most of them where they differ.
    """
    folders = _folders(source)
    if not folders:
        raise IngestionError(f"{source.shown} has no LevelDB database")
    by_split: dict[str, list[str]] = {}
    for folder in folders:
        by_split.setdefault(split_of(folder) if splits else "", []).append(folder)
    what = "a LevelDB database" if len(folders) == 1 else f"{len(folders):,} LevelDB databases"
    return planned(
        source, by_split, opened, what, layout=layout, database=None, kinds=kinds, compression=compression
    )


rows = made


def describe(plan: Plan) -> dict[str, Any]:
    """Say which entries are of no row."""
    return plan.about


class _Store:
    """An open database."""

    def __init__(self, folder: Folder, size: int) -> None:
        self._folder = folder
        self.limit = _MOST_RATIO * size

    @property
    def version(self) -> str:
        """Names and sizes of what changes."""
        return self._folder.version

    def database(self, name: str) -> Database:
        """Return the only database."""
        return Database(name, None, None)

    def entries(
        self,
        database: Database,  # noqa: ARG002 - there is one
        start: bytes | None,
        stop: bytes | None,
    ) -> Iterator[tuple[bytes, Value] | str]:
        """Yield keys and values; text for what is damaged."""
        yield from self._folder.entries(start, stop)

    def read(self, value: Value) -> bytes:
        """Return the bytes of a value."""
        return self._folder.value(value)

    def held(self, value: Value) -> Value:
        """Return a value without its bytes, if they can be read again."""
        found: Value = held(value)
        return found


@contextmanager
def opened(source: Source, name: str) -> Iterator[_Store]:
    """Open the database of a folder.

    Raises
    ------
    IngestionError
        If it is none, or damaged.
    """
    before = f"{name}/" if name else ""
    files = {
        one.removeprefix(before): size
        for one, size in source.files.items()
        if one.startswith(before) and "/" not in one.removeprefix(before)
    }
    with ExitStack() as stack:
        open_files: dict[str, BinaryIO] = {}

        def part(file: str, start: int, length: int) -> bytes:
            if file not in open_files:
                if len(open_files) >= _MOST_OPEN:
                    open_files.pop(next(iter(open_files))).close()
                open_files[file] = stack.enter_context(source.open(before + file))
            open_files[file].seek(start)
            return open_files[file].read(length)

        yield _Store(Folder(files, lambda file: source.document(before + file), part), sum(files.values()))


def _folders(source: Source) -> list[str]:
    """Return the folders that hold a database; "" is the root."""
    found = []
    for folder, names in source.folders.items():
        last = [name.rpartition("/")[2] for name in names]
        if "CURRENT" in last and any(name.startswith("MANIFEST-") for name in last):
            found.append(folder)
    return found


def _is_known(name: str) -> bool:
    return name in _BESIDE or name.startswith("MANIFEST-") or name.endswith(_SUFFIXES)
