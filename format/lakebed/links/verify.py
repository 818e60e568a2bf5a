"""Inspect linked files before links are stored: existence, shape, dtype and metadata.

Links are inspected in parallel, since most of the time is spent waiting for disks and servers. If a kind of file keeps
its header at the front or has an index, only these bytes are fetched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakebed.codecs.registry import sniff
from lakebed.codecs.sample import Sample
from lakebed.codecs.traits import TRAITS
from lakebed.errors import (
    BadLinkError,
    FormatError,
    InvalidInputError,
    LakebedError,
    LimitError,
    SampleReadError,
)
from lakebed.links.ahead import in_order, threads_for
from lakebed.links.failures import failure_kind
from lakebed.links.fetch import fetch_part
from lakebed.links.link import LinkedSample, LinkedTiledSample
from lakebed.links.ranged import HEAD, RangedFile
from lakebed.storage.address import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakebed.links.part import Part
    from lakebed.storage.credentials import Creds

    Credentials = Callable[[str | None, str], Creds | None]
    """Function that returns the credentials for a key and an address; raises MissingCredsError if the key has none."""

# Number of first bytes that contain even the header of a file with a large preview or colour profile.
_LONG_HEAD = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """Facts about a linked file.

    Parameters
    ----------
    shape
        Shape of the decoded file, (height, width) for a grey image.
    dtype
        NumPy dtype name of the decoded file.
    info
        Record for the hidden ``_info`` tensor, ``modified`` included.
    """

    shape: tuple[int, ...]
    dtype: str
    info: dict[str, Any]


def no_credentials(key: str | None, url: str) -> Creds | None:  # noqa: ARG001 - one of many
    """Return no credentials for any key."""
    return None


def described(file: RangedFile, path: str) -> Found:
    """Return facts about a file after fetching as little of it as possible.

    Raises
    ------
    FormatError, LimitError
        If the file is of an unknown kind, is damaged, or exceeds a limit.
    OSError, LookupError
        If the file cannot be fetched.
    """
    name = sniff(file.head, path)
    if not file.is_whole and name is not None and TRAITS[name].early_header:
        for length in (HEAD, _LONG_HEAD):
            try:
                return _found(Sample(buffer=file[0:length], path=path, compression=name))
            except (FormatError, LimitError):
                continue  # the header may be longer: read more bytes
    if not file.is_whole and name is not None and TRAITS[name].ranges:
        from lakebed.codecs.remote_video import RemoteVideo

        facts, info = RemoteVideo(name).described(file)
        shape = facts.shape
        return Found(
            shape, facts.dtype, {**info, "shape": shape, "format": name, "filename": path, "modified": False}
        )
    return _found(Sample(buffer=file.whole(), path=path))


def _found(sample: Sample) -> Found:
    return Found(sample.shape, sample.dtype, {**sample.meta, "modified": False})


def inspect(link: LinkedSample, credentials: Credentials = no_credentials, *, is_text: bool = False) -> Found:
    """Read the header and the metadata of the file behind a link.

    EXIF after the pixels of a large PNG file is not read.

    Parameters
    ----------
    is_text
        The file is text or JSON, of which only the existence is checked.

    Raises
    ------
    BadLinkError
        If the file does not exist or is of an unknown kind; the cause is a GetDataFromLinkError with its own cause.
    MissingCredsError
        If the link names credentials without a value.
    """
    creds = credentials(link.creds_key, link.path)

    def part(start: int, length: int, tag: str | None) -> Part:
        try:
            return fetch_part(link.path, start, length, creds=creds, tag=tag)
        except (OSError, LookupError) as error:
            raise SampleReadError(f"Unable to read sample from {shown(link.path)}: {error}") from error

    try:
        if is_text:
            part(0, 1, None)
            return Found((1,), "str", {"filename": link.path, "modified": False})
        return described(RangedFile(part), link.path)
    except (OSError, LakebedError, ValueError) as error:
        failed = failure_kind(error)(
            f"Unable to get data from link {shown(link.path)}: {error}", url=link.path
        )
        failed.__cause__ = error
        raise BadLinkError(
            f"the link to {shown(link.path)} (credentials {link.creds_key!r}) cannot be appended: {error}; "
            "correct it, or create the tensor with verify=False"
        ) from failed


def inspect_all(
    links: Sequence[LinkedSample | None],
    credentials: Credentials = no_credentials,
    *,
    is_text: bool = False,
) -> Iterator[Found | BadLinkError | None]:
    """Inspect many links at the same time; parameters as of :func:`inspect`.

    Yields
    ------
    For each link the result of :func:`inspect`, or its BadLinkError; None for None.

    Raises
    ------
    MissingCredsError
        If a link names credentials without a value.
    """

    def look(link: LinkedSample | None) -> Found | BadLinkError | None:
        if link is None:
            return None
        try:
            return inspect(link, credentials, is_text=is_text)
        except BadLinkError as error:
            return error

    threads = min(len(links), threads_for(link.path for link in links if link is not None))
    return in_order(links, look, threads)


def inspect_tiled(
    sample: LinkedTiledSample, credentials: Credentials = no_credentials, *, only_first: bool = False
) -> Found:
    """Inspect a grid of links, which must lead to files of equal shape, and record that shape in the sample.

    Parameters
    ----------
    only_first
        Inspect only the first file and assume that all files have its shape and dtype.

    Returns
    -------
    Found
        Shape of the whole, dtype of the tiles, no metadata.

    Raises
    ------
    BadLinkError
        If one of the files cannot be read.
    InvalidInputError
        If the files differ in shape or dtype, or the grid has more axes than the files.
    MissingCredsError
        If the links name credentials without a value.
    """
    links = [LinkedSample(str(path), sample.creds_key) for path in sample.path_array.flat]
    found: list[Found] = []
    for item in inspect_all(links[:1] if only_first else links, credentials):
        if isinstance(item, BadLinkError):
            raise item
        if item is not None:
            found.append(item)
    first = found[0]
    for link, item in zip(links, found, strict=not only_first):
        if (item.shape, item.dtype) != (first.shape, first.dtype):
            raise InvalidInputError(
                f"the tiles of one sample must agree: {shown(links[0].path)} is {first.dtype} of shape {first.shape}, "
                f"{shown(link.path)} is {item.dtype} of shape {item.shape}"
            )
    sample.measured(first.shape)
    return Found(sample.sample_shape or first.shape, first.dtype, {})
