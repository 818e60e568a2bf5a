"""Samples that lie in files elsewhere: the links of a tensor, followed and decoded (FORMAT.md 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lakebed import config, limits
from lakebed.chunks.tiling import boxes, touched
from lakebed.codecs.base import FileCodec
from lakebed.codecs.registry import VIDEO_NAMES, file_codec, sniff
from lakebed.errors import FormatError, GetDataFromLinkError, LakebedError
from lakebed.htypes.base import Storing
from lakebed.links.address import shown
from lakebed.links.fetch import follow
from lakebed.links.link import decode_link, decode_tiled, grid_shape
from lakebed.reading.decode import PARTS, file_part
from lakebed.reading.parallel import for_each

if TYPE_CHECKING:
    from lakebed.reading.samples import SampleReader

Credentials = Callable[[int], Mapping[str, Any] | None]
"""Credentials by their code in the creds index."""


class Links:
    """Follows the links of one tensor.

    Parameters
    ----------
    credentials
        Credentials for a code of the creds index; None where links need none.
    """

    def __init__(self, reader: SampleReader, credentials: Credentials | None = None) -> None:
        self._reader = reader
        self._credentials = credentials

    def path(self, row: int) -> str:
        """Return where the link of a row leads; "" for None.

        Raises
        ------
        FormatError
            If the row holds a grid of links, or no link.
        """
        return decode_link(self._reader.raw(row)[0])

    def is_grid(self, row: int) -> bool:
        """Whether the row holds a grid of links (link_tiled)."""
        return row in self._reader.tile_entries

    def grid(self, row: int) -> NDArray[np.str_]:
        """Return the paths of a grid of links."""
        return decode_tiled(self._reader.raw(row)[0])

    def creds_code(self, row: int) -> int:
        """Return the code of the credentials of a row; 0 for none."""
        index = self._reader.state.creds
        return index.code(row) if index is not None and row < index.count else 0

    def fetch(self, row: int, url: str) -> bytes:
        """Return the content of the file that a link of a row leads to.

        Raises
        ------
        GetDataFromLinkError
            If it can not be read, or must not be; the cause says why.
        """
        code = self.creds_code(row)
        creds = None if self._credentials is None or not code else self._credentials(code)
        try:
            return follow(url, creds=creds)
        except (OSError, LakebedError, ValueError) as error:
            raise self._failed(row, url, error) from error

    def content(self, row: int) -> bytes:
        """Return the content of the file behind the link of a row; b"" for None."""
        url = self.path(row)
        return self.fetch(row, url) if url else b""

    def value(self, row: int) -> Any:
        """Return the sample behind the link of a row: float64 of shape (0,) for None."""
        if self.is_grid(row):
            return self._tiled(row, None)
        url = self.path(row)
        return self.decode(row, url, self.fetch(row, url)) if url else np.empty(0)

    def part(self, row: int, subscript: Any) -> Any:
        """Return a part of the sample behind the link of a row, decoding no more than the file's kind needs."""
        if self.is_grid(row):
            return self._tiled(row, subscript)
        url = self.path(row)
        if not url:
            return np.empty(0)[subscript]
        data = self.fetch(row, url)
        codec = self._codec(row, url, data)
        if codec is None or codec.name not in PARTS:
            return self.decode(row, url, data)[subscript]
        try:
            return file_part(codec, data, subscript)
        except FormatError as error:
            raise self._failed(row, url, error) from error

    def many(self, rows: Sequence[int], use: Callable[[int, Any], None]) -> None:
        """Call ``use(position, value)`` for the samples behind many links, which are fetched at the same time."""

        def work(position: int) -> None:
            use(position, self.value_of(rows[position], urls[position]))

        urls = [None if self.is_grid(row) else self.path(row) for row in rows]
        for_each(len(rows), work, threads=max(1, config.LINK_THREADS))

    def value_of(self, row: int, url: str | None) -> Any:
        """Return the sample behind a link that is known already; None is a grid of links."""
        if url is None:
            return self._tiled(row, None)
        return self.decode(row, url, self.fetch(row, url)) if url else np.empty(0)

    def shape(self, row: int) -> tuple[int, ...]:
        """Return the shape of the sample behind the link of a row, from the header of the file."""
        if self.is_grid(row):
            return self._reader.tile_entries[row][0]
        url = self.path(row)
        if not url:
            return (0,) * max(1, len(self._reader.state.meta.max_shape))
        data = self.fetch(row, url)
        codec = self._codec(row, url, data)
        return (1,) if codec is None else self._ranked(codec.facts(data).shape)

    def decode(self, row: int, url: str, data: bytes) -> Any:
        """Decode a fetched file as a sample of the tensor.

        Raises
        ------
        GetDataFromLinkError
            If it is no file of a known kind, or damaged.
        """
        try:
            codec = self._codec(row, url, data)
            if codec is None:
                return self._reader.decoder.value(data, None)
            facts = codec.facts(data)
            stored = None if codec.name in VIDEO_NAMES else len(data)
            limits.check_sample(
                facts.shape, np.dtype(facts.dtype).itemsize, f"linked {codec.name} file", stored
            )
            return self._shaped(codec.decode(data))
        except FormatError as error:
            raise self._failed(row, url, error) from error

    def _codec(self, row: int, url: str, data: bytes) -> FileCodec | None:
        """Return the codec for a file; None for text, which needs none."""
        if self._reader.decoder.storing is not Storing.ARRAY:
            return None
        name = sniff(data, path=url)
        codec = None if name is None else file_codec(name)
        if codec is None:
            error = FormatError("it is no file of a kind that samples can be")
            raise self._failed(row, url, error) from error
        return codec

    def _shaped(self, array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(self._ranked(array.shape))

    def _ranked(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a grey image with the channel axis that the tensor's other images have."""
        rank = len(self._reader.state.meta.max_shape)
        is_image = self._reader.decoder.htype.is_image
        return (*shape, 1) if len(shape) == 2 and (rank == 3 or (is_image and not rank)) else shape

    def _tiled(self, row: int, subscript: Any) -> NDArray[Any]:
        """Put together a grid of links, of which ``subscript`` fetches only those it touches; None is the whole."""
        shape, tile = self._reader.tile_entries[row]
        paths = self.grid(row)
        if grid_shape(paths.shape, len(shape)) != tuple(-(-s // t) for s, t in zip(shape, tile, strict=True)):
            raise FormatError(
                f"a grid of {paths.shape} links can not make a sample of shape {shape} of tiles {tile}"
            )
        flat = [str(path) for path in paths.flat]
        numbers = range(len(flat)) if subscript is None else touched(shape, tile, subscript)
        dtype = self._reader.decoder.known_dtype()
        limits.check_sample(shape, dtype.itemsize, f"linked sample of tensor {self._reader.name!r}")
        places = boxes(shape, tile)
        out = np.zeros(shape, dtype=dtype)

        def work(position: int) -> None:
            number = numbers[position]
            found = self.decode(row, flat[number], self.fetch(row, flat[number]))
            if found.shape != out[places[number]].shape:
                error = FormatError(f"its shape is {found.shape}, a tile has {tile}")
                raise self._failed(row, flat[number], error) from error
            out[places[number]] = found

        for_each(len(numbers), work, threads=max(1, config.LINK_THREADS))
        return out if subscript is None else out[subscript].copy()

    def _failed(self, row: int, url: str, error: Exception) -> GetDataFromLinkError:
        reader = self._reader
        return GetDataFromLinkError(
            f"Unable to get data from link {shown(url)} "
            f"(tensor {reader.name!r}, row {row} of {reader.source.url}): {error}",
            url=url,
            dataset=reader.source.url,
            tensor=reader.name,
            row=row,
        )
