"""ingest_coco: the tensors, groups and values of Deep Lake 3.9.52 for the same files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import IngestionError


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A folder of two pictures, and two annotation files."""
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    for name in ("a.jpg", "b.jpg"):
        Image.fromarray(np.zeros((4, 5, 3), np.uint8)).save(pictures / name)
    images = [{"id": 1, "file_name": "a.jpg"}, {"id": 2, "file_name": "b.jpg"}]
    one = {
        "id": 5,
        "image_id": 2,
        "category_id": 4,
        "bbox": [1.5, 1, 2, 2],
        "area": 4.5,
        "iscrowd": 0,
        "segmentation": [[1.5, 1, 2, 1, 2, 2]],
    }
    person = {**one, "category_id": 1, "keypoints": [1, 1, 2, 0, 0, 0], "num_keypoints": 1}
    categories = [{"id": 4, "name": "cat", "supercategory": "animal"}]
    people = [{"id": 1, "name": "person", "keypoints": ["nose", "ear"], "skeleton": [[1, 2]]}]
    first, second = tmp_path / "instances.json", tmp_path / "keypoints.json"
    first.write_text(json.dumps({"images": images, "annotations": [one], "categories": categories}))
    second.write_text(json.dumps({"images": images, "annotations": [person], "categories": people}))
    return pictures, first, second


def test_one_file(files: tuple[Path, Path, Path]) -> None:
    ds = lakebed.ingest_coco(files[0], files[1], "mem://", progressbar=False)
    keys = {"images", "bbox", "category_id", "area", "iscrowd", "id", "image_id", "segmentation"}
    assert set(ds.tensors) == keys | {"segmentation_object"}
    assert {
        name: (ds[name].htype, str(ds[name].dtype)) for name in ("bbox", "category_id", "segmentation")
    } == {
        "bbox": ("bbox", "float32"),
        "category_id": ("class_label", "uint32"),
        "segmentation": ("polygon", "float32"),
    }
    assert ds.image_id[1].numpy().tolist() == [2]
    assert ds.bbox[1].numpy().tolist() == [[1.5, 1, 2, 2]]
    assert ds.category_id[1].data()["text"] == ["cat"]
    assert ds.bbox[0].shape == (0, 4)
    assert not ds.commits


@pytest.mark.parametrize("groups", [{"keypoints.json": "people"}, {"keypoints": "people"}])
def test_several_files_become_groups(files: tuple[Path, Path, Path], groups: dict[str, str]) -> None:
    pictures, *annotations = files
    ds = lakebed.ingest_coco(pictures, annotations, "mem://", file_to_group_mapping=groups, progressbar=False)
    assert set(ds.groups) == {"instances", "people"}
    assert ds.people.keypoints[1].numpy().ravel().tolist() == [1, 1, 2, 0, 0, 0]


def test_names_keys_and_parameters_of_images(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    ds = lakebed.ingest_coco(
        files[0],
        [files[1]],
        tmp_path / "lake",
        key_to_tensor_mapping={"bbox": "boxes"},
        ignore_one_group=False,
        ignore_keys=["area"],
        image_params={"name": "photos", "htype": "link[image]"},
        shuffle=True,
        num_workers=1,
        progressbar=False,
        overwrite=True,
    )
    assert ds["instances/boxes"].htype == "bbox"
    assert "instances/area" not in ds.tensors
    assert ds.photos.htype == "link[image]"
    assert ds.photos[0].shape == (4, 5, 3)


def test_what_is_missing_is_warned_of(files: tuple[Path, Path, Path]) -> None:
    (files[0] / "b.jpg").unlink()
    with pytest.warns(UserWarning, match=r"1 of 2 rows were left out, the first is b\.jpg"):
        ds = lakebed.ingest_coco(files[0], files[1], "mem://", progressbar=False)
    assert len(ds) == 1
    with pytest.raises(IngestionError, match="nowhere"):
        lakebed.ingest_coco(files[0], "nowhere.json", "mem://")
