"""Changes of a column's type and their effect on its tensor, as a table. Pure.

    stored        the source or the user now wants          becomes
    any           the same                                  kept
    wider         narrower (float and int, json and any)    kept: new values are read as what is stored
    int           float                                     float, while every integer is exact in it; else text
    int, float    exact digits                              text of the digits
    date          timestamp; timestamp with zone         the wider one; no zone means UTC
    scalar        another scalar                            text
    any of these  json                                      json
    narrow dtype  wider dtype                               the dtype that holds both
    class_label   text, json                                its names
    image, link, embedding, class_label ...  anything else  a new tensor: old rows stay in the old one, and are null in
                                                            the new one
    anything      image, link, embedding, class_label ...   a new tensor

Nothing here fails: every type has a tensor.
"""

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from destination_deeplake.columns import Column, Kind, shape_text
from destination_deeplake.tensors import TENSOR_TYPES, TensorType, arrow_type

_TIMES = (
    (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_TZ),
    (Kind.TIME, Kind.TIME_TZ),
)
"""Kinds from narrow to wide."""

_NUMBERS = (Kind.INT64, Kind.FLOAT64)


class Step(Enum):
    """Change of a tensor."""

    KEEP = "keep"
    """The tensor stays; values are read as its type."""
    WIDEN = "widen"
    """The tensor is rewritten as a wider type, under the same name."""
    MOVE = "move"
    """The tensor keeps the old rows; new rows go to a new tensor."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Change of a column.

    Attributes
    ----------
    step : Step
        Change of the column's tensor.
    column : Column
        Future parsing of the column.
    type : TensorType
        Future storage of the column.
    """

    step: Step
    column: Column
    type: TensorType


def decide(old: Column, stored: TensorType, new: Column, wanted: TensorType) -> Decision:
    """Return the change of a column that is stored as `stored` and should be stored as `wanted`."""
    if stored.htype == "class_label" and wanted.htype in ("text", "json"):
        return Decision(Step.WIDEN, new, wanted)
    if not (is_plain(stored) and is_plain(wanted)):
        if not _is_alike(old, stored, new, wanted):
            return Decision(Step.MOVE, new, wanted)
        kept = replace(stored, creds_key=wanted.creds_key, nulls_as_nan=wanted.nulls_as_nan)
        # A label column keeps its old kind, because its list of class names cannot serve numbers and names.
        kind = old.kind if stored.htype == "class_label" else new.kind
        read = Column(new.path, kind, shape=stored.shape, dtype=new.dtype)
        return Decision(Step.KEEP, read, kept)
    kind, of_type = _both(old.kind, stored, new.kind, wanted)
    is_same = (of_type.htype, of_type.dtype, of_type.logical_type) == (
        stored.htype,
        stored.dtype,
        stored.logical_type,
    )
    if is_same:
        of_type = replace(stored, nulls_as_nan=wanted.nulls_as_nan and of_type.dtype.startswith("float"))
    return Decision(Step.KEEP if is_same else Step.WIDEN, Column(new.path, kind), of_type)


def suffix(of_type: TensorType) -> str:
    """Return the suffix of the name of a new tensor, if an older tensor of the column has the name without it."""
    name = of_type.htype if of_type.htype != "generic" else of_type.dtype
    name = name.replace("[", "_").replace("]", "").replace(".", "_")
    return name if of_type.shape is None else f"{name}_{shape_text(of_type.shape)}"


def is_plain(of_type: TensorType) -> bool:
    """Tell whether a tensor holds scalars, text or json, which can be converted into each other."""
    if of_type.htype in ("text", "json"):
        return True
    return of_type.htype == "generic" and of_type.shape is None and not _is_nested(of_type.arrow)


def _is_nested(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_binary(kind))


def _is_alike(old: Column, stored: TensorType, new: Column, wanted: TensorType) -> bool:
    """Tell whether a tensor of `stored`, which is not plain, can hold values of `wanted`."""
    if stored.htype != wanted.htype or is_plain(stored) or is_plain(wanted):
        return False
    if stored.htype == "class_label":
        return True
    if stored.takes_files or stored.is_link:
        return True
    return old.kind is new.kind and stored.shape == wanted.shape and stored.arrow == wanted.arrow


def _join(old: Kind, new: Kind) -> Kind:
    """Return the narrowest kind that can hold values of both kinds."""
    kinds = {old, new}
    if len(kinds) == 1:
        return old
    if Kind.JSON in kinds:
        return Kind.JSON
    if kinds == set(_NUMBERS):
        return Kind.FLOAT64
    if Kind.EXACT in kinds and kinds & set(_NUMBERS):
        return Kind.EXACT
    for chain in _TIMES:
        if kinds <= set(chain):
            return max(kinds, key=chain.index)
    return Kind.TEXT


def _both(old: Kind, stored: TensorType, new: Kind, wanted: TensorType) -> tuple[Kind, TensorType]:
    """Return the narrowest kind and type that hold the values of two plain columns."""
    kind = _join(old, new)
    if kind not in (*_NUMBERS, Kind.BOOL):
        return kind, TENSOR_TYPES[kind]
    dtype = np.promote_types(stored.dtype, wanted.dtype)
    if kind is Kind.INT64 and dtype.kind not in "iu":
        # No integer type holds both int64 and uint64.
        return Kind.EXACT, TENSOR_TYPES[Kind.EXACT]
    return kind, TensorType("generic", dtype.name, None, arrow_type(kind, "generic", dtype.name, None))
