"""Many rows of a delta into many of a dataset, in pieces that go into memory."""

from __future__ import annotations

import random

import pytest

from lakebed.upserts import merge as merge_module
from lakebed.upserts.delta import Delta
from lakebed.upserts.keying import Keying
from lakebed.upserts.merge import MergeCount, merge
from unit_tests.lakebed.datasets import create_on, new_memory
from unit_tests.lakebed.upserts.streams import BESIDE, EXTRACTED, Expected, Row, batch, prepared

KEYING = Keying(("id", "part"), ("cursor", EXTRACTED), "deleted", numbers={"id": BESIDE})


@pytest.mark.parametrize("piece_bytes", [1, 500, 10**9])
def test_rows_find_their_places_however_they_are_cut(
    monkeypatch: pytest.MonkeyPatch, piece_bytes: int
) -> None:
    monkeypatch.setattr(merge_module, "_PIECE_BYTES", piece_bytes)
    monkeypatch.setattr(merge_module, "_WHOLE_BYTES", 0 if piece_bytes < 1000 else piece_bytes)
    chosen = random.Random(1)
    old = [Row(number, text="old", cursor="1") for number in range(60)]
    new = [
        Row(number, text=f"{number} " + "x" * chosen.randrange(30), cursor="2", doc=f'{{"n":{number}}}')
        for number in chosen.sample(range(90), 60)
    ]
    new[::7] = [Row(row.id, deleted="now", cursor="2") for row in new[::7]]
    base, expected = prepared(create_on(new_memory())), Expected()
    base.extend(batch(old), append_empty=True)
    base.flush()
    delta = Delta(base, "delta")
    for first in range(0, 60, 20):
        delta.append(batch(new[first : first + 20]), KEYING)
    expected.take([*old, *new])
    count = merge(base, delta.dataset, KEYING)
    known = {row.id for row in old}
    assert count == MergeCount(
        updated=sum(row.id in known and row.deleted is None for row in new),
        inserted=sum(row.id not in known and row.deleted is None for row in new),
        deleted=sum(row.id in known and row.deleted is not None for row in new),
        superseded=sum(row.id not in known and row.deleted is not None for row in new),
    )
    assert min(count.updated, count.inserted, count.deleted, count.superseded) > 1
    expected.check(base)
