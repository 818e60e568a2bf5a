"""Linked samples: follow the links of a tensor and decode the files (format.md 5.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed import limits
from lakebed.chunks.tiling import boxes, touched
from lakebed.codecs.base import FileCodec
from lakebed.codecs.registry import VIDEO_NAMES, file_codec, sniff
from lakebed.errors import FormatError, GetDataFromLinkError, LakebedError
from lakebed.htypes.base import Storing
from lakebed.links.ahead import in_order, threads_for
from lakebed.links.failures import CAUGHT, failure_kind
from lakebed.links.fetch import fetch, fetch_part
from lakebed.links.link import decode_link, decode_tiled, grid_shape
from lakebed.links.part import Part
from lakebed.links.policy import Policy
from lakebed.links.ranged import RangedFile
from lakebed.links.verify import described
from lakebed.reading.decode import file_part, timestamps
from lakebed.reading.locate import StoredSamples
from lakebed.reading.subscripts import Rows
from lakebed.storage.address import shown

if TYPE_CHECKING:
    from lakebed.credentials.named import Keys
    from lakebed.storage.credentials import Creds


class Links:
    """Follows the links of one tensor.

    Parameters
    ----------
    credentials
        Credentials by code in the creds index; None if links need none.
    """

    def __init__(self, reader: StoredSamples, credentials: Keys | None = None) -> None:
        self._reader = reader
        self._credentials = credentials
        self._policy = Policy(reader.source.url)

    def path(self, row: int) -> str:
        """Return the address in the link of a row; "" if the row is None.

        Raises
        ------
        FormatError
            If the row holds a grid of links, or no link.
        """
        return decode_link(self._reader.raw(row)[0])

    def is_grid(self, row: int) -> bool:
        """Return whether the row holds a grid of links (link_tiled)."""
        return row in self._reader.tile_entries

    def grid(self, row: int) -> NDArray[np.str_]:
        """Return the paths of a grid of links."""
        return decode_tiled(self._reader.raw(row)[0])

    def creds_code(self, row: int) -> int:
        """Return the code of the credentials of a row; 0 for none."""
        index = self._reader.state.creds
        return index.code(row) if index is not None and row < index.count else 0

    # -- files -------------------------------------------------------------------------------------------------

    def fetch(self, row: int, url: str) -> bytes:
        """Return the content of the file to which a link of a row refers.

        Raises
        ------
        GetDataFromLinkError
            If the file cannot be read, or reading it is forbidden; class and cause of the error tell the reason.
        """
        try:
            return fetch(url, creds=self._creds(row, url), policy=self._policy)
        except CAUGHT as error:
            raise self.failed(row, url, error) from error

    def open(self, row: int, url: str) -> RangedFile:
        """Return the file to which a link of a row refers, for fetching parts of the file."""
        creds = self._creds(row, url)

        def part(start: int, length: int, tag: str | None) -> Part:
            return fetch_part(url, start, length, creds=creds, policy=self._policy, tag=tag)

        return RangedFile(part)

    def _creds(self, row: int, url: str) -> Creds | None:
        code = self.creds_code(row)
        return None if self._credentials is None or not code else self._credentials.by_code(code, url)

    def content(self, row: int) -> bytes:
        """Return the content of the file behind the link of a row; b"" if the row is None."""
        url = self.path(row)
        return self.fetch(row, url) if url else b""

    # -- samples -----------------------------------------------------------------------------------------------

    def value(self, row: int) -> Any:
        """Return the sample behind the link of a row; an array of float64, shape (0,), if the row is None."""
        return self.value_of(row, None if self.is_grid(row) else self.path(row))

    def value_of(self, row: int, url: str | None, *, threads: int | None = None) -> Any:
        """Return the sample behind a known link; None stands for a grid of links.

        Parameters
        ----------
        threads
            Number of files of a grid that are fetched at the same time; None for the maximum.
        """
        if url is None:
            return self._tiled(row, None, threads)
        return self.decode(row, url, self.fetch(row, url)) if url else np.empty(0)

    def part(self, row: int, subscript: Any) -> Any:
        """Return a part of the sample behind the link of a row; fetch and decode only what the part needs."""
        if self.is_grid(row):
            return self._tiled(row, subscript, None)
        url = self.path(row)
        if not url:
            return np.empty(0)[subscript]
        try:
            if self._reader.decoder.htype.name == "video":
                return self._segment(row, url, subscript)
            data = self.fetch(row, url)
            codec = _codec(self._reader.storing, url, data)
            if codec is not None and codec.traits.parts:
                return file_part(codec, data, subscript)
        except CAUGHT as error:
            if isinstance(error, GetDataFromLinkError | IndexError):
                raise
            raise self.failed(row, url, error) from error
        return self.decode(row, url, data)[subscript]

    def _segment(self, row: int, url: str, subscript: Any) -> Any:
        """Return a part of a video; fetch only its index and the segments around the part."""
        from lakebed.codecs.remote_video import RemoteVideo

        file = self.open(row, url)
        codec = _codec(self._reader.storing, url, file.head)
        if codec is not None and codec.traits.ranges and not file.is_whole:
            return file_part(RemoteVideo(codec.name), file, subscript)
        data = file.whole()
        if codec is not None and codec.traits.parts:
            return file_part(codec, data, subscript)
        return self.decode(row, url, data)[subscript]

    def timestamps(self, row: int, selection: int | slice = slice(None)) -> NDArray[np.float32]:
        """Return the times of frames of the video behind the link of a row, in seconds; fetch as :meth:`part` does."""
        url = self.path(row)
        if not url:
            return np.zeros(0, dtype=np.float32)[selection]
        try:
            file = self.open(row, url)
            name = sniff(file.head, path=url)
            if name in VIDEO_NAMES and not file.is_whole:
                from lakebed.codecs.remote_video import RemoteVideo

                return RemoteVideo(name).timestamps(file, selection)
            found: NDArray[np.float32] = timestamps(file.whole(), None)
        except CAUGHT as error:
            if isinstance(error, IndexError):
                raise
            raise self.failed(row, url, error) from error
        return found[selection]

    def values(self, rows: Rows) -> Iterator[Any]:
        """Yield the samples behind many links, in the order given; the next files are fetched ahead."""
        urls = self.urls(rows)
        threads = min(len(rows), threads_for(urls))
        # Several threads fetch the files of a grid; fewer per grid if several grids are read at the same time.
        inside = max(1, threads // 4) if len(rows) > 1 else None

        def work(item: tuple[int, str | None]) -> Any:
            return self.value_of(*item, threads=inside)

        wanted = zip(map(int, rows), urls, strict=True)
        return in_order(wanted, work, threads, _size)

    def urls(self, rows: Rows) -> list[str | None]:
        """Return the addresses of links: "" for a row that is None, None for a grid of links."""
        grids = self._reader.tile_entries
        if grids:
            return [None if int(row) in grids else self.path(int(row)) for row in rows]
        return [decode_link(data) for _, data, _ in self._reader.many(rows)]

    def shape(self, row: int) -> tuple[int, ...]:
        """Return the shape of the sample behind the link of a row from the file's header."""
        if self.is_grid(row):
            return self._reader.tile_entries[row][0]
        return self._shape_of(row, self.path(row))

    def shapes(self, rows: Rows) -> list[tuple[int, ...]]:
        """Return the shapes of the samples behind many links; the headers are read at the same time."""

        def work(item: tuple[int, str | None]) -> tuple[int, ...]:
            row, url = item
            return self._reader.tile_entries[row][0] if url is None else self._shape_of(row, url)

        urls = self.urls(rows)
        wanted = zip(map(int, rows), urls, strict=True)
        return list(in_order(wanted, work, min(len(rows), threads_for(urls))))

    def _shape_of(self, row: int, url: str) -> tuple[int, ...]:
        if not url:
            return (0,) * max(1, len(self._reader.state.meta.max_shape))
        if self._reader.storing is not Storing.ARRAY:
            return (1,)
        try:
            return self._ranked(described(self.open(row, url), url).shape)
        except CAUGHT as error:
            raise self.failed(row, url, error) from error

    def decode(self, row: int, url: str, data: bytes) -> Any:
        """Decode a fetched file as a sample of the tensor.

        Raises
        ------
        GetDataFromLinkError
            If the file is of an unknown kind, or damaged.
        """
        try:
            codec = _codec(self._reader.storing, url, data)
            if codec is None:
                return self._reader.decoder.value(data, None)
            facts = codec.facts(data)
            stored = None if codec.traits.kind == "video" else len(data)
            limits.check_sample(
                facts.shape, np.dtype(facts.dtype).itemsize, f"linked {codec.name} file", stored
            )
            return self._shaped(codec.decode(data))
        except (LakebedError, ValueError, ImportError) as error:
            raise self.failed(row, url, error) from error

    def _shaped(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(self._ranked(array.shape))

    def _ranked(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a grey image with the channel axis that the tensor's other images have."""
        rank = len(self._reader.state.meta.max_shape)
        is_image = self._reader.decoder.htype.is_image
        return (*shape, 1) if len(shape) == 2 and (rank == 3 or (is_image and not rank)) else shape

    def _tiled(self, row: int, subscript: Any, threads: int | None) -> NDArray[Any]:
        """Assemble a grid of links; with a ``subscript`` fetch only the files that it touches."""
        shape, tile = self._reader.tile_entries[row]
        paths = self.grid(row)
        if grid_shape(paths.shape, len(shape)) != tuple(-(-s // t) for s, t in zip(shape, tile, strict=True)):
            raise FormatError(
                f"a grid of {paths.shape} links does not match a sample of shape {shape} in tiles of shape {tile}"
            )
        flat = [str(path) for path in paths.flat]
        numbers = range(len(flat)) if subscript is None else touched(shape, tile, subscript)
        dtype = self._reader.decoder.known_dtype()
        limits.check_sample(shape, dtype.itemsize, f"linked sample of tensor {self._reader.name!r}")
        places = boxes(shape, tile)
        out = np.zeros(shape, dtype=dtype)

        def work(number: int) -> NDArray[Any]:
            tile: NDArray[Any] = self.decode(row, flat[number], self.fetch(row, flat[number]))
            return tile

        found = in_order(numbers, work, threads or min(len(numbers), threads_for(flat)), _size)
        for number, array in zip(numbers, found, strict=True):
            if array.shape != out[places[number]].shape:
                error = FormatError(f"its shape is {array.shape}, which does not fit tiles of shape {tile}")
                raise self.failed(row, flat[number], error) from error
            out[places[number]] = array
        return out if subscript is None else out[subscript].copy()

    def failed(self, row: int, url: str, error: Exception) -> GetDataFromLinkError:
        """Return the error for a link that cannot be followed; its class depends on the cause."""
        reader = self._reader
        return failure_kind(error)(
            f"Unable to get data from link {shown(url)} "
            f"(tensor {reader.name!r}, row {row} of {reader.source.url}): {error}",
            url=url,
            dataset=reader.source.url,
            tensor=reader.name,
            row=row,
        )


def _size(value: Any) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else 0


def _codec(storing: Storing, url: str, data: bytes) -> FileCodec | None:
    """Return the codec of a file; None for text, which has none.

    Raises
    ------
    FormatError
        If the file is of an unknown kind.
    """
    if storing is not Storing.ARRAY:
        return None
    name = sniff(data, path=url)
    codec = None if name is None else file_codec(name)
    if codec is None:
        raise FormatError("the type of the file is unknown, or not supported for samples")
    return codec
