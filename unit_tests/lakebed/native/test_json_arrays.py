"""Objects in JSON arrays as the compiled scanner finds them, against Python's json."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.native.json_arrays import ArrayScanner, JsonTextError, columns, value_span, values

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([0, -0.0, 2**63 - 1, -(2**63), 2**63, 1e22, 1e23, 5e-324, 0.1, "\\", '"', "é\u2028"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(["a", "b", 'c"', "ü", ""]), VALUES, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Whether values are the same, NaN and the sign of zero included."""
    return bool(repr(one) == repr(other))


def scanned(text: bytes, wanted: tuple[str, ...] = (), most: int = 3) -> tuple[ArrayScanner, list[Any]]:
    scanner = ArrayScanner(text, 0, wanted)
    found = []
    while not scanner.is_over:
        found.append(scanner.next(most))
    if not found:
        found.append(scanner.next(1))
    return scanner, [np.concatenate(parts) for parts in zip(*found, strict=True)]


def letter(value: Any) -> str:
    """Return the kind of a value by its definition."""
    if isinstance(value, list):
        kinds = {letter(one) for one in value}
        return "I" if kinds == {"i"} else "F" if kinds and kinds <= {"i", "f"} else "A"
    if value is None or isinstance(value, bool):
        return "n"
    return {int: "i", float: "f", str: "s", dict: "o"}[type(value)]


@given(st.lists(OBJECTS, max_size=9), st.sampled_from([None, 1]), st.booleans())
def test_objects_are_found_as_json_has_them(
    objects: list[dict[str, Any]], indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(objects, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    objects = json.loads(text)
    scanner, (starts, ends, shapes, places) = scanned(text, ("b", "ü"))
    assert scanner.at == len(text)
    assert same(values(text, starts, ends), objects)
    for found, key in enumerate(("b", "ü")):
        inner = np.ascontiguousarray(places[:, found].T)
        assert same(values(text, inner[0], inner[1]), [one.get(key) for one in objects])
    for one, shape in zip(objects, shapes.tolist(), strict=True):
        keys, kinds = scanner.shapes[shape] or ((), b"")
        assert (keys, kinds.decode()) == (tuple(one), "".join(map(letter, one.values())))


@given(st.floats(allow_nan=False) | st.decimals(allow_nan=False).map(float) | st.integers(-(10**25), 10**25))
def test_numbers_are_the_nearest_doubles(number: float) -> None:
    text = json.dumps([{"x": number, "y": [number, 1]}]).encode()
    scanner, (starts, ends, shapes, _) = scanned(text)
    assert scanner.members == [[0, 1]]
    found, odd = columns(text, starts, ends, shapes, np.array([[0, 1]]), b"fF")
    assert not odd.any()
    assert same(found[0].tolist(), [float(number)])
    assert same(found[1][0].tolist(), [float(number), 1.0])


@pytest.mark.parametrize(
    "text",
    [
        *("1e23", "9007199254740993", "0.1e-22", "12345678901234567890.0", "1e400", "-1e-400", "-0", "-0.0"),
        *(
            "NaN",
            "-Infinity",
            "0.000000000000000000000000000001",
            f"1.{'0' * 900}1",
            "1234567890123456789e-19",
        ),
        "1E+2",
    ],
)
def test_texts_of_numbers(text: str) -> None:
    whole = f'[{{"x": {text}}}]'.encode()
    starts, ends = np.array([1]), np.array([len(whole) - 1])
    found, odd = columns(whole, starts, ends, np.array([0]), np.array([[0]]), b"f")
    assert (same(found[0].tolist(), [float(json.loads(text))]), odd.tolist()) == (True, [False])
    assert same(values(whole, starts + 6, ends - 1), [json.loads(text)])


def test_columns() -> None:
    objects = [
        {"i": 1, "f": 2, "I": [1, 2], "F": [1, 2.5], "P": [[1, 2, 3, 4], [5, 6.5]], "v": "x"},
        {"v": None, "P": {"counts": []}, "F": [], "I": [], "f": 0.5, "i": -3},
        {"i": 1, "f": 1, "I": [], "F": [], "v": {}},
    ]
    odd = [
        {"i": 1.5},
        {"i": True},
        {"i": 2**63},
        {"f": "1"},
        {"f": 10**400},
        {"I": [1, 2.0]},
        {"F": [None]},
        {"F": 3},
        {"P": [[1, 2], [3]]},
        {"P": [1, 2]},
        {"P": [[[1, 2]]]},
        {"P": [[1, "2"]]},
    ]
    odd = [{**objects[0], **one} for one in odd]
    odd += [{key: value for key, value in objects[0].items() if key != left} for left in "ifIFv"]
    between = [one for pair in zip(odd, [objects[0]] * len(odd), strict=True) for one in pair]
    text = json.dumps(objects + between).encode()
    scanner, (starts, ends, shapes, _) = scanned(text, most=100)
    assert len({len(keys) for keys, _ in filter(None, scanner.shapes)}) == 2
    named = [
        dict(zip(keys, of, strict=True))
        for (keys, _), of in zip(scanner.shapes, scanner.members, strict=True)
    ]
    members = np.array([[of.get(key, -1) for key in "ifIFPv"] for of in named])
    (i, f, ints, floats, polygons, v), is_odd = columns(text, starts, ends, shapes, members, b"ifIFPv")
    assert is_odd.tolist() == [False] * 3 + [True, False] * len(odd)
    assert i[:3].tolist() == [1, -3, 1]
    assert f[:3].tolist() == [2, 0.5, 1]
    assert (ints[0][:2].tolist(), ints[1][:5].tolist()) == ([1, 2], [2, 0, 0, 0, 2])
    assert (floats[0][:2].tolist(), floats[1][:5].tolist()) == ([1, 2.5], [2, 0, 0, 0, 2])
    assert polygons[0][:6].tolist() == [1, 2, 3, 4, 5, 6.5]
    assert (polygons[1][:2].tolist(), polygons[2][:5].tolist()) == ([4, 2], [2, 0, 0, 0, 2])
    assert values(text, v[:3, 0].copy(), v[:3, 1].copy()) == ["x", None, {}]
    assert v[is_odd].tolist() == [[-1, -1]] * len(odd)
    assert i[is_odd].tolist() == [0] * len(odd)


def test_a_key_that_comes_again_counts_the_last_time() -> None:
    text = rb'[{"a": 1, "b": 2, "\u0061": [3]}]'
    scanner, (starts, ends, shapes, places) = scanned(text, ("a",))
    assert (scanner.shapes, scanner.members) == ([(("a", "b"), b"Ii")], [[2, 1]])
    assert values(text, places[:, 0, 0].copy(), places[:, 0, 1].copy()) == [[3]]
    found, odd = columns(text, starts, ends, shapes, np.array([[2, 1]]), b"Ii")
    assert (found[0][0].tolist(), found[1].tolist(), odd.any()) == ([3], [2], False)


def test_what_is_no_object_has_no_shape() -> None:
    scanner, (_, _, shapes, places) = scanned(b'[{"a": 1}, [1], 2]', ("a",))
    assert (scanner.shapes, shapes.tolist()) == ([(("a",), b"i"), None], [0, 1, 1])
    assert places[:, 0].tolist() == [[7, 8], [-1, -1], [-1, -1]]


@given(st.data())
def test_text_is_json_where_python_says_so(data: st.DataObject) -> None:
    """One byte of a text is another, or the end is cut off."""
    whole = bytearray(json.dumps(data.draw(VALUES)).encode())
    at = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole[at] = data.draw(st.sampled_from(list(rb'0123456789-+.eE"\{}[]:, tfnuNI' + b"\x1f\n")))
    else:
        del whole[at:]
    text = bytes(whole)
    try:
        wanted = json.loads(text)
    except ValueError:
        with suppress(JsonTextError):
            _, end = value_span(text, 0)
            assert text[end:].strip(b" \t\r\n")
    else:
        start, end = value_span(text, 0)
        assert same(json.loads(text[start:end]), wanted)
        assert text[end:].strip(b" \t\r\n") == b""


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        (b"", 0, "the end is missing"),
        (b"[1, 2", 5, "the end is missing"),
        (b"[1 2]", 3, "',' or the end"),
        (b'{"a" 1}', 5, "':' was expected"),
        (b"{1: 2}", 1, "a key"),
        (b'["\n"]', 2, "control character"),
        (b'["\\x"]', 2, "wrong escape"),
        (b"[-]", 2, "not a number"),
        (b"[" * 100_000, 300, "nested too deeply"),
        (b'{"a":' * 100_000, 1500, "nested too deeply"),
        (b"[nul]", 1, "a value"),
    ],
)
def test_what_is_wrong_is_told(text: bytes, at: int, what: str) -> None:
    with pytest.raises(JsonTextError, match=what) as error:
        value_span(text, 0)
    assert error.value.at == at


def test_arguments_that_do_not_fit() -> None:
    text, one, end = b'[{"a": 1}]', np.array([1]), np.array([9])
    for starts, ends, shapes, members, kinds in (
        (one, end + 9, one - 1, [[0]], b"i"),
        (one, end, one + 3, [[0]], b"i"),
        (one - 2, end, one - 1, [[0]], b"i"),
        (one, end[:0], one - 1, [[0]], b"i"),
        (one, end, one - 1, [[0, 0]], b"i"),
        (one, end, one - 1, [[0]], b"x"),
    ):
        with pytest.raises(ValueError, match="of"):
            columns(text, starts, ends, shapes, np.array(members), kinds)
    with pytest.raises(ValueError, match="no value"):
        values(text, one, end + 9)
    with pytest.raises(ValueError, match="2 values begin"):
        values(text, np.array([1, 2]), end)
    with pytest.raises(IndexError):
        value_span(text, 99)
    with pytest.raises(JsonTextError, match="expected"):
        ArrayScanner(text, 1)
    # What is no object, lacks a member, or ends too early does not fit, and is no error.
    for starts, ends in ((one - 1, end + 1), (one, end - 1)):
        assert columns(text, starts, ends, one - 1, np.array([[0]]), b"i")[1].all()
    assert columns(text, one, end, one - 1, np.array([[7]]), b"i")[1].all()
    assert math.isclose(columns(text, one, end, one - 1, np.array([[0]]), b"f")[0][0][0], 1)
