"""Compositions of the real torchvision become declared operations, which make the same of photos as torchvision does.

torchvision lies in a folder of its own: where it is built for another PyTorch than the one beside it, its compiled
operators cannot be loaded, and whatever else imports it would fail. Its transforms need none of them.
"""

from __future__ import annotations

import importlib.util
import io
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import lakebed
from lakebed.codecs.regions import decode_regions
from lakebed.loaders import ops
from lakebed.loaders.draws import draws
from lakebed.loaders.recognition import recognised

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.frameworks

ROWS = 24
MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
# Of 255, as docs/design/025 says: where nothing is random; and on average, where files may be scaled by their decoder.
EXACT, SCALED = 1.01, 2.0


def _without_operators() -> None:
    """Let torchvision be imported without its own start, which registers its compiled operators."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("torchvision is not installed")
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    package = types.ModuleType("torchvision")
    package.__path__ = list(spec.submodule_search_locations)
    package.__spec__ = spec
    sys.modules["torchvision"] = package


@pytest.fixture(scope="module")
def vision() -> Any:
    """The module ``torchvision.transforms``, with ``v2`` in it."""
    sys.path.append(str(Path(sys.prefix) / "torchvision"))
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        pytest.skip("torchvision is not installed")
    except RuntimeError:  # "operator torchvision::nms does not exist"
        _without_operators()
    importlib.import_module("torchvision.transforms.v2")
    return importlib.import_module("torchvision.transforms")


def photo(row: int) -> np.ndarray[Any, Any]:
    """Return a smooth picture with edges, of a size of its own."""
    random = np.random.default_rng(row)
    small = random.integers(0, 255, (12, 15, 3), dtype=np.uint8)
    size = (int(random.integers(200, 420)), int(random.integers(160, 380)))
    picture = np.array(Image.fromarray(small).resize(size, Image.Resampling.BICUBIC))
    picture[40:90, 30:100] = 255 - picture[40:90, 30:100]
    return picture


@pytest.fixture(scope="module", params=["jpeg", "png"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> lakebed.Dataset:
    ds = lakebed.empty(str(tmp_path_factory.mktemp("vision") / "ds"))
    ds.create_tensor("images", htype="image", sample_compression=request.param)
    ds.create_tensor("labels", htype="class_label")
    with ds:
        for row in range(ROWS):
            file = io.BytesIO()
            Image.fromarray(photo(row)).save(file, request.param)
            ds.append({"images": lakebed.read(file.getvalue()), "labels": row})
    return ds


@pytest.fixture
def regions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the files that the region decoder has decoded."""
    decoded: list[int] = []
    decode = decode_regions

    def counted(*args: Any, **kwargs: Any) -> Any:
        statuses = decode(*args, **kwargs)
        decoded.append(int((statuses == 0).sum()))
        return statuses

    monkeypatch.setattr("lakebed.loaders.shaped.decode_regions", counted)
    return decoded


def evaluations(vision: Any) -> dict[str, Any]:
    """Compositions without chance, as users write them."""
    v1, v2 = vision, vision.v2
    normal = v2.Normalize(MEAN, DEVIATION)
    floats = v2.ToDtype(torch.float32, scale=True)
    return {
        "v2": v2.Compose([v2.ToImage(), v2.Resize(160, antialias=True), v2.CenterCrop(128), floats, normal]),
        "v2, image last": v2.Compose([v2.Resize(160), v2.CenterCrop(128), v2.ToImage(), floats, normal]),
        "v1": v1.Compose([v1.Resize(160), v1.CenterCrop(128), v1.ToTensor(), v1.Normalize(MEAN, DEVIATION)]),
        "of Pillow": v1.Compose([v1.ToPILImage(), v1.Resize((96, 120)), v1.ToTensor()]),
        "exact size": v2.Compose([v2.ToImage(), v2.Resize((96, 120)), floats]),
        "longest side": v2.Compose([v2.ToImage(), v2.Resize(150, max_size=170), v2.CenterCrop(120), floats]),
        "crop of whole": v2.Compose([v2.ToImage(), v2.CenterCrop((100, 90)), floats, normal]),
        "padded": v2.Compose([v2.ToImage(), v2.CenterCrop(500), floats]),
        "bytes": v2.Compose([v2.ToImage(), v2.Resize(160), v2.CenterCrop(128)]),
        "nested": v2.Compose([v2.Compose([v2.ToImage(), v2.Resize(160)]), v2.CenterCrop(128), floats]),
        "upwards": v2.Compose([v2.ToImage(), v2.Resize((500, 480)), floats]),
    }


def steps_of(transform: Any) -> Iterator[Any]:
    """Yield the steps of a composition, and of those in it."""
    for step in transform.transforms:
        if type(step).__name__ == "Compose":
            yield from steps_of(step)
        else:
            yield step


def apart(found: Any, wanted: Any, transform: Any) -> np.ndarray[Any, Any]:
    """Return by how many 255ths two images differ that a composition made."""
    assert (tuple(found.shape), found.dtype) == (tuple(wanted.shape), wanted.dtype)
    if found.dtype == torch.uint8:
        return np.asarray(np.abs(np.asarray(found, np.float64) - np.asarray(wanted)))
    is_normal = any(type(step).__name__ == "Normalize" for step in steps_of(transform))
    factors = np.reshape(DEVIATION if is_normal else [1.0] * 3, (3, 1, 1)) * 255
    return np.asarray(np.abs(np.asarray(found, np.float64) - np.asarray(wanted)) * factors)


def images_of(loader: Any) -> Iterator[tuple[int, Any]]:
    """Yield row and image."""
    for batch in loader:
        yield from zip(batch["labels"].flatten().tolist(), batch["images"], strict=True)


def test_evaluation_is_that_of_torchvision(vision: Any, lake: lakebed.Dataset, regions: list[int]) -> None:
    for name, transform in evaluations(vision).items():
        regions.clear()
        loader = lake.pytorch({"images": transform, "labels": None}, batch_size=8)
        assert loader.is_whole, f"{name}: no sample passes through Python"
        takes_arrays = type(next(steps_of(transform))).__name__ in ("ToImage", "ToPILImage")
        rows = 0
        for row, image in images_of(loader):
            pixels = lake.images[row].numpy()
            wanted = transform(pixels if takes_arrays else Image.fromarray(pixels))
            assert apart(image, wanted, transform).max() < EXACT, name
            rows += 1
        assert rows == ROWS
        if lake.images.meta.sample_compression == "jpeg":
            assert sum(regions) == ROWS, f"{name}: the region decoder has each file"


def test_a_random_crop_is_that_of_torchvision(vision: Any, lake: lakebed.Dataset, regions: list[int]) -> None:
    """Of the boxes that were drawn, torchvision makes what came out, but for what the decoder scales down."""
    v2 = vision.v2
    floats, normal = v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, DEVIATION)
    flips = v2.RandomHorizontalFlip(0.5)
    transform = v2.Compose([v2.ToImage(), v2.RandomResizedCrop(96, antialias=True), flips, floats, normal])
    loader = lake.pytorch({"images": transform, "labels": None}, batch_size=8, shuffle=True)
    assert loader.is_whole
    found = dict(images_of(loader))
    assert sorted(found) == list(range(ROWS))
    operations = recognised(transform).operations
    extents = np.array([lake.images[row].numpy().shape for row in range(ROWS)])
    (geometry,) = operations.geometries(
        extents, draws(loader.loader.seed, 0, np.arange(ROWS), operations.draws)
    )
    means = []
    for row in range(ROWS):
        top, left, height, width = geometry.boxes[row].tolist()
        image = v2.functional.to_image(lake.images[row].numpy())
        cut = v2.functional.resized_crop(image, top, left, height, width, [96, 96], antialias=True)
        wanted = normal(floats(cut.flip(-1) if geometry.flips[row] else cut))
        means.append(apart(found[row], wanted, transform).mean())
    assert max(means) < SCALED
    assert np.median(means) < 1
    assert set(geometry.flips.tolist()) == {0, 1}
    if lake.images.meta.sample_compression == "jpeg":
        assert sum(regions) == ROWS


def test_boxes_are_drawn_as_torchvision_draws_them(vision: Any) -> None:
    """Area, shape and place have the same distributions."""
    count, height, width = 10_000, 300, 451
    for given in ({}, {"scale": (0.5, 0.9), "ratio": (0.5, 1.0)}):
        crop = vision.v2.RandomResizedCrop(64, **given)
        operations = recognised(crop).operations
        extents = np.tile([height, width, 3], (count, 1))
        (geometry,) = operations.geometries(extents, draws(1, 0, np.arange(count), operations.draws))
        torch.manual_seed(1)
        blank = torch.zeros((3, height, width), dtype=torch.uint8)
        theirs = np.array(
            [[drawn[key] for key in ("top", "left", "height", "width")]
             for drawn in (crop.make_params([blank]) for _ in range(count))]
        )  # fmt: skip
        # Kolmogorov and Smirnov: of samples of one distribution, one of a thousand pairs is further apart.
        limit = 1.95 * (2 / count) ** 0.5
        for ours, others in zip(measures(geometry.boxes), measures(theirs), strict=True):
            both = np.sort(np.concatenate([ours, others]))
            shares = [
                np.searchsorted(np.sort(sample), both, side="right") / count for sample in (ours, others)
            ]
            assert np.abs(shares[0] - shares[1]).max() < limit


def measures(boxes: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Return area, shape and place of boxes: top, left, height, width."""
    top, left, height, width = boxes.astype(np.float64).T
    return [height * width, width / height, top, left]


def test_what_is_recognised(vision: Any) -> None:
    v1, v2 = vision, vision.v2
    meanings: list[tuple[Any, tuple[Any, ...]]] = [
        (v2.RandomResizedCrop(32, (0.5, 1.0)), (ops.RandomResizedCrop(32, (0.5, 1.0)),)),
        (v1.RandomResizedCrop((32, 48)), (ops.RandomResizedCrop((32, 48)),)),
        (v2.Resize([40]), (ops.Resize(40),)),
        (v2.Resize(40, max_size=60), (ops.Resize(40, 60),)),
        (v1.Resize((40, 50)), (ops.Resize((40, 50)),)),
        (v2.CenterCrop(8), (ops.CenterCrop(8),)),
        (v2.RandomCrop(8, padding=2), (ops.RandomCrop(8, 2),)),
        (
            v1.RandomCrop(8, padding=[1, 2, 3, 4], pad_if_needed=True),
            (ops.RandomCrop(8, (1, 2, 3, 4), True),),
        ),
        (v2.RandomHorizontalFlip(0.3), (ops.HorizontalFlip(0.3),)),
        (v2.PILToTensor(), (ops.ChannelsFirst(),)),
        (v1.ToTensor(), (ops.ChannelsFirst(), ops.ToFloat())),
        (v1.ConvertImageDtype(torch.float32), (ops.ToFloat(),)),
    ]
    for step, meaning in meanings:
        assert recognised(step).operations.operations == meaning
        assert recognised(step).rest == ()
    for step in (
        v2.RandomResizedCrop(32, interpolation=v2.InterpolationMode.NEAREST),
        v2.Resize(32, antialias=False),
        v2.Resize(32, interpolation=v1.InterpolationMode.BICUBIC),
        v2.RandomCrop(8, padding=2, padding_mode="reflect"),
        v2.RandomCrop(8, padding=2, fill=7),
        v2.ToDtype(torch.float16, scale=True),
        v2.ToDtype(torch.float32),
        v2.ColorJitter(0.5),
    ):
        assert recognised(step).rest == (step,)


def test_steps_that_are_left_get_what_torchvision_gives_them(vision: Any, lake: lakebed.Dataset) -> None:
    v2 = vision.v2
    image = sys.modules["torchvision.tv_tensors"].Image
    floats = v2.ToDtype(torch.float32, scale=True)
    by_kind = v2.ToDtype({image: torch.float32, "others": None}, scale=True)
    head = [v2.ToImage(), v2.Resize(100), v2.CenterCrop(90)]
    for transform, taken in (
        (v2.Compose([*head, by_kind]), 3),
        (v2.Compose([*head, floats, v2.RandomInvert(1.0)]), 4),
        (v2.Compose([*head, v2.RandomInvert(1.0), v2.ToPureTensor(), floats]), 3),
        (v2.Compose([v2.ToImage(), v2.Resize(100, v2.InterpolationMode.NEAREST), v2.CenterCrop(90)]), 1),
    ):
        assert len(recognised(transform).operations.operations) == taken
        for row, found in images_of(lake.pytorch({"images": transform, "labels": None}, batch_size=8)):
            wanted = transform(lake.images[row].numpy())
            assert apart(found, wanted, transform).max() < EXACT


def test_operations_of_torchvision_in_a_dataset_of_samples(vision: Any, lake: lakebed.Dataset) -> None:
    """Worker processes of a DataLoader, and samples by number."""
    v2 = vision.v2
    transform = v2.Compose(
        [v2.ToImage(), v2.Resize(100), v2.CenterCrop(90), v2.ToDtype(torch.float32, scale=True)]
    )
    for map_style in (False, True):
        dataset = lake.torch_dataset({"images": transform, "labels": None}, map_style=map_style)
        loader = torch.utils.data.DataLoader(dataset, 8, num_workers=2, multiprocessing_context="fork")
        found = dict(images_of(loader))
        assert sorted(found) == list(range(ROWS))
        wanted = transform(lake.images[5].numpy())
        assert apart(found[5], wanted, transform).max() < EXACT
