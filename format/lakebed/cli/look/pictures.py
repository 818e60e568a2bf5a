"""``lakebed head --images``: the pictures of the first rows as files, byte for byte if they are stored as files."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path

import click

import lakebed
from lakebed.cli.cells import Damage
from lakebed.errors import FormatError

_PICTURES = ("image", "image.rgb", "image.gray", "binary_mask", "segment_mask")
_SUFFIXES = {"jpeg": "jpg", "jpeg2000": "jp2", "tiff": "tif"}
_OTHERS = re.compile(r"[^\w-]+")


def write_pictures(
    ds: lakebed.Dataset, rows: int, tensors: Sequence[str], folder: str, damage: Damage, *, overwrite: bool
) -> list[str]:
    """Write the pictures of the first rows into a folder, as ``TENSOR-ROW.SUFFIX``.

    Returns
    -------
    The paths of the files. Nulls, empty samples and links have no file; damaged samples have none either, and are
    recorded.

    Raises
    ------
    click.ClickException
        If no tensor holds pictures, or a file exists already.
    """
    chosen = {name: ds[name] for name in tensors}
    pictures = {
        name: tensor
        for name, tensor in chosen.items()
        if tensor.htype in _PICTURES and not tensor.is_link and not tensor.is_sequence
    }
    if not pictures:
        raise click.ClickException(
            "no tensor holds pictures (those that links lead to are fetched by `lakebed materialize`); "
            f"tensors: {', '.join(chosen) or 'none'}"
        )
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    for name, tensor in pictures.items():
        for row in range(min(rows, len(tensor))):
            sample = tensor[row]
            try:
                if 0 in sample.shape:
                    continue
                content = _content(sample)
            except FormatError as error:
                damage.note(name, row, error)
                continue
            kind = _stored_as(sample)
            path = root / f"{_OTHERS.sub('_', name)}-{row:06d}.{_SUFFIXES.get(kind, kind)}"
            _write(path, content, is_free=overwrite and str(path) not in written)
            written.append(str(path))
    return written


def _stored_as(sample: lakebed.Tensor) -> str:
    """Return the kind of file that a sample is stored as; a sample that is not stored as a file becomes a PNG."""
    compression = sample.meta.sample_compression
    return "png" if compression in (None, "lz4") else str(compression)


def _content(sample: lakebed.Tensor) -> bytes:
    """Return the file of a picture."""
    if sample.meta.sample_compression not in (None, "lz4"):
        try:
            return sample.tobytes()
        except NotImplementedError:  # a tiled sample is not a single file
            pass
    made = io.BytesIO()
    sample.pil().save(made, _stored_as(sample))
    return made.getvalue()


def _write(path: Path, content: bytes, *, is_free: bool) -> None:
    try:
        with path.open("wb" if is_free else "xb") as file:
            file.write(content)
    except FileExistsError:
        raise click.ClickException(
            f"{path} exists already: choose another folder, or pass --overwrite"
        ) from None
