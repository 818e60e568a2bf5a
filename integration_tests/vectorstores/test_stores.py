"""The classes of LangChain and LlamaIndex that were written for Deep Lake 3.x run on lakebed, unchanged."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed

pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore")]

TEXTS = ["a wren in the hedge", "a kite over the river", "two kites", "gulls at sea"]


def embed(text: str) -> list[float]:
    """Vector that the letters of a text decide."""
    return [float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]


@pytest.fixture
def compat(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("LAKEBED_COMPAT", "replace")
    from lakebed import compat

    compat.install()
    yield
    compat.uninstall()


@pytest.fixture
def langchain(compat: None, tmp_path: Path) -> Any:
    """A store of LangChain with four texts, and its embeddings."""
    embeddings = pytest.importorskip("langchain_core.embeddings")
    if importlib.util.find_spec("langchain_community.vectorstores.deeplake") is None:
        pytest.skip("this langchain-community has no DeepLake class: pip install 'langchain-community<0.4'")
    from langchain_community.vectorstores import DeepLake

    class Letters(embeddings.Embeddings):  # type: ignore[misc, name-defined]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embed(text)

    metadatas = [{"page": i % 2, "source": f"file{i}"} for i in range(4)]
    return DeepLake.from_texts(
        TEXTS, Letters(), metadatas, list("wkcg"), dataset_path=str(tmp_path / "store"), overwrite=True
    )


def test_langchain_finds_texts(langchain: Any, tmp_path: Path) -> None:
    found = langchain.similarity_search("kites", k=2)
    assert [one.page_content for one in found] == ["two kites", "a kite over the river"]
    assert found[0].metadata == {"page": 0, "source": "file2"}
    scored = langchain.similarity_search_with_score("kites", k=4, distance_metric="L2", exec_option="python")
    distances = np.linalg.norm(np.array([embed(text) for text in TEXTS]) - embed("kites"), axis=1)
    assert [one.page_content for one, _ in scored] == [TEXTS[i] for i in np.argsort(distances)]
    np.testing.assert_allclose([score for _, score in scored], np.sort(distances), rtol=1e-6)
    [only] = langchain.similarity_search("kites", filter={"metadata": {"page": 1, "source": "file1"}})
    assert only.page_content == "a kite over the river"
    [own] = langchain.similarity_search("kites", filter=lambda row: row["id"].data()["value"] == "g")
    assert own.page_content == "gulls at sea"
    [by_vector] = langchain.similarity_search_by_vector(embed("wren"), k=1)
    assert by_vector.page_content == "a wren in the hedge"
    apart = langchain.max_marginal_relevance_search("kites", k=2, fetch_k=4, lambda_mult=0.1)
    assert apart[0].page_content == "two kites"
    assert apart[1].page_content == "gulls at sea"
    asked = langchain.similarity_search(
        query=None, tql="SELECT * WHERE id == 'w'", exec_option="compute_engine"
    )
    assert [one.page_content for one in asked] == ["a wren in the hedge"]
    langchain.vectorstore.dataset.close()
    again = lakebed.load(str(tmp_path / "store"), read_only=True)
    assert again.text.data()["value"] == TEXTS


def test_langchain_adds_and_removes(langchain: Any, tmp_path: Path) -> None:
    from langchain_community.vectorstores import DeepLake

    [drawn] = langchain.add_texts(["an owl"])
    assert langchain.delete(ids=["w", drawn])
    assert langchain.delete(filter={"metadata": {"page": 1}})
    assert langchain.vectorstore.dataset.text.data()["value"] == ["two kites"]
    retriever = langchain.as_retriever(search_kwargs={"k": 1, "distance_metric": "cos"})
    assert [one.page_content for one in retriever.invoke("sea")] == ["two kites"]
    with pytest.raises(ValueError, match="service"):
        langchain.similarity_search("sea", exec_option="tensor_db")
    langchain.delete_dataset()
    assert len(langchain.vectorstore) == 0
    langchain.vectorstore.dataset.close()
    DeepLake.force_delete_by_path(str(tmp_path / "store"))
    assert not lakebed.exists(str(tmp_path / "store"))


def test_llama_index_adds_finds_and_removes(compat: None, tmp_path: Path) -> None:
    schema = pytest.importorskip("llama_index.core.schema")
    types = pytest.importorskip("llama_index.core.vector_stores")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stores = pytest.importorskip("llama_index.vector_stores.deeplake")
    store = stores.DeepLakeVectorStore(dataset_path=str(tmp_path / "store"), overwrite=True)
    related = {schema.NodeRelationship.SOURCE: schema.RelatedNodeInfo(node_id="birds")}
    nodes = [
        schema.TextNode(
            text=text, id_=key, embedding=embed(text), metadata={"length": len(text)}, relationships=related
        )
        for text, key in zip(TEXTS, "wkcg", strict=True)
    ]
    assert store.add(nodes) == list("wkcg")
    found = store.query(types.VectorStoreQuery(query_embedding=embed("kites"), similarity_top_k=2))
    assert found.ids == ["c", "k"]
    assert [node.text for node in found.nodes] == ["two kites", "a kite over the river"]
    assert found.similarities[0] > found.similarities[1]
    assert [node.node_id for node in store.get_nodes()] == list("wkcg")
    assert [node.text for node in store.get_nodes(["g"])] == ["gulls at sea"]
    short = types.MetadataFilters(filters=[types.MetadataFilter(key="length", value=12, operator="<=")])
    assert [node.node_id for node in store.get_nodes(filters=short)] == ["c", "g"]
    store.delete_nodes(["w"])
    store.delete_nodes(filters=short)
    assert store.client.id.data()["value"] == ["k"]
    store.delete("birds")
    assert len(store.client) == 0
    store.add(nodes[:1])
    store.clear()
    assert len(lakebed.load(str(tmp_path / "store"), read_only=True)) == 0
