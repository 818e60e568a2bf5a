"""Links -> samples of a link tensor: their addresses, and facts about the linked files (format.md 5.3, 8, 13)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed import config
from lakebed.codecs.block import Block
from lakebed.documents.tensor_meta import TensorMeta
from lakebed.errors import (
    BadLinkError,
    LinkCredentialsError,
    MissingCredsError,
    SampleHtypeMismatchError,
    TensorDtypeMismatchError,
)
from lakebed.htypes.base import Storing
from lakebed.htypes.images import padded_shape
from lakebed.htypes.registry import htype_named
from lakebed.links.link import LinkedSample, LinkedTiledSample, encode_paths, encode_tiled
from lakebed.storage.address import shown
from lakebed.writing.encode.encoded import Encoded, Tiled
from lakebed.writing.encode.spec import TensorSpec, with_dtype

if TYPE_CHECKING:
    from lakebed.credentials.named import Keys
    from lakebed.links.verify import Found
    from lakebed.storage.credentials import Creds

_LOOKED_AT = frozenset({"info", "shape", "len"})
_CONVERTED = ("image.rgb", "image.gray")
_UNSEEN = np.dtype(np.uint8)

LinkRun = Sequence["LinkedSample | None"]


@dataclass(frozen=True, slots=True)
class Linking:
    """Everything needed to append links.

    Parameters
    ----------
    keys
        The credentials of the dataset; None if it has none.
    known
        Facts about linked files that were read before.
    dataset
        Path of a dataset on this machine if the user of this process wrote the links; None if they come from elsewhere:
        a table, another dataset, an import.
    """

    keys: Keys | None = None
    known: Mapping[LinkedSample, Found | BadLinkError] = field(default_factory=dict)
    dataset: str | None = None

    def of_others(self) -> Linking:
        """Return a copy for links that another user made."""
        return self if self.dataset is None else replace(self, dataset=None)

    def code(self, key: str | None) -> int:
        """Return the code of a name; see ``Keys.code``."""
        if key is None:
            return 0
        if self.keys is None:
            raise MissingCredsError(
                f"credentials key {key!r} is not known here; add it with ds.add_creds_key({key!r})"
            )
        return self.keys.code(key)

    def credentials(self, key: str | None, url: str) -> Creds | None:
        """Return the credentials of a name; see ``Keys.by_name``."""
        return None if self.keys is None else self.keys.by_name(key, url)


def encode_links(rows: Iterable[Any], meta: TensorMeta, linking: Linking | None = None) -> list[Encoded]:
    """Encode links; unless the tensor's ``verify`` is off, the header of each file is read.

    Parameters
    ----------
    linking
        The dataset's credentials, and known facts about the links.

    Raises
    ------
    TensorDtypeMismatchError
        If a value is not a link.
    SampleHtypeMismatchError
        If the htype would have to convert the linked file.
    TensorInvalidSampleShapeError
        If the linked data has another rank than earlier data.
    BadLinkError, MissingCredsError
        If a file cannot be read, or its credentials are not known; the cause says why.
    """
    spec, linking = TensorSpec(meta), linking or Linking()
    given = rows if isinstance(rows, list | tuple) else list(rows)
    kinds = set(map(type, given))
    wrong = next(
        (kind for kind in kinds if not issubclass(kind, LinkedSample | LinkedTiledSample | type(None))), None
    )
    if wrong is not None:
        row = next(row for row in given if type(row) is wrong)
        raise TensorDtypeMismatchError(
            f"a link tensor takes lakebed.link(path), not {wrong.__name__}: {row!r:.60}"
        )
    if spec.meta.htype in _CONVERTED and kinds - {type(None)}:
        raise SampleHtypeMismatchError(
            f"htype {spec.meta.htype!r} converts what it stores, and a link is stored as it is: use link[image]"
        )
    if LinkedTiledSample not in kinds:
        return [_links(given, kinds, spec, linking)]
    return _mixed(given, spec, linking)


def _mixed(rows: Sequence[Any], spec: TensorSpec, linking: Linking) -> list[Encoded]:
    """Encode rows that include grids of links, each of which becomes a separate part."""
    done: list[Encoded] = []
    run: list[LinkedSample | None] = []
    for row in rows:
        if not isinstance(row, LinkedTiledSample):
            run.append(row)
            continue
        if run:
            done.append(_links(run, set(map(type, run)), spec, linking))
            run = []
        done.append(_tiled(row, spec, linking))
    if run:
        done.append(_links(run, set(map(type, run)), spec, linking))
    return done


def _links(run: LinkRun, kinds: set[type], spec: TensorSpec, linking: Linking) -> Encoded:
    paths, codes = _parts(run, kinds, linking)
    data, sizes = encode_paths(paths)
    block = Block(memoryview(data), len(sizes), sizes, (1,))
    if not spec.meta.verify:
        _remember(paths, linking)
        return Encoded(block, with_dtype(spec.meta, _UNSEEN if any(paths) else None), creds=codes)
    facts = _facts(run, spec, linking)
    _remember(paths, linking)
    wanted = spec.feeds & _LOOKED_AT
    return Encoded(
        block,
        _learned(facts, spec),
        infos=[{} if f is None else f.info for f in facts] if "info" in wanted else None,
        shapes=_ranked([() if f is None else f.shape for f in facts], spec) if wanted else None,
        creds=codes,
    )


def _remember(paths: Sequence[str], linking: Linking) -> None:
    """Allow links that this user made: in this process and, for local datasets, in later ones."""
    from lakebed.links.policy import remember

    remember(paths)
    if linking.dataset is not None and config.REMEMBER_LINKS:
        from lakebed.links import kept

        kept.remember(linking.dataset, paths)


def _parts(run: LinkRun, kinds: set[type], linking: Linking) -> tuple[Sequence[str], NDArray[np.uint32]]:
    """Return the paths, "" for None, and the codes of the credentials."""
    if kinds <= {LinkedSample}:
        paths: list[str] = list(map(attrgetter("path"), run))
        keys: list[str | None] = list(map(attrgetter("creds_key"), run))
    else:
        paths = ["" if link is None else link.path for link in run]
        keys = [None if link is None else link.creds_key for link in run]
    codes = {key: linking.code(key) for key in set(keys)}
    if len(codes) <= 1:
        return paths, np.full(len(paths), next(iter(codes.values()), 0), dtype=np.uint32)
    return paths, np.fromiter(map(codes.__getitem__, keys), dtype=np.uint32, count=len(keys))


def _learned(facts: list[Found | None], spec: TensorSpec) -> TensorMeta:
    """Return the tensor's metadata, with the dtype of the first file if it had no dtype yet."""
    first = next((found for found in facts if found is not None), None)
    return spec.meta if first is None else with_dtype(spec.meta, np.dtype(first.dtype))


def _facts(run: LinkRun, spec: TensorSpec, linking: Linking) -> list[Found | None]:
    """Read the headers of all linked files at the same time; raise the error of the first bad link."""
    from lakebed.links.verify import inspect_all

    facts: list[Found | None] = []
    known = [None if link is None else linking.known.get(link) for link in run]
    unknown = [link for link, found in zip(run, known, strict=True) if link is not None and found is None]
    is_text = spec.htype.storing is not Storing.ARRAY
    looked = inspect_all(unknown, linking.credentials, is_text=is_text)
    for link, seen in zip(run, known, strict=True):
        found = seen if link is None or seen is not None else next(looked)
        if isinstance(found, BadLinkError):
            raise found
        facts.append(found)
    return facts


def looked_at(
    rows: Iterable[Any],
    meta: TensorMeta,
    linking: Linking,
    watched: Callable[[list[LinkedSample]], Iterable[LinkedSample]] = iter,
) -> Linking:
    """Read the headers of all files that some rows link to at once, before the rows are encoded one by one.

    Parameters
    ----------
    watched
        Function of the links that returns an iterable over them, which may show the progress.
    """
    if not meta.verify:
        return linking
    from lakebed.links.verify import inspect_all

    known: dict[LinkedSample, Found | BadLinkError] = {}
    links: list[LinkedSample] = []
    for link in dict.fromkeys(link for row in rows for link in _links_of(row)):
        refused = _refused(link, linking)
        if refused is None:
            links.append(link)
        else:
            known[link] = refused
    is_text = htype_named(meta.htype).storing is not Storing.ARRAY
    looked = inspect_all(links, linking.credentials, is_text=is_text)
    seen = zip(watched(links), looked, strict=True)
    known.update((link, facts) for link, facts in seen if facts is not None)
    return replace(linking, known=known)


def _refused(link: LinkedSample, linking: Linking) -> BadLinkError | None:
    """Return the error for a link with unknown credentials."""
    if link.creds_key is None:
        return None
    try:
        linking.code(link.creds_key)
        linking.credentials(link.creds_key, link.path)
    except (MissingCredsError, LinkCredentialsError) as error:
        refused = BadLinkError(f"the link to {shown(link.path)} cannot be appended: {error}")
        refused.__cause__ = error
        return refused
    return None


def leads_nowhere(row: Any, linking: Linking) -> bool:
    """Return whether a row has a link that is known to be broken."""
    return any(isinstance(linking.known.get(link), BadLinkError) for link in _links_of(row))


def _links_of(row: Any) -> Iterable[LinkedSample]:
    items = row if isinstance(row, list | tuple) else (row,)
    return (item for item in items if isinstance(item, LinkedSample))


def _ranked(shapes: list[tuple[int, ...]], spec: TensorSpec) -> list[tuple[int, ...]]:
    """Give grey images among colour images a third axis, and refuse other differences in rank."""
    ndim = spec.ndim
    found = []
    for shape in shapes:
        if len(shape) == 2 and (ndim == 3 or (ndim is None and spec.htype.is_image)):
            shape = padded_shape(shape)
        if shape:
            spec.check_rank(shape, ndim)
            ndim = len(shape)
        found.append(shape)
    return found


def _tiled(value: LinkedTiledSample, spec: TensorSpec, linking: Linking) -> Encoded:
    """Encode a grid of links, whose files must have one shape; in an unverified tensor only the first file is read."""
    from lakebed.links.verify import inspect_tiled

    code = linking.code(value.creds_key)
    found = inspect_tiled(value, linking.credentials, only_first=not spec.meta.verify)
    _remember([str(path) for path in value.path_array.flat], linking)
    tile = value.tile_shape or ()
    data = encode_tiled(value.path_array, len(tile))
    return Encoded(
        Block(memoryview(data), 1, len(data), found.shape),
        with_dtype(spec.meta, np.dtype(found.dtype)),
        shapes=[found.shape],
        creds=np.array([code], dtype=np.uint32),
        tiled=Tiled(found.shape, tile, lambda: iter(())),
    )
