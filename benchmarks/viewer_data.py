"""What `benchmarks.viewer` looks at: made once, and kept in a folder."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import simplejpeg
from numpy.typing import NDArray

import lakebed
from integration_tests.viewer.lakes import CLASSES, photo

ROWS = 1_000_000
DISTINCT = 20_000
SIDE = 20_000
FILES = 10_000
FILM_BYTES = 1_000_000_000
RATE = 25
SECONDS = 10
"""Of the film that is repeated until it is long enough."""

Pixels = NDArray[np.uint8]


def made(path: Path, make: Callable[[Path], None]) -> Path:
    """Return what lies at a path, made if it is not there."""
    if not path.exists():
        print(f"making {path.name}, once", flush=True)
        partial = path.with_name(f"{path.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        make(partial)
        partial.rename(path)
        os.sync()
    return path


def _grain(side: int) -> NDArray[np.float64]:
    """What a camera adds: without it, files are a tenth as large."""
    return np.random.default_rng(1).normal(0, 9, (side, side, 3))


def _file(seed: int, width: int, height: int, grain: NDArray[np.float64]) -> bytes:
    left, top = seed * 13 % (grain.shape[1] - width), seed * 7 % (grain.shape[0] - height)
    pixels = photo(seed, width, height)[0] + grain[top : top + height, left : left + width]
    whole = np.ascontiguousarray(np.clip(pixels, 0, 255).astype(np.uint8))
    return bytes(simplejpeg.encode_jpeg(whole, quality=85, colorsubsampling="420"))


def photos(path: Path) -> None:
    """Write a million photos of 160 x 120 pixels, of which 20,000 are distinct, with a label and a score each."""
    grain = _grain(400)
    samples = [lakebed.read(_file(seed, 160, 120, grain)) for seed in range(DISTINCT)]
    draws = np.random.default_rng(2)
    ds = lakebed.empty(path)
    with ds:
        ds.create_tensor("images", htype="image", sample_compression="jpeg")
        ds.create_tensor("labels", htype="class_label", class_names=CLASSES)
        ds.create_tensor("score", dtype="float32")
        for _ in range(ROWS // DISTINCT):
            ds.images.extend(samples)
            ds.labels.extend(draws.integers(0, len(CLASSES), (DISTINCT, 1)).astype(np.uint32))
            ds.score.extend(draws.random(DISTINCT, dtype=np.float32))
    ds.commit("all")


def files(path: Path) -> None:
    """Write 10,000 distinct photos of 320 x 240 pixels as files, in a folder for each of ten classes."""
    grain = _grain(800)
    for seed in range(FILES):
        folder = path / f"class{seed % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed:05}.jpg").write_bytes(_file(seed, 320, 240, grain))


def large(path: Path) -> None:
    """Write an image of 20,000 x 20,000 pixels as JPEG, in tiles, without smaller copies."""
    side = SIDE // 10
    pixels = np.clip(photo(5, side, side)[0] + _grain(side), 0, 255).astype(np.uint8)
    ds = lakebed.empty(path)
    with ds:
        ds.create_tensor("image", htype="image", sample_compression="jpeg")
        ds.image.append(np.tile(pixels, (10, 10, 1)))
    ds.commit("all")


def films(path: Path) -> None:
    """Write a film of 1 GB twice: its index behind the frames, and before them."""
    packets, template = _packets()
    ds = lakebed.empty(path)
    with ds:
        ds.create_tensor("film", htype="video", sample_compression="mp4")
        for options in ({}, {"movflags": "faststart"}):
            file = path.with_name("film.mp4")
            _repeated(file, packets, template, options)
            ds.film.append(lakebed.read(str(file)))
            file.unlink()
    ds.commit("all")


def _packets() -> tuple[list[tuple[bytes, bool]], Any]:
    """Return ten seconds of 1280 x 720 with a key frame each, and the stream that they are of."""
    import av

    grain = np.random.default_rng(3).integers(-40, 40, (1000, 1500, 3))
    room = io.BytesIO()
    with av.open(room, "w", format="mp4") as container:
        options = {"g": str(RATE), "bf": "0", "preset": "ultrafast", "tune": "zerolatency"}
        stream: Any = container.add_stream("libx264", rate=RATE, options=options)
        stream.width, stream.height, stream.pix_fmt, stream.bit_rate = 1280, 720, "yuv420p", 6_000_000
        still = photo(9, 1280, 720)[0].astype(np.int64)
        for at in range(SECONDS * RATE):
            shaken = still + grain[at % 50 : at % 50 + 720, at % 70 : at % 70 + 1280] // 4
            frame = av.VideoFrame.from_ndarray(np.clip(shaken, 0, 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    room.seek(0)
    source: Any = av.open(room)
    demuxed = source.demux(source.streams.video[0])
    return [(bytes(one), bool(one.is_keyframe)) for one in demuxed if one.size], source.streams.video[0]


def _repeated(file: Path, packets: list[tuple[bytes, bool]], template: Any, options: dict[str, str]) -> None:
    from fractions import Fraction

    import av

    size, count = 0, 0
    with av.open(str(file), "w", format="mp4", options=options) as container:
        stream = container.add_stream_from_template(template)
        stream.time_base = Fraction(1, RATE)
        while size < FILM_BYTES:
            for content, is_key in packets:
                packet = av.Packet(content)
                packet.stream, packet.time_base = stream, Fraction(1, RATE)
                packet.pts = packet.dts = count
                packet.duration, packet.is_keyframe = 1, is_key
                container.mux(packet)
                size, count = size + len(content), count + 1
