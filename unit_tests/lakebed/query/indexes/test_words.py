"""BM25 with an index and without gives the scores of a plain program, in every version, whatever was changed."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.errors import (
    AlreadyExistsError,
    DatasetCorruptError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    QueryError,
    ReadOnlyModeError,
    StorageError,
)
from lakebed.query.indexes import building, corpus, registry
from lakebed.query.indexes.bm25 import Words, words_in
from lakebed.query.indexes.chunks import chunks_of, coverage
from lakebed.query.indexes.segments import Segment
from unit_tests.effort import IS_SOAK

RNG = np.random.default_rng(3)
VOCABULARY = [f"word{i}" for i in range(30)] + ["Über", "naïve", "x_1", "東京", "été"]


def plain_words(text: str | None) -> list[str]:
    found, word = [], ""
    for letter in (text or "").lower() + " ":
        if unicodedata.category(letter)[0] in "LMN" or letter == "_":
            word += letter
        else:
            found += [word] if word else []
            word = ""
    return found


def plain_scores(texts: list[str | None], query: str) -> list[float]:
    documents = [Counter(plain_words(text)) for text in texts]
    lengths = [sum(document.values()) for document in documents]
    average = sum(lengths) / len(texts) or 1.0
    scores = [0.0] * len(texts)
    for word in plain_words(query):
        having = sum(word in document for document in documents)
        idf = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for i, document in enumerate(documents):
            f = document[word]
            scores[i] += idf * f * 2.2 / (f + 1.2 * (0.25 + 0.75 * lengths[i] / average)) if f else 0.0
    return scores


def texts(count: int) -> list[str | None]:
    made: list[str | None] = [" ".join(RNG.choice(VOCABULARY, RNG.integers(0, 12))) for _ in range(count)]
    return [None if i % 17 == 5 else text for i, text in enumerate(made)]


def filled(place: Path | str, count: int = 300) -> lakebed.Dataset:
    ds = lakebed.empty(place, overwrite=True)
    ds.create_tensor("title", htype="text", max_chunk_size=4096)
    ds.create_tensor("n", dtype="int64")
    ds.extend({"title": texts(count), "n": np.arange(count)})
    ds.commit()
    return ds


def check(ds: lakebed.Dataset, query: str = "word3 Word7 naïve word3 nowhere") -> None:
    """Compare the scores of all rows, the first rows and those of a part with a plain program."""
    stored = ds.title.data()["value"] if len(ds) else []
    right = plain_scores(stored, query)
    for exact in (False, True):
        found = ds.query(
            "SELECT n, BM25_SIMILARITY(title, ?) AS score ORDER BY BM25_SIMILARITY(title, ?) DESC LIMIT 7",
            parameters=[query, query],
            exact=exact,
        )
        order = sorted(range(len(right)), key=lambda i: (right[i], i), reverse=True)[:7]
        numbers = ds.n.numpy().ravel()
        np.testing.assert_allclose(found.score.numpy().ravel(), [right[i] for i in order], rtol=1e-12)
        ours = [right[list(numbers).index(n)] for n in found.n.numpy().ravel()]
        np.testing.assert_allclose(ours, [right[i] for i in order], rtol=1e-12)


def test_words_are_runs_of_letters_and_numbers_in_lower_case() -> None:
    text = "The RED-kite's 2nd flight: naïve, Été, हिन्दी 東京! a_b --"
    assert words_in(text) == [
        "the",
        "red",
        "kite",
        "s",
        "2nd",
        "flight",
        "naïve",
        "été",
        "हिन्दी",
        "東京",
        "a_b",
    ]
    assert words_in(text) == plain_words(text)
    assert words_in("") == []


def test_scores_are_those_of_a_plain_program() -> None:
    ds = filled("mem://bm25")
    check(ds)
    ds.create_index("title", "bm25")
    check(ds)
    check(ds, "")
    check(ds, "nowhere")
    half = ds.query("SELECT * WHERE n % 2 == 1 ORDER BY BM25_SIMILARITY(title, 'word1 word2') DESC LIMIT 5")
    right = plain_scores(ds.title.data()["value"], "word1 word2")
    odd = sorted(range(1, 300, 2), key=lambda i: (right[i], i), reverse=True)[:5]
    assert half.n.numpy().ravel().tolist() == odd  # statistics are those of all rows
    assert len(ds.query("SELECT * WHERE BM25_SIMILARITY(title, 'word1') > 0")) == sum(
        "word1" in plain_words(text) for text in ds.title.data()["value"]
    )


def test_no_search_finds_what_is_no_longer_there() -> None:
    """Appends, updates, pops, branches and checkouts between searches, published or not."""
    ds = filled("mem://bm25-model")
    ds.create_index("title", "bm25")
    rng = np.random.default_rng(11)
    commits = [ds.commit_id]
    for step in range(400 if IS_SOAK else 25):
        what = rng.integers(0, 7)
        if what == 0:
            count = int(rng.integers(1, 9))
            ds.extend({"title": texts(count), "n": 1000 * (step + 1) + np.arange(count)})
        elif what == 1:
            ds.title[int(rng.integers(0, len(ds)))] = texts(1)[0] or "word3 word3"
        elif what == 2:
            ds.pop(int(rng.integers(0, len(ds))))
        elif what == 3:
            commits.append(ds.commit(allow_empty=True))
        elif what == 4:
            ds.checkout(f"side{step}", create=True)
        elif what == 5:
            ds.update_indexes()
        else:
            ds.commit(allow_empty=True)
            ds.checkout(str(rng.choice(commits)))
            check(ds)
            ds.checkout("main")
        check(ds)
        (info,) = ds.indexes()
        assert info.covered + info.uncovered == len(ds)


@pytest.mark.parametrize("is_published", [False, True])
def test_a_change_counts_before_anything_else_was_read(is_published: bool) -> None:
    """A session's own changes wait as samples, of which its chunk index knows nothing yet."""
    ds = filled("mem://bm25-fresh")
    ds.create_index("title", "bm25")
    ds.title[7] = "zebra"
    if is_published:
        ds.flush()
    zebra = "SELECT * ORDER BY BM25_SIMILARITY(title, 'zebra') DESC LIMIT 1"
    assert ds.query(zebra).n.numpy().ravel().tolist() == [7]
    ds.title[7] = "gnu"
    ds.pop(0)
    if is_published:
        ds.flush()
    assert len(ds.query("SELECT * WHERE BM25_SIMILARITY(title, 'zebra') > 0")) == 0
    gnu = "SELECT * ORDER BY BM25_SIMILARITY(title, 'gnu') DESC LIMIT 1"
    assert ds.query(gnu).n.numpy().ravel().tolist() == [7]


def test_a_chunk_whose_checksums_are_not_known_is_in_no_index() -> None:
    """As in a head that another program wrote to."""
    ds = filled("mem://bm25-unknown")
    state = ds._session.snapshot.tensors["title"]
    known = chunks_of(state)
    assert (known.prints != 0).all()
    places = replace(
        state.table.places, sizes=np.zeros_like(state.table.places.sizes), sums=np.empty(0, np.uint64)
    )
    unknown = chunks_of(state.with_(table=replace(state.table, places=places)))
    assert (unknown.prints == 0).all()
    held = coverage(unknown, [(known.prints, known.counts.astype(np.uint32))], 300)
    assert held.uncovered == [range(300)]
    assert (held.rows[0] == -1).all()


def test_an_index_tells_what_it_holds_and_is_dropped() -> None:
    ds = filled("mem://bm25-info")
    made = ds.create_index("title", "bm25", name="titles")
    assert (made.name, made.tensor, made.covered, made.uncovered, made.segments) == (
        "titles",
        "title",
        300,
        0,
        1,
    )
    assert "titles" in ds.explain("SELECT * ORDER BY BM25_SIMILARITY(title, 'x') DESC LIMIT 3")
    ds.extend({"title": ["word1"] * 4, "n": range(4)})
    ds.flush()
    (info,) = ds.indexes()
    assert 4 <= info.uncovered < 304
    (info,) = ds.update_indexes()
    assert (info.uncovered, info.covered, info.segments) == (0, 304, 2)
    assert ds.update_indexes() == [info]
    with pytest.raises(AlreadyExistsError, match="drop_index"):
        ds.create_index("title", "bm25", name="titles")
    assert ds.create_index("title", "bm25", name="titles", exist_ok=True) == info
    ds.rename_tensor("title", "heading")
    assert ds.indexes()[0].tensor == "heading"
    ds.drop_index("titles")
    assert ds.indexes() == []
    assert [key for key, _ in ds._session.storage.list(registry.FOLDER)] == []
    with pytest.raises(NotFoundError, match="no index 'titles'"):
        ds.drop_index("titles")


def test_many_small_segments_become_one() -> None:
    ds = filled("mem://bm25-many", 20)
    ds.create_index("title", "bm25")
    for i in range(18):
        ds.extend({"title": texts(150), "n": 150 * (i + 1) + np.arange(150)})
        assert ds.update_indexes()[0].uncovered == 0, i
    assert ds.indexes()[0].segments < 6
    check(ds, "word1")


def test_large_indexes_have_several_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "TEXT_ROWS", 700)
    monkeypatch.setattr(corpus, "_STEP", 64)
    monkeypatch.setattr(registry, "KEPT_BYTES", 1)
    ds = filled("mem://bm25-large", 2000)
    assert len(ds._session.snapshot.tensors["title"].table) > 3
    made = ds.create_index("title", "bm25")
    assert made.segments > 1
    assert (made.covered, made.uncovered) == (2000, 0)
    check(ds)


def test_two_programs_change_the_indexes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second starts over, and both indexes are there; of one name there is one."""
    ds = filled("mem://bm25-race", 30)
    ds.create_tensor("body", htype="text").extend(texts(30))
    ds.commit()
    other = lakebed.load("mem://bm25-race")
    write = building.write_segment
    done = []

    def meanwhile(*arguments: Any) -> registry.SegmentEntry:
        made = write(*arguments)
        if not done:
            done.append(True)
            other.create_index("body", "bm25")
        return made

    monkeypatch.setattr(building, "write_segment", meanwhile)
    ds.create_index("title", "bm25")
    assert [info.name for info in ds.indexes()] == ["body_bm25", "title_bm25"]
    ds.drop_index("title_bm25")
    done.clear()
    other.drop_index("body_bm25")
    with pytest.raises(AlreadyExistsError, match="during this call"):
        ds.create_index("body", "bm25")


def test_a_lost_answer_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    ds = filled("mem://bm25-lost", 30)
    storage = ds._session.storage
    put_if = type(storage).put_if

    def lost(self: object, key: str, data: bytes, etag: str | None) -> str:
        put_if(self, key, data, etag)  # type: ignore[arg-type]
        raise StorageError("the answer was lost")

    with monkeypatch.context() as patched:
        patched.setattr(type(storage), "put_if", lost)
        assert ds.create_index("title", "bm25").covered == 30

    def refused(self: object, key: str, data: bytes, etag: str | None) -> str:
        raise StorageError("no")

    with monkeypatch.context() as patched:
        patched.setattr(type(storage), "put_if", refused)
        with pytest.raises(StorageError, match="no"):
            ds.drop_index("title_bm25")
    check(ds)


def test_a_damaged_index_is_an_error_and_never_an_answer(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds")
    ds.create_index("title", "bm25")
    (file,) = (tmp_path / "ds" / ".lakebed" / "index").iterdir()
    sound = file.read_bytes()
    words = "SELECT * ORDER BY BM25_SIMILARITY(title, 'word1') DESC LIMIT 3"
    registry._kept.clear()
    file.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(DatasetCorruptError, match="exact=True"):
        ds.query(words)
    assert len(ds.query(words, exact=True)) == 3
    file.unlink()
    with pytest.raises(DatasetCorruptError, match="is missing"):
        ds.query(words)
    file.write_bytes(sound)
    assert len(ds.query(words)) == 3
    (tmp_path / "ds" / ".lakebed" / "indexes.json").write_text("{")
    with pytest.raises(DatasetCorruptError, match=r"indexes\.json"):
        ds.query(words)


def test_bytes_that_are_no_segment_are_refused() -> None:
    ds = filled("mem://bm25-bytes")
    ds.create_index("title", "bm25")
    storage = ds._session.storage
    ((key, _),) = list(storage.list(registry.FOLDER))
    data = storage.get(key)
    Words.from_segment(Segment.from_bytes(data))
    rng = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        bad = bytearray(data)
        at = int(rng.integers(0, 700)) if rng.random() < 0.5 else int(rng.integers(0, len(bad)))
        bad[at] = rng.integers(0, 256)
        try:
            made = Words.from_segment(Segment.from_bytes(bytes(bad[: rng.integers(1, len(bad) + 1)])))
            for word in ("word1", "zzz"):
                made.found(word)
        except (FormatError, KeyError):
            refused += 1
    assert refused > 200


def test_copies_and_other_processes_use_the_index(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds")
    ds.create_index("title", "bm25")
    lakebed.deepcopy(tmp_path / "ds", tmp_path / "copy", progressbar=False)
    copied = lakebed.load(tmp_path / "copy", read_only=True)
    check(copied)
    opened = lakebed.load(tmp_path / "ds", read_only=True)
    assert opened.indexes()[0].covered == 300
    with pytest.raises(ReadOnlyModeError, match="read-only"):
        opened.drop_index("title_bm25")


def test_what_has_no_words_is_told(tmp_path: Path) -> None:
    ds = filled("mem://bm25-errors")
    with pytest.raises(InvalidInputError, match="texts"):
        ds.create_index("n", "bm25")
    with pytest.raises(InvalidInputError, match="no tensor 'nothing'"):
        ds.create_index("nothing", "bm25")
    with pytest.raises(InvalidInputError, match="kind"):
        ds.create_index("title", "ivf")
    with pytest.raises(
        InvalidInputError, match=r"'hnsw' \(vectors\) or 'bm25' \(words\); the samples of 'n'"
    ):
        ds.create_index("n")
    with pytest.raises(InvalidInputError, match="no setting 'metric'"):
        ds.create_index("title", "bm25", metric="l2")
    for wrong in ("BM25_SIMILARITY(n, 'x')", "BM25_SIMILARITY(title, n)", "BM25_SIMILARITY(title)"):
        with pytest.raises(QueryError):
            ds.query(f"SELECT * ORDER BY {wrong} DESC LIMIT 3")
    with pytest.raises(QueryError, match="ORDER BY"):
        ds.query("SELECT RRF(n) AS x").x.numpy()


def test_joins_and_sub_queries_score_their_own_rows(tmp_path: Path) -> None:
    ds = filled(tmp_path / "ds", 40)
    assert ds.create_index("title").kind == "bm25"
    found = ds.query(
        "SELECT * FROM (SELECT title, n + 1 AS m WHERE n < 20) ORDER BY BM25_SIMILARITY(title, 'word1') DESC LIMIT 3"
    )
    right = plain_scores(ds.title.data()["value"][:20], "word1")
    order = sorted(range(20), key=lambda i: (right[i], i), reverse=True)[:3]
    assert (found.m.numpy().ravel() - 1).tolist() == order


def test_ranks_of_several_orders_are_put_together() -> None:
    ds = filled("mem://rrf")
    words = plain_scores(ds.title.data()["value"], "word1 word4")
    ds.create_index("title", "bm25")

    def ranks(values: list[float]) -> list[float]:
        return [1 / (60 + 1 + sum(other > value for other in values)) for value in values]

    by_word = [rank if score > 0 else 0.0 for rank, score in zip(ranks(words), words, strict=True)]
    near = [-abs(i - 150) for i in range(300)]
    right = [a + b for a, b in zip(by_word, ranks(near), strict=True)]
    order = sorted(range(300), key=lambda i: (right[i], i), reverse=True)[:12]
    found = ds.query(
        "SELECT * ORDER BY RRF(BM25_SIMILARITY(title, 'word1 word4'), -ABS(n - 150)) DESC LIMIT 12"
    )
    assert found.n.numpy().ravel().tolist() == order
