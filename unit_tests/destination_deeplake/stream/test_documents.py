"""A JSON value fits if a reader opens it again."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from destination_deeplake.catalog import WriteMode
from destination_deeplake.stream.samples import documents, refused_values
from destination_deeplake.stream.writer import open_stream
from unit_tests.destination_deeplake.stream.test_writer import lake, plan, put, sync

DEEPEST = lakebed.limits.MAX_JSON_DEPTH


def nested(depth: int, text: str = '"[{\\"[{"') -> str:
    """Return lists and objects around one another, around a string full of brackets."""
    for level in range(depth):
        text = f"[{text}]" if level % 2 else f'{{"]\\\\":{text}}}'
    return text


def column(texts: list[str | None]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))


TEXTS = [
    None,
    "1",
    nested(3),
    nested(DEEPEST),
    nested(DEEPEST + 1),
    nested(700),
    json.dumps([[]] * 600),
    json.dumps("[" * 600),
    json.dumps('"[' * 600),
    json.dumps("\\" + "[{" * 600),
]
TOO_DEEP = {nested(DEEPEST + 1), nested(700)}


@given(st.lists(st.sampled_from(TEXTS), max_size=8))
def test_what_is_nested_too_deeply_becomes_null_and_is_told(texts: list[str | None]) -> None:
    for array in (column(texts), column([TEXTS[5], None, *texts, TEXTS[4]])[2 : 2 + len(texts)]):
        found = documents(array)
        assert found.array.to_pylist() == [None if text in TOO_DEEP else text for text in texts]
        assert found.refused.tolist() == [row for row, text in enumerate(texts) if text in TOO_DEEP]
        assert found.array.type == pa.json_()
        found.array.validate(full=True)


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.DEDUP])
def test_a_column_that_a_source_nests_too_deeply_can_be_read(tmp_path: Path, mode: WriteMode) -> None:
    schema: dict[str, Any] = {"properties": {"id": {"type": "integer"}, "o": {"type": "object"}}}
    of = plan(mode, schema=schema, primary_key=(("id",),))
    rows = [{"id": 1, "o": json.loads(nested(DEEPEST))}, {"id": 2, "o": json.loads(nested(DEEPEST + 1))}]
    [misfit] = sync(tmp_path, of, *rows).misfits
    assert str(misfit) == "column 'o': 1 of 2 values that are nested too deeply, first at record 2"
    dataset = lakebed.load(str(tmp_path / "users"), read_only=True)
    [batch] = dataset.batches(2)
    assert list(batch["o"]) == [rows[0]["o"], None]
    changes = [json.loads(text)["changes"] for text in pa.table(dataset)["_airbyte_meta"].to_pylist()]
    assert [[change["field"] for change in of_row] for of_row in changes] == [[], ["o"]]


def test_a_dead_letter_of_it_is_the_value_as_the_source_wrote_it(tmp_path: Path) -> None:
    text = nested(DEEPEST + 1)
    [letter] = refused_values(column([text]), documents(column([text])).refused, "o").to_pylist()
    assert (letter["field"], letter["text"], letter["bytes"]) == ("o", text, len(text))
    schema = {"properties": {"o": {}}}
    writer = open_stream(lake(tmp_path), plan(schema=schema), keep_refused=True)
    put(writer, {"o": json.loads(text)})
    ((published, _),) = writer.publish()
    assert json.loads(published["text"][0].as_py()) == json.loads(text)
    writer.finish()
    writer.commit("done")
