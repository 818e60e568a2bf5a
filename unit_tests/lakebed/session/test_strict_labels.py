"""A tensor with ``strict_labels`` takes the classes that it has, by name and by number, and adds none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

import lakebed
from lakebed.errors import (
    SampleAppendError,
    SampleExtendError,
    SampleUpdateError,
    TensorMetaInvalidHtypeOverwriteKey,
    TensorMetaInvalidHtypeOverwriteValue,
)

NAMES = ["cat", "giraffe"]


@pytest.fixture
def ds() -> lakebed.Dataset:
    """Labels of two classes, with a sample of each."""
    ds = lakebed.empty("mem://strict", overwrite=True)
    ds.create_tensor("lab", htype="class_label", class_names=NAMES, strict_labels=True)
    ds.create_tensor("s", htype="sequence[class_label]", class_names=NAMES, strict_labels=True)
    ds.extend({"lab": ["cat", "giraffe"], "s": [["cat"], []]})
    return ds


WAYS: dict[str, Callable[[lakebed.Dataset], object]] = {
    "append": lambda ds: ds.lab.append("girafe"),
    "several": lambda ds: ds.lab.append(["cat", "girafe"]),
    "column": lambda ds: ds.lab.extend(["cat", "girafe"]),
    "array": lambda ds: ds.lab.extend(np.array(["cat", "girafe"])),
    "arrow": lambda ds: ds.lab.extend(pa.array(["cat", "girafe"])),
    "dictionary": lambda ds: ds.lab.extend(pa.array(["cat", "girafe"]).dictionary_encode()),
    "number": lambda ds: ds.lab.append(2),
    "numbers": lambda ds: ds.lab.extend(np.array([0, 2], np.uint32)),
    "lists": lambda ds: ds.lab.extend([[0], [1, 2]]),
    "arrow numbers": lambda ds: ds.lab.extend(pa.array([0, 2], pa.uint32())),
    "row": lambda ds: ds.append({"lab": "girafe", "s": []}),
    "rows": lambda ds: ds.extend({"lab": ["girafe"], "s": [[]]}),
    "assignment": lambda ds: ds.lab.__setitem__(0, "girafe"),
    "update": lambda ds: ds[0].update({"lab": "girafe"}),
    "sequence": lambda ds: ds.s.append(["cat", "girafe"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_no_way_adds_a_class(ds: lakebed.Dataset, way: str) -> None:
    with pytest.raises((SampleAppendError, SampleExtendError, SampleUpdateError)) as caught:
        WAYS[way](ds)

    told = str(caught.value) + str(caught.value.__cause__)
    assert "strict_labels" in told
    assert ("did you mean 'giraffe'?" in told) is ("number" not in way and way != "lists")
    assert ds.lab.info.class_names == ds.s.info.class_names == NAMES
    assert ds.lab.numpy().ravel().tolist() == [0, 1]
    assert len(ds.s) == 2


def test_known_classes_and_nulls_are_taken(ds: lakebed.Dataset) -> None:
    ds.lab.extend(["giraffe", None, 0])
    ds.lab.append([0, 1])
    ds.lab.extend(pa.array(["cat", None]))
    ds.lab.extend(pa.array([1], pa.uint32()))

    assert [np.ravel(sample).tolist() for sample in ds.lab.numpy(aslist=True)[2:]] == [
        [1],
        [],
        [0],
        [0, 1],
        [0],
        [],
        [1],
    ]


def test_a_loop_of_appends_is_strict_too(ds: lakebed.Dataset) -> None:
    """Also where rows wait to be encoded together."""
    for _ in range(50):
        ds.lab.append("cat")
    with pytest.raises(SampleAppendError, match="girafe"):
        ds.lab.append("girafe")
    assert len(ds.lab) == 52


def test_a_class_is_added_on_purpose(ds: lakebed.Dataset) -> None:
    ds.lab.info["class_names"] = [*NAMES, "emu"]
    ds.lab.append("emu")

    assert ds.lab[2].numpy().tolist() == [2]


def test_it_stays_with_the_tensor_and_can_be_switched(tmp_path: object) -> None:
    ds = lakebed.empty(f"{tmp_path}/ds")
    ds.create_tensor("lab", htype="class_label", class_names=NAMES, strict_labels=True)
    ds.create_tensor_like("twin", ds.lab)
    ds.commit()
    ds = lakebed.load(f"{tmp_path}/ds")

    for tensor in (ds.lab, ds.twin):
        with pytest.raises(SampleAppendError, match="girafe"):
            tensor.append("girafe")
    ds.lab.info["strict_labels"] = False
    ds.lab.append("girafe")
    assert ds.lab.info.class_names == [*NAMES, "girafe"]
    ds.lab.info["strict_labels"] = True
    with pytest.raises(SampleAppendError, match="emu"):
        ds.lab.append("emu")


def test_a_strict_tensor_without_classes_takes_no_label() -> None:
    ds = lakebed.empty("mem://no-classes", overwrite=True)
    ds.create_tensor("lab", htype="class_label", strict_labels=True)
    ds.lab.append(None)
    for label in (0, "cat"):
        with pytest.raises(SampleAppendError, match="0 classes"):
            ds.lab.append(label)


def test_labels_of_another_dataset_are_held_to_it(ds: lakebed.Dataset) -> None:
    """They come as numbers, as in 3.x."""
    other = lakebed.empty("mem://other-labels", overwrite=True)
    other.create_tensor("lab", htype="class_label", class_names=["cat", "giraffe", "emu"])
    other.lab.extend(["cat", "emu"])

    with pytest.raises((SampleAppendError, SampleExtendError), match="strict_labels"):
        ds.lab.extend(other.lab)
    assert ds.lab.info.class_names == NAMES
    assert len(ds.lab) == 2


def test_functions_of_transforms_are_held_to_it(ds: lakebed.Dataset) -> None:
    @lakebed.compute
    def labelled(name: str, out: object) -> None:
        out.append({"lab": name, "s": []})  # type: ignore[attr-defined]

    with pytest.raises(lakebed.errors.TransformError, match="girafe"):
        labelled().eval(["cat", "girafe"], ds, num_workers=0, progressbar=False)
    assert ds.lab.info.class_names == NAMES


def test_other_tensors_do_not_know_the_key() -> None:
    ds = lakebed.empty("mem://not-strict", overwrite=True)
    with pytest.raises(TensorMetaInvalidHtypeOverwriteKey):
        ds.create_tensor("n", strict_labels=True)
    with pytest.raises(TensorMetaInvalidHtypeOverwriteValue):
        ds.create_tensor("lab", htype="class_label", strict_labels="yes")
    ds.create_tensor("lab", htype="class_label", strict_labels=False)
    assert dict(ds.lab.info) == {"class_names": []}
