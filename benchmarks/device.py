"""Photos to a GPU: the loader beside a plain DataLoader with torchvision, in one run of at most six minutes.

``make device`` makes the photos, trains a ResNet on them from each source for a while, and asks queries with vectors on
the device. Where there is a CUDA device, figures go into RESULTS.md with its name. Without one, the same programs run
on the CPU, and figures about a card are left out.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
import torch
import torchvision
from torchvision.io import decode_image, decode_jpeg, read_file
from torchvision.transforms import v2

import lakebed
from benchmarks.results import put
from lakebed.loaders import ops
from lakebed.loaders.frameworks.device import DeviceLoader
from lakebed.runtime.failures import outcome

Batch = tuple[torch.Tensor, torch.Tensor]

TOTAL_SECONDS = 330.0
"""Time after which no further part of the program begins."""


@dataclass
class Figures:
    """What one source of batches brought.

    Attributes
    ----------
    idle
        Share of the time between steps, in which the device waits or decodes; None without a GPU.
    moved
        Bytes that were copied to the device.
    """

    images: int = 0
    seconds: float = 0.0
    idle: float | None = None
    moved: int = 0


def photos(folder: Path, count: int, size: int) -> lakebed.Dataset:
    """Make JPEG files of soft noise with about the sizes of photos, as files and as a dataset."""
    rng = np.random.default_rng(11)
    ds = lakebed.empty(str(folder / "lake"))
    ds.create_tensor("photo", htype="image", sample_compression="jpeg")
    ds.create_tensor("label", htype="class_label", class_names=[f"class {i}" for i in range(10)])
    (folder / "files").mkdir()
    scale = torch.nn.functional.interpolate
    with ds:
        for i in range(count):
            coarse = torch.from_numpy(rng.integers(0, 256, (1, 3, 24, 32)).astype(np.float32))
            side = int(size * rng.uniform(0.8, 1.25))
            soft = scale(coarse, (side * 3 // 4, side), mode="bilinear")[0].permute(1, 2, 0).numpy()
            noise = rng.integers(-12, 13, soft.shape)
            pixels = np.ascontiguousarray(np.clip(soft + noise, 0, 255).astype(np.uint8))
            path = folder / f"files/{i % 10}-{i}.jpg"
            path.write_bytes(simplejpeg.encode_jpeg(pixels, quality=90))
            ds.append({"photo": lakebed.read(path), "label": i % 10})
    return ds


class Consumer:
    """A training step of a ResNet, on batches of uint8 of shape (n, 3, h, w); `busy` are the seconds of all steps."""

    def __init__(self, device: torch.device, *, is_small: bool) -> None:
        make = torchvision.models.resnet18 if is_small else torchvision.models.resnet50
        self.device = device
        self.model = make(num_classes=10).to(device)
        self._optimizer = torch.optim.SGD(self.model.parameters(), 0.01)
        self._events: list[tuple[Any, Any]] = []

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Train on a batch, without waiting for the device."""
        is_cuda = self.device.type == "cuda"
        began, ended = (torch.cuda.Event(enable_timing=True) if is_cuda else None for _ in range(2))
        if began is not None:
            began.record()
        with torch.autocast(self.device.type, torch.bfloat16):
            found = self.model(images.float() / 255)
        loss = torch.nn.functional.cross_entropy(found.float(), labels)
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()
        if ended is not None:
            ended.record()
            self._events.append((began, ended))

    def busy(self) -> float:
        """Wait for the device, and return the seconds of all steps since the last call."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        found: float = sum(began.elapsed_time(ended) for began, ended in self._events) / 1e3
        self._events.clear()
        return found


# -- sources of batches ----------------------------------------------------------------------------------------------


def lake_batches(ds: lakebed.Dataset, given: argparse.Namespace, device: torch.device) -> Iterator[Batch]:
    """Yield batches of the loader: decoded and cropped on threads, copied from pinned memory on a stream of its own."""
    transform = {"photo": ops.RandomResizedCrop(given.crop), "label": None}
    loader = ds.pytorch(
        transform=transform, batch_size=given.batch, shuffle=True, drop_last=True, pin_memory=True
    )
    for batch in DeviceLoader(loader, device):
        yield batch["photo"].permute(0, 3, 1, 2), batch["label"][:, 0]


def lake_files(ds: lakebed.Dataset, given: argparse.Namespace, device: torch.device) -> Iterator[Batch]:
    """Yield batches of the loader whose JPEG files go to the device and are decoded there."""
    loader = ds.pytorch(
        tensors=["photo", "label"],
        decode_method={"photo": "tobytes"},
        batch_size=given.batch,
        shuffle=True,
        drop_last=True,
    )
    crop = v2.RandomResizedCrop(given.crop, antialias=True)
    for batch in loader:
        files = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in batch["photo"]]
        pictures = decode_jpeg(files, device=device)
        yield torch.stack([crop(picture) for picture in pictures]), batch["label"][:, 0].to(device)


class Files(torch.utils.data.Dataset[Any]):  # type: ignore[misc]
    """Photos of a folder, as torchvision reads them."""

    def __init__(self, folder: Path, crop: int) -> None:
        self._files = sorted(folder.iterdir())
        self._crop = v2.RandomResizedCrop(crop, antialias=True)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        path = self._files[number]
        return self._crop(decode_image(read_file(str(path)))), int(path.name.partition("-")[0])


def plain_batches(folder: Path, given: argparse.Namespace, device: torch.device) -> Iterator[Batch]:
    """Yield batches of a DataLoader with worker processes, from pinned memory where there is a GPU."""
    loader = torch.utils.data.DataLoader(
        Files(folder, given.crop),
        batch_size=given.batch,
        shuffle=True,
        drop_last=True,
        num_workers=given.workers,
        pin_memory=device.type == "cuda",
    )
    for images, labels in loader:
        yield images.to(device, non_blocking=True), labels.to(device, non_blocking=True)


def measured(
    batches: Callable[[], Iterable[Batch]], consumer: Consumer, seconds: float, bytes_of: int | None
) -> Figures:
    """Train from a source for some seconds, after two batches that do not count.

    Parameters
    ----------
    bytes_of
        Bytes of an image on the way to the device; None if pixels are copied.
    """
    found = Figures()
    began = 0.0
    seen = 0
    while not found.seconds:
        for images, labels in batches():
            consumer.step(images, labels)
            seen += 1
            if seen == 2:
                consumer.busy()
                began = time.perf_counter()
            elif seen > 2:
                found.images += len(images)
                sent = images.nbytes if bytes_of is None else bytes_of * len(images)
                found.moved += sent + labels.nbytes
                if time.perf_counter() - began >= seconds:
                    break
        else:
            continue  # the next epoch
        busy = consumer.busy()
        found.seconds = time.perf_counter() - began
        if consumer.device.type == "cuda":
            found.idle = 1 - busy / found.seconds
    return found


# -- queries ---------------------------------------------------------------------------------------------------------


def queries(folder: Path, rows: int, device: torch.device) -> list[str]:
    """Ask for the nearest vectors with NumPy and with PyTorch on the device; both must find the same rows."""
    ds = lakebed.empty(str(folder / "vectors"))
    ds.create_tensor("vector", htype="embedding", dtype="float32")
    rng = np.random.default_rng(4)
    with ds:
        ds.extend({"vector": rng.normal(size=(rows, 256)).astype(np.float32)})
    wanted = rng.normal(size=256).astype(np.float32)
    texts = {
        "cosine": "SELECT * ORDER BY cosine_similarity(vector, ?) DESC LIMIT 10",
        "distance": "SELECT * ORDER BY l2_norm(vector - ?) LIMIT 10",
    }
    lines = [f"| {rows:,} vectors of 256 float32 | NumPy | PyTorch on {device.type} |", "|---|---:|---:|"]
    for name, text in texts.items():
        times, found = [], []
        for namespace, place in ((None, None), ("torch", str(device))):
            runs = []
            for _ in range(3):
                began = time.perf_counter()
                nearest = ds.query(text, parameters=[wanted], namespace=namespace, device=place)
                found.append(list(nearest.sample_indices))
                runs.append(time.perf_counter() - began)
            times.append(min(runs))
        if found[0] != found[-1]:
            raise AssertionError(f"{name}: NumPy found rows {found[0]}, PyTorch {found[-1]}")
        lines.append(f"| {name} | {times[0] * 1e3:.1f} ms | {times[1] * 1e3:.1f} ms |")
    return lines


# -- the program -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Make, train, ask, print; save if there is a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=4_000)
    parser.add_argument("--size", type=int, default=500, help="mean width of a photo")
    parser.add_argument("--crop", type=int, default=224)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the plain DataLoader")
    parser.add_argument("--seconds", type=float, default=25.0, help="of training from each source")
    parser.add_argument("--vectors", type=int, default=200_000)
    parser.add_argument("--folder", type=Path, help="where data is made; a temporary folder by default")
    given = parser.parse_args()
    began = time.monotonic()
    is_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if is_cuda else "cpu")
    card = torch.cuda.get_device_name() if is_cuda else "no GPU"
    with tempfile.TemporaryDirectory(dir=given.folder) as place:
        folder = Path(place)
        ds = photos(folder, given.photos, given.size)
        file_bytes = sum(path.stat().st_size for path in (folder / "files").iterdir()) // given.photos
        print(f"{card}; {given.photos:,} photos of {file_bytes:,} bytes made", flush=True)
        consumer = Consumer(device, is_small=not is_cuda)
        sources: dict[str, tuple[Callable[[], Iterable[Batch]], int | None]] = {
            "lakebed, decoded on threads": (lambda: lake_batches(ds, given, device), None),
            "lakebed, JPEG files decoded on the device": (lambda: lake_files(ds, given, device), file_bytes),
            "DataLoader, torchvision": (lambda: plain_batches(folder / "files", given, device), None),
        }
        lines = ["| source | images/s | GPU outside of steps | MB/s over the bus |", "|---|---:|---:|---:|"]
        for name, (batches, bytes_of) in sources.items():
            if time.monotonic() - began > TOTAL_SECONDS - 2 * given.seconds:
                lines.append(f"| {name} | out of time | | |")
                continue
            tried = outcome(measured, batches, consumer, given.seconds, bytes_of, kind=RuntimeError)
            if tried.error is not None:
                lines.append(f"| {name} | cannot run here: {str(tried.error).splitlines()[0]} | | |")
                print(lines[-1], flush=True)
                continue
            found = tried.result()
            rate = found.images / found.seconds
            idle = "" if found.idle is None else f"{found.idle:.0%}"
            bus = "" if found.idle is None else f"{found.moved / found.seconds / 1e6:.0f}"
            lines.append(f"| {name} | {rate:,.0f} | {idle} | {bus} |")
            print(lines[-1], flush=True)
        lines += ["", *queries(folder, given.vectors, device)]
    about = (
        f"`make device`: {card}, {os.cpu_count()} cores, PyTorch {torch.__version__}, torchvision "
        f"{torchvision.__version__}. {given.photos:,} JPEG files of {file_bytes / 1e3:.0f} kB, cropped at random to "
        f"{given.crop}x{given.crop}, batches of {given.batch}; the consumer is a step of "
        f"{type(consumer.model).__name__} in bfloat16. {time.monotonic() - began:.0f} s in all."
    )
    print("\n".join(["", about, "", *lines]))
    if is_cuda:
        put("benchmarks.device", "Photos to a GPU", [about, "", *lines])
    else:
        print("\nno GPU: figures for a card are left out, and nothing is saved")


if __name__ == "__main__":
    main()
