"""Files elsewhere: slices of them, fetched once, in steps that grow where they are read in order."""

from __future__ import annotations

import random

import pytest

from lakebed import limits
from lakebed.errors import LimitError, StorageUnavailableError
from lakebed.links import ranged
from lakebed.links.part import Part
from lakebed.links.ranged import RangedFile

DATA = random.Random(0).randbytes(300_000)


class Source:
    """A file that counts what is asked of it."""

    def __init__(self, data: bytes, *, tells_size: bool = True, has_ranges: bool = True) -> None:
        self.data, self.tells_size, self.has_ranges = data, tells_size, has_ranges
        self.asked: list[tuple[int, int]] = []
        self.tags: list[str | None] = []

    def __call__(self, start: int, length: int, tag: str | None) -> Part:
        self.asked.append((start, length))
        self.tags.append(tag)
        total = len(self.data) if self.tells_size else None
        return Part(self.data[start : start + length], total, "v1", self.has_ranges)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files count as large."""
    monkeypatch.setattr(ranged, "_SMALL", 100)


def test_it_reads_like_bytes() -> None:
    """Any slices in any order are those of the content, and nothing is fetched twice."""
    chance = random.Random(1)
    for _ in range(20):
        source = Source(DATA)
        file = RangedFile(source, head=1000)
        assert len(file) == len(DATA)
        for _ in range(30):
            start = chance.randrange(-10, len(DATA) + 10)
            span = slice(start, start + chance.randrange(0, 20_000))
            assert file[span] == DATA[span]
        assert file.fetched == sum(length for _, length in source.asked) <= len(DATA)
        assert file.whole() == DATA
        assert file.fetched == len(DATA)
        assert source.tags == [None] + ["v1"] * (len(source.asked) - 1)


def test_reading_in_order_takes_larger_and_larger_steps() -> None:
    """Few requests for much, little for little."""
    source = Source(DATA * 20)
    file = RangedFile(source)
    at = 0
    while at < len(file):
        at += len(file.some(at, 32_768))
    assert len(source.asked) <= 9
    assert file.fetched == len(file)
    source = Source(DATA * 20)
    file = RangedFile(source)
    assert file[3_000_000:3_000_010] == (DATA * 20)[3_000_000:3_000_010]
    assert source.asked == [(0, ranged.HEAD), (3_000_000, ranged.HEAD)]


def test_some_gives_what_is_there() -> None:
    """A reader that can go on later is not made to wait for more."""
    source = Source(DATA)
    file = RangedFile(source, head=1000)
    file.prefetch(5000, 6000)
    assert file.some(5900, 500) == DATA[5900:6000]
    assert len(source.asked) == 2
    assert file.some(len(DATA), 5) == b""


def test_small_files_come_with_the_first_request_or_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(DATA[:500])
    assert RangedFile(source).is_whole
    assert RangedFile(source).whole() == DATA[:500]
    monkeypatch.setattr(ranged, "_SMALL", 1 << 20)
    source = Source(DATA)
    file = RangedFile(source, head=1000)
    assert file[50_000:50_001] == DATA[50_000:50_001]
    assert source.asked == [(0, 1000), (1000, len(DATA) - 1000)]
    assert len(RangedFile(Source(b""))) == 0


def test_sources_without_ranges() -> None:
    """Are asked for the beginning, and then for all."""
    source = Source(DATA, has_ranges=False)
    file = RangedFile(source, head=1000)
    assert (file[100_000:100_100], file[5:10], file.whole()) == (DATA[100_000:100_100], DATA[5:10], DATA)
    assert source.asked == [(0, 1000), (0, len(DATA))]


def test_sources_that_do_not_tell_the_size() -> None:
    """Are read to the end."""
    source = Source(DATA, tells_size=False)
    file = RangedFile(source, head=1000)
    assert (len(file), file.whole()) == (len(DATA), DATA)
    source = Source(DATA, tells_size=False, has_ranges=False)
    assert RangedFile(source, head=1000).whole() == DATA
    assert len(source.asked) == 2


def test_files_that_shrink_or_are_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(DATA)
    file = RangedFile(source, head=1000)
    source.data = DATA[:2000]
    with pytest.raises(StorageUnavailableError, match="ends after"):
        file.whole()
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 10_000)
    for tells_size, has_ranges in ((True, True), (False, True), (True, False), (False, False)):
        settings = {"tells_size": tells_size, "has_ranges": has_ranges}
        with pytest.raises(LimitError):
            RangedFile(Source(DATA, **settings), head=1000).whole()
    monkeypatch.setattr(limits, "MAX_FETCH_BYTES", 100_000)
    assert RangedFile(Source(DATA), head=1000)[200_000:200_010] == DATA[200_000:200_010]
