"""The table of what becomes of columns: laws that hold for every pair of types."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.choices import ColumnChoice, Decoding
from destination_deeplake.chosen import chosen
from destination_deeplake.columns import Column, Kind
from destination_deeplake.stream.evolution import Decision, Step, decide, is_plain, suffix
from destination_deeplake.tensors import TENSOR_TYPES, TensorType

PLAIN = [kind for kind in Kind if kind not in (Kind.BYTES, Kind.FLOATS)]
DTYPES = ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64"]

Typed = tuple[Column, TensorType]


def kind(of: Kind) -> Typed:
    return Column("c", of), TENSOR_TYPES[of]


def choice(of: Kind = Kind.TEXT, **chosen_for: object) -> Typed:
    return chosen(("c",), of, ColumnChoice("c", **chosen_for))  # type: ignore[arg-type]


RICH = [
    choice(htype="image"),
    choice(htype="image", sample_compression="png"),
    choice(htype="audio"),
    choice(decoding=Decoding.BASE64),
    choice(decoding=Decoding.URL),
    choice(htype="link[video]"),
    choice(htype="class_label"),
    choice(Kind.JSON, htype="embedding", shape=(3,)),
    choice(Kind.JSON, htype="embedding", shape=(4,)),
    choice(Kind.JSON, htype="embedding"),
    choice(Kind.JSON, decoding=Decoding.NUMBERS, dtype="int16", shape=(2, 2)),
]
NARROW = [choice(Kind.INT64, dtype=dtype) for dtype in DTYPES]
ALL = [*map(kind, PLAIN), *NARROW, *RICH]


def decided(old: Typed, new: Typed) -> Decision:
    return decide(*old, *new)


@given(st.sampled_from(ALL))
def test_a_column_that_does_not_change_is_kept(same: Typed) -> None:
    assert decided(same, same) == Decision(Step.KEEP, *same)


@given(st.sampled_from(ALL), st.sampled_from(ALL))
def test_what_was_decided_once_is_kept_from_then_on(old: Typed, new: Typed) -> None:
    first = decided(old, new)
    again = decided((first.column, first.type), new)
    assert (again.step, again.column.kind, again.type) == (Step.KEEP, first.column.kind, first.type)


@given(st.sampled_from([*map(kind, PLAIN), *NARROW]), st.sampled_from([*map(kind, PLAIN), *NARROW]))
def test_plain_columns_never_need_another_tensor_and_end_alike_whoever_was_first(
    old: Typed, new: Typed
) -> None:
    one, other = decided(old, new), decided(new, old)
    assert Step.MOVE not in (one.step, other.step)
    assert (one.column.kind, one.type) == (other.column.kind, other.type)


@given(st.sampled_from(NARROW), st.sampled_from(NARROW))
def test_a_number_fits_what_two_dtypes_become(old: Typed, new: Typed) -> None:
    found = decided(old, new).type
    for of_type in (old[1], new[1]):
        assert (
            found.htype == "text"
            or np.can_cast(of_type.dtype, found.dtype, "same_kind")
            or found.dtype == "float64"
        )


@given(st.sampled_from(RICH), st.sampled_from(list(map(kind, PLAIN))) | st.sampled_from(RICH))
def test_samples_and_values_never_mix(old: Typed, new: Typed) -> None:
    found = decided(old, new)
    if found.step is Step.KEEP:
        assert old[1].htype == new[1].htype
        assert old[1].shape == new[1].shape
    elif found.step is Step.WIDEN:
        assert (old[1].htype, is_plain(new[1])) == ("class_label", True)
    else:
        assert (found.column, found.type) == new


@given(st.sampled_from(ALL), st.sampled_from(ALL))
def test_a_new_tensor_is_called_after_what_it_holds(old: Typed, new: Typed) -> None:
    name = suffix(new[1])
    assert name.replace("_", "").isalnum()
    if decided(old, new).step is Step.MOVE and not old[1].takes_files:
        assert name != suffix(old[1]) or old[0].kind is not new[0].kind or old[1].arrow != new[1].arrow


@pytest.mark.parametrize("of", PLAIN)
def test_json_takes_everything_and_text_all_that_is_no_json(of: Kind) -> None:
    assert decided(kind(of), kind(Kind.JSON)).column.kind is Kind.JSON
    if of is not Kind.JSON:
        assert decided(kind(of), kind(Kind.TEXT)).column.kind is Kind.TEXT
