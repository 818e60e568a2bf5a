"""Arguments of ``create_tensor`` -> metadata of a tensor and of its hidden companions (format.md 3, 8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lakebed.codecs.registry import normalize
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    InvalidInputError,
    InvalidKeyTypeError,
    MeshTensorMetaMissingRequiredValue,
    TensorAlreadyExistsError,
    TensorGroupAlreadyExistsError,
    TensorMetaInvalidHtypeOverwriteKey,
    TensorMetaInvalidHtypeOverwriteValue,
    TensorMetaMissingRequiredValue,
    TensorMetaMutuallyExclusiveKeysError,
    UnsupportedCompressionError,
)
from lakebed.htypes.base import Demand, Htype, Storing
from lakebed.htypes.class_label import STRICT
from lakebed.htypes.dtypes import array_dtype
from lakebed.htypes.registry import UNSPECIFIED, HtypeName, full_name, htype_named, parse_htype
from lakebed.versions.state import Snapshot
from lakebed.writing.names import check_group_name, check_tensor_name, companion, parents

HIDDEN_CHUNK_SIZE = 4_000_000
_SIZES = ("max_chunk_size", "tiling_threshold")
_FLAGS = ("is_sequence", "is_link", "verify")
_COMMON = (
    "dtype sample_compression chunk_compression typestr max_chunk_size tiling_threshold is_sequence is_link hidden "
    "links verify"
).split()


@dataclass(frozen=True, slots=True)
class NewTensor:
    """A tensor to create, and the hidden tensors that it feeds, by name in the order of creation."""

    meta: TensorMeta
    info: Mapping[str, Any]
    companions: Mapping[str, TensorMeta]
    companion_infos: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


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
    with_info: bool = True,
    verify: bool = True,
    downsampling: Any = None,
) -> NewTensor:
    """Check the settings of a new tensor and return the tensors to create.

    Parameters
    ----------
    with_info, with_shape, with_id
        Whether to create these hidden companions, if the htype has them.
    verify
        Whether appending links reads the headers of the files; otherwise no facts about them are recorded.
    downsampling
        (factor, layers) of a pyramid of hidden, smaller copies, for htypes that can have one.
    settings
        The other keywords of ``create_tensor``: settings of the htype, ``max_chunk_size``, ``tiling_threshold``.

    Raises
    ------
    TensorMetaInvalidHtype, TensorMetaInvalidHtypeOverwriteKey, TensorMetaInvalidHtypeOverwriteValue
        If the htype, or one of its settings, is invalid.
    TensorMetaMissingRequiredValue, MeshTensorMetaMissingRequiredValue
        If the htype requires a compression, and none is given.
    TensorMetaMutuallyExclusiveKeysError, UnsupportedCompressionError
        If the compressions exclude each other or the htype.
    InvalidInputError, InvalidKeyTypeError, KeyError
        If links are of an unknown htype, or a pyramid or ``coords`` is invalid.
    """
    parsed = parse_htype(htype)
    kind = htype_named(parsed.base)
    layers = _pyramid_layers(downsampling)
    extra, info, rest = _settings(kind, settings)
    sample, chunk = _compressions(kind, parsed, sample_compression, chunk_compression)
    flags = {flag: bool(rest.pop(flag, False)) for flag in ("is_sequence", "is_link")}
    is_link = parsed.is_link or flags["is_link"]
    meta = TensorMeta(
        name=name,
        htype=parsed.base,
        dtype=_dtype(kind, dtype),
        sample_compression=sample,
        chunk_compression=chunk,
        hidden=hidden,
        is_sequence=parsed.is_sequence or flags["is_sequence"],
        is_link=is_link,
        verify=bool(rest.pop("verify", verify)),
        extra=extra,
        **rest,
    )
    known = not is_link or meta.verify
    links, companions = companions_for(
        kind, name, with_info=with_info and known, with_shape=with_shape and known, with_id=with_id
    )
    pyramid = _pyramid(meta, kind, name, layers) if kind.has_pyramid else {}
    if pyramid:
        links[next(iter(pyramid))] = _PYRAMID_LINK
    infos = {key: {**kind.info, "downsampling_factor": layers[0]} for key in pyramid}
    return NewTensor(meta.with_(links=links), info, {**companions, **pyramid}, infos)


def check_new_tensor(schema: Snapshot, name: str, companions: Iterable[str]) -> None:
    """Refuse a tensor if its name, or that of a hidden companion, is invalid or taken.

    Raises
    ------
    InvalidTensorNameError, TensorAlreadyExistsError, TensorGroupAlreadyExistsError
        If a name is taken or invalid; the message gives the name.
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
    """Refuse a group whose name is not allowed or taken.

    Raises
    ------
    InvalidTensorGroupNameError, TensorAlreadyExistsError, TensorGroupAlreadyExistsError
        If a name is taken or invalid; the message gives the name.
    """
    check_group_name(name)
    for taken in (name, *parents(name)):
        if schema.key_of(taken) is not None:
            raise TensorAlreadyExistsError(f"Tensor {taken!r} already exists; choose another group name.")
    if name in schema.meta.groups:
        raise TensorGroupAlreadyExistsError(f"A group {name!r} already exists.")


def is_same_tensor(schema: Snapshot, name: str, planned: TensorMeta) -> bool:
    """Return whether a tensor of this name exists.

    Raises
    ------
    ValueError
        If such a tensor exists, but its htype, dtype or compression contradicts the plan.
    """
    key = schema.key_of(name)
    if key is None:
        return False
    present = schema.tensors[key].meta
    found, wanted = (
        full_name(m.htype, is_sequence=m.is_sequence, is_link=m.is_link) for m in (present, planned)
    )
    if planned.htype is not None and wanted != found:
        raise ValueError(f"Tensor {name!r} already exists with htype {found!r}, not {wanted!r}.")
    for setting in ("dtype", "sample_compression", "chunk_compression"):
        wanted, found = getattr(planned, setting), getattr(present, setting)
        if wanted not in (None, found):
            raise ValueError(f"Tensor {name!r} already exists with {setting} {found!r}, not {wanted!r}.")
    return True


# -- hidden companions -----------------------------------------------------------------------------------------

_PYRAMID_LINK = {"extend": "extend_downsample", "flatten_sequence": True, "update": "update_downsample"}


def companions_for(
    kind: Htype, name: str, *, with_info: bool, with_shape: bool, with_id: bool
) -> tuple[dict[str, Mapping[str, Any]], dict[str, TensorMeta]]:
    """Return the links from a tensor of an htype to its hidden companions, and the companions' settings, by name."""
    links: dict[str, Mapping[str, Any]] = {}
    made: dict[str, TensorMeta] = {}

    def add(key: str, what: str, **settings: Any) -> None:
        hidden = companion(name, key)
        links[hidden] = {"extend": f"extend_{what}", "flatten_sequence": True, "update": f"update_{what}"}
        made[hidden] = TensorMeta(name=hidden, hidden=True, max_chunk_size=HIDDEN_CHUNK_SIZE, **settings)

    if with_info and kind.has_info_tensor:
        add("info", "info", htype="json", dtype="Any")
    if with_shape and kind.has_shape_tensor:
        add("shape", "len" if kind.name == "list" else "shape", dtype="int64")
    if with_id:
        hidden = companion(name, "id")
        links[hidden] = {"extend": "extend_id", "flatten_sequence": False}
        made[hidden] = TensorMeta(name=hidden, hidden=True)
    return links, made


def _pyramid_layers(downsampling: Any) -> tuple[int, int]:
    """Return (factor, layers); (1, 0) for no pyramid.

    Raises
    ------
    InvalidInputError, InvalidKeyTypeError
        If the argument is not a pair of whole numbers of at least 1.
    """
    if downsampling is None:
        return 1, 0
    if not isinstance(downsampling, list | tuple):
        raise InvalidKeyTypeError(f"downsampling must be a pair (factor, layers), not {downsampling!r}")
    if len(downsampling) != 2:
        raise InvalidInputError(
            f"Downsampling must be a tuple of the form (downsampling_factor, number_of_layers), got {downsampling}"
        )
    factor, layers = downsampling
    for what, value in (("Downsampling factor", factor), ("Number of layers", layers)):
        if isinstance(value, str):
            raise InvalidKeyTypeError(f"{what} must be an integer >= 1, not {value!r}")
        if value < 1 or int(value) != value:
            raise InvalidInputError(f"{what} must be an integer >= 1, not {value!r}")
    return int(factor), int(layers)


def _pyramid(meta: TensorMeta, kind: Htype, name: str, layers: tuple[int, int]) -> dict[str, TensorMeta]:
    """Return the layers of a pyramid; each feeds the next, and is an ordinary tensor even if its owner has links."""
    factor, count = layers
    names = [companion(name, f"downsampled_{factor**n}") for n in range(1, count + 1)]
    made = {}
    for n, own in enumerate(names):
        made[own] = meta.with_(
            name=own,
            hidden=True,
            is_link=False,
            verify=True,
            typestr=None,
            extra=dict(kind.meta_extra),
            links={names[n + 1]: _PYRAMID_LINK} if n + 1 < count else {},
        )
    return made


# -- settings --------------------------------------------------------------------------------------------------


def _dtype(kind: Htype, dtype: Any) -> str | None:
    if isinstance(dtype, str) and dtype == UNSPECIFIED:
        return kind.dtype
    if kind.storing in (Storing.JSON, Storing.LIST):
        if dtype is None or dtype == "":
            return kind.dtype
        from lakebed.htypes.schema_text import check_schema

        return check_schema(dtype)
    if kind.storing is Storing.TEXT:
        if dtype is None or dtype in ("", "str", str):
            return kind.dtype
        raise TensorMetaInvalidHtypeOverwriteValue(
            f"Invalid value {dtype!r} for tensor meta key 'dtype'. dtype for tensor with text htype is always `str`"
        )
    return None if dtype is None else array_dtype(dtype).name


def _compressions(
    kind: Htype, parsed: HtypeName, sample: str | None, chunk: str | None
) -> tuple[str | None, str | None]:
    named_sample, named_chunk = sample != UNSPECIFIED, chunk != UNSPECIFIED
    shown = full_name(parsed.base, is_sequence=False, is_link=parsed.is_link)
    if kind.compression_needed and not named_sample:
        raise MeshTensorMetaMissingRequiredValue(
            f"Htype {shown!r} requires you to specify 'sample_compression' inside the `create_tensor` method call. "
            f"Available compressors: {sorted(kind.compressions or ())}"
        )
    if not named_sample:
        sample = kind.default_compression
    sample, chunk = normalize(sample), normalize(chunk if named_chunk else None)
    if kind.compression_needed and sample is None:
        raise UnsupportedCompressionError(f"Compression 'None' is not supported for {kind.name} htype.")
    for name in (sample, chunk):
        if name is not None and kind.compressions is not None and name not in kind.compressions:
            raise UnsupportedCompressionError(f"Compression {name!r} is not supported for {kind.name} htype.")
    if sample is not None and chunk is not None:
        raise TensorMetaMutuallyExclusiveKeysError(
            "Specifying both sample-wise and chunk-wise compressions for the same tensor is not yet supported: "
            f"a tensor is compressed by sample ({sample}) or by chunk ({chunk}); leave one out"
        )
    if chunk is not None and not kind.by_chunk:
        raise UnsupportedCompressionError(
            f"Compression 'Chunk compression' is not supported for {kind.name} htype."
        )
    if not named_sample and (
        kind.demand is Demand.SAMPLE or (kind.demand is Demand.EITHER and not named_chunk)
    ):
        wanted = "'sample_compression'" + (" or 'chunk_compression'" if kind.demand is Demand.EITHER else "")
        raise TensorMetaMissingRequiredValue(
            f"Htype {shown!r} requires you to specify {wanted} inside the `create_tensor` method call. It may be "
            f"`None` if you want your {shown!r} data to be uncompressed. "
            f"Available compressors: {sorted(kind.compressions or ())}"
        )
    return sample, chunk


def _settings(
    kind: Htype, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Sort settings into keys of the htype that stay in the meta, the tensor's info, and members of the meta."""
    extra, info = dict(kind.meta_extra), dict(kind.info)
    rest: dict[str, Any] = {}
    for key, value in settings.items():
        if key in info:
            info[key] = _checked_info(kind, key, value)
        elif key in extra:
            extra[key] = value
        elif key in _SIZES:
            if value is not None and value != UNSPECIFIED:
                rest[key] = _checked_size(key, value)
        elif key in _FLAGS:
            rest[key] = bool(value)
        elif key == "typestr":
            rest[key] = value
        elif key == STRICT and kind.name == "class_label":
            if not isinstance(value, bool):
                raise TensorMetaInvalidHtypeOverwriteValue(f"{STRICT} must be True or False, not {value!r}")
            if value:  # if false, leave the key out, as tensors of 3.x do
                info[key] = True
        else:
            raise TensorMetaInvalidHtypeOverwriteKey(
                f"Htype {kind.name!r} doesn't have a key for {key!r}. Available keys: {[*extra, *_COMMON]}"
            )
    return extra, info, rest


def _checked_size(key: str, value: Any) -> int:
    if type(value) is not int or value < -1:
        raise TensorMetaInvalidHtypeOverwriteValue(f"{key} is {value!r}; it must be a number of bytes")
    return value


def _checked_info(kind: Htype, key: str, value: Any) -> Any:
    """Return a setting in the form of the info.

    Raises
    ------
    TensorMetaInvalidHtypeOverwriteValue, InvalidKeyTypeError, KeyError
        If the value is of the wrong kind.
    """
    if key == "coords":
        allowed = {"mode"} if kind.name == "bbox.3d" else {"type", "mode"}
        if not isinstance(value, dict):
            raise InvalidKeyTypeError(f"coords must be of type {dict}, not {type(value)}")
        if not allowed.issuperset(value):
            raise KeyError(f"coords must have keys belong to {allowed}")
        return value
    if key == "intrinsics":
        return value
    if value is None:
        return []
    items = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(items, list | tuple):
        raise TensorMetaInvalidHtypeOverwriteValue(f"{key} must be a list, not {type(value).__name__}")
    return list(items)
