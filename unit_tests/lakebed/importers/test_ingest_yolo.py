"""``ingest_yolo`` and ``export_yolo``: what 3.x makes, there and back, and what we tell that it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lakebed
from lakebed.errors import ExportError, IngestionError
from unit_tests.lakebed.importers.sources import imported, photo


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    for number, lines in enumerate(
        ("0 0.5 0.5 0.2 0.3\n1 0.25 0.25 0.1 0.1\n", "1 0.123456 0.654321 0.111111 0.2\n", "")
    ):
        photo(tmp_path / f"pets/{number}.jpg", number)
        (tmp_path / f"pets/{number}.txt").write_text(lines)
    (tmp_path / "pets/classes.names").write_text("cat\ndog\n")
    return tmp_path / "pets"


def test_there_and_back(pets: Path, tmp_path: Path) -> None:
    ds = lakebed.ingest_yolo(
        pets, tmp_path / "lake", class_names_file=pets / "classes.names", progressbar=False
    )
    assert sorted(ds.tensors) == ["boxes", "images", "labels"]
    assert ds.boxes.dtype == np.float32
    assert not ds.commits
    lakebed.export_yolo(tmp_path / "lake", tmp_path / "out", progressbar=False)
    for number in range(3):
        assert (tmp_path / f"out/annotations/{number}.txt").read_text() == (
            pets / f"{number}.txt"
        ).read_text()
        assert (tmp_path / f"out/images/{number}.jpeg").read_bytes() == (pets / f"{number}.jpg").read_bytes()
    again = imported("auto", tmp_path / "out")
    assert (again.format, again.written) == ("yolo", 3)
    assert again.dataset.labels[0].data()["text"] == ["cat", "dog"]
    with pytest.raises(ExportError, match="exists already"):
        lakebed.export_yolo(ds, tmp_path / "out", progressbar=False)


def test_lines_that_are_no_objects_are_left_out_with_a_warning(pets: Path) -> None:
    (pets / "1.txt").write_text("x 0.5 0.5 0.2 0.3\n0 0.5 0.5 0.2 0.3 0.9\n1 0.5 0.5 0.2 0.3\n")
    with pytest.warns(UserWarning, match=r"2 of 5 .* 1\.txt line 1"):
        ds = lakebed.ingest_yolo(pets, "mem://", progressbar=False)
    assert ds.labels[1].numpy().tolist() == [1]


def test_images_without_a_label_file(pets: Path) -> None:
    (pets / "1.txt").unlink()
    with pytest.raises(IngestionError, match=r"1 of 3 images have no label file, such as 1\.jpg"):
        lakebed.ingest_yolo(pets, "mem://", progressbar=False)
    ds = lakebed.ingest_yolo(pets, "mem://", allow_no_annotation=True, progressbar=False)
    assert ds.boxes[1].shape == (0, 4)
    ds.labels.info.class_names = []
    with pytest.raises(ExportError, match="class names"):
        lakebed.export_yolo(ds, "mem://")
