"""Errors that say where: damage, limits and failing stores come out naming dataset, tensor, row and chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.errors import FormatError, LimitError, StorageError

if TYPE_CHECKING:
    from lakebed.reading.stored import StoredSamples


class Locating:
    """Context that makes errors name tensor and row; a class, since it is entered for every sample."""

    __slots__ = ("_reader", "_row")

    def __init__(self, reader: StoredSamples, row: int) -> None:
        self._reader = reader
        self._row = row

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, FormatError | LimitError | StorageError):
            located = self._reader.located(error, self._row)
            if located is not error:  # it says where already
                raise located from error
