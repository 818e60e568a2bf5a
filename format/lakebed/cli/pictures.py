"""``lakebed head --images``: the pictures of the first rows as files, byte for byte where they are stored as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click

import lakebed

_PICTURES = ("image", "image.rgb", "image.gray", "binary_mask", "segment_mask")
_SUFFIXES = {"jpeg": "jpg", "jpeg2000": "jp2", "tiff": "tif"}
_OTHERS = re.compile(r"[^\w-]+")


def write_pictures(
    ds: lakebed.Dataset, rows: int, tensors: Sequence[str], folder: str, *, overwrite: bool
) -> list[str]:
    """Write the pictures of the first rows into a folder, as ``TENSOR-ROW.SUFFIX``.

    Returns
    -------
    Their paths. Nulls, empty samples and links have no file.

    Raises
    ------
    click.ClickException
        If there are no pictures, or a file is there already.
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
            if 0 in sample.shape:
                continue
            path = root / f"{_OTHERS.sub('_', name)}-{row:06d}.{_suffix(sample)}"
            _write(path, sample, is_free=overwrite and str(path) not in written)
            written.append(str(path))
    return written


def _suffix(sample: lakebed.Tensor) -> str:
    compression = _stored_as(sample)
    return _SUFFIXES.get(compression, compression)


def _stored_as(sample: lakebed.Tensor) -> str:
    """Return the kind of file that a sample is stored as; what is none becomes a PNG."""
    compression = sample.meta.sample_compression
    return "png" if compression in (None, "lz4") else str(compression)


def _write(path: Path, sample: lakebed.Tensor, *, is_free: bool) -> None:
    try:
        with path.open("wb" if is_free else "xb") as file:
            if sample.meta.sample_compression in (None, "lz4"):
                sample.pil().save(file, "png")
                return
            try:
                file.write(sample.tobytes())
            except NotImplementedError:  # in tiles: no file, but pixels
                sample.pil().save(file, _stored_as(sample))
    except FileExistsError:
        raise click.ClickException(
            f"{path} is there already: choose another folder, or pass --overwrite"
        ) from None
