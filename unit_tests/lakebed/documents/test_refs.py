"""The side file with tags and the parents of merges."""

from __future__ import annotations

import contextlib
import json

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.refs import Refs, Tag
from lakebed.errors import FormatError

GOLDEN = (
    b'{"tags": {"v1": {"commit": "ab12", "message": "first \\u00fc", "time": 1.5, "user": "ann"}}, '
    b'"merges": {"cd34": {"parents": ["ef56"], "time": 2.0}}, "sum": "6c9f2eaf11966911"}'
)

_ids = st.text("0123456789abcdef", min_size=1, max_size=40)
_times = st.floats(0, 2e9)
_json = st.dictionaries(st.sampled_from(["color", "later"]), st.none() | st.text() | st.integers())
_tags = st.builds(Tag, st.text(), _ids, st.none() | st.text(), _times, st.text(), _json)
_merges = st.dictionaries(_ids, st.tuples(st.lists(_ids).map(tuple), _times))


@st.composite
def refs(draw: st.DrawFn) -> Refs:
    """Tags and merges as programs make them."""
    tags = {tag.name: tag for tag in draw(st.lists(_tags, max_size=4))}
    merges = draw(_merges)
    parents = {commit: parents for commit, (parents, _) in merges.items()}
    return Refs(tags, parents, {commit: time for commit, (_, time) in merges.items()}, draw(_json))


def signed(document: object) -> bytes:
    """The bytes of a document with the right checksum at their end."""
    data = json.dumps(document).encode()[:-1] + b', "sum": "' + b"0" * 16 + b'"}'
    return data.replace(b"0" * 16 + b'"}', xxhash.xxh3_64_hexdigest(data).encode() + b'"}')


def test_golden_bytes() -> None:
    """The file that a release wrote is read by every later one, and written the same."""
    expected = Refs({"v1": Tag("v1", "ab12", "first ü", 1.5, "ann")}, {"cd34": ("ef56",)}, {"cd34": 2.0})
    assert expected.to_bytes() == GOLDEN
    assert Refs.from_bytes(GOLDEN) == expected


@given(refs())
def test_round_trip(value: Refs) -> None:
    """Whatever is written is read back, members that this release does not know included."""
    assert Refs.from_bytes(value.to_bytes()) == value


@given(refs(), st.data())
def test_a_changed_byte_is_noticed(value: Refs, data: st.DataObject) -> None:
    """No byte of the file can change unseen."""
    raw = bytearray(value.to_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(FormatError):
        Refs.from_bytes(bytes(raw))


@given(refs(), st.data())
def test_a_cut_file_is_noticed(value: Refs, data: st.DataObject) -> None:
    """Half a file is none."""
    raw = value.to_bytes()
    with pytest.raises(FormatError):
        Refs.from_bytes(raw[: data.draw(st.integers(0, len(raw) - 1))])


@given(st.binary(max_size=60))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out."""
    with contextlib.suppress(FormatError):
        Refs.from_bytes(data)


def test_a_name_that_looks_like_the_checksum() -> None:
    """Text in a message is never taken for the checksum."""
    message = '"sum": "0000000000000000"}'
    value = Refs({message: Tag(message, "ab", message, 1.0, message)}, {}, {}, {"more": message})
    assert Refs.from_bytes(value.to_bytes()) == value


@pytest.mark.parametrize(
    "document",
    [
        {"tags": 3},
        {"tags": {"a": None}},
        {"tags": {"a": {"commit": "ab", "time": None}}},
        {"tags": {"a": {"commit": "ab", "time": 1e300}}},
        {"tags": {"a": {"commit": "ab", "time": 10**400}}},
        {"tags": {"a": {"commit": "ab", "time": float("nan")}}},
        {"tags": {"a": {"commit": "../up", "time": 1}}},
        {"tags": {"a": {"commit": 7, "time": 1}}},
        {"tags": {"a": {"commit": "ab", "time": 1, "message": 4}}},
        {"merges": {"ab": ["cd"]}},
        {"merges": {"ab": {"parents": "cd", "time": 1}}},
        {"merges": {"ab": {"parents": ["c/d"], "time": 1}}},
        {"merges": {"a/b": {"parents": ["cd"], "time": 1}}},
        {"merges": {"ab": {"parents": ["cd"]}}},
    ],
    ids=repr,
)
def test_members_of_other_kinds_are_refused(document: object) -> None:
    """A right checksum does not make a wrong document right."""
    assert Refs.from_bytes(signed({"later": 1})) == Refs(extra={"later": 1})
    with pytest.raises(FormatError):
        Refs.from_bytes(signed(document))
