"""Large stored films: of a few frames no more is read than the index and what lies around them."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

import lakebed
from lakebed.reading.fetch import ChunkSource

FRAMES, HEIGHT, WIDTH = 120, 144, 192


@functools.cache
def film(container: str) -> bytes:
    """A film of noise, which no encoder makes small: some megabytes."""
    target, rng = io.BytesIO(), np.random.default_rng(1)
    with av.open(target, "w", format={"mkv": "matroska"}.get(container, container)) as out:
        stream = out.add_stream("mpeg4", rate=10)
        stream.height, stream.width, stream.pix_fmt = HEIGHT, WIDTH, "yuv420p"
        stream.codec_context.gop_size = 10
        stream.codec_context.bit_rate = 8_000_000
        for _ in range(FRAMES):
            picture = rng.integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        out.mux(stream.encode())
    return target.getvalue()


@functools.cache
def frames(container: str) -> NDArray[np.uint8]:
    with av.open(io.BytesIO(film(container))) as opened:
        return np.stack([frame.to_ndarray(format="rgb24") for frame in opened.decode(video=0)])


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of each piece that is read of a chunk, and of each chunk that is read as a whole."""
    found: list[int] = []
    piece, chunk = ChunkSource.piece, ChunkSource.chunk

    def counted(self: ChunkSource, chunk: Any, start: int, length: int) -> Any:
        found.append(length)
        return piece(self, chunk, start, length)

    def whole(self: ChunkSource, *given: Any, **more: Any) -> Any:
        found.append(1 << 30)
        return chunk(self, *given, **more)

    monkeypatch.setattr(ChunkSource, "piece", counted)
    monkeypatch.setattr(ChunkSource, "chunk", whole)
    return found


def stored(place: Path, container: str) -> lakebed.Dataset:
    with lakebed.empty(place) as ds:
        ds.create_tensor("films", htype="video", sample_compression=container)
        (place.parent / "film").write_bytes(film(container))
        ds.films.extend([lakebed.read(place.parent / "film", compression=container)] * 2)
        ds.commit()
    return lakebed.load(place, read_only=True)


@pytest.mark.parametrize("container", ["mp4", "avi"])
@pytest.mark.parametrize(
    "subscript", [0, 57, -1, slice(50, 53), slice(119, 100, -7), (slice(3, 5), slice(10, 20)), (5, 1, 2, 0)]
)
def test_frames_are_those_of_the_whole_film(
    tmp_path: Path, read: list[int], container: str, subscript: Any
) -> None:
    assert len(film(container)) > 2_000_000
    ds = stored(tmp_path / "ds", container)
    read.clear()
    assert np.array_equal(ds.films[1][subscript].numpy(), frames(container)[subscript])
    assert 0 < sum(read) < len(film(container)) // 2


def test_a_frame_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    ds = stored(tmp_path / "ds", "mp4")
    with pytest.raises(IndexError):
        ds.films[0][FRAMES].numpy()


def test_films_whose_index_lists_no_frames_are_read_as_a_whole(tmp_path: Path) -> None:
    ds = stored(tmp_path / "ds", "mkv")
    assert np.array_equal(ds.films[0][57].numpy(), frames("mkv")[57])


def test_a_film_that_is_not_what_its_chunk_says_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = stored(tmp_path / "ds", "mp4")
    from lakebed.reading.samples import SampleReader

    monkeypatch.setattr(SampleReader, "shape", lambda *_: (FRAMES + 1, HEIGHT, WIDTH, 3))
    with pytest.raises(lakebed.errors.FormatError, match="its chunk says"):
        ds.films[0][3].numpy()
