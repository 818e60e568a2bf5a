"""Dataclasses and models of Pydantic name the tensors, and their instances are rows."""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Optional

import numpy as np
import pytest
from numpy.typing import NDArray

import lakebed
from lakebed.errors import InvalidInputError, SampleAppendingError, SampleExtendingError


class Kind(enum.Enum):
    BIRD = "bird"
    BAT = "bat"


@dataclass
class Camera:
    name: str
    lenses: list[str] = field(default_factory=list)


@dataclass
class Photo:
    pixels: Annotated[NDArray[np.uint8], {"htype": "image", "sample_compression": "png"}]
    boxes: Annotated[np.ndarray | None, "bbox"]
    title: str
    year: int
    score: float | None
    is_good: bool
    taken: dt.datetime
    day: dt.date
    kind: Kind
    light: Optional[Literal["sun", "flash"]]  # noqa: UP045 - as older code writes it
    camera: Camera
    tags: dict[str, Any]
    depth: NDArray[np.float16]
    weight: np.float32
    small: Annotated[int, {"dtype": "uint8"}]
    counts: list[int]


def photo(**changes: Any) -> Photo:
    given = {
        "pixels": np.arange(12, dtype="uint8").reshape(2, 2, 3),
        "boxes": np.array([[0, 0, 1, 1]], "float32"),
        "title": "a kite",
        "year": 2020,
        "score": 0.5,
        "is_good": True,
        "taken": dt.datetime(2020, 1, 2, 3),  # noqa: DTZ001
        "day": dt.date(2020, 1, 2),
        "kind": Kind.BAT,
        "light": "flash",
        "camera": Camera("box", ["wide"]),
        "tags": {"a": Kind.BIRD},
        "depth": np.ones((2, 2), "float16"),
        "weight": np.float32(1.5),
        "small": 7,
        "counts": [1, 2, 3],
    }
    return Photo(**{**given, **changes})


def test_fields_of_a_dataclass_are_tensors() -> None:
    ds = lakebed.empty("mem://photos", overwrite=True, schema=Photo)
    assert {name: (tensor.htype, str(tensor.dtype)) for name, tensor in ds.tensors.items()} == {
        "pixels": ("image", "None"),
        "boxes": ("bbox", "float32"),
        "title": ("text", "<U0"),
        "year": ("generic", "int64"),
        "score": ("generic", "float64"),
        "is_good": ("generic", "bool"),
        "taken": ("generic", "int64"),
        "day": ("generic", "int32"),
        "kind": ("class_label", "uint32"),
        "light": ("class_label", "uint32"),
        "camera": ("json", "<U0"),
        "tags": ("json", "<U0"),
        "depth": ("generic", "float16"),
        "weight": ("generic", "float32"),
        "small": ("generic", "uint8"),
        "counts": ("generic", "int64"),
    }
    assert ds.pixels.meta.sample_compression == "png"
    assert ds.kind.info["class_names"] == ["bird", "bat"]
    assert ds.light.info["class_names"] == ["sun", "flash"]


@pytest.mark.parametrize("is_one_by_one", [True, False])
def test_instances_are_rows(is_one_by_one: bool) -> None:
    ds = lakebed.empty("mem://rows", overwrite=True, schema=Photo)
    rows = [photo(), photo(score=None, boxes=None, light=None, kind=Kind.BIRD, title="a wren"), photo(year=1)]
    if is_one_by_one:
        for row in rows:
            ds.append(row)
    else:
        ds.extend(rows)
    assert len(ds) == 3
    assert ds.title.data()["value"] == ["a kite", "a wren", "a kite"]
    assert [int(year.item()) for year in ds.year.numpy()] == [2020, 2020, 1]
    assert ds.query("SELECT * WHERE score IS NULL").sample_indices == [1]
    assert ds.query("SELECT * WHERE boxes IS NULL").sample_indices == [1]
    assert ds.query("SELECT * WHERE light IS NULL").sample_indices == [1]
    assert ds.query("SELECT * WHERE kind == 'bat' AND light == 'flash'").sample_indices == [0, 2]
    assert ds.camera[0].data()["value"] == {"name": "box", "lenses": ["wide"]}
    assert ds.tags[0].data()["value"] == {"a": "bird"}
    assert ds.taken[0].data()["value"] == dt.datetime(2020, 1, 2, 3)  # noqa: DTZ001
    assert ds.day[0].data()["value"] == dt.date(2020, 1, 2)
    assert (ds.pixels[2].numpy() == photo().pixels).all()
    assert ds.counts[0].numpy().tolist() == [1, 2, 3]


def test_dataset_makes_tensors_only_once() -> None:
    lakebed.delete("mem://twice", force=True) if lakebed.exists("mem://twice") else None
    ds = lakebed.dataset("mem://twice", schema=Camera)
    ds.append(Camera("box"))
    again = lakebed.dataset("mem://twice", schema=Photo)
    assert list(again.tensors) == ["name", "lenses"]
    assert len(again) == 1


def test_models_of_pydantic_are_classes_of_rows() -> None:
    pydantic = pytest.importorskip("pydantic")
    vector = Annotated[list[float], pydantic.Field(min_length=3, max_length=3)]
    loose = Annotated[list[float], pydantic.Field(min_length=3)]
    inner = pydantic.create_model("Inner", x=(int, ...))
    model = pydantic.create_model(
        "Text",
        text=(str, ...),
        vector=(vector, ...),
        half=(
            Annotated[list[float] | None, pydantic.Field(min_length=2, max_length=2), {"dtype": "float16"}],
            None,
        ),
        loose=(loose, ...),
        between=(Annotated[list[float], pydantic.Field(min_length=1, max_length=3)], [0.5]),
        where=(Annotated[list[int], "point"] | None, None),
        inner=(inner, ...),
        many=(list[inner], []),
    )
    ds = lakebed.empty("mem://texts", overwrite=True, schema=model)
    found = {name: (tensor.htype, str(tensor.dtype)) for name, tensor in ds.tensors.items()}
    assert found["vector"] == ("embedding", "float32")
    assert found["half"] == ("embedding", "float16")
    assert found["loose"] == found["between"] == ("generic", "float64")
    assert found["where"][0] == "point"
    assert found["inner"][0] == found["many"][0] == "json"
    row = {"text": "a", "vector": [1, 2, 3], "loose": [1, 2, 3, 4], "inner": {"x": 1}, "many": [{"x": 2}]}
    ds.append(model(**row))
    ds.extend([model(**row, half=[1, 2]), model(**row)])
    assert ds.vector.numpy().tolist() == [[1, 2, 3]] * 3
    assert ds.inner[2].data()["value"] == {"x": 1}
    assert ds.many[1].data()["value"] == [{"x": 2}]
    assert ds.query("SELECT * WHERE half IS NULL").sample_indices == [0, 2]


@pytest.mark.parametrize("schema", [dict, {"a": int}, photo, 7])
def test_a_schema_is_a_class_of_rows(schema: Any) -> None:
    with pytest.raises(InvalidInputError, match="dataclass or a model"):
        lakebed.empty("mem://no", overwrite=True, schema=schema)


def test_a_field_that_names_no_tensor_is_an_error_before_anything_is_made() -> None:
    @dataclass
    class File:
        content: bytes

    if lakebed.exists("mem://none"):
        lakebed.delete("mem://none")
    with pytest.raises(InvalidInputError, match=r"File\.content has the type"):
        lakebed.empty("mem://none", schema=File)
    assert not lakebed.exists("mem://none")


def test_instances_of_another_class_do_not_fit() -> None:
    ds = lakebed.empty("mem://other", overwrite=True, schema=Camera)
    with pytest.raises(lakebed.errors.TensorDoesNotExistError):
        ds.append(photo())
    with pytest.raises(SampleExtendingError, match="differ"):
        ds.extend([Camera("box"), photo()])
    for wrong in (Camera, 7):
        with pytest.raises(SampleAppendingError):
            ds.append(wrong)
    assert len(ds) == 0
