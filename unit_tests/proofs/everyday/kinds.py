"""Kinds of tensors that a user makes on an ordinary day, and samples for them.

NumPy is all that this needs, as Deep Lake 3.9.52 runs the same programs in an environment of its own.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Random = np.random.Generator
Shape = tuple[int, ...]

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
BYTES: tuple[dict[str, str], ...] = ({}, {"sample_compression": "lz4"}, {"chunk_compression": "lz4"})
EXACT_IMAGES = ("png", "bmp", "tiff", "jpeg2000", "dib", "ppm", "sgi", "tga", "pcx")
LOSSY_IMAGES = ("jpeg", "webp")
CLASSES = [f"class {number}" for number in range(12)]
LETTERS = [*string.ascii_letters, " ", "\n", '"', "\\", "/", "0"]
FOREIGN = ["é", "€", "𐍈", "霧", "\t", "\x00"]


@dataclass(frozen=True)
class Kind:
    """One tensor as it is created, and what its samples look like.

    `axes` are those of a sample of numbers: None may have any length. `largest` bounds a free axis of ordinary samples.
    """

    options: dict[str, Any]
    form: str
    """`array`, `text`, `json`, `list`, `tag` or `polygon`: what a sample is in Python."""
    dtype: str = ""
    axes: tuple[int | None, ...] = ()
    is_sequence: bool = False
    lossy: bool = False
    labels: bool = False
    smooth: bool = False
    """Samples are pictures."""
    smallest: int = 0
    """Of a free axis."""
    info: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return ", ".join([self.form, *(f"{k}={v!r}" for k, v in self.options.items()), str(self.axes)])

    @property
    def family(self) -> str:
        """The htype, for lists of what differs."""
        return str(self.options.get("htype", "generic"))

    @property
    def is_scalar(self) -> bool:
        """Whether a sample is one number."""
        return self.form == "array" and self.axes == ()


def numbers(random: Random, dtype: str, shape: Shape) -> np.ndarray[Any, Any]:
    """Numbers of any dtype, all bits in use where they are whole."""
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape)).astype(bool)
    if dtype.startswith(("int", "uint")):
        limits = np.iinfo(dtype)
        return np.asarray(random.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True))
    values = np.asarray(random.standard_normal(shape))
    found = values + 1j * random.standard_normal(shape) if dtype.startswith("c") else values
    return np.asarray(found).astype(dtype)


def picture(random: Random, shape: Shape, dtype: str) -> np.ndarray[Any, Any]:
    """A smooth image, so that lossy compressions change it little."""
    if dtype == "bool":
        return numbers(random, dtype, shape)
    height, width = shape[:2]
    y, x = np.mgrid[0:height, 0:width]
    channels = shape[2] if len(shape) == 3 else 1
    planes = [
        np.abs((y * random.integers(1, 3) + x + random.integers(0, 400)) % 400 - 200) for _ in range(channels)
    ]
    return np.stack(planes, axis=-1).astype(dtype).reshape(shape)


def word(random: Random, longest: int) -> str:
    """A text, sometimes empty, mostly ASCII."""
    letters = LETTERS + FOREIGN if random.random() < 0.3 else LETTERS
    return "".join(random.choice(letters, int(random.integers(0, longest + 1))).tolist())


def document(random: Random, longest: int, depth: int = 0) -> Any:
    """A JSON value."""
    kind = int(random.integers(0, 7 if depth < 3 else 5))
    plain = (None, bool(random.integers(0, 2)), int(random.integers(-(2**53), 2**53)), float(random.random()))
    if kind < 4:
        return plain[kind]
    if kind == 4:
        return word(random, longest)
    children = [document(random, longest, depth + 1) for _ in range(int(random.integers(0, 4)))]
    return children if kind == 5 else {word(random, 9): child for child in children}


def sample(kind: Kind, random: Random, shape: Shape, longest: int) -> Any:
    """One sample (an item of one, for sequences); `shape` is for arrays, `longest` bounds texts."""
    if kind.form == "text":
        return word(random, longest)
    if kind.form == "json":
        value = document(random, longest)
        # 3.9.52 makes {} of []
        return value if isinstance(value, dict | list) and value else {"": value}
    if kind.form == "list":
        return [document(random, longest, 3) for _ in range(int(random.integers(0, 5)))]
    if kind.form == "tag":
        return [word(random, 9) for _ in range(int(random.integers(1, 4)))]
    if kind.form == "polygon":
        count = int(random.integers(1, 4))
        return [numbers(random, "float32", (int(random.integers(3, 7)), 2)) for _ in range(count)]
    if kind.labels:
        return random.integers(0, len(CLASSES), shape).astype("uint32")
    if kind.smooth:
        return picture(random, shape, kind.dtype)
    return numbers(random, kind.dtype, shape)


def shapes(kind: Kind, random: Random, count: int, largest: int) -> list[Shape]:
    """Shapes of so many samples: of one shape, ragged, growing, in runs, nearly alike, or some without anything."""
    free = [axis for axis, length in enumerate(kind.axes) if length is None]
    style = str(random.choice(["even", "ragged", "growing", "runs", "nearly", "holes"]))
    low = kind.smallest
    largest = max(largest, low + 3)
    base = [int(random.integers(max(low, 1), largest + 1)) if n is None else n for n in kind.axes]
    found = []
    for number in range(count):
        shape = list(base)
        for axis in free:
            if style == "ragged" or (style == "runs" and number % 5 == 4):
                shape[axis] = int(random.integers(low, largest + 1))
            elif style == "growing":
                shape[axis] = max(low, 1 + number * largest // count)
            elif style == "holes" and random.random() < 0.3:
                shape[axis] = low
        if style == "runs":
            base = list(shape)
        if style == "nearly" and free:
            shape[free[-1]] += number % 7
        found.append(tuple(shape))
    return found


def _compression(random: Random) -> dict[str, str]:
    return dict(BYTES[int(random.integers(0, 3))])


def _generic(random: Random) -> Kind:
    dtype = str(random.choice(DTYPES))
    rank = int(random.choice([0, 0, 1, 1, 2, 3]))
    axes: tuple[int | None, ...] = tuple(
        None if random.random() < 0.7 else int(random.integers(1, 5)) for _ in range(rank)
    )
    options: dict[str, Any] = {"dtype": dtype, **_compression(random)}
    if random.random() < 0.2:
        del options["dtype"]
    return Kind(options, "array", dtype, axes)


_PLAIN: tuple[tuple[str, str, tuple[int | None, ...]], ...] = (
    ("bbox", "float32", (None, 4)),
    ("bbox.3d", "float32", (None, 6)),
    ("binary_mask", "bool", (None, None)),
    ("segment_mask", "uint32", (None, None)),
    ("instance_label", "uint32", (None, None)),
    ("keypoints_coco", "int32", (None, None)),
    ("point", "int32", (None, 2)),
    ("intrinsics", "float32", (3, 3)),
    ("embedding", "float32", (8,)),
)
_INFO: dict[str, dict[str, Any]] = {
    "bbox": {"coords": {}},
    "bbox.3d": {"coords": {}},
    "segment_mask": {"class_names": []},
    "keypoints_coco": {"keypoints": [], "connections": []},
    "image": {"intrinsics": None},
}


def _plain(random: Random) -> Kind:
    name, dtype, axes = _PLAIN[int(random.integers(0, len(_PLAIN)))]
    smallest = 3 if name == "keypoints_coco" else 0
    options = {"htype": name, **_compression(random)}
    return Kind(options, "array", dtype, axes, smallest=smallest, info=_INFO.get(name, {}))


def _bare(random: Random) -> Kind:
    name, dtype, axes = (
        ("audio", "float64", (None, 2)),
        ("video", "uint8", (None, 4, 5, 3)),
        ("point_cloud", "float32", (None, 3)),
    )[int(random.integers(0, 3))]
    return Kind({"htype": name, "sample_compression": None}, "array", dtype, axes, smallest=1)


def _texts(random: Random) -> Kind:
    form = str(random.choice(["text", "text", "json", "list", "tag"]))
    return Kind({"htype": form, **_compression(random)}, form)


def _labels(random: Random) -> Kind:
    options = {"htype": "class_label", "class_names": list(CLASSES), **_compression(random)}
    axes: tuple[int | None, ...] = () if random.random() < 0.6 else (None,)
    return Kind(options, "array", "uint32", axes, labels=True, info={"class_names": list(CLASSES)})


def _polygons(random: Random) -> Kind:
    return Kind({"htype": "polygon", **_compression(random)}, "polygon", "float32")


def _images(random: Random) -> Kind:
    style = int(random.integers(0, 8))
    info = _INFO["image"]
    if style < 3:
        name = str(random.choice([*EXACT_IMAGES, *LOSSY_IMAGES]))
        options: dict[str, Any] = {"htype": "image", "sample_compression": name}
    elif style < 4:
        name = str(random.choice(["png", "bmp", "tiff", "jpeg", "webp"]))
        options = {"htype": "image", "chunk_compression": name}
    elif style < 6:
        name = ""
        options = {"htype": "image", **BYTES[int(random.integers(1, 3))]}
        if random.random() < 0.4:
            options = {"htype": "image", "sample_compression": None}
    elif style < 7:
        options = {"htype": "image.rgb", "sample_compression": "png"}
        return Kind(options, "array", "uint8", (None, None, 3), smooth=True, smallest=1)
    else:
        options = {"htype": "binary_mask", "sample_compression": "png"}
        return Kind(options, "array", "bool", (None, None, 1), smooth=True, smallest=1)
    axes: tuple[int | None, ...] = (None, None, 3)
    # Smaller ones bleed into their neighbours where a chunk is one JPEG.
    lossy = name in LOSSY_IMAGES
    smallest = 16 if lossy else 1
    return Kind(options, "array", "uint8", axes, smooth=True, lossy=lossy, smallest=smallest, info=info)


_FAMILIES: tuple[tuple[Callable[[Random], Kind], float], ...] = (
    (_generic, 0.4),
    (_plain, 0.15),
    (_bare, 0.03),
    (_texts, 0.2),
    (_labels, 0.07),
    (_polygons, 0.03),
    (_images, 0.12),
)


def kind_of(random: Random, chunk_bytes: int | None = None) -> Kind:
    """Draw a kind: any family, dtype, htype, compression, with or without companions, small or default chunks.

    Parameters
    ----------
    chunk_bytes
        The largest chunk, where programs draw one; None leaves it to the kind.
    """
    weights = [weight for _, weight in _FAMILIES]
    kind = _FAMILIES[int(random.choice(len(_FAMILIES), p=weights))][0](random)
    options = dict(kind.options)
    if random.random() < 0.2:
        options |= {
            "create_id_tensor": False,
            "create_shape_tensor": False,
            "create_sample_info_tensor": False,
        }
    small = int(random.choice([2_000, 10_000, 50_000])) if chunk_bytes is None else chunk_bytes
    if random.random() < 0.3:
        options["max_chunk_size"] = small
    tiles = kind.form == "array" and len(kind.axes) >= 2 and not kind.labels
    if tiles and random.random() < 0.25:
        options["tiling_threshold"] = int(random.choice([400, 3_000]))
    is_sequence = random.random() < 0.12 and kind.form != "tag" and _can_be_sequence(kind)
    if is_sequence:
        options["htype"] = f"sequence[{options.get('htype', 'generic')}]"
        options.pop("tiling_threshold", None)
    return Kind(
        options,
        kind.form,
        kind.dtype,
        kind.axes,
        is_sequence,
        kind.lossy,
        kind.labels,
        kind.smooth,
        kind.smallest,
        kind.info,
    )


def _can_be_sequence(kind: Kind) -> bool:
    return kind.family not in ("audio", "video", "point_cloud") and not kind.dtype.startswith("complex")
