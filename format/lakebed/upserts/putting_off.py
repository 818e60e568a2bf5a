"""Postponing a merge because the process is about to end: the rows wait for the next sync."""

from collections.abc import Callable

Checkpoint = Callable[[], None]
"""Called between the steps of a merge, each of a second or less; raises `MergePutOffError` to end the merge."""


class MergePutOffError(Exception):
    """The remaining time is too short for a merge. Nothing of the merge is published; the waiting rows are durable."""


def go_on() -> None:
    """Let a merge continue: the checkpoint that never postpones it."""
