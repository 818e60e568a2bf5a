"""WebDataset: tar files in which consecutive files of one stem are a sample, with a tensor for each suffix.

The plan reads the headers of all shards. Items are stretches of shards, or whole shards if they are compressed, so that
each byte is read once. Nothing is unpacked to a disk; pickles stay as bytes.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

import lakebed
from lakebed.dataset.described import Described
from lakebed.documents.json_style import load
from lakebed.errors import IngestionError, LakebedError
from lakebed.htypes.base import Storing
from lakebed.importers.arrays.numpy_files import loaded
from lakebed.importers.core.columns import numbered, tensor_name
from lakebed.importers.core.contents import PICKLED, decoded, document
from lakebed.importers.core.described_columns import file_value, nested_value
from lakebed.importers.core.plan import Plan, Problem, Stretch, TensorPlan, media, tensor
from lakebed.importers.core.source import Source, check_size
from lakebed.importers.core.splits import SPLITS, by_split, ranges_of
from lakebed.importers.folders.pictures import IMAGE_KINDS
from lakebed.transforms.output import Skipped

# Suffix -> function that decompresses a stream; None for shards that are not compressed.
_UNPACKED: Mapping[str, Any] = {
    ".tar": None,
    ".tar.gz": gzip.open,
    ".tgz": gzip.open,
    ".tar.bz2": bz2.open,
    ".tar.xz": lzma.open,
}
_BESIDE = (".json", ".txt", ".md", ".idx", ".csv", ".yaml")
_NUMBERS = frozenset({"cls", "cls2", "index", "inx", "count", "id"})
_TEXTS = frozenset({"txt", "text", "transcript", "caption"})
_PICKLED = frozenset({"pkl", "pickle", "pyd", "pth", "pt"})

_NOTHING = "null"  # suffix of the empty file that the exporter of lakebed writes for a row of nulls

_ITEM_BYTES = 32 << 20  # bytes that a worker reads at a time
_MAX_MEMBER_BYTES = 1 << 30  # limit of bytes of a file, and of its name: larger ones are attacks on memory
_MAX_NAME_BYTES = 1 << 20
_MAX_RATIO = 1100  # limit of decompressed bytes per byte; zlib never reaches it
_MAX_BRACES = 1_000_000
# Number of keys per shard that are remembered, to detect samples whose files are not adjacent.
_MOST_KEYS = 200_000
_TOLD = "dataset.json"
_MAX_TOLD_BYTES = 64 << 20

_FAILURES = (tarfile.TarError, EOFError, OSError, zlib.error, lzma.LZMAError, ValueError)


@dataclass(frozen=True)
class _Context:
    """Data that workers need: the tensor of each suffix, the tensor of the keys, and the descriptions of tensors."""

    source: Source
    tensors: Mapping[str, str]
    key: str
    described: Mapping[str, Described] = field(default_factory=dict)


@dataclass
class _Scan:
    """Findings about the headers of shards."""

    suffixes: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    problems: list[Problem] = field(default_factory=list)


def recognise(source: Source) -> str | None:
    """Describe the source for messages, such as "WebDataset of 12 shards"; None if the first one holds no samples."""
    shards = source.with_suffix(*_UNPACKED)
    others = [name for name in source.files if source.suffix_of(name) not in (*_UNPACKED, *_BESIDE)]
    if not shards or others:
        return None
    try:
        with _opened(source, shards[0]) as tar:
            found = next((_split(member.name) for member in tar if member.isreg()), None)
    except (*_FAILURES, IngestionError):
        return None
    return None if found is None else f"WebDataset of {len(shards):,} shards"


def plan(source: Source, *, shards: str | None = None, splits: bool = True) -> Plan:
    """Plan a row for each sample of the shards.

    Parameters
    ----------
    source
        A shard, or the folder that they are in.
    shards
        Names of shards, with ranges and choices in braces: train-{000..009}.tar; left out, all of them.
    splits
        Make splits of shards whose names or folders begin with train, val, test.
    """
    names = source.with_suffix(*_UNPACKED)
    problems: list[Problem] = []
    if shards is not None:
        wanted = list(_expanded(shards))
        problems += [Problem(name, "the shard is missing", 0) for name in wanted if name not in source.files]
        names = [name for name in wanted if name in source.files]
    if not names:
        raise IngestionError(f"{source.shown} has no tar files" + (f" called {shards}" if shards else ""))
    scan = _Scan(problems=problems)
    items, ranges = ranges_of(
        (split, [item for name in of for item in _scan(source, name, scan)])
        for split, of in by_split(names, _split_of if splits else lambda _: "").items()
    )
    if not items and problems:
        raise IngestionError(f"{source.shown}: {problems[0].where}: {problems[0].reason}")
    named, classes, described = _told(source, _named(scan.suffixes))
    key = "key" if "key" not in named.values() else "key_of_sample"
    tensors = [
        TensorPlan(name, described[name].arguments(), dict(described[name].info))
        if name in described
        else _tensor(suffix, name, scan.problems, classes.get(name))
        for suffix, name in named.items()
    ]
    return Plan(
        f"WebDataset of {len(names):,} shards with {scan.rows:,} samples",
        [*tensors, tensor(key, "text")],
        items,
        _Context(source, named, key, described),
        rows=scan.rows,
        nbytes=sum(source.files[name] for name in names),
        splits=ranges,
        problems=scan.problems,
        about={"shards": len(names), "suffixes": {name: suffix for suffix, name in named.items()}},
    )


def rows(item: Stretch, context: _Context) -> Iterator[Any]:
    """Yield the rows of a stretch of a shard."""
    key, row, wrong = None, dict[str, Any](), ""
    empty = dict.fromkeys(context.tensors.values())
    try:
        with _opened(context.source, item.name, item.start) as tar:
            for member in _members(tar, item.name, _limit(context.source, item.name)):
                if item.stop is not None and member.offset >= item.stop:
                    break
                if not member.isreg() or member.issparse() or _is_hidden(member.name):
                    continue
                of, suffix = _split(member.name)
                if of != key:
                    if key is not None:
                        yield _made(item, key, {**empty, **row, context.key: key}, wrong)
                    key, row, wrong = of, {}, ""
                if wrong or (suffix == _NOTHING and not member.size):
                    continue
                try:
                    name = context.tensors[suffix]
                    if name in row:
                        raise IngestionError(f"the sample has two files of the suffix {suffix!r}")
                    row[name] = _value(suffix, _content(tar, member), context.described.get(name))
                except (LakebedError, *_FAILURES, KeyError, TypeError, RecursionError) as error:
                    wrong = f"{member.name}: {error}"
    except _FAILURES as error:
        wrong = f"the shard is damaged: {error}"
    if key is not None:
        yield _made(item, key, {**empty, **row, context.key: key}, wrong)
    elif wrong:
        yield Skipped(str(item), wrong)


def _made(item: Stretch, key: str, row: dict[str, Any], wrong: str) -> Any:
    return Skipped(f"{item.name}: {key}", wrong) if wrong else row


# -- tar files ----------------------------------------------------------------------------------------------------


class _Header(tarfile.TarInfo):
    """A tar header that refuses names above a maximum length, because tarfile reads the whole name into memory."""

    @classmethod
    def frombuf(cls, buf: Any, encoding: str, errors: str) -> _Header:
        try:
            found = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:  # tarfile would take this error for the end of the file
            if len(buf) == tarfile.BLOCKSIZE and not any(buf):
                raise
            raise tarfile.ReadError(
                f"a block is neither a header nor the end of the file: {error}"
            ) from error
        named = found.type not in (*tarfile.REGULAR_TYPES, tarfile.GNUTYPE_SPARSE)
        if (named and found.size > _MAX_NAME_BYTES) or found.size < 0:
            raise IngestionError(f"the tar file is damaged: it has a header of {found.size:,} bytes")
        return found


@contextmanager
def _opened(source: Source, name: str, start: int = 0) -> Iterator[tarfile.TarFile]:
    unpacked = _UNPACKED[source.suffix_of(name)]
    with ExitStack() as stack:
        file: Any = stack.enter_context(source.open(name))
        if unpacked is not None:
            file = stack.enter_context(unpacked(file))
        file.seek(start)
        yield stack.enter_context(tarfile.open(fileobj=file, mode="r:", tarinfo=_Header))


def _members(tar: tarfile.TarFile, shard: str, limit: int) -> Iterator[tarfile.TarInfo]:
    """Yield the headers of an archive; the archive does not keep them, which saves memory."""
    while (member := tar.next()) is not None:
        if member.offset_data + member.size > limit:
            raise IngestionError(f"{shard} claims to unpack to more than a thousand times its size")
        yield member
        tar.members.clear()  # type: ignore[attr-defined]


def _limit(source: Source, shard: str) -> int:
    """Return the maximum number of bytes to which a shard can unpack."""
    return _MAX_RATIO * source.files[shard] + _MAX_NAME_BYTES


def _scan(source: Source, shard: str, scan: _Scan) -> list[Stretch]:
    """Scan the headers of a shard; return its items."""
    key, starts, has_globals = None, [0], False
    keys: set[int] = set()
    apart = 0
    try:
        with _opened(source, shard) as tar:
            for member in _members(tar, shard, _limit(source, shard)):
                has_globals |= bool(tar.pax_headers)
                if member.isdir() or _is_hidden(member.name):
                    continue
                if not member.isreg() or member.issparse():
                    reason = "a link, device or sparse file is left out"
                    scan.problems.append(Problem(f"{shard}: {member.name}", reason, 0))
                    continue
                of, suffix = _split(member.name)
                if member.size or suffix != _NOTHING:
                    scan.suffixes[suffix] = scan.suffixes.get(suffix, 0) + 1
                if of != key:
                    key = of
                    scan.rows += 1
                    apart += hash(of) in keys
                    if len(keys) < _MOST_KEYS:
                        keys.add(hash(of))
                    if member.offset - starts[-1] >= _ITEM_BYTES:
                        starts.append(member.offset)
    except _FAILURES as error:
        scan.problems.append(Problem(shard, f"the shard is damaged: {error}", 0))
    if key is None:
        return []
    if apart:
        reason = (
            f"{apart:,} samples have the key of an earlier one: files of a sample that do not follow each other make "
            "rows of their own; sort the shard by names"
        )
        scan.problems.append(Problem(shard, reason, 0))
    if has_globals or _UNPACKED[source.suffix_of(shard)] is not None:
        starts = [0]
    return [Stretch(shard, first, last) for first, last in zip(starts, [*starts[1:], None], strict=True)]


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    check_size("the file", member.size, _MAX_MEMBER_BYTES)
    file = tar.extractfile(member)
    data = b"" if file is None else file.read()
    if len(data) != member.size:
        raise IngestionError(f"the file has only {len(data):,} of its {member.size:,} bytes")
    return data


# -- samples ------------------------------------------------------------------------------------------------------


def _is_hidden(name: str) -> bool:
    """Return whether a name begins with a dot, like files that macOS adds: WebDataset skips such files."""
    return name.rpartition("/")[2].startswith(".")


def _split(name: str) -> tuple[str, str]:
    """Return the key and the suffix of a file: the last part of its name is split at the first dot."""
    folder, slash, last = name.rpartition("/")
    stem, _, suffix = last.partition(".")
    return f"{folder}{slash}{stem}", suffix.lower()


def _split_of(name: str) -> str:
    folder, _, last = name.rpartition("/")
    for part in (folder.partition("/")[0], re.split(r"[-_.]", last)[0]):
        if part.lower() in SPLITS:
            return SPLITS[part.lower()]
    return ""


def _expanded(pattern: str) -> Iterator[str]:
    """Yield the names that a pattern with braces stands for."""
    parts: list[list[str]] = []
    count = 1
    for at, part in enumerate(re.split(r"\{([^{}]*)\}", pattern)):
        numbers = re.fullmatch(r"(\d{1,9})\.\.(\d{1,9})", part) if at % 2 else None
        if numbers:
            first, last = int(numbers[1]), int(numbers[2])
            if last - first >= _MAX_BRACES:
                raise IngestionError(f"{pattern} stands for too many shards")
            parts.append([f"{number:0{len(numbers[1])}}" for number in range(first, last + 1)])
        else:
            parts.append(part.split(",") if at % 2 else [part])
        count *= len(parts[-1])
    if count > _MAX_BRACES:
        raise IngestionError(f"{pattern} stands for too many shards")
    for chosen in product(*parts):
        yield "".join(chosen)


def _named(suffixes: Mapping[str, int]) -> dict[str, str]:
    """Return the name of the tensor of each suffix."""
    names: dict[str, str] = {}
    for suffix in sorted(suffixes):
        name = re.sub(r"\W+", "_", suffix, flags=re.ASCII).strip("_") or "content"
        is_free = name[0].isalpha() and not hasattr(lakebed.Dataset, name)
        names[suffix] = name if is_free else f"field_{name}"
    return dict(zip(names, numbered(list(names.values())), strict=True))


def _told(
    source: Source, named: dict[str, str]
) -> tuple[dict[str, str], dict[str, list[str]], dict[str, Described]]:
    """Return names of tensors, names of classes, and descriptions of tensors.

    They come from ``dataset.json`` if an exporter of lakebed wrote it.
    """
    if _TOLD not in source.files or source.files[_TOLD] > _MAX_TOLD_BYTES:
        return named, {}, {}
    try:
        told = json.loads(source.read(_TOLD))
        tensors, classes = dict(told["tensors"]), dict(told["classes"])
        said = dict(told.get("described") or {})
    except (ValueError, KeyError, TypeError, RecursionError):
        return named, {}, {}  # another program wrote a file of this name
    found = dict(named)
    for suffix, name in tensors.items():
        others = {other for of, other in found.items() if of != suffix}
        if suffix in found and isinstance(name, str) and tensor_name(name, others) == name:
            found[suffix] = name
    names = {
        name: list(of)
        for name, of in classes.items()
        if isinstance(of, list) and all(isinstance(one, str) for one in of)
    }
    described: dict[str, Described] = {}
    for name, value in said.items():
        one = Described.from_json(value)
        suffixes = [suffix for suffix, other in found.items() if other == name]
        if one is None or not all(_fits(suffix, one) for suffix in suffixes):
            continue
        if not suffixes:
            if tensor_name(name, set(found.values())) != name:
                continue
            # A tensor of nulls has no files; its key begins with a slash, which no suffix contains.
            found[f"/{name}"] = name
        described[name] = one
    return found, names, described


def _fits(suffix: str, said: Described) -> bool:
    """Return whether files of a suffix can be the samples of a tensor."""
    htype, compression = _kind(suffix)
    if htype == "json":
        return said.is_sequence or said.storing is not Storing.TEXT
    if htype in ("array", "class_label"):
        return said.storing is Storing.ARRAY and not said.is_file
    if htype == "text":
        return said.storing is Storing.TEXT
    is_media = compression is not None or said.is_file
    return said.storing is Storing.ARRAY and is_media and not said.is_sequence


def _kind(suffix: str) -> tuple[str, str | None]:
    """Return the htype of a suffix, and its compression."""
    last = suffix.rpartition(".")[2]
    kinds = lakebed.file_kinds
    image = IMAGE_KINDS.get(f".{last}")
    if image in kinds["image"]:
        return "image", image
    for htype in ("audio", "video"):
        if last in kinds[htype]:
            return htype, last
    if last in _TEXTS:
        return "text", None
    if last in _NUMBERS:
        return "class_label", None
    return {"json": "json", "npy": "array"}.get(last, "bytes"), None


def _tensor(suffix: str, name: str, problems: list[Problem], classes: list[str] | None) -> TensorPlan:
    htype, compression = _kind(suffix)
    if compression is not None:
        return media(name, htype, compression=compression)
    if htype in ("text", "json"):
        return tensor(name, htype)
    if htype == "class_label":
        return tensor(name, htype, dtype="int64", class_names=classes)
    if htype == "array":
        return tensor(name, chunk_compression="lz4")
    pickled = suffix.rpartition(".")[2] in _PICKLED
    why = PICKLED if pickled else "their kind is unknown"
    problems.append(Problem(f"files .{suffix}", f"{why}: they are stored as bytes", 0))
    return tensor(name, dtype="uint8", chunk_compression="lz4")


def _value(suffix: str, data: bytes, said: Described | None) -> Any:
    """Return the bytes of a file as a value of the tensor; `said` describes the tensor if lakebed exported it."""
    htype, compression = _kind(suffix)
    if htype == "text":
        return decoded(data)
    if htype == "array":
        return loaded(data)
    if htype == "class_label":
        number = int(data.decode().strip())
        return np.int64(number) if said is None else np.array([number], said.dtype)
    if htype == "json":
        return document(data) if said is None else nested_value(load(data, "a file"), said)
    if said is not None:
        return file_value(data, said)
    return np.frombuffer(data, np.uint8) if compression is None else lakebed.read(data)
