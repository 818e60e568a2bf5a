"""Vector stores of 3.x: rows go in, are found by vectors and filters, are changed and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.compat.vectorstore import VectorStore
from lakebed.errors import InvalidInputError, TensorDoesNotExistError

TEXTS = ["a wren", "a kite", "a gull", "two kites"]
PAGES = [{"page": 1}, {"page": 2, "from": {"book": "b"}}, {"page": 1, "tag": 'it\'s "so"'}, {"page": 3}]


def embed(texts: list[str] | str) -> list[list[float]]:
    """Vectors that the letters of a text decide; a question is a text alone, as with functions written for 3.x."""
    texts = [texts] if isinstance(texts, str) else texts
    return [[float(text.count(letter)) for letter in "wkgs"] for text in texts]


class Embeddings:
    """As LangChain's: a method for documents, another for questions."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.sizes.append(len(texts))
        return embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return embed([text])[0]


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    store = VectorStore(tmp_path / "store", embedding_function=embed)
    store.add(text=TEXTS, metadata=PAGES, id=list("wkgt"), embedding_data=TEXTS)
    return store


def test_a_store_is_found_again_with_its_rows(store: VectorStore, tmp_path: Path) -> None:
    again = VectorStore(str(tmp_path / "store"), read_only=True)
    assert len(again) == 4
    assert again.tensors() == ["text", "metadata", "embedding", "id"]
    assert again.dataset.embedding.numpy().tolist() == embed(TEXTS)
    assert again.dataset.embedding.dtype == np.float32
    again.dataset.close()
    store.dataset.close()
    VectorStore.delete_by_path(tmp_path / "store")
    assert not lakebed.exists(str(tmp_path / "store"))


def test_ids_are_drawn_where_none_are_given() -> None:
    store = VectorStore(dataset=lakebed.empty("mem://drawn", overwrite=True))
    drawn = store.add(text=TEXTS, metadata=PAGES, embedding=embed(TEXTS), return_ids=True)
    assert drawn is not None
    assert len(set(drawn)) == 4
    assert store.search(filter={"id": drawn[1:3]})["text"] == TEXTS[1:3]


@pytest.mark.parametrize("metric", ["COS", "L2", "L1", "max", "dot"])
@pytest.mark.parametrize("option", [None, "auto", "python", "compute_engine"])
def test_the_nearest_come_first_with_their_scores(
    store: VectorStore, metric: str, option: str | None
) -> None:
    vector = np.array([0.1, 1, 0, 0.4], np.float32)
    rows = np.array(embed(TEXTS))
    apart = rows - vector
    scores = {
        "COS": rows @ vector / np.linalg.norm(rows, axis=1) / np.linalg.norm(vector),
        "L2": np.linalg.norm(apart, axis=1),
        "L1": np.abs(apart).sum(1),
        "max": np.abs(apart).max(1),
        "dot": rows @ vector,
    }[metric]
    order = np.argsort(-scores if metric in ("COS", "dot") else scores, kind="stable")[:3]
    found = store.search(embedding=vector, k=3, distance_metric=metric, exec_option=option)
    assert list(found) == ["score", "text", "metadata", "id"]
    assert found["text"] == [TEXTS[i] for i in order]
    assert found["metadata"] == [PAGES[i] for i in order]
    np.testing.assert_allclose(found["score"], scores[order], rtol=1e-5)


@pytest.mark.parametrize(
    ("chosen", "ids"),
    [
        ({}, "wkgt"),
        ({"metadata": {"page": 1}}, "wg"),
        ({"metadata": {"page": [2, 3]}}, "kt"),
        ({"metadata": {"from": {"book": "b"}}}, "k"),
        ({"metadata": {"tag": 'it\'s "so"'}}, "g"),
        ({"metadata": {"page": 1, "tag": 1}}, ""),
        ({"metadata": {"page": 1}, "text": "a wren"}, "w"),
        ({"id": ["t", "w", "x"]}, "wt"),
        (lambda row: row["metadata"].data()["value"]["page"] > 1, "kt"),
    ],
)
def test_filters_choose_rows(store: VectorStore, chosen: Any, ids: str) -> None:
    assert store.search(filter=chosen)["id"] == list(ids)
    near = store.search(embedding_data="kites", filter=chosen, k=9)
    assert sorted(near["id"]) == sorted(ids)
    assert near["score"] == sorted(near["score"], reverse=True)
    assert store.delete(filter=chosen, delete_all=chosen == {})
    assert store.search(filter={})["id"] == [one for one in "wkgt" if one not in ids]


def test_tensors_are_returned_as_asked(store: VectorStore) -> None:
    found = store.search(filter={"id": ["k"]}, return_tensors=["text", "embedding"])
    assert found["text"] == ["a kite"]
    assert found["embedding"].tolist() == embed(["a kite"])
    assert list(store.search(filter={}, return_tensors=["*"])) == store.tensors()
    view = store.search(embedding_data=["a gull"], k=1, return_view=True)
    assert view.sample_indices == [2]
    asked = store.search(query="SELECT text, LEN(text) AS size WHERE id == 'g'")
    assert {name: list(map(str, value)) for name, value in asked.items()} == {
        "text": ["a gull"],
        "size": ["6"],
    }


def test_rows_are_removed(store: VectorStore) -> None:
    assert store.delete(row_ids=[1])
    assert store.delete(ids=["w"])
    assert store.delete(query="SELECT * WHERE text == 'a gull'")
    assert store.delete(ids=["nobody"])
    assert lakebed.load(store.dataset.path, read_only=True).id.data()["value"] == ["t"]
    assert store.delete(delete_all=True)
    assert len(store) == 0
    store.add(text=["a wren"], metadata=[{}], embedding_data=["a wren"])
    assert len(store) == 1


def test_vectors_are_made_anew(store: VectorStore) -> None:
    store.update_embedding(ids=["w", "t"], embedding_function=lambda texts: -np.array(embed(texts)))
    signs = np.array([-1, 1, 1, -1])[:, None]
    assert store.dataset.embedding.numpy().tolist() == (np.array(embed(TEXTS)) * signs).tolist()
    store.update_embedding(row_ids=[0], embedding_source_tensor="id")
    assert store.dataset.embedding[0].numpy().tolist() == embed(["w"])[0]


def test_an_embedding_function_is_given_batches() -> None:
    makes = Embeddings()
    store = VectorStore("mem://batches", overwrite=True, embedding_function=makes, ingestion_batch_size=3)
    store.add(text=TEXTS, metadata=PAGES, embedding_data=TEXTS)
    assert makes.sizes == [3, 1]
    assert store.search(embedding_data="a kite", k=1)["text"] == ["a kite"]


def test_several_tensors_have_vectors() -> None:
    tensors = [{"name": "text", "htype": "text"}] + [{"name": name, "htype": "embedding"} for name in "ab"]
    store = VectorStore("mem://several", overwrite=True, tensor_params=tensors)
    store.add([embed, lambda texts: -np.array(embed(texts))], [TEXTS, TEXTS], ["a", "b"], text=TEXTS)
    assert (store.dataset.a.numpy() == -store.dataset.b.numpy()).all()
    assert store.search(embedding=embed(["wren"])[0], embedding_tensor="a", k=1)["text"] == ["a wren"]


def test_many_rows_have_an_index() -> None:
    pytest.importorskip("usearch")
    store = VectorStore("mem://index", overwrite=True, index_params={"threshold": 6, "distance_metric": "L2"})
    rows = {"text": TEXTS, "metadata": PAGES, "embedding": embed(TEXTS)}
    store.add(**rows)
    assert not store.dataset.indexes()
    store.add(**rows)
    store.add(**rows)
    [index] = store.dataset.indexes()
    assert (index.covered, index.uncovered) == (12, 0)
    found = store.search(embedding=embed(["a gull"])[0], k=3)
    assert (found["text"], found["score"]) == (["a gull"] * 3, [0, 0, 0])


def test_versions_are_those_of_the_dataset(store: VectorStore) -> None:
    store.commit()
    store.checkout("other", create=True)
    store.delete(delete_all=True)
    store.checkout("main")
    assert len(store) == 4
    path = store.dataset.path
    store.dataset.close()
    assert len(VectorStore(path, branch="other")) == 0


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda _: VectorStore(), "path"),
        (lambda _: VectorStore("mem://a", exec_option="tensor_db"), "service"),
        (lambda _: VectorStore("mem://a", runtime={"tensor_db": True}), "service"),
        (lambda _: VectorStore("mem://a", ingestion_batch_size=0), "at least 1"),
        (lambda _: VectorStore("mem://a", index_params={"threshold": 9, "distance_metric": "L1"}), "index"),
        (lambda store: store.search(), "search for"),
        (lambda store: store.search(embedding=[1, 0, 0, 0], exec_option="tensor_db"), "service"),
        (lambda store: store.search(embedding=[1, 0, 0, 0], exec_option="fast"), "exec_option"),
        (lambda store: store.search(embedding=[1, 0, 0, 0], distance_metric="cosine"), "distance_metric"),
        (lambda store: store.search(embedding=[1, 0, 0, 0], deep_memory=True), "service"),
        (lambda store: store.search(embedding=[1, 0, 0, 0], k=0), "at least 1"),
        (lambda store: store.search(embedding=[1, 0, 0, 0], query="SELECT *"), "a query or an embedding"),
        (lambda store: store.search(filter=7), "dictionary of values"),
        (lambda store: store.search(filter={}, query="SELECT *"), "one of"),
        (lambda store: store.delete(), "one of"),
        (lambda store: store.delete(filter={}), "empty filter"),
        (lambda store: store.delete(filter={"metadata": {}}), "empty filter"),
        (lambda store: store.delete(ids=["a"], row_ids=[0]), "one of"),
        (
            lambda store: store.add(
                text=["a"], metadata=[{}], embedding=[[1, 0, 0, 0]], embedding_data=["a"]
            ),
            "not both",
        ),
        (lambda store: store.add(rate_limiter={"enabled": True}, text=["a"]), "rate_limiter"),
    ],
)
def test_impossible_calls_say_so(store: VectorStore, call: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        call(store)
    assert len(store) == 4


def test_unknown_names_are_errors(store: VectorStore) -> None:
    with pytest.raises(TensorDoesNotExistError, match="nope"):
        store.search(embedding=[1, 0, 0, 0], embedding_tensor="nope")
    with pytest.raises(TensorDoesNotExistError, match="page"):
        store.search(filter={"page": 1})
    with pytest.raises(TypeError, match="colour"):
        VectorStore("mem://a", colour=1)
    store.embedding_function = None
    with pytest.raises(InvalidInputError, match="embedding_function"):
        store.search(embedding_data="a")
