"""`dataset_meta.json` and `tensor_meta.json`: defaults, unknown members, and junk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import FormatError

KEYS_OUT = ["", "/a", "a/", "a//b", "..", "../a", "a/../../b", ".", "a\0", "a\\b"]


def test_dataset_meta_golden_bytes() -> None:
    """As 3.9.52 writes an empty dataset."""
    data = (
        b'{\n    "allow_delete": true,\n    "default_index": [\n        {\n            "start": null,\n'
        b'            "step": null,\n            "stop": null\n        }\n    ],\n    "groups": [],\n'
        b'    "hidden_tensors": [],\n    "tensor_names": {},\n    "tensors": [],\n    "version": "3.9.52"\n}'
    )
    assert DatasetMeta().to_bytes() == data
    assert DatasetMeta.from_bytes(data) == DatasetMeta()


def test_dataset_meta_defaults() -> None:
    """Names default to the keys, keys to the names (format.md 2, 15.3)."""
    meta = DatasetMeta.from_bytes(b'{"tensors": ["a", "g/b"]}')
    assert meta.tensor_names == {"a": "a", "g/b": "g/b"}
    assert meta.allow_delete
    assert DatasetMeta.from_bytes(b'{"tensors": ["a"], "tensor_names": {}}').tensor_names == {"a": "a"}
    assert DatasetMeta.from_bytes(b'{"tensor_names": {"new": "old"}}').tensors == ("old",)
    assert DatasetMeta.from_bytes(b"{}") == DatasetMeta()


@pytest.mark.parametrize("key", KEYS_OUT)
def test_dataset_meta_keys_stay_inside(key: str) -> None:
    """A tensor key is a folder of the dataset, whoever wrote it."""
    for doc in ({"tensors": [key]}, {"tensors": [], "tensor_names": {"a": key}}):
        with pytest.raises(FormatError, match="tensor key"):
            DatasetMeta.from_bytes(json.dumps(doc).encode())


@pytest.mark.parametrize(
    "doc",
    [
        [],
        {"tensors": "a"},
        {"tensors": [1]},
        {"tensor_names": []},
        {"tensor_names": {"a": 1}},
        {"version": 3},
        {"groups": {}},
        {"hidden_tensors": [None]},
        {"default_index": {}},
        {"allow_delete": "yes"},
    ],
)
def test_dataset_meta_of_wrong_types(doc: object) -> None:
    """Each member has one type."""
    with pytest.raises(FormatError, match=r"dataset_meta\.json"):
        DatasetMeta.from_bytes(json.dumps(doc).encode())


NAMES = st.text(min_size=1, max_size=8).filter(lambda s: not set(s) & set("/\\\0") and s not in (".", ".."))


@given(st.lists(NAMES, unique=True, max_size=5), st.lists(NAMES, max_size=3), st.booleans())
def test_dataset_meta_round_trip(keys: list[str], groups: list[str], allow: bool) -> None:
    """Any names survive."""
    meta = DatasetMeta(
        tensors=tuple(keys),
        tensor_names={f"{key}!": key for key in keys},
        hidden_tensors=tuple(keys[:1]),
        groups=tuple(groups),
        default_index=(3, [1, 2]),
        allow_delete=allow,
    )
    assert DatasetMeta.from_bytes(meta.to_bytes()) == meta


def test_tensor_meta_keeps_unknown_members() -> None:
    """3.9.52 keeps them too, so other programs may use them."""
    data = json.dumps(
        {"length": 3, "class_names": [], "_info": ["class_names"], "other": {"x": [1]}}
    ).encode()
    meta = TensorMeta.from_bytes(data)
    assert meta.extra == {"class_names": [], "_info": ["class_names"], "other": {"x": [1]}}
    assert TensorMeta.from_bytes(meta.to_bytes()) == meta
    assert json.loads(meta.to_bytes())["other"] == {"x": [1]}


def test_tensor_meta_defaults() -> None:
    """Everything but the length may be missing (format.md 3, 15.3)."""
    assert TensorMeta.from_bytes(b'{"length": 0}') == TensorMeta()
    assert TensorMeta.from_bytes(b'{"length": 0, "verify": null, "max_shape": null}') == TensorMeta()
    assert TensorMeta().verify
    with pytest.raises(FormatError, match="length"):
        TensorMeta.from_bytes(b"{}")


def test_tensor_meta_changes_make_a_copy() -> None:
    """The original stays as it is."""
    meta = TensorMeta(name="a")
    longer = meta.with_(length=5, max_shape=(1,), min_shape=(1,))
    assert (longer.length, longer.name, meta.length) == (5, "a", 0)


@pytest.mark.parametrize(
    "change",
    [
        {"length": -1},
        {"length": 2**63},
        {"length": True},
        {"length": 1.0},
        {"length": "1"},
        {"length": None},
        {"min_shape": [1]},
        {"min_shape": [2], "max_shape": [1]},
        {"max_shape": [-1], "min_shape": [-1]},
        {"max_shape": 3},
        {"max_shape": ["1"], "min_shape": ["1"]},
        {"is_link": "no"},
        {"htype": 3},
        {"links": []},
        {"links": {"a": 3}},
        {"links": {"../a": {}}},
        {"max_chunk_size": "1"},
        {"max_chunk_size": 1e9},
        {"tiling_threshold": 2**70},
        {"dtype": ["int32"]},
        {"version": None},
        {"hidden": 0},
    ],
)
def test_tensor_meta_of_wrong_types(change: dict[str, Any]) -> None:
    """Each member has one type, and shapes are possible ones."""
    with pytest.raises(FormatError, match=r"tensor_meta\.json"):
        TensorMeta.from_bytes(json.dumps({"length": 0, **change}).encode())


@given(st.data())
def test_tensor_meta_random_members(data: st.DataObject) -> None:
    """A document with any member replaced by junk is read or refused."""
    doc = json.loads(TensorMeta(name="a", dtype="int32", min_shape=(1,), max_shape=(2,)).to_bytes())
    junk = (
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=3)
        | st.lists(st.integers())
    )
    doc[data.draw(st.sampled_from(sorted(doc)))] = data.draw(junk)
    try:
        meta = TensorMeta.from_bytes(json.dumps(doc).encode())
    except FormatError:
        return
    assert TensorMeta.from_bytes(meta.to_bytes()) == meta


@given(
    st.integers(0, 2**62),
    st.none() | st.text(max_size=9),
    st.lists(st.integers(0, 2**40), max_size=4),
    st.booleans(),
    st.none() | st.integers(0, 2**40),
    st.sampled_from(({}, {"_a_id": {"extend": "extend_id", "flatten_sequence": False}})),
    st.sampled_from(({}, {"class_names": ["ü", None]}, {"length": 7})),
)
def test_tensor_meta_is_laid_out_as_json_dumps_does(
    length: int, text: str | None, shape: list[int], flag: bool, number: int | None, links: Any, extra: Any
) -> None:
    """Whatever members there are: the usual ones by a form, all others by the general way."""
    meta = TensorMeta(
        length=length,
        name=text,
        dtype=text,
        min_shape=tuple(shape),
        max_shape=tuple(shape),
        hidden=flag,
        max_chunk_size=number,
        links=links,
        extra=extra,
    )
    doc = json.loads(meta.to_bytes())
    assert meta.to_bytes() == json.dumps(doc, indent=4, sort_keys=True).encode()
    assert TensorMeta.from_bytes(meta.to_bytes()).with_(extra=extra) == meta
