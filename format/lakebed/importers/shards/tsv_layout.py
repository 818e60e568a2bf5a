"""Layout of TSV files: which files belong together, and where their lines are.

    train.tsv, train.img.tsv      rows: key, ..., image in base64; base "train", column files of the same base beside:
    train.label.tsv, train.hw.tsv     a line for each row, of the same keys
    train.lineidx                 offset of each line, a decimal number per line
    train.lineidx.8b              the same in 8 bytes each, little endian
    train.linelist.tsv            numbers of the lines that are rows, in their order
    trainX.tsv, trainX.label.tsv  the names of TSV files, one for each shard
    train.shuffle.txt             for each row the number of a shard and of a line
    train.yaml                    img, label, hw, linelist, labelmap, ...: names of such files; with ``composite: true``
                                  names of lists of shards, and ``linelist`` has two numbers a line
    labelmap.txt, labelmap.json   names of classes

Names in a list or a description are resolved beside it, then from the root, then by their last part beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.errors import IngestionError, NotFoundError
from lakebed.importers.core.contents import document
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Problem
from lakebed.importers.core.source import Source
from lakebed.importers.core.splits import SPLITS, by_split
from lakebed.importers.detection.yolo_layout import yaml_of

IMAGES = "img"
"""Role of the files that hold the images."""

_IMAGES = frozenset({"", "img", "image", "images"})
_LINELIST, _LABELMAP = "linelist", "labelmap"
_INDEX = (".lineidx.8b", ".lineidx")
_BLOCK_BYTES = 8 << 20
_PARSED_BYTES = 4 << 20
_MOST_LIST_BYTES = 64 << 20
_MOST_SHARDS = 100_000
_PROBES = 64  # number of positions at which an index is compared with its file
# Maximum size of a last line that is verified; if the last line is longer, the index is not used and the file is read.
_MOST_LAST_BYTES = 64 << 20

Offsets = NDArray[np.int64]


@dataclass(frozen=True)
class Table:
    """Files of one role.

    Parameters
    ----------
    role
        ``img``, ``label``, ``hw``, ...
    shards
        Name of the file of each shard; None for shards without one.
    by_row
        True if the lines are numbered like the rows, not like the lines of a shard.
    """

    role: str
    shards: tuple[str | None, ...]
    by_row: bool = False


@dataclass
class Tables:
    """Files of one split.

    Parameters
    ----------
    sequence
        File with the numbers of the lines that are rows; None for all lines in their order.
    labelmap
        File with the names of the classes.
    """

    split: str
    tables: list[Table]
    sequence: str | None = None
    labelmap: str | None = None
    about: dict[str, Any] = field(default_factory=dict)


def tables_of(source: Source, name: str | None, problems: list[Problem]) -> list[Tables]:
    """Return the files of each split.

    Parameters
    ----------
    source
        The folder.
    name
        The TSV file or description to use; None for all.

    Raises
    ------
    IngestionError
        If a description cannot be read, or names missing files.
    """
    wanted = [name] if name is not None else list(source.files)
    described = [one for one in wanted if one.endswith((".yaml", ".yml")) and is_description(source, one)]
    if described:
        return [_described(source, one) for one in described]
    lists = [one for one in wanted if re.search(r"X\.tsv\Z", one) and _listed(source, one)]
    if lists:
        return [_composite(source, one) for one in lists]
    return _plain(source, name, problems)


def is_description(source: Source, name: str) -> bool:
    """Return whether a YAML file names TSV files."""
    try:
        entries = _entries(source, name)
    except IngestionError:
        return False
    return any(_names_files(value) for key, value in entries.items() if key in ("img", "label", "hw"))


def _names_files(value: Any) -> bool:
    if isinstance(value, list):
        return bool(value) and all(isinstance(one, str) and one.endswith(".tsv") for one in value)
    return isinstance(value, str) and value.endswith(".tsv")


def line_offsets(source: Source, name: str, problems: list[Problem]) -> Offsets:
    """Return the offset of each line of a file, and the size of the file as the last offset.

    If the index beside the file does not fit, the file is read.
    """
    size = source.files[name]
    for suffix in _INDEX:
        index = f"{name.removesuffix('.tsv').removesuffix('.txt')}{suffix}"
        if index not in source.files:
            continue
        offsets = _index(source.document(index), is_binary=suffix.endswith("8b"))
        wrong = "it holds no offsets" if offsets is None else _mismatch(source, name, offsets, size)
        if offsets is not None and not wrong:
            return np.append(offsets, size)
        problems.append(Problem(index, f"{wrong}: the lines of {name} were indexed anew", 0))
    return _counted(source, name)


def sequence_of(source: Source, tables: Tables) -> NDArray[np.int64] | None:
    """Return shard and line of each row; None for all lines in their order.

    Raises
    ------
    IngestionError
        If the list is not a list of numbers.
    """
    name = tables.sequence
    if name is None:
        return None
    data = source.document(name)
    columns = len(data.partition(b"\n")[0].split())
    with damaged(f"{name} is not a list of numbers of lines", ValueError, OverflowError):
        numbers = _numbers(data)
    shards = len(tables.tables[0].shards)
    if columns not in (1, 2) or len(numbers) % columns or (columns == 1 and shards > 1):
        raise IngestionError(f"{name} must have a line number, or a shard and a line number, for each row")
    found = numbers.reshape(-1, columns)
    if columns == 1:
        return np.column_stack([np.zeros(len(found), np.int64), found[:, 0]])
    if shards == 1 and len(found) and found[:, 0].any():
        raise IngestionError(
            f"{name} has two numbers a line, but no shards exist: if its second numbers mean lines of another file, "
            "import the files one by one"
        )
    return found


def class_names(source: Source, name: str) -> list[str]:
    """Return the names of classes of a label map, in the order of their numbers.

    Raises
    ------
    IngestionError
        If the label map has no names, or has a name twice.
    """
    data = source.document(name)
    if name.endswith(".json"):
        entries = document(data)
        entries = entries.get("label_to_idx", entries) if isinstance(entries, Mapping) else entries
        if isinstance(entries, Mapping):
            with damaged(f"{name} does not give numbers to classes", TypeError, ValueError):
                found = [str(key) for key, _ in sorted(entries.items(), key=lambda pair: int(pair[1]))]
        else:
            found = [str(one) for one in entries] if isinstance(entries, list) else []
    else:
        found = [line.split("\t")[0].strip() for line in data.decode("utf-8", "replace").splitlines()]
        found = [one for one in found if one]
    if not found or len(set(found)) < len(found):
        raise IngestionError(f"{name} must name each class once")
    return found


# -- which files ---------------------------------------------------------------------------------------------------


def _split_of(name: str) -> str:
    word = re.split(r"[-_.]", name.rpartition("/")[2])[0].rstrip("0123456789X").lower()
    return SPLITS.get(word, "")


def _plain(source: Source, name: str | None, problems: list[Problem]) -> list[Tables]:
    """Return the files of each split by their names: files whose names have the same base are a shard."""
    bases: dict[str, dict[str, str]] = {}
    known = source.with_suffix(".tsv")
    if name is None and not known:
        raise IngestionError(f"{source.shown} has no TSV files")
    plain = {one.removesuffix(".tsv") for one in known}
    for one in known:
        stem = one.removesuffix(".tsv")
        folder, slash, last = stem.rpartition("/")
        base, dot, role = last.partition(".")
        base = f"{folder}{slash}{base}"
        is_known = role in (*_IMAGES, _LINELIST, _LABELMAP)
        is_role = dot and (is_known or base in plain or _is_shared(base, known))
        base, role = (base, role) if is_role else (stem, "")
        bases.setdefault(base, {})[IMAGES if role in _IMAGES else role] = one
    if name is not None:
        bases = {base: of for base, of in bases.items() if name in of.values()}
    parts = by_split(bases, _split_of).items()
    found = [_shards(source, split, [bases[base] for base in of], of) for split, of in parts]
    if name is None:
        used = {one for tables in found for table in tables.tables for one in table.shards}
        used |= {one for tables in found for one in (tables.sequence, tables.labelmap)}
        others = [one for one in source.files if one not in used and not one.endswith(_INDEX)]
        problems += [Problem(one, "a file of an unknown kind is not imported", 0) for one in others]
    return found


def _is_shared(base: str, known: Sequence[str]) -> bool:
    return sum(one.startswith(f"{base}.") for one in known) > 1


def _shards(source: Source, split: str, shards: list[dict[str, str]], bases: list[str]) -> Tables:
    roles = list(dict.fromkeys(role for shard in shards for role in shard))
    lists = [shard.get(_LINELIST) for shard in shards]
    if any(lists) and len(shards) > 1:
        raise IngestionError(
            f"{lists} refer to lines of shards: import the shards one by one, or name them in a YAML file"
        )
    sequence = lists[0]
    for beside in (f"{bases[0]}.linelist", f"{bases[0]}.shuffle.txt"):
        if sequence is None and len(bases) == 1 and beside in source.files:
            sequence = beside
    roles = sorted(
        (role for role in roles if role not in (_LINELIST, _LABELMAP)),
        key=lambda role: (role != IMAGES, role),
    )
    tables = [Table(role, tuple(shard.get(role) for shard in shards)) for role in roles]
    labelmap = next((shard[_LABELMAP] for shard in shards if _LABELMAP in shard), None)
    return Tables(split, tables, sequence, labelmap or _labelmap(source, bases[0]))


def _labelmap(source: Source, base: str) -> str | None:
    folder, slash, _ = base.rpartition("/")
    names = (f"{base}.labelmap.txt", f"{folder}{slash}labelmap.txt", f"{folder}{slash}labelmap.json")
    return next((name for name in names if name in source.files), None)


def _composite(source: Source, name: str) -> Tables:
    """Return the files of a list of shards, and of the lists of other roles beside it."""
    base = name.removesuffix("X.tsv")
    tables = [Table(IMAGES, tuple(_listed(source, name)))]
    for other in source.with_suffix(".tsv"):
        if other.startswith(f"{base}X.") and other != name:
            role = other.removeprefix(f"{base}X.").removesuffix(".tsv")
            tables.append(Table(role, tuple(_listed(source, other, of=name))))
        elif other.startswith(f"{base}.") and other != f"{base}.tsv":
            role = other.removeprefix(f"{base}.").removesuffix(".tsv")
            if role not in (_LINELIST, _LABELMAP) and f"{base}X.{role}.tsv" not in source.files:
                tables.append(Table(role, (other,), by_row=True))
    for table in tables:
        _check_shards(table, tables[0], name)
    sequence = next(
        (one for one in (f"{base}.shuffle.txt", f"{base}.linelist.tsv") if one in source.files), None
    )
    return Tables(_split_of(name), tables, sequence, _labelmap(source, base))


def _listed(source: Source, name: str, of: str | None = None) -> list[str]:
    """Return the names of the files in a list; an empty list if the file is not such a list.

    Raises
    ------
    IngestionError
        If a file in the list is missing, or, with ``of``, if the file is not such a list.
    """
    lines: list[str] = []
    if source.files[name] <= _MOST_LIST_BYTES:
        text = source.document(name).decode("utf-8", "replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
    are_files = all(re.fullmatch(r"[^\t]+\.tsv", line) for line in lines)
    if not lines or len(lines) > _MOST_SHARDS or not are_files:
        if of is None:
            return []
        raise IngestionError(f"{name} should list TSV files, as {of} does")
    return [_beside(source, line, name) for line in lines]


def _beside(source: Source, given: str, name: str) -> str:
    """Return the name in the source of a file that a list or description names.

    Raises
    ------
    IngestionError
        If the file is missing.
    """
    folder, slash, _ = name.rpartition("/")
    for candidate in (f"{folder}{slash}{given}", given, f"{folder}{slash}{given.rpartition('/')[2]}"):
        try:
            return source.find(candidate)
        except NotFoundError:
            continue
    raise IngestionError(f"{name} names {given!r}, which is not below {source.shown}")


def _entries(source: Source, name: str) -> Mapping[str, Any]:
    entries = yaml_of(source.document(name, _MOST_LIST_BYTES), name)
    if not isinstance(entries, Mapping):
        raise IngestionError(f"{name} is not a mapping of img, label, hw and linelist")
    return {str(key): value for key, value in entries.items()}


def _described(source: Source, name: str) -> Tables:
    """Return the files that a description in YAML names."""
    entries = _entries(source, name)
    is_composite = bool(entries.get("composite"))
    tables: list[Table] = []
    sequence, labelmap, about = None, None, {}
    for key, value in entries.items():
        if key in (_LINELIST, _LABELMAP):
            found = _beside(source, value, name) if value and isinstance(value, str) else None
            sequence, labelmap = (found, labelmap) if key == _LINELIST else (sequence, found)
        elif isinstance(value, list) and _names_files(value):
            tables.append(Table(key, tuple(_beside(source, str(one), name) for one in value)))
        elif isinstance(value, str) and value.endswith((".tsv", ".txt")) and key != "composite":
            file = _beside(source, value, name)
            shards = _listed(source, file) if is_composite else []
            tables.append(Table(key, tuple(shards) or (file,), by_row=is_composite and not shards))
        elif value is None or isinstance(value, bool | int | float | str):
            about[key] = value
        else:  # a list or an object, of any depth
            about[key] = f"a {type(value).__name__}"
    if not tables:
        raise IngestionError(f"{name} names no TSV files")
    tables.sort(key=lambda table: table.role != IMAGES)
    if tables[0].by_row:
        raise IngestionError(f"{name} says composite, but {tables[0].shards[0]} lists no TSV files")
    for table in tables:
        _check_shards(table, tables[0], name)
    return Tables(_split_of(name), tables, sequence, labelmap, about)


def _check_shards(table: Table, first: Table, name: str) -> None:
    if not table.by_row and len(table.shards) != len(first.shards):
        raise IngestionError(
            f"{name}: {table.role} has {len(table.shards):,} shards, but {first.role} has {len(first.shards):,}"
        )


# -- lines --------------------------------------------------------------------------------------------------------


def _index(data: bytes, *, is_binary: bool) -> Offsets | None:
    """Return the offsets of an index; None if they do not increase from 0."""
    try:
        offsets = np.frombuffer(data, "<i8").astype(np.int64) if is_binary else _numbers(data)
    except (ValueError, OverflowError):
        return None
    if not len(offsets) or offsets[0] != 0 or (np.diff(offsets) <= 0).any():
        return None
    return offsets


def _numbers(data: bytes) -> NDArray[np.int64]:
    """Return the decimal numbers of a text, parsed in parts, because Python's numbers take more memory than text."""
    found, start = [np.zeros(0, np.int64)], 0
    while start < len(data):
        stop = data.find(b"\n", start + _PARSED_BYTES) + 1 or len(data)
        found.append(np.array(data[start:stop].split(), np.int64))
        start = stop
    return np.concatenate(found)


def _mismatch(source: Source, name: str, offsets: Offsets, size: int) -> str:
    """Return how an index contradicts its file; "" if both agree at the places that were compared."""
    last = int(offsets[-1])
    if last >= size:
        return f"it goes beyond the {size:,} bytes of the file"
    if size - last > _MOST_LAST_BYTES:
        return "it ends long before the file"
    with source.open(name) as file:
        file.seek(last)
        if b"\n" in file.read(size - last)[:-1]:
            return "it ends before the file"
        probes = np.linspace(1, len(offsets) - 1, _PROBES).astype(int)
        for at in np.unique(probes) if len(offsets) > 1 else ():
            file.seek(int(offsets[at]) - 1)
            if file.read(1) != b"\n":
                return f"its offset {offsets[at]:,} is not the beginning of a line"
    return ""


def _counted(source: Source, name: str) -> Offsets:
    at = 0
    found = [np.zeros(1, np.int64)]
    with source.open(name) as file:
        while block := file.read(_BLOCK_BYTES):
            ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + (at + 1)
            found.append(ends.astype(np.int64))
            at += len(block)
    offsets = np.concatenate(found)
    return offsets if offsets[-1] == source.files[name] else np.append(offsets, source.files[name])
