"""Columns of tables: the tensor of an Arrow type, and the values of a batch for it.

    Arrow                                    tensor
    integers, floats, booleans               numbers of that dtype
    decimals                                 text with all digits
    dates, times, timestamps, durations      the stored integers; ``logical_type`` in the info is the Arrow type
    strings, UUIDs                           text
    JSON                                     json
    dictionaries of strings                  class_label
    lists of numbers of one length           embedding for floats, otherwise arrays
    lists of numbers                         arrays
    binary                                   the bytes, or files if ``media`` names the column
    struct<bytes, path>                      images, as Hugging Face stores them
    structs, maps, other lists               json
    null                                     text, all null

Nulls stay nulls.
"""

# Paths are strings in this module, as in storage.

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypedDict

import numpy as np
import pyarrow as pa

from lakebed.dataset.described import Described
from lakebed.errors import IngestionError, InvalidTensorNameError, LakebedError
from lakebed.htypes.arrow import is_text, numpy_dtype, plain_type, without_views
from lakebed.htypes.documents import plain_value
from lakebed.importers.core.described_columns import (
    as_described,
    described_column,
    described_columns,
    innermost,
    is_binary,
    is_list,
    is_number,
)
from lakebed.importers.core.packages import damaged
from lakebed.importers.core.plan import Problem, TensorPlan, kept, media, tensor
from lakebed.importers.core.source import Source
from lakebed.importers.folders.pictures import form_of
from lakebed.links.link import link
from lakebed.links.read import read
from lakebed.storage.address import scheme_of
from lakebed.transforms.output import Skipped
from lakebed.writing.names import check_tensor_name, is_companion

FIRST_ROWS = 64
"""Number of first rows that decide the kinds of files."""

# Chunk compression of texts and JSON; the Airbyte destination uses the same.
_CHUNKS = "lz4"

_MEDIA = ("image", "audio", "video")

SUPPOSED = {"audio": "wav", "video": "mp4", "image": "png", "dicom": "dcm"}
"""Kind of file to assume if no file of a known kind was found."""

_FEATURES = {"Image": "image", "Audio": "audio", "Video": "video"}

# Characters that have a special meaning in the files of datasets.
_NOT_IN_NAMES = re.compile(r"[,:\\\0.]")
_LONGEST_PART = 200  # bytes of one part of a name; file systems allow 255

# Maximum number of rows per byte of a file, against attacks; no real table has more.
_MOST_ROWS_PER_BYTE = 10_000


class FileOptions(TypedDict, total=False):
    """Options of importers of tables of text."""

    media: Annotated[
        Mapping[str, str] | None,
        "Columns that hold files, as bytes, as paths below the source or as addresses: photo=image, sound=audio.",
    ]
    labels: Annotated[Sequence[str], "Columns whose texts are names of classes."]
    link: Annotated[bool, "Store links to files that are given by path instead of the files."]
    creds_key: Annotated[str | None, "Name of the credentials that the links need."]
    compression: Annotated[str | None, "Kind of file that tensors of media store."]


class ColumnOptions(FileOptions, total=False):
    """Options of importers of tables with lists."""

    embeddings: Annotated[Sequence[str], "Columns of lists that are embeddings."]
    documents: Annotated[Sequence[str], "Columns that are stored as JSON, such as lists with nulls in them."]


@dataclass(frozen=True)
class Wishes:
    """The values of :class:`ColumnOptions`."""

    media: Mapping[str, str] = field(default_factory=dict)
    labels: Sequence[str] = ()
    embeddings: Sequence[str] = ()
    documents: Sequence[str] = ()
    link: bool = False
    creds_key: str | None = None
    compression: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, object]) -> Wishes:
        """Return the wishes that the options of a user express."""
        return cls(**{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that the options mention."""
        return (*self.media, *self.labels, *self.embeddings, *self.documents)

    def check(self, names: Sequence[str]) -> None:
        """Refuse options that name a column which does not exist.

        Raises
        ------
        IngestionError
            If an option names a column that is not in `names`.
        """
        for name in self.names:
            if name not in names:
                raise IngestionError(f"the table has no column {name!r}; columns: {', '.join(names)}")


@dataclass(frozen=True)
class Column:
    """A column and its tensor.

    Parameters
    ----------
    how
        Conversion of the values: ``arrow``, ``text``, ``json``, ``label``, ``class``, ``file`` or ``link``; if
        `described` is given, a conversion of :mod:`described_columns`.
    described
        Description of the tensor by an exporter of lakebed.
    """

    name: str
    tensor: str
    how: str
    described: Described | None = None


def reading(where: str) -> AbstractContextManager[None]:
    """Return a context that converts the various errors that Arrow raises for damaged data to `IngestionError`."""
    errors = (ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError)
    return damaged(f"{where} is not a table that Arrow knows, or is damaged", *errors)


def check_rows(count: int, nbytes: int, where: str) -> None:
    """Refuse a number of rows that a file of `nbytes` cannot hold.

    Raises
    ------
    IngestionError
        If the number is negative, or more than ten thousand per byte.
    """
    if not 0 <= count <= _MOST_ROWS_PER_BYTE * nbytes:
        raise IngestionError(f"{where} says that its {nbytes:,} bytes hold {count:,} rows: it is damaged")


@dataclass(frozen=True)
class Table:
    """The columns of a table: the context of workers, or a part of it.

    Parameters
    ----------
    source
        Folder of the files that rows of the table name.
    """

    source: Source
    wishes: Wishes
    columns: Sequence[Column]

    def rows(self, batch: pa.RecordBatch, where: str) -> Iterator[Any]:
        """Yield reports of the rows of a batch that cannot be imported, then the columns of all other rows.

        Parameters
        ----------
        where
            Name of the batch, for messages.
        """
        count = len(batch.column(0)) if self.columns else 0

        def called(row: int) -> str:
            return f"{where}, row {row:,} of {count:,}" if count > 1 else where

        for start, piece in _sound(batch):
            if isinstance(piece, str):
                yield Skipped(called(start), piece)
                continue
            found: dict[str, Any] = {}
            wrong: dict[int, str] = {}
            rows = 0
            for number, column in enumerate(self.columns):
                values = _storage(piece.column(number))
                rows = len(values)
                found[column.tensor] = self._values(values, column, wrong)
            for row, reason in sorted(wrong.items()):
                yield Skipped(called(start + row), reason)
            if len(wrong) < rows:
                yield kept(found, [row for row in range(rows) if row not in wrong]) if wrong else found

    def _values(self, values: Any, column: Column, wrong: dict[int, str]) -> Any:
        """Return the values of a tensor; add the rows without a valid value to `wrong`, with the reason."""
        import pyarrow.compute as pc

        if column.described is not None:
            return as_described(values, column.how, column.described, wrong, self.file)
        if column.how == "text":
            return values if is_text(values.type) else values.cast(pa.string())
        if isinstance(values, pa.Array) and pa.types.is_fixed_size_binary(values.type):
            values = values.cast(pa.binary())
        if column.how == "json":
            return [None if value is None else plain_value(value) for value in values.to_pylist()]
        if column.how == "class":  # Hugging Face marks samples of unknown class by negative numbers
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
                    files.append(self.file(value, linked=column.how == "link"))
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

    def file(self, value: Any, *, linked: bool = False) -> Any:
        """Return the file of a row, which gives the bytes of the file, its path or address, or both."""
        if isinstance(value, Mapping):
            data, value = value.get("bytes"), value.get("path")
            if data is not None:
                return read(data)
        if value is None or value == "":
            return None
        if isinstance(value, bytes):
            return read(value)
        text = str(value)
        if scheme_of(text) == "file":
            text = _below(text.removeprefix("file://"), self.source)
        return link(text, creds_key=self.wishes.creds_key) if linked else read(text, creds=self.source.creds)


def table_of(
    schema: pa.Schema, wishes: Wishes, first: pa.RecordBatch | None, source: Source, problems: list[Problem]
) -> tuple[Table, list[TensorPlan]]:
    """Return a table and its tensors.

    Parameters
    ----------
    first
        Some rows, which decide the kinds of files.
    problems
        Receives conversions.

    Raises
    ------
    IngestionError
        If two columns have the same name.
    """
    wishes.check(schema.names)
    if len(set(schema.names)) < len(schema.names):
        double = next(name for name in schema.names if schema.names.count(name) > 1)
        raise IngestionError(f"two columns have the name {double!r}")
    features = _features(schema)
    if first is not None:
        first = next((piece for _, piece in _sound(first) if not isinstance(piece, str)), None)
    described = described_columns(schema)
    table = Table(source, wishes, [])
    columns, tensors = [], []
    taken: set[str] = set()
    for named in schema:
        field = pa.field(named.name, _stored(named.type))
        name = tensor_name(field.name, taken)
        taken.add(name)
        values = _storage(first.column(field.name)) if first is not None else None
        is_wished = wishes.link or field.name in wishes.names
        said = None if is_wished else described.get(field.name)
        told = described_column(name, field, said, values) if said is not None else None
        how, plan = told or _tensor_of(name, field, features.get(field.name) or {}, table, values, problems)
        if name != field.name:
            problems.append(renamed(field.name, name))
            plan = replace(plan, info={**plan.info, "column": field.name})
        columns.append(Column(field.name, name, how, said if told is not None else None))
        tensors.append(plan)
    return replace(table, columns=columns), tensors


def _stored(kind: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type, since imported packages change which of these types Arrow knows."""
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if isinstance(kind, pa.JsonType):
        return kind
    return plain_type(kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)


def _storage(values: Any) -> Any:
    if isinstance(values, pa.Array) and isinstance(values.type, pa.UuidType):
        return pa.array([None if one is None else str(one) for one in values.to_pylist()], pa.string())
    if isinstance(values, pa.ExtensionArray) and not isinstance(values.type, pa.JsonType):
        values = values.storage
    return without_views(values) if isinstance(values, pa.Array) else values


def owned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a copy of a batch of another library, because all columns of the original share their memory.

    A narrow column is kept until its chunk is full; without the copy, it would keep wide columns in memory too.
    """
    return pa.RecordBatch.from_arrays([pa.concat_arrays([one]) for one in batch.columns], schema=batch.schema)


def tensor_name(column: str, taken: set[str]) -> str:
    """Return the name of a column's tensor: the column's, with ``_`` for characters that names cannot hold.

    ``_`` is appended to names that groups have, and to names that make Deep Lake 3 fail to open the dataset.
    """
    text = _NOT_IN_NAMES.sub("_", column).encode("utf-8", "replace").decode()
    parts = [part.strip().encode()[:_LONGEST_PART].decode("utf-8", "ignore") for part in text.split("/")]
    name = "/".join(part for part in parts if part) or "column"
    if any(name.startswith(f"{other}/") for other in taken):
        name = name.replace("/", "_")
    while name in taken or any(other.startswith(f"{name}/") for other in taken) or _is_refused(name):
        name = f"{name}_" if not name.startswith("_") else f"column{name}"
    return name


def numbered(names: Sequence[str]) -> list[str]:
    """Return unique names of columns: the second column of a name gets ``_2``, and so on."""
    said, found = frozenset(names), dict[str, None]()
    for name in names:
        count, one = 1, name
        while one in found or (count > 1 and one in said):
            count += 1
            one = f"{name}_{count}"
        found[one] = None
    return list(found)


def doubles(names: Sequence[str]) -> Iterator[Problem]:
    """Yield problems for names that :func:`numbered` changes."""
    for name, said in zip(numbered(names), names, strict=True):
        if name != said:
            yield Problem(name, f"another column is called {said!r}, too: this one is {name!r}", 0)


def renamed(column: str, name: str) -> Problem:
    """Return the report that the tensor of a column has another name than the column."""
    return Problem(column, f"the column is tensor {name!r}, which ds[{column!r}] finds, too", 0)


def _is_refused(name: str) -> bool:
    try:
        check_tensor_name(name)
    except InvalidTensorNameError:
        return True
    return is_companion(name)


def _sound(batch: Any, start: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield (number of the first row, run of valid rows); for a damaged row, (its number, the reason).

    In damaged files, offsets of texts and lists may point outside of memory: reading such values crashes the process.
    """
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


def _with_nulls_inside(values: Any) -> list[int]:
    """Return the rows whose lists hold nulls, at any depth."""
    import pyarrow.compute as pc

    if not is_list(values.type):
        return []
    inner = pc.list_flatten(values)
    wrong = np.array(inner.is_null())
    wrong[_with_nulls_inside(inner)] = True
    if not wrong.any():
        return []
    found: list[int] = pc.unique(pc.list_parent_indices(values).filter(pa.array(wrong))).to_pylist()
    return found


def _below(path: str, source: Source) -> str:
    """Return the address of a file that a table names by path.

    Raises
    ------
    IngestionError
        If the file is not below the folder of the table.
    """
    if source.is_object:
        return path  # the program passed an object, whose paths are used as they are
    root = (source.address if source.is_folder else source.address.rpartition("/")[0]).rstrip("/")
    text = path if path.startswith(f"{root}/") else f"{root}/{path}"
    is_outside = path.startswith("/") and text != path
    if source.is_local and not source.follow_symlinks:
        is_outside |= not os.path.realpath(text).startswith(f"{os.path.realpath(root).rstrip('/')}/")
    if is_outside or ".." in path.replace("\\", "/").split("/"):
        raise IngestionError(f"the file {path!r} is not below {root or '/'}")
    return text


def _features(schema: pa.Schema) -> dict[str, Any]:
    """Return the features of Hugging Face by column."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (ValueError, KeyError, TypeError):
        return {}
    return features if isinstance(features, dict) else {}


def _tensor_of(
    name: str,
    field: pa.Field,
    feature: Mapping[str, Any],
    table: Table,
    values: pa.Array | None,
    problems: list[Problem],
) -> tuple[str, TensorPlan]:
    """Return the conversion of a column's values (`Column.how`), and the plan of its tensor."""
    kind, wishes = field.type, table.wishes
    if field.name in wishes.documents:
        return "json", tensor(name, "json", chunk_compression=_CHUNKS)
    is_file = pa.types.is_struct(kind) and {one.name for one in kind} == {"bytes", "path"}
    supposed = _FEATURES.get(str(feature.get("_type"))) or ("image" if is_file else None)
    said = wishes.media.get(field.name) or supposed
    if said is not None:
        return _media_of(name, said, kind, values, table, problems)
    if feature.get("_type") == "ClassLabel" and pa.types.is_integer(kind):
        names = [str(one) for one in feature.get("names") or ()]
        return "class", tensor(name, "class_label", class_names=names)
    if field.name in wishes.labels or (pa.types.is_dictionary(kind) and is_text(kind.value_type)):
        return "label", tensor(name, "class_label")
    if pa.types.is_dictionary(kind):
        return _tensor_of(name, pa.field(field.name, kind.value_type), feature, table, None, problems)
    if pa.types.is_decimal(kind):
        return "text", tensor(name, "text", info={"type": str(kind)}, chunk_compression=_CHUNKS)
    if isinstance(kind, pa.JsonType):
        return "arrow", tensor(name, "json", chunk_compression=_CHUNKS)
    if is_text(kind) or pa.types.is_null(kind):
        return "text", tensor(name, "text", chunk_compression=_CHUNKS)
    bare: dict[str, Any] = {"create_shape_tensor": False, "create_id_tensor": False}
    if pa.types.is_temporal(kind):
        return "arrow", tensor(name, dtype=f"int{kind.bit_width}", info={"logical_type": str(kind)}, **bare)
    if is_number(kind):
        return "arrow", tensor(name, dtype=numpy_dtype(kind).name, **bare)
    if is_binary(kind):
        return "arrow", tensor(name, dtype="uint8", chunk_compression=_CHUNKS)
    inner, _ = innermost(kind)
    if is_number(inner):
        is_embedding = pa.types.is_floating(inner) and pa.types.is_fixed_size_list(kind)
        htype = "embedding" if is_embedding or field.name in wishes.embeddings else None
        return "arrow", tensor(name, htype, dtype=numpy_dtype(inner).name)
    return "json", tensor(name, "json", chunk_compression=_CHUNKS)


def _media_of(
    name: str, htype: str, kind: pa.DataType, values: pa.Array | None, table: Table, problems: list[Problem]
) -> tuple[str, TensorPlan]:
    is_struct = pa.types.is_struct(kind)
    if htype not in _MEDIA:
        raise IngestionError(f"column {name!r} cannot become {htype!r}; choose one of {', '.join(_MEDIA)}")
    if not (is_text(kind) or is_binary(kind) or is_struct):
        raise IngestionError(f"column {name!r} of {kind} holds neither files nor paths")
    given = values.to_pylist() if values is not None else []
    found: dict[str, tuple[int, int]] = {}
    for value in given:
        try:
            file = table.file(value)
            if file is not None and file.compression:
                count, nbytes = found.get(file.compression, (0, 0))
                found[file.compression] = count + 1, nbytes + len(file.buffer)
        except (LakebedError, OSError, ValueError):
            continue  # the error is reported when the row of this file is made
    has_bytes = is_struct and any(one is not None and one.get("bytes") is not None for one in given)
    is_stored = is_binary(kind) or has_bytes or (is_struct and values is None)
    is_link = table.wishes.link and not is_stored
    form = form_of_files(name, htype, found, table.wishes.compression, None if is_link else problems)
    return "link" if is_link else "file", media(name, htype, compression=form, link=is_link)


def form_of_files(
    name: str,
    htype: str,
    found: Mapping[str, tuple[int, int]],
    compression: str | None,
    problems: list[Problem] | None,
    supposed: str | None = None,
) -> str:
    """Return the kind of file that a tensor of media stores.

    Parameters
    ----------
    found
        Kind of file -> number of files, and their bytes.
    compression
        Kind of file that the user requests; None if the user requests none.
    problems
        List to which conversions are added; None for links.
    supposed
        Kind of file to return if no file of a known kind was found.
    """
    if htype == "image":
        return form_of(found, compression, problems, where=name, supposed=supposed or "jpeg")
    chosen = compression or max(found, key=lambda kind: found[kind], default=supposed or SUPPOSED[htype])
    if len(found) > 1 and problems is not None:
        told = ", ".join(sorted(kind.upper() for kind in found))
        why = f"files are of several kinds ({told}), of which a tensor holds one: {chosen.upper()} is stored"
        problems.append(Problem(name, why, 0))
    return chosen
