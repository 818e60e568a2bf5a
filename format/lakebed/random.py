"""The seed of all random choices: shuffles, splits, samples."""

from __future__ import annotations

_seed: int | None = None


def __getattr__(name: str) -> object:
    from lakebed.runtime.absent import explained

    raise AttributeError(explained("random", name) or f"module 'lakebed.random' has no attribute {name!r}")


def seed(value: int | None = None) -> None:
    """Set the seed; None makes the choices differ in each run.

    Raises
    ------
    TypeError
        If the value is neither an integer nor None.
    """
    global _seed  # noqa: PLW0603
    if value is not None and type(value) is not int:
        raise TypeError(f"a seed must be an integer, not {type(value).__name__}")
    _seed = value


def get_seed() -> int | None:
    """Return the seed; None if none was set."""
    return _seed
