"""Dead letters: durable when they say so, complete, and open only while they are written."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

import lakebed
from destination_deeplake.columns import Column, Kind, RecordTable
from destination_deeplake.letters import SCHEMA, DeadLetters
from destination_deeplake.naming import LETTERS_FOLDER, dataset_folder
from destination_deeplake.wire import Rejected, Wire
from lakebed.errors import LockedException
from unit_tests.destination_deeplake.tables import batch, record


def rejected(
    number: int, raw: bytes = b"{", key: tuple[str | None, str] | None = ("n", "s"), size: int | None = None
) -> Rejected:
    return Rejected(number, key, "invalid JSON at byte 1", raw, len(raw) if size is None else size)


def stored(root: Path) -> list[dict[str, object]]:
    dataset = lakebed.load(str(root / LETTERS_FOLDER), read_only=True)
    columns = {name: dataset[name].numpy(aslist=True) for name in SCHEMA.names}
    assert {len(values) for values in columns.values()} == {len(dataset)}
    texts = {name for name in SCHEMA.names if dataset[name].htype == "text"}
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return [{name: _plain(value, text=name in texts) for name, value in row.items()} for row in rows]


def _plain(value: NDArray[Any] | None, *, text: bool) -> object:
    if value is None or value.size == 0 or value.ravel()[0] == "":
        return None  # a null reads as the empty sample
    return str(value[0]) if text else int(value.ravel()[0])


def test_a_line_becomes_a_row(tmp_path: Path) -> None:
    letters = DeadLetters(str(tmp_path), None, 12)
    letters.line(rejected(3, b'{"a":\xff\x00"\xc3\xa9'))
    letters.line(rejected(9, b"x" * 100, None, size=5000))
    assert (letters.taken, letters.durable) == (2, 0)
    assert letters.nbytes > 100
    assert not (tmp_path / LETTERS_FOLDER).exists()
    letters.publish()
    assert (letters.taken, letters.durable, letters.nbytes) == (2, 2, 0)
    first, second = stored(tmp_path)
    assert first.pop("rejected_at") == second.pop("rejected_at")
    assert {name: value for name, value in first.items() if value is not None} == {
        "sync_id": 12,
        "line_number": 3,
        "namespace": "n",
        "stream": "s",
        "reason": "invalid JSON at byte 1",
        "text": '{"a":\\xff\x00"é',
        "bytes": 10,
    }
    assert (second["stream"], second["namespace"]) == (None, None)
    assert second["reason"] == "invalid JSON at byte 1; the first 100 of 5,000 bytes are kept"


def test_a_value_becomes_a_row_that_names_its_own(tmp_path: Path) -> None:
    table = RecordTable([Column(("a", "b"), Kind.INT64)], sync_id=1, generation_id=1, keep_refused=True)
    wire = Wire({(None, "s"): table})
    long = json.dumps("é" * 40_000, ensure_ascii=False)
    lines = [record(f'{{"a":{{"b":{text}}}}}') for text in ("1", '"x"', "2", long)]
    assert list(wire.feed(b"".join(lines))) == []
    letters = DeadLetters(str(tmp_path) + "/", None, None)
    taken = batch(table)
    assert taken.refused is not None
    rows = taken.columns
    letters.values((None, "s"), taken.refused, rows)
    assert table.take() == []
    letters.line(rejected(5))
    assert letters.taken == 3
    letters.publish()
    short, cut, line = stored(tmp_path)
    ids = rows["_airbyte_raw_id"].to_pylist()
    assert (short["line_number"], short["field"], short["text"], short["raw_id"]) == (2, "a.b", '"x"', ids[1])
    assert (short["reason"], short["emitted_at"], short["sync_id"]) == ("does not fit its column", 1000, None)
    assert (cut["line_number"], cut["bytes"], cut["raw_id"]) == (4, 80_002, ids[3])
    assert cut["reason"] == "does not fit its column; the first 65,535 of 80,002 bytes are kept"
    assert (line["field"], line["raw_id"], line["emitted_at"]) == (None, None, None)
    letters.line(rejected(6))
    letters.publish()
    assert [row["line_number"] for row in stored(tmp_path)] == [2, 4, 5, 6]


def test_each_sync_adds_its_letters_and_makes_a_version(tmp_path: Path) -> None:
    for sync_id in (1, 2):
        letters = DeadLetters(str(tmp_path), None, sync_id)
        for number in range(3):
            letters.line(rejected(number))
            letters.publish()
        letters.finish(f"sync {sync_id}")
    nothing = DeadLetters(str(tmp_path), None, 3)
    nothing.publish()
    nothing.finish("nothing")
    assert [row["sync_id"] for row in stored(tmp_path)] == [1, 1, 1, 2, 2, 2]
    dataset = lakebed.load(str(tmp_path / LETTERS_FOLDER), read_only=True)
    assert [commit["message"] for commit in dataset.commits] == ["sync 2", "sync 1"]


def test_nothing_rejected_makes_no_dataset(tmp_path: Path) -> None:
    letters = DeadLetters(str(tmp_path), None, 1)
    letters.publish()
    letters.finish("nothing")
    assert list(tmp_path.iterdir()) == []


def test_syncs_take_turns(tmp_path: Path) -> None:
    def send(sync_id: int) -> None:
        letters = DeadLetters(str(tmp_path), None, sync_id)
        for number in range(4):
            letters.line(rejected(number))
            letters.publish()
        letters.finish("done")

    threads = [threading.Thread(target=send, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = [row["sync_id"] for row in stored(tmp_path)]
    assert sorted(map(str, counts)) == ["0"] * 4 + ["1"] * 4 + ["2"] * 4


def test_what_cannot_be_published_goes_on_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("destination_deeplake.letters._LOCK_SECONDS", 0.0)
    letters = DeadLetters(str(tmp_path), None, 1)
    letters.line(rejected(1))
    letters.publish()
    letters.line(rejected(2))
    with lakebed.load(str(tmp_path / LETTERS_FOLDER), read_only=False), pytest.raises(LockedException):
        letters.publish()
    assert (letters.taken, letters.durable) == (2, 1)
    letters.publish()
    assert [row["line_number"] for row in stored(tmp_path)] == [1, 2]


def test_no_stream_gets_the_folder_of_the_letters() -> None:
    assert LETTERS_FOLDER not in (
        dataset_folder(None, LETTERS_FOLDER),
        dataset_folder(None, LETTERS_FOLDER.upper()),
    )
    assert not dataset_folder(LETTERS_FOLDER, "s").startswith(LETTERS_FOLDER)
