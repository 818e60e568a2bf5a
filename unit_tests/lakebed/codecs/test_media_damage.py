"""Damaged media files: every codec answers with values or with one of our errors, soon, whatever the bytes are."""

from __future__ import annotations

import random
import time
import warnings
from collections.abc import Callable

import numpy as np
import pytest

from lakebed.codecs.registry import file_codec
from lakebed.errors import FormatError, LimitError
from unit_tests.lakebed.codecs.films import film, sound, tone, wav
from unit_tests.lakebed.codecs.scans import dicom, gzipped, las, nifti, ply, stl, text_stl

STEPS = np.arange(24).reshape(2, 3, 4)
TRIANGLES = np.ones((3, 3, 3), dtype=np.float32)
FILES: dict[str, list[Callable[[], bytes]]] = {
    "mp4": [lambda: film("mp4", frames=6), lambda: film("mp4", "libx264", frames=6, b_frames=2)],
    "mkv": [lambda: film("mkv", frames=6)],
    "avi": [lambda: film("avi", frames=6, b_frames=2)],
    "mp3": [lambda: sound("mp3", "mp3")],
    "flac": [lambda: sound("flac", "flac")],
    "wav": [lambda: wav(tone(2, 300)), lambda: sound("wav", "adpcm_ms", 1, rate=8000)],
    "dcm": [lambda: dicom(STEPS[0].astype("<u2")), lambda: dicom(STEPS.astype("<i2"), frames=2)],
    "nii": [lambda: nifti(STEPS.astype("<i2")), lambda: nifti(STEPS / 7, stored="i2")],
    "nii.gz": [lambda: gzipped(nifti(STEPS.astype("<i2")))],
    "las": [lambda: las(5), lambda: las(5, 7, "1.4", "3f8")],
    "ply": [
        lambda: ply([[0, 1, 2]]),
        lambda: ply([[0, 1, 2, 3], [1, 2, 3]]),
        lambda: ply([[0, 1, 2]], text=True),
    ],
    "stl": [lambda: stl(TRIANGLES), lambda: text_stl(TRIANGLES)],
}
MUTATIONS = 250


def damaged(source: random.Random, data: bytes) -> bytes:
    """The file, cut, shortened, lengthened or with other bytes in a few places, more often near its beginning."""
    kind = source.random()
    at = source.randrange(len(data))
    if kind < 0.15:
        return data[:at]
    if kind < 0.25:
        return data[:at] + data[at + source.randrange(200) :]
    if kind < 0.35:
        return data[:at] + source.randbytes(source.randrange(1, 60)) + data[at:]
    found = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 4, 16])):
        at = source.randrange(min(len(found), source.choice([64, 400, len(found)])))
        width = source.choice([1, 1, 2, 4, 8])
        fill = [bytes(width), b"\xff" * width, source.randbytes(width), b"\xff" * (width - 1) + b"\x7f"]
        found[at : at + width] = source.choice(fill)
    return bytes(found)


@pytest.mark.parametrize("name", FILES)
def test_damage(name: str) -> None:
    """Nothing but FormatError and LimitError, in less than a second of CPU, and facts agree with what is decoded."""
    codec = file_codec(name)
    assert codec is not None
    files = [make() for make in FILES[name]]
    source = random.Random(name)
    for number in range(MUTATIONS):
        data = damaged(source, source.choice(files))
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                facts = codec.facts(data)
                assert isinstance(codec.metadata(data), dict)
                found = codec.decode(data)
                part = codec.part(data, slice(None, None, -2))
        except (FormatError, LimitError):
            continue
        finally:
            assert time.process_time() - started < 1, f"mutation {number}"
        if name != "ply":
            assert (found.shape, found.dtype.name) == (facts.shape, facts.dtype), f"mutation {number}"
        assert len(part) == (len(found) + 1) // 2


@pytest.mark.parametrize("name", FILES)
def test_bytes_of_nothing(name: str) -> None:
    """Empty, tiny and random data of any codec are format errors."""
    codec = file_codec(name)
    assert codec is not None
    for data in (b"", b"\0", b"ply\n", b"solid", bytes(1000), random.Random(1).randbytes(1000)):
        for call in (codec.facts, codec.decode, codec.metadata):
            with pytest.raises((FormatError, LimitError)):
                call(data)
