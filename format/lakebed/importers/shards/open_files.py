"""Cache of open files, for reading parts of them."""

from __future__ import annotations

from typing import BinaryIO, Self

from lakebed.errors import IngestionError
from lakebed.importers.core.source import Source

_MOST_OPEN = 64


class OpenFiles:
    """Cache of the most recently read files, which are kept open."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._open: dict[str, BinaryIO] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def read(self, name: str, start: int, length: int) -> bytes:
        """Return bytes of a file.

        Raises
        ------
        IngestionError
            If the file ends before the last of these bytes.
        """
        file = self._open.get(name)
        if file is None:
            while len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(self._open))).close()
            file = self._open[name] = self._source.open(name)
        file.seek(start)
        data = file.read(length)
        if len(data) != length:
            raise IngestionError(f"{name} is cut short")
        return data
