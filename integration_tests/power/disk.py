"""What a disk may hold after the power fails: a model of POSIX file systems, fed with a recorded log.

Two models, from the strictest reading of POSIX to what common file systems do:

`Loose`    Only fsync promises anything. A file holds what it held at its last fsync, and any part of what was written
           since: each write may be there, be missing, be cut off, or have left zeros; a file that was never forced may
           be empty. Names created, renamed or removed since the last fsync of their folder are there or not, each by
           itself and in any order; a rename is one step. What was unlinked may be back.
`Journal`  As ext4 (data=ordered), xfs and btrfs do: names change in order, and every fsync forces all of them up to
           there; the content of a file that was not forced may be missing from some point on.

Both forget everything that was only in memory; neither invents bytes that nobody wrote, but zeros.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from integration_tests.power.events import (
    ROOT,
    Event,
    Link,
    LostSync,
    Mark,
    Rename,
    Sync,
    Truncate,
    Unlink,
    Write,
)

Naming: TypeAlias = Link | Unlink | Rename
Change: TypeAlias = Write | Truncate
Entries: TypeAlias = dict[int, dict[str, int]]


@dataclass
class _File:
    """Content as it was last forced, and what was done since."""

    forced: bytes = b""
    since: list[Change] = field(default_factory=list)
    ever_forced: bool = False


class Disk:
    """Follows a log; :meth:`loose` and :meth:`journal` say what a cut at this moment may leave."""

    def __init__(self) -> None:
        self._files: dict[int, _File] = {}
        self._folders: set[int] = {ROOT}
        # Names as the strictest reading leaves them, and the changes that no fsync of a folder covers yet.
        self._names: Entries = {ROOT: {}}
        self._pending: list[Naming] = []
        self._lost: dict[int, list[Naming]] = {}
        # Names as a journal leaves them, and the changes since the last fsync of anything.
        self._journal: Entries = {ROOT: {}}
        self._running: list[Naming] = []

    def tell(self, event: Event) -> None:
        """Take the next event of the log."""
        match event:
            case Mark():
                return
            case Link():
                if event.is_folder:
                    self._folders.add(event.node)
                else:
                    self._files[event.node] = _File()
                self._name(event)
            case Unlink() | Rename():
                self._name(event)
            case Write() | Truncate():
                self._files[event.node].since.append(event)
            case Sync():
                self._sync(event.node)
            case LostSync():
                self._lose(event.node)

    def _name(self, event: Naming) -> None:
        again = [folder for folder in self._lost if _touches(event, folder)]
        for folder in again:
            self._pending += self._lost.pop(folder)
        self._pending.append(event)
        self._running.append(event)

    def _sync(self, node: int) -> None:
        if node in self._files:
            file = self._files[node]
            file.forced = _applied(file.forced, file.since)
            file.since, file.ever_forced = [], True
        else:
            mine = [event for event in self._pending if _touches(event, node)]
            _rename_all(self._names, mine)
            self._pending = [event for event in self._pending if not _touches(event, node)]
        _rename_all(self._journal, self._running)
        self._running = []

    def _lose(self, node: int) -> None:
        """After a failed fsync the system takes the pages for clean (as Linux does): no later fsync writes them.

        The names in a folder are one piece: its next change makes all of them dirty again.
        """
        if node in self._files:
            self._files[node].since = []
        else:
            lost = [event for event in self._pending if _touches(event, node)]
            self._lost.setdefault(node, []).extend(lost)
            self._pending = [event for event in self._pending if event not in lost]

    # -- what may be left ------------------------------------------------------------------------------------------

    def everything(self) -> State:
        """Leave all that was done, as after a kill of the process alone."""
        contents = {node: _applied(file.forced, file.since) for node, file in self._files.items()}
        return State(_copied(self._names, self._pending), contents, self._folders)

    def nothing(self) -> State:
        """Leave only what was forced."""
        contents = {node: file.forced for node, file in self._files.items()}
        return State(_copied(self._names, []), contents, self._folders)

    def loose(self, chance: random.Random) -> State:
        """Leave any part of what was not forced."""
        share = chance.choice((0.1, 0.5, 0.9))
        kept = [event for event in self._pending if chance.random() < share]
        contents = {node: _torn(file, chance) for node, file in self._files.items()}
        return State(_copied(self._names, kept), contents, self._folders)

    def journal(self, chance: random.Random) -> State:
        """Leave the names up to some moment, and any beginning of what was written."""
        kept = self._running[: chance.randint(0, len(self._running))]
        contents = {node: _cut_off(file, chance) for node, file in self._files.items()}
        return State(_copied(self._journal, kept), contents, self._folders)

    def unforced(self) -> int:
        """Count the changes that a cut may lose now."""
        return len(self._pending) + sum(len(file.since) for file in self._files.values())


@dataclass(frozen=True)
class State:
    """Names by folder and contents by file, of which only those count that are reached from the root."""

    names: Entries
    contents: Mapping[int, bytes]
    folders: set[int]

    def write(self, place: Path) -> None:
        """Make these files and folders below an empty folder."""
        pending = [(ROOT, str(place))]
        while pending:
            folder, path = pending.pop()
            for name, node in self.names.get(folder, {}).items():
                below = f"{path}/{name}"
                if node in self.folders:
                    Path(below).mkdir()
                    pending.append((node, below))
                else:
                    Path(below).write_bytes(self.contents[node])


def _touches(event: Naming, folder: int) -> bool:
    return folder == event.folder or (isinstance(event, Rename) and folder == event.to_folder)


def _rename_all(names: Entries, events: Sequence[Naming]) -> None:
    for event in events:
        entries = names.setdefault(event.folder, {})
        match event:
            case Link():
                entries[event.name] = event.node
            case Unlink():
                entries.pop(event.name, None)
            case Rename():
                if entries.get(event.name) == event.node:
                    del entries[event.name]
                names.setdefault(event.to_folder, {})[event.to_name] = event.node


def _copied(names: Entries, events: Sequence[Naming]) -> Entries:
    copied = {folder: dict(entries) for folder, entries in names.items()}
    _rename_all(copied, events)
    return copied


def _applied(content: bytes, changes: Sequence[Change]) -> bytes:
    if not changes:
        return content
    data = bytearray(content)
    for change in changes:
        if isinstance(change, Truncate):
            del data[change.length :]
            data.extend(bytes(change.length - len(data)))
        else:
            data.extend(bytes(max(0, change.offset + len(change.data) - len(data))))
            data[change.offset : change.offset + len(change.data)] = change.data
    return bytes(data)


def _torn(file: _File, chance: random.Random) -> bytes:
    """Any part of what was written since the file was forced."""
    kept: list[Change] = []
    for change in file.since:
        match chance.randrange(4):
            case 0:
                kept.append(change)
            case 1 if isinstance(change, Write):
                kept.append(Write(change.node, change.offset, bytes(len(change.data))))
            case 2 if isinstance(change, Write):
                length = chance.randint(0, len(change.data))
                kept.append(Write(change.node, change.offset, change.data[:length]))
            case _:
                pass
    return _applied(file.forced, kept)


def _cut_off(file: _File, chance: random.Random) -> bytes:
    """What was written up to some moment since the file was forced; the last of it may be cut off."""
    if not file.since or chance.random() < 0.3:
        return file.forced
    kept = file.since[: chance.randint(0, len(file.since))]
    if kept and isinstance(kept[-1], Write) and chance.random() < 0.5:
        last = kept[-1]
        kept[-1] = Write(last.node, last.offset, last.data[: chance.randint(0, len(last.data))])
    return _applied(file.forced, kept)
