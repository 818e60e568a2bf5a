"""Display in notebooks: schema, first rows and thumbnails as HTML; one sample as image, sound or video.

The HTML has no scripts, all text is escaped, and a page has at most 200 kB. Links are shown by their addresses, and not
followed.
"""

from __future__ import annotations

import base64
import io
import json
from contextlib import suppress
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from lakebed.dataset.display.drawing import image_of, picture, show
from lakebed.errors import LakebedError
from lakebed.htypes.base import Storing
from lakebed.reading.columns.filled import moments_dtype
from lakebed.reading.columns.shown import ShownColumn
from lakebed.runtime.printable import aligned, printable, shortened
from lakebed.storage.address import shown
from lakebed.writing.structure import companions_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from PIL.Image import Image

_ROWS = 5
_COLUMNS = 30
_SCHEMA = 200
_TEXT = 80
_TOLD = 10  # maximum number of columns in the repr of rows
_WIDEST = 33
_THUMBNAIL = 96
_DRAWN = 480  # longest side of a row that is drawn with its annotations, in pixels
_PAGE_BYTES = 200_000
_THUMBNAIL_BYTES = 120_000  # maximum size of all thumbnails of a page together
_MOST_PIXELS = 50_000_000
_MOST_MEDIA = 10_000_000
_LAYER = "downsampled_"
_PICTURES = ("image", "image.rgb", "image.gray", "binary_mask", "segment_mask")
_MIME = {"wav": "audio/wav", "mp3": "audio/mpeg", "flac": "audio/flac", "mp4": "video/mp4"}


def described(tensor: Any) -> list[str]:
    """Describe a tensor by its metadata: htype, dtype, shape, compression, and the meaning of its numbers."""
    state = tensor._state  # noqa: SLF001 - part of the facade
    meta, info = state.meta, state.info
    axes = [low if low == high else None for low, high in zip(meta.min_shape, meta.max_shape, strict=False)]
    rows = 1 if tensor.is_single else len(tensor)
    shape = f"({', '.join([f'{rows:,}', *('*' if axis is None else str(axis) for axis in axes)])})"
    more = str(meta.sample_compression or meta.chunk_compression or "")
    logical = info.get("logical_type")
    if logical is not None and moments_dtype(logical) is not None:
        more = " ".join([str(logical), more]).strip()
    names = info.get("class_names")
    if meta.htype == "class_label" and isinstance(names, list | tuple) and names:
        more = f"{len(names):,} classes {more}".strip()
    dtype = "str" if tensor.dtype is not None and tensor.dtype.kind == "U" else str(tensor.dtype)
    return [printable(str(tensor.htype)), dtype, shape, printable(more)]


def view_text(ds: Any) -> str:
    """Return the ``repr`` of a dataset; for a selection of rows, the text includes values of the rows."""
    text = dataset_text(ds)
    if ds.index.is_trivial or ds.index.is_single or ds.index.inside:
        return text
    columns = list(ds.tensors.items())[:_TOLD]
    count = min(_ROWS, min((len(tensor) for _, tensor in columns), default=0))
    if not count:
        return text
    lines = [[name for name, _ in columns]]
    lines += [[_told(tensor[row]) for _, tensor in columns] for row in range(count)]
    return "\n".join([text, *(printable(line) for line in aligned(lines))])


def _told(sample: Any) -> str:
    """Return a value as a short text; for a file, return its shape without reading the file."""
    try:
        is_file = sample._reader.decoder.files is not None and not sample.is_sequence  # noqa: SLF001 - of the facade
        text = "(link)" if sample.is_link else str(sample.shape) if is_file else _shown_value(sample)
    except (LakebedError, OSError, ValueError) as error:
        text = f"cannot be read: {error}"
    return shortened(text, _WIDEST)


def dataset_text(ds: Any) -> str:
    """Return the first lines of a ``repr``: rows, branch, version, and a line for each tensor."""
    session = ds._handle.session  # noqa: SLF001 - of an outdated view, too
    schema = session.schema()
    names = ds._shown(schema)  # noqa: SLF001 - part of the facade
    tensors = {name: ds._tensor(ds._full(name)) for name in names[:_SCHEMA]}  # noqa: SLF001
    lengths = [len(tensor) if not tensor.is_single else 1 for tensor in tensors.values()]
    low, high = min(lengths, default=0), max(lengths, default=0)
    told = [
        f"path={printable(repr(ds.path))}",
        f"rows={low:,}" if low == high else f"rows={low:,} to {high:,}",
    ]
    told += [f"tensors={len(names):,}", f"branch={printable(repr(session.branch))}"]
    told.append(f"version={ds.commit_id!r}{' with changes' if ds.has_head_changes else ''}")
    if ds.group_index:
        told.append(f"group={printable(repr(ds.group_index))}")
    if not ds.index.is_trivial:
        told.append(f"index={printable(repr(ds.index))[:_TEXT]}")
    if session.read_only:
        told.append("read_only=True")
    rows = [[printable(name), *described(tensor)] for name, tensor in list(tensors.items())[:_COLUMNS]]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(5)]
    lines = [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if len(names) > _COLUMNS:
        lines.append(f"  ... and {len(names) - _COLUMNS:,} more")
    return "\n".join([f"Dataset({', '.join(told)})", *lines])


def tensor_text(tensor: Any) -> str:
    """Return the ``repr`` of a tensor."""
    htype, dtype, shape, more = described(tensor)
    if tensor.is_single:
        shape = str(tensor.shape) if not tensor.is_link else "(one sample)"
    rows = "" if tensor.is_single else f", rows={len(tensor):,}"
    index = "" if tensor.index.is_trivial else f", index={printable(repr(tensor.index))[:_TEXT]}"
    name = printable(repr(tensor._name))  # noqa: SLF001 - part of the facade
    return f"Tensor({name}, htype={htype}, dtype={dtype}, shape={shape}{rows}{f', {more}' if more else ''}{index})"


def dataset_html(ds: Any) -> str:
    """Return a dataset, or some rows of it, as HTML."""
    names = ds._shown(ds._session.schema())  # noqa: SLF001 - part of the facade
    tensors = {name: ds._tensor(ds._full(name)) for name in names}  # noqa: SLF001
    head = dataset_text(ds).partition("\n")[0]
    return _page(head, tensors, _drawn(ds) if ds.index.is_single else "", is_single=ds.index.is_single)


def _drawn(row: Any) -> str:
    """Return the annotated image of a row as HTML; empty if it has no image, or a large or linked one."""
    try:
        image = row.tensors[image_of(row)]
        shape = image.shape
        if image.is_link or None in shape or int(np.prod([axis or 0 for axis in shape])) > _MOST_PIXELS:
            return ""
        found = _as_html(show(row), _DRAWN, "", "jpeg")
    except (LakebedError, OSError, ValueError):
        return ""  # the cell of the sample shows the error
    return found if len(found) < _THUMBNAIL_BYTES else ""


def _as_html(small: Image, longest: int, told: str, kind: str) -> str:
    small.thumbnail((longest, longest))
    file = io.BytesIO()
    small.save(file, kind)
    return f'<img alt="{_text(told)}" src="data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}">'


def tensor_html(tensor: Any) -> str:
    """Return the first samples of a tensor as HTML."""
    name = tensor._name  # noqa: SLF001 - part of the facade
    return _page(tensor_text(tensor), {name: tensor}, is_single=tensor.is_single)


def _page(head: str, tensors: Mapping[str, Any], drawn: str = "", *, is_single: bool) -> str:
    schema = [_line([name, *described(tensor)], "td") for name, tensor in list(tensors.items())[:_SCHEMA]]
    if len(tensors) > _SCHEMA:
        schema.append(_line([f"... and {len(tensors) - _SCHEMA:,} more"], "td"))
    columns = list(tensors.items())[:_COLUMNS]
    count = 1 if is_single else min(_ROWS, min((len(one) for _, one in columns), default=0))
    budget = _THUMBNAIL_BYTES - len(drawn)
    lines = []
    for row in range(count):
        cells = []
        for _, tensor in columns:
            cell = _cell(tensor if is_single else tensor[row], budget)
            budget -= len(cell) if cell.startswith("<img") else 0
            cells.append(f"<td>{cell}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    parts = [
        f"<div><p><code>{_text(head, 400)}</code></p>{drawn}",
        "<table><thead>" + _line(["tensor", "htype", "dtype", "shape", ""], "th") + "</thead><tbody>",
        *schema,
        "</tbody></table>",
    ]
    rows = ["<table><thead>" + _line([name for name, _ in columns], "th") + "</thead><tbody>", *lines]
    page = "".join([*parts, *rows, "</tbody></table></div>"])
    return page if len(page.encode()) <= _PAGE_BYTES else "".join([*parts[:1], "</div>"])


def _line(cells: list[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_text(cell)}</{tag}>' for cell in cells)}</tr>"


def _text(text: str, most: int = _TEXT) -> str:
    """Return escaped text, shortened to a maximum length."""
    return escape(printable(text if len(text) <= most else f"{text[: most - 3]}..."))


def _address(found: str | list[str | None] | None) -> str:
    """Return the address of a link without signatures; a long address is shortened in the middle."""
    if not isinstance(found, str):
        told = [None if one is None else shown(one) for one in found or ()]
        return _text(str(None if found is None else told))
    text, half = shown(found), (_TEXT - 3) // 2
    return _text(text if len(text) <= _TEXT else f"{text[:half]}...{text[-half:]}")


def _cell(sample: Any, budget: int) -> str:
    """Return one sample as HTML."""
    try:
        if sample.is_link:
            return _address(ShownColumn.of(_scan(sample), files=True).column(*_span(sample)).to_pylist()[0])
        if sample.base_htype in _PICTURES and not sample.is_sequence:
            found = _thumbnail(sample, budget)
            if found is not None:
                return found
        return _text(_shown_value(sample))
    except (LakebedError, OSError, ValueError) as error:
        return _text(f"cannot be read: {error}")


def _scan(sample: Any) -> Any:
    from lakebed.reading.columns.scan import ColumnScan

    return ColumnScan(sample._reader, sample._companion("null"))  # noqa: SLF001 - part of the facade


def _span(sample: Any) -> tuple[int, int]:
    row = int(sample.sample_indices[0])
    return row, row + 1


def _thumbnail(sample: Any, budget: int) -> str | None:
    """Return a thumbnail of a sample; None if it is empty, or too large to decode."""
    shape = sample.shape
    if None in shape or not all(shape):
        return None
    layer = _layer(sample)
    if layer is not None:
        small = picture(layer, sample.base_htype)
    elif int(np.prod([axis or 0 for axis in shape])) > _MOST_PIXELS:
        return None
    else:
        small = _scaled(sample) or picture(sample.numpy(), sample.base_htype)
    is_exact = sample.base_htype in ("binary_mask", "segment_mask") or small.mode not in ("RGB", "L")
    found = _as_html(small, _THUMBNAIL, str(shape), "png" if is_exact else "jpeg")
    return found if len(found) <= budget else None


def _layer(sample: Any) -> Any:
    """Return the smallest layer of a stored pyramid with enough pixels for a thumbnail; None if no layer has enough."""
    if sample.index.inside:
        return None
    known = companions_of(sample._session.schema().meta, sample._name)  # noqa: SLF001 - part of the facade
    factors = [int(kind.removeprefix(_LAYER)) for kind in known if kind.startswith(_LAYER)]
    longest, row = max(axis or 0 for axis in sample.shape[:2]), _span(sample)[0]
    for factor in sorted((one for one in factors if longest >= one * _THUMBNAIL), reverse=True):
        reader = sample._companion(f"{_LAYER}{factor}")  # noqa: SLF001
        if reader is None or row >= reader.state.length:
            continue
        shape = reader.shape(row)
        if len(shape) > 1 and all(shape) and int(np.prod(shape)) <= _MOST_PIXELS:
            return reader.value(row)
    return None


def _scaled(sample: Any) -> Any:
    """Decode a JPEG file at a fraction of its size, which saves time; None if the sample is not a JPEG file."""
    if sample._state.meta.sample_compression != "jpeg" or sample.index.inside:  # noqa: SLF001 - part of the facade
        return None
    from PIL import Image

    try:
        found = Image.open(io.BytesIO(sample.tobytes()), formats=["JPEG"])
        found.draft("RGB", (2 * _THUMBNAIL, 2 * _THUMBNAIL))
        return found.convert("RGB")
    except (LakebedError, OSError, ValueError, NotImplementedError, Image.DecompressionBombError):
        return None


def _shown_value(sample: Any) -> str:
    reader = sample._reader  # noqa: SLF001 - part of the facade
    if reader.decoder.files is not None and not sample.is_sequence and not sample.index.inside:
        size = len(sample.tobytes()) if not reader.is_tiled(_span(sample)[0]) else 0
        return f"{sample._state.meta.sample_compression} {sample.shape}, {size:,} bytes"  # noqa: SLF001
    if sample.is_sequence:
        return f"{len(next(iter(sample.values()), None) or ())} items"
    if int(np.prod([axis or 0 for axis in sample.shape])) > 1000 and reader.storing is Storing.ARRAY:
        return f"{sample.dtype} {sample.shape}"
    if not sample.index.inside and (reader.is_scalar or sample.base_htype == "class_label"):
        return str(ShownColumn.of(_scan(sample), labels=True).column(*_span(sample)).to_pylist()[0])
    value = next(iter(sample.values()), None)
    if isinstance(value, np.ndarray):
        return f"{np.array2string(value.reshape(-1)[:8], separator=', ')} {value.shape}"
    if reader.storing is Storing.POLYGON:
        return f"{len(value or ())} polygons"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def mime_bundle(sample: Any) -> dict[str, Any]:
    """Return one sample in the forms that notebooks display; several samples as a table."""
    kind, shown = "", None
    if sample.is_single and not sample.is_sequence and not sample.is_link:
        with suppress(LakebedError, OSError, ValueError, NotImplementedError):
            kind, shown = _medium(sample)
    return {"text/plain": repr(sample), kind or "text/html": shown or tensor_html(sample)}


def _medium(sample: Any) -> tuple[str, bytes | str | None]:
    """Return MIME type and content of an image, sound or video; empty values for other samples."""
    htype, compression = sample.base_htype, str(sample.meta.sample_compression)
    kind = f"image/{compression}" if htype in _PICTURES else _MIME.get(compression, "")
    is_file = kind in _MIME.values() or (kind in ("image/jpeg", "image/png") and htype.startswith("image"))
    data = sample.tobytes() if is_file and not sample.index.inside else b""
    if 0 < len(data) <= _MOST_MEDIA:
        if htype in _PICTURES:
            return kind, data
        tag, coded = kind.partition("/")[0], base64.b64encode(data).decode()
        return "text/html", f'<{tag} controls src="data:{kind};base64,{coded}"></{tag}>'
    if htype not in _PICTURES:
        return "", None
    file = io.BytesIO()
    sample.pil().save(file, "png")
    return "image/png", file.getvalue()
