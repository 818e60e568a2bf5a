"""LMDB: values by their keys, from a folder with ``data.mdb`` or from a file; see ``key_values``.

The package ``lmdb`` reads the files, in the process of ``array_reader``: it maps a file and trusts the page numbers and
lengths in it, so damage can crash the process. Files are opened without a lock file; files in buckets are copied first.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Lock
from typing import Any, Literal, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError
from lakebed.importers.arrays.array_reader import Reader
from lakebed.importers.core.contents import KindOptions
from lakebed.importers.core.packages import check_installed
from lakebed.importers.core.plan import Plan, several
from lakebed.importers.core.source import Source
from lakebed.importers.key_values.key_scans import Database
from lakebed.importers.key_values.key_values import MOST_VALUE_BYTES, made, planned

_SUFFIXES = (".mdb", ".lmdb")
_MAGIC = bytes.fromhex("dec0efbe")
_MOST_ENTRIES = 4096  # maximum number of entries in an answer
_MOST_BYTES = 8 << 20  # maximum size of an answer with several values
_MOST_READERS = 8
_MOST_DATABASES = 4096
_DATABASE_BYTES = 48  # size of the entry that names another database in the main one


def recognise(source: Source) -> str | None:
    """Describe the files for messages, such as "2 LMDB files"; None if the source has none, or has other files too."""
    names = _files(source)
    others = [
        name
        for name in source.files
        if name not in names and not name.endswith((".mdb", "-lock", ".txt", ".md", ".json"))
    ]
    return None if not names or others else _shown(names)


def plan(
    source: Source,
    *,
    layout: Literal["auto", "keys", "columns"] = "auto",
    database: str | None = None,
    splits: bool = True,
    **options: Unpack[KindOptions],
) -> Plan:
    """Plan a row for each key.

    Parameters
    ----------
    source
        The file, or a folder with one or more such files.
    layout
        Meaning of keys such as image-0001 and label-0001: columns makes one row of both, keys makes two, auto decides
        by all keys.
    database
        Name of the database to import from a file with several; by default, all of them side by side.
    splits
        Make splits of files whose folders or names have a word train, val, test.
    options
        Options of columns; if there is only one column, it is called ``value``.
    """
    check_installed("LMDB files", "lmdb", "lmdb", "protobuf")
    names = _files(source)
    if not names:
        raise IngestionError(f"{source.shown} has no LMDB files")
    found = _shown(names)
    return planned(
        source, names, _Opener(), found, layout=layout, splits=splits, database=database, **options
    )


rows = made


def _shown(names: Sequence[str]) -> str:
    return several(names, "an LMDB file", "LMDB files")


def _files(source: Source) -> list[str]:
    """Return the files that begin as LMDB files do; lock files do not."""
    return [name for name in source.with_suffix(*_SUFFIXES) if _is_environment(source, name)]


def _is_environment(source: Source, name: str) -> bool:
    last = name.rpartition("/")[2]
    if last in ("lock.mdb", "data.mdb"):
        return last == "data.mdb"
    return source.start_of(name, 20)[16:] == _MAGIC


class _Opener:
    """Opens files, each in one process for all threads; the last few stay open."""

    def __init__(self) -> None:
        self._readers: OrderedDict[str, Reader] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Opener, ()

    @contextmanager
    def __call__(self, source: Source, name: str) -> Iterator[_Store]:
        with self._lock:
            reader = self._readers.get(name)
            if reader is None:
                reader = Reader(source, __name__, "" if source.is_file else name)
                self._readers[name] = reader
            self._readers.move_to_end(name)
            if len(self._readers) > _MOST_READERS:
                self._readers.popitem(last=False)
        yield _Store(reader)


class _Value(NamedTuple):
    """A value: its place among the values of its key, and its bytes if they were read."""

    size: int
    database: str
    key: bytes
    place: int
    data: bytes | None


class _Store:
    """The databases of an open file."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        head, _ = reader.ask({"open": True})
        self.version: int = head["version"]
        self.limit: int = head["size"]

    def database(self, name: str) -> Database:
        """Return the main database ("") or a named one.

        Raises
        ------
        IngestionError
            If no database has the name.
        """
        head, _ = self._reader.ask({"database": name})
        return Database(name, _order(head["flags"]), head["entries"], head["flags"]["integerkey"])

    def entries(
        self, database: Database, start: bytes | None, stop: bytes | None, *, with_values: bool = True
    ) -> Iterator[tuple[bytes, _Value] | Database | str]:
        """Yield keys and values, and the databases inside the main one; damage is yielded as text, and is the last."""
        request = {"entries": database.name, "stop": stop.hex() if stop is not None else None}
        # Key of the last entry that was read, and its number among the values of this key.
        key, place, most = start, -1, _MOST_ENTRIES
        while True:
            wanted = {"start": key.hex() if key is not None else None, "skip": place + 1, "most": most}
            try:
                head, arrays = self._reader.ask({**request, **wanted, "with_values": with_values})
            except IngestionError as error:
                if most == 1:
                    yield f"entries behind {key!r:.100} cannot be read: {error}"
                    return
                most = max(1, most // 16)  # ask for fewer entries, to get those before the damage
                continue
            keys, sizes = _split(arrays[1], arrays[0]), arrays[2].tolist()
            values = _split(arrays[4], arrays[3]) if with_values else [None] * len(keys)
            databases = set(head["databases"])
            for at, found in enumerate(keys):
                place = place + 1 if found == key else 0
                key = found
                if at not in databases:
                    yield key, _Value(sizes[at], database.name, key, place, values[at])
                    continue
                try:
                    yield self.database(key.decode())
                except UnicodeDecodeError:
                    yield f"the name of the database {key!r:.100} is not text"
            if head["damage"]:
                yield f"entries behind {key!r:.100} cannot be read: {head['damage']}"
            if head["damage"] or not head["more"]:
                return

    def read(self, value: _Value) -> bytes:
        """Return the bytes of a value."""
        if value.data is not None:
            return value.data
        request = {
            "entries": value.database,
            "start": value.key.hex(),
            "skip": value.place,
            "stop": None,
            "most": 1,
        }
        head, arrays = self._reader.ask({**request, "with_values": True})
        if head["damage"]:
            raise IngestionError(str(head["damage"]))
        found: bytes = arrays[4].tobytes()
        return found


def _split(data: NDArray[np.uint8], sizes: NDArray[np.int64]) -> list[bytes]:
    whole = data.tobytes()
    ends = np.cumsum(sizes).tolist()
    return [whole[start:stop] for start, stop in pairwise([0, *ends])]


def _order(flags: Mapping[str, bool]) -> Callable[[bytes], Any] | None:
    """Return the function that gives the sort key of a key; None if keys are sorted by their bytes."""
    if flags["integerkey"]:
        return lambda key: int.from_bytes(key, "little")
    return (lambda key: key[::-1]) if flags["reverse_key"] else None


# -- in the process of array_reader ------------------------------------------------------------------------------


class _Environment(NamedTuple):
    """An open file: its environment, its size, and the databases that were opened by name."""

    env: Any
    size: int
    databases: dict[str, Any]


def opened(file: Any) -> _Environment:
    """Open a file by its path, or a copy of a file that is already open."""
    if isinstance(file, str):
        return _opened(file)
    # The copy is unlinked at the end of the ``with``; its bytes stay readable while this process has it open.
    with tempfile.NamedTemporaryFile() as copy:
        shutil.copyfileobj(file, copy, 1 << 20)
        copy.flush()
        return _opened(copy.name)


def _opened(path: str) -> _Environment:
    import lmdb

    size = os.stat(path).st_size  # noqa: PTH116 - addresses are strings here
    # The file is mapped into memory as a whole, which counts towards the limit of this process: extend the limit.
    with suppress(ImportError, ValueError, OSError):
        import resource

        most, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (most + size, hard))
    env = lmdb.open(path, subdir=False, readonly=True, create=False, lock=False, max_dbs=_MOST_DATABASES)
    return _Environment(env, size, {"": env.open_db(None, create=False)})


def found_in(found: _Environment) -> _Environment:
    """Return the file itself, which answers requests."""
    return found


def answered(request: Mapping[str, Any], file: _Environment) -> tuple[dict[str, Any], list[Any]]:
    """Answer a request: ``open``, ``database`` or ``entries``."""
    if "open" in request:
        return {"version": file.env.info()["last_txnid"], "size": file.size}, []
    if "database" in request:
        with file.env.begin() as transaction:
            found = _database(file, request["database"])
            return {"flags": found.flags(transaction), "entries": transaction.stat(found)["entries"]}, []
    return _entries(file, request)


def _database(file: _Environment, name: str) -> Any:
    if name not in file.databases:
        file.databases[name] = file.env.open_db(name.encode(), create=False)
    return file.databases[name]


def _entries(file: _Environment, request: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Return keys, and sizes and bytes of values, from an entry on and up to a key (exclusive); stop at damage."""
    import lmdb

    database = _database(file, request["entries"])
    start, stop = (None if request[end] is None else bytes.fromhex(request[end]) for end in ("start", "stop"))
    keys: list[bytes] = []
    sizes: list[int] = []
    values: list[bytes] = []
    damage, there, nbytes = None, False, 0
    with file.env.begin(db=database, buffers=True) as transaction, transaction.cursor() as cursor:
        order = _order(database.flags(transaction)) or bytes
        try:
            there = cursor.first() if start is None else cursor.set_range(start)
            for _ in range(request["skip"]):
                there = cursor.next()
            while there and len(keys) < request["most"] and (nbytes < _MOST_BYTES or not keys):
                key, value = bytes(cursor.key()), cursor.value()
                if stop is not None and order(key) >= order(stop):
                    there = False
                    break
                keys.append(key)
                sizes.append(len(value))
                if request["with_values"]:
                    values.append(bytes(value) if len(value) <= MOST_VALUE_BYTES else b"")
                    nbytes += len(values[-1])
                there = cursor.next()
        except lmdb.Error as error:
            damage = str(error)
    databases = []
    if not request["entries"]:
        maybe = [at for at, size in enumerate(sizes) if size == _DATABASE_BYTES]
        databases = [at for at in maybe if _is_database(file, keys[at])]
    lengths = [np.array([len(one) for one in parts], np.int64) for parts in (keys, values)]
    wholes = [np.frombuffer(b"".join(parts), np.uint8) for parts in (keys, values)]
    head = {"more": there, "damage": damage, "databases": databases}
    return head, [lengths[0], wholes[0], np.array(sizes, np.int64), lengths[1], wholes[1]]


def _is_database(file: _Environment, key: bytes) -> bool:
    """Return whether an entry of the main database is itself a database, by trying to open it."""
    import lmdb

    try:
        file.env.open_db(key, create=False)
    except (lmdb.IncompatibleError, lmdb.NotFoundError):
        return False
    return True
