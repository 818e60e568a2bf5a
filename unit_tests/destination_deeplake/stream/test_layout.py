"""Columns -> tensors of a dataset, and what the dataset remembers of them."""

from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import lakebed
from destination_deeplake.catalog import StreamPlan, WriteMode
from destination_deeplake.choices import ColumnChoice, StreamChoices
from destination_deeplake.columns import Kind
from destination_deeplake.naming import META_COLUMNS
from destination_deeplake.stream.layout import prepare
from destination_deeplake.stream.stored import StoredColumns

INT, TEXT = {"type": "integer"}, {"type": "string"}
_numbers = count()


@pytest.fixture
def dataset() -> lakebed.Dataset:
    return lakebed.empty(f"mem://layout-{next(_numbers)}")


def plan(properties: dict[str, Any], mode: WriteMode = WriteMode.APPEND, **more: Any) -> StreamPlan:
    chosen = {choice.column: choice for choice in more.pop("chosen", ())}
    choices = StreamChoices(columns=chosen, flatten=more.pop("flatten", False))
    return StreamPlan(None, "s", mode, {"properties": properties}, choices=choices, **more)


def put(
    dataset: lakebed.Dataset, a_plan: StreamPlan, *rows: dict[str, Any]
) -> tuple[StoredColumns, list[str]]:
    """Lay the columns out and append rows, given by field."""
    notes: list[str] = []
    known = (dataset.info.get("airbyte") or {}).get("columns", {})
    stored = prepare(dataset, a_plan, known, notes)
    if rows:
        kinds = {
            Kind.INT64: pa.int64(),
            Kind.TEXT: pa.string(),
            Kind.FLOAT64: pa.float64(),
            Kind.JSON: pa.json_(),
        }
        taken = {}
        for column in stored.fields:
            values = [row.get(column.field) for row in rows]
            taken[column.field] = pa.array(values, kinds[column.kind])
        ids, at, meta, generation = META_COLUMNS
        taken |= {ids: pa.array(["id"] * len(rows)), at: pa.array([0] * len(rows))}
        texts = pa.array(['{"sync_id":null,"changes":[]}'] * len(rows))
        taken |= {
            meta: pa.ExtensionArray.from_storage(pa.json_(), texts),
            generation: pa.array([0] * len(rows)),
        }
        for batch in stored.batches(taken):
            dataset.extend(batch, append_empty=True)
        dataset.flush()
    return stored, notes


def column(dataset: lakebed.Dataset, tensor: str) -> list[Any]:
    values: list[Any] = dataset.read_columns(0, len(dataset), [tensor])[tensor].to_pylist()
    return values


def test_what_an_earlier_release_remembered_is_understood(dataset: lakebed.Dataset) -> None:
    put(dataset, plan({"a": INT, "path": TEXT}), {"a": 1, "path": "p"})
    record = dataset.info["airbyte"]
    assert record == {
        "namespace": None,
        "stream": "s",
        "generation_id": None,
        "columns": {"a": "a", "path": "path_"},
        "kinds": {"a": "INT64", "path": "TEXT"},
    }
    dataset.info["airbyte"] = record | {"of_a_later_release": [1]}
    put(dataset, plan({"path": TEXT}), {"path": "q"})
    assert column(dataset, "a") == [1, None]
    assert dataset.info["airbyte"] == record | {"of_a_later_release": [1]}


def test_a_tensor_that_the_user_added_is_never_written_into(dataset: lakebed.Dataset) -> None:
    put(dataset, plan({"a": INT}), {"a": 1})
    dataset.create_tensor("label", htype="text").extend(["mine"])
    stored, _ = put(dataset, plan({"a": INT, "label": TEXT}), {"a": 2, "label": "the source's"})
    own = stored.tensor(("label",))
    assert own.startswith("label_")
    assert column(dataset, own) == [None, "the source's"]
    assert dataset["label"][0].text() == "mine"


def test_a_chosen_name_that_the_dataset_has_for_something_else_is_told_of(dataset: lakebed.Dataset) -> None:
    put(dataset, plan({"a": INT, "b": INT}), {"a": 1, "b": 1})
    stored, notes = put(dataset, plan({"a": INT}, chosen=[ColumnChoice("a", tensor="b")]), {"a": 2})
    own = stored.tensor(("a",))
    assert own.startswith("b_")
    assert f"column 'a' is stored as {own!r}, because 'b' is taken in the dataset" in notes
    assert column(dataset, "b") == [1, None]


def test_a_column_that_gets_another_name_goes_on_in_a_new_tensor_and_back(dataset: lakebed.Dataset) -> None:
    renamed = plan({"a": INT}, chosen=[ColumnChoice("a", tensor="g/b")])
    put(dataset, plan({"a": INT}), {"a": 1})
    _, notes = put(dataset, renamed, {"a": 2})
    assert notes == ["column 'a' goes to another tensor from now on, as configured"]
    assert put(dataset, renamed, {"a": 3})[1] == []
    assert put(dataset, plan({"a": INT}), {"a": 4})[1] == []
    back = plan({"a": INT}, chosen=[ColumnChoice("a", tensor="a")])
    put(dataset, back, {"a": 5})
    assert column(dataset, "a") == [1, None, None, None, 5]
    assert column(dataset, "g/b") == [None, 2, 3, 4, None]
    assert set(dataset.tensors) == {"a", "g/b", *META_COLUMNS}


def test_an_object_that_is_taken_apart_later_keeps_its_old_rows(dataset: lakebed.Dataset) -> None:
    schema = {"o": {"type": "object", "properties": {"x": INT, "path": TEXT}}}
    put(dataset, plan(schema), {"o": '{"x":1}'})
    stored, _ = put(dataset, plan(schema, flatten=True), {"o.x": 2, "o.path": "p"})
    group = stored.tensor(("o", "x")).split("/")[0]
    assert group.startswith("o_")
    assert column(dataset, "o") == ['{"x":1}', None]
    assert column(dataset, f"{group}/x") == [None, 2]
    assert column(dataset, f"{group}/path_") == [None, "p"]


def test_keys_inside_of_objects_have_tensors_of_their_own(dataset: lakebed.Dataset) -> None:
    schema = {"o": {"type": "object", "properties": {"id": INT}}, "at": INT, "_ab_cdc_deleted_at": TEXT}
    keyed = plan(schema, WriteMode.DEDUP, primary_key=(("o", "id"),), cursor=("at",))
    left_out = StreamPlan(
        None,
        "s",
        WriteMode.DEDUP,
        keyed.json_schema,
        primary_key=keyed.primary_key,
        cursor=keyed.cursor,
        choices=StreamChoices(include=()),
    )
    stored, _ = put(dataset, left_out)
    assert [field.path for field in stored.fields] == [("at",), ("_ab_cdc_deleted_at",), ("o", "id")]
    assert stored.tensor(("o", "id")) == "o.id"
    with pytest.raises(KeyError, match=r"o\.name"):
        stored.tensor(("o", "name"))


def test_choices_for_columns_that_the_source_does_not_have_are_told(dataset: lakebed.Dataset) -> None:
    _, notes = put(dataset, plan({"a": INT}, chosen=[ColumnChoice("b", dtype="int8")]))
    assert notes == ["the configuration names column 'b', which the source does not have"]


def test_missing_numbers_are_nan_in_old_rows_and_in_new_ones(dataset: lakebed.Dataset) -> None:
    number = {"x": {"type": "number"}}
    as_nan = [ColumnChoice("x", dtype="float32", nulls_as_nan=True)]
    put(dataset, plan({}), {})
    put(dataset, plan(number, chosen=as_nan), {"x": 1.5}, {})
    put(dataset, plan({}), {})
    assert repr(dataset["x"].numpy().ravel().tolist()) == "[nan, 1.5, nan, nan]"


def test_chunks_are_as_large_as_was_chosen(dataset: lakebed.Dataset) -> None:
    small = StreamPlan(
        None, "s", WriteMode.APPEND, {"properties": {"a": INT}}, choices=StreamChoices(chunk_bytes=123_456)
    )
    put(dataset, small, {"a": 1})
    assert {tensor.meta.max_chunk_size for tensor in dataset.tensors.values()} == {123_456}
