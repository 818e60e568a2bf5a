"""Tensors of video, sound, scans, point clouds and meshes: files in, values, parts, descriptions and fields out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import lakebed
from lakebed.errors import (
    CorruptError,
    DynamicTensorNumpyError,
    SampleAppendError,
    SampleCompressionError,
    SampleDecompressionError,
)
from unit_tests.lakebed.codecs.films import film, frames_of, samples_of, sound, tone, wav
from unit_tests.lakebed.codecs.scans import dicom, gzipped, las, nifti, ply, stl

SCAN = np.arange(24, dtype="<i2").reshape(2, 3, 4)
CORNERS = np.random.default_rng(1).standard_normal((4, 3, 3)).astype(np.float32)
VERTICES = np.array(
    [[0, 0, 0, 255, 0, 0], [1, 0, 0, 0, 255, 0], [0, 1, 0, 0, 0, 255], [0.5, 1, 1, 1, 2, 3]], np.float32
)


def h264() -> bytes:
    return film("mp4", "libx264", b_frames=2)


Kind = tuple[str, str, Callable[[], bytes], Callable[[], NDArray[Any]], str]
KINDS: dict[str, Kind] = {
    "mp4": ("video", "mp4", h264, lambda: frames_of(h264()), "uint8"),
    "mkv": ("video", "mkv", lambda: film("mkv"), lambda: frames_of(film("mkv")), "uint8"),
    "avi": ("video", "avi", lambda: film("avi"), lambda: frames_of(film("avi")), "uint8"),
    "mp3": ("audio", "mp3", lambda: sound("mp3", "mp3"), lambda: samples_of(sound("mp3", "mp3")), "float64"),
    "flac": ("audio", "flac", lambda: sound("flac", "flac"), lambda: tone(2), "float64"),
    "wav": ("audio", "wav", lambda: wav(tone(6)), lambda: tone(6), "float64"),
    "dcm": ("dicom", "dcm", lambda: dicom(SCAN[0]), lambda: SCAN[0][..., None], "int16"),
    "nii": ("nifti", "nii", lambda: nifti(SCAN), lambda: SCAN, "int16"),
    "nii.gz": ("nifti", "nii.gz", lambda: gzipped(nifti(SCAN)), lambda: SCAN, "int16"),
    "stl": ("mesh", "stl", lambda: stl(CORNERS), lambda: CORNERS, "float32"),
}  # fmt: skip


def tensor(ds: lakebed.Dataset, name: str, htype: str, compression: str) -> lakebed.Tensor:
    settings = {} if compression == "dcm" else {"sample_compression": compression}
    return ds.create_tensor(name, htype=htype, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_files_in_values_out(kind: str, tmp_path: Any) -> None:
    """Stored byte for byte; values, parts, shapes and dtype as the file has them; the same after reopening."""
    htype, compression, make, value, dtype = KINDS[kind]
    data, expected = make(), value()
    path = tmp_path / f"file.{compression}"
    path.write_bytes(data)
    ds = lakebed.empty(str(tmp_path / "ds"))
    mine = tensor(ds, "x", htype, compression)
    mine.append(lakebed.read(path))
    mine.extend([lakebed.read(data), lakebed.read(str(path))])
    ds.commit()
    for found in (mine, lakebed.load(ds.path, read_only=True).x):
        assert found.shape == (3, *expected.shape)
        assert found.dtype == np.dtype(dtype)
        assert found.htype == htype
        for row in range(3):
            one = found[row].numpy()
            assert one.dtype == np.dtype(dtype)
            assert np.array_equal(one, expected)
            assert found[row].tobytes() == data
            assert found[row].shape == expected.shape
        assert np.array_equal(found.numpy(), np.stack([expected] * 3))
        assert np.array_equal(found[1][1:3].numpy(), expected[1:3])
        assert np.array_equal(found[1][::-2].numpy(), expected[::-2])
        assert np.array_equal(found[1][1].numpy(), expected[1])
        assert np.array_equal(found[1, 1:, 1].numpy(), expected[1:, 1])
        assert found[0].sample_info["filename"] == str(path)
        assert found[0].sample_info["shape"] == list(expected.shape)
        assert found[0].sample_info["format"] == compression
        assert found[0].sample_info["modified"] is False
        assert "filename" not in found[1].sample_info


@pytest.mark.parametrize("kind", KINDS)
def test_empty_samples_and_updates(kind: str) -> None:
    """None has no bytes and no extent; a file replaces another."""
    htype, compression, make, value, _ = KINDS[kind]
    ds = lakebed.empty(f"mem://media-{kind}")
    mine = tensor(ds, "x", htype, compression)
    mine.extend([lakebed.read(make()), None])
    assert mine[1].numpy().shape == (0,) * value().ndim
    mine[1] = lakebed.read(make())
    assert np.array_equal(mine[1].numpy(), value())
    mine[0] = None
    assert mine[0].numpy().size == 0
    mine.pop(0)
    assert np.array_equal(mine[0].numpy(), value())


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit(kind: str) -> None:
    """Arrays, files of another kind and damaged files are refused; nothing is appended."""
    htype, compression, make, value, _ = KINDS[kind]
    ds = lakebed.empty(f"mem://misfit-{kind}")
    mine = tensor(ds, "x", htype, compression)
    with pytest.raises(SampleAppendError) as caught:
        mine.append(value())
    assert isinstance(caught.value.__cause__, SampleCompressionError)
    for data in (b"nothing", make()[:40]):
        with pytest.raises(SampleAppendError):
            mine.append(lakebed.read(data, compression=compression))
    assert len(mine) == 0


def test_videos_tell_when_frames_are_shown() -> None:
    """Of one video, whole or in part; and with the frames, of several at once."""
    ds = lakebed.empty("mem://times")
    films = tensor(ds, "x", "video", "mp4")
    films.extend([lakebed.read(film("mp4")), lakebed.read(film("mp4"))])
    assert np.allclose(films[0].timestamps, np.arange(30) / 5)
    assert np.allclose(films[0][4:10:2].timestamps, [0.8, 1.2, 1.6])
    with pytest.raises(ValueError, match="one sample"):
        _ = films.timestamps
    one = films[0][4:6].data()
    assert sorted(one) == ["frames", "sample_info", "timestamps"]
    assert (one["frames"].shape, one["timestamps"].shape) == ((2, 24, 32, 3), (2,))
    both = films.data()
    assert (both["frames"].shape, both["timestamps"].shape) == ((2, 30, 24, 32, 3), (2, 30))
    films.extend([lakebed.read(film("mp4", frames=6)), None])
    assert films[3].timestamps.shape == (0,)
    assert [len(times) for times in films.data(aslist=True)["timestamps"]] == [30, 30, 6, 0]
    with pytest.raises(DynamicTensorNumpyError):
        films.numpy()


def test_no_video_is_tiled() -> None:
    """A film larger than the tiling threshold is one sample in one chunk."""
    ds = lakebed.empty("mem://long")
    films = ds.create_tensor("x", htype="video", sample_compression="mp4", tiling_threshold=1000)
    films.append(lakebed.read(film("mp4")))
    assert np.array_equal(films[0].numpy(), frames_of(film("mp4")))
    assert films[0].tobytes() == film("mp4")


def test_point_clouds() -> None:
    """The value is X, Y, Z; all dimensions are the shape; data() names them."""
    ds = lakebed.empty("mem://clouds")
    clouds = tensor(ds, "x", "point_cloud", "las")
    clouds.extend([lakebed.read(las(5)), lakebed.read(las(3))])
    assert clouds.shape == (2, None, 18)
    assert clouds[0].numpy().shape == (5, 3)
    assert [len(value) for value in clouds.numpy(aslist=True)] == [5, 3]
    assert clouds[0].data()["intensity"].tolist() == [0, 1, 2, 3, 4]
    assert clouds[0][1:3].data()["intensity"].tolist() == [1, 2]
    assert [len(fields["red"]) for fields in clouds.data()] == [5, 3]
    assert clouds[1].sample_info["las_header"]["point_count"] == 3


def test_meshes() -> None:
    """ply: vertices and named fields; stl: triangles with centroids and normals."""
    ds = lakebed.empty("mem://meshes")
    polygons = tensor(ds, "ply", "mesh", "ply")
    polygons.extend([lakebed.read(ply([[0, 1, 2]])), lakebed.read(ply([[0, 1, 2], [1, 2, 3]], text=True))])
    assert [np.array_equal(value, VERTICES) for value in polygons.numpy(aslist=True)] == [True, True]
    assert polygons[0].data()["v3"].tolist() == [2]
    assert [fields["n_points"].tolist() for fields in polygons.data()] == [[3], [3, 3]]
    assert polygons[0].sample_info["face"] == 1
    triangles = tensor(ds, "stl", "mesh", "stl")
    triangles.extend([lakebed.read(stl(CORNERS)), lakebed.read(stl(CORNERS[:1]))])
    found = triangles[0].data()
    assert np.array_equal(found["vertices"], CORNERS)
    assert np.allclose(found["centroids"], CORNERS.mean(axis=1))
    assert found["sample_info"]["name"] == b"a mesh"
    assert [len(normals) for normals in triangles.data()["normals"]] == [4, 1]


def test_stored_files_that_are_damaged(tmp_path: Any) -> None:
    """The error names the place; other rows still read."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    sounds = tensor(ds, "x", "audio", "wav")
    data = wav(tone(2, 300))
    sounds.extend([lakebed.read(data), lakebed.read(data)])
    ds.close() if hasattr(ds, "close") else ds.flush()
    (chunk,) = [p for p in (tmp_path / "ds").rglob("*") if p.is_file() and p.read_bytes().count(b"RIFF") == 2]
    raw = chunk.read_bytes()
    chunk.write_bytes(raw[: raw.rindex(b"WAVE")] + b"EVAW" + raw[raw.rindex(b"WAVE") + 4 :])
    found = lakebed.load(str(tmp_path / "ds"), read_only=True).x
    with pytest.raises((CorruptError, SampleDecompressionError)) as caught:
        found[1].numpy()
    assert "'x'" in str(caught.value) or "x/" in str(caught.value)
