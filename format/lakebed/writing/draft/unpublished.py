"""The draft of an open dataset, the copy of it that a running change works on, and the chunk files of both.

A change is made on a fork of the draft. One assignment at its end puts the fork in the place of the draft, so a change
that ends earlier, at any line, leaves the draft as it was.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakebed.writing.draft.draft import Draft
    from lakebed.writing.tensor_chunks import Files


class PinnedChunks:
    """Chunk files that a reader may still request after the draft was packed again, published or dropped."""

    __slots__ = ("__weakref__", "files")

    def __init__(self, files: Files) -> None:
        self.files = files


def _is_inside(frame: FrameType | None, sought: FrameType) -> bool:
    """Return whether a frame is another frame, or was called from it."""
    while frame is not None and frame is not sought:
        frame = frame.f_back
    return frame is not None


class Unpublished(Mapping[str, bytes]):
    """Unpublished chunk files by key, which only this process has; their pieces are joined on request.

    Several threads may look up chunk files at the same time; nothing else is safe for threads.
    """

    def __init__(self) -> None:
        # In this order: the draft, the fork of it that the running change works on, and the stack frame of that
        # change.
        self._now: tuple[Draft | None, Draft | None, FrameType | None] = None, None, None
        self._pinned: tuple[weakref.ref[PinnedChunks], ...] = ()

    # -- the draft ---------------------------------------------------------------------------------------------

    @property
    def draft(self) -> Draft | None:
        """The fork of the running change, or else the draft; None if nothing has changed."""
        kept, work, frame = self._now
        return kept if frame is None or not _is_inside(sys._getframe(1), frame) else work  # noqa: SLF001

    @draft.setter
    def draft(self, draft: Draft | None) -> None:
        self._now = draft, None, None

    @property
    def work(self) -> Draft | None:
        """The fork of the change inside which the caller runs; None if the caller runs inside no change.

        After two interrupts in a row a change may have ended without cleaning up; the caller is then not inside its
        stack frame.
        """
        _, work, frame = self._now
        return work if frame is not None and _is_inside(sys._getframe(1), frame) else None  # noqa: SLF001

    def begin(self, frame: FrameType) -> Draft:
        """Begin a change that runs in a frame: return the fork of the draft to work on."""
        kept = self._now[0]
        if kept is None:
            raise AssertionError("there is no draft to change")
        work = kept.fork()
        self._now = kept, work, frame
        return work

    def keep(self) -> None:
        """End the change: its fork becomes the draft."""
        _, work, _ = self._now
        self._now = work, None, None

    def give_up(self) -> Draft | None:
        """End the change without effect; return its abandoned draft, if any."""
        kept, work, _ = self._now
        self._now = kept, None, None
        return work

    # -- chunk files -------------------------------------------------------------------------------------------

    def pin(self, key: str) -> PinnedChunks:
        """Keep the chunk files of a tensor of the draft for its reader, for as long as the reader holds the result."""
        draft = self.draft
        pinned = PinnedChunks(draft.tensors.seen[key].new_chunks if draft is not None else {})
        if pinned.files:
            self._pinned = (*(known for known in self._pinned if known() is not None), weakref.ref(pinned))
        return pinned

    def _find(self, key: str) -> tuple[bytes | memoryview, ...] | None:
        for draft in self._now[:2]:
            for tensor in list(draft.tensors.seen.values()) if draft is not None else ():
                if key in tensor.new_chunks:
                    return tensor.new_chunks[key]
        for known in self._pinned:
            pinned = known()
            if pinned is not None and key in pinned.files:
                return pinned.files[key]
        return None

    def __getitem__(self, key: str) -> bytes:
        pieces = self._find(key)
        if pieces is None:
            raise KeyError(key)
        return b"".join(pieces)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def __iter__(self) -> Iterator[str]:
        draft = self.draft
        return iter(draft.tensors.new_chunks() if draft else ())

    def __len__(self) -> int:
        draft = self.draft
        return len(draft.tensors.new_chunks()) if draft else 0
