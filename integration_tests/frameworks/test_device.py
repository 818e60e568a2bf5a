"""Batches on a device, one ahead. Where there is no GPU, the threads are those of CUDA, but not the copies."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.frameworks.lake import ROWS, broken

torch = pytest.importorskip("torch")
from lakebed.loaders.frameworks.device import DeviceLoader, moved  # noqa: E402 - after the line that may skip all this

pytestmark = pytest.mark.frameworks


def threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith(("lakebed-device", "lakebed-loader"))]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_batches_are_on_the_device(ds: lakebed.Dataset, device: str) -> None:
    loader = ds.pytorch(batch_size=8, tensors=["images", "labels", "texts"], shuffle=True).to(device)
    assert (len(loader), loader.batch_size) == (13, 8)
    for _ in range(2):
        rows = 0
        for batch in loader:
            assert batch["images"].device.type == batch["labels"].device.type == device
            assert isinstance(batch["texts"], list)
            if device == "cpu":
                for image, row in zip(batch["images"], batch["index"].flatten().tolist(), strict=True):
                    assert np.array_equal(image.numpy(), ds.images[row].numpy())
            rows += len(batch["texts"])
        assert rows == ROWS
    assert not threads()


def test_an_end_in_the_middle_leaves_no_thread(ds: lakebed.Dataset) -> None:
    loader = ds.pytorch(batch_size=2, tensors=["images"]).to("cpu")
    for n, _ in enumerate(loader):
        if n == 3:
            break
    gc.collect()
    assert not threads()
    state = loader.state_dict()
    assert state["epoch"] == 0
    assert state["position"] == 8


def test_an_error_arrives(ds: lakebed.Dataset) -> None:
    loader = ds.pytorch(broken, batch_size=2, tensors=["images", "labels"]).to("cpu")
    with pytest.raises(RuntimeError, match="row 40 is broken"):
        list(loader)
    assert not threads()


def test_what_is_moved() -> None:
    given: dict[str, Any] = {"a": torch.ones(2), "b": [torch.ones(1), "text"], "c": (torch.ones(1), 3)}
    found = moved(given, torch.device("meta"))
    assert found["a"].device.type == found["b"][0].device.type == found["c"][0].device.type == "meta"
    assert (found["b"][1], found["c"][1]) == ("text", 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_copies_overlap_and_keep_their_sources(ds: lakebed.Dataset) -> None:
    loader = DeviceLoader(ds.pytorch(batch_size=8, tensors=["images", "labels"]), "cuda")
    for batch in loader:
        index = batch["index"].flatten().tolist()
        assert all(
            np.array_equal(i.cpu().numpy(), ds.images[r].numpy())
            for i, r in zip(batch["images"], index, strict=True)
        )


class Compose:
    """Stands for torchvision's, of which there is no CPU build to install beside PyTorch's."""

    def __init__(self, transforms: list[Any]) -> None:
        self.transforms = transforms


Compose.__module__ = "torchvision.transforms.transforms"


def _step(name: str, **attributes: Any) -> Any:
    return type(name, (), {"__module__": "torchvision.transforms.transforms", **attributes})()


@pytest.mark.parametrize("decode", [{}, {"images": "pil"}])
def test_declared_operations_of_a_transform_by_tensor(ds: lakebed.Dataset, decode: dict[str, str]) -> None:
    crop = _step("CenterCrop", size=(4, 4))
    flip = _step("RandomHorizontalFlip", p=1.0)
    as_tensor = _step("ToTensor")

    def brighter(image: Any) -> Any:
        assert isinstance(image, torch.Tensor)
        return image + 1

    for rest, shift in (([], 0), ([brighter], 1)):
        transform: dict[str, Any] = {"images": Compose([crop, flip, as_tensor, *rest]), "labels": None}
        loader = ds.pytorch(transform, batch_size=8, decode_method=decode)
        (batch, *_) = loader
        assert list(batch) != []
        assert (tuple(batch["images"].shape), batch["images"].dtype) == ((8, 3, 4, 4), torch.float32)
        wanted = ds.images[:8].numpy()[:, 2:6, 2:6][:, :, ::-1].transpose(0, 3, 1, 2) / 255 + shift
        np.testing.assert_allclose(batch["images"].numpy(), wanted, atol=1e-6)
        assert batch["labels"].flatten().tolist() == [0, 1] * 4
