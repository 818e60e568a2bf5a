"""json, list and tag: JSON text with the format's custom values (FORMAT.md 1.5, 5.3).

htype   value                             None      shape of a sample
json    anything that JSON can hold       ``{}``    (1,)
list    a list                            ``[]``    (length,)
tag     a text or a list of them          [null]    (length,)
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.codecs.block import Block, join_samples
from lakebed.codecs.sample import Sample
from lakebed.documents import json_style
from lakebed.errors import FormatError, InvalidInputError, TensorDtypeMismatchError

if TYPE_CHECKING:
    from lakebed.htypes.schema_text import Schema


class Written:
    """A value of a json, list or tag tensor that is JSON text already; it counts so many items.

    Only :func:`written` makes them, of values that fit: what they were made of may change afterwards.
    """

    __slots__ = ("items", "text")

    def __init__(self, text: bytes, items: int) -> None:
        self.text, self.items = text, items


_ANY = ("Any", "List")
_PLAIN = json.JSONEncoder()


def plain_value(value: Any) -> Any:
    """Return a value of a table as the format's JSON has it: what that has no type for, such as dates, is text."""
    if isinstance(value, Mapping):
        return {str(key): plain_value(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(one) for one in value]
    return value if value is None or isinstance(value, bool | int | float | str | bytes) else str(value)


def _dump(value: Any, what: str) -> bytes:
    raw = _text_of(value, what)
    json_style.check_depth(raw, f"a {what} sample")  # as readers do
    return raw


def _text_of(value: Any, what: str) -> bytes:
    try:
        return _PLAIN.encode(value).encode()
    except (TypeError, ValueError, RecursionError):  # what JSON itself does not know
        pass
    try:
        return json.dumps(json_style.encode_custom(value)).encode()
    except TypeError:
        value = _samples_encoded(value)
    except (ValueError, InvalidInputError) as error:
        raise TensorDtypeMismatchError(f"a {what} tensor takes JSON values: {error}") from error
    try:
        return json.dumps(json_style.encode_custom(value)).encode()
    except (TypeError, ValueError, InvalidInputError) as error:
        raise TensorDtypeMismatchError(f"a {what} tensor takes JSON values: {error}") from error


def _samples_encoded(value: Any) -> Any:
    """Replace Samples anywhere in a value by the objects that stand for them: uncompressed ones become arrays."""
    if isinstance(value, Sample):
        if value.compression is None:
            return value.array
        data = base64.b64encode(value.compressed_bytes(value.compression)).decode("ascii")
        return {json_style.CUSTOM: "Sample", "data": data, "compression": value.compression}
    if isinstance(value, dict):
        return {key: _samples_encoded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_samples_encoded(item) for item in value]
    return value


def _checked(value: Any, schema: Schema | None, what: str) -> Any:
    if schema is not None:
        from lakebed.htypes.schema_text import fits

        if not fits(value, schema):
            raise TensorDtypeMismatchError(
                f"a value of this {what} tensor does not have its schema: {value!r:.80}"
            )
    return value


def _schema(dtype: str | None) -> Schema | None:
    return None if dtype is None or dtype in _ANY else _parsed(dtype)


def _parsed(dtype: str) -> Schema:
    from lakebed.htypes.schema_text import parse_schema  # few tensors have a schema

    return parse_schema(dtype)


def written(value: Any, htype: str, dtype: str | None) -> Written:
    """Return a value of a json, list or tag tensor as the text that is stored.

    Raises
    ------
    TensorDtypeMismatchError, LimitError
        If it has no such text; see the functions that encode many.
    """
    if htype == "json":
        block = encode_json([value], dtype)
    else:
        block = encode_tags([value]) if htype == "tag" else encode_list([value], dtype)
    (items,) = block.shape(0) or (1,)
    return Written(bytes(block.joined()), items)


def encode_json(values: Iterable[Any], dtype: str | None = None) -> Block:
    """Encode JSON values (also ndarrays, bytes and Samples inside them).

    Parameters
    ----------
    dtype
        The tensor's schema string.

    Raises
    ------
    TensorDtypeMismatchError
        If a value has no JSON form, or not that of the schema.
    """
    schema = _schema(dtype) if dtype != "List" else _parsed("List")
    parts = []
    for value in values:
        if type(value) is Written:
            parts.append(value.text)
            continue
        if isinstance(value, np.ndarray):
            value = value.tolist()
        parts.append(b"{}" if value is None else _dump(_checked(value, schema, "json"), "json"))
    return join_samples(parts, (1,))


def encode_list(values: Iterable[Any], dtype: str | None = None) -> Block:
    """Encode lists; the shape of a sample is its length.

    Raises
    ------
    TensorDtypeMismatchError
        If a value is no list, has no JSON form, or not that of the schema.
    """
    schema = _schema(dtype)
    parts, lengths = [], []
    for value in values:
        if type(value) is Written:
            parts.append(value.text)
            lengths.append(value.items)
            continue
        if isinstance(value, np.ndarray) and value.ndim:
            value = value.tolist()
        items = [] if value is None else list(value) if isinstance(value, list | tuple) else None
        if items is None:
            raise TensorDtypeMismatchError(f"a list tensor takes lists, not {type(value).__name__}")
        parts.append(_dump(_checked(items, schema, "list"), "list"))
        lengths.append(len(items))
    return join_samples(parts, np.array(lengths, dtype=np.uint32).reshape(-1, 1))


def encode_tags(values: Iterable[Any]) -> Block:
    """Encode tags: a text, or a list of texts; what else JSON can hold is stored as one item.

    Raises
    ------
    TensorDtypeMismatchError
        If a value has no JSON form.
    """
    parts, lengths = [], []
    for value in values:
        if type(value) is Written:
            parts.append(value.text)
            lengths.append(value.items)
            continue
        if isinstance(value, np.ndarray) and value.dtype.kind in "UO":
            value = value.tolist()
        items = (list(value) or [None]) if isinstance(value, list | tuple) else [value]
        parts.append(_dump(items, "tag"))
        lengths.append(len(items))
    return join_samples(parts, np.array(lengths, dtype=np.uint32).reshape(-1, 1))


def decode_document(data: bytes | memoryview) -> Any:
    """Decode the JSON text of one sample.

    Raises
    ------
    FormatError, LimitError
        If the text is no JSON, or nested too deeply.
    """
    value = json_style.load(data, "a json sample")
    if json_style.CUSTOM.encode() not in bytes(data):
        return value
    try:
        return _samples_decoded(json_style.decode_custom(value))
    except FormatError:
        # The data of a user has the format's marker as a key: it is plain JSON.
        return value
    except RecursionError as error:
        raise FormatError("a json sample is nested too deeply for this place in the program") from error


def _samples_decoded(value: Any) -> Any:
    """Make Samples of the objects that stand for them; nothing is decompressed before pixels are asked for."""
    if isinstance(value, list):
        return [_samples_decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(json_style.CUSTOM)
    if not isinstance(kind, str) or kind != "Sample":  # it may be an array
        return {key: _samples_decoded(item) for key, item in value.items()}
    data, compression = value.get("data"), value.get("compression")
    if not isinstance(data, str) or not isinstance(compression, str):
        raise FormatError("a Sample in JSON has no data or no compression")
    try:
        return Sample(buffer=base64.b64decode(data, validate=True), compression=compression)
    except ValueError as error:
        raise FormatError(f"a Sample in JSON has bad base64 in `data`: {error}") from error
