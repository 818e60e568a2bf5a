"""Videos elsewhere: parts are those of the whole, and cost the index and the scenes around them."""

from __future__ import annotations

import io
from functools import cache
from typing import Any

import av
import numpy as np
import pytest

from lakebed.codecs.remote_video import RemoteVideo
from lakebed.codecs.video import Video
from lakebed.errors import FormatError, LakebedError
from lakebed.links import ranged
from lakebed.links.part import Part
from lakebed.links.ranged import RangedFile

FRAMES, GOP = 120, 20
KINDS = {
    "mp4": ("mp4", "mpeg4", 0),
    "mp4 b": ("mp4", "mpeg4", 2),
    "avi": ("avi", "mpeg4", 0),
    "avi b": ("avi", "mpeg4", 2),
    "mkv": ("mkv", "mpeg4", 0),
}
SELECTIONS: list[Any] = [
    slice(50, 60), 5, 0, -1, slice(0, 3), slice(75, 45, -7), slice(None, None, 33), slice(19, 22), 20, 79,
    slice(117, 120), slice(None), slice(5, 5),
]  # fmt: skip


@cache
def movie(container: str, codec: str, b_frames: int, sound: bool = False) -> bytes:
    """A video that does not compress well, so that packets have some size."""
    noise = np.random.default_rng(0).integers(0, 255, (192, 256, 3), dtype=np.uint8)
    target = io.BytesIO()
    with av.open(target, "w", format={"mkv": "matroska"}.get(container, container)) as out:
        stream: Any = out.add_stream(codec, rate=25)
        stream.height, stream.width, stream.pix_fmt = 192, 256, "yuv420p"
        stream.bit_rate = 8_000_000
        stream.codec_context.gop_size, stream.codec_context.max_b_frames = GOP, b_frames
        voice: Any = (
            out.add_stream("pcm_s16le" if container == "avi" else "aac", rate=8000) if sound else None
        )
        for number in range(FRAMES):
            picture = np.roll(noise, 3 * number, axis=1) // 2 + number
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                out.mux(packet)
            if voice is not None:
                tone = av.AudioFrame.from_ndarray(
                    np.full((1, 320), number, np.int16), format="s16", layout="mono"
                )
                tone.sample_rate, tone.pts = 8000, 320 * number
                for sounding in voice.encode(tone):
                    out.mux(sounding)
        for packet in stream.encode():
            out.mux(packet)
    return target.getvalue()


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small films count as large."""
    monkeypatch.setattr(ranged, "_SMALL", 0)
    monkeypatch.setattr(ranged, "HEAD", 2048)


def elsewhere(data: bytes) -> RangedFile:
    return RangedFile(lambda start, length, _: Part(data[start : start + length], len(data)), head=2048)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_those_of_the_whole(kind: str) -> None:
    """Frames and times of any selection."""
    container = KINDS[kind][0]
    data = movie(*KINDS[kind])
    whole, times = Video(container).decode(data), Video(container).timestamps(data)
    for selection in SELECTIONS:
        assert np.array_equal(RemoteVideo(container).part(elsewhere(data), selection), whole[selection])
        assert np.array_equal(RemoteVideo(container).timestamps(elsewhere(data), selection), times[selection])
    for wrong in (FRAMES, -FRAMES - 1):
        with pytest.raises(IndexError):
            RemoteVideo(container).part(elsewhere(data), wrong)


@pytest.mark.parametrize("kind", KINDS)
def test_facts_and_metadata(kind: str) -> None:
    """As of the whole file."""
    container = KINDS[kind][0]
    data = movie(*KINDS[kind])
    file = elsewhere(data)
    assert RemoteVideo(container).described(file) == (
        Video(container).facts(data),
        Video(container).metadata(data),
    )
    assert container == "mkv" or file.fetched < len(data) // 3


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "mkv"])
def test_a_scene_costs_a_scene(kind: str) -> None:
    """Ten frames of the middle: the index, and less than two scenes of six."""
    data = movie(*KINDS[kind])
    file = elsewhere(data)
    RemoteVideo(KINDS[kind][0]).part(file, slice(62, 72))
    assert file.fetched < len(data) * 0.4


@pytest.mark.parametrize("container", ["mp4", "avi"])
def test_films_with_sound(container: str) -> None:
    """What is interleaved with the frames is passed over."""
    data = movie(container, "mpeg4", 0, sound=True)
    whole = Video(container).decode(data)
    file = elsewhere(data)
    assert np.array_equal(RemoteVideo(container).part(file, slice(62, 72)), whole[62:72])
    assert file.fetched < len(data) * 0.6


def test_damaged_films_are_errors_or_other_pictures() -> None:
    """Never anything else, wherever a byte is changed."""
    data = movie("mp4", "mpeg4", 0)
    chance = np.random.default_rng(3)
    moov = data.rindex(b"moov")
    for _ in range(60):
        at = int(chance.integers(moov, len(data)))
        broken = data[:at] + bytes([data[at] ^ (1 << int(chance.integers(8)))]) + data[at + 1 :]
        try:
            RemoteVideo("mp4").part(elsewhere(broken), slice(60, 63))
        except (LakebedError, IndexError):
            continue
    for cut in (100, len(data) // 2):
        with pytest.raises(FormatError):
            RemoteVideo("mp4").part(elsewhere(data[:cut]), 60)
