"""Point clouds and meshes: las, ply, stl (format.md 5.3, 7)."""

from __future__ import annotations

import json

import numpy as np
import pytest

from lakebed import limits
from lakebed.codecs.las import Las
from lakebed.codecs.ply import Ply
from lakebed.codecs.stl import Stl
from lakebed.errors import FormatError, LimitError, SampleCompressionError
from unit_tests.lakebed.codecs.scans import las, ply, stl, text_stl

CORNERS = np.random.default_rng(1).standard_normal((4, 3, 3)).astype(np.float32)
TRIANGLES = [[0, 1, 2], [1, 2, 3]]


@pytest.mark.parametrize(
    ("point_format", "version", "extra", "dimensions"),
    [(2, "1.2", None, 18), (3, "1.2", None, 19), (7, "1.4", "f8", 22)],
)
def test_las_points(point_format: int, version: str, extra: str | None, dimensions: int) -> None:
    """All dimensions are columns; a tensor's value is X, Y, Z as stored; fields keep their dtypes."""
    data = las(5, point_format, version, extra)
    facts = Las().facts(data)
    assert (facts.shape, facts.dtype) == ((5, dimensions), "float32")
    whole = Las().decode(data)
    assert (whole.shape, whole.dtype) == ((5, dimensions), np.float32)
    expected = np.stack(
        [np.arange(5) * 100 + 150, np.arange(5) * 200 - 2000, np.arange(5) * 300 - 3000], axis=1
    )
    assert np.array_equal(Las().value(data), expected)
    assert np.array_equal(whole[:, :3], expected)
    assert np.array_equal(Las().part(data, slice(4, 1, -2)), expected[4:1:-2])
    fields = Las().fields(data)
    assert list(fields) == Las().metadata(data)["dimension_names"]
    assert (fields["X"].dtype, fields["classification"].dtype) == (np.int32, np.uint8)
    assert fields["intensity"].tolist() == [0, 1, 2, 3, 4]
    for column, values in enumerate(fields.values()):
        assert np.array_equal(whole[:, column], values.astype(np.float32))


def test_las_without_points() -> None:
    """A file of no points is one."""
    data = las(0)
    assert Las().facts(data).shape == (0, 18)
    assert Las().value(data).shape == (0, 3)


def test_las_metadata() -> None:
    """The header as JSON, dtypes by name."""
    found = Las().metadata(las(5))
    assert found["las_header"]["point_count"] == 5
    assert found["las_header"]["version"] == {"major": 1, "minor": 2}
    assert found["las_header"]["maxs"] == [15.5, 8.0, 12.0]
    assert found["dimensions_names_to_dtype"]["return_number"] == "|u1"
    json.dumps(found)


def test_what_is_no_las() -> None:
    """Counts in the header are compared with the bytes that are there."""
    data = las(5)
    for damaged in (b"", b"LASF", b"LASF" + bytes(300), data[:300], data[:-30]):
        with pytest.raises(FormatError):
            Las().decode(damaged)
    many = bytearray(data)
    many[107:111] = (1 << 30).to_bytes(4, "little")
    with pytest.raises(LimitError):
        Las().facts(bytes(many))
    records = bytearray(data)
    records[100:104] = b"\xff\xff\xff\xff"
    with pytest.raises(FormatError, match="records"):
        Las().facts(bytes(records))
    with pytest.raises(SampleCompressionError):
        Las().encode(np.zeros((4, 3)))


@pytest.mark.parametrize(("text", "order"), [(False, "<"), (False, ">"), (True, "=")])
@pytest.mark.parametrize("faces", [TRIANGLES, [[0, 1, 2, 3], [1, 2, 3]], [], None])
def test_ply(text: bool, order: str, faces: list[list[int]] | None) -> None:
    """Vertices are the value, everything else is a field; text and both byte orders, faces of any size."""
    data = ply(faces, text=text, order=order)
    expected = np.array(
        [[0, 0, 0, 255, 0, 0], [1, 0, 0, 0, 255, 0], [0, 1, 0, 0, 0, 255], [0.5, 1, 1, 1, 2, 3]],
        dtype=np.float32,
    )
    assert np.array_equal(Ply().value(data), expected)
    assert np.array_equal(Ply().part(data, slice(1, 3)), expected[1:3])
    names = 6 if faces is None else 12  # n_points, v1, v2, v3, the type of the count, and the shade
    facts = Ply().facts(data)
    assert (facts.shape, facts.dtype) == ((4, names), "object")
    fields = Ply().fields(data)
    assert fields["x"].tolist() == [0.0, 1.0, 0.0, 0.5]
    assert (fields["x"].dtype, fields["red"].dtype) == (np.float32, np.uint8)
    if faces:
        assert fields["n_points"].tolist() == [len(face) for face in faces]
        for corner in range(max(map(len, faces))):
            assert fields[f"v{corner + 1}"].tolist() == [([*face, -1])[corner] for face in faces]
        assert fields["shade"].tolist() == list(range(len(faces)))


def test_ply_metadata() -> None:
    """As 3.9.52 records it, the type of the count among the names included."""
    found = Ply().metadata(ply(TRIANGLES, comments=("by hand",)))
    assert found["dimensions_names"][6:] == ["n_points", "v1", "v2", "v3", "uchar", "shade"]
    assert found["element_name_to_property_dtypes"]["face"] == {
        "n_points": "<u1", "v1": "<i4", "v2": "<i4", "v3": "<i4", "shade": "<u1",
    }  # fmt: skip
    assert (found["comments"], found["fmt"], found["vertex"], found["face"]) == (
        ["by hand"], "binary_little_endian", 4, 2,
    )  # fmt: skip


HEAD = b"ply\nformat ascii 1.0\nelement vertex %d\nproperty float x\n%send_header\n"


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"ply", b"ply\nformat ascii 1.0\n", HEAD % (2, b"") + b"1", HEAD % (2, b"") + b"1 x",
        HEAD % (9, b"") + b"1 2",
        HEAD % (1, b"property what y\n") + b"1 2", HEAD % (1, b"property float x\n") + b"1 2",
        HEAD % (1, b"element none 4000000\n") + b"1", HEAD % (1, b"element vertex 1\nproperty int y\n") + b"1 2",
        HEAD % (1, b"nonsense\n") + b"1", HEAD % (1, b"property list float int y\n") + b"1 2 3",
        HEAD % (1, b"element face 1\nproperty list uchar int vertex_indices\n") + b"1 99 3",
        HEAD % (1, b"element face 1\nproperty list uchar int vertex_indices\n") + b"1 -1 3",
        HEAD % (1, b"property uchar red\n") + b"1 256", ply(TRIANGLES)[:-1], ply([[0, 1, 2, 3], [1, 2, 3]])[:-1],
    ],
)  # fmt: skip
def test_what_is_no_ply(damaged: bytes) -> None:
    """A header that means nothing, or counts more than there is."""
    with pytest.raises(FormatError):
        Ply().fields(damaged)


@pytest.mark.parametrize("make", [stl, text_stl])
def test_stl(make: object) -> None:
    """Corners of triangles, from binary and text."""
    assert callable(make)
    data = make(CORNERS)
    facts = Stl().facts(data)
    assert (facts.shape, facts.dtype) == ((4, 3, 3), "float32")
    assert np.array_equal(Stl().decode(data), CORNERS)
    assert np.array_equal(Stl().part(data, slice(None, 1, -1)), CORNERS[:1:-1])
    fields = Stl().fields(data)
    assert np.array_equal(fields["vertices"], CORNERS)
    assert np.allclose(fields["centroids"], CORNERS.mean(axis=1))
    assert np.allclose(
        fields["normals"], np.cross(CORNERS[:, 1] - CORNERS[:, 0], CORNERS[:, 2] - CORNERS[:, 0])
    )
    found = Stl().metadata(data)
    assert found["name"] == b"a mesh"
    assert np.array_equal(found["min_"], CORNERS.min(axis=(0, 1)))
    assert Stl().decode(make(CORNERS[:0])).shape == (0, 3, 3)


def test_a_binary_stl_may_begin_with_solid() -> None:
    """Its length decides."""
    assert np.array_equal(Stl().decode(stl(CORNERS, b"solid nonsense")), CORNERS)


@pytest.mark.parametrize(
    "damaged",
    [
        b"", bytes(83), stl(CORNERS)[:-1], b"solid x\nfacet normal 0 0 1\n", text_stl(CORNERS)[:-20],
        text_stl(CORNERS).replace(b"outer", b"inner", 1), text_stl(CORNERS).replace(b"vertex", b"vertex x", 1),
    ],
)  # fmt: skip
def test_what_is_no_stl(damaged: bytes) -> None:
    """Truncated files and text that is no mesh."""
    with pytest.raises(FormatError):
        Stl().decode(damaged)


def test_counts_meet_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Triangles and vertices are compared with limits."""
    monkeypatch.setattr(limits, "MAX_POINTS", 3)
    for codec, data in [
        (Stl(), stl(CORNERS)),
        (Stl(), text_stl(CORNERS)),
        (Ply(), ply(TRIANGLES)),
        (Las(), las(5)),
    ]:
        with pytest.raises(LimitError):
            codec.facts(data)
