"""Look behind links before they are stored: whether the file is there, its shape, dtype and metadata.

Links are looked at in parallel: what takes time is waiting for disks and servers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakebed import config
from lakebed.errors import BadLinkError, GetDataFromLinkError, InvalidInputError, LakebedError
from lakebed.links.address import shown
from lakebed.links.link import LinkedSample, LinkedTiledSample
from lakebed.links.read import read

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Credentials = Callable[[str | None], Mapping[str, Any] | None]
    """Credentials by key. Raises MissingCredsError for a key that has none."""


@dataclass(frozen=True, slots=True)
class Found:
    """What is behind a link.

    Parameters
    ----------
    shape
        Shape of the decoded file, (height, width) for a grey image.
    dtype
        NumPy dtype name of the decoded file.
    info
        What the hidden ``_info`` tensor records, ``modified`` included.
    """

    shape: tuple[int, ...]
    dtype: str
    info: dict[str, Any]


def no_credentials(key: str | None) -> Mapping[str, Any] | None:  # noqa: ARG001 - one of many
    """Return no credentials, whatever the key."""
    return None


def inspect(link: LinkedSample, credentials: Credentials = no_credentials) -> Found:
    """Read the file behind a link, its header and metadata.

    Raises
    ------
    BadLinkError
        If there is no such file, or it is none of a known kind; the cause is a GetDataFromLinkError with its own cause.
    MissingCredsError
        If the link needs credentials that there are none for.
    """
    sample = read(link.path, creds=credentials(link.creds_key))
    try:
        try:
            return Found(sample.shape, sample.dtype, {**sample.meta, "modified": False})
        except (OSError, LakebedError, ValueError) as error:
            raise GetDataFromLinkError(
                f"Unable to get data from link {shown(link.path)}: {error}", url=link.path
            ) from error
    except GetDataFromLinkError as error:
        raise BadLinkError(
            f"the link to {shown(link.path)} (credentials {link.creds_key!r}) cannot be appended: {error.__cause__}; "
            "correct it, or create the tensor with verify=False"
        ) from error


def inspect_all(
    links: Sequence[LinkedSample | None], credentials: Credentials = no_credentials
) -> list[Found | BadLinkError | None]:
    """Look behind many links at the same time.

    Returns
    -------
    list
        For each link what :func:`inspect` finds, or its BadLinkError; None for None.

    Raises
    ------
    MissingCredsError
        If a link needs credentials that there are none for.
    """

    def look(link: LinkedSample | None) -> Found | BadLinkError | None:
        if link is None:
            return None
        try:
            return inspect(link, credentials)
        except BadLinkError as error:
            return error

    threads = min(len(links), max(1, config.LINK_THREADS))
    if threads <= 1:
        return [look(link) for link in links]
    with ThreadPoolExecutor(threads, thread_name_prefix="lakebed-links") as pool:
        return list(pool.map(look, links))


def inspect_tiled(sample: LinkedTiledSample, credentials: Credentials = no_credentials) -> Found:
    """Look behind a grid of links, which must lead to files of equal shape, and let the sample know that shape.

    Returns
    -------
    Found
        Shape of the whole, dtype of the tiles, no metadata.

    Raises
    ------
    BadLinkError
        If one of them cannot be read.
    InvalidInputError
        If the files differ in shape or dtype, or the grid has more axes than they.
    MissingCredsError
        If they need credentials that there are none for.
    """
    links = [LinkedSample(str(path), sample.creds_key) for path in sample.path_array.flat]
    found: list[Found] = []
    for item in inspect_all(links, credentials):
        if isinstance(item, BadLinkError):
            raise item
        if item is not None:
            found.append(item)
    first = found[0]
    for link, item in zip(links, found, strict=True):
        if (item.shape, item.dtype) != (first.shape, first.dtype):
            raise InvalidInputError(
                f"the tiles of one sample must agree: {shown(links[0].path)} is {first.dtype} of shape {first.shape}, "
                f"{shown(link.path)} is {item.dtype} of shape {item.shape}"
            )
    sample.measured(first.shape)
    return Found(sample.sample_shape or first.shape, first.dtype, {})
