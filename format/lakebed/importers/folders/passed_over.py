"""Reports of files that the import of a folder skips: number of files of each kind, and a command to import them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Source, grouped, suffix_of
from lakebed.importers.folders.pictures import IMAGE_KINDS

_SUFFIXES: Mapping[str, Sequence[str]] = {
    "csv": (".csv", ".tsv", ".csv.gz"),
    "parquet": (".parquet", ".pq"),
    "jsonl": (".jsonl", ".ndjson"),
    "numpy": (".npz",),
    "dataframe": (".arrow", ".feather"),
    "hdf5": (".h5", ".hdf5"),
    "webdataset": (".tar",),
    "tfrecord": (".tfrecord",),
    "xlsx": (".xlsx", ".xlsm"),
}
_BY_ITSELF = {suffix: name for name, suffixes in _SUFFIXES.items() for suffix in suffixes}
"""Suffix -> format, for tables and shards: they hold many rows each and are imported separately."""
_TOGETHER = ("csv", "parquet", "jsonl", "webdataset", "tfrecord")
"""Formats that import a folder of files at once."""

_ABOUT = frozenset({"", ".txt", ".yaml", ".yml", ".names", ".data", ".cache", ".md", ".json", ".xml"})
"""Suffixes of files that annotate a set of images, or describe it."""


def beside_set(source: Source) -> Iterator[Problem]:
    """Report files of a folder that neither are images nor belong to a set of images."""
    others = [name for name in source.files if suffix_of(name) not in {*_ABOUT, *IMAGE_KINDS}]
    yield from passed_over(source, others, "beside the set")


def passed_over(source: Source, names: Iterable[str], why: str = "of an unknown kind") -> Iterator[Problem]:
    """Report files that an import skips; files of one kind share a report.

    Parameters
    ----------
    why
        Description of files of no known format.
    """
    kinds = grouped(names, lambda name: _BY_ITSELF.get(suffix_of(name)) or suffix_of(name))
    for kind, of in sorted(kinds.items()):
        first, is_table = of[0], kind in _BY_ITSELF.values()
        what = "of rows" if is_table else why
        where, said = first, f"a file {what} is not imported"
        if len(of) > 1:
            where = f"*{suffix_of(first)}" if suffix_of(first) else "files without a suffix"
            said = f"{len(of):,} files {what}, first {first}, are not imported"
        if is_table:
            is_one = len(of) > 1 and kind in _TOGETHER
            how = "together" if is_one else "each by itself" if len(of) > 1 else "by itself"
            path = f"{source.shown.rstrip('/')}/{_folder_of(of) if is_one else first}".rstrip("/")
            said = f"{said} here, but {how}: lakebed import {kind} {shlex.quote(path)} DEST"
        yield Problem(where, said, 0)


def _folder_of(names: list[str]) -> str:
    """Return the folder that contains all files."""
    low, high = (name.split("/")[:-1] for name in (min(names), max(names)))
    same = next((at for at, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), None)
    return "/".join(low[: min(len(low), len(high)) if same is None else same])
