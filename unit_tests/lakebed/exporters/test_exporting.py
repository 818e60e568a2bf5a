"""Any export, by the one of folders: what is written, when it appears, what an error leaves, and the way back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import lakebed
from lakebed.cli import main
from lakebed.errors import ExportError, UnsupportedParameterException
from lakebed.exporters.core import folder
from lakebed.exporters.core.target import Target
from lakebed.storage.url import open_storage


@pytest.fixture
def photos(tmp_path: Path) -> lakebed.Dataset:
    """Ten images of two classes in two splits, with names and texts."""
    ds = lakebed.empty(tmp_path / "lake")
    ds.create_tensor("images", htype="image", sample_compression="png")
    ds.create_tensor("labels", htype="class_label", class_names=["cat", "dog"])
    ds.create_tensor("split", htype="class_label", class_names=["train", "val"])
    ds.create_tensor("file", htype="text")
    ds.create_tensor("text", htype="text")
    for number in range(10):
        ds.append(
            {
                "images": np.full((4 + number, 5, 3), number, np.uint8),
                "labels": ("cat", "dog")[number % 2],
                "split": "train" if number < 7 else "val",
                "file": f"{number}.png",
                "text": f"number {number}" if number else "",
            }
        )
    ds.commit()
    return ds


def test_what_goes_out_comes_in_again(photos: lakebed.Dataset, tmp_path: Path) -> None:
    report = lakebed.export_to("folder", photos, tmp_path / "out", progressbar=False)
    assert (report.written, report.skipped, report.files) == (10, 0, 19)
    assert (tmp_path / "out/train/cat/0.png").read_bytes() == photos.images[0].tobytes()
    again = lakebed.import_from("folder", tmp_path / "out", "mem://", progressbar=False).dataset
    assert sorted(again.text.text()) == sorted(photos.text.text())
    by_text = {text: row for row, text in enumerate(again.text.text())}
    for row in range(10):
        found = by_text[str(photos.text[row].text())]
        assert np.array_equal(again.images[found].numpy(), photos.images[row].numpy())
        assert again.labels[found].data()["text"] == photos.labels[row].data()["text"]
        assert again.split[found].data()["text"] == photos.split[row].data()["text"]


def test_splits_views_and_addresses(photos: lakebed.Dataset, tmp_path: Path) -> None:
    assert lakebed.export_to("folder", photos, tmp_path / "a", split="val", progressbar=False).written == 3
    assert lakebed.export_to("folder", photos[2:4], tmp_path / "b", progressbar=False).written == 2
    assert (
        lakebed.export_to("folder", str(tmp_path / "lake"), tmp_path / "c", progressbar=False).written == 10
    )
    with pytest.raises(ExportError, match="train, val"):
        lakebed.export_to("folder", photos, tmp_path / "d", split="test")


def test_nothing_appears_before_all_is_there(
    photos: lakebed.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error leaves neither the target nor what was on its way; what is there stays without overwrite."""
    out = tmp_path / "out"

    def fails(*_: object) -> None:
        assert not out.exists()
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(folder, "finish", fails)
        with pytest.raises(ZeroDivisionError):
            lakebed.export_to("folder", photos, out, progressbar=False)
    assert [path.name for path in tmp_path.iterdir()] == ["lake"]
    out.mkdir()
    (out / "mine").write_text("kept")
    with pytest.raises(ExportError, match="overwrite"):
        lakebed.export_to("folder", photos, out, progressbar=False)
    assert (out / "mine").read_text() == "kept"
    lakebed.export_to("folder", photos, out, overwrite=True, progressbar=False)
    assert not (out / "mine").exists()
    assert {path.name for path in tmp_path.iterdir()} == {"lake", "out"}


def test_into_a_bucket_and_back_out_after_an_error(
    photos: lakebed.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = open_storage("mem://exported")
    with monkeypatch.context() as patched:
        patched.setattr(folder, "finish", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            lakebed.export_to("folder", photos, "mem://exported", progressbar=False)
    assert not list(kept.list())
    report = lakebed.export_to("folder", photos, "mem://exported", progressbar=False)
    assert report.files == 19
    with pytest.raises(ExportError, match="already"):
        lakebed.export_to("folder", photos, "mem://exported", progressbar=False)
    again = lakebed.import_from("folder", "mem://exported", tmp_path / "back", progressbar=False)
    assert again.written == 10


def test_rows_that_cannot_be_written_are_counted_or_fail(photos: lakebed.Dataset, tmp_path: Path) -> None:
    photos.create_tensor("scores", htype="image", dtype="float64", sample_compression=None)
    photos.scores.extend([np.ones((2, 2))] * 10)
    arguments = {"media": ["scores"], "names": "file", "progressbar": False}
    report = lakebed.export_to("folder", photos, tmp_path / "out", **arguments)
    assert report.skipped == 10
    assert "is not an image" in report.left_out[0][1]
    with pytest.raises(ExportError, match="row 0 of"):
        lakebed.export_to("folder", photos, tmp_path / "strict", strict=True, **arguments)


def test_names_of_datasets_stay_inside_the_target(tmp_path: Path) -> None:
    with Target(str(tmp_path / "out")) as target:
        assert target.free("../../etc/passwd") == "etc/passwd"
        assert target.free("/a//b.jpg") == "a/b.jpg"
        assert target.free("a/b.jpg") == "a/b-2.jpg"
        assert target.free("..") == "unnamed"
        for name in ("../up", "/root", "a/../b", "", "a//b"):
            with pytest.raises(ExportError):
                target.write(name, b"")


def test_the_command_line(photos: lakebed.Dataset, tmp_path: Path) -> None:
    arguments = ["export", "folder", str(tmp_path / "lake"), str(tmp_path / "out"), "--no-progress", "--json"]
    told = json.loads(CliRunner().invoke(main, [*arguments, "--dry-run"]).stdout)
    assert told["splits"] == {"train": 7, "val": 3}
    assert not (tmp_path / "out").exists()
    told = json.loads(CliRunner().invoke(main, arguments).stdout)
    assert told["written"] == 10
    with pytest.raises(UnsupportedParameterException):
        lakebed.export_to("folder", photos, tmp_path / "x", medias=["images"])
