"""Samples that are files, and other things that are no plain arrays: values, parts, bytes, facts on record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.codecs.registry import file_codec
from lakebed.reading.decode import Decoder, stored_dtype
from unit_tests.lakebed.datasets import create_on, new_memory

FRAMES = np.stack([np.full((16, 24, 3), 10 * i, dtype=np.uint8) for i in range(12)])
COMPLEX = (np.arange(4).reshape(2, 2) * 1j).astype(np.complex64)
PICTURE = (np.arange(9 * 11 * 3).reshape(9, 11, 3) % 256).astype(np.uint8)


@pytest.fixture(scope="module")
def media(golden: Path) -> lakebed.Dataset:
    """Media files that 3.9.52 stored."""
    return lakebed.load(golden / "f15_media", read_only=True)


def test_a_part_of_a_video_decodes_no_more(media: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are asked for by number; the whole is never decoded for a part."""
    whole = media.v_mp4[0].numpy()
    assert whole.shape == (6, 24, 32, 3)
    kind = type(file_codec("mp4"))
    monkeypatch.setattr(kind, "decode", lambda *_, **__: pytest.fail("the whole video was decoded"))
    for part in (0, -1, slice(2, 4), slice(None, None, 3), slice(5, 1, -2), slice(3, 3)):
        assert np.array_equal(media.v_mp4[0][part].numpy(), whole[part]), part
    assert np.array_equal(media.v_mp4[0, 1:3, 4:6, :, 0].numpy(), whole[1:3, 4:6, :, 0])
    assert np.array_equal(media.v_mp4[:, 4].numpy(), np.stack([whole[4]] * 2))
    assert np.array_equal(media.v_mp4[1][2:5][1].numpy(), whole[2:5][1])


def test_times_of_frames(media: lakebed.Dataset) -> None:
    """Seconds of each frame, of a part those of its frames; other tensors and several videos have none."""
    times = media.v_mp4[0].timestamps
    assert times.shape == (6,)
    assert np.allclose(np.diff(times), 0.2)
    assert np.array_equal(media.v_mp4[0, 2:4].timestamps, times[2:4])
    with pytest.raises(ValueError, match="one sample"):
        _ = media.v_mp4.timestamps
    with pytest.raises(lakebed.errors.InvalidOperationError):
        _ = media.a_wav[0].timestamps


def test_parts_of_sounds_and_scans(media: lakebed.Dataset) -> None:
    for name in ("a_wav", "a_flac", "a_mp3", "n_nii", "n_nii_gz", "dcm", "stl"):
        whole = media[name][0].numpy()
        assert np.array_equal(media[name][0, 1:3].numpy(), whole[1:3]), name
        assert np.array_equal(media[name][0, -1].numpy(), whole[-1]), name
        assert media[name][0].numpy().dtype == media[name].dtype, name
        assert media[name][0].shape == whole.shape, name


def test_points_come_as_coordinates(media: lakebed.Dataset) -> None:
    """The shape on record counts all fields of a point; numpy() gives x, y, z."""
    assert media.las[0].shape == (5, 18)
    assert media.las[0].numpy().shape == (5, 3)
    assert media.las.numpy(aslist=True)[0].dtype == np.float32
    assert media.ply.numpy(aslist=True)[0].shape == (3, 3)


def test_facts_on_record(media: lakebed.Dataset, golden: Path) -> None:
    """sample_info is what the hidden tensor says: a dict for one sample, a list for several, None without one."""
    info = media.v_mp4[0].sample_info
    assert info["shape"] == [6, 24, 32, 3]
    assert media.v_mp4.sample_info == [info, media.v_mp4[1].sample_info]
    assert lakebed.load(golden / "f03_htypes", read_only=True).rgb[0].sample_info is None


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    """Images in files and in canvases, of one shape and of several, empty ones among them."""
    ds = create_on(new_memory())
    ragged: list[Any] = [PICTURE, None, PICTURE[:4], PICTURE[:, :3]]
    with ds:
        ds.create_tensor("png", htype="image", sample_compression="png").extend(ragged)
        ds.create_tensor("even", htype="image", sample_compression="png").extend([PICTURE] * 5)
        ds.create_tensor("canvas", htype="image", chunk_compression="png").extend(ragged)
        ds.create_tensor("grey", htype="image.gray", sample_compression="png").extend([PICTURE[..., 0]] * 2)
        ds.create_tensor("nothing", htype="image", sample_compression="png").extend([None, None])
        ds.create_tensor("text", htype="text").extend(["some text", ""])
        ds.create_tensor("complex", dtype="complex64").extend(COMPLEX)
    return ds


def test_images(ds: lakebed.Dataset) -> None:
    for name in ("png", "canvas"):
        found = ds[name].numpy(aslist=True)
        assert [a.shape for a in found] == [(9, 11, 3), (0, 0, 0), (4, 11, 3), (9, 3, 3)], name
        assert np.array_equal(found[0], PICTURE)
        assert np.array_equal(found[3], PICTURE[:, :3])
        with pytest.raises(lakebed.errors.DynamicTensorNumpyError):
            ds[name].numpy()
        assert np.array_equal(ds[name][0:4:2, 1:3].numpy(), np.stack([PICTURE[1:3]] * 2))
    assert np.array_equal(ds.even.numpy(), np.stack([PICTURE] * 5))
    assert ds.grey.numpy().shape == (2, 9, 11, 1)
    assert np.array_equal(ds.complex.numpy(), COMPLEX)


def test_batches_of_images(ds: lakebed.Dataset) -> None:
    """One array where the images of the tensor have one shape, else a list with None for nulls."""
    assert [batch["even"].shape for batch in ds.batches(2, ["even"])] == [(2, 9, 11, 3)] * 2 + [(1, 9, 11, 3)]
    parts = [batch["png"] for batch in ds.batches(3, ["png"])]
    assert [[None if image is None else image.shape for image in part] for part in parts] == [
        [(9, 11, 3), None, (4, 11, 3)],
        [(9, 3, 3)],
    ]
    picked = [batch["png"] for batch in ds[[3, 0]].batches(5, ["png"])]
    assert [image.shape for image in picked[0]] == [(9, 3, 3), (9, 11, 3)]


def test_only_empty_samples(ds: lakebed.Dataset) -> None:
    """Without dtype or rank there is nothing to give back, except for no rows at all."""
    for read in (ds.nothing.numpy, ds.nothing[0].numpy, lambda: ds.nothing.numpy(aslist=True)):
        with pytest.raises(lakebed.errors.EmptyTensorError):
            read()
    assert ds.nothing[0:0].numpy().shape[0] == 0
    assert ds.nothing[0:0].numpy(aslist=True) == []


def test_bytes(ds: lakebed.Dataset) -> None:
    """tobytes() gives the file of one sample; of canvases and of several samples there is none."""
    data = ds.png[0].tobytes()
    assert data[:4] == b"\x89PNG"
    assert ds.png[1].tobytes() == b""
    assert ds.text[0].tobytes() == b"some text"
    for bad in (ds.canvas[0], ds.png, ds.png[0:1], ds.png[0, 0]):
        with pytest.raises(ValueError, match=r"."):
            bad.tobytes()


def test_parts_of_texts(ds: lakebed.Dataset) -> None:
    """A text reads as an array of one item, which is what subscripts go into."""
    assert ds.text[0].numpy().tolist() == ["some text"]
    assert ds.text[0, 0].numpy().tolist() == "some text"
    assert ds.text.numpy().tolist() == [["some text"], [""]]
    assert ds.text[0].text() == "some text"


def test_shapes_of_parts(ds: lakebed.Dataset) -> None:
    """Extents follow the subscripts without reading a sample."""
    assert ds.png.shape == (4, None, None, None)
    assert ds.png[0, 2:5, ::2].shape == (3, 6, 3)
    assert ds.even[:, 2:5, 0].shape == (5, 3, 3)
    assert ds.even[0].shape == (9, 11, 3)
    assert ds.png[::2, :, 1:].shape == (2, None, 10, 3)
    assert ds.png.shapes().tolist() == [[9, 11, 3], [0, 0, 0], [4, 11, 3], [9, 3, 3]]
    assert ds.png[2].shapes().tolist() == [[4, 11, 3]]
    with pytest.raises(IndexError):
        ds.png[0, 1:2].shapes()


def test_dtypes_on_record() -> None:
    """Numbers of any kind are read little-endian; what is no dtype of numbers is damage."""
    assert stored_dtype("complex128") == np.dtype("<c16")
    assert stored_dtype(">f4") == np.dtype("<f4")
    assert stored_dtype(None) is None
    for name in ("spam", "U5", "V8"):
        with pytest.raises(lakebed.errors.FormatError, match="dtype"):
            stored_dtype(name)


def test_a_file_that_is_not_what_its_shape_row_says(ds: lakebed.Dataset) -> None:
    """Nothing is decoded, and nothing returned, when header and shape row disagree."""
    decoder = Decoder("png", ds.png.meta)
    data = ds.png[0].tobytes()
    assert decoder.array(data, (9, 11, 3)).shape == (9, 11, 3)
    for shape in [(9, 11, 4), (90_000, 90_000, 3), (1, 1, 1)]:
        with pytest.raises((lakebed.errors.FormatError, lakebed.errors.LimitError)):
            decoder.array(data, shape)
        with pytest.raises((lakebed.errors.FormatError, lakebed.errors.LimitError)):
            ds.png._reader.decode(data, shape)
    with pytest.raises(lakebed.errors.FormatError):
        decoder.array(b"GIF89a", (9, 11, 3))
