"""Samples that a function hands on, without looking at them, arrive as they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import TransformError

KINDS: dict[str, dict[str, Any]] = {
    "text": {"htype": "text"},
    "json": {"htype": "json"},
    "list": {"htype": "list"},
    "tag": {"htype": "tag"},
    "polygon": {"htype": "polygon"},
    "link": {"htype": "link[image]", "sample_compression": "jpeg"},
    "image": {"htype": "image", "sample_compression": "jpeg"},
    "items": {"htype": "sequence[class_label]"},
    "label": {"htype": "class_label", "class_names": ["cat", "dog", "cow"]},
    "number": {"dtype": "int64"},
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    folder = tmp_path_factory.mktemp("handed-on")
    picture = str(folder / "p.jpg")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)).save(picture)
    ds = lakebed.empty(str(folder / "ds"))
    for name, settings in KINDS.items():
        ds.create_tensor(name, **settings)
    row = {
        "text": "hi",
        "json": {"a": [1]},
        "list": [1, "x"],
        "tag": "t",
        "polygon": [np.array([[1, 2], [3, 4], [5, 6]], np.float32)],
        "link": lakebed.link(picture),
        "image": lakebed.read(picture),
        "items": [1, 2, 0],
        "label": "dog",
        "number": 7,
    }
    with ds:
        ds.append(row)
        ds.append(dict.fromkeys(row))
        ds.append(row)
    return ds


def singly(sample: Any, out: Any) -> None:
    assert set(out.tensors) == set(KINDS)
    for name in KINDS:
        out[name].append(sample[name])


def as_dictionary(sample: Any, out: Any) -> None:
    out.append({name: sample[name] for name in KINDS})


def whole(sample: Any, out: Any) -> None:
    out.append(sample)


@pytest.mark.parametrize(
    ("function", "scheduler", "workers"),
    [
        *((function, "serial", 0) for function in (singly, as_dictionary, whole)),
        *((function, "threaded", 2) for function in (singly, as_dictionary, whole)),
        *(
            pytest.param(function, "processed", 2, marks=pytest.mark.soak)
            for function in (singly, as_dictionary)
        ),
        (whole, "processed", 2),
    ],
)
def test_every_kind_of_sample_is_handed_on(
    source: lakebed.Dataset, tmp_path: Path, function: Any, scheduler: str, workers: int
) -> None:
    ds = source.like(str(tmp_path / "out"))
    lakebed.compute(function)().eval(source, ds, scheduler=scheduler, num_workers=workers, progressbar=False)
    for name in KINDS:
        assert repr(ds[name].null_mask()) == repr(source[name].null_mask()), name
        for row in (0, 2):
            if name in ("image", "text", "json", "list"):
                assert ds[name][row].tobytes() == source[name][row].tobytes(), name
            assert repr(ds[name][row].data()) == repr(source[name][row].data()), name


def test_one_of_two_tensors_may_be_filled(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    for name in "xy":
        ds.create_tensor(name, dtype="int64")

    @lakebed.compute
    def fill(i: int, out: Any) -> None:
        out.x.append(i)

    fill().eval([1, 2], ds, check_lengths=False, progressbar=False)
    assert (ds.x.num_samples, ds.y.num_samples) == (2, 0)


def test_a_function_that_only_looks_hands_nothing_out(source: lakebed.Dataset) -> None:
    seen: list[int] = []

    @lakebed.compute
    def look(sample: Any, _: Any) -> None:
        seen.append(sample.number.shape[0])

    look().eval(source, read_only_ok=True, progressbar=False)
    assert len(seen) == 3
    with pytest.raises(TransformError, match="no item became a row"):
        look().eval(source, progressbar=False)


@pytest.mark.parametrize(("scheduler", "workers"), [("serial", 0), ("threaded", 2)])
def test_an_error_ends_with_its_cause(tmp_path: Path, scheduler: str, workers: int) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("x")

    @lakebed.compute
    def divide(i: int, out: Any) -> None:
        out.x.append(1 // i)

    with pytest.raises(TransformError, match=r"ZeroDivisionError: .* \(line \d+ of divide\)$"):
        divide().eval([1, 0], ds, scheduler=scheduler, num_workers=workers, progressbar=False)


# -- tensors that a function is to fill ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"num_workers": 2, "scheduler": "threaded"}, {"batch_size": 2}, {"batched": True}, {"num_proc": 2}],
)
@pytest.mark.parametrize("is_made", [True, False])
def test_map_makes_and_fills_the_tensors_that_are_lacking(options: dict[str, Any], is_made: bool) -> None:
    ds = lakebed.empty("mem://map-new", overwrite=True)
    ds.create_tensor("a", dtype="int64")
    ds.a.extend(range(5))
    if is_made:
        ds.create_tensor("b", dtype="float32")
    assert ds.map(lambda row: {"b": row["a"] * 2.0}, **options) is ds
    assert ds.b.numpy().ravel().tolist() == [0, 2, 4, 6, 8]
    assert (str(ds.b.dtype), ds.a.num_samples) == ("float32" if is_made else "float64", 5)


def test_map_leaves_no_tensor_behind_that_it_could_not_fill() -> None:
    ds = lakebed.empty("mem://map-new", overwrite=True)
    ds.create_tensor("a", dtype="int64")
    ds.a.extend(range(5))

    def fails_later(row: dict[str, Any]) -> dict[str, Any]:
        return {"b": 1 / (3 - int(row["a"][0]))}

    with pytest.raises(TransformError, match="ZeroDivisionError"):
        ds.map(fails_later)
    assert list(ds.tensors) == ["a"]
    out = lakebed.empty("mem://map-out", overwrite=True)
    ds.map(lambda row: {"t": f"row {row['a'][0]}", "n": row["a"]}, out)
    assert (out.t.htype, len(out)) == ("text", 5)
