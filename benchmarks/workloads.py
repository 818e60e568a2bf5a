"""Which workloads there are, who takes part in each, and what lakebed has to reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

ENVIRONMENTS = {
    "plain": ["numpy", "simplejpeg"],
    "lmdb": ["lmdb", "numpy", "simplejpeg"],
    "h5py": ["h5py", "numpy"],
    "zarr": ["zarr>=3", "numpy", "simplejpeg"],
    "webdataset": ["webdataset", "numpy"],
    "lance": ["pylance", "numpy"],
    "datasets": ["datasets", "numpy", "simplejpeg"],
    "deeplake4": ["deeplake>=4", "numpy"],
    "deeplake3": ["deeplake==3.9.52", "numpy<2", "setuptools"],
}
"""What is installed for each program of `peers/`; lakebed runs where this program runs."""


@dataclass(frozen=True)
class Contestant:
    """A row of a table.

    Parameters
    ----------
    program
        Module of `peers/`.
    environment
        Where it runs; none for lakebed's.
    durable
        Whether what is measured includes waiting for the disk.
    part
        What it is to the bars: "limit", "peer", "ours", or nothing.
    count
        Rows, if it is too slow for all.
    rounds
        Rounds that it takes part in, if it is too slow for all.
    """

    name: str
    program: str
    environment: str | None
    durable: bool = False
    option: str = ""
    part: str = "peer"
    count: int | None = None
    rounds: int = 99


@dataclass(frozen=True)
class Result:
    """Medians of the rounds of one contestant."""

    cpu: float
    wall: float
    peak: float
    figures: Mapping[str, float]


Results = Mapping[str, Result]


@dataclass(frozen=True)
class Bar:
    """What has to be reached."""

    text: str
    value: Callable[[Results], float]
    bar: float
    at_most: bool = True

    def reached(self, value: float) -> bool:
        return value <= self.bar if self.at_most else value >= self.bar


@dataclass(frozen=True)
class Workload:
    """A table.

    Parameters
    ----------
    count
        Rows.
    needs
        The workload that wrote what this one reads.
    milliseconds
        Whether its times are shown in milliseconds.
    figures
        Columns beside the common ones: name of the figure -> title.
    repeats
        How often one process does it.
    warm
        Bytes that are written and deleted just before, see `contest.warm`.
    """

    name: str
    title: str
    contestants: tuple[Contestant, ...]
    count: int
    bars: tuple[Bar, ...] = ()
    needs: str = ""
    rounds: int = 5
    repeats: int = 1
    warm: int = 1 << 25
    milliseconds: bool = False
    figures: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def _plain(name: str, **more: Any) -> Contestant:
    return replace(Contestant(name, "plain", "plain", part="limit"), **more)


def _peer(name: str, program: str, environment: str, **more: Any) -> Contestant:
    return replace(Contestant(name, program, environment), **more)


def _ours(name: str = "lakebed", **more: Any) -> Contestant:
    return replace(Contestant(name, "ours", None, part="ours"), **more)


LMDB = _peer("LMDB", "lmdb_keys", "lmdb")
HDF5 = _peer("HDF5", "hdf5", "h5py")
ZARR = _peer("Zarr 3", "zarr_arrays", "zarr")
WEBDATASET = _peer("WebDataset", "webdataset_tar", "webdataset")
LANCE = _peer("Lance", "lance_table", "lance")
DATASETS = _peer("HF datasets", "hugging_face", "datasets")
DEEPLAKE4 = _peer("Deep Lake 4", "deeplake4", "deeplake4")
DEEPLAKE3 = _peer("Deep Lake 3.9.52", "deeplake3", "deeplake3")
DURABLE = _ours("lakebed, waits for the disk", durable=True, part="")


def _cpu(row: str) -> Callable[[Results], float]:
    return lambda results: results[row].cpu


def _against(row: str, ours: str = "lakebed") -> Callable[[Results], float]:
    return lambda results: results[ours].cpu / results[row].cpu


def _wall_against(row: str, ours: str = "lakebed") -> Callable[[Results], float]:
    return lambda results: results[ours].wall / results[row].wall


def _against_best(workload: tuple[Contestant, ...], ours: str = "lakebed") -> Callable[[Results], float]:
    peers = [row.name for row in workload if row.part == "peer"]
    return lambda results: results[ours].cpu / min(results[name].cpu for name in peers if name in results)


def _figure(row: str, name: str) -> Callable[[Results], float]:
    return lambda results: results[row].figures[name]


_JPEG_INGEST = (
    _plain("one file, concatenated"),
    _ours(),
    ZARR,
    DATASETS,
    LMDB,
    WEBDATASET,
    LANCE,
    DEEPLAKE4,
    DEEPLAKE3,
    _plain("one file, waits for the disk", durable=True, part=""),
    DURABLE,
    _peer("LMDB, waits for the disk", "lmdb_keys", "lmdb", durable=True, part=""),
)
_RAW_INGEST = tuple(
    replace(row, durable=True)
    for row in (
        _plain("one file, a write each", option="one"),
        _ours("lakebed, extend", option="extend"),
        _ours("lakebed, append", option="append", part=""),
        HDF5,
        replace(HDF5, name="HDF5, append", option="append"),
        ZARR,
        WEBDATASET,
        DEEPLAKE4,
        replace(DEEPLAKE4, name="Deep Lake 4, append", option="append", rounds=1),
        replace(DEEPLAKE3, rounds=1),
    )
)
_ARRAYS = (
    _peer("Lance, as arrays", "lance_table", "lance", option="arrays"),
    DEEPLAKE4,
    replace(DEEPLAKE3, rounds=1),
)
_APPENDS = (
    _ours(),
    HDF5,
    LANCE,
    DEEPLAKE4,
    DEEPLAKE3,
    _plain("plain file", part=""),
    DURABLE,
    _peer("HDF5, waits for the disk", "hdf5", "h5py", durable=True, part=""),
    _plain("plain file, waits for the disk", durable=True, part=""),
)

WORKLOADS = (
    Workload(
        "jpeg-ingest",
        "Ingest 4,000 JPEG files verbatim, with a label each",
        _JPEG_INGEST,
        4_000,
        warm=1 << 28,
        bars=(
            Bar("CPU / the limit's", _against("one file, concatenated"), 1.4),
            Bar("CPU / the best peer's", _against_best(_JPEG_INGEST), 1),
        ),
    ),
    Workload(
        "raw-ingest",
        "Ingest 1,000 arrays of 512 x 512 x 3 bytes, all at once or one by one, and force them to disk",
        _RAW_INGEST,
        1_000,
        rounds=3,
        warm=1 << 30,
        bars=(
            Bar("CPU of extend / the limit's", _against("one file, a write each", "lakebed, extend"), 1.25),
            Bar("CPU of append / the limit's", _against("one file, a write each", "lakebed, append"), 1.25),
            Bar("CPU of extend / the best peer's", _against_best(_RAW_INGEST, "lakebed, extend"), 1),
            Bar(
                "peak of memory, MB above the arrays",
                lambda results: results["lakebed, extend"].peak / 1e6,
                100,
            ),
        ),
        note="Each array is one of 1,000 in memory; wall and CPU seconds count the wait for the disk, for everybody.",
    ),
    Workload(
        "jpeg-decode",
        "Decode all JPEGs, in order",
        (
            _plain("simplejpeg, bytes in memory"),
            _ours("lakebed, 1 thread", option="1"),
            _ours("lakebed, 2 threads", option="2", part=""),
            LMDB,
            ZARR,
            DATASETS,
            replace(DEEPLAKE4, rounds=1),
            DEEPLAKE3,
        ),
        4_000,
        (
            Bar(
                "speed of one thread / the limit's",
                lambda r: r["simplejpeg, bytes in memory"].cpu / r["lakebed, 1 thread"].cpu,
                0.97,
                at_most=False,
            ),
            Bar(
                "wall speed of two threads / the limit's (2 idle cores)",
                lambda r: r["simplejpeg, bytes in memory"].wall / r["lakebed, 2 threads"].wall,
                1.9,
                at_most=False,
            ),
        ),
        needs="jpeg-ingest",
        rounds=3,
        warm=1 << 28,
    ),
    Workload(
        "jpeg-random",
        "2,000 random single JPEGs, read and decoded",
        (_plain("plain files"), _ours(), LMDB, DEEPLAKE4, DEEPLAKE3),
        4_000,
        (
            Bar("p50, ms", _figure("lakebed", "p50"), 0.66),
            Bar("p99, ms", _figure("lakebed", "p99"), 1.3),
            Bar(
                "p50 / that of plain files",
                lambda r: r["lakebed"].figures["p50"] / r["plain files"].figures["p50"],
                1.05,
            ),
        ),
        needs="jpeg-ingest",
        rounds=3,
        warm=1 << 28,
        figures={"p50": "p50 ms", "p99": "p99 ms"},
    ),
    Workload(
        "boxes-write",
        "Write 118,000 ragged sets of boxes and of labels",
        (
            _plain("NumPy, 4 files", part=""),
            _ours(),
            LANCE,
            DEEPLAKE4,
            replace(DEEPLAKE3, rounds=1),
            DURABLE,
        ),
        118_000,
        (
            Bar("CPU seconds", _cpu("lakebed"), 0.11),
            Bar("CPU / the best peer's", _against_best((LANCE, DEEPLAKE4, DEEPLAKE3)), 1),
        ),
        rounds=3,
        note="Everybody gets two lists of 118,000 NumPy arrays.",
    ),
    Workload(
        "boxes-read",
        "Read 118,000 ragged sets of boxes and of labels",
        (
            _plain("NumPy, 4 files", part=""),
            _ours(),
            _peer("Lance, a table", "lance_table", "lance", part=""),
            *_ARRAYS,
        ),
        118_000,
        (
            Bar("CPU seconds", _cpu("lakebed"), 0.08),
            Bar("CPU / the best peer's that gives arrays", _against_best(_ARRAYS), 1),
        ),
        needs="boxes-write",
        rounds=3,
        note="Two lists of 118,000 NumPy arrays come out; Lance's table is not cut into them.",
    ),
    Workload(
        "labels-append",
        "Append 10,000 labels to a dataset of 10,000, 100,000 and 1,000,000",
        _APPENDS,
        1_000_000,
        (
            Bar("wall ms at 1,000,000", _figure("lakebed", "wall_1000000"), 5),
            Bar(
                "wall at 1,000,000 / at 10,000",
                lambda r: r["lakebed"].figures["wall_1000000"] / r["lakebed"].figures["wall_10000"],
                1.3,
            ),
        ),
        needs="labels-write",
        rounds=3,
        repeats=7,
        milliseconds=True,
        figures={
            "wall_10000": "wall ms, 10k",
            "wall_100000": "100k",
            "wall_1000000": "1M",
            "cpu_10000": "CPU ms, 10k",
            "cpu_1000000": "1M",
        },
        note="The dataset is open; measured is the append until others can see it.",
    ),
    Workload(
        "rows-append",
        "Open a table of 12 columns and 10,000, 100,000 or 1,000,000 rows, and append 10,000 rows of 76 bytes",
        tuple(row for row in _APPENDS if row is not DEEPLAKE3),
        1_000_000,
        (
            Bar(
                "CPU at 1,000,000 / HDF5's",
                lambda r: r["lakebed"].figures["cpu_1000000"] / r["HDF5"].figures["cpu_1000000"],
                0.8,
            ),
            Bar(
                "CPU at 1,000,000 / at 10,000",
                lambda r: r["lakebed"].figures["cpu_1000000"] / r["lakebed"].figures["cpu_10000"],
                1.3,
            ),
            Bar(
                "wall at 1,000,000, waiting for the disk / that of a plain file",
                lambda r: (
                    r["lakebed, waits for the disk"].figures["wall_1000000"]
                    / r["plain file, waits for the disk"].figures["wall_1000000"]
                ),
                3,
            ),
        ),
        needs="rows-write",
        rounds=3,
        repeats=5,
        milliseconds=True,
        figures={
            "wall_10000": "wall ms, 10k",
            "wall_1000000": "1M",
            "cpu_10000": "CPU ms, 10k",
            "cpu_100000": "100k",
            "cpu_1000000": "1M",
        },
        note="Measured is from the opening until others can see the rows.",
    ),
    Workload(
        "append-loop",
        "Append rows of a label and a number one at a time, without `with`",
        (
            _ours(),
            _ours("lakebed, extend of 10 rows", option="extend", part=""),
            DURABLE,
            _peer("Deep Lake 3.9.52", "deeplake3", "deeplake3", count=40),
            _plain("plain file, a write each", part=""),
        ),
        10_000,
        (
            Bar(
                "rows/s of extend of 10 rows / of append",
                lambda r: r["lakebed, extend of 10 rows"].figures["rows"] / r["lakebed"].figures["rows"],
                2,
            ),
        ),
        rounds=3,
        figures={"rows": "rows/s"},
        note="Deep Lake 3.9.52 gets 40 rows. lakebed publishes at the end; both then flush.",
    ),
    Workload(
        "labels-open",
        "Open 1,000,000 labels, length, first row",
        (_plain("memory map", part=""), _ours(), HDF5, LANCE, DEEPLAKE4, DEEPLAKE3),
        1_000_000,
        (Bar("wall ms", lambda r: r["lakebed"].wall * 1e3, 4),),
        needs="labels-write",
        rounds=3,
        repeats=15,
        milliseconds=True,
    ),
    Workload(
        "table-open",
        "Open 1,000,000 rows of 12 columns, 76 bytes a row: length, first and middle row",
        (_plain("memory maps"), _ours(), HDF5, LANCE),
        1_000_000,
        (Bar("CPU / HDF5's", _against("HDF5"), 0.9),),
        needs="table-write",
        repeats=15,
        milliseconds=True,
        note="All could append to what they have; lakebed has ids and shapes of every sample beside the columns.",
    ),
    Workload(
        "vectors-search",
        "Open 200,000 vectors of 768 float32, find the 10 with the largest product, exactly",
        (
            _plain("one file: read, BLAS"),
            _ours(),
            _ours("lakebed, batches of 1,024", option="batches", part=""),
            HDF5,
            LANCE,
        ),
        200_000,
        (
            Bar("wall / the limit's", _wall_against("one file: read, BLAS"), 1.15),
            Bar(
                "wall of batches / the limit's",
                _wall_against("one file: read, BLAS", "lakebed, batches of 1,024"),
                1.15,
            ),
        ),
        needs="vectors-write",
        warm=1 << 30,
        milliseconds=True,
        note="A process each: nothing was read in it before, the pages are in the cache of the system.",
    ),
    Workload(
        "labels-compare",
        "Open, read 1,000,000 labels, count those that equal 7",
        (_plain("plain file"), _ours(), HDF5, LANCE, DEEPLAKE4, DEEPLAKE3),
        1_000_000,
        (Bar("wall ms", lambda r: r["lakebed"].wall * 1e3, 10),),
        needs="labels-write",
        rounds=3,
        repeats=9,
        milliseconds=True,
    ),
    Workload(
        "start",
        "Start Python and import",
        (
            Contestant("Python alone", "importing", None, part="limit"),
            Contestant("lakebed", "importing", None, option="lakebed", part="ours"),
            Contestant("numpy and pyarrow", "importing", None, option="numpy, pyarrow", part=""),
            _peer("HDF5", "importing", "h5py", option="h5py"),
            _peer("Zarr 3", "importing", "zarr", option="zarr"),
            _peer("Lance", "importing", "lance", option="lance"),
            _peer("HF datasets", "importing", "datasets", option="datasets"),
            _peer("Deep Lake 4", "importing", "deeplake4", option="deeplake"),
            _peer("Deep Lake 3.9.52", "importing", "deeplake3", option="deeplake"),
        ),
        1,
        (Bar("CPU seconds of `import lakebed`", lambda r: r["lakebed"].cpu - r["Python alone"].cpu, 0.25),),
        rounds=3,
        repeats=3,
    ),
)
