"""Values that did not fit, kept as the source wrote them; files of records."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from destination_deeplake.columns import FILE_COLUMNS, REFUSED, Column, Kind, RecordTable
from destination_deeplake.wire import Wire
from unit_tests.destination_deeplake.oracle import expected
from unit_tests.destination_deeplake.spellings import values
from unit_tests.destination_deeplake.tables import batch, fill, record, take
from unit_tests.effort import examples


def keeping(*columns: Column, **more: Any) -> RecordTable:
    return RecordTable(columns, sync_id=1, generation_id=1, keep_refused=True, **more)


def kept(target: RecordTable) -> pa.Table:
    found = batch(target).refused
    assert found is not None
    return found


@settings(max_examples=examples(100))
@given(st.lists(st.tuples(st.sampled_from(Kind), values), min_size=1, max_size=6), st.integers(1, 4))
def test_every_refused_value_is_kept_with_its_place(cells: list[tuple[Kind, str]], times: int) -> None:
    target = keeping(*(Column(f"f{n}", kind) for n, (kind, _) in enumerate(cells)))
    line = record("{" + ",".join(f'"f{n}":{text}' for n, (_, text) in enumerate(cells)) + "}")
    fill(target, *[b"\n", line] * times)
    refused = [(n, text) for n, (kind, text) in enumerate(cells) if expected(kind, text).refused]
    found = kept(target)
    assert found.schema == REFUSED
    found.validate(full=True)
    assert found.to_pylist() == [
        {"row": row, "line_number": 2 * row + 2, "field": f"f{n}", "text": text, "bytes": len(text.encode())}
        for row in range(times)
        for n, text in refused
    ]
    assert target.take() == []


def test_long_values_are_cut_between_characters() -> None:
    target = keeping(Column("a", Kind.INT64))
    texts = [
        "x" * 65_535,
        "x" * 65_536,
        "é" * 40_000,
        "x" + "é" * 40_000,
        "😀" * 20_000,
        "[" * 900 + "]" * 900,
    ]
    texts = [json.dumps(text, ensure_ascii=False) for text in texts]
    fill(target, *(record(f'{{"a":{text}}}') for text in texts))
    found = kept(target)
    found.validate(full=True)
    for start, size, text in zip(found["text"].to_pylist(), found["bytes"].to_pylist(), texts, strict=True):
        assert size == len(text.encode())
        assert text.startswith(start)
        assert min(size, 65_536) - 3 <= len(start.encode()) <= 65_536


def test_only_the_last_of_duplicate_keys_is_kept() -> None:
    target = keeping(Column("a", Kind.INT64), Column(("g", "x"), Kind.INT64))
    rows = [
        '{"a":"x","a":1}',
        '{"a":"x","a":"y"}',
        '{"g":{"x":"z"},"g":{}}',
        '{"g":{"x":"z"},"g":5}',
        '{"g":5,"g":{"x":[]}}',
    ]
    fill(target, *map(record, rows))
    found = [(row["row"], row["field"], row["text"]) for row in kept(target).to_pylist()]
    assert found == [(1, "a", '"y"'), (3, "g", "5"), (4, "g.x", "[]")]


def test_lines_that_break_later_leave_no_value() -> None:
    target = keeping(Column("a", Kind.INT64))
    wire = Wire({(None, "s"): target}, lambda _: None)
    assert list(wire.feed(record('{"a":"x"}')[:-2] + b",}\n" + record('{"a":"y"}'))) == []
    assert [(row["row"], row["line_number"]) for row in kept(target).to_pylist()] == [(0, 2)]


def test_what_is_kept_counts_as_memory() -> None:
    target, other = (
        keeping(Column("a", Kind.INT64)),
        RecordTable([Column("a", Kind.INT64)], sync_id=1, generation_id=1),
    )
    for table in (target, other):
        fill(table, *(record(f'{{"a":"{"x" * 1000}"}}') for _ in range(100)))
    assert target.nbytes - other.nbytes >= 100_000
    assert batch(other).refused is None


def file(name: str, *members: object) -> str:
    keys = {
        "file_reference": ("staging_file_url", "source_file_relative_path", "file_size_bytes"),
        "file": ("file_url", "file_relative_path", "bytes"),
    }[name]
    return f'"{name}":' + json.dumps(dict(zip(keys, members, strict=True)) | {"more": 1})


@pytest.mark.parametrize(
    ("members", "cells"),
    [
        ("", (None, None, None)),
        (file("file_reference", "/staging/a", "d/a.png", 12), ("/staging/a", "d/a.png", 12)),
        (file("file", "/staging/a", "d/a.png", 12), ("/staging/a", "d/a.png", 12)),
        (file("file", "/old", "o", 1) + "," + file("file_reference", "/new", "n", 2), ("/new", "n", 2)),
        ('"file_reference":null,' + file("file", "/old", "o", 1), ("/old", "o", 1)),
        ('"file_reference":{"staging_file_url":"/a"}', ("/a", None, None)),
        (file("file_reference", "/a", None, "12"), ("/a", None, 12)),
        ('"file":null', (None, None, None)),
        (r'"file_ref\u0065rence":{"staging\u005ffile_url":"/a"}', ("/a", None, None)),
        ('"file":{"bytes":1,"bytes":2}', (None, None, 2)),
        ('"file_reference":{"file_url":"/a"}', (None, None, None)),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_files_of_records_become_columns(members: str, cells: tuple[object, ...], first: bool) -> None:
    target = RecordTable([Column("id", Kind.INT64)], sync_id=1, generation_id=1, files=True)
    body = '"stream":"s","data":{"id":1,"file_url":"mine"}'
    body = ",".join(filter(None, (members, body) if first else (body, members)))
    fill(target, *[f'{{"type":"RECORD","record":{{{body}}}}}\n'.encode()] * 2)
    taken = take(target)
    assert list(taken)[:4] == ["id", *FILE_COLUMNS]
    assert [taken[name] for name in FILE_COLUMNS] == [[cell] * 2 for cell in cells]
    assert taken["id"] == [1, 1]
    assert (target.unknown_fields, target.nulled) == (2, 0)


def test_a_file_that_is_none_is_told() -> None:
    target = keeping(files=True)
    fill(
        target,
        record("{}", ',"file_reference":"x"'),
        record("{}", ',"file":[]'),
        record("{}", ',"file":{"bytes":"many"}'),
    )
    taken = batch(target)
    assert taken.refused is not None
    found = [(row["row"], row["field"], row["text"]) for row in taken.refused.to_pylist()]
    assert found == [(0, "file_reference", '"x"'), (1, "file", "[]"), (2, "_airbyte_file_bytes", '"many"')]
    assert [len(json.loads(meta)["changes"]) for meta in taken.columns["_airbyte_meta"].to_pylist()] == [
        1,
        1,
        1,
    ]


def test_a_property_may_have_the_name_of_a_column_of_the_file() -> None:
    columns = [Column("_airbyte_file_url", Kind.INT64), Column(("a", "b"), Kind.INT64)]
    target = RecordTable(columns, sync_id=1, generation_id=1, files=True)
    fill(target, record('{"_airbyte_file_url":7,"a":{"b":8}}', "," + file("file", "/u", "p", 3)))
    taken = take(target)
    assert (taken["_airbyte_file_url"], taken[columns[0].key], taken["a.b"]) == (["/u"], [7], [8])
    assert target.unknown_fields == 0
