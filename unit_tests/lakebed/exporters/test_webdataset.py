"""WebDataset shards: what is written comes in again as it was."""

from __future__ import annotations

import tarfile
from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import ExportError


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    """Rows of many kinds, with splits and nulls."""
    made = lakebed.empty(tmp_path / "d")
    made.create_tensor("image", htype="image", sample_compression="png")
    made.create_tensor("label", htype="class_label", class_names=["cat", "dog"], dtype="int64")
    for name in ("caption", "notes"):
        made.create_tensor(name, htype="text")
    made.create_tensor("about", htype="json")
    made.create_tensor("g/emb", dtype="float32")
    rng = np.random.default_rng(0)
    for row in range(25):
        made.append(
            {
                "image": rng.integers(0, 255, (5, 6 + row % 2, 3), np.uint8),
                "label": row % 2,
                "caption": f"nº {row}",
                "notes": None if row % 3 else "n",
                "about": {"a": [row, None]},
                "g/emb": rng.random(row % 3, np.float32),
            }
        )
    made.save_split("train", slice(20))
    made.save_split("val", slice(20, None))
    return made


def test_there_and_back(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """Tensors, values, files, classes, splits and nulls."""
    report = lakebed.export_to("webdataset", ds, tmp_path / "out", rows=8, progressbar=False)
    assert (report.written, report.skipped) == (25, 0)
    shards = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert shards == ["dataset.json", *(f"train-00000{n}.tar" for n in range(3)), "val-000000.tar"]
    with tarfile.open(tmp_path / "out" / "train-000000.tar") as tar:
        names = tar.getnames()
        assert names[:3] == ["00000000.png", "00000000.cls", "00000000.caption.txt"]
        assert tar.extractfile("00000003.png").read() == ds.image[3].tobytes()  # type: ignore[union-attr]
    back = lakebed.import_from("auto", tmp_path / "out", tmp_path / "back", progressbar=False).dataset
    assert set(back.tensors) == {*ds.tensors, "key"}
    assert {name: len(view) for name, view in back.splits.items()} == {"train": 20, "val": 5}
    assert back.label.info["class_names"] == ["cat", "dog"]
    for row in range(25):
        assert back.image[row].tobytes() == ds.image[row].tobytes()
        assert np.array_equal(back["g/emb"][row].numpy(), ds["g/emb"][row].numpy())
        assert back.about[row].data()["value"] == ds.about[row].data()["value"]
    assert back.caption.data()["value"] == ds.caption.data()["value"]
    assert np.array_equal(back.label.numpy(), ds.label.numpy())
    assert back.notes.null_mask().tolist() == ds.notes.null_mask().tolist()
    some = lakebed.export_to(
        "webdataset", ds, tmp_path / "some", tensors=["label"], split="val", progressbar=False
    )
    assert (some.written, some.files) == (5, 2)


def test_keys(tmp_path: Path) -> None:
    """Keys of an import are those of the export; what is no key costs its row."""
    ds = lakebed.empty("mem://keys")
    ds.create_tensor("key", htype="text").extend(["a/1", "a/2", "b.c", "a/1", ""])
    ds.create_tensor("x", dtype="int64").extend(range(5))
    report = lakebed.export_to("webdataset", ds, tmp_path / "out", progressbar=False)
    assert (report.written, [row for row, _ in report.left_out]) == (2, [2, 3, 4])
    with tarfile.open(tmp_path / "out" / "000000.tar") as tar:
        assert tar.getnames() == ["a/1.npy", "a/2.npy"]
    with pytest.raises(ExportError, match="at least one row"):
        lakebed.export_to("webdataset", ds, tmp_path / "no", rows=0, progressbar=False)


def test_a_description_of_others_is_passed_over(ds: lakebed.Dataset, tmp_path: Path) -> None:
    """`dataset.json` that is damaged, or names what cannot be, changes nothing."""
    lakebed.export_to("webdataset", ds, tmp_path / "out", progressbar=False)
    for text in ("{", "[]", '{"tensors": {"cls": "../x", "png": 1, "npy": "json"}, "classes": {"cls": [1]}}'):
        (tmp_path / "out" / "dataset.json").write_text(text)
        back = lakebed.import_from("auto", tmp_path / "out", "mem://", progressbar=False).dataset
        assert {"png", "cls", "npy", "caption_txt"} <= set(back.tensors)


@pytest.mark.parametrize("given", [[None] * 3, [None, "x", None, None, "y", None]])
@pytest.mark.parametrize("with_description", [True, False])
def test_rows_of_nulls_are_rows(given: list[str | None], with_description: bool, tmp_path: Path) -> None:
    ds = lakebed.empty(tmp_path / "d")
    ds.create_tensor("t", htype="text")
    ds.create_tensor("n", dtype="int64")
    ds.extend({"t": given, "n": [None if one is None else len(one) for one in given]})
    report = lakebed.export_to("webdataset", ds, tmp_path / "out", rows=2, progressbar=False)
    assert report.written == len(given)
    if not with_description:
        (tmp_path / "out/dataset.json").unlink()
        if not any(given):
            return  # nothing says that there are tensors
    back = lakebed.import_from("webdataset", tmp_path / "out", tmp_path / "back", progressbar=False).dataset
    text = "t" if with_description else "txt"
    assert back[text].to_arrow().to_pylist() == given
    assert set(back.tensors) == ({"t", "n", "key"} if with_description else {"txt", "npy", "key"})
