"""What ``tensor.data()`` gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lakebed.documents.tensor_meta import TensorMeta
from lakebed.htypes.forms import data_form, parts_of

VALUE = np.zeros((2, 3))


def form(
    meta: TensorMeta, value: Any = VALUE, info: dict[str, Any] | None = None, **rest: Any
) -> dict[str, Any]:
    return data_form(meta, info or {}, value, **rest)


def test_most_htypes_give_the_value_alone() -> None:
    """Settings such as coords are not repeated."""
    for htype in ("generic", "bbox", "keypoints_coco", "segment_mask", "audio", "image.rgb", None):
        meta = TensorMeta(htype=htype)
        assert parts_of(meta) == frozenset()
        assert form(meta, info={"coords": {"mode": "LTRB"}, "class_names": ["a"]}) == {"value": VALUE}


def test_class_labels_have_their_names() -> None:
    """Nested as the values are; an index without a name has None; without names there is no text."""
    meta, info = TensorMeta(htype="class_label"), {"class_names": ["a", "b"]}
    found = form(meta, [np.array([0]), np.array([1, 7]), np.array([], "u4")], info)
    assert found["text"] == [["a"], ["b", None], []]
    assert form(meta, np.array([[0], [1]]), info)["text"] == [["a"], ["b"]]
    assert form(meta, [[np.array([0]), np.array([1])]], info)["text"] == [[["a"], ["b"]]]
    assert "text" not in form(meta, np.array([0]), {"class_names": []})


@pytest.mark.parametrize("htype", ["image", "dicom", "nifti"])
def test_described_files_come_with_their_description(htype: str) -> None:
    """As ``sample_info`` gives it."""
    meta = TensorMeta(htype=htype)
    assert parts_of(meta) == {"infos"}
    assert form(meta, infos={"format": "png"}) == {"value": VALUE, "sample_info": {"format": "png"}}
    assert form(meta) == {"value": VALUE}


def test_videos_come_as_frames_with_timestamps() -> None:
    """A link to a video, or a raw array, is only a value."""
    meta = TensorMeta(htype="video", sample_compression="mp4")
    assert parts_of(meta) == {"infos", "timestamps"}
    assert form(meta, infos={}, timestamps=[0.5]) == {"frames": VALUE, "timestamps": [0.5], "sample_info": {}}
    for plain in (
        TensorMeta(htype="video", sample_compression="mp4", is_link=True),
        TensorMeta(htype="video"),
    ):
        assert form(plain) == {"value": VALUE}


def test_point_clouds_and_meshes_come_as_fields() -> None:
    """Those of each file as a mapping; stl files also have vertices and a description, and are put together."""
    x = np.arange(3)
    cloud = TensorMeta(htype="point_cloud", sample_compression="las")
    assert parts_of(cloud) == {"fields"}
    assert form(cloud, fields={"X": x}) == {"X": x}
    assert form(cloud, fields=[{"X": x}]) == {"X": x}
    assert form(cloud, fields=[{"X": x}, {"X": x, "red": x}]) == [{"X": x}, {"X": x, "red": x}]
    assert form(TensorMeta(htype="point_cloud")) == {"value": VALUE}
    mesh = TensorMeta(htype="mesh", sample_compression="stl")
    found = form(mesh, fields={"vertices": x, "normals": x}, infos={"name": "m"})
    assert found == {"vertices": VALUE, "normals": x, "sample_info": {"name": "m"}}
    found = form(mesh, fields=[{"vertices": x, "normals": x}] * 2, infos=[{}, {}])
    assert found == {"vertices": VALUE, "normals": [x, x], "sample_info": [{}, {}]}
    found = form(mesh, fields=[{"vertices": x, "normals": x}], infos=[{"name": "m"}])
    assert found == {"vertices": VALUE, "normals": x, "sample_info": {"name": "m"}}
    linked = TensorMeta(htype="point_cloud", sample_compression="las", is_link=True)
    assert form(linked, fields={"X": x}) == {"X": x}
