"""A source that sends bad lines among good ones: each is accounted for, none is shown."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import lakebed
from destination_deeplake.naming import LETTERS_FOLDER
from integration_tests.connector import Connection, Outcome, write_json
from unit_tests.destination_deeplake.hostile import CANARY, REJECTED, ROW, STRAY, Line, catalog, lines, state

EVERY = 1000


def send(connection: Connection, given: list[Line], end: bytes = b"\n") -> Outcome:
    """Send lines with a STATE behind every thousand of them."""
    parts = []
    for number, line in enumerate(given, 1):
        parts.append(line.text)
        if number % EVERY == 0:
            parts.append(state(number))
    return connection.sync(catalog(), b"\xef\xbb\xbf" + b"\n".join(parts) + end)


def keep(connection: Connection) -> None:
    """Make the connection keep what is rejected."""
    write_json(
        connection.folder / "config.json",
        {"destination_path": str(connection.lake), "rejected_records": "keep"},
    )


@pytest.mark.parametrize("seed", [7])
def test_every_line_of_a_hostile_source_is_accounted_for(connection: Connection, seed: int) -> None:
    keep(connection)
    given = list(lines(100_000, 10_000, seed))
    outcome = send(connection, given)
    answer = b"".join(outcome.output).decode() + outcome.errors
    assert CANARY not in answer
    [failure] = outcome.failures  # some records are of a stream that is not in the catalog
    assert failure["failure_type"] == "config_error"

    folder = connection.lake / LETTERS_FOLDER
    letters = lakebed.load(str(folder), read_only=True)
    fields = Counter(str(text[0]) for text in letters["field"].numpy(aslist=True) if len(text) and text[0])
    assert fields == Counter(line.nulled for line in given if line.nulled)
    wanted = Counter(line.fate for line in given)
    assert len(letters) == wanted[REJECTED] + wanted[STRAY] + fields.total()

    dataset = lakebed.load(str(connection.lake / "s"), read_only=True)
    assert dataset["id"].numpy().ravel().tolist() == [line.id for line in given if line.fate == ROW]

    states = [message["state"] for message in outcome.messages if message["type"] == "STATE"]
    assert [found["stream"]["stream_state"]["at"] for found in states] == list(range(EVERY, 100_001, EVERY))
    for number, found in enumerate(states):
        part = Counter(line.fate for line in given[number * EVERY : (number + 1) * EVERY])
        stats = {"recordCount": part[ROW]} | (
            {"rejectedRecordCount": part[REJECTED]} if part[REJECTED] else {}
        )
        assert found["destinationStats"] == stats


def test_without_the_option_a_bad_line_ends_the_sync_and_is_not_shown(connection: Connection) -> None:
    given = [line for line in lines(3000, 300, 3) if line.fate not in (REJECTED, STRAY)]
    bad = next(line for line in lines(3000, 300, 3) if line.fate == REJECTED)
    outcome = send(connection, [*given[:1500], bad, *given[1500:]])
    assert outcome.status != 0
    assert "Line 15" in json.dumps(outcome.failures)
    assert CANARY not in b"".join(outcome.output).decode() + outcome.errors
    rows = lakebed.load(str(connection.lake / "s"), read_only=True)["id"].numpy().ravel().tolist()
    assert rows == [line.id for line in given[:1500] if line.fate == ROW]
    assert not (connection.lake / LETTERS_FOLDER).exists()


def test_a_tail_that_was_cut_off_is_a_dead_letter(connection: Connection) -> None:
    keep(connection)
    given = list(lines(1000, 0, 1))
    outcome = send(connection, given, b"\n" + given[0].text[:70]).succeeded()
    letters = lakebed.load(str(connection.lake / LETTERS_FOLDER), read_only=True)
    assert letters["reason"].data()["value"] == ["ends inside a JSON value"]
    assert letters["line_number"].numpy().ravel().tolist() == [1002]
    assert outcome.messages[-1]["type"] == "LOG"
