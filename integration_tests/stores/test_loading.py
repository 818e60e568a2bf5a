"""A loader on a store over a bad network: the rows that were written, or an error that says which could not be had."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from integration_tests.stores import servers
from integration_tests.stores.servers import Counting, Faults, Server
from lakebed import config
from lakebed.errors import CorruptError, LakebedError, StorageUnavailableError
from lakebed.storage.url import open_storage, parse

ROWS = 120
BROKEN = 77


def photo(row: int) -> np.ndarray[Any, Any]:
    small = np.random.default_rng(row).integers(0, 255, (20, 20, 3), dtype=np.uint8)
    return np.kron(small, np.ones((8, 8, 1), np.uint8))


def written(url: str, creds: dict[str, str], files: list[str]) -> None:
    """Photos as JPEG and as PNG, in chunks that are read by range, and a label."""
    ds = lakebed.empty(url, creds=creds)
    with ds:
        ds.create_tensor("photo", htype="image", sample_compression="jpeg", max_chunk_size=1 << 19)
        ds.create_tensor("noise", dtype="uint8", max_chunk_size=1 << 21)
        ds.create_tensor("label", dtype="int32")
        noise = np.random.default_rng(1).integers(0, 255, (ROWS, 40_000), np.uint8)
        ds.extend(
            {"photo": [lakebed.read(file) for file in files], "noise": noise, "label": list(range(ROWS))}
        )
    ds.commit()
    ds.close()


@pytest.fixture(scope="module")
def url(moto: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dataset of which one photo is cut off in the middle, as its file was."""
    import simplejpeg

    folder, files = tmp_path_factory.mktemp("photos"), []
    for row in range(ROWS):
        data = simplejpeg.encode_jpeg(photo(row), 90)
        path = Path(folder) / f"{row:04}.jpg"
        path.write_bytes(data[: len(data) // 2] if row == BROKEN else data)
        files.append(str(path))
    url = moto.url("loading")
    written(url, moto.creds, files)
    return url


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans of five rows, and only labels in memory as a whole."""
    monkeypatch.setattr("lakebed.loaders.spans.SPAN_BYTES", 200_000)
    monkeypatch.setattr("lakebed.loaders.columns.RESIDENT_BYTES", 10_000)


@pytest.fixture
def network(moto: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    monkeypatch.setattr(config, "STALL_SECONDS", 0.5)
    with servers.faults(moto) as network:
        yield network


@pytest.fixture
def book(moto: Server) -> Iterator[Counting]:
    with servers.counting(moto) as book:
        yield book


def loader(url: str, creds: dict[str, str], **options: Any) -> lakebed.Loader:
    ds = lakebed.load(url, creds=creds, read_only=True)
    made = lakebed.Loader(
        ds, 8, shuffle=True, window=2_000_000, threads=2, tensors=["noise", "label"], **options
    )
    made.state_dict()
    return made


def check(made: lakebed.Loader, passes: int = 1) -> None:
    """Every row comes once, with its values."""
    noise = np.random.default_rng(1).integers(0, 255, (ROWS, 40_000), np.uint8)
    for _ in range(passes):
        rows = []
        for batch in made:
            assert np.array_equal(batch["noise"], noise[batch.rows])
            assert batch["label"].ravel().tolist() == batch.rows.tolist()
            rows += batch.rows.tolist()
        assert sorted(rows) == list(range(ROWS))


@pytest.mark.parametrize(
    "fault",
    [
        {"latency": 0.1},
        {"rate": 4e6},
        {"reset_after": 20_000, "times": 8, "only": "GET .*chunks"},
        {"stall_after": 20_000, "times": 3, "only": "GET .*chunks"},
        {"lose_answer": True, "times": 8, "only": "GET .*chunks"},
    ],
    ids=["far", "throttled", "reset", "silent", "lost"],
)
def test_a_bad_network_changes_nothing(
    moto: Server, network: Faults, url: str, fault: dict[str, Any]
) -> None:
    made = loader(url, moto.through(network))
    network.set(**fault)
    check(made, passes=2)
    if "times" in fault:
        assert network.hits == fault["times"]
        assert made.stats()["retried"] >= fault["times"]
    assert made.stats()["errors"] == 0


@pytest.mark.parametrize("status", [500, 503])
def test_a_busy_store_changes_nothing(moto: Server, book: Counting, url: str, status: int) -> None:
    """It is asked for less at a time."""
    made = loader(url, moto.through(book))
    book.clear()
    book.answer(status, "<Error><Code>SlowDown</Code></Error>", only="chunks", times=20)
    check(made)
    assert made.stats()["retried"] == 20
    assert made.stats()["requests"] == len(book.requests)


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_network_that_is_gone_is_an_error(
    moto: Server, network: Faults, url: str, monkeypatch: pytest.MonkeyPatch, on_error: Any
) -> None:
    """It says which tensor, row and chunk; the next pass, over a sound network, has all rows."""
    monkeypatch.setattr(config, "RETRY_SECONDS", 1.0)
    made = loader(url, moto.through(network), on_error=on_error)
    network.set(refuse=True, reset_after=0)
    with pytest.raises(
        StorageUnavailableError, match=r"tensor '(noise|label)', row \d+: .*/chunks/\w+"
    ) as caught:
        list(made)
    assert caught.value.tensor in ("noise", "label")
    network.set()
    made.set_epoch(0)
    check(made)


def test_a_file_that_was_cut_off_is_named_or_left_out(moto: Server, url: str) -> None:
    """Skipped, it is the only one; substituted, batches stay full."""
    ds = lakebed.load(url, creds=moto.creds, read_only=True)
    with pytest.raises(LakebedError, match=rf"tensor 'photo', row {BROKEN}"):
        list(lakebed.Loader(ds, 8, shuffle=True, tensors=["photo"]))
    cases: list[tuple[Any, int]] = [("skip", ROWS - 1), ("substitute", ROWS)]
    for on_error, count in cases:
        made = lakebed.Loader(ds, 8, shuffle=True, tensors=["photo"], on_error=on_error)
        rows = [row for batch in made for row in batch.rows.tolist()]
        assert len(rows) == count
        assert set(rows) == set(range(ROWS)) - {BROKEN}
        assert made.stats()["errors"] == 1


def test_a_chunk_that_was_cut_off_is_named_or_left_out(moto: Server, url: str, tmp_path: Path) -> None:
    storage = open_storage(parse(url, creds=moto.creds))
    copy = moto.url("cut")
    lakebed.deepcopy(url, copy, src_creds=moto.creds, dest_creds=moto.creds)
    storage = open_storage(parse(copy, creds=moto.creds))
    keys = [key for key, stat in storage.list() if "/noise/chunks/" in f"/{key}" and stat.size > 1_000_000]
    storage.put(keys[0], storage.get(keys[0])[:300_000])
    with pytest.raises(CorruptError, match=r"tensor 'noise', row \d+: chunk .*noise/chunks/\w+"):
        list(loader(copy, moto.creds))
    made = loader(copy, moto.creds, on_error="skip")
    rows = [row for batch in made for row in batch.rows.tolist()]
    assert 0 < made.stats()["errors"] == ROWS - len(rows) < ROWS
    assert len(set(rows)) == len(rows)


def test_a_dataset_that_is_written_meanwhile(moto: Server) -> None:
    """Each pass has the rows that were there when it began, whole; later ones those that were added."""
    url = moto.url("written")
    writer = lakebed.empty(url, creds=moto.creds)
    writer.create_tensor("x", dtype="uint8", max_chunk_size=1 << 20)
    writer.create_tensor("n", dtype="int32")

    def add(first: int) -> None:
        rows = range(first, first + 20)
        with writer:
            writer.extend({"x": [np.full(30_000, row, np.uint8) for row in rows], "n": list(rows)})
        writer.commit()

    add(0)
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for first in range(20, 120, 20):
                add(first)
        except BaseException as error:  # noqa: BLE001 - told by the test
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    counts: list[int] = []
    while thread.is_alive() or not counts or counts[-1] < 120:
        assert not failed
        ds = lakebed.load(url, creds=moto.creds, read_only=True)
        length, rows = len(ds), []
        for batch in lakebed.Loader(ds, 8, shuffle=True, threads=1):
            assert all((value == row).all() for value, row in zip(batch["x"], batch.rows, strict=True))
            assert batch["n"].ravel().tolist() == batch.rows.tolist()
            rows += batch.rows.tolist()
        assert sorted(rows) == list(range(length))
        counts.append(length)
    thread.join()
    assert not failed
    assert counts == sorted(counts)
    assert counts[-1] == 120
