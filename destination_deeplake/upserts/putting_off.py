"""Breaking off a merge, because the process is about to be ended: the rows wait for the next sync."""

from collections.abc import Callable

Checkpoint = Callable[[], None]
"""Called between the steps of a merge, each a second or less; raises `MergePutOffError` to go no further."""


class MergePutOffError(Exception):
    """There is no time for a merge. Nothing of it is published, and what waits for it is durable."""


def go_on() -> None:
    """Take all the time that it needs."""
