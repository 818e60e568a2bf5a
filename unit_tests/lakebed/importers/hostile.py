"""Damage of any kind done to a small valid source: an import ends in a report or in an error of ours, soon."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

from lakebed.errors import LakebedError
from unit_tests.lakebed.importers.sources import imported

Mutation = Callable[[random.Random, bytes], bytes]

_SECONDS = 20
_NUMBERS = (
    b"-1",
    b"0",
    b"1e308",
    b"nan",
    b"inf",
    b"99999999999999999999",
    b"4294967296",
    b"null",
    b'"x"',
    b"[]",
)


def flip(draw: random.Random, data: bytes) -> bytes:
    """Change some bytes."""
    found = bytearray(data)
    for _ in range(draw.randint(1, 8)):
        if found:
            found[draw.randrange(len(found))] = draw.randrange(256)
    return bytes(found)


def truncate(draw: random.Random, data: bytes) -> bytes:
    """Keep the beginning."""
    return data[: draw.randrange(len(data) + 1)]


def remove(draw: random.Random, data: bytes) -> bytes:
    """Remove a stretch."""
    start = draw.randrange(len(data) + 1)
    return data[:start] + data[start + draw.randint(1, 40) :]


def repeat(draw: random.Random, data: bytes) -> bytes:
    """Say a stretch many times."""
    start = draw.randrange(len(data) + 1)
    return data[:start] + data[start : start + draw.randint(1, 60)] * draw.choice((2, 500)) + data[start:]


def number(draw: random.Random, data: bytes) -> bytes:
    """Put an unusual number, or something else, in place of a number."""
    places = [at for at, byte in enumerate(data) if 48 <= byte < 58]
    if not places:
        return data
    start = draw.choice(places)
    stop = start
    while stop < len(data) and (48 <= data[stop] < 58 or data[stop] == 46):
        stop += 1
    return data[:start] + draw.choice(_NUMBERS) + data[stop:]


def escape(draw: random.Random, data: bytes) -> bytes:
    """Put a name outside of the root in place of the name of a file."""
    found = list(_FILE_NAMES.finditer(data))
    if not found:
        return data
    one = draw.choice(found)
    made = (
        draw.choice((b"../", b"../../", b"a/../../", b"..\\\\", b"%s/" % draw.choice(_ROOTS)))
        + b"outside/secret"
    )
    return data[: one.start()] + made + one[1] + data[one.end() :]


_FILE_NAMES = re.compile(rb"[\w./-]+(\.(?:png|jpg|gif|txt|npy|wav|json|arrow))")
_ROOTS: list[bytes] = [b"/"]  # the folder above, once it is known

ANY: Sequence[Mutation] = (flip, truncate, remove, repeat, number, escape)


class Outside:
    """Files beside the root of a source, which no import may read; the system notes when a file was read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "outside"
        self._folder.mkdir(parents=True, exist_ok=True)
        _ROOTS[:] = [os.fsencode(folder)]
        for suffix in ("png", "jpg", "gif", "txt", "npy", "wav", "json", "arrow"):
            (self._folder / f"secret.{suffix}").write_bytes(b"secret")
        self.forget()

    def forget(self) -> None:
        """Set the times at which the files were read to the beginning of time."""
        for path in self._folder.iterdir():
            os.utime(path, (0, 10))

    def read(self) -> list[str]:
        """Return the names of files that were read."""
        return sorted(path.name for path in self._folder.iterdir() if path.stat().st_atime)


def check_hostile(
    format: str,  # noqa: A002 - the user's word
    make: Callable[[Path], Any],
    folder: Path,
    count: int,
    *,
    mutations: Sequence[Mutation] = ANY,
    seed: int = 0,
    suffixes: Sequence[str] = (),
    seconds: float = _SECONDS,
    **options: Any,
) -> int:
    """Import a source as often as asked, each time with one or two of its files damaged; return how many were errors.

    Parameters
    ----------
    make
        Makes the valid source at a path that is not there; may return what is imported in its place.
    suffixes
        Only files of these are damaged.
    seconds
        How long one import may take.
    """
    failed = 0
    outside = Outside(folder)
    for case in range(count):
        draw = random.Random(seed * 1_000_003 + case)
        root = folder / "case"
        src = make(root) or root
        files = sorted(path for path in root.rglob("*") if path.is_file())
        if suffixes:
            files = [path for path in files if path.suffix in suffixes]
        for path in draw.sample(files, min(len(files), draw.randint(1, 2))):
            path.write_bytes(draw.choice(mutations)(draw, path.read_bytes()))
        started = monotonic()
        try:
            imported(format, src, **options)
        except LakebedError:
            failed += 1
        except BaseException as error:
            error.add_note(f"case {case} of seed {seed}")
            raise
        assert monotonic() - started < seconds, f"case {case} of seed {seed} took too long"
        assert not outside.read(), f"case {case} of seed {seed} read files outside of the root"
        shutil.rmtree(root)
    return failed
