"""A library that crashes, loops or takes all memory does so elsewhere; the next answer comes from a new process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lakebed.errors import IngestionError
from lakebed.importers.arrays import array_reader
from lakebed.importers.arrays.array_reader import Reader
from lakebed.importers.core.source import Source

MODULE = "unit_tests.lakebed.importers.frail_format"


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    monkeypatch.setattr(array_reader, "_SECONDS", 1)
    (tmp_path / "a").write_text("good crash loop memory error")
    return Reader(Source.of(tmp_path / "a"), MODULE)


def test_what_ends_a_process_is_an_error(reader: Reader) -> None:
    found = reader.found()
    assert set(found.arrays) == {"good", "crash", "loop", "memory", "error"}
    assert found.attributes == {"": {"by": "a test"}}
    assert np.array_equal(found.arrays["good"].read(2, 4), [[4, 5], [6, 7]])
    for name, words in (
        ("crash", "crashed, or did not"),
        ("error", "bad chunk"),
        ("memory", "damaged"),
        ("loop", "crashed, or did not"),
    ):
        with pytest.raises(IngestionError, match=words):
            found.arrays[name].read(0, 1)
        assert np.array_equal(found.arrays["good"].read(0, 1), [[0, 1]])
    reader.close()


def test_a_crash_when_a_file_is_opened(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("crash at once")
    reader = Reader(Source.of(tmp_path / "a"), MODULE)
    with pytest.raises(IngestionError, match="crashed, or did not"):
        reader.found()


def test_a_process_that_ended_because_it_was_idle_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("good idle")
    reader = Reader(Source.of(tmp_path / "a"), MODULE)
    found = reader.found()
    assert reader._popen is not None
    reader._popen.wait()
    assert np.array_equal(found.arrays["good"].read(0, 1), [[0, 1]])
    reader.close()
