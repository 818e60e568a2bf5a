"""Arguments of create_tensor -> metadata, compared with what 3.9.52 stored in the golden datasets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    MeshTensorMetaMissingRequiredValue,
    TensorMetaInvalidHtype,
    TensorMetaInvalidHtypeOverwriteKey,
    TensorMetaInvalidHtypeOverwriteValue,
    TensorMetaMissingRequiredValue,
    TensorMetaMutuallyExclusiveKeysError,
    UnsupportedCompressionError,
)
from lakebed.writing.encode.column import encode_one
from unit_tests.lakebed.datasets import create_on, new_memory

LEARNED = ("length", "min_shape", "max_shape", "typestr", "dtype", "name", "htype")

SAME: list[tuple[str, str, dict[str, Any]]] = [
    ("f01_dtypes", "nosamples", {"dtype": "int32"}),
    ("f01_dtypes", "onlynone", {}),
    ("f02_textlike", "text_none", {"htype": "text"}),
    ("f02_textlike", "text_slz4", {"htype": "text", "sample_compression": "lz4"}),
    ("f02_textlike", "text_clz4", {"htype": "text", "chunk_compression": "lz4"}),
    ("f02_textlike", "json_none", {"htype": "json"}),
    ("f02_textlike", "list_slz4", {"htype": "list", "sample_compression": "lz4"}),
    ("f03_htypes", "labels", {"htype": "class_label", "class_names": ["x"]}),
]


def stored(ds: lakebed.Dataset, name: str) -> dict[str, Any]:
    """The metadata file of a tensor."""
    found: dict[str, Any] = json.loads(ds[name].meta.to_bytes())
    return found


@pytest.mark.parametrize(("dataset", "name", "settings"), SAME, ids=[name for _, name, _ in SAME])
def test_metadata_is_that_of_deep_lake(
    golden: Path, dataset: str, name: str, settings: dict[str, Any]
) -> None:
    """A new tensor and its hidden companions have the metadata that 3.9.52 writes, apart from what samples teach."""
    ds = create_on(new_memory())
    ds.create_tensor(name, **settings)
    folder = golden / dataset
    keys = json.loads((folder / "dataset_meta.json").read_text())["tensors"]
    mine = [key for key in keys if key == name or key in (f"_{name}_id", f"_{name}_shape")]
    assert list(ds.meta.tensors) == mine
    assert list(ds.meta.hidden_tensors) == mine[1:]
    for key in mine:
        expected = json.loads((folder / key / "tensor_meta.json").read_text())
        found = stored(ds, key)
        assert found.keys() == expected.keys()
        assert {k: v for k, v in found.items() if k not in LEARNED} == {
            k: v for k, v in expected.items() if k not in LEARNED
        }


def test_the_first_sample_settles_htype_and_dtype() -> None:
    """A tensor without settings takes htype, dtype and typestr from its first value."""
    values: dict[str, tuple[Any, str, str]] = {
        "number": (3, "generic", "int64"),
        "array": (np.zeros((2, 2), ">f4"), "generic", "float32"),
        "word": ("a", "text", "str"),
        "doc": ({"a": 1}, "json", "Any"),
        "flag": (np.bool_(True), "generic", "bool"),
        "truth": (True, "generic", "int64"),
    }
    ds = create_on(new_memory())
    for name in values:
        ds.create_tensor(name)
        assert (ds[name].htype, ds[name].dtype) == (None, None)
        assert ds[name].is_empty_tensor
    ds.append({name: value for name, (value, _, _) in values.items()})
    for name, (_, htype, dtype) in values.items():
        assert (ds[name].htype, ds[name].meta.dtype) == (htype, dtype)
    assert ds["array"].meta.typestr == "<f4"
    assert ds["word"].meta.extra == {"vdb_indexes": []}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"htype": "no"}, TensorMetaInvalidHtype),
        ({"htype": "image"}, TensorMetaMissingRequiredValue),
        ({"htype": "mesh"}, MeshTensorMetaMissingRequiredValue),
        ({"htype": "video", "chunk_compression": "lz4"}, UnsupportedCompressionError),
        ({"htype": "sequence[tag]"}, ValueError),
        ({"htype": "link"}, ValueError),
        ({"dtype": "U3"}, TensorMetaInvalidHtypeOverwriteValue),
        ({"max_chunk_size": "large"}, TensorMetaInvalidHtypeOverwriteValue),
        ({"htype": "bbox", "coords": {"unit": "cm"}}, KeyError),
        ({"htype": "bbox", "coords": "pixel"}, TypeError),
        ({"downsampling": (2,)}, ValueError),
        ({"downsampling": 2}, TypeError),
        ({"dtype": "no"}, TensorMetaInvalidHtypeOverwriteValue),
        ({"htype": "text", "dtype": "int8"}, TensorMetaInvalidHtypeOverwriteValue),
        ({"coords": {}}, TensorMetaInvalidHtypeOverwriteKey),
        ({"htype": "text", "class_names": []}, TensorMetaInvalidHtypeOverwriteKey),
        ({"htype": "class_label", "class_names": "abc"}, TensorMetaInvalidHtypeOverwriteValue),
        ({"sample_compression": "lz4", "chunk_compression": "lz4"}, TensorMetaMutuallyExclusiveKeysError),
        ({"sample_compression": "zip"}, UnsupportedCompressionError),
        ({"htype": "text", "sample_compression": "png"}, UnsupportedCompressionError),
    ],
    ids=str,
)
def test_settings_that_do_not_go_together(settings: dict[str, Any], error: type[Exception]) -> None:
    """Each wrong setting has the 3.x error of its kind, and no tensor is made."""
    ds = create_on(new_memory())
    with pytest.raises(error):
        ds.create_tensor("x", **settings)
    assert ds.tensors == {}
    assert ds.meta.hidden_tensors == []


@pytest.mark.parametrize("dtype", ["bool", np.uint8, np.dtype(">i4"), float, "float16", "int64"])
def test_dtypes_may_be_given_in_any_form(dtype: Any) -> None:
    """Names, types and dtypes of any byte order mean the same."""
    ds = create_on(new_memory())
    ds.create_tensor("x", dtype=dtype)
    assert ds.x.dtype == np.dtype(dtype).newbyteorder("<")


def test_hidden_shapes_and_ids_follow_the_samples() -> None:
    """Each sample has its shape and a lasting id; None has extents of zero, lists their length."""
    ds = create_on(new_memory())
    ds.create_tensor("a")
    ds.create_tensor("l", htype="list")
    ds.create_tensor("bare", create_id_tensor=False, create_shape_tensor=False)
    ds.extend({"a": [None, np.zeros((2, 3)), np.zeros((0, 1))], "l": [[1, 2], [], None], "bare": [1, 2, 3]})
    ds.append({"a": np.ones((1, 1)), "l": [5], "bare": 4})
    assert ds["_a_shape"].numpy().tolist() == [[0, 0], [2, 3], [0, 1], [1, 1]]
    assert ds["_l_shape"].numpy().tolist() == [[2], [0], [0], [1]]
    ids = ds["_a_id"].numpy().ravel().tolist()
    assert (len(set(ids)), ds["_a_id"].dtype) == (4, np.dtype("uint64"))
    assert not any(name.startswith("_bare") for name in ds.meta.tensors)
    ds.flush()
    assert ds["_a_id"].numpy().ravel().tolist() == ids


def test_tensors_of_other_writers_take_samples(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images, sequences, links, tags and polygons that 3.9.52 wrote take further samples of their kind."""
    monkeypatch.chdir(golden)
    box, colour = np.ones((2, 4), "f4"), np.zeros((3, 4, 3), "u1")
    cases: dict[str, dict[str, Any]] = {
        "f03_htypes": {"boxes": box, "rgb": colour, "tags": ["x", "y"], "poly": [[(1, 2), (3, 4)]]},
        "f07_sequences": {"s": [np.array([1, 2], "i4")], "txt": ["a", "b"]},
        "f09_links": {"lk": lakebed.link("_files/t0.png")},
        "f04_images": {"img_png": colour, "chunk_png": colour},
    }
    for dataset, values in cases.items():
        storage = new_memory()
        for path in (golden / dataset).rglob("*"):
            if path.is_file():
                storage.put(str(path.relative_to(golden / dataset)), path.read_bytes())
        schema = lakebed.load(storage.url, read_only=True)._session.schema()
        for name, value in values.items():
            state = schema.tensor(name)
            column = encode_one(value, state.meta, state.info, name)
            assert (column.count, column.parts[0].meta.htype) == (1, state.meta.htype)


def test_unknown_settings_of_a_stored_tensor_survive() -> None:
    """What another writer put into tensor_meta is still there after ours."""
    meta = TensorMeta.from_bytes(b'{"htype": "generic", "length": 0, "future": [1]}')
    assert json.loads(meta.with_(length=2).to_bytes())["future"] == [1]
