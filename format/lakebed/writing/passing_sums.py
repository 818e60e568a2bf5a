"""Checksums of a chunk file, taken from its bytes while they are on their way to the storage. Pure.

Of large samples most of the time goes into fetching bytes from memory: once for the checksums of samples, once for
those of the file's blocks, once for the copy. A storage that copies a file step by step anyway shows each step, which
the processor then has in its cache, and all three cost what one of them does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat

import numpy as np
import xxhash
from numpy.typing import NDArray

from lakebed.documents.manifest import BLOCK, block_sums

Buffer = bytes | bytearray | memoryview


class Cuts:
    """The xxh3-64 of runs of bytes of given sizes, which come in parts of any other sizes."""

    __slots__ = ("_room", "_sizes", "_state", "_used", "sums")

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sums: list[int] = []
        self._sizes = iter(sizes)
        self._state = xxhash.xxh3_64()
        self._used = False
        self._room = 0
        self._next()

    def _next(self) -> None:
        self._room = next(self._sizes, 0)

    def take(self, view: memoryview) -> None:
        """Add the next bytes; those beyond the last run are not summed."""
        at, size = 0, len(view)
        while at < size and self._room:
            part = view[at : at + self._room]
            at += len(part)
            if len(part) < self._room:
                self._state.update(part)
                self._used = True
                self._room -= len(part)
                return
            if self._used:
                self._state.update(part)
                self.sums.append(self._state.intdigest())
                self._state.reset()
                self._used = False
            else:
                self.sums.append(xxhash.xxh3_64_intdigest(part))
            self._next()

    def end(self) -> None:
        """End a run that is shorter than it was said to be."""
        if self._used:
            self.sums.append(self._state.intdigest())
            self._used = False


class PassingSums:
    """The checksums of the blocks of one file, and of its samples.

    Parameters
    ----------
    nbytes
        Length of the file.
    header
        Bytes before the first sample.
    sizes
        Bytes of each sample, none of them 0; empty where their checksums are known.
    """

    __slots__ = ("_at", "_blocks", "_header", "_nbytes", "_samples", "_sizes")

    def __init__(self, nbytes: int, header: int, sizes: Sequence[int] | NDArray[np.integer]) -> None:
        self._nbytes, self._header = nbytes, header
        self._sizes = [int(size) for size in sizes]
        self._begin()

    def _begin(self) -> None:
        self._at = 0
        self._blocks = Cuts(repeat(BLOCK))
        self._samples = Cuts(chain((self._header,), self._sizes) if self._sizes else ())

    def see(self, start: int, part: Buffer) -> None:
        """Take in bytes of the file that begin at a place: in order, each once; from 0 on it begins anew."""
        if start == 0:
            self._begin()
        if start != self._at:
            self._at = -1
            return
        view = memoryview(part)
        self._blocks.take(view)
        self._samples.take(view)
        self._at += len(view)
        if self._at == self._nbytes:
            self._blocks.end()

    def complete(self, pieces: Iterable[Buffer]) -> None:
        """Take in the whole file, given as pieces, unless it was seen on its way."""
        if self._at == self._nbytes:
            return
        at = 0
        for piece in pieces:
            self.see(at, piece)
            at += len(piece)

    @property
    def blocks(self) -> list[int]:
        """The xxh3-64 of each block, once the file was seen."""
        return self._blocks.sums

    @property
    def samples(self) -> list[int]:
        """The xxh3-64 of each sample whose size was given, once the file was seen."""
        return self._samples.sums[1:]

    def is_same(self, content: Buffer) -> bool:
        """Tell whether a file holds what was seen."""
        return self._at == self._nbytes and block_sums((content,)) == self.blocks
