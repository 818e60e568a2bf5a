"""Rows -> Arrow columns: shape, nulls, meta columns, memory."""

import gc
import json
import math
import time
import uuid

import lz4.block
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.wire import Wire
from unit_tests.destination_deeplake.oracle import Cell, expected
from unit_tests.destination_deeplake.spellings import escaped, values
from unit_tests.destination_deeplake.tables import batch, fill, record, table, take

META = ["_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_meta", "_airbyte_generation_id"]
ARROW = {Kind.TEXT: pa.string(), Kind.FLOAT64: pa.float64(), Kind.BOOL: pa.bool_(), Kind.DATE: pa.int32()} | {
    Kind.JSON: pa.json_(),
    Kind.EXACT: pa.string(),
    Kind.BYTES: pa.binary(),
    Kind.FLOATS: pa.list_(pa.float32()),
}


def test_columns_have_the_arrow_types_of_their_kinds() -> None:
    target = table({kind.name: kind for kind in Kind})
    wanted = [ARROW.get(kind, pa.int64()) for kind in Kind]
    wanted += [pa.string(), pa.int64(), pa.json_(), pa.int64()]
    assert target.take() == []
    fill(target, record("{}"))
    assert [array.type for array in batch(target).columns.values()] == wanted


def test_only_columns_with_nulls_have_a_validity_bitmap() -> None:
    target = table({"a": Kind.INT64, "b": Kind.TEXT, "c": Kind.BOOL})
    fill(target, *(record(f'{{"a":{n},"b":"x"}}') for n in range(20)))
    taken = batch(target).columns
    assert [taken[name].buffers()[0] is None for name in ("a", "b", "c")] == [True, True, False]
    assert taken["c"].null_count == 20
    fill(target, *(record('{"a":1,"b":"x","c":true}') for _ in range(20)))
    assert all(array.buffers()[0] is None for array in batch(target).columns.values())


fields = st.one_of(st.sampled_from("abcde"), st.text(max_size=3))


@given(
    st.dictionaries(fields, st.sampled_from(Kind), max_size=6),
    st.lists(st.lists(st.tuples(fields, values, st.integers(0, 9)), max_size=8), min_size=1, max_size=6),
)
def test_rows_of_any_shape_become_columns(
    columns: dict[str, Kind], rows: list[list[tuple[str, str, int]]]
) -> None:
    # Keys in any order and spelling, missing, unknown, and more than once: the last one counts.
    target = table(columns)
    before: list[dict[str, Cell]] = []
    for row in rows:
        body = ",".join(f"{escaped(field, seed)}:{text}" for field, text, seed in row)
        fill(target, record("{" + body + "}"))
        last = {field: text for field, text, _ in row}
        before.append(
            {
                field: expected(kind, last[field]) if field in last else Cell(None)
                for field, kind in columns.items()
            }
        )
    assert (target.rows, target.total_rows) == (len(rows), len(rows))
    assert target.unknown_fields == sum(field not in columns for row in rows for field, _, _ in row)
    assert target.nulled == sum(cell.refused for row in before for cell in row.values())
    taken = take(target)
    assert list(taken) == [*columns, *META]
    for field in columns:
        for value, row in zip(taken[field], before, strict=True):
            assert repr(value) == repr(row[field].value)
    for meta, row in zip(taken["_airbyte_meta"], before, strict=True):
        refused = [field for field, cell in row.items() if cell.refused]
        assert [change["field"] for change in json.loads(meta)["changes"]] == refused
    assert target.rows == target.nbytes == 0


def test_a_field_may_have_the_name_of_a_meta_column_or_nearly() -> None:
    fields = {"_airbyte_meta": Kind.TEXT, "_airbyte_meta_": Kind.INT64, "_airbyte_meta__": Kind.BOOL}
    target = table({**fields, "_airbyte_raw_id": Kind.INT64})
    fill(
        target,
        record('{"_airbyte_meta":"mine","_airbyte_meta_":1,"_airbyte_meta__":true,"_airbyte_raw_id":2}'),
    )
    assert target.unknown_fields == 0
    taken = take(target)
    own = [Column(field, kind).key for field, kind in fields.items()]
    assert [taken[key] for key in own] == [["mine"], [1], [True]]
    assert taken[Column("_airbyte_raw_id", Kind.INT64).key] == [2]
    assert taken["_airbyte_meta"] == ['{"sync_id":7,"changes":[]}']
    assert len(taken) == 8


def test_two_columns_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        RecordTable([Column("a", Kind.TEXT), Column("a", Kind.INT64)], sync_id=None, generation_id=None)


@pytest.mark.parametrize("field", ['a"b', "a\\b", "a\nb", "", "\ud800", "é", "😀", "a\x7fb", "a" * 300])
def test_a_column_may_have_any_name(field: str) -> None:
    target = table({field: Kind.DATE, field + "x": Kind.INT64})
    for ensure_ascii in (True, False):
        try:
            line = record(json.dumps({field: "x", field + "x": 1}, ensure_ascii=ensure_ascii))
        except UnicodeEncodeError:
            continue
        fill(target, line, line)
    taken = take(target)
    assert set(taken[field + "x"]) == {1}
    assert {change["field"] for meta in taken["_airbyte_meta"] for change in json.loads(meta)["changes"]} == {
        field
    }


def test_a_column_name_with_a_quote_does_not_let_broken_json_pass() -> None:
    wire = Wire({(None, "s"): table({'a"b': Kind.INT64})})
    with pytest.raises(Exception, match="invalid JSON"):
        list(wire.feed(record('{"a"b":1}')))


@pytest.mark.parametrize(
    ("emitted_at", "micros"),
    [
        ("1700000000123", 1700000000123000),
        ("1700000000123.0", 1700000000123000),
        ("1.7e12", 1700000000000000),
        ("1700000000123.4567", 1700000000123457),
        ('"1700000000123"', 1700000000123000),
        ('"2023-11-14T22:13:20Z"', 1700000000000000),
        ('"2023/Nov/14 22:13:20"', 1700000000000000),
        ('"20231114"', 20231114000),
        ("-1", -1000),
        ("0", 0),
        ("9223372036854775", 9223372036854775000),
        ("9223372036854776", None),
        ("1e400", None),
        ("null", None),
        ("true", None),
        ('"soon"', None),
        ('"17\\u0030"', None),
        ("[1]", None),
    ],
)
def test_extraction_time_is_emitted_at_in_microseconds(emitted_at: str, micros: int | None) -> None:
    target = table({})
    fill(target, record("{}", f',"emitted_at":{emitted_at}'))
    assert take(target)["_airbyte_extracted_at"] == [micros]


def test_extraction_time_is_null_without_emitted_at() -> None:
    target = table({})
    fill(target, record("{}", ""))
    assert take(target)["_airbyte_extracted_at"] == [None]


SOURCE_CHANGE = '{"field":"x", "change":"TRUNCATED","reason":"A NEW ONE"}'


@pytest.mark.parametrize(
    ("meta", "kept"),
    [
        ('{"changes":[]}', ""),
        ('{"changes":[ ]}', ""),
        (f'{{"changes":[ {SOURCE_CHANGE} ]}}', SOURCE_CHANGE),
        (f'{{"more":1,"ch\\u0061nges":[{SOURCE_CHANGE}, 2]}}', SOURCE_CHANGE + ", 2"),
        (f'{{"changes":3,"changes":[{SOURCE_CHANGE}]}}', SOURCE_CHANGE),
        (f'{{"changes":[{SOURCE_CHANGE}],"changes":null}}', ""),
        ("{}", ""),
        ("null", ""),
        ('"changes"', ""),
        ('["changes"]', ""),
    ],
)
def test_changes_of_the_source_come_first_and_as_they_are(meta: str, kept: str) -> None:
    target = table({"n": Kind.INT64, "d": Kind.DATE})
    fill(
        target,
        record('{"n":1,"d":"2024-01-01"}', f',"meta":{meta}'),
        record('{"n":"x","d":"y"}', f',"meta":{meta}'),
    )
    reason = '"change":"NULLED","reason":"DESTINATION_SERIALIZATION_ERROR"'
    ours = f'{{"field":"n",{reason}}},{{"field":"d",{reason}}}'
    assert take(target)["_airbyte_meta"] == [
        f'{{"sync_id":7,"changes":[{kept}]}}',
        f'{{"sync_id":7,"changes":[{kept}{"," if kept else ""}{ours}]}}',
    ]


def test_sync_and_generation_may_be_unknown() -> None:
    target = table({}, sync_id=None, generation_id=None)
    fill(target, record("{}"), record("{}"))
    taken = take(target)
    assert taken["_airbyte_meta"] == ['{"sync_id":null,"changes":[]}'] * 2
    assert taken["_airbyte_generation_id"] == [None, None]
    target = table({}, sync_id=2**40, generation_id=2**40)
    fill(target, record("{}"))
    assert take(target)["_airbyte_generation_id"] == [2**40]


def test_record_ids_are_uuids_that_count_up_in_a_batch() -> None:
    target = table({})
    began = time.time_ns() // 1_000_000
    fill(target, record("{}") * 10_000)
    ids = take(target)["_airbyte_raw_id"]
    parsed = [uuid.UUID(text) for text in ids]
    assert all(
        str(one) == text and one.version == 7 and one.variant == uuid.RFC_4122
        for one, text in zip(parsed, ids, strict=True)
    )
    assert [one.int - parsed[0].int for one in parsed] == list(range(10_000))
    assert began <= parsed[0].int >> 80 <= time.time_ns() // 1_000_000
    assert len(lz4.block.compress("".join(ids).encode())) < 6 * 10_000


def test_record_ids_of_batches_have_nothing_in_common_but_the_time() -> None:
    target = table({})
    firsts = []
    for _ in range(1_000):
        fill(target, record("{}"))
        firsts.append(uuid.UUID(take(target)["_airbyte_raw_id"][0]).int)
    assert len({one & (2**61 - 1) for one in firsts}) == 1_000
    ones = sum((one & (2**61 - 1)).bit_count() + (one >> 64 & 0xFFF).bit_count() for one in firsts) / 1_000
    assert math.isclose(ones, (61 + 12) / 2, abs_tol=1)


def test_batches_do_not_share_memory_while_anyone_holds_them() -> None:
    target = table({"t": Kind.TEXT, "n": Kind.INT64})
    held = []
    for number in range(6):
        fill(target, *(record(f'{{"t":"{number}-{n}","n":{number}}}') for n in range(1000)))
        held.append(batch(target).columns)
        if number % 2:
            del held[0]
            gc.collect()
    for number, taken in zip((3, 4, 5), held, strict=True):
        assert taken["t"].to_pylist() == [f"{number}-{n}" for n in range(1000)]
        assert taken["n"].to_pylist() == [number] * 1000


def test_arrays_outlive_their_table() -> None:
    target = table({"t": Kind.TEXT})
    fill(target, record('{"t":"here"}'))
    taken = batch(target).columns
    del target
    gc.collect()
    assert taken["t"].to_pylist() == ["here"]


def test_nbytes_is_what_the_arrays_take() -> None:
    target = table({kind.name: kind for kind in Kind})
    assert target.nbytes == 0
    fill(target, *(record(f'{{"TEXT":"{"x" * n}","JSON":[{n}],"INT64":{n}}}') for n in range(100)))
    before = target.nbytes
    buffers = [buffer for array in batch(target).columns.values() for buffer in array.buffers() if buffer]
    assert before == sum(buffer.size for buffer in buffers)


def test_columns_grow_to_many_rows_and_long_texts() -> None:
    target = table({"t": Kind.TEXT, "n": Kind.INT64, "b": Kind.BOOL, "j": Kind.JSON})
    wire = Wire({(None, "s"): target})
    for turn in range(3):
        texts = [("é" if n % 3 else "\n") * (n % 97) for n in range(5000)] + ["x" * 3_000_000]
        for n, text in enumerate(texts):
            assert list(wire.feed(record(json.dumps({"t": text, "n": n, "b": n % 2 == 0, "j": [n]})))) == []
        taken = take(target)
        assert taken["t"] == texts, turn
        assert taken["n"] == list(range(len(texts)))
        assert taken["b"] == [n % 2 == 0 for n in range(len(texts))]
        assert taken["j"] == [f"[{n}]" for n in range(len(texts))]
