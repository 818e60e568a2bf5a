"""Write LMDB files of the simplest shape, without the library: sorted keys, overflow pages, named databases."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

PAGE = 4096
NOWHERE = 2**64 - 1


class _Writer:
    def __init__(self, fill: int) -> None:
        self.pages: dict[int, bytes] = {}
        self.next = 2
        self.fill = fill

    def _take(self, count: int = 1) -> int:
        self.next += count
        return self.next - count

    def _page(self, flags: int, nodes: list[bytes]) -> int:
        number, upper, body = self._take(), PAGE, b""
        offsets = []
        for node in nodes:
            node += b"\0" * (len(node) % 2)
            upper -= len(node)
            offsets.append(upper)
            body = node + body
        head = struct.pack("<QHHHH", number, 0, flags, 16 + 2 * len(nodes), upper)
        head += struct.pack(f"<{len(offsets)}H", *offsets)
        self.pages[number] = head.ljust(upper, b"\0") + body
        return number

    def leaf_node(self, key: bytes, value: bytes, flags: int = 0) -> bytes:
        size = len(value)
        if size > PAGE // 4:
            count = (16 + size + PAGE - 1) // PAGE
            number = self._take(count)
            data = struct.pack("<QHHI", number, 0, 4, count) + value
            self.pages[number] = data.ljust(count * PAGE, b"\0")
            flags, value = 1, struct.pack("<Q", number)
        return struct.pack("<HHHH", size & 0xFFFF, size >> 16, flags, len(key)) + key + value

    def _level(self, flags: int, nodes: list[tuple[bytes, bytes]]) -> list[tuple[bytes, int]]:
        """Write the pages of a level; return the first key and the number of each."""
        found: list[tuple[bytes, int]] = []
        run: list[tuple[bytes, bytes]] = []
        for node in [*nodes, None]:
            size = sum(len(one) + 3 for _, one in run)
            if run and (node is None or size + len(node[1]) > PAGE - 32 or len(run) == self.fill):
                found.append((run[0][0], self._page(flags, [one for _, one in run])))
                run = []
            if node is not None:
                run.append(node)
        return found

    def tree(self, entries: Mapping[bytes, bytes], flags: Mapping[bytes, int] | None = None) -> bytes:
        """Write a database; return its 48 bytes."""
        of = flags or {}
        nodes = [(key, self.leaf_node(key, entries[key], of.get(key, 0))) for key in sorted(entries)]
        below, depth = self._level(2, nodes), 1
        while len(below) > 1:
            branches = []
            for at, (key, number) in enumerate(below):
                first = b"" if at % self.fill == 0 else key
                branches.append(
                    (key, struct.pack("<IHH", number & 0xFFFFFFFF, number >> 32, len(first)) + first)
                )
            below, depth = self._level(1, branches), depth + 1
        root = below[0][1] if below else NOWHERE
        return struct.pack("<IHHQQQQQ", 0, 0, depth, 0, 0, 0, len(entries), root)


def write(
    path: Path,
    entries: Mapping[bytes, bytes],
    named: Mapping[str, Mapping[bytes, bytes]] | None = None,
    *,
    fill: int = 16,
) -> None:
    """Write ``path/data.mdb``, with named databases beside the entries.

    Parameters
    ----------
    fill
        Most nodes of a page.
    """
    path.mkdir(parents=True, exist_ok=True)
    writer = _Writer(fill)
    trees = {name.encode(): writer.tree(of) for name, of in (named or {}).items()}
    main = writer.tree({**entries, **trees}, dict.fromkeys(trees, 2))
    free = struct.pack("<IHHQQQQQ", PAGE, 8, 0, 0, 0, 0, 0, NOWHERE)
    data = b""
    for number in (0, 1):
        head = struct.pack("<QHHHH", number, 0, 8, 0, 0) + struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 1 << 30)
        data += (head + free + main + struct.pack("<QQ", writer.next - 1, number)).ljust(PAGE, b"\0")
    for number in sorted(writer.pages):
        assert len(data) == number * PAGE
        data += writer.pages[number]
    (path / "data.mdb").write_bytes(data)
