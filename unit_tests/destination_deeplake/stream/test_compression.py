"""Which tensors of a stream are compressed: new ones, as configured; and nothing else comes of it."""

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, Compression, Decoding, StreamChoices
from destination_deeplake.naming import META_COLUMNS
from lakebed.upserts import store
from unit_tests.destination_deeplake.stream.test_writer import column, sync, table

TEXT, INT, LIST = {"type": "string"}, {"type": "integer"}, {"type": "array", "items": {"type": "number"}}
SCHEMA = {
    "properties": dict.fromkeys(("text", "label", "link", "image", "each", "raw"), TEXT)
    | {"json": LIST, "vector": LIST, "int": INT, "exact": INT, "float": {"type": "number"}}
    | {"bool": {"type": "boolean"}, "day": {**TEXT, "format": "date"}, "at": {**TEXT, "format": "date-time"}}
}
CHOSEN: dict[str, dict[str, Any]] = {
    "exact": {"decoding": Decoding.EXACT},
    "label": {"htype": "class_label"},
    "vector": {"htype": "embedding", "shape": (2,)},
    "link": {"htype": "link[image]"},
    "image": {"htype": "image", "sample_compression": "png"},
    "each": {"sample_compression": "lz4"},
    "raw": {"chunk_compression": "none"},
}
TEXTS = {"text", "json", "exact", *META_COLUMNS}
NUMBERS = {"int", "float", "bool", "day", "at", "label", "vector"}


def plan(compression: Compression, schema: dict[str, Any] = SCHEMA, **more: Any) -> StreamPlan:
    chosen = more.pop("chosen", CHOSEN)
    columns = {name: ColumnChoice(name, **choice) for name, choice in chosen.items()}
    choices = StreamChoices(compression=compression, columns=columns)
    return StreamPlan(None, "users", more.pop("mode", WriteMode.APPEND), schema, choices=choices, **more)


def compressed(path: Path) -> set[str]:
    dataset = lakebed.load(path, read_only=True)
    return {name for name in dataset.tensors if dataset[name].meta.chunk_compression == "lz4"}


@pytest.mark.parametrize(
    ("compression", "found"),
    [(Compression.AUTO, TEXTS), (Compression.LZ4, TEXTS | NUMBERS), (Compression.NONE, set())],
)
def test_new_tensors_are_compressed_as_configured(
    tmp_path: Path, compression: Compression, found: set[str]
) -> None:
    row = {"text": "a", "json": [1.0], "int": 1, "label": "x", "vector": [1, 2], "each": "e", "raw": "r"}
    sync(tmp_path, plan(compression), row, {"text": None, "int": None, "label": "y"})
    assert compressed(tmp_path / "users") == found
    first, second = table(tmp_path / "users")
    assert {name: first[name] for name in row} == row | {"json": "[1.0]"}
    assert (second["text"], second["int"], second["label"], second["each"]) == (None, None, "y", None)


def test_a_dataset_keeps_what_it_has_until_it_is_written_anew(tmp_path: Path) -> None:
    schema: dict[str, Any] = {"properties": {"text": TEXT, "int": INT}}
    sync(tmp_path, plan(Compression.NONE, schema, chosen={}), {"text": "a", "int": 1})
    wider = {"properties": {"text": TEXT, "int": TEXT, "more": TEXT}}
    sync(tmp_path, plan(Compression.AUTO, wider, chosen={}), {"text": "b", "int": "two", "more": "m"})
    assert compressed(tmp_path / "users") == {"more"}
    assert column(tmp_path / "users", "int") == ["1", "two"]
    sync(tmp_path, plan(Compression.NONE, wider, chosen={}), {"text": "c", "more": "n"})
    assert compressed(tmp_path / "users") == {"more"}
    assert column(tmp_path / "users", "more") == [None, "m", "n"]
    refreshed = {"mode": WriteMode.OVERWRITE, "generation_id": 2, "minimum_generation_id": 2}
    sync(tmp_path, plan(Compression.AUTO, wider, chosen={}, **refreshed), {"text": "d"})
    assert compressed(tmp_path / "users") == {"text", "int", "more", *META_COLUMNS}
    assert "types" not in lakebed.load(tmp_path / "users").info["airbyte"]


@pytest.mark.parametrize("compression", Compression)
def test_compressed_columns_can_be_keys_and_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: Compression
) -> None:
    monkeypatch.setattr(store, "BUDGET", store.Budget(at_once=0))
    schema = {"properties": {"text": TEXT, "int": INT}}
    keyed = plan(
        compression, schema, chosen={}, mode=WriteMode.DEDUP, primary_key=(("text",),), cursor=("int",)
    )
    sync(tmp_path, keyed, *({"text": f"t{n % 50}", "int": n} for n in range(100)))
    sync(tmp_path, keyed, *({"text": f"t{n}", "int": 1000 * (n % 2)} for n in range(50)))
    found = {row["text"]: row["int"] for row in table(tmp_path / "users")}
    assert found == {f"t{n}": 1000 if n % 2 else 50 + n for n in range(50)}
    refreshed = plan(
        compression, schema, chosen={}, mode=WriteMode.OVERWRITE, generation_id=2, minimum_generation_id=2
    )
    sync(tmp_path, refreshed, {"text": "new", "int": 1})
    assert [(row["text"], row["int"]) for row in table(tmp_path / "users")] == [("new", 1)]


def test_the_columns_of_the_connector_take_a_few_bytes_per_row(tmp_path: Path) -> None:
    """A UUID, a time, a document and a number: 80 bytes, were they not nearly the same in all rows."""
    rows = 5_000
    sync(tmp_path, plan(Compression.AUTO, {"properties": {}}), *({} for _ in range(rows)))
    sizes = [path.stat().st_size for path in (tmp_path / "users").rglob("chunks/*")]
    assert sum(sizes) < 8 * rows
    assert json.loads(table(tmp_path / "users")[-1]["_airbyte_meta"])["changes"] == []
