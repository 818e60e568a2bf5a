"""Links -> samples of a link tensor: their addresses, and what the files behind them are (FORMAT.md 5.3, 8, 13)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lakebed.codecs.block import Block, join_samples
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    BadLinkError,
    LakebedError,
    MissingCredsError,
    SampleHtypeMismatchError,
    TensorDtypeMismatchError,
)
from lakebed.htypes.images import padded_shape
from lakebed.links.link import LinkedSample, LinkedTiledSample, encode_link, encode_tiled
from lakebed.links.read import read
from lakebed.links.verify import Found, inspect_all, inspect_tiled
from lakebed.writing.encoded import Encoded, Tiled
from lakebed.writing.target import Target, learned

_LOOKED_AT = frozenset({"info", "shape", "len"})
_CONVERTED = ("image.rgb", "image.gray")


def encode_links(rows: Iterable[Any], meta: TensorMeta, creds_keys: Sequence[str] = ()) -> list[Encoded]:
    """Encode links; unless the tensor's ``verify`` is off, the header of each file is read.

    Parameters
    ----------
    creds_keys
        Names of the dataset's credentials; their place decides the code of each.

    Raises
    ------
    TensorDtypeMismatchError
        If a value is no link.
    SampleHtypeMismatchError
        If the htype would have to convert what is behind the link.
    TensorInvalidSampleShapeError
        If the linked data has another rank than that before it.
    BadLinkError, MissingCredsError
        If a file can not be read, or its credentials are not known; the cause says why.
    """
    done: list[Encoded] = []
    run: list[LinkedSample | None] = []
    target = Target(meta)
    for row in rows:
        if target.meta.htype in _CONVERTED and isinstance(row, LinkedSample | LinkedTiledSample):
            raise SampleHtypeMismatchError(
                f"htype {target.meta.htype!r} converts what it stores, and a link is stored as it is: use link[image]"
            )
        if isinstance(row, LinkedTiledSample):
            if run:
                done.append(_links(run, target, creds_keys))
                run = []
            done.append(_tiled(row, target, creds_keys))
        elif row is None or isinstance(row, LinkedSample):
            run.append(row)
        else:
            raise TensorDtypeMismatchError(
                f"a link tensor takes lakebed.link(path), not {type(row).__name__}: {row!r:.60}"
            )
    if run or not done:
        done.append(_links(run, target, creds_keys))
    return done


def _links(run: list[LinkedSample | None], target: Target, creds_keys: Sequence[str]) -> Encoded:
    block = join_samples([encode_link(link) for link in run], (1,))
    codes = np.array([_code(link.creds_key if link else None, creds_keys) for link in run], dtype=np.uint32)
    if not target.meta.verify:
        return Encoded(block, _settled(run, target), creds=codes)
    facts = _facts(run)
    wanted = target.feeds & _LOOKED_AT
    return Encoded(
        block,
        _learned(facts, target),
        infos=[{} if f is None else f.info for f in facts] if "info" in wanted else None,
        shapes=_ranked([() if f is None else f.shape for f in facts], target) if wanted else None,
        creds=codes,
    )


def _learned(facts: list[Found | None], target: Target) -> TensorMeta:
    """Take an open dtype from the first file."""
    first = next((found for found in facts if found is not None), None)
    if target.meta.dtype is not None or first is None:
        return target.meta
    return learned(target.meta, np.dtype(first.dtype))


def _code(key: str | None, creds_keys: Sequence[str]) -> int:
    if key is None:
        return 0
    if key not in creds_keys:
        raise MissingCredsError(
            f"credentials key {key!r} is not known to this dataset; add it with ds.add_creds_key({key!r}) and "
            "ds.populate_creds"
        )
    return list(creds_keys).index(key) + 1


def _settled(run: list[LinkedSample | None], target: Target) -> TensorMeta:
    """Take an open dtype from the first file; one that can not be read leaves it open."""
    first = next((link for link in run if link is not None), None)
    if target.meta.dtype is not None or first is None:
        return target.meta
    try:
        return learned(target.meta, np.dtype(read(first.path).dtype))
    except (LakebedError, OSError, TypeError):
        return learned(target.meta, np.dtype(np.uint8)) if target.htype.is_image else target.meta


def _facts(run: list[LinkedSample | None]) -> list[Found | None]:
    """Look behind all links at the same time; the first that leads nowhere is raised."""
    facts: list[Found | None] = []
    for found in inspect_all(run):
        if isinstance(found, BadLinkError):
            raise found
        facts.append(found)
    return facts


def _ranked(shapes: list[tuple[int, ...]], target: Target) -> list[tuple[int, ...]]:
    """Give grey images among colour ones a third axis, and refuse what differs in rank beyond that."""
    ndim = target.ndim
    found = []
    for shape in shapes:
        if len(shape) == 2 and (ndim == 3 or (ndim is None and target.htype.is_image)):
            shape = padded_shape(shape)
        if shape:
            target.check_rank(shape, ndim)
            ndim = len(shape)
        found.append(shape)
    return found


def _tiled(value: LinkedTiledSample, target: Target, creds_keys: Sequence[str]) -> Encoded:
    """Encode a grid of links, whose files must have one shape."""
    code = _code(value.creds_key, creds_keys)
    found = inspect_tiled(value)
    tile = value.tile_shape or ()
    data = encode_tiled(value.path_array, len(tile))
    return Encoded(
        Block(memoryview(data), 1, len(data), found.shape),
        learned(target.meta, np.dtype(found.dtype)),
        shapes=[found.shape],
        creds=np.array([code], dtype=np.uint32),
        tiled=Tiled(found.shape, tile, lambda: iter(())),
    )
