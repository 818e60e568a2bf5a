"""Fuzz targets: files that samples are stored as (images, sounds, videos, scans, meshes), image chunks, polygons."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.chunks.chunk import parse_chunk
from lakebed.chunks.image_chunk import chunk_codec
from lakebed.codecs.registry import IMAGE_NAMES, byte_codec, file_codec, sniff
from lakebed.documents.json_style import encode_custom
from lakebed.errors import LakebedError
from lakebed.htypes.polygon import decode_polygons
from unit_tests.lakebed.fuzz.chunks import Place, chunk_files
from unit_tests.lakebed.fuzz.harness import Case, Target

_LARGEST = 12_000
_MOST = 30

# Calls in the suite, where a decoder takes longer than microseconds: the part of `make soak` makes up for it.
_FEWER = {"mp4": 150, "mkv": 150, "avi": 150, "mp3": 400, "flac": 400, "wav": 600, "dcm": 600, "las": 400}
_IMAGES = 1_500
_OTHERS = 1_500


def _read(name: str) -> Callable[[Case], None]:
    def read(case: Case) -> None:
        """Use all that a codec offers; what it says beforehand is what comes out."""
        codec = file_codec(name)
        assert codec is not None
        errors: list[LakebedError] = []

        def tried(call: Callable[[], Any]) -> Any:
            try:
                return call()
            except LakebedError as error:
                errors.append(error)
                return None

        tried(lambda: sniff(case.data))
        facts = tried(lambda: codec.facts(case.data))
        array = tried(lambda: codec.decode(case.data))
        as_promised = codec.traits.decodes_as_recorded and codec.traits.exact_length
        if facts is not None and array is not None and as_promised:
            assert array.size == math.prod(facts.shape), (array.shape, facts)
        selection = (0, slice(1, 3), -1, slice(None, None, -2))[len(case.data) % 4]
        with contextlib.suppress(IndexError):
            tried(lambda: codec.part(case.data, selection))
        metadata = tried(lambda: codec.metadata(case.data))
        json.dumps(encode_custom(metadata))
        if errors:
            raise errors[0]

    return read


def _canvas(case: Case) -> None:
    place: Place = case.context
    chunk = parse_chunk(case.data, place.count, chunk_codec(place.compression, place.meta.dtype))
    shapes, offsets = chunk.shapes(), chunk.offsets()
    for i in range(place.count):
        assert len(chunk.sample(i)) == offsets[i + 1] - offsets[i] == math.prod(map(int, shapes[i]))


def _polygons(case: Case) -> None:
    shape, dtype = case.context
    for polygon in decode_polygons(case.data, shape, dtype):
        assert polygon.shape[1:] == shape[2:]


def _stored(files: list[Case], wanted: Callable[[Place], bool]) -> Iterator[tuple[Place, bytes, Any]]:
    for case in files:
        place: Place = case.context
        if wanted(place) and not place.meta.is_link:
            chunk = parse_chunk(case.data, place.count, byte_codec(place.compression))
            for i in range(place.count):
                yield place, bytes(chunk.sample(i)), chunk.shape(i)


def _chosen(cases: list[Case]) -> list[Case]:
    found = {hashlib.sha256(case.data).digest(): case for case in cases if 0 < len(case.data) <= _LARGEST}
    return [found[key] for key in sorted(found)[:_MOST]]


def _made(name: str) -> Iterator[bytes]:
    """Small files that our own encoders make, where the golden datasets have none."""
    codec = file_codec(name)
    rng = np.random.default_rng(0)
    assert codec is not None
    if name == "wav":
        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setparams((2, 2, 8000, 0, "NONE", ""))
            out.writeframes(rng.bytes(400))
        yield file.getvalue()
    if not codec.can_encode:
        return
    arrays: list[NDArray[Any]] = [
        rng.integers(0, 255, (9, 7, 3), np.uint8),
        rng.integers(0, 255, (8, 5), np.uint8),
        rng.integers(0, 255, (6, 6, 4), np.uint8),
        rng.integers(0, 2, (16, 8)).astype(np.bool_),
        rng.integers(0, 60_000, (5, 6), np.uint16),
    ]
    for array in arrays:
        try:
            yield codec.encode(array)
        except LakebedError:
            continue


IMAGES = sorted(IMAGE_NAMES - {"fli", "wmf", "eps", "dcm"})
OTHERS = ["avi", "dcm", "flac", "las", "mkv", "mp3", "mp4", "nii", "nii.gz", "ply", "stl", "wav"]
NAMES = [*IMAGES, *OTHERS, "image chunk", "polygons"]


def targets(golden: Path) -> list[Target]:
    """Every kind of file, image chunks and polygons."""
    files = list(chunk_files(golden))
    by_name: dict[str, list[Case]] = {
        name: [Case(data) for data in _made(name)] for name in (*IMAGES, *OTHERS)
    }
    for place, data, _ in _stored(files, lambda place: place.meta.sample_compression in by_name):
        by_name[str(place.meta.sample_compression)].append(Case(data))
    canvases = [
        case for case in files if case.context.compression in IMAGE_NAMES and not case.context.meta.is_link
    ]
    polygons = [
        Case(data, (shape, np.dtype(place.meta.dtype)))
        for place, data, shape in _stored(files, lambda place: place.meta.htype == "polygon")
        if place.meta.sample_compression is None
    ]
    found = [
        Target(
            name,
            _read(name),
            _chosen(cases) or sorted(cases, key=lambda case: len(case.data))[:1],
            suite=_IMAGES if name in IMAGES else _FEWER.get(name, _OTHERS),
        )
        for name, cases in by_name.items()
    ]
    return [
        *found,
        Target("image chunk", _canvas, _chosen(canvases), suite=_IMAGES),
        Target("polygons", _polygons, _chosen(polygons)),
    ]
