"""Columns of tables: which tensor an Arrow type becomes, and what of a batch goes into it.

    Arrow                                    tensor
    integers, floats, booleans               numbers of that dtype
    decimals                                 text with all digits
    dates, times, timestamps, durations      their integers; ``logical_type`` in the info says what they mean
    strings, UUIDs                           text
    dictionaries of strings                  class_label
    lists of numbers of one length           embedding for floats, otherwise arrays
    lists of numbers                         arrays
    binary                                   its bytes, or files where it is said to hold media
    struct<bytes, path>                      images, as Hugging Face stores them
    structs, maps, other lists               json
    null                                     text, all null

Nulls stay nulls.
"""

# Paths are strings here, as in storage.

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import lakebed
from lakebed.described import Described
from lakebed.errors import IngestionError, InvalidTensorNameError, LakebedError
from lakebed.htypes.arrow import is_text, numpy_dtype, plain_type, without_views
from lakebed.htypes.documents import plain_value
from lakebed.importers.core.described_columns import as_described, described_column, described_columns
from lakebed.importers.core.plan import Problem, TensorPlan, kept, media, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.folders.pictures import form_of
from lakebed.storage.address import scheme_of
from lakebed.transforms.output import Skipped
from lakebed.writing.names import check_tensor_name, is_companion

if TYPE_CHECKING:
    import pyarrow as pa

# Texts and JSON of chunks are compressed, as the destination does it.
_CHUNKS = "lz4"

_SUPPOSED = {"audio": "wav", "video": "mp4"}
_MEDIA = ("image", "audio", "video")

# What stands for something else in the files of datasets.
_NOT_IN_NAMES = re.compile(r"[,:\\\0.]")
_LONGEST_PART = 200  # bytes of a part of a name; file systems take 255

# Rows that a byte of a file may stand for: more are no table, but a way to keep this machine busy.
_MOST_ROWS_PER_BYTE = 10_000


@dataclass(frozen=True)
class Wishes:
    """What the user says of columns: names of columns by what they are.

    Parameters
    ----------
    media
        Column -> ``image``, ``audio`` or ``video``: files as bytes, paths below the source, or addresses.
    """

    media: Mapping[str, str]
    labels: Sequence[str] = ()
    embeddings: Sequence[str] = ()
    link: bool = False
    creds_key: str | None = None
    compression: str | None = None
    documents: Sequence[str] = ()

    def concern(self, name: str) -> bool:
        """Whether the user says what a column is."""
        return name in (*self.media, *self.labels, *self.embeddings, *self.documents) or self.link

    def check(self, names: Sequence[str]) -> None:
        """Refuse names that no column has.

        Raises
        ------
        IngestionError
            If there is one.
        """
        for name in (*self.media, *self.labels, *self.embeddings, *self.documents):
            if name not in names:
                raise IngestionError(f"there is no column {name!r}: {', '.join(names)}")


@dataclass(frozen=True)
class Column:
    """A column, its tensor, and how it gets there: ``arrow``, ``text``, ``json``, ``label``, ``file`` or ``link``.

    ``described`` is what an exporter of lakebed said of it: ``how`` is then one of :mod:`described_columns`.
    """

    name: str
    tensor: str
    how: str
    described: Described | None = None


@contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn what Arrow raises at damage, which is of many kinds, into one error.

    Raises
    ------
    IngestionError
        If what is read is no table, or damaged.
    """
    try:
        yield
    except LakebedError:
        raise
    except (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise IngestionError(f"{where} is no table that Arrow knows, or damaged: {reason}") from error


def check_rows(count: int, nbytes: int, where: str) -> None:
    """Refuse numbers of rows that a file of so many bytes cannot mean.

    Raises
    ------
    IngestionError
        If there are more than ten thousand for each byte, or fewer than none.
    """
    if not 0 <= count <= _MOST_ROWS_PER_BYTE * nbytes:
        raise IngestionError(f"{where} says that its {nbytes:,} bytes hold {count:,} rows: it is damaged")


def columns_of(
    schema: pa.Schema, wishes: Wishes, first: pa.RecordBatch | None, source: Source, problems: list[Problem]
) -> tuple[list[Column], list[TensorPlan]]:
    """Return the columns of a table, and their tensors.

    Parameters
    ----------
    first
        Some rows, by which the kind of files is known.
    problems
        Where it is told what is converted.

    Raises
    ------
    IngestionError
        If two columns have one name.
    """
    import pyarrow as pa

    wishes.check(schema.names)
    if len(set(schema.names)) < len(schema.names):
        double = next(name for name in schema.names if schema.names.count(name) > 1)
        raise IngestionError(f"two columns are called {double!r}")
    features = _features(schema)
    if first is not None:
        first = next((piece for _, piece in _sound(first) if not isinstance(piece, str)), None)
    described = described_columns(schema)
    columns, tensors = [], []
    taken: set[str] = set()
    for named in schema:
        field = pa.field(named.name, _stored(named.type))
        name = tensor_name(field.name, taken)
        taken.add(name)
        feature = features.get(field.name) or {}
        values = _storage(first.column(field.name)) if first is not None else None
        said = described.get(field.name) if not wishes.concern(field.name) else None
        told = described_column(name, field, said, values) if said is not None else None
        how, plan = told or _tensor_of(name, field, feature, wishes, values, source, problems)
        if name != field.name:
            problems.append(renamed(field.name, name))
            plan = TensorPlan(plan.name, plan.arguments, {**plan.info, "column": field.name})
        columns.append(Column(field.name, name, how, said if told is not None else None))
        tensors.append(plan)
    return columns, tensors


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return what an extension type stores: which types are known depends on what the program has imported."""
    import pyarrow as pa

    if isinstance(kind, pa.UuidType):
        return pa.string()
    return plain_type(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)


def _storage(values: Any) -> Any:
    import pyarrow as pa

    if isinstance(values, pa.Array) and isinstance(values.type, pa.UuidType):
        return pa.array([None if one is None else str(one) for one in values.to_pylist()], pa.string())
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    return without_views(values) if isinstance(values, pa.Array) else values


def tensor_name(column: str, taken: set[str]) -> str:
    """Return the name of a column's tensor: the column's, with ``_`` for what names of tensors cannot hold.

    ``_`` is put behind names with which Deep Lake 3 could not open the dataset, and behind those of groups.
    """
    text = _NOT_IN_NAMES.sub("_", column).encode("utf-8", "replace").decode()
    parts = [part.strip().encode()[:_LONGEST_PART].decode("utf-8", "ignore") for part in text.split("/")]
    name = "/".join(part for part in parts if part) or "column"
    if any(name.startswith(f"{other}/") for other in taken):
        name = name.replace("/", "_")
    while name in taken or any(other.startswith(f"{name}/") for other in taken) or _is_refused(name):
        name = f"{name}_" if not name.startswith("_") else f"column{name}"
    return name


def free_name(column: str, taken: set[str]) -> str:
    """Return the name of a column's tensor as :func:`tensor_name` does, and note that it is taken."""
    name = tensor_name(column, taken)
    taken.add(name)
    return name


def renamed(column: str, name: str) -> Problem:
    """Return what is told of a column whose tensor has another name."""
    return Problem(column, f"the column is tensor {name!r}, which ds[{column!r}] finds, too", 0)


def _is_refused(name: str) -> bool:
    if is_companion(name):
        return True
    try:
        check_tensor_name(name)
    except InvalidTensorNameError:
        return True
    return False


def converted(
    batch: pa.RecordBatch, columns: Sequence[Column], source: Source, wishes: Wishes, where: str
) -> Iterator[Any]:
    """Yield what of a batch cannot be a row, then the values of the tensors for the others.

    Parameters
    ----------
    where
        What of the source the batch is of, for people.
    """
    count = len(batch.column(0)) if columns else 0

    def called(row: int) -> str:
        return f"{where}, row {row:,} of {count:,}" if count > 1 else where

    for start, piece in _sound(batch):
        if isinstance(piece, str):
            yield Skipped(called(start), piece)
            continue
        found: dict[str, Any] = {}
        wrong: dict[int, str] = {}
        rows = 0
        for number, column in enumerate(columns):
            values = _storage(piece.column(number))
            rows = len(values)
            found[column.tensor] = _converted(values, column, source, wishes, wrong)
        for row, reason in sorted(wrong.items()):
            yield Skipped(called(start + row), reason)
        if len(wrong) < rows:
            yield kept(found, [row for row in range(rows) if row not in wrong]) if wrong else found


def _sound(batch: Any, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield runs of rows whose values Arrow may look at, each with its first row; for a row that is damaged, why.

    Files may say of texts and lists that they lie where no memory is, and nothing notices before they are looked at.
    """
    import pyarrow as pa

    if not isinstance(batch, pa.RecordBatch):
        yield start, batch
        return
    try:
        batch.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        if batch.num_rows <= 1:
            yield start, f"damaged values: {error}"
            return
        half = batch.num_rows // 2
        yield from _sound(batch.slice(0, half), start)
        yield from _sound(batch.slice(half), start + half)
    else:
        yield start, batch


def _converted(values: Any, column: Column, source: Source, wishes: Wishes, wrong: dict[int, str]) -> Any:
    """Return the values of a tensor; note the rows for which there are none."""
    import pyarrow as pa

    if column.described is not None:
        return as_described(
            values, column.how, column.described, wrong, lambda one: _file(one, "file", source, wishes)
        )
    if column.how == "text":
        return values if is_text(values.type) else values.cast(pa.string())
    if isinstance(values, pa.Array) and pa.types.is_fixed_size_binary(values.type):
        values = values.cast(pa.binary())
    if column.how == "json":
        return _documents(values)
    if column.how == "class":
        # What Hugging Face has for samples whose class is not known is a negative number.
        import pyarrow.compute as pc

        return pc.if_else(pc.less(values, 0), None, values)
    if column.how == "label":
        if pa.types.is_dictionary(values.type):
            words = values.dictionary.cast(pa.string())
            values = pa.DictionaryArray.from_arrays(values.indices, words)
        return [None if one is None else str(one) for one in values.to_pylist()]
    if column.how in ("file", "link"):
        files: list[Any] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                files.append(_file(value, column.how, source, wishes))
            except (LakebedError, OSError, ValueError) as error:
                files.append(None)
                wrong.setdefault(row, f"{column.name}: {error}")
        return files
    for row in _with_nulls_inside(values):
        wrong.setdefault(
            row,
            f"{column.name}: null inside a list of numbers, which arrays cannot hold; as JSON it can be kept "
            f"(documents={column.name})",
        )
    return values


def _with_nulls_inside(values: Any) -> list[int]:
    """Return the rows whose lists hold nulls, at any depth."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        return []
    inner = pc.list_flatten(values)
    rows = (
        set(pc.list_parent_indices(values).filter(inner.is_null()).to_pylist()) if inner.null_count else set()
    )
    deeper = _with_nulls_inside(inner)
    if deeper:
        rows |= set(pc.list_parent_indices(values).take(pa.array(deeper)).to_pylist())
    return sorted(rows)


def _documents(values: pa.Array) -> list[Any]:
    return [None if value is None else plain_value(value) for value in values.to_pylist()]


def _file(value: Any, how: str, source: Source, wishes: Wishes) -> Any:
    """Return a row's file: given as bytes, as path or address, or as both."""
    if isinstance(value, Mapping):
        data, value = value.get("bytes"), value.get("path")
        if data is not None:
            return lakebed.read(data)
    if value is None or value == "":
        return None
    if isinstance(value, bytes):
        return lakebed.read(value)
    text = str(value)
    if scheme_of(text) == "file":
        text = _below(text.removeprefix("file://"), source)
    return (
        lakebed.link(text, creds_key=wishes.creds_key)
        if how == "link"
        else lakebed.read(text, creds=source.creds)
    )


def _below(path: str, source: Source) -> str:
    """Return the address of a file that a table names by path.

    Raises
    ------
    IngestionError
        If it is not below the folder of the table.
    """
    if source.is_object:
        return path  # the program's own words
    root = (source.address if source.is_folder else source.address.rpartition("/")[0]).rstrip("/")
    text = path if path.startswith(f"{root}/") else f"{root}/{path}"
    is_outside = path.startswith("/") and text != path
    if source.is_local and not source.follow_symlinks:
        # Symbolic links count, too.
        is_outside |= not os.path.realpath(text).startswith(f"{os.path.realpath(root).rstrip('/')}/")
    if is_outside or ".." in path.replace("\\", "/").split("/"):
        raise IngestionError(f"the file {path!r} is not below {root or '/'}")
    return text


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return what Hugging Face says of columns, by name."""
    found = (schema.metadata or {}).get(b"huggingface")
    if found is None:
        return {}
    try:
        features = json.loads(found)["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def _tensor_of(
    name: str,
    field: pa.Field,
    feature: Mapping[str, Any],
    wishes: Wishes,
    values: pa.Array | None,
    source: Source,
    problems: list[Problem],
) -> tuple[str, TensorPlan]:
    """Return how a column gets into its tensor, and the tensor."""
    import pyarrow as pa

    kind = field.type
    if field.name in wishes.documents:
        return "json", tensor(name, "json", chunk_compression=_CHUNKS)
    said = wishes.media.get(field.name) or {"Image": "image", "Audio": "audio", "Video": "video"}.get(
        str(feature.get("_type"))
    )
    if said is None and _is_file_struct(kind):
        said = "image"
    if said is not None:
        return _media_of(name, said, kind, values, wishes, source, problems)
    if feature.get("_type") == "ClassLabel" and pa.types.is_integer(kind):
        return "class", tensor(
            name, "class_label", class_names=[str(one) for one in feature.get("names") or ()]
        )
    if field.name in wishes.labels or (pa.types.is_dictionary(kind) and is_text(kind.value_type)):
        return "label", tensor(name, "class_label")
    if pa.types.is_dictionary(kind):
        return _tensor_of(
            name, pa.field(field.name, kind.value_type), feature, wishes, None, source, problems
        )
    if pa.types.is_decimal(kind):
        return "text", tensor(name, "text", info={"type": str(kind)}, chunk_compression=_CHUNKS)
    if is_text(kind) or pa.types.is_null(kind):
        return "text", tensor(name, "text", chunk_compression=_CHUNKS)
    if (
        pa.types.is_temporal(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
    ):
        return "arrow", _numbers(name, kind)
    if _is_binary(kind):
        return "arrow", tensor(name, dtype="uint8", chunk_compression=_CHUNKS)
    inner = _innermost(kind)
    if inner is not None:
        is_embedding = pa.types.is_floating(inner) and pa.types.is_fixed_size_list(kind)
        dtype = numpy_dtype(inner).name
        htype = "embedding" if is_embedding or field.name in wishes.embeddings else None
        return "arrow", tensor(name, htype, dtype=dtype)
    return "json", tensor(name, "json", chunk_compression=_CHUNKS)


def _numbers(name: str, kind: pa.DataType) -> TensorPlan:
    import pyarrow as pa

    info: dict[str, Any] = {}
    if pa.types.is_temporal(kind):
        info["logical_type"] = str(kind)
        dtype = f"int{kind.bit_width}"
    else:
        dtype = numpy_dtype(kind).name
    return tensor(name, dtype=dtype, info=info, create_shape_tensor=False, create_id_tensor=False)


def _media_of(
    name: str,
    htype: str,
    kind: pa.DataType,
    values: pa.Array | None,
    wishes: Wishes,
    source: Source,
    problems: list[Problem],
) -> tuple[str, TensorPlan]:
    import pyarrow as pa

    if htype not in _MEDIA:
        raise IngestionError(f"column {name!r} is said to hold {htype!r}; media are {', '.join(_MEDIA)}")
    if not (is_text(kind) or _is_binary(kind) or pa.types.is_struct(kind)):
        raise IngestionError(f"column {name!r} of {kind} holds neither files nor paths")
    found: dict[str, tuple[int, int]] = {}
    for value in values.to_pylist() if values is not None else ():
        try:
            file = _file(value, "file", source, wishes)
            if file is not None and file.compression:
                count, nbytes = found.get(file.compression, (0, 0))
                found[file.compression] = count + 1, nbytes + len(file.buffer)
        except (lakebed.errors.LakebedError, OSError, ValueError):
            continue  # told when its row is made
    is_stored = _is_binary(kind) or (pa.types.is_struct(kind) and _has_bytes(values))
    how = "link" if wishes.link and not is_stored else "file"
    if htype == "image":
        chosen = form_of(found, wishes.compression, problems if how == "file" else None, where=name)
    else:
        chosen = wishes.compression or max(found, key=lambda kind: found[kind], default=_SUPPOSED[htype])
        if len(found) > 1:
            told = ", ".join(sorted(kind.upper() for kind in found))
            reason = f"files are of several kinds ({told}), of which a tensor holds one: {chosen.upper()} is stored"
            problems.append(Problem(name, reason, 0))
    return how, media(name, htype, compression=chosen, link=how == "link")


def _has_bytes(values: Any) -> bool:
    return values is None or any(
        value is not None and value.get("bytes") is not None for value in values.to_pylist()
    )


def _is_file_struct(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_struct(kind) and {kind.field(at).name for at in range(kind.num_fields)} == {
        "bytes",
        "path",
    }


def _is_binary(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


def _innermost(kind: pa.DataType) -> pa.DataType | None:
    """Return the numbers that lists of lists hold; None if they hold something else."""
    import pyarrow as pa

    depth = 0
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind, depth = kind.value_type, depth + 1
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    return kind if depth and is_number else None
