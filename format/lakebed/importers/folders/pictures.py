"""Images of several kinds in one tensor: the kind that the tensor stores, and the conversion of other kinds.

The kind with the most bytes is stored byte for byte; the few images of other kinds are re-encoded as that kind, with
the least loss. ``compression="lossless"`` stores several kinds as PNG instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakebed.codecs.images import Image, damage
from lakebed.codecs.registry import picture_codec
from lakebed.codecs.sample import LOSSY, Sample, became
from lakebed.errors import LakebedError
from lakebed.htypes.registry import FILE_KINDS
from lakebed.importers.core.plan import Media, Problem, TensorPlan, media
from lakebed.importers.core.source import Source, suffix_of
from lakebed.transforms.output import Skipped

IMAGE_KINDS: Mapping[str, str] = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), "jpeg"),
    **dict.fromkeys((".tif", ".tiff"), "tiff"),
    **dict.fromkeys((".jp2", ".j2k"), "jpeg2000"),
    **dict.fromkeys((".ppm", ".pgm"), "ppm"),
    **{f".{kind}": kind for kind in ("png", "gif", "bmp", "dib", "webp", "tga", "ico", "pcx")},
}
"""Kind of an image by the suffix of its file."""


def images_of(source: Source) -> list[str]:
    """Return the names of the images of a source."""
    return [name for name in source.files if suffix_of(name) in IMAGE_KINDS]


LOSSLESS = "lossless"
"""Option instead of a kind of image: no pixel is lost even if files are of several kinds."""

_SEVERAL = frozenset({"gif", "webp", "tiff"})
"""Kinds whose files may hold several pictures; a tensor reads the first one."""
_KEEPS = "; lossless=True (--lossless) stores all as PNG"


def form_of(
    found: Mapping[str, tuple[int, int]],
    compression: str | None = None,
    problems: list[Problem] | None = None,
    *,
    where: str = "images",
    supposed: str = "jpeg",
) -> str:
    """Return the kind of image that a tensor stores.

    Parameters
    ----------
    found
        Kind -> number of its files, and their bytes.
    compression
        Option of the user: a kind, ``auto`` or ``lossless``.
    problems
        List to which the report of converted files is added.
    where
        Name of the files, for messages.
    supposed
        Kind to return if no file of a known kind was found.
    """
    most = max(found, key=lambda kind: (found[kind][1], found[kind][0], kind), default=supposed)
    codec = picture_codec(most)
    if compression not in (None, "auto", LOSSLESS):
        chosen = str(compression)
    elif len(found) <= 1:
        chosen = next(iter(found), supposed)
    elif compression == LOSSLESS or codec is None or not codec.takes_colours:
        chosen = "png"
    else:
        chosen = most
    if chosen not in FILE_KINDS["image"]:
        chosen = "png"
    others = {kind: count for kind, (count, _) in found.items() if kind != chosen}
    if others and problems is not None and compression != LOSSLESS:
        told = ", ".join(f"{count:,} {kind.upper()}" for kind, count in sorted(others.items()))
        keeps = _KEEPS if chosen in LOSSY and compression in (None, "auto") else ""
        problems.append(Problem(where, f"{told} files are {became(chosen)}{keeps}", 0))
    return chosen


def counted(files: Iterable[tuple[str | None, int]]) -> dict[str, tuple[int, int]]:
    """Return the number and bytes of files by kind.

    Parameters
    ----------
    files
        Kind and size of each file; files of an unknown kind, None, are not counted.
    """
    found: dict[str, tuple[int, int]] = {}
    for kind, size in files:
        if kind is not None:
            count, nbytes = found.get(kind, (0, 0))
            found[kind] = count + 1, nbytes + size
    return found


def kind_of_images(
    source: Source,
    names: Iterable[str],
    compression: str | None = None,
    problems: list[Problem] | None = None,
) -> str:
    """Return the kind of image that a tensor of these files of a source stores, as :func:`form_of` does.

    Parameters
    ----------
    problems
        List to which the report of converted files is added; None if files are only linked.
    """
    files = ((IMAGE_KINDS.get(suffix_of(name)), source.files.get(name, 0)) for name in names)
    return form_of(counted(files), compression, problems)


def planned_images(
    source: Source,
    names: Iterable[str],
    problems: list[Problem],
    *,
    name: str = "images",
    link: bool = False,
    creds_key: str | None = None,
    compression: str | None = None,
) -> tuple[TensorPlan, Media]:
    """Return the tensor of the images with these names, and the maker of their values.

    Parameters
    ----------
    problems
        Takes the report of files that are converted.
    name
        Name of the tensor.
    link, creds_key, compression
        See :class:`~lakebed.importers.core.plan.ImageOptions`.
    """
    kind = kind_of_images(source, names, compression, None if link else problems)
    return media(name, "image", compression=kind, link=link), Media(source, link, creds_key)


@dataclass(frozen=True)
class Pictures:
    """Tensors of images, and the reports of rows that are made for them.

    Parameters
    ----------
    kinds
        Tensor -> the kind of image that it stores.
    lossless
        Whether to leave out rows whose pictures would lose something.
    """

    kinds: Mapping[str, str]
    lossless: bool = False

    @classmethod
    def of(cls, tensors: Sequence[TensorPlan], *, lossless: bool) -> Pictures:
        """Return the pictures of a plan."""
        kinds = {
            one.name: str(one.arguments["sample_compression"])
            for one in tensors
            if one.htype.removeprefix("sequence[").startswith("image")
            and one.arguments.get("sample_compression")
        }
        return cls(kinds, lossless)

    def look(self, row: Mapping[str, Any], where: Callable[[], str]) -> Iterator[Skipped]:
        """Inspect the pictures of a row: report changes in them, or that the row is left out."""
        for name, kind in self.kinds.items():
            value = row.get(name)
            for one in value if isinstance(value, list) else (value,):
                if type(one) is Sample:
                    yield from self._look(one, kind, where)

    def _look(self, sample: Sample, kind: str, where: Callable[[], str]) -> Iterator[Skipped]:
        if sample.unread_path is not None and kind not in _SEVERAL:
            named = IMAGE_KINDS.get(suffix_of(sample.unread_path))
            if named in (None, kind):
                sample.may_lose = not self.lossless
                return  # do not read the file now; storing the file reports a wrong suffix
        try:
            found = str(sample.compression)
            changes = list(_changes(sample, found, kind, lossless=self.lossless))
        except LakebedError:
            return  # the error is reported when the file is stored
        if self.lossless and found != kind and kind in LOSSY:
            yield Skipped(
                where(),
                f"it is {found.upper()}, and others are {kind.upper()}: it would lose something; "
                "compression='png' (--compression png) stores all as PNG",
            )
            return
        sample.may_lose = not self.lossless
        yield from (Skipped(where(), change, 0, is_change=True) for change in changes)


def _changes(sample: Sample, found: str, kind: str, *, lossless: bool) -> Iterator[str]:
    """Yield descriptions of the losses of a file of kind `found` that a tensor stores as `kind`; none if requested."""
    if found in _SEVERAL and _is_several(sample, found):
        yield f"{found.upper()} of several frames, of which the first one is read"
    if found == kind or picture_codec(found) is None:
        return  # storing the file reports an error if it is not an image
    sample.is_told = True
    if lossless and kind not in LOSSY:
        return
    yield f"{found.upper()} {became(kind)}"
    if kind in LOSSY and sample.dtype in ("uint16", "int32"):
        yield f"16 bits of {found.upper()} became 8"
    if kind == "jpeg" and found != "jpeg":
        with Image(found).opened(sample.buffer) as image, damage(found, sample.buffer):
            if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
                yield f"transparency of {found.upper()} left out"


def _is_several(sample: Sample, kind: str) -> bool:
    data = sample.buffer
    if kind == "webp":
        return bytes(data[12:16]) == b"VP8X" and len(data) > 20 and bool(data[20] & 2)
    with Image(kind).opened(data) as image, damage(kind, data):
        return bool(getattr(image, "is_animated", False))
