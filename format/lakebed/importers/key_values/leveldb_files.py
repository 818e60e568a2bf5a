"""LevelDB: values by their keys, from a folder with ``CURRENT``; see ``key_values`` and ``leveldb_tables``.

The files are only read: no lock is taken, nothing is compacted, no log is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack

from lakebed.errors import IngestionError
from lakebed.importers.core.contents import KindOptions
from lakebed.importers.core.packages import check_installed
from lakebed.importers.core.plan import Plan, several
from lakebed.importers.core.source import Source
from lakebed.importers.key_values.key_values import made, planned
from lakebed.importers.key_values.leveldb_tables import Folder

_BESIDE = ("LOCK", "LOG", "LOG.old", "CURRENT")
_SUFFIXES = (".ldb", ".sst", ".log", ".txt", ".md", ".json", ".dbtmp")


def recognise(source: Source) -> str | None:
    """Describe the databases, such as "2 LevelDB databases"; None if the source has none, or has other files too."""
    if not source.is_folder:
        return None
    folders = _folders(source)
    others = [name for name in source.files if not _is_known(name.rpartition("/")[2])]
    return None if not folders or others else _shown(folders)


def plan(
    source: Source,
    *,
    layout: Literal["auto", "keys", "columns"] = "auto",
    splits: bool = True,
    **options: Unpack[KindOptions],
) -> Plan:
    """Plan a row for each key.

    Parameters
    ----------
    source
        The folder of the database, or a folder of several databases.
    layout
        Meaning of keys such as image-0001 and label-0001: columns makes one row of both, keys makes two, auto decides
        by all keys.
    splits
        Make splits of folders that have a word train, val, test.
    options
        Options of columns; if there is only one column, it is called ``value``.
    """
    check_installed("LevelDB databases", "leveldb", "google-crc32c", "protobuf")
    folders = _folders(source)
    if not folders:
        raise IngestionError(f"{source.shown} has no LevelDB database")
    return planned(source, folders, Folder, _shown(folders), layout=layout, splits=splits, **options)


rows = made


def _shown(folders: Sequence[str]) -> str:
    return several(folders, "a LevelDB database", "LevelDB databases")


def _folders(source: Source) -> list[str]:
    """Return the folders of databases; "" is the root."""
    found = []
    for folder, names in source.folders.items():
        last = [name.rpartition("/")[2] for name in names]
        if "CURRENT" in last and any(name.startswith("MANIFEST-") for name in last):
            found.append(folder)
    return found


def _is_known(name: str) -> bool:
    return name in _BESIDE or name.startswith("MANIFEST-") or name.endswith(_SUFFIXES)
