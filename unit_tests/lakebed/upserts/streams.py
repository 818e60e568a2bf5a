"""A small stream with keys: its dataset, batches of rows, and what it must hold in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import lakebed
from lakebed.upserts.store import Budget, UpsertStore
from lakebed.upserts.tombstones import Tombstones

EXTRACTED = "_airbyte_extracted_at"


@dataclass(frozen=True)
class Row:
    """One record: its key has two columns, of which the second may be null."""

    id: int
    part: str | None = None
    cursor: str | None = None
    text: str | None = None
    doc: str | None = None
    deleted: str | None = None
    extracted: int = 0

    @property
    def key(self) -> tuple[int, str | None]:
        return self.id, self.part

    @property
    def order(self) -> tuple[tuple[str, ...], int]:
        return () if self.cursor is None else (self.cursor,), self.extracted


BESIDE = "_airbyte_exact/id"
MOST = 4
"""Greatest id that its column is to hold; what is beyond stands beside it."""

TENSORS = {
    "id": ("generic", "int64", pa.int64()),
    BESIDE: ("text", "unspecified", pa.string()),
    "part": ("text", "unspecified", pa.string()),
    "cursor": ("text", "unspecified", pa.string()),
    "text": ("text", "unspecified", pa.string()),
    "doc": ("json", "unspecified", pa.json_()),
    "deleted": ("text", "unspecified", pa.string()),
    EXTRACTED: ("generic", "int64", pa.int64()),
}
FIELDS = ["id", "id", "part", "cursor", "text", "doc", "deleted", "extracted"]


def prepared(dataset: lakebed.Dataset) -> lakebed.Dataset:
    """Make the tensors of the stream in an empty dataset."""
    for name, (htype, dtype, _) in TENSORS.items():
        dataset.create_tensor(
            name,
            htype=htype,
            dtype=dtype,
            create_id_tensor=False,
            create_shape_tensor=False,
            create_sample_info_tensor=False,
        )
    dataset.flush()
    return dataset


def batch(rows: Iterable[Row]) -> dict[str, pa.Array]:
    """Return rows as columns."""
    rows = list(rows)
    columns = {}
    for name, (_, _, kind), attribute in zip(TENSORS, TENSORS.values(), FIELDS, strict=True):
        cells = [getattr(row, attribute) for row in rows]
        if attribute == "id":
            cells = [_part(cell, name) for cell in cells]
        if name == "doc":
            columns[name] = pa.ExtensionArray.from_storage(kind, pa.array(cells, pa.string()))
        else:
            columns[name] = pa.array(cells, kind)
    return columns


def _part(number: int, name: str) -> int | str | None:
    """Return what a tensor of ids holds of one, the column or the one beside it."""
    is_beyond = number > MOST
    if name == BESIDE:
        return str(number) if is_beyond else None
    return None if is_beyond else number


def read(dataset: lakebed.Dataset) -> list[Row]:
    """Return the rows of a dataset in their order."""
    if not dataset.max_len:
        return []
    columns = dataset.read_columns(0, dataset.max_len, list(TENSORS))
    cells = {name: columns[name].to_pylist() for name in TENSORS}
    numbers, beside = cells.pop("id"), cells.pop(BESIDE)
    ids = [number if text is None else int(text) for number, text in zip(numbers, beside, strict=True)]
    return [Row(*row) for row in zip(ids, *cells.values(), strict=True)]


def tombstones(dataset: lakebed.Dataset, **choices: Any) -> Tombstones:
    """Return the deletions that a dataset of the stream remembers."""
    return Tombstones(dataset, ["deleted"], **{"days": 1, **choices})


def store(dataset: lakebed.Dataset, **choices: Any) -> UpsertStore:
    """Return the store of the stream; `choices` change how it is made."""
    given = {"key": ["id", "part"], "cursor": "cursor", "deleted": "deleted", "numbers": {"id": BESIDE}}
    given["tombstones"] = tombstones(dataset)
    return UpsertStore(dataset, **{**given, "budget": WAITING, **choices})


WAITING = Budget(at_once=0)
"""However small the dataset is, newer rows of known keys wait."""
TINY = replace(WAITING, rows=4)
BLIND = replace(WAITING, unlearned=2.0)
AT_ONCE = Budget()


@dataclass
class Expected:
    """The newest row of each key among all that came, whatever the order and however often; deletes are rows, too."""

    rows: dict[tuple[int, str | None], Row] = field(default_factory=dict)

    def take(self, rows: Sequence[Row]) -> None:
        for row in rows:
            known = self.rows.get(row.key)
            if known is None or row.order >= known.order:
                self.rows[row.key] = row

    @property
    def present(self) -> dict[tuple[int, str | None], Row]:
        """What readers must see: deleted keys are gone."""
        return {key: row for key, row in self.rows.items() if row.deleted is None}

    def check(self, dataset: lakebed.Dataset) -> None:
        found = read(dataset)
        assert len({row.key for row in found}) == len(found), "a key is there twice"
        assert {row.key: row for row in found} == self.present


def numbered(rows: Sequence[Row], first: int) -> list[Row]:
    """Give rows rising cursors, so that each is newer than all before it."""
    return [replace(row, cursor=f"{first + i:06d}") for i, row in enumerate(rows)]
