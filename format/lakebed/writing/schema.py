"""Arguments of ``create_tensor`` -> metadata of a tensor and of its hidden companions (FORMAT.md 3, 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from lakebed.codecs.registry import byte_codec, normalize
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    TensorAlreadyExistsError,
    TensorGroupAlreadyExistsError,
    TensorMetaInvalidHtypeOverwriteKey,
    TensorMetaInvalidHtypeOverwriteValue,
    TensorMetaMutuallyExclusiveKeysError,
    UnsupportedCompressionError,
)
from lakebed.htypes.arrays import array_dtype
from lakebed.htypes.base import Htype, Storing
from lakebed.htypes.registry import writable_htype
from lakebed.versions.state import Snapshot
from lakebed.writing.names import check_group_name, check_tensor_name, companion, parents

UNSPECIFIED = "unspecified"
_HIDDEN_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor to create, and the hidden tensors that it feeds, by name."""

    meta: TensorMeta
    info: Mapping[str, Any]
    companions: Mapping[str, TensorMeta]


def plan_tensor(
    name: str,
    htype: str | None,
    dtype: Any,
    sample_compression: str | None,
    chunk_compression: str | None,
    *,
    hidden: bool,
    with_shape: bool,
    with_id: bool,
    settings: Mapping[str, Any],
) -> NewTensor:
    """Check the settings of a new tensor and say what to create.

    Raises
    ------
    TensorMetaInvalidHtype, TensorMetaInvalidHtypeOverwriteKey, TensorMetaInvalidHtypeOverwriteValue
        If the htype, or a setting of it, is not possible.
    TensorMetaMutuallyExclusiveKeysError, UnsupportedCompressionError
        If the compressions do not go together or do not suit the htype.
    """
    chosen = None if htype in (None, UNSPECIFIED) and dtype in (None, UNSPECIFIED) else htype
    kind = writable_htype("generic" if chosen in (None, UNSPECIFIED) else chosen)
    sample, chunk = _compressions(kind, sample_compression, chunk_compression)
    extra, info, sizes = _settings(kind, settings)
    meta = TensorMeta(
        name=name,
        htype=None if chosen is None else kind.name,
        dtype=_dtype(kind, dtype),
        sample_compression=sample,
        chunk_compression=chunk,
        hidden=hidden,
        extra=extra,
        **sizes,
    )
    links: dict[str, Mapping[str, Any]] = {}
    companions = {}
    if with_shape and (chosen is None or kind.has_shape_tensor):
        shape_name = companion(name, "shape")
        what = "len" if kind.name == "list" else "shape"
        links[shape_name] = {"extend": f"extend_{what}", "flatten_sequence": True, "update": f"update_{what}"}
        companions[shape_name] = TensorMeta(
            name=shape_name, htype="generic", dtype="int64", hidden=True, max_chunk_size=_HIDDEN_CHUNK
        )
    if with_id:
        id_name = companion(name, "id")
        links[id_name] = {"extend": "extend_id", "flatten_sequence": False}
        companions[id_name] = TensorMeta(name=id_name, hidden=True)
    return NewTensor(meta.with_(links=links), info, companions)


def check_new_tensor(schema: Snapshot, name: str, companions: Iterable[str]) -> None:
    """Refuse a tensor whose name, or that of a hidden companion, is impossible or taken.

    Raises
    ------
    InvalidTensorNameError, TensorAlreadyExistsError, TensorGroupAlreadyExistsError
        With the name that is in the way.
    """
    check_tensor_name(name)
    for taken in (name, *parents(name), *companions):
        if schema.key_of(taken) is not None:
            raise TensorAlreadyExistsError(
                f"Tensor {taken!r} already exists. You can use the `exist_ok=True` parameter to ignore this error."
            )
    if name in schema.meta.groups:
        raise TensorGroupAlreadyExistsError(f"A group {name!r} already exists; choose another tensor name.")


def check_new_group(schema: Snapshot, name: str) -> None:
    """Refuse a group whose name is impossible or taken.

    Raises
    ------
    InvalidTensorGroupNameError, TensorAlreadyExistsError, TensorGroupAlreadyExistsError
        With the name that is in the way.
    """
    check_group_name(name)
    for taken in (name, *parents(name)):
        if schema.key_of(taken) is not None:
            raise TensorAlreadyExistsError(f"Tensor {taken!r} already exists; choose another group name.")
    if name in schema.meta.groups:
        raise TensorGroupAlreadyExistsError(f"A group {name!r} already exists.")


def is_same_tensor(schema: Snapshot, name: str, planned: TensorMeta) -> bool:
    """Tell whether there is a tensor of this name.

    Raises
    ------
    ValueError
        If there is, with an htype, dtype or compression other than planned; what the plan leaves open may be any.
    """
    key = schema.key_of(name)
    if key is None:
        return False
    present = schema.tensors[key].meta
    for setting in ("htype", "dtype", "sample_compression", "chunk_compression"):
        wanted, found = getattr(planned, setting), getattr(present, setting)
        if wanted not in (None, found):
            raise ValueError(f"Tensor {name!r} already exists with {setting} {found!r}, not {wanted!r}.")
    return True


def _dtype(kind: Htype, dtype: Any) -> str | None:
    if dtype in (None, UNSPECIFIED):
        return kind.dtype
    if kind.storing is not Storing.ARRAY:
        if dtype in (kind.dtype, str, list, dict):
            return kind.dtype
        raise TensorMetaInvalidHtypeOverwriteValue(
            f"Invalid value {dtype!r} for dtype: tensors of htype {kind.name} always have dtype {kind.dtype!r}"
        )
    return array_dtype(dtype).name


def _compressions(kind: Htype, sample: str | None, chunk: str | None) -> tuple[str | None, str | None]:
    sample = None if sample == UNSPECIFIED else normalize(sample)
    chunk = None if chunk == UNSPECIFIED else normalize(chunk)
    if sample is not None and chunk is not None:
        raise TensorMetaMutuallyExclusiveKeysError(
            f"a tensor is compressed by sample ({sample}) or by chunk ({chunk}), not both; leave one out"
        )
    for name in (sample, chunk):
        if name is not None and kind.compressions is not None and name not in kind.compressions:
            raise UnsupportedCompressionError(f"Compression {name!r} is not supported for {kind.name} htype.")
        byte_codec(name)
    return sample, chunk


def _settings(
    kind: Htype, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    extra, info = dict(kind.meta_extra), dict(kind.info)
    sizes: dict[str, Any] = {}
    for key, value in settings.items():
        if key in info:
            info[key] = list(value) if isinstance(value, tuple) else value
        elif key in ("max_chunk_size", "tiling_threshold"):
            sizes[key] = value
        else:
            can = ", ".join(["dtype", "sample_compression", "chunk_compression", "max_chunk_size", *info])
            raise TensorMetaInvalidHtypeOverwriteKey(
                f"Htype {kind.name!r} doesn't have a key for {key!r}. Available keys: {can}"
            )
    names = info.get("class_names")
    if names is not None and not (isinstance(names, list) and all(isinstance(n, str) for n in names)):
        raise TensorMetaInvalidHtypeOverwriteValue("class_names must be a list of strings")
    return extra, info, sizes
