"""The B+ trees of LMDB files, read page by page: no library, no memory map, no lock file.

The library of LMDB takes its files for sound: it maps them, and follows page numbers and lengths wherever they lead, so
that a damaged or truncated file ends the process. Here every number is checked before it is used. What is read is the
layout of LMDB 0.9 (version 1) on 64-bit machines with little endian, which is what all of them write.

page            u64 number, u16 pad, u16 flags, u16 lower, u16 upper
overflow        u64 number, u16 pad, u16 flags, u32 count of pages; one value, over all of these
meta (0, 1)     u32 magic, u32 version, u64 address, u64 size of the map, database of free pages, main database,
                u64 last page, u64 transaction; the later one counts
database        u32 pad (of the first one in a meta page: the size of pages), u16 flags, u16 depth, u64 branch pages,
                u64 leaf pages, u64 overflow pages, u64 entries, u64 root
branch, leaf    u16 offsets of nodes, from 16 to lower; nodes from upper to the end of the page
node            u16 low, u16 high, u16 flags, u16 size of the key, key, data
                branch: low, high and flags are the number of a page
                leaf: low and high are the size of the data, which lies here, or, as flags say, is the number of an
                overflow page (1), a database (2), a page (4) or database (6) of the values of one key
leaf 2          keys of one size, which is in pad; nothing else
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from lakebed.errors import IngestionError

MAGIC = 0xBEEFC0DE

_VERSION = 1
_PAGE = struct.Struct("<QHHHH")
_META = struct.Struct("<IIQQ")
_DATABASE = struct.Struct("<IHHQQQQQ")
_NODE = struct.Struct("<HHHH")
_HEADER = _PAGE.size
_META_BYTES = _HEADER + _META.size + 2 * _DATABASE.size + 16
_NOWHERE = 2**64 - 1
_MOST_DEPTH = 32

_BRANCH, _LEAF, _OVERFLOW, _META_PAGE, _LEAF2 = 0x01, 0x02, 0x04, 0x08, 0x20
_BIG, _SUBTREE, _DUPLICATES = 0x01, 0x02, 0x04
_REVERSE_KEYS, _INTEGER_KEYS = 0x02, 0x08


class Damage(NamedTuple):
    """A page that cannot be read, with all that is below it."""

    reason: str


class Value(NamedTuple):
    """Bytes of a file, which are read when they are asked for; short ones are here."""

    size: int
    start: int
    data: bytes | None = None


class Entry(NamedTuple):
    """A key with one value; ``tree`` if that is a database."""

    key: bytes
    value: Value
    tree: Tree | None = None


class _Node(NamedTuple):
    flags: int
    key: bytes
    size: int
    at: int
    child: int


@dataclass(frozen=True)
class Tree:
    """A database: where its root is, what it says of its keys, how many entries it says that it has."""

    root: int
    flags: int
    depth: int
    entries: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Tree:
        """Parse the 48 bytes of a database."""
        _, flags, depth, _, _, _, entries, root = _DATABASE.unpack(data)
        return cls(root, flags, depth, entries)

    @property
    def order(self) -> Callable[[bytes], Any] | None:
        """What keys are sorted by; None if it is their bytes."""
        if self.flags & _INTEGER_KEYS:
            return lambda key: int.from_bytes(key, "little")
        if self.flags & _REVERSE_KEYS:
            return lambda key: key[::-1]
        return None


class _DamagedPage(Exception):
    """A page that cannot be read."""


class Environment:
    """An open LMDB file.

    Parameters
    ----------
    file
        The file, which can be sought in.
    size
        Its bytes.

    Raises
    ------
    IngestionError
        If it is no LMDB file of this layout.
    """

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self.size = file, size
        first = self._meta(0)
        self.page_size = first[0] if first is not None else self._page_size_by_second()
        metas = [meta for meta in (first, self._meta(self.page_size)) if meta is not None]
        if not metas:
            raise IngestionError("both meta pages of the LMDB file are damaged")
        page_size, self.transaction, self.main = max(metas, key=lambda meta: meta[1])
        if page_size != self.page_size:
            raise IngestionError("the meta pages of the LMDB file tell different sizes of pages")
        self._pages = size // self.page_size

    # -- what is in it ----------------------------------------------------------------------------------------------

    def entries(
        self, tree: Tree, start: bytes | None = None, stop: bytes | None = None
    ) -> Iterator[Entry | Damage]:
        """Yield the entries of a database whose keys are from ``start`` on and before ``stop``, in their order.

        A key with several values is as many entries. What is below a damaged page is missing.
        """
        order = tree.order
        budget = [self._pages]
        bounds = tuple(bound if bound is None or order is None else order(bound) for bound in (start, stop))
        yield from self._below(tree.root, 0, bounds, order, budget)

    def read(self, value: Value) -> bytes:
        """Return the bytes of a value.

        Raises
        ------
        IngestionError
            If they are not where they should be.
        """
        if value.data is not None:
            return value.data
        data = self._bytes(value.start, _HEADER)
        number, _, flags, _, _ = _PAGE.unpack(data)
        pages = int.from_bytes(data[12:16], "little")
        if flags & _OVERFLOW == 0 or number != value.start // self.page_size:
            raise IngestionError(
                f"page {value.start // self.page_size:,} should be one of a long value, and is not"
            )
        if _HEADER + value.size > pages * self.page_size:
            raise IngestionError(f"a value of {value.size:,} bytes does not fit on its {pages:,} pages")
        return self._bytes(value.start + _HEADER, value.size)

    # -- pages --------------------------------------------------------------------------------------------------------

    def _meta(self, at: int) -> tuple[int, int, Tree] | None:
        """Return size of pages, transaction and main database of a meta page; None if it is damaged.

        Raises
        ------
        IngestionError
            If it is of another version.
        """
        if at + _META_BYTES > self.size:
            return None
        data = self._bytes(at, _META_BYTES)
        magic, version, _, _ = _META.unpack_from(data, _HEADER)
        if magic != MAGIC or _PAGE.unpack_from(data)[2] & _META_PAGE == 0:
            return None
        if version != _VERSION:
            raise IngestionError(f"the LMDB file is of version {version}, and {_VERSION} is read")
        free = _HEADER + _META.size
        page_size = int.from_bytes(data[free : free + 4], "little")
        if not 256 <= page_size <= 1 << 16 or page_size & (page_size - 1):
            return None
        main = free + _DATABASE.size
        transaction = int.from_bytes(data[main + _DATABASE.size + 8 :][:8], "little")
        return page_size, transaction, Tree.from_bytes(data[main : main + _DATABASE.size])

    def _page_size_by_second(self) -> int:
        for bits in range(8, 17):
            if self._meta(1 << bits) is not None:
                return 1 << bits
        raise IngestionError("the file has no meta page of LMDB")

    def _bytes(self, start: int, length: int) -> bytes:
        if start + length > self.size:
            raise IngestionError(f"the LMDB file of {self.size:,} bytes ends before byte {start + length:,}")
        self._file.seek(start)
        data = self._file.read(length)
        if len(data) != length:
            raise IngestionError(f"the LMDB file ends before byte {start + length:,}")
        return data

    def _page(self, number: int, depth: int, budget: list[int]) -> bytes:
        """Return a branch or leaf.

        Raises
        ------
        _DamagedPage
            If it is none, or the walk has come to more pages than there are: some are named more than once.
        """
        if depth >= _MOST_DEPTH:
            raise _DamagedPage(f"the tree is more than {_MOST_DEPTH} pages deep")
        budget[0] -= 1
        if budget[0] < 0:
            raise _DamagedPage("pages are named more than once")
        if not 2 <= number < self._pages:
            raise _DamagedPage(f"there is no page {number:,}")
        page = self._bytes(number * self.page_size, self.page_size)
        found, _, flags, _, _ = _PAGE.unpack_from(page)
        if found != number or flags & (_BRANCH | _LEAF) not in (_BRANCH, _LEAF) or flags & _OVERFLOW:
            raise _DamagedPage(f"page {number:,} is no page of a tree")
        return page

    # -- trees --------------------------------------------------------------------------------------------------------

    def _below(
        self,
        number: int,
        depth: int,
        bounds: tuple[Any, ...],
        order: Callable[[bytes], Any] | None,
        budget: list[int],
    ) -> Iterator[Entry | Damage]:
        """Yield the entries of a page and all below it."""
        if number == _NOWHERE:
            return
        start, stop = bounds
        try:
            page = self._page(number, depth, budget)
            nodes = list(_nodes(page))
        except (_DamagedPage, IngestionError) as error:
            yield Damage(f"{error}")
            return
        is_branch = _PAGE.unpack_from(page)[2] & _BRANCH
        keys = [node.key if order is None else order(node.key) for node in nodes]
        for at, node in enumerate(nodes):
            if is_branch:
                if stop is not None and at and keys[at] >= stop:
                    break
                if start is None or at + 1 == len(nodes) or keys[at + 1] > start:
                    yield from self._below(node.child, depth + 1, bounds, order, budget)
            elif (start is None or keys[at] >= start) and (stop is None or keys[at] < stop):
                yield from self._values(page, number, node, depth, budget)

    def _values(
        self, page: bytes, number: int, node: _Node, depth: int, budget: list[int]
    ) -> Iterator[Entry | Damage]:
        """Yield the entries of a node of a leaf."""
        try:
            found = self._content(page, number, node)
        except _DamagedPage as error:
            yield Damage(f"{error}")
            return
        if not isinstance(found, Tree):
            yield from found
            return
        for one in self._below(found.root, depth + 1, (None, None), None, budget):
            yield one if isinstance(one, Damage) else Entry(node.key, Value(len(one.key), 0, one.key))

    def _content(self, page: bytes, number: int, node: _Node) -> list[Entry] | Tree:
        """Return the entries of a node of a leaf, or the tree whose keys are the values of its key.

        Raises
        ------
        _DamagedPage
            If it cannot be read.
        """
        if node.flags & _BIG:
            overflow = int.from_bytes(_inside(page, node.at, 8), "little")
            if not 2 <= overflow < self._pages:
                raise _DamagedPage(f"there is no page {overflow:,}")
            return [Entry(node.key, Value(node.size, overflow * self.page_size))]
        data = _inside(page, node.at, node.size)
        if node.flags & _SUBTREE:
            if len(data) != _DATABASE.size:
                raise _DamagedPage(f"a database has {len(data)} bytes on page {number:,}")
            tree = Tree.from_bytes(data)
            return tree if node.flags & _DUPLICATES else [Entry(node.key, Value(0, 0, b""), tree)]
        if node.flags & _DUPLICATES:
            if len(data) < _HEADER:
                raise _DamagedPage(f"the values of a key are cut short on page {number:,}")
            return [Entry(node.key, Value(len(one.key), 0, one.key)) for one in _nodes(data)]
        return [Entry(node.key, Value(node.size, 0, data))]


def _inside(page: bytes, start: int, length: int) -> bytes:
    if start + length > len(page):
        raise _DamagedPage("a node goes beyond its page")
    return page[start : start + length]


def _nodes(page: bytes) -> Iterator[_Node]:
    """Yield the nodes of a branch or leaf, or of a page inside of a node."""
    _, pad, flags, lower, upper = _PAGE.unpack_from(page)
    if flags & _LEAF2:
        count = (lower - _HEADER) // 2
        if pad == 0 or lower < _HEADER or _HEADER + count * pad > len(page):
            raise _DamagedPage("a page of values of one size does not hold them")
        for at in range(_HEADER, _HEADER + count * pad, pad):
            yield _Node(0, page[at : at + pad], 0, 0, 0)
        return
    if not _HEADER <= lower <= upper <= len(page):
        raise _DamagedPage("the nodes of a page lie beyond it")
    for place in range(_HEADER, lower - 1, 2):
        at = page[place] | page[place + 1] << 8
        if at < lower or at + _NODE.size > len(page):
            raise _DamagedPage("a node lies beyond its page")
        low, high, of, length = _NODE.unpack_from(page, at)
        key = _inside(page, at + _NODE.size, length)
        yield _Node(of, key, low | high << 16, at + _NODE.size + length, low | high << 16 | of << 32)
