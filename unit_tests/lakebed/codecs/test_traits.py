"""Each compression does what its row of traits says: each trait of each is tried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.image_chunk import chunk_codec
from lakebed.codecs.base import FileCodec
from lakebed.codecs.registry import NAMES, byte_codec, file_codec
from lakebed.codecs.remote_video import RemoteVideo
from lakebed.codecs.traits import TRAITS, is_plain, keeps_values
from lakebed.errors import LimitError, SampleCompressionError, UnsupportedCompressionError
from lakebed.links.part import Part
from lakebed.links.ranged import RangedFile
from unit_tests.lakebed.codecs.films import film, sound, tone, wav
from unit_tests.lakebed.codecs.scans import dicom, gzipped, las, nifti, ply, stl

RNG = np.random.default_rng(5)
ARRAYS: list[NDArray[Any]] = [
    RNG.integers(0, 255, (13, 17, 3), np.uint8),
    RNG.integers(0, 255, (13, 17), np.uint8),
    RNG.integers(0, 255, (13, 17, 4), np.uint8),
    RNG.integers(0, 60_000, (13, 17), np.uint16),
    RNG.random((13, 17)).astype(np.float32),
    RNG.integers(0, 2, (16, 24)).astype(np.bool_),
]
MADE: dict[str, Callable[[], bytes]] = {
    "dcm": lambda: dicom(ARRAYS[0]),
    "mp4": lambda: film("mp4"),
    "mkv": lambda: film("mkv"),
    "avi": lambda: film("avi"),
    "mp3": lambda: sound("mp3", "libmp3lame"),
    "flac": lambda: sound("flac", "flac"),
    "wav": lambda: wav(tone(2)),
    "nii": lambda: nifti(RNG.random((4, 5, 6)).astype(np.float32)),
    "nii.gz": lambda: gzipped(nifti(RNG.random((4, 5, 6)).astype(np.float32))),
    "las": lambda: las(7),
    "ply": lambda: ply([[0, 1, 2]]),
    "stl": lambda: stl(RNG.random((5, 3, 3)).astype(np.float32)),
}
# No program makes files of these kinds here: only what they refuse is tried.
UNMADE = frozenset({"fli", "wmf"})
FILE_NAMES = sorted(name for name in NAMES if TRAITS[name].kind != "bytes")
TRIED = [name for name in FILE_NAMES if name not in UNMADE]


def codec_of(name: str) -> FileCodec:
    codec = file_codec(name)
    assert codec is not None
    return codec


def encoded(name: str) -> list[tuple[NDArray[Any], bytes]]:
    """The arrays that a codec takes, and their files."""
    found = []
    for array in ARRAYS:
        try:
            found.append((array, codec_of(name).encode(array)))
        except SampleCompressionError:
            continue
    return found


def files_of(name: str) -> list[bytes]:
    return [MADE[name]()] if name in MADE else [data for _, data in encoded(name)]


def test_a_codec_shows_the_row_of_its_name() -> None:
    """There is a row for each compression, and no other."""
    for name in NAMES:
        codec = byte_codec(name) if TRAITS[name].kind == "bytes" else file_codec(name)
        assert codec is not None
        assert codec.traits is TRAITS[name]


@pytest.mark.parametrize("name", FILE_NAMES)
def test_encodes(name: str) -> None:
    assert bool(encoded(name)) == TRAITS[name].encodes == codec_of(name).can_encode


@pytest.mark.parametrize("name", sorted(NAMES))
def test_chunks(name: str) -> None:
    """What compresses whole chunks gives them back as far as it keeps values."""
    try:
        codec = chunk_codec(name, np.dtype(np.uint8))
    except (UnsupportedCompressionError, ValueError):
        codec = None
    assert (codec is not None) == TRAITS[name].chunks


@pytest.mark.parametrize("name", sorted(name for name in NAMES if TRAITS[name].lossless))
def test_lossless(name: str) -> None:
    assert keeps_values(name)
    if TRAITS[name].kind == "bytes":
        codec = byte_codec(name)
        assert codec is not None
        raw = RNG.bytes(5000)
        assert codec.decode(codec.encode(raw), len(raw)) == raw
        assert is_plain(name)
        return
    for array, data in encoded(name):
        found = codec_of(name).decode(data)
        assert np.array_equal(found, array), (array.shape, array.dtype)
    assert not is_plain(name)


def test_what_is_known_to_lose_is_not_called_lossless() -> None:
    """Some arrays that these take come back as others."""
    losing = {
        name
        for name in FILE_NAMES
        if any(not np.array_equal(codec_of(name).decode(data), array) for array, data in encoded(name))
    }
    assert {"jpeg", "mpo", "webp", "gif"} <= losing
    assert not any(TRAITS[name].lossless for name in losing)
    assert not keeps_values("unknown")
    assert not is_plain("unknown")


@pytest.mark.parametrize("name", TRIED)
def test_shapes(name: str) -> None:
    """What the header tells is what is decoded, but for point counts and sounds of which only decoding tells."""
    traits = TRAITS[name]
    for data in files_of(name):
        facts, found = codec_of(name).facts(data), codec_of(name).decode(data)
        if traits.decodes_as_recorded and traits.exact_length:
            assert facts.shape == found.shape
        elif traits.decodes_as_recorded:
            assert facts.shape[1:] == found.shape[1:]
        else:
            assert facts.shape != found[:, : traits.value_columns].shape
    if traits.shape_from_file:
        for array, data in encoded(name):
            assert codec_of(name).facts(data).shape == array.shape


@pytest.mark.parametrize("name", TRIED)
def test_limits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec that limits itself refuses what is larger than a sample may be; others leave that to the reader."""
    data = files_of(name)[0]
    monkeypatch.setattr(limits, "MAX_SAMPLE_BYTES", 10)
    if TRAITS[name].limits_itself:
        with pytest.raises(LimitError):
            codec_of(name).facts(data)


@pytest.mark.parametrize("name", TRIED)
def test_parts(name: str) -> None:
    """A part is the part of the whole; where that is cheaper, it is had from ranges of a file too."""
    data = files_of(name)[0]
    whole = codec_of(name).decode(data)
    if TRAITS[name].value_columns is not None:
        whole = whole[:, : TRAITS[name].value_columns]
    for selection in (0, slice(1, 3), slice(None, None, -2)):
        assert np.array_equal(codec_of(name).part(data, selection), whole[selection], equal_nan=True)
    if TRAITS[name].ranges:
        asked: list[int] = []

        def read(start: int, length: int, tag: object) -> Part:
            del tag
            asked.append(length)
            return Part(data[start : start + length], len(data))

        file = RangedFile(read, head=512)
        assert np.array_equal(RemoteVideo(name).part(file, slice(0, 2)), whole[:2])
        assert sum(asked) >= 512
    if TRAITS[name].parts:
        assert TRAITS[name].exact_length


@pytest.mark.parametrize("name", TRIED)
def test_decoding_into_an_array(name: str) -> None:
    """Files that decode in place return the array that was given; the direct way says so, and refuses others."""
    traits, codec = TRAITS[name], codec_of(name)
    if traits.decodes_into:
        for array, data in encoded(name):
            whole = codec.decode(data)
            room = np.empty(whole.shape, whole.dtype)
            assert codec.decode(data, room) is room
            assert np.array_equal(room, whole), (array.shape, array.dtype)
    assert hasattr(codec, "decode_as") == traits.decodes_directly
    if traits.decodes_directly:
        (array, data), *_ = encoded(name)
        room = np.empty(array.shape, np.uint8)
        assert codec.decode_as(data, room)  # type: ignore[attr-defined]
        assert np.array_equal(room, codec.decode(data))
        assert not codec.decode_as(b"no file", room)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", TRIED)
def test_headers(name: str) -> None:
    """Facts and description come from the beginning of a file; of many files, from one call."""
    traits, codec = TRAITS[name], codec_of(name)
    if traits.early_header:
        for _, data in encoded(name):
            head = data[:-40]
            assert codec.facts(head) == codec.facts(data)
            assert codec.metadata(head) == codec.metadata(data)
    if traits.header_scan is not None:
        files = files_of(name)
        offsets = np.cumsum([0, *map(len, files)], dtype=np.int64)
        shapes, flags = traits.header_scan(np.frombuffer(b"".join(files), np.uint8), offsets)
        assert len(shapes) == len(flags) == len(files)
        for shape, data in zip(shapes.tolist(), files, strict=True):
            expected = codec.facts(data).shape
            assert shape[:2] == list(expected[:2])
            assert shape[2] == (expected[2] if len(expected) == 3 else 1)
