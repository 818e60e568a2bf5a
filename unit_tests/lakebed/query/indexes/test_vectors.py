"""Nearest vectors: exact ones as NumPy finds them; by an index nearly all of them, and never one that is stale."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import lakebed
from lakebed.errors import (
    AlreadyExistsError,
    DatasetCorruptError,
    FormatError,
    InvalidInputError,
    ModuleNotInstalledException,
    QueryError,
)
from lakebed.query.indexes import building, graph, hnsw, making, registry
from lakebed.query.indexes.codes import Codes
from lakebed.query.indexes.segments import Segment

needs_usearch = pytest.mark.skipif(
    importlib.util.find_spec("usearch") is None, reason="usearch, which the extra search installs, is missing"
)
ORDERS = {
    "cosine": "COSINE_SIMILARITY(v, ?) DESC",
    "l2": "L2_NORM(v - ?)",
    "dot": "DOT(v, ?) DESC",
}
WIDTH = 24


def vectors(count: int, seed: int = 0) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    middles = np.random.default_rng(99).normal(size=(40, WIDTH))
    found = middles[rng.integers(0, 40, count)] + 0.4 * rng.normal(size=(count, WIDTH))
    return found.astype(np.float32)


def filled(place: Path | str, count: int = 4000) -> lakebed.Dataset:
    ds = lakebed.empty(place, overwrite=True)
    ds.create_tensor("v", htype="embedding", dtype="float32", max_chunk_size=1 << 15)
    ds.create_tensor("n", dtype="int64")
    ds.extend({"v": vectors(count), "n": np.arange(count)})
    ds.commit()
    return ds


def values(metric: str, stored: NDArray[np.float32], asked: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return what the first rows have the largest values of."""
    many, one = stored.astype(np.float64), asked.astype(np.float64)
    if metric == "l2":
        return -np.sqrt(((many - one) ** 2).sum(axis=1))
    dots = many @ one
    return dots / (np.linalg.norm(many, axis=1) * np.linalg.norm(one)) if metric == "cosine" else dots


def numbers(found: lakebed.Dataset) -> list[int]:
    return [int(n) for n in found.n.numpy().ravel()]


def recall(
    ds: lakebed.Dataset, metric: str, condition: str = "", keep: NDArray[np.bool_] | None = None
) -> float:
    """Search for some vectors; what is found must have the values that it is ordered by, and none twice."""
    stored, names = np.asarray(ds.v.numpy()), ds.n.numpy().ravel()
    hits = total = 0
    for asked in vectors(8, seed=7):
        right = values(metric, stored, asked)
        if keep is not None:
            right = np.where(keep, right, -np.inf)
        best = np.sort(right)[::-1][:10]
        found = ds.query(f"SELECT * {condition} ORDER BY {ORDERS[metric]} LIMIT 10", parameters=[asked])
        assert len(found) == 10
        rows = [int(np.flatnonzero(names == n)[0]) for n in numbers(found)]
        assert len(set(rows)) == 10
        told = right[rows]
        assert np.isfinite(told).all()
        assert (np.diff(told) <= 1e-5 * np.abs(best).max()).all(), "they are ordered by their own values"
        hits += int((told >= best[-1] - 1e-5 * np.abs(best).max()).sum())
        total += 10
    return hits / total


# -- exact -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", sorted(ORDERS))
def test_exact_searches_find_what_numpy_finds(metric: str) -> None:
    ds = filled("mem://exact")
    assert recall(ds, metric) == 1.0
    assert recall(ds, metric, "WHERE n % 7 == 3", np.arange(4000) % 7 == 3) == 1.0


def test_a_norm_of_a_difference_is_a_distance() -> None:
    ds = filled("mem://norms", 50)
    q = vectors(1, seed=5)[0]
    stored = ds.v.numpy()
    for name, order in (("L1_NORM", 1), ("L2_NORM", 2), ("LINF_NORM", np.inf)):
        for text in (f"{name}(v - ?)", f"{name}(? - v)"):
            found = ds.query(f"SELECT {text} AS d", parameters=[q]).d.numpy().ravel()
            np.testing.assert_allclose(found, np.linalg.norm(stored - q, order, axis=1), rtol=1e-5)
    with pytest.raises(QueryError):
        ds.query("SELECT L2_NORM(v - ?) AS d", parameters=[q[:5]]).d.numpy()


def test_vectors_of_one_precision_are_compared_in_it() -> None:
    ds = lakebed.empty("mem://precision", overwrite=True)
    for dtype in ("float16", "float32", "float64", "uint8"):
        ds.create_tensor(f"x_{dtype}", dtype=dtype)
    given = np.random.default_rng(2).integers(0, 100, (700, 1000))
    ds.extend({f"x_{dtype}": given.astype(dtype) for dtype in ("float16", "float32", "float64", "uint8")})
    q = np.linspace(0, 1, 1000)
    for name in list(ds.tensors):
        found = ds.query(f"SELECT DOT({name}, ?) AS d, L1_DISTANCE({name}, ?) AS e", parameters=[q, q])
        np.testing.assert_allclose(found.d.numpy().ravel(), given @ q, rtol=1e-4)
        np.testing.assert_allclose(found.e.numpy().ravel(), np.abs(given - q).sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("namespace", ["torch", "jax"])
def test_other_libraries_give_the_same_answers(namespace: str) -> None:
    pytest.importorskip(namespace)
    ds = filled("mem://spaces", 500)
    q = vectors(1, seed=5)[0]
    text = (
        "SELECT COSINE_SIMILARITY(v, ?) AS a, DOT(v, ?) AS b, L1_DISTANCE(v, ?) AS c, L2_DISTANCE(v, ?) AS d, "
        "LINF_DISTANCE(v, ?) AS e, HAMMING_DISTANCE(v, ?) AS f"
    )
    here = ds.query(text, parameters=[q] * 6)
    there = ds.query(text, parameters=[q] * 6, namespace=namespace, device="cpu")
    for name in "abcdef":
        np.testing.assert_allclose(
            there.column(name).numpy(), here.column(name).numpy(), rtol=2e-5, atol=2e-5
        )
    first = "SELECT * ORDER BY L2_NORM(v - ?) LIMIT 5"
    found = ds.query(first, parameters=[q], namespace=namespace)
    assert numbers(found) == numbers(ds.query(first, parameters=[q]))


def test_what_is_no_library_or_device_is_told() -> None:
    ds = filled("mem://nowhere", 10)
    with pytest.raises(InvalidInputError, match="'numpy', 'torch' or 'jax'"):
        ds.query("SELECT *", namespace="cupy")
    with pytest.raises(InvalidInputError, match="CPU"):
        ds.query("SELECT *", namespace="numpy", device="cuda")
    if importlib.util.find_spec("torch") is not None:
        with pytest.raises(InvalidInputError, match="no device"):
            ds.query("SELECT *", device="nonsense")


# -- with an index ---------------------------------------------------------------------------------------------------


def test_without_usearch_it_is_named() -> None:
    if hnsw.is_installed():
        pytest.skip("usearch is installed")
    ds = filled("mem://missing", 20)
    with pytest.raises(ModuleNotInstalledException, match=r"'lakebed\[search\]'"):
        ds.create_index("v", "hnsw")


@needs_usearch
@pytest.mark.parametrize(
    ("metric", "dtype"), [("cosine", "f16"), ("cosine", "i8"), ("dot", "f32"), ("dot", "i8"), ("l2", "auto")]
)
def test_searches_by_an_index_find_nearly_all(
    metric: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = filled("mem://hnsw")
    made = ds.create_index("v", metric=metric, dtype=dtype)
    assert made.recall is not None
    assert made.recall >= 0.95
    asked = count_searches(monkeypatch)
    assert recall(ds, metric) >= 0.95
    assert asked
    told = ds.explain(f"SELECT * ORDER BY {ORDERS[metric]} LIMIT 10", [vectors(1)[0]])
    assert "v_hnsw" in told
    assert "%" in told
    # Others go by values: another metric, another direction, no limit, exact=True.
    asked.clear()
    q = vectors(1)[0]
    for other in sorted(set(ORDERS) - {metric}):
        ds.query(f"SELECT * ORDER BY {ORDERS[other]} LIMIT 10", parameters=[q])
    turned = ORDERS[metric].removesuffix(" DESC") + ("" if "DESC" in ORDERS[metric] else " DESC")
    ds.query(f"SELECT * ORDER BY {turned} LIMIT 10", parameters=[q])
    ds.query(f"SELECT * ORDER BY {ORDERS[metric]}", parameters=[q])
    ds.query(f"SELECT * ORDER BY {ORDERS[metric]} LIMIT 10", parameters=[q], exact=True)
    assert asked == []


def count_searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    asked: list[int] = []
    nearest = hnsw.Vectors.nearest

    def counted(
        self: hnsw.Vectors, vector: NDArray[np.float32], count: int, wide: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        asked.append(count)
        return nearest(self, vector, count, wide)

    monkeypatch.setattr(hnsw.Vectors, "nearest", counted)
    return asked


@needs_usearch
@pytest.mark.parametrize("part", [2, 5, 60])
def test_conditions_come_first(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are looked at one by one; of many, enough are fetched."""
    ds = filled("mem://filtered", 4000)
    ds.create_index("v", "hnsw")
    asked = count_searches(monkeypatch)
    keep = np.arange(4000) % part == 1
    if part == 2:  # half of the rows, and those all far from what is asked
        keep = values("cosine", ds.v.numpy(), vectors(8, seed=7)[0]) < 0.2
        ds.create_tensor("far", dtype="bool").extend(keep)
        assert recall(ds, "cosine", "WHERE far", keep) >= 0.95
    else:
        assert recall(ds, "cosine", f"WHERE n % {part} == 1", keep) >= 0.95
    assert bool(asked) == (keep.sum() > 1000)


@needs_usearch
def test_no_search_finds_a_row_that_is_gone_or_was_changed() -> None:
    """Appends, updates, pops, branches and checkouts between searches, published or not."""
    ds = filled("mem://hnsw-model", 3000)
    ds.create_index("v", "hnsw")
    rng = np.random.default_rng(4)
    commits = [ds.commit_id]
    for step in range(16):
        what = step % 8
        if what == 0:
            ds.extend({"v": vectors(20, seed=step), "n": 10_000 * (step + 1) + np.arange(20)})
        elif what == 1:
            for row in rng.integers(0, len(ds), 3).tolist():
                ds.v[row] = vectors(1, seed=row)[0]
        elif what == 2:
            for row in sorted(set(rng.integers(0, len(ds), 3).tolist()), reverse=True):
                ds.pop(row)
        elif what == 3:
            commits.append(ds.commit(allow_empty=True))
        elif what == 4:
            ds.checkout(f"side{step}", create=True)
        elif what == 5:
            ds.v[int(rng.integers(0, len(ds)))] = vectors(1, seed=7)[0]
        elif what == 6:
            ds.update_indexes()
        else:
            ds.commit(allow_empty=True)
            ds.checkout(commits[step // 8])
            assert recall(ds, "cosine") >= 0.95
            ds.checkout("main")
        assert recall(ds, "cosine") >= 0.95


@needs_usearch
def test_vectors_that_have_no_place_are_never_first() -> None:
    ds = lakebed.empty("mem://odd", overwrite=True)
    ds.create_tensor("v", htype="embedding", dtype="float32")
    ds.create_tensor("n", dtype="int64")
    given = vectors(2000)
    given[5], given[7, 3] = 0, np.nan
    ds.extend({"v": given, "n": np.arange(2000)})
    ds.create_index("v", "hnsw")
    q = vectors(1, seed=9)[0]
    text = "SELECT * ORDER BY COSINE_SIMILARITY(v, ?) DESC LIMIT "
    assert not {5, 7} & set(numbers(ds.query(text + "50", parameters=[q])))
    assert numbers(ds.query(text + "1999", parameters=[q])) == numbers(
        ds.query(text + "1999", parameters=[q], exact=True)
    )


@needs_usearch
def test_a_graph_that_leads_outside_is_refused(tmp_path: Path) -> None:
    """A dataset may come from anyone, and usearch follows numbers wherever they lead."""
    ds = filled(tmp_path / "ds", 1500)
    ds.create_index("v", "hnsw", dtype="f32")
    (file,) = (tmp_path / "ds" / ".lakebed" / "index").iterdir()
    segment = Segment.from_bytes(file.read_bytes())
    data = segment.arrays["graph"]
    graph.check_graph(data, "cosine", "f32", WIDTH, 1500)
    with pytest.raises(FormatError):
        graph.check_graph(data, "l2", "f32", WIDTH, 1500)
    with pytest.raises(FormatError):
        graph.check_graph(data[:-1], "cosine", "f32", WIDTH, 1500)
    with pytest.raises(FormatError):
        graph.check_graph(data, "cosine", "f32", WIDTH, 1499)
    links = 8 + 1500 * WIDTH * 4
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(60):
        bad = data.copy()
        at = int(rng.integers(links, len(bad) - 4))
        bad[at : at + 4] = 255
        try:
            graph.check_graph(bad, "cosine", "f32", WIDTH, 1500)
        except FormatError:
            refused += 1
    assert refused > 20  # others hit places of neighbours that are not in use
    sound = file.read_bytes()
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    registry._kept.clear()
    with pytest.raises(DatasetCorruptError, match="checksum"):
        ds.query(f"SELECT * ORDER BY {ORDERS['cosine']} LIMIT 3", parameters=[vectors(1)[0]])


def kinds(ds: lakebed.Dataset) -> list[str]:
    """Return the numbers that the graphs of an index hold."""
    storage = ds._session.storage
    (entry,) = registry.read_registry(storage).values()
    return [Segment.from_bytes(storage.get(s.key)).facts["dtype"] for s in entry.segments]


@needs_usearch
def test_bytes_are_used_where_they_tell_vectors_apart() -> None:
    """A few numbers that are far larger than the others leave no steps for these: such vectors stay floats."""
    ds = filled("mem://auto")
    ds.create_index("v", "hnsw", metric="l2")
    assert kinds(ds) == ["i8"]
    ds.drop_index("v_hnsw")
    given = vectors(4000)
    given[:, 3] = 1e4 * np.random.default_rng(1).integers(0, 2, 4000)
    ds.create_tensor("far", htype="embedding", dtype="float32").extend(given)
    ds.commit()
    made = ds.create_index("far", "hnsw", metric="l2")
    assert kinds(ds) == ["f32"]
    assert made.recall is not None
    assert made.recall > 0.9
    q = given[17] + np.float32(0.01)
    found = ds.query("SELECT * ORDER BY L2_NORM(far - ?) LIMIT 10", parameters=[q])
    right = np.argsort(np.linalg.norm(given - q, axis=1))[:10]
    assert len(set(numbers(found)) & set(right.tolist())) >= 9


@needs_usearch
@pytest.mark.parametrize("metric", sorted(ORDERS))
def test_codes_order_vectors_as_these_do(metric: str) -> None:
    """What segments tell of nearness can be compared: it is the cosine, the product, the square of the distance."""
    given = 3 * vectors(600)
    for codes in (None, Codes.of(given[:100], metric), Codes.of(given[100:], metric)):
        made = hnsw.Graph(WIDTH, {**making._HNSW, "metric": metric}, codes)
        made.add(np.arange(600), given)
        segment = made.to_segment(np.zeros(1, np.uint64), np.array([600]))
        found = hnsw.Vectors.from_segment(segment)
        asked = 5 * vectors(1, seed=3)[0]
        keys, nearness = found.nearest(asked, 20, 200)
        right = values(metric, given, asked)
        told = right[keys] if metric != "l2" else -(right[keys] ** 2)
        np.testing.assert_allclose(nearness, told, rtol=0.05, atol=0.02 * np.abs(told).max())


@needs_usearch
def test_codes_that_stand_for_nothing_are_refused() -> None:
    given = vectors(200)
    graphs = hnsw.Graph(WIDTH, making._HNSW, Codes.of(given, "cosine"))
    graphs.add(np.arange(200), given)
    sound = graphs.to_segment(np.zeros(1, np.uint64), np.array([200]))
    hnsw.Vectors.from_segment(sound)
    for factor in (0.0, -1.0, float("inf"), float("nan"), "1", None, True):
        with pytest.raises(FormatError, match="codes"):
            hnsw.Vectors.from_segment(Segment({**sound.facts, "factor": factor}, sound.arrays))
    for middle in (np.zeros(WIDTH - 1, np.float32), np.full(WIDTH, np.nan, np.float32), np.zeros(WIDTH)):
        with pytest.raises(FormatError, match="codes"):
            hnsw.Vectors.from_segment(Segment(sound.facts, {**sound.arrays, "middle": middle}))


@needs_usearch
def test_what_is_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole segments stay and are named; what was begun leaves nothing; the same call goes on."""
    monkeypatch.setattr(building, "GRAPH_BYTES", 1000 * hnsw.row_bytes(WIDTH, "i8", 16))
    ds = filled(tmp_path / "ds")
    folder = tmp_path / "ds" / ".lakebed" / "index"
    add = hnsw.Graph.add
    left = [2]

    def stopped(self: hnsw.Graph, given: NDArray[np.int64], found: NDArray[np.float32]) -> None:
        add(self, given, found)
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(hnsw.Graph, "add", stopped)
        with pytest.raises(KeyboardInterrupt):
            ds.create_index("v", "hnsw")
        assert ds.indexes() == []
        assert not folder.exists() or list(folder.iterdir()) == []
        left[0] = 10
        with pytest.raises(KeyboardInterrupt):
            ds.create_index("v", "hnsw")
    (half,) = ds.indexes()
    assert 0 < half.covered < 4000
    assert half.segments == len(list(folder.iterdir()))
    before = {file.name for file in folder.iterdir()}
    assert recall(ds, "cosine") >= 0.95
    with pytest.raises(AlreadyExistsError, match="drop_index"):
        ds.create_index("v", "hnsw", metric="l2", name="v_hnsw")
    made = ds.create_index("v", "hnsw")
    assert (made.covered, made.uncovered) == (4000, 0)
    assert made.segments > 3
    assert before <= {file.name for file in folder.iterdir()}, "what was made is not made again"
    assert recall(ds, "cosine") >= 0.95
    with pytest.raises(AlreadyExistsError, match="drop_index"):
        ds.create_index("v", "hnsw")
    assert ds.update_indexes() == [made]


@needs_usearch
def test_an_index_of_another_default_is_the_same_index() -> None:
    ds = filled("mem://hnsw-default", 300)
    made = ds.create_index("v", "hnsw", dtype="f32")
    assert ds.create_index("v", "hnsw", exist_ok=True) == made
    with pytest.raises(AlreadyExistsError):
        ds.create_index("v", "hnsw", dtype="f16", exist_ok=True)


@needs_usearch
def test_many_small_segments_become_one_and_large_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "_MOST_SEGMENTS", 3)
    monkeypatch.setattr(building, "GRAPH_BYTES", 3000 * hnsw.row_bytes(WIDTH, "i8", 16))
    ds = filled("mem://hnsw-small", 2500)
    ds.create_index("v", "hnsw")
    storage = ds._session.storage
    first = registry.read_registry(storage)["v_hnsw"].segments[0]
    for i in range(8):
        ds.extend({"v": vectors(300, seed=i), "n": 10_000 * (i + 1) + np.arange(300)})
        assert ds.update_indexes()[0].uncovered == 0
        assert ds.indexes()[0].segments <= 5
    entry = registry.read_registry(storage)["v_hnsw"]
    assert first in entry.segments
    assert {key for key, _ in storage.list(registry.FOLDER)} == {segment.key for segment in entry.segments}
    assert recall(ds, "cosine") >= 0.95


@needs_usearch
def test_files_are_mapped_and_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = filled(tmp_path / "ds", 1500)
    ds.create_index("v", "hnsw")
    registry._kept.clear()
    storage = ds._session.storage
    known = registry.read_registry(storage)
    with monkeypatch.context() as patched:
        patched.setattr(type(storage), "get", None)
        patched.setattr(registry, "read_registry", lambda _, found=known: found)
        (entry,) = registry.read_registry(storage).values()
        registry.read_segment(storage, entry, entry.segments[0], hnsw.Vectors.from_segment)
    assert [size for _, size in registry._kept.values()] == [0]
    assert recall(ds, "cosine") >= 0.95


@needs_usearch
def test_an_index_that_does_not_stay_in_memory_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "KEPT_BYTES", 1 << 10)
    text = f"SELECT * ORDER BY {ORDERS['cosine']} LIMIT 3"
    ds = filled("mem://hnsw-warned", 1500)
    ds.create_index("v", "hnsw")
    with pytest.warns(UserWarning, match="local disk"):
        assert len(ds.query(text, parameters=[vectors(1)[0]])) == 3
    there = filled(tmp_path / "ds", 1500)
    there.create_index("v", "hnsw")
    assert len(there.query(text, parameters=[vectors(1)[0]])) == 3


@needs_usearch
def test_what_has_no_vectors_is_told() -> None:
    ds = filled("mem://hnsw-errors", 30)
    ds.create_tensor("t", htype="text")
    ds.create_tensor("m", dtype="float32").append(np.zeros((2, 3), np.float32))
    for name in ("t", "m"):
        with pytest.raises(InvalidInputError, match="vectors"):
            ds.create_index(name, "hnsw")
    for wrong in ({"metric": "hamming"}, {"dtype": "f64"}, {"connectivity": 1}, {"recall": 2}, {"ef": 3}):
        with pytest.raises(InvalidInputError):
            ds.create_index("v", "hnsw", **wrong)
