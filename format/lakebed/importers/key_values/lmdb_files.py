"""LMDB: values by their keys, from a folder with ``data.mdb`` or a file; see ``key_values`` and ``lmdb_pages``.

The file is read and nothing else: neither is it mapped into memory nor is a lock file made, so that it may lie in a
bucket or on a disk that cannot be written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from lakebed.errors import IngestionError
from lakebed.importers.core.plan import Plan
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import split_of
from lakebed.importers.key_values.key_scans import Database
from lakebed.importers.key_values.key_values import made, planned
from lakebed.importers.key_values.lmdb_pages import MAGIC, Damage, Entry, Environment, Tree, Value

_SUFFIXES = (".mdb", ".lmdb")
_INTEGER_KEYS = 0x08


def recognise(source: Source) -> str | None:
    """Say how many LMDB files there are; None if there are none, or other files besides."""
    if source.is_object:
        return None
    names = _files(source)
    others = [
        name
        for name in source.files
        if name not in names and not name.endswith((".mdb", "-lock", ".txt", ".md", ".json"))
    ]
    if not names or others:
        return None
    return f"{len(names):,} LMDB files" if len(names) > 1 else "an LMDB file"


def plan(
    source: Source,
    *,
    layout: Literal["auto", "keys", "columns"] = "auto",
    database: str | None = None,
    splits: bool = True,
    kinds: Mapping[str, str] | None = None,
    compression: str | None = None,
) -> Plan:
    """Plan a row for each key.

    Parameters
    ----------
    source
        The file, or the folder that it is in, or one of several such.
    layout
        Whether keys such as image-0001 and label-0001 are columns of a row, or each key is a row.
    database
        Name of the database that is taken, of a file with several; left out, all of them side by side.
    splits
        Whether files whose folders or names have a word train, val, test are splits.
    kinds
        What values hold, where some of them do not tell it: value=text, or of columns image=bytes; image, audio, video,
        dicom, array, json, text or bytes.
    compression
        Kind of image that is stored; left out, that of the images, and of most of them where they differ.
    """
    names = _files(source)
    if not names:
        raise IngestionError(f"{source.shown} has no LMDB files")
    by_split: dict[str, list[str]] = {}
    for name in names:
        by_split.setdefault(split_of(name) if splits else "", []).append(name)
    what = "an LMDB file" if len(names) == 1 else f"{len(names):,} LMDB files"
    return planned(
        source, by_split, opened, what, layout=layout, database=database, kinds=kinds, compression=compression
    )


rows = made


def describe(plan: Plan) -> dict[str, Any]:
    """Say which entries are of no row."""
    return plan.about


class _Store:
    """The databases of an open file."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    @property
    def version(self) -> int:
        """Number of its last transaction."""
        return self._environment.transaction

    @property
    def limit(self) -> int:
        """Bytes of the file."""
        return self._environment.size

    def database(self, name: str) -> Database:
        """Return the main database, or one that it names.

        Raises
        ------
        IngestionError
            If there is none of the name.
        """
        main = self._environment.main
        if not name:
            return _database("", main)
        key = name.encode("utf-8", "surrogatepass")
        for start, stop in ((key, key + b"\0"), (None, None)):  # there, unless its name is no text
            for entry in self._environment.entries(main, start, stop):
                if isinstance(entry, Entry) and entry.tree is not None and _name(entry.key) == name:
                    return _database(name, entry.tree)
        raise IngestionError(f"there is no database {name!r}")

    def entries(
        self, database: Database, start: bytes | None, stop: bytes | None
    ) -> Iterator[tuple[bytes, Value] | Database | str]:
        """Yield keys and values, and the databases of the main one; text for what is damaged."""
        for entry in self._environment.entries(database.handle, start, stop):
            if isinstance(entry, Damage):
                yield entry.reason
            elif entry.tree is None:
                yield entry.key, entry.value
            elif not database.name:
                yield _database(_name(entry.key), entry.tree)

    def read(self, value: Value) -> bytes:
        """Return the bytes of a value."""
        return self._environment.read(value)

    def held(self, value: Value) -> Value:
        """Return the value: short ones are all that is held."""
        return value


def _name(key: bytes) -> str:
    return key.decode("utf-8", "backslashreplace")


def _database(name: str, tree: Tree) -> Database:
    return Database(name, tree.order, tree.entries, tree, bool(tree.flags & _INTEGER_KEYS))


@contextmanager
def opened(source: Source, name: str) -> Iterator[_Store]:
    """Open an LMDB file.

    Raises
    ------
    IngestionError
        If it is none, or damaged.
    """
    with source.open("" if source.is_file else name) as file:
        yield _Store(Environment(file, source.files[name]))


def _files(source: Source) -> list[str]:
    """Return the files that begin as LMDB files do; lock files do not."""
    return [name for name in source.with_suffix(*_SUFFIXES) if _is_environment(source, name)]


def _is_environment(source: Source, name: str) -> bool:
    if name.rpartition("/")[2] == "lock.mdb":
        return False
    with source.open("" if source.is_file else name) as file:
        head = file.read(20)
    return head[16:20] == MAGIC.to_bytes(4, "little") or name.rpartition("/")[2] == "data.mdb"
