"""Queries on a Ray cluster: two nodes of one CPU beside one, from a store that is far away.

Run it in an environment with Ray, such as the one that `make ray` makes: ``python -m benchmarks.cluster``.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import lakebed
from benchmarks.results import put
from benchmarks.static_s3 import serving
from integration_tests.ray.nodes import Nodes
from integration_tests.stores.servers import faults

CALL_SECONDS = 0.008

QUERIES = {
    "a search with LIMIT, chunk by chunk": "SELECT * WHERE mean(photo) > 200 LIMIT 5",
    f"a function that waits {CALL_SECONDS * 1e3:.0f} ms for each row": "SELECT * WHERE called(label) > 2",
    "groups of pixels, which are read ahead": "SELECT label, count(*) AS n, avg(photo) AS a GROUP BY label",
}


def made(folder: Path, rows: int) -> None:
    """Write pictures, in chunks of about 25, into the bucket ``lake``."""
    ds = lakebed.empty(str(folder / "lake/photos"))
    ds.create_tensor("label", htype="class_label", class_names=["a", "b", "c"])
    ds.create_tensor("photo", htype="image", sample_compression="png", max_chunk_size=32_000)
    rng = np.random.default_rng(3)
    with ds:
        for i in range(rows):
            ds.append({"label": i % 3, "photo": rng.integers(0, 256, (20, 20, 3), np.uint8)})


def called(label: Any) -> Any:
    """Wait, as for a model that another machine serves."""
    time.sleep(CALL_SECONDS)
    return label


def warm(ds: Any) -> None:
    """Start the processes of all nodes, which import lakebed for their first task."""
    for _ in range(2):
        ds.query(QUERIES["groups of pixels, which are read ahead"], engine="ray")


def seconds(ds: Any, text: str, engine: Any, rounds: int) -> float:
    """Return the time of the fastest of some runs."""
    found = []
    for _ in range(rounds):
        began = time.perf_counter()
        result = ds.query(text, engine=engine)
        len(result.relation.whole("a") if "a" in result.tensors else result)
        found.append(time.perf_counter() - began)
    return min(found)


def main() -> None:
    """Measure one node, add one, measure again; print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=3_000)
    parser.add_argument("--latency", type=int, default=300, help="ms")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="save nothing")
    given = parser.parse_args()
    os.environ |= {"RAY_AUTH_MODE": "disabled", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    about = (
        f"`python -m benchmarks.cluster`, {time.strftime('%Y-%m-%d %H:%M')}, load {os.getloadavg()[0]:.1f}, "
        f"{os.cpu_count()} cores of {platform.machine()}, which nodes, store and driver share. {given.rows:,} small "
        f"pictures in a bucket, each request takes {given.latency} ms; a node has one CPU. Wall time, the fastest of "
        f"{given.rounds} runs. One process reads ahead, and so waits for many requests at the same time: a second node "
        "gains where the work itself waits or computes."
    )
    lines = [
        about,
        "",
        "| query | this process | one node | two nodes | ratio (bar 1.8) |",
        "|---|---:|---:|---:|---:|",
    ]
    lakebed.query.register("called", called)
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder), given.rows)
        with serving(Path(folder)) as port, faults(port) as network, Nodes() as nodes:
            os.environ["RAY_ADDRESS"] = nodes.address
            ds = lakebed.load("s3://lake/photos", read_only=True, creds={"endpoint_url": network.endpoint})
            warm(ds)
            network.set(latency=given.latency / 1e3)
            here = [seconds(ds, text, "local", 1) for text in QUERIES.values()]
            one = [seconds(ds, text, "ray", given.rounds) for text in QUERIES.values()]
            network.set()
            nodes.add()
            time.sleep(2)
            warm(ds)
            network.set(latency=given.latency / 1e3)
            two = [seconds(ds, text, "ray", given.rounds) for text in QUERIES.values()]
    for name, *times in zip(QUERIES, here, one, two, strict=True):
        told = " | ".join(f"{each:.1f} s" for each in times)
        lines.append(f"| {name} | {told} | **{times[1] / times[2]:.2f}** |")
    print("\n".join(lines))
    if not given.quick:
        put("benchmarks.cluster", "Queries on a Ray cluster", lines)


if __name__ == "__main__":
    main()
