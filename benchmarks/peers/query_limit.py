"""What queries are compared with: NumPy and PyArrow over files in the page cache, DuckDB over Arrow files."""

from __future__ import annotations

import numpy as np

from benchmarks.asking import ABOVE, LABEL, WORD, Answer, Question, main


def labels(question: Question) -> Answer:
    """Read the file and compare."""
    name = "sorted" if question.work == "sorted labels" else "labels"
    return lambda: len(np.flatnonzero(np.load(question.data / f"{name}.npy") == LABEL))


def boxes(question: Question) -> Answer:
    """Compare a column of all boxes, and join what belongs to a row."""

    def answer() -> int:
        values, counts = np.load(question.data / "boxes.npy"), np.load(question.data / "counts.npy")
        starts = np.cumsum(counts) - counts
        filled = counts > 0
        return int(np.logical_or.reduceat(values[:, 2] > ABOVE, starts[filled]).sum())

    return answer


def titles(question: Question) -> Answer:
    """Map the file and look for the word."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def answer() -> int:
        with pa.memory_map(str(question.data / "titles.arrow")) as file:
            column = pa.ipc.open_file(file).read_all()["title"]
            return int(pc.sum(pc.match_substring(column, WORD)).as_py())

    return answer


def duckdb(question: Question) -> Answer:
    """Join or group tables of Arrow."""
    import duckdb as engine
    import pyarrow as pa

    big = pa.table({"k": np.load(question.data / "keys.npy"), "v": np.load(question.data / "values.npy")})
    weights = np.load(question.data / "weights.npy")
    small = pa.table({"k": np.arange(len(weights)), "w": weights})
    connection = engine.connect()
    connection.register("big", big)
    connection.register("small", small)
    if question.work == "join":
        text = "SELECT v, w FROM big JOIN small ON big.k = small.k"
        return lambda: int(np.sum(connection.execute(text).fetchnumpy()["w"]))
    text = "SELECT k % 1000 AS k, sum(v) AS s FROM big GROUP BY k % 1000"
    return lambda: int(np.sum(connection.execute(text).fetchnumpy()["s"]))


if __name__ == "__main__":
    main(
        {
            "labels": labels,
            "sorted labels": labels,
            "boxes": boxes,
            "titles": titles,
            "join": duckdb,
            "group": duckdb,
        },
        lambda question: None,
    )
