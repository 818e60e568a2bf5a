"""Import of a table of PostgreSQL beside ADBC alone: `python -m benchmarks.sql`; writes its part of RESULTS.md.

Each pass is a process of its own, which first reads a few rows; the contestants take turns, and medians count.

    ADBC        reads all batches, and drops them
    lakebed     imports the same rows into a dataset on the disk
    client      CPU seconds of the process, all threads, without start-up and the first rows
    server      CPU seconds of the server's process for it
    memory      peak of the process, and that for a quarter of the rows

Afterwards every column of the dataset has the checksum that the database computes.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter

import psycopg
import pyarrow as pa

from benchmarks import measure
from benchmarks.inputs import CACHE, ROOT
from benchmarks.results import put
from benchmarks.table import machine
from integration_tests.databases import BLOCK, digests_of
from integration_tests.postgres import server
from integration_tests.postgres_rows import CONTENT, fill, sql_digests

CONTESTANTS = ("ADBC", "lakebed")
BAR = 0.7
"""Part of ADBC's rate that an import reaches, CPU seconds of both processes counted."""

Found = Mapping[str, float]


def one_pass(contestant: str, address: str, query: str, dest: str) -> None:
    """Read or import the rows, and print the costs."""
    read = _read if contestant == "ADBC" else _imported
    read(address, f"SELECT * FROM ({query}) AS q LIMIT 10", f"{dest}-warm")
    began, before = perf_counter(), _cpu()
    read(address, query, dest)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"client": _cpu() - before, "wall": perf_counter() - began, "memory": peak}))


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _read(address: str, query: str, dest: str) -> None:
    import adbc_driver_postgresql.dbapi as adbc

    with adbc.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        for batch in cursor.fetch_record_batch():
            del batch


def _imported(address: str, query: str, dest: str) -> None:
    import lakebed

    lakebed.import_from("sql", address, dest, query=query, overwrite=True, progressbar=False)


class _Postmaster:
    """The server's first process, which counts the CPU seconds of those that ended."""

    def __init__(self, dsn: str) -> None:
        with psycopg.connect(dsn) as sql:
            found = sql.execute("SELECT pg_backend_pid()").fetchone()
            assert found is not None
            parent = _fields(Path(f"/proc/{found[0]}/stat"))[1]
        self._stat = Path(f"/proc/{parent}/stat")

    def cpu(self) -> float:
        """CPU seconds of all connections that have ended."""
        ticks = sum(map(int, _fields(self._stat)[13:15]))
        return ticks / os.sysconf("SC_CLK_TCK")


def _fields(stat: Path) -> list[str]:
    """Fields of a process from its state on."""
    return stat.read_text().rpartition(")")[2].split()


def measured(contestant: str, address: str, query: str, dest: Path, postmaster: _Postmaster) -> Found:
    """Run one pass; add what the server used."""
    time.sleep(1)  # for processes of earlier connections to end
    before = postmaster.cpu()
    command = [sys.executable, "-m", "benchmarks.sql", "--one", contestant, address, query, str(dest)]
    output = measure.run(command, variables={"PYTHONPATH": os.pathsep.join(sys.path)}).output
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    time.sleep(1)
    return {**found, "server": postmaster.cpu() - before}


def main() -> None:
    """Take turns, check every column, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one_pass(*given.one)
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with server() as dsn, tempfile.TemporaryDirectory(dir=CACHE) as folder:
        lines = _contest(dsn, Path(folder), given.rows, given.rounds)
    print("\n".join(lines))
    put("benchmarks.sql", "Imports from PostgreSQL", lines)


def _contest(dsn: str, folder: Path, rows: int, rounds: int) -> list[str]:
    with psycopg.connect(dsn, autocommit=True) as sql:
        fill(sql, rows)
        sql.execute("VACUUM ANALYZE shop.orders")
    port = dict(part.split("=") for part in dsn.split())["port"]
    address = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    # The checksums need an order: rows of several lengths do not lie in the order in which they came.
    query, dest, postmaster = "SELECT * FROM shop.orders ORDER BY id", folder / "lake", _Postmaster(dsn)
    turns: dict[str, list[Found]] = {name: [] for name in CONTESTANTS}
    for _ in range(rounds):
        for name, found in turns.items():
            found.append(measured(name, address, query, dest, postmaster))
    quarter = measured("lakebed", address, f"{query} LIMIT {rows // 4}", folder / "quarter", postmaster)
    equal = _check(dsn, dest)
    costs = {
        name: {what: statistics.median(turn[what] for turn in found) for what in found[0]}
        for name, found in turns.items()
    }
    adbc, ours = costs["ADBC"], costs["lakebed"]
    rate = (adbc["client"] + adbc["server"]) / (ours["client"] + ours["server"])
    head = (
        f"`python -m benchmarks.sql --rows {rows}`, {rounds} rounds, {machine(ROOT)}. {rows:,} rows of {len(CONTENT)} "
        f"columns; the checksums of {equal} columns are those that PostgreSQL computes."
    )
    told = [
        head,
        "",
        "| | client, CPU s | server, CPU s | wall s | memory |",
        "|---|---|---|---|---|",
    ]
    told += [
        f"| {name} | {one['client']:.2f} | {one['server']:.2f} | {one['wall']:.1f} | {one['memory'] / 1e6:.0f} MB |"
        for name, one in costs.items()
    ]
    return [
        *told,
        "",
        f"* rate of ADBC alone, both processes: **{rate:.2f}** (bar {BAR})",
        f"* rate of ADBC alone, client only: {adbc['client'] / ours['client']:.2f}",
        f"* memory, beside that for a quarter of the rows: {ours['memory'] / quarter['memory']:.2f}",
    ]


def _check(dsn: str, dest: Path) -> int:
    """Compare the checksums of all columns; return their number.

    Raises
    ------
    SystemExit
        If one differs.
    """
    import lakebed

    ds = lakebed.load(dest)
    found = digests_of((pa.table(ds[at : at + BLOCK]) for at in range(0, len(ds), BLOCK)), CONTENT)
    with psycopg.connect(dsn) as sql:
        wanted = sql_digests(sql)
    wrong = [name for name in wanted if found[name] != wanted[name]]
    if wrong:
        sys.exit(f"checksums differ: {', '.join(wrong)}")
    return len(wanted)


if __name__ == "__main__":
    main()
