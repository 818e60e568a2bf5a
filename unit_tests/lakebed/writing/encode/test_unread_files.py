"""Long columns of files that nobody has read yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.writing.encode import files as encode_files

COUNT = 40


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few files are read at once, and about as many fill a chunk."""
    monkeypatch.setattr(encode_files, "_FILES_AT_ONCE", 7)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    random = np.random.default_rng(3)
    paths = []
    for n in range(COUNT):
        pixels = random.integers(0, 256, (30 + n, 40, 3), np.uint8)
        paths.append(tmp_path / f"{n}.jpg")
        Image.fromarray(pixels).save(paths[-1])
    return paths


def made(path: Path, **options: Any) -> lakebed.Dataset:
    dataset = lakebed.empty(path / "dataset")
    dataset.create_tensor("photo", htype="image", sample_compression="jpeg", max_chunk_size=20_000, **options)
    dataset.create_tensor("label", htype="class_label")
    return dataset


def check(dataset: lakebed.Dataset, paths: list[Path]) -> None:
    assert len(dataset) == len(paths)
    for row, path in enumerate(paths):
        assert dataset.photo[row].tobytes() == path.read_bytes()
        assert dataset.label[row].numpy().tolist() == [row]
        info = dataset.photo[row].sample_info
        assert info["filename"] == str(path)
        with Image.open(path) as image:
            assert tuple(info["shape"][:2]) == image.size[::-1]
            assert dataset.photo[row].shape[:2] == image.size[::-1]


def extend(dataset: lakebed.Dataset, paths: list[Path]) -> None:
    photos = [lakebed.read(path) for path in paths]
    dataset.extend({"photo": photos, "label": list(range(len(paths)))})


def test_slices_make_the_same_dataset_as_single_rows(tmp_path: Path, files: list[Path]) -> None:
    """Bytes, shapes and infos, before and after it is closed."""
    with made(tmp_path) as dataset:
        extend(dataset, files)
        check(dataset, files)
    check(lakebed.load(tmp_path / "dataset"), files)
    single = lakebed.empty(tmp_path / "single")
    single.create_tensor("photo", htype="image", sample_compression="jpeg")
    single.photo.append(lakebed.read(files[7]))
    assert dict(single.photo[0].sample_info) == dict(dataset.photo[7].sample_info)


def test_files_that_need_a_closer_look_get_one(tmp_path: Path, files: list[Path]) -> None:
    """Grey ones, those with EXIF data, large ones."""
    exif = Image.Exif()
    exif[0x010E] = "a pier"
    pixels = np.random.default_rng(1).integers(0, 256, (200, 200, 3), np.uint8)
    Image.fromarray(pixels).save(files[3], exif=exif)
    Image.fromarray(pixels[:50, :40, 0]).save(files[11])
    Image.fromarray(pixels).save(files[12], quality=98)
    with made(tmp_path) as dataset:
        extend(dataset, files)
        check(dataset, files)
        assert dataset.photo[3].sample_info["exif"] == {"ImageDescription": "a pier"}


def test_a_file_of_another_kind_is_encoded_anew(tmp_path: Path, files: list[Path]) -> None:
    """The others around it are stored as they are."""
    pixels = np.full((30, 40, 3), 77, np.uint8)
    Image.fromarray(pixels).save(files[5], format="png")
    dataset = made(tmp_path)
    extend(dataset, files)
    assert dataset.photo[5].tobytes()[:3] == b"\xff\xd8\xff"
    assert abs(dataset.photo[5].numpy().astype(int) - 77).max() <= 2
    assert dataset.photo[6].tobytes() == files[6].read_bytes()


@pytest.mark.parametrize("published", [False, True])
def test_a_file_that_is_not_there_takes_back_the_whole_call(
    tmp_path: Path, files: list[Path], published: bool
) -> None:
    """And nothing else: rows that wait from before stay; what was written for it is gone."""
    dataset = made(tmp_path)
    extend(dataset, files[:18])
    if published:
        dataset.flush()
    rows = {"photo": [lakebed.read(path) for path in files[18:]], "label": list(range(18, COUNT))}
    files[39].unlink()
    with pytest.raises(lakebed.errors.SampleExtendError, match=r"39\.jpg"):
        dataset.extend(rows)
    check(dataset, files[:18])
    extend(dataset, [])
    dataset.close()
    dataset = lakebed.load(tmp_path / "dataset")
    check(dataset, files[:18])
    stored = sum(path.stat().st_size for path in (tmp_path / "dataset").rglob("photo/chunks/*"))
    assert stored < 1.2 * sum(path.stat().st_size for path in files[:18])


def test_memory_does_not_grow_with_the_column(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample keeps nothing of the memory that its file was read into."""
    photos = [lakebed.read(path) for path in files]
    made(tmp_path).extend({"photo": photos, "label": list(range(COUNT))})
    assert all(photo.unread_path for photo in photos)
    assert np.array_equal(photos[4].array, np.asarray(Image.open(files[4])))
