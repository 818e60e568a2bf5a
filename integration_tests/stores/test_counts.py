"""Requests counted on the wire: what opening, reading and publishing cost on a real server.

How often one waits for an answer is tested without a server, where it can be told exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Counting, Server


@pytest.fixture(scope="module")
def _book(moto: Server) -> Iterator[Counting]:
    with servers.counting(moto) as book:
        yield book


class Counted:
    """A dataset behind a proxy that counts."""

    def __init__(self, server: Server, book: Counting) -> None:
        self.url = server.url("counts")
        self.book = book
        self._creds = server.through(book)

    def empty(self) -> lakebed.Dataset:
        return lakebed.empty(self.url, creds=self._creds)

    def load(self, ref: str = "", **options: Any) -> lakebed.Dataset:
        return lakebed.load(self.url + ref, creds=self._creds, **options)

    def asked(self) -> dict[str, int]:
        """Requests by method since the last question."""
        found = self.book.requests
        self.book.clear()
        return dict(Counter(request.method for request in found))


@pytest.fixture
def place(moto: Server, _book: Counting) -> Counted:
    """An address that nobody has used; the store has been asked already whether it enforces conditions."""
    made = Counted(moto, _book)
    lakebed.empty(moto.url("before"), creds=moto.through(_book))
    _book.clear()
    return made


def filled(place: Counted, tensors: int) -> lakebed.Dataset:
    ds = place.empty()
    with ds:
        for number in range(tensors):
            ds.create_tensor(f"t{number}", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
        for row in range(3):
            ds.append(dict.fromkeys(ds.tensors, row))
    return ds


def test_opening_and_reading(place: Counted) -> None:
    """A commit takes two GETs, a head three, and a sample one more."""
    ds = filled(place, 4)
    commit = ds.commit("one")
    ds.append(dict.fromkeys(ds.tensors, 7))
    ds.close()
    place.book.clear()
    head = place.load()
    assert place.asked() == {"GET": 3}
    assert len(head) == 4
    assert not place.book.requests
    assert head.t2[3].numpy().tolist() == [7]
    assert place.asked() == {"GET": 1}
    old = place.load(f"@{commit}", read_only=True)
    assert place.asked() == {"GET": 2}
    assert old.t2[1].numpy().tolist() == [1]
    assert place.asked() == {"GET": 1}


@pytest.mark.parametrize("tensors", [1, 20])
def test_opening_what_another_program_copied(
    place: Counted, moto: Server, tmp_path: Path, tensors: int
) -> None:
    """Tree, manifest, no lock file, and one list, which is a GET, too."""
    ds = lakebed.empty(tmp_path / "d")
    with ds:
        for number in range(tensors):
            ds.create_tensor(f"t{number}", dtype="int64")
        ds.append(dict.fromkeys(ds.tensors, 5))
    ds.close()
    servers.copy_folder(moto, tmp_path / "d", place.url)
    place.book.clear()
    there = place.load()
    assert place.asked() == {"GET": 4}
    assert there[f"t{tensors - 1}"].numpy().tolist() == [[5]]
    assert place.asked() == {"GET": 1}


def test_creating(place: Counted) -> None:
    """Is there a dataset, is there anything else; two empty versions; the version file."""
    place.empty()
    assert place.asked() == {"HEAD": 1, "GET": 1, "PUT": 7}


@pytest.mark.parametrize("tensors", [1, 10])
def test_publishing(place: Counted, tensors: int) -> None:
    """Version file and lock, lock, everything that is new at once, version file: no lists, deletes or looks."""
    ds = filled(place, tensors)
    place.book.clear()
    ds.append(dict.fromkeys(ds.tensors, 7))
    ds.flush()
    assert place.asked() == {"GET": 2, "PUT": 5 * tensors + 6}
    ds.commit("one")
    assert place.asked() == {"GET": 2, "PUT": 2 * tensors + 6}
    with ds:
        ds.append(dict.fromkeys(ds.tensors, 8))
        ds.flush()
        place.book.clear()
        ds.append(dict.fromkeys(ds.tensors, 9))
        ds.flush()
        assert place.asked() == {"PUT": 5 * tensors + 5}
    assert place.asked() == {"PUT": 1}
    assert place.load(read_only=True).t0.numpy().ravel().tolist() == [0, 1, 2, 7, 8, 9]
