"""Statistics of chunks leave chunks unread, and never an answer unlike the one without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakebed
from lakebed.documents import chunk_statistics
from lakebed.errors import FormatError
from lakebed.query.engine.conditions import Condition
from unit_tests.effort import examples

PIECE = 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few rows, as large datasets have many."""
    monkeypatch.setattr(chunk_statistics, "PIECE", PIECE)


def numbers(found: Any) -> list[int]:
    """Rows of a view."""
    return [int(row) for row in found.sample_indices]


def unpruned(ds: lakebed.Dataset, condition: str) -> list[int]:
    """Rows of a condition, all chunks read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Condition, "left", lambda self, relation: None)
        return numbers(ds.query(f"SELECT * WHERE {condition}"))


def made(url: str, rows: int, seed: int) -> lakebed.Dataset:
    """Columns of every kind that has statistics, with values that lie together, missing ones and NaN."""
    generator = np.random.default_rng(seed)
    ds = lakebed.empty(url, overwrite=True)
    ds.create_tensor("i", dtype="int32", max_chunk_size=400)
    ds.create_tensor("u", dtype="uint64", chunk_compression="lz4")
    ds.create_tensor("f", dtype="float32")
    ds.create_tensor("label", htype="class_label", class_names=[f"c{n}" for n in range(90)])
    ds.create_tensor("box", htype="bbox", max_chunk_size=900)
    ds.create_tensor("even", dtype="int16")
    ds.create_tensor("text", htype="text", max_chunk_size=300)
    ds.create_tensor("flag", dtype="bool")
    extend(ds, rows, generator)
    return ds


def extend(ds: lakebed.Dataset, rows: int, generator: np.random.Generator) -> None:
    """Add rows in several publishes, so that there are several chunks."""
    for start in range(0, rows, 40):
        ds.extend([row(start + n, generator) for n in range(min(40, rows - start))])
        ds.flush()


def row(n: int, generator: np.random.Generator) -> dict[str, Any]:
    """Return one row."""
    count = 0 if (n // 10) % 4 == 0 else int(generator.integers(0, 3))
    values = np.float32(n // 9 - 5 + generator.random())
    return {
        "i": n // 7 - 10,
        "u": np.uint64(2**63 + n // 20) if n % 40 > 20 else np.uint64(n // 5),
        "f": None if (n // 8) % 3 == 0 and n % 2 else np.float32(np.nan) if n % 23 == 0 else values,
        "label": (n // 6) % 90,
        "box": (generator.random((count, 4)) * 10 + n // 10).astype(np.float32),
        "even": np.full((2, 2), n // 11, np.int16) + generator.integers(0, 2, (2, 2)).astype(np.int16),
        "text": None
        if n % 31 == 0
        else ""
        if n % 17 == 0
        else f"{'abcdefgh'[(n // 12) % 8] * (n % 9)}é{n // 12}",
        "flag": (n // 16) % 2 == 0,
    }


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    return made("mem://statistics", 260, 1)


NUMBER = st.one_of(
    st.integers(-12, 60), st.integers(-24, 120).map(lambda n: n / 2), st.just(300), st.just(2**62)
)
NAMES = st.sampled_from(["i", "u", "f", "label", "box", "even", "flag", "box[:, 2]"])
TEXT = st.one_of(
    st.sampled_from(["", "é3", "aé0", "aaaé0", "bbbb", "zz", "hhhhhhhhé7"]), st.text("abcé0123", max_size=9)
)
SIGN = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


def compared(name: str, sign: str, value: object) -> str:
    """Return a comparison, either way round."""
    return f"{name} {sign} {value}"


LEAF = st.one_of(
    st.builds(compared, NAMES, SIGN, NUMBER),
    st.builds(lambda sign, value, name: f"{value} {sign} {name}", SIGN, NUMBER, NAMES),
    st.builds(
        lambda name, values: f"{name} IN ({', '.join(map(str, values))})",
        NAMES,
        st.lists(NUMBER, min_size=1, max_size=3),
    ),
    st.builds(lambda name, a, b: f"{name} BETWEEN {a} AND {b}", NAMES, NUMBER, NUMBER),
    st.builds(
        lambda how, name, sign, v: f"{how}({name} {sign} {v})",
        st.sampled_from(["any", "all"]),
        NAMES,
        SIGN,
        NUMBER,
    ),
    st.builds(lambda name, v: f"contains({name}, {v})", NAMES, NUMBER),
    st.builds(lambda name: f"{name} IS NULL", st.sampled_from(["f", "box", "text", "i"])),
    st.builds(lambda sign, v: f"text {sign} '{v}'", SIGN, TEXT),
    st.builds(lambda v: f"contains(text, '{v}')", TEXT),
    st.builds(lambda v: f"starts_with(text, '{v}')", TEXT),
    st.builds(lambda a, b: f"text IN ('{a}', '{b}')", TEXT, TEXT),
    st.builds(lambda n: f"label == 'c{n}'", st.integers(0, 89)),
    st.builds(lambda n: f"contains(label, 'c{n}*')", st.integers(1, 8)),
)
CONDITION = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        inner.map(lambda a: f"NOT ({a})"),
        st.builds(lambda a, b: f"({a}) AND ({b})", inner, inner),
        st.builds(lambda a, b: f"({a}) OR ({b})", inner, inner),
    ),
    max_leaves=4,
)


@settings(
    max_examples=examples(320), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(condition=CONDITION)
def test_an_answer_is_the_one_without_statistics(ds: lakebed.Dataset, condition: str) -> None:
    expected = unpruned(ds, condition)

    assert numbers(ds.query(f"SELECT * WHERE {condition}")) == expected
    assert numbers(ds.query(f"SELECT * WHERE {condition} LIMIT 3 OFFSET 1")) == expected[1:4]
    part = ds[3:230]
    assert numbers(part.query(f"SELECT * WHERE {condition}")) == [r for r in expected if 3 <= r < 230]
    some = ds[[250, 7, 31, 32, 33, 90, 91, 8]]
    assert numbers(some.query(f"SELECT * WHERE {condition}")) == [
        r for r in [250, 7, 31, 32, 33, 90, 91, 8] if r in set(expected)
    ]


# -- what is read ----------------------------------------------------------------------------------------------------


def sorted_numbers(path: Path, rows: int = 200) -> lakebed.Dataset:
    """A column of ten chunks, row n holds n."""
    ds = lakebed.empty(path)
    ds.create_tensor(
        "x", dtype="int32", max_chunk_size=200, create_id_tensor=False, create_shape_tensor=False
    )
    for start in range(0, rows, 20):
        with ds:
            ds.x.extend(np.arange(start, start + 20, dtype=np.int32))
        ds.commit()
    return ds


def side_file(path: Path) -> Path:
    """Path of the one file of statistics."""
    (found,) = (path / ".lakebed").glob("statistics-*")
    return found


def chunks_read(ds: lakebed.Dataset, query: str) -> int:
    """Chunks that a query reads of a dataset that was opened anew, as it tells."""
    told = next(line for line in ds.explain(query, analyze=True).splitlines() if " chunks, " in line)
    return int(told.split(": ")[1].split(" of ")[0])


def test_chunks_that_cannot_be_true_need_not_be_there(tmp_path: Path) -> None:
    sorted_numbers(tmp_path / "ds").query("SELECT * WHERE x == 0")
    fresh = lakebed.load(tmp_path / "ds", read_only=True)
    table = fresh._session.snapshot.tensor("x").table
    for ordinal in (0, 1, 3, 9):
        (tmp_path / "ds" / table.key(ordinal)).unlink()

    assert numbers(fresh.query("SELECT * WHERE x BETWEEN 41 AND 43 OR x == 101")) == [41, 42, 43, 101]
    with pytest.raises(lakebed.errors.GetChunkError):
        fresh.query("SELECT * WHERE x BETWEEN 41 AND 43 OR x % 200 == 101")


def test_a_side_file_is_made_once_and_old_chunks_keep_theirs(tmp_path: Path) -> None:
    ds = sorted_numbers(tmp_path / "ds")
    assert chunks_read(ds, "SELECT * WHERE x == 47") == 10
    made = side_file(tmp_path / "ds").read_bytes()

    again = lakebed.load(tmp_path / "ds")
    assert chunks_read(again, "SELECT * WHERE x == 47") == 1
    assert side_file(tmp_path / "ds").read_bytes() == made
    again.x.extend(np.arange(200, 230, dtype=np.int32))
    again.commit()

    later = lakebed.load(tmp_path / "ds")
    assert chunks_read(later, "SELECT * WHERE x == 47") == 3  # and two of which nothing is known
    assert chunks_read(later, "SELECT * WHERE x == 47") == 1


def test_who_only_reads_keeps_statistics_in_memory(tmp_path: Path) -> None:
    sorted_numbers(tmp_path / "ds")
    ds = lakebed.load(tmp_path / "ds", read_only=True)

    assert [chunks_read(ds, "SELECT * WHERE x > 185") for _ in range(2)] == [10, 1]
    assert not list((tmp_path / "ds" / ".lakebed").glob("statistics-*"))


def test_statistics_are_made_on_request_for_those_who_may_only_read(tmp_path: Path) -> None:
    ds = sorted_numbers(tmp_path / "ds")
    ds.x.extend(np.arange(200, 220, dtype=np.int32))

    assert ds.update_statistics() == [("x", 11, 11)]
    for _ in range(2):
        reader = lakebed.load(tmp_path / "ds", read_only=True)
        assert chunks_read(reader, "SELECT * WHERE x == 47") == 1
    with pytest.raises(lakebed.errors.ReadOnlyModeError):
        reader.update_statistics()

    for ordinal in range(11):  # what is known is not read again
        (tmp_path / "ds" / reader._session.snapshot.tensor("x").table.key(ordinal)).unlink()
    made = side_file(tmp_path / "ds").stat().st_mtime_ns
    assert lakebed.load(tmp_path / "ds").update_statistics(["x"]) == [("x", 11, 11)]
    assert side_file(tmp_path / "ds").stat().st_mtime_ns == made


def test_images_have_no_statistics_and_empty_tensors_none_yet() -> None:
    ds = lakebed.empty("mem://statistics-of-what-has-none", overwrite=True)
    ds.create_tensor("photo", htype="image", sample_compression="png").append(np.zeros((2, 2, 3), np.uint8))
    ds.create_tensor("later", dtype="int64")

    assert ds.update_statistics() == [("later", 0, 0)]
    with pytest.raises(lakebed.errors.InvalidInputError, match="'photo' cannot have statistics"):
        ds.update_statistics(["later", "photo"])
    with pytest.raises(lakebed.errors.TensorDoesNotExistError):
        ds.update_statistics(["y"])


def test_a_damaged_chunk_is_told_and_the_others_are_kept_in_memory(tmp_path: Path) -> None:
    ds = sorted_numbers(tmp_path / "ds")
    lost = tmp_path / "ds" / ds._session.snapshot.tensor("x").table.key(5)
    data = lost.read_bytes()
    lost.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(lakebed.errors.ChecksumError):
        lakebed.load(tmp_path / "ds").update_statistics()
    lost.write_bytes(data)

    assert lakebed.load(tmp_path / "ds").update_statistics() == [("x", 10, 10)]


@pytest.mark.parametrize("kind", ["cut", "flipped", "empty", "other tensor", "nonsense"])
def test_a_side_file_that_does_not_fit_is_not_used(tmp_path: Path, kind: str) -> None:
    sorted_numbers(tmp_path / "ds").query("SELECT * WHERE x == 0")
    path = side_file(tmp_path / "ds")
    data = path.read_bytes()
    chunks = chunk_statistics.from_bytes(data, "x")
    damaged = {
        "cut": [data[:size] for size in range(0, len(data), 97)],
        "flipped": [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 61)],
        "empty": [b""],
        "other tensor": [chunk_statistics.to_bytes("y", chunks)],
        "nonsense": [b"lbstat01" * 40],
    }[kind]
    for wrong in damaged:
        with pytest.raises(FormatError):
            chunk_statistics.from_bytes(wrong, "x")
    path.write_bytes(damaged[-1])

    assert numbers(lakebed.load(tmp_path / "ds").query("SELECT * WHERE x == 47")) == [47]
    assert path.read_bytes() == data


@pytest.mark.parametrize("seed", range(6))
def test_statistics_stay_true_while_datasets_change(tmp_path: Path, seed: int) -> None:
    """Rows are added, replaced and removed, versions committed and branched, between queries of two sessions."""
    generator = np.random.default_rng(seed)
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor(
        "x", dtype="int32", max_chunk_size=200, create_id_tensor=False, create_shape_tensor=False
    )
    ds.create_tensor("t", htype="text", max_chunk_size=400)
    model: list[int] = []
    branches = {"main": model}
    current = "main"
    for _ in range(40):
        step = generator.choice(
            ["extend", "update", "pop", "commit", "branch", "switch", "reopen"],
            p=[0.3, 0.2, 0.1, 0.15, 0.05, 0.1, 0.1],
        )
        if step == "extend":
            values = np.arange(12, dtype=np.int32) + int(generator.integers(0, 100))
            ds.extend({"x": values, "t": [f"t{v}" for v in values]})
            model.extend(values.tolist())
        elif step == "update" and model:
            at, value = int(generator.integers(0, len(model))), int(generator.integers(0, 100))
            ds[at].update({"x": np.int32(value), "t": f"t{value}"})
            model[at] = value
        elif step == "pop" and model:
            at = int(generator.integers(0, len(model)))
            ds.pop(at)
            del model[at]
        elif step == "commit":
            ds.commit(allow_empty=True)
        elif step == "branch" and len(branches) < 3:
            current = f"b{len(branches)}"
            ds.checkout(current, create=True)
            model = branches[current] = list(model)
        elif step == "switch":
            ds.commit(allow_empty=True)
            current = str(generator.choice(list(branches)))
            ds.checkout(current)
            model = branches[current]
        elif step == "reopen":
            ds.close()
            ds = lakebed.load(f"{tmp_path / 'ds'}@{current}")
        wanted = int(generator.integers(0, 110))
        expected = [i for i, v in enumerate(model) if v == wanted]
        assert numbers(ds.query(f"SELECT * WHERE x == {wanted}")) == expected
        assert numbers(ds.query(f"SELECT * WHERE t = 't{wanted}'")) == expected
        assert numbers(ds.query(f"SELECT * WHERE NOT x <= {wanted}")) == [
            i for i, v in enumerate(model) if v > wanted
        ]


# -- where the file goes ---------------------------------------------------------------------------------------------


def test_copies_carry_statistics_and_collection_ends_them(tmp_path: Path) -> None:
    ds = sorted_numbers(tmp_path / "ds")
    ds.query("SELECT * WHERE x == 0")
    name = side_file(tmp_path / "ds").name
    ds.pack(tmp_path / "one.lake")
    lakebed.deepcopy(str(tmp_path / "ds"), str(tmp_path / "copy"), progressbar=False)
    lakebed.backup(tmp_path / "ds", tmp_path / "backups", progressbar=False)
    lakebed.restore(tmp_path / "backups", tmp_path / "restored", progressbar=False)

    assert chunks_read(lakebed.load(tmp_path / "one.lake"), "SELECT * WHERE x == 47") == 1
    for place in ("copy", "restored"):
        assert (tmp_path / place / ".lakebed" / name).exists()
    lakebed.gc(tmp_path / "ds", grace=0)
    assert side_file(tmp_path / "ds").exists()
    (tmp_path / "ds" / ".lakebed" / "statistics-0123456789abcdef").write_bytes(b"of a tensor that is gone")
    assert lakebed.verify(tmp_path / "ds").is_sound
    lakebed.gc(tmp_path / "ds", grace=0)
    assert side_file(tmp_path / "ds").name == name


# -- EXPLAIN ---------------------------------------------------------------------------------------------------------


def test_explain_tells_what_is_left(tmp_path: Path) -> None:
    ds = sorted_numbers(tmp_path / "ds")
    assert "x: 10 of 10 chunks" in ds.explain("SELECT * WHERE x == 47")
    ds.query("SELECT * WHERE x == 47")

    told = ds.explain("EXPLAIN SELECT * WHERE x == 47")
    assert "x: 1 of 10 chunks" in told
    assert "computed for" not in told
    analyzed = ds.query("EXPLAIN ANALYZE SELECT * WHERE x == 47").plan.text()
    assert "computed for 8 of 200 rows, true for 1" in analyzed
    assert "1 rows in" in analyzed[-1]
    with pytest.raises(lakebed.errors.QueryError, match="column 31"):
        ds.query("EXPLAIN SELECT * WHERE x == 4 banana")
