"""Every htype with every compression and layout: how to make such a tensor, and samples for it."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from integration_tests.interop.datasets.perform import pack

Random = np.random.Generator
Shape = tuple[int, ...]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
BYTES: tuple[Mapping[str, str | None], ...] = (
    {},
    {"sample_compression": "lz4"},
    {"chunk_compression": "lz4"},
)
IN_TILES: tuple[Mapping[str, str | None], ...] = (
    {"sample_compression": "png"},
    {"chunk_compression": "png"},
    {"chunk_compression": "lz4"},
)
EXACT_IMAGES = ("png", "bmp", "tiff", "jpeg2000", "dib", "ppm", "sgi", "tga", "pcx")
LOSSY_IMAGES = ("jpeg", "webp")
FILES = dict(
    [
        *(("a.wav", "audio"), ("a.flac", "audio"), ("a.mp3", "audio")),
        *(("v.mp4", "video"), ("v.mkv", "video"), ("v.avi", "video")),
        *(("d.dcm", "dicom"), ("n.nii", "nifti"), ("n.nii.gz", "nifti")),
        *(("p.las", "point_cloud"), ("m.ply", "mesh"), ("s.stl", "mesh")),
    ]
)


@dataclass(frozen=True)
class Sample:
    """What a library is given (packed), and what must come back."""

    given: Any
    expected: Any

    @staticmethod
    def of(value: Any) -> Sample:
        """A value that comes back as it is."""
        return Sample(pack(value), value)


NONE = Sample({"value": None}, None)


@dataclass(frozen=True)
class Kind:
    """One htype in one compression and layout."""

    name: str
    """Begins with `sequence` where it is one, then the htype: that is what the model goes by."""
    options: dict[str, Any]
    make: Callable[[Random], Sample]
    info: dict[str, Any] = field(default_factory=dict)
    parts: bool = False
    """Whether a part of a sample can be assigned."""
    nones: bool = True
    """Whether None can be given."""
    updates: bool = True
    """Whether a sample can be replaced."""
    clears: bool = True
    """Whether 3.9.52 can append after a clear."""

    @property
    def lossy(self) -> bool:
        """Whether pixels change a little."""
        return any(name in self.name.split() for name in LOSSY_IMAGES)

    @property
    def sequence(self) -> bool:
        """Whether rows are lists of samples."""
        return self.name.startswith("sequence")


def numbers(random: Random, dtype: str, shape: Shape) -> Any:
    """Numbers of any dtype, all bits in use where they are whole."""
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape)).astype(bool)
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return np.asarray(random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    values = np.asarray(random.standard_normal(shape))
    return np.asarray(
        values + 1j * random.standard_normal(shape) if dtype.startswith("c") else values
    ).astype(dtype)


def _mask(dtype: str, random: Random) -> Sample:
    """A mask that is stored as an image: it gets a third axis."""
    given = numbers(random, dtype, (int(random.integers(4, 10)), int(random.integers(4, 10))))
    return Sample(pack(given), given[..., None])


def _array(dtype: str, low: Shape, high: Shape, random: Random) -> Sample:
    shape = tuple(int(random.integers(a, b + 1)) for a, b in zip(low, high, strict=True))
    return Sample.of(numbers(random, dtype, shape))


def picture(random: Random, height: int, width: int, channels: int) -> Any:
    """A smooth image, so that lossy compressions change it little."""
    y, x = np.mgrid[0:height, 0:width]
    planes = [(y * random.integers(1, 3) + x + random.integers(0, 60)) % 200 for _ in range(channels)]
    return np.stack(planes, axis=-1).astype(np.uint8)


def _picture(channels: int, low: int, high: int, random: Random) -> Sample:
    height, width = (int(n) for n in random.integers(low, high + 1, 2))
    image = picture(random, height, width, channels)
    if channels == 1 and random.random() < 0.5:
        return Sample(pack(image[..., 0]), image)
    return Sample.of(image)


def _gray(random: Random) -> Sample:
    image = picture(random, 9, int(random.integers(8, 14)), 1)
    return Sample(pack(image[..., 0]), image)


LETTERS = [*string.ascii_letters, "é", "€", "𐍈", " ", "\n", '"', "\\"]


def word(random: Random) -> str:
    """A text, sometimes empty."""
    return "".join(random.choice(LETTERS, int(random.integers(0, 20))).tolist())


def document(random: Random, depth: int = 0) -> Any:
    """A JSON document."""
    kind = int(random.integers(0, 7 if depth < 3 else 5))
    plain = (None, bool(random.integers(0, 2)), int(random.integers(-(2**53), 2**53)), float(random.random()))
    if kind < 4:
        return plain[kind]
    if kind == 4:
        return word(random)
    children = [document(random, depth + 1) for _ in range(int(random.integers(0, 4)))]
    return children if kind == 5 else {word(random): child for child in children}


def _text(random: Random) -> Sample:
    return Sample.of(word(random))


def _json(random: Random) -> Sample:
    value = document(random)
    value = value if isinstance(value, dict | list) and value else {"": value}  # 3.9.52 makes {} of []
    return Sample({"value": value}, value)


def _list(random: Random) -> Sample:
    values = [document(random, 3) for _ in range(int(random.integers(0, 5)))]
    return Sample({"value": values}, values)


def _tag(random: Random) -> Sample:
    values = [word(random) for _ in range(int(random.integers(1, 4)))]
    return Sample({"value": values}, values)


PLAIN: tuple[tuple[str, str, Shape, Shape], ...] = (
    ("bbox", "float32", (0, 4), (5, 4)),
    ("bbox.3d", "float32", (0, 6), (5, 6)),
    ("binary_mask", "bool", (4, 4), (9, 9)),
    ("segment_mask", "uint32", (4, 4), (9, 9)),
    ("instance_label", "uint32", (4, 4), (9, 9)),
    ("keypoints_coco", "int32", (3, 1), (3, 4)),
    ("point", "int32", (1, 2), (5, 2)),
    ("intrinsics", "float32", (3, 3), (3, 3)),
    ("embedding", "float32", (8,), (8,)),
)
BARE: tuple[tuple[str, str, Shape], ...] = (
    ("audio", "float64", (40, 2)),
    ("video", "uint8", (3, 8, 9, 3)),
    ("point_cloud", "float32", (9, 3)),
)
NAMES = ["cat", "dog", "cow"]


def _label(random: Random) -> Sample:
    found = random.integers(0, 3, int(random.integers(1, 4)))
    expected = found.astype("uint32")
    if random.random() < 0.5:
        return Sample(pack(expected), expected)
    return Sample({"value": [NAMES[index] for index in found]}, expected)


def _polygons(random: Random) -> Sample:
    count = int(random.integers(1, 4))
    return Sample.of([numbers(random, "float32", (int(random.integers(3, 7)), 2)) for _ in range(count)])


def _file(path: Path, random: Random) -> Sample:
    del random
    return Sample({"file": str(path)}, {"sha": hashlib.sha256(path.read_bytes()).hexdigest()})


def _image_file(path: Path, random: Random) -> Sample:
    del random
    pixels = np.array(Image.open(path))
    return Sample({"file": str(path)}, pixels if pixels.ndim == 3 else pixels[..., None])


def _link(paths: list[Path], random: Random) -> Sample:
    path = paths[int(random.integers(0, len(paths)))]
    return Sample({"link": str(path)}, _image_file(path, random).expected)


def _several(make: Callable[[Random], Sample], random: Random) -> Sample:
    samples = [make(random) for _ in range(int(random.integers(0, 4)))]
    return Sample({"items": [s.given for s in samples]}, [s.expected for s in samples])


def _how(compression: Mapping[str, str | None]) -> str:
    return " ".join(f"{key[0]}-{value}" for key, value in compression.items())


def arrays() -> Iterator[Kind]:
    """The htypes whose samples are arrays of numbers."""
    for number, dtype in enumerate(DTYPES):
        options = {"dtype": dtype, **BYTES[number % 3]}
        how = " ".join(map(str, BYTES[number % 3].values()))
        yield Kind(
            f"generic {dtype} fixed {how}", options, partial(_array, dtype, (2, 3), (2, 3)), parts=True
        )
        options = {"dtype": dtype, **BYTES[(number + 1) % 3]}
        yield Kind(
            f"generic {dtype} ragged", options, partial(_array, dtype, (0, 0, 1), (4, 5, 2)), parts=True
        )
        yield Kind(
            f"generic {dtype} scalar",
            {"dtype": dtype, **BYTES[(number + 2) % 3]},
            partial(_array, dtype, (), ()),
        )
    for compression in BYTES:
        how = _how(compression)
        for name, dtype, low, high in PLAIN:
            options = {"htype": name, **compression}
            yield Kind(
                f"{name} {how}", options, partial(_array, dtype, low, high), INFO.get(name, {}), parts=True
            )
        tiled = {"dtype": "int32", "tiling_threshold": 4000, **compression}
        yield Kind(f"generic tiled {how}", tiled, partial(_array, "int32", (5, 20), (60, 50)), parts=True)
        small = {"dtype": "int16", "max_chunk_size": 3000, **compression}
        yield Kind(
            f"generic small-chunks {how}", small, partial(_array, "int16", (0, 7), (90, 9)), parts=True
        )
        updates = "sample_compression" not in compression  # 3.9.52 cannot
        yield Kind(f"polygon {how}", {"htype": "polygon", **compression}, _polygons, updates=updates)
        labels = {"htype": "class_label", "class_names": NAMES, **compression}
        yield Kind(f"class_label {how}", labels, _label, {"class_names": NAMES}, clears=False)
    bare = {"create_id_tensor": False, "create_shape_tensor": False, "create_sample_info_tensor": False}
    yield Kind(
        "generic bare", {"dtype": "uint16", **bare}, partial(_array, "uint16", (0, 2), (5, 2)), parts=True
    )
    for name, dtype, high in BARE:
        low = (1, *high[1:])
        yield Kind(
            f"{name} arrays", {"htype": name, "sample_compression": None}, partial(_array, dtype, low, high)
        )


INFO: dict[str, dict[str, Any]] = {
    "bbox": {"coords": {}},
    "bbox.3d": {"coords": {}},
    "segment_mask": {"class_names": []},
    "keypoints_coco": {"keypoints": [], "connections": []},
}
INTRINSICS = {"intrinsics": None}


def documents() -> Iterator[Kind]:
    """Texts and JSON."""
    makers = {"text": _text, "json": _json, "list": _list, "tag": _tag}
    for compression in BYTES:
        how = _how(compression)
        for name, make in makers.items():
            yield Kind(f"{name} {how}", {"htype": name, **compression}, make)


def images() -> Iterator[Kind]:
    """Images in every compression, per sample and per chunk, tiled, with pyramids."""
    color = partial(_picture, 3, 9, 24)
    for name in (*EXACT_IMAGES, *LOSSY_IMAGES):
        options: dict[str, Any] = {"htype": "image", "sample_compression": name}
        yield Kind(f"image sample {name}", options, color, INTRINSICS, parts=name not in LOSSY_IMAGES)
    for name in ("png", "bmp", "tiff", "jpeg", "webp"):
        options = {"htype": "image", "chunk_compression": name}
        # 3.9.52 cannot read such a chunk when all its samples are empty.
        yield Kind(f"image chunk {name}", options, color, INTRINSICS, nones=False)
    for compression in ({"sample_compression": None}, *BYTES[1:]):
        options = {"htype": "image", **compression}
        yield Kind(f"image {_how(compression)}", options, color, INTRINSICS, parts=True)
    for channels in (1, 4):
        options = {"htype": "image", "sample_compression": "png"}
        make = partial(_picture, channels, 9, 24)
        yield Kind(f"image png channels {channels}", options, make, INTRINSICS, parts=True)
    for compression in IN_TILES:
        options = {"htype": "image", "tiling_threshold": 3000, **compression}
        make = partial(_picture, 3, 10, 60)
        nones = compression.get("chunk_compression") != "png"
        yield Kind(f"image tiled {_how(compression)}", options, make, INTRINSICS, parts=True, nones=nones)
    options = {"htype": "image", "sample_compression": "png", "downsampling": [2, 2]}
    make = partial(_picture, 3, 9, 60)
    yield Kind("image png pyramid", options, make, INTRINSICS, clears=False)  # 3.9.52 leaves the smallest
    options = {"htype": "image.rgb", "sample_compression": "png"}
    yield Kind("image.rgb png", options, color, parts=True, nones=False)
    yield Kind("image.gray png", {**options, "htype": "image.gray"}, _gray, nones=False)
    yield Kind("binary_mask png", {**options, "htype": "binary_mask"}, partial(_mask, "bool"))
    options = {"htype": "segment_mask", "sample_compression": "png", "dtype": "uint8"}
    yield Kind("segment_mask png", options, partial(_mask, "uint8"), INFO["segment_mask"])


def files(folder: Path) -> Iterator[Kind]:
    """Files that are kept as they are, and links to files."""
    for name, htype in FILES.items():
        options = {"htype": htype, "sample_compression": name.partition(".")[2]}
        yield Kind(f"{htype} file {name}", options, partial(_file, folder / name), nones=False)
    options = {"htype": "image", "sample_compression": "png"}
    yield Kind("image file png", options, partial(_image_file, folder / "a.png"), INTRINSICS)
    paths = [folder / name for name in ("a.png", "t0.png", "rgba.png")]
    linked = {"htype": "link[image]", "sample_compression": "png"}
    yield Kind("link image", linked, partial(_link, paths), INTRINSICS)
    unverified = {**linked, "verify": False}
    yield Kind("link image unverified", unverified, partial(_link, paths[:2]), INTRINSICS)
    linked = {"htype": "sequence[link[image]]", "sample_compression": "png"}
    yield Kind("sequence link image", linked, partial(_several, partial(_link, paths)), INTRINSICS)


def sequences(kinds: list[Kind]) -> Iterator[Kind]:
    """Sequences of what there is."""
    unfit = (
        "tag",
        "tiled",
        "pyramid",
        "file",
        "link",
        "bare",
        "complex",
        "gray",
        "video",
        "audio",
        "point_cloud",
    )
    for number, kind in enumerate(kinds):
        if any(word in kind.name for word in unfit) or (kind.name.startswith("generic") and number % 5):
            continue
        htype = kind.options.get("htype", "generic")
        options = {**kind.options, "htype": f"sequence[{htype}]"}
        yield Kind(
            f"sequence {kind.name}", options, partial(_several, kind.make), kind.info, clears=kind.clears
        )


def every(folder: Path) -> list[Kind]:
    """All kinds; `folder` holds the files."""
    flat = [*arrays(), *documents(), *images(), *files(folder)]
    return [*flat, *sequences(flat)]
