"""Images that declared operations crop, resize, flip and turn to floats, as they are decoded."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.errors import InvalidInputError
from lakebed.loaders import ops
from lakebed.loaders.draws import draws

ROWS = 24


def photo(row: int) -> np.ndarray[Any, Any]:
    """Something smooth, as JPEG leaves alone."""
    height, width = 90 + row % 5, 120 + row % 7
    y, x = np.mgrid[:height, :width]
    planes = [np.sin((x + row * k) / 17) * np.cos((y + 3 * row) / (11 + k)) for k in range(3)]
    return (127 + 120 * np.stack(planes, axis=2)).astype(np.uint8)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    ds = lakebed.empty(str(tmp_path_factory.mktemp("shaped") / "ds"))
    for kind in ("jpeg", "png", "webp"):
        ds.create_tensor(kind, htype="image", sample_compression=kind)
    ds.create_tensor("raw", dtype="uint8", tiling_threshold=-1)
    ds.create_tensor("lz4", dtype="uint8", chunk_compression="lz4", tiling_threshold=-1)
    ds.create_tensor("tiled", htype="image", sample_compression="png", tiling_threshold=20_000)
    ds.create_tensor("label", dtype="int64")
    with ds:
        for row in range(ROWS):
            ds.append({name: photo(row) for name in ds.tensors if name != "label"} | {"label": row})
    return ds


def expected(pixels: np.ndarray[Any, Any], geometry: ops.Geometry, i: int) -> np.ndarray[Any, Any]:
    """What Pillow makes of a box that is resized and mirrored."""
    top, left, height, width = geometry.boxes[i].tolist()
    tall, wide = geometry.resized[i].tolist()
    cut = np.ascontiguousarray(pixels[top : top + height, left : left + width])
    made = np.asarray(Image.fromarray(cut).resize((wide, tall), Image.Resampling.BILINEAR))
    return made[:, ::-1] if geometry.flips[i] else made


@pytest.mark.parametrize("name", ["jpeg", "png", "webp", "raw", "lz4", "tiled"])
@pytest.mark.parametrize("threads", [0, 3])
def test_random_crops_are_those_that_seed_epoch_and_row_decide(
    ds: lakebed.Dataset, name: str, threads: int
) -> None:
    operation = ops.RandomResizedCrop((40, 56), scale=(0.5, 1.0), flip=0.5)
    loader = lakebed.Loader(
        ds, 5, shuffle=True, seed=9, tensors=[name, "label"], operations={name: operation}, threads=threads
    )
    loader.set_epoch(3)
    tested = 0
    for batch in loader:
        assert batch[name].shape == (len(batch.rows), 40, 56, 3)
        for i, row in enumerate(batch.rows.tolist()):
            pixels = ds[name][row].numpy()
            chances = draws(9, 3, np.array([row]), operation.draws)
            (geometry,) = ops.Compose([operation]).geometries(np.array([pixels.shape]), chances)
            off = np.abs(batch[name][i].astype(int) - expected(pixels, geometry, 0).astype(int))
            assert off.max() <= 1
            assert batch["label"][i] == row
            tested += 1
    assert tested == ROWS


def test_images_come_out_at_sizes_of_their_own(ds: lakebed.Dataset) -> None:
    batches = list(lakebed.Loader(ds, 5, operations={"jpeg": ops.Resize(30)}, tensors=["jpeg"]))
    shapes = [image.shape for batch in batches for image in batch["jpeg"]]
    assert {min(shape[:2]) for shape in shapes} == {30}
    assert len(set(shapes)) > 3
    (flipped,) = lakebed.Loader(
        ds[:3], 3, operations={"png": ops.HorizontalFlip(1)}, tensors=["png"], ragged="list"
    )
    assert all(np.array_equal(flipped["png"][row], photo(row)[:, ::-1]) for row in range(3))


def test_evaluation_is_that_of_pillow_on_large_photos() -> None:
    """The decoder scales down only where operations are random, or if that is asked for."""
    ds = lakebed.empty("mem://evaluation-of-large-photos")
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    noise = np.random.default_rng(0).integers(0, 256, (240, 320, 3), np.uint8)
    ds.extend({"photo": [noise, noise]})
    whole = Image.fromarray(ds["photo"][0].numpy()).resize((53, 40), Image.Resampling.BILINEAR)
    for scaled, is_exact in ((None, True), (False, True), (True, False)):
        steps = ops.Compose([ops.Resize(40)], scaled=scaled)
        (batch,) = lakebed.Loader(ds, 2, operations={"photo": steps})
        off = np.abs(batch["photo"][0].astype(int) - np.asarray(whole).astype(int)).max()
        assert (off <= 1) == is_exact


def test_two_stages(ds: lakebed.Dataset) -> None:
    twice = ops.Compose([ops.Resize((60, 60)), ops.RandomResizedCrop(20, scale=(1, 1), ratio=(1, 1))])
    assert len(twice.stages) == 2
    for name in ("jpeg", "png"):
        (batch,) = lakebed.Loader(ds[:4], 4, operations={name: twice}, tensors=[name])
        for row in range(4):
            first = Image.fromarray(ds[name][row].numpy()).resize((60, 60), Image.Resampling.BILINEAR)
            wanted = np.asarray(first.resize((20, 20), Image.Resampling.BILINEAR)).astype(int)
            assert np.abs(batch[name][row].astype(int) - wanted).max() <= 2


@pytest.mark.parametrize("planar", [False, True])
def test_floats_and_channels_first(ds: lakebed.Dataset, planar: bool) -> None:
    steps = [ops.CenterCrop(32), ops.ToFloat(), ops.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))]
    given = _Composed([*([_to_image()] if planar else []), *steps]) if planar else ops.Compose(steps)
    (plain,) = lakebed.Loader(ds[:4], 4, operations={"png": ops.CenterCrop(32)}, tensors=["png"])
    (batch,) = lakebed.Loader(ds[:4], 4, operations={"png": given}, tensors=["png"])
    wanted = (plain["png"] / 255 - np.array([0.4, 0.5, 0.6])) / np.array([0.2, 0.3, 0.4])
    found = batch["png"].transpose(0, 2, 3, 1) if planar else batch["png"]
    assert batch["png"].dtype == np.float32
    assert batch["png"].flags.c_contiguous
    np.testing.assert_allclose(found, wanted, atol=1e-5)


class _Composed:
    """Stands for torchvision's Compose, which cannot be installed beside a CPU build of PyTorch here."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms


_Composed.__name__ = "Compose"
_Composed.__module__ = "torchvision.transforms.v2._container"


def _to_image() -> Any:
    kind = type("ToImage", (), {"__module__": "torchvision.transforms.v2._type_conversion"})
    return kind()


def test_what_follows_is_called_with_each_image(ds: lakebed.Dataset) -> None:
    def brighter(image: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        assert image.shape == (16, 16, 3)
        return image.astype(np.int32) + 1000

    given = [ops.CenterCrop(16), brighter]
    for arguments in (
        {"operations": {"png": given}},
        {"transform": {"png": given, "label": None}},
        {"operations": {"png": given}, "transform": lambda sample: sample},
    ):
        (batch,) = lakebed.Loader(ds[:4], 4, tensors=["png", "label"], **arguments)
        assert batch["png"].min() >= 1000
        assert batch["label"].ravel().tolist() == [0, 1, 2, 3]
    (batch,) = lakebed.Loader(ds[:4], 4, transform={"png": ops.CenterCrop(16)})
    assert list(batch) == ["png"]
    assert batch["png"].shape == (4, 16, 16, 3)


def test_the_same_after_a_resume_and_in_another_process_count(ds: lakebed.Dataset) -> None:
    def loader(rank: int = 0, world: int = 1) -> lakebed.Loader:
        operations = {"jpeg": ops.RandomResizedCrop(24, flip=0.5)}
        size = 6 // world
        return lakebed.Loader(
            ds, size, shuffle=True, seed=3, tensors=["jpeg"], operations=operations, rank=rank, world=world
        )

    whole = {
        int(row): image for batch in loader() for row, image in zip(batch.rows, batch["jpeg"], strict=True)
    }
    first = loader()
    iterator = iter(first)
    next(iterator)
    state = first.state_dict()
    for rank in range(3):
        again = loader(rank, 3)
        again.load_state_dict(state)
        for batch in pickle.loads(pickle.dumps(again)):
            for row, image in zip(batch.rows.tolist(), batch["jpeg"], strict=True):
                assert np.array_equal(image, whole[row])


def test_grey_photos_among_others_and_nulls(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("image", htype="image", sample_compression="jpeg")
    ds.create_tensor("flat", htype="image.gray", sample_compression="jpeg")
    for row in range(4):
        grey = photo(row)[..., :1]
        ds.append({"image": grey if row == 1 else photo(row), "flat": photo(row)[..., 0]})
    ds.append({"image": None, "flat": photo(4)[..., 0]})
    ds.flush()
    (batch,) = lakebed.Loader(ds, 5, operations={"image": ops.Resize((20, 30)), "flat": ops.Resize((20, 30))})
    assert batch["image"].shape == (5, 20, 30, 3)
    assert (batch["image"][1][..., 0] == batch["image"][1][..., 2]).all()
    assert not batch["image"][4].any()
    assert batch["flat"].shape in ((5, 20, 30), (5, 20, 30, 1))


def test_what_is_no_image_is_refused(ds: lakebed.Dataset) -> None:
    for arguments in (
        {"operations": {"label": ops.CenterCrop(3)}},
        {"operations": {"png": lambda image: image}},
        {"operations": {"nothing": ops.CenterCrop(3)}},
        {"operations": {"png": ops.CenterCrop(3)}, "decode": {"png": "bytes"}},
        {"operations": {"png": ops.CenterCrop(3)}, "transform": {"png": ops.CenterCrop(3)}},
        {"operations": {"png": ops.RandomCrop(1000)}},
    ):
        with pytest.raises(InvalidInputError):
            list(lakebed.Loader(ds, 4, **arguments))  # type: ignore[arg-type]


def test_a_damaged_photo_is_named(tmp_path: Path) -> None:
    ds = lakebed.empty(str(tmp_path / "ds"))
    ds.create_tensor("image", htype="image", sample_compression="jpeg", verify=False)
    made = io.BytesIO()
    Image.fromarray(photo(0)).save(made, "jpeg")
    (tmp_path / "cut.jpg").write_bytes(made.getvalue()[: len(made.getvalue()) // 2])
    for row in range(8):
        ds.append({"image": lakebed.read(str(tmp_path / "cut.jpg")) if row == 5 else photo(row)})
    ds.flush()
    operations = {"image": ops.RandomResizedCrop(20, scale=(1, 1))}
    with pytest.raises(lakebed.errors.LakebedError, match="row 5"):
        list(lakebed.Loader(ds, 4, operations=operations, threads=2))
    loader = lakebed.Loader(ds, 4, operations=operations, threads=2, on_error="skip")
    assert [int(row) for batch in loader for row in batch.rows] == [0, 1, 2, 3, 4, 6, 7]
