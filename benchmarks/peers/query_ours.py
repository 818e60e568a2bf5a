"""lakebed: datasets that are committed, and asked once before, so that statistics are there."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import lakebed
from benchmarks.asking import ABOVE, LABEL, WORD, Answer, Question, main

_PLAIN: dict[str, Any] = {"create_id_tensor": False, "create_shape_tensor": False}
# As many chunks as 100 GB of images have, in chunks of 16 MB.
_IMAGES = 6_250
_LABELS_PER_CHUNK = 2_000


def write(question: Question) -> None:
    """Write all datasets."""
    store, data = question.store, question.data
    for name in ("labels", "sorted"):
        values = np.load(data / f"{name}.npy")
        with lakebed.empty(str(store / name)) as ds:
            ds.create_tensor("labels", htype="class_label", **_PLAIN)
            ds.labels.extend(values)
        ds.commit("written")
        ds.query(f"SELECT * WHERE labels == {LABEL}")
        ds.close()
    counts, boxes = np.load(data / "counts.npy"), np.load(data / "boxes.npy")
    with lakebed.empty(str(store / "boxes")) as ds:
        ds.create_tensor("boxes", htype="bbox", **_PLAIN)
        ds.boxes.extend(np.split(boxes, np.cumsum(counts)[:-1]))
    ds.commit("written")
    with pa.memory_map(str(data / "titles.arrow")) as file, lakebed.empty(str(store / "titles")) as ds:
        ds.create_tensor("title", htype="text", **_PLAIN)
        ds.extend({"title": pa.ipc.open_file(file).read_all()["title"].combine_chunks()})
    ds.commit("written")
    keys = np.load(data / "keys.npy")
    with lakebed.empty(str(store / "big")) as ds:
        for name, values in (("k", keys), ("v", np.load(data / "values.npy")), ("g", keys % 1000)):
            ds.create_tensor(name, dtype="int64", **_PLAIN)
            ds[name].extend(values)
    ds.commit("written")
    weights = np.load(data / "weights.npy")
    with lakebed.empty(str(store / "small")) as ds:
        for name, values in (("k", np.arange(len(weights))), ("w", weights)):
            ds.create_tensor(name, dtype="int64", **_PLAIN)
            ds[name].extend(values)
    ds.commit("written")
    _write_many(question)


def _write_many(question: Question) -> None:
    """Write labels in many chunks, beside images that have as many chunks as 100 GB of them."""
    values = np.load(question.data / "sorted.npy")
    each = -(-len(values) // _IMAGES)
    with lakebed.empty(str(question.store / "bucket" / "many")) as ds:
        ds.create_tensor("labels", htype="class_label", max_chunk_size=10 * _LABELS_PER_CHUNK, **_PLAIN)
        ds.create_tensor("images", dtype="uint8", max_chunk_size=9 * each, **_PLAIN)
        ds.labels.extend(values)
        ds.images.extend(np.zeros((len(values), 1), np.uint8))
    ds.commit("written")
    ds.query(f"SELECT * WHERE labels == {LABEL}")
    ds.close()


def view(name: str, query: str) -> Callable[[Question], Answer]:
    """Return what counts the rows of a condition."""

    def prepare(question: Question) -> Answer:
        ds = lakebed.load(str(question.store / name), read_only=True)
        return lambda: len(ds.query(query))

    return prepare


def join(question: Question) -> Answer:
    """Join two datasets and read both columns."""
    big, small = question.store / "big", question.store / "small"
    text = f'SELECT a.v AS v, b.w AS w FROM "{big}" AS a JOIN "{small}" AS b ON a.k = b.k'

    def answer() -> int:
        found = lakebed.query(text)
        found.v.numpy()
        return int(found.w.numpy().sum())

    return answer


def group(question: Question) -> Answer:
    """Group by 1,000 keys and read the sums."""
    ds = lakebed.load(str(question.store / "big"), read_only=True)

    def answer() -> int:
        found = ds.query("SELECT g[0] AS k, sum(v) AS s GROUP BY g")
        found.k.numpy()
        return int(found.s.numpy().sum())

    return answer


def memory(question: Question) -> Answer:
    """Ask labels of many chunks, every one of which is read."""
    ds = lakebed.load(str(question.store / "bucket" / "many"), read_only=True)
    return lambda: len(ds.query(f"SELECT * WHERE labels % 1000 == {LABEL}"))


def bucket(question: Question) -> Answer:
    """Open the dataset in the bucket and ask a label: what the query takes, and what it asks for."""
    creds = {
        "aws_access_key_id": "any",
        "aws_secret_access_key": "any",
        "aws_region": "us-east-1",
        "endpoint_url": question.endpoint,
    }

    def answer() -> dict[str, float]:
        ds = lakebed.load("s3://bucket/many", creds=creds, read_only=True)
        began = time.perf_counter()
        told = ds.explain(f"SELECT * WHERE labels == {LABEL}", analyze=True)
        taken = time.perf_counter() - began
        (chunks,) = (line for line in told.splitlines() if " chunks, " in line)
        (requests,) = (line for line in told.splitlines() if " requests brought " in line)
        return {
            "seconds": taken,
            "requests": int(requests.split()[0].replace(",", "")),  # one of them for the statistics
            "chunks": int(chunks.split(": ")[1].split()[0].replace(",", "")),
            "of": int(chunks.split(" of ")[1].split()[0].replace(",", "")),
        }

    return answer


if __name__ == "__main__":
    main(
        {
            "labels": view("labels", f"SELECT * WHERE labels == {LABEL}"),
            "sorted labels": view("sorted", f"SELECT * WHERE labels == {LABEL}"),
            "boxes": view("boxes", f"SELECT * WHERE any(boxes[:, 2] > {ABOVE})"),
            "titles": view("titles", f"SELECT * WHERE contains(title, '{WORD}')"),
            "join": join,
            "group": group,
            "memory": memory,
            "bucket": bucket,
        },
        write,
    )
