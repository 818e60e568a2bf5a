"""Large arrays that wait in the files of their chunks: what is read, kept and published is what memory would hold."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lakebed
from lakebed.dataset.dataset import Dataset
from lakebed.errors import StorageError, StorageFullError
from lakebed.native import disk
from lakebed.storage.base import Summed
from lakebed.storage.below import Below
from lakebed.storage.files import early_files, new_files
from lakebed.storage.files.early_files import EarlyFile
from lakebed.storage.local import LocalStorage
from lakebed.testing import FaultyStorage
from lakebed.writing import early_chunks
from lakebed.writing.draft import append_buffer
from lakebed.writing.encode import arrays
from unit_tests.effort import examples
from unit_tests.lakebed.datasets import create_on, new_memory

pytestmark = pytest.mark.skipif(not early_files._has_early_files(), reason="a system without such files")

SHAPE = (11, 13)
CHUNK = 1_600
"""Of a tensor whose chunks hold 800 bytes: five samples of 143 bytes and the 12 that each may cost beside them."""


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some bytes be large, so that a few arrays fill steps and chunks."""
    monkeypatch.setattr(append_buffer, "_LARGEST", 64)
    monkeypatch.setattr(early_chunks, "STEP", 256)
    monkeypatch.setattr(new_files, "LARGE", 256)
    monkeypatch.setattr(arrays, "_LARGE", 64)
    monkeypatch.setattr(early_chunks, "MOST", 2)


class Named:
    """Counts the files that get a name, and those that are begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        self.begun = 0
        link, begin = EarlyFile.link, LocalStorage.early_file

        def linked(file: EarlyFile, path: str) -> int:
            found = link(file, path)
            self.names.append(path)
            return found

        def begun(storage: LocalStorage, size: int) -> EarlyFile | None:
            self.begun += 1
            return begin(storage, size)

        monkeypatch.setattr(EarlyFile, "link", linked)
        monkeypatch.setattr(LocalStorage, "early_file", begun)


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> Named:
    return Named(monkeypatch)


def array(number: int, shape: tuple[int, ...] = SHAPE) -> NDArray[np.uint8]:
    return np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)


def first(count: int) -> list[NDArray[Any]]:
    return [array(number) for number in range(count)]


def new(folder: Path, **more: Any) -> Dataset:
    ds = lakebed.empty(str(folder))
    ds.create_tensor("x", **{"dtype": "uint8", "max_chunk_size": CHUNK, **more})
    return ds


def appended(
    ds: Dataset, rows: list[NDArray[Any]], error: type[BaseException] | tuple[()] = ()
) -> list[NDArray[Any]]:
    """Append arrays one by one; return those whose append did not end with the given error."""
    found = []
    for row in rows:
        with suppress(error):
            ds.append({"x": row})
            found.append(row)
    return found


def check(folder: Path, expected: list[NDArray[Any]], name: str = "x") -> None:
    """Whether a dataset holds these samples, and each checksum is right."""
    assert lakebed.verify(folder, deep=True).is_sound
    rows = lakebed.load(str(folder), read_only=True)[name].numpy(aslist=True)
    assert len(rows) == len(expected)
    for row, wanted in zip(rows, expected, strict=True):
        assert row.shape == wanted.shape
        assert np.array_equal(row, wanted)


def stored(ds: Dataset) -> list[tuple[bytes, int, list[int]]]:
    """The content of each chunk file of the head, how many samples it has, and the words that say where they lie."""
    session = ds._session
    table = session.snapshot.tensors["x"].table
    return [
        (bytes(session.storage.get(table.key(row))), table.samples(row), table.places.layout(row).tolist())
        for row in range(len(table))
    ]


def nameless(folder: Path) -> list[str]:
    """The files without a name that this process has open on the disk of a folder."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:
            continue
        if target.startswith(f"{folder}/#"):
            found.append(target)
    return found


@pytest.mark.parametrize("count", [1, 5, 6, 7, 10, 11, 15, 16, 23])
def test_chunks_are_those_that_memory_makes(tmp_path: Path, named: Named, count: int) -> None:
    """Byte for byte, with the same samples in each; whole ones were never packed."""
    folder = new(tmp_path / "folder")
    memory = create_on(new_memory())
    memory.create_tensor("x", dtype="uint8", max_chunk_size=CHUNK)
    with folder, memory:
        for ds in (folder, memory):
            for number in range(count):
                ds.append({"x": array(number)})
                waits = number - 4 - 5 * len(named.names)
                assert ds is memory or len(nameless(tmp_path / "folder")) == max(0, -(-waits // 5))
    # The first sample takes the long way, and four more make its chunk full.
    assert len(named.names) == max(0, count - 5) // 5
    data = [content for content, _, _ in stored(folder)]
    assert b"".join(row.tobytes() for row in map(array, range(count))) == b"".join(
        content[-143 * samples :] for content, samples, _ in stored(folder)
    )
    if count > 5:
        assert len(data) == -(-count // 5)
    if count % 5 == 0:
        assert [content for content, _, _ in stored(memory)] == data
    check(tmp_path / "folder", first(count))
    assert not nameless(tmp_path / "folder")


def test_nothing_is_read_back_of_a_loop(
    tmp_path: Path, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whole chunks, whose samples are written once."""
    monkeypatch.setattr(EarlyFile, "read", lambda *_: pytest.fail("read back"))
    with new(tmp_path / "a") as ds:
        appended(ds, first(45))
    assert (len(named.names), named.begun) == (8, 8)
    check(tmp_path / "a", first(45))


def test_what_the_caller_does_with_an_array_afterwards_changes_nothing(tmp_path: Path) -> None:
    """It was copied."""
    with new(tmp_path / "a") as ds:
        for number in range(30):
            given_one = array(number)
            ds.append({"x": given_one})
            given_one[...] = 0
    check(tmp_path / "a", first(30))


@pytest.mark.parametrize(
    ("dtype", "shape", "other", "names"),
    [
        # Samples begin wherever the header ends.
        ("bool", (9, 13), None, range(1, 40)),
        ("int16", (71,), None, range(1, 40)),
        ("float64", (2, 3, 3), None, range(1, 40)),
        # Five such samples have as many bytes as a chunk; with what each costs beside them, four fit.
        ("uint8", (10, 16), None, [9]),
        # A chunk of many shapes begins with a header of unknown length: they wait in memory.
        ("uint8", (8, 13), lambda number: (8 + number % 3, 13), [0]),
        # At another shape in the middle, what waits in a file is read back, and what follows waits in memory.
        ("uint8", SHAPE, lambda number: (12, 13) if number == 19 else SHAPE, [2]),
    ],
    ids=["bool", "int16", "float64", "positions", "many shapes", "one other shape"],
)
def test_types_and_shapes(
    tmp_path: Path, named: Named, dtype: str, shape: Any, other: Any, names: Sequence[int]
) -> None:
    rows = [array(number, other(number) if other else shape).astype(dtype) for number in range(40)]
    with new(tmp_path / "a", dtype=dtype) as ds:
        appended(ds, rows)
    assert len(named.names) in names
    check(tmp_path / "a", rows)


def test_a_chunk_that_is_encoded_alone_is_not_written_again(
    tmp_path: Path, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not wait for the next one, nor for the publish."""
    monkeypatch.setattr(early_chunks, "MOST", 1)
    with new(tmp_path / "a") as ds:
        appended(ds, first(20))
        assert len(named.names) == 3
    check(tmp_path / "a", first(20))


def test_rows_of_several_tensors(tmp_path: Path, named: Named) -> None:
    """Large ones of one size, of others, and small ones: what fills chunks first does not spoil others twice."""
    folder = tmp_path / "a"
    with new(folder) as ds:
        ds.create_tensor("y", dtype="uint8", max_chunk_size=CHUNK)
        ds.create_tensor("z", dtype="uint8", max_chunk_size=CHUNK)
        ds.create_tensor("n", dtype="int64")
        for number in range(60):
            ds.append(
                {"x": array(number), "y": array(1000 + number), "z": array(number, (7, 31)), "n": number}
            )
    assert named.begun < 40
    check(folder, first(60))
    check(folder, [array(1000 + number) for number in range(60)], "y")
    check(folder, [array(number, (7, 31)) for number in range(60)], "z")
    assert lakebed.load(str(folder)).n.numpy().ravel().tolist() == list(range(60))


def test_a_row_that_does_not_fit_leaves_nothing(tmp_path: Path) -> None:
    """Its first array is in a file already when its second is refused."""
    with new(tmp_path / "a") as ds:
        ds.create_tensor("y", dtype="uint8", max_chunk_size=CHUNK)
        for number in range(8):
            ds.append({"x": array(number), "y": array(number)})
        with pytest.raises(lakebed.SampleAppendError):
            ds.append({"x": array(8), "y": array(8).astype("float64") + 0.5})
        for number in range(8, 30):
            ds.append({"x": array(number), "y": array(number)})
    check(tmp_path / "a", first(30))
    check(tmp_path / "a", first(30), "y")


# -- whatever happens to rows that wait ----------------------------------------------------------------------------


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 17)),
        st.tuples(st.just("other"), st.integers(1, 2)),
        st.tuples(st.just("extend"), st.integers(1, 12)),
        st.tuples(st.sampled_from(["pop", "update", "read", "all", "refused"]), st.integers(0, 60)),
        st.tuples(st.sampled_from(["flush", "commit", "fork", "schema"]), st.just(0)),
    ),
    max_size=9,
)


@settings(
    max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, most=st.integers(1, 4), step=st.sampled_from([110, 143, 256, 1000]))
def test_any_order_of_changes(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    steps: list[tuple[str, int]],
    most: int,
    step: int,
) -> None:
    """A dataset is a list of arrays."""
    monkeypatch.setattr(early_chunks, "MOST", most)
    monkeypatch.setattr(early_chunks, "STEP", step)
    folder = tmp_path_factory.mktemp("model") / "a"
    expected: list[NDArray[np.uint8]] = []
    count = 0
    with new(folder) as ds:
        for what, number in steps:
            at = number % len(expected) if expected else None
            match what:
                case "append" | "other":
                    for _ in range(number):
                        count += 1
                        expected.append(array(count, SHAPE if what == "append" else (12, 13)))
                        ds.append({"x": expected[-1]})
                case "extend":
                    rows = [array(count + i + 1) for i in range(number)]
                    count += number
                    expected += rows
                    ds.extend({"x": rows})
                case "refused":
                    with pytest.raises(lakebed.errors.LakebedError):
                        ds.extend({"x": [array(1), "no array"]})
                case "pop" if at is not None:
                    ds.pop(at)
                    del expected[at]
                case "update" if at is not None:
                    count += 1
                    expected[at] = array(count)
                    ds.x[at] = expected[at]
                case "read" if at is not None:
                    assert np.array_equal(ds.x[at].numpy(), expected[at])
                case "all":
                    assert all(map(np.array_equal, ds.x.numpy(aslist=True), expected))
                case "flush":
                    ds.flush()
                case "commit":
                    ds.commit(allow_empty=True)
                case "schema":
                    ds.create_tensor(f"t{count}", hidden=False) if f"t{count}" not in ds.tensors else None
                    ds.delete_tensor(f"t{count}")
                case "fork":
                    _in_a_child(ds, expected)
            assert len(ds) == len(expected)
    check(folder, expected)


def _in_a_child(ds: Dataset, expected: list[NDArray[np.uint8]]) -> None:
    """Fork, and let the child look at what waits; it can write nothing of it."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            buffer = ds._session._unpublished.draft and ds._session._unpublished.draft.buffer
            for _, values in buffer.rows if buffer else ():
                if type(values[0]) is early_chunks.EarlySample:
                    assert not values[0].chunk.file.is_mine
                    values[0].read()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_child_reads_what_waits_and_its_parent_goes_on(tmp_path: Path) -> None:
    """The child has a buffer of its own, and never writes to the file."""
    with new(tmp_path / "a") as ds:
        appended(ds, first(13))
        rows = [values[0] for _, values in ds._session._unpublished.draft.buffer.rows]
        ready, done = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.write(ready[1], b"1")
                os.read(done[0], 1)  # the parent has used its buffer for other arrays
                found = [row.read() if type(row) is early_chunks.EarlySample else row.array for row in rows]
                code = int(not all(np.array_equal(row, array(5 + i)) for i, row in enumerate(found)))
            finally:
                os._exit(code)
        os.read(ready[0], 1)
        appended(ds, first(40)[13:])
        os.write(done[1], b"1")
        assert os.waitpid(pid, 0)[1] == 0
        for pipe in (*ready, *done):
            os.close(pipe)
    check(tmp_path / "a", first(40))


# -- faults --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("at", range(6))
def test_a_step_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, at: int
) -> None:
    """Costs nothing but the file: arrays wait in memory, and the ordinary way meets the error, if it lasts."""
    real, calls = os.pwrite, iter(range(10_000))

    def fails(fd: int, view: memoryview, place: int) -> int:
        if next(calls) >= at:
            raise OSError(number, os.strerror(number))
        return real(fd, view, place)

    with new(tmp_path / "a") as ds:
        with monkeypatch.context() as patch:
            patch.setattr(early_files.os, "pwrite", fails)
            appended(ds, first(29))
            assert next(calls) > at
        ds.append({"x": array(29)})
    check(tmp_path / "a", first(30))


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EEXIST])
def test_a_file_that_cannot_be_named_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """From what it holds."""

    def refuses(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(EarlyFile, "link", refuses)
    with new(tmp_path / "a") as ds:
        appended(ds, first(30))
    check(tmp_path / "a", first(30))


@pytest.mark.parametrize("at", range(4))
def test_naming_that_fails_can_be_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The append fails and says so; what waits, the array that it brought included, is there for the next one."""
    real, calls = EarlyFile.link, iter(range(10_000))

    def fails(file: EarlyFile, path: str) -> int:
        if next(calls) == at:
            raise OSError(errno.ENOSPC, "no space")
        return real(file, path)

    monkeypatch.setattr(EarlyFile, "link", fails)
    with new(tmp_path / "a") as ds:
        assert len(appended(ds, first(40), StorageFullError)) == 39
    check(tmp_path / "a", first(40))
    assert not [path for path in (tmp_path / "a").rglob(".lb-*") if path.is_file()]


def test_storages_that_pass_on_less_than_a_folder_can_do(tmp_path: Path, named: Named) -> None:
    """Wrappers of a folder, and folders within it, have no such files, and rows wait in memory."""
    for storage in (FaultyStorage(LocalStorage(tmp_path / "a")), Below(LocalStorage(tmp_path), "b")):
        ds = create_on(storage)
        ds.create_tensor("x", dtype="uint8", max_chunk_size=CHUNK)
        with ds:
            appended(ds, first(30))
        assert all(map(np.array_equal, ds.x.numpy(aslist=True), map(array, range(30))))
    assert not named.begun


def test_the_folder_has_no_such_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: Named) -> None:
    """Or the process may not open one more."""
    monkeypatch.setattr(early_files, "_FLAGS", os.O_RDONLY | os.O_CREAT | os.O_EXCL)
    with new(tmp_path / "a") as ds:
        appended(ds, first(30))
    assert named.begun
    assert not named.names
    check(tmp_path / "a", first(30))


def test_what_the_disk_lost_is_not_published(tmp_path: Path) -> None:
    """Bytes that were read back are those that came."""
    ds = new(tmp_path / "a")
    with ds:
        appended(ds, first(8))
        sample = ds._session._unpublished.draft.buffer.rows[0][1][0]
        assert type(sample) is early_chunks.EarlySample
        os.pwrite(sample.chunk.file._fd, bytes(30), 100)
        with pytest.raises(StorageError, match="other bytes than were written"):
            ds.flush()
        ds.reset(force=True)


def test_ctrl_c_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it comes: the row is there or not, and all others are."""
    real = early_chunks.native.copy_bytes
    for at in range(7):
        calls = iter(range(10_000))

        def copy(out: Any, source: Any, calls: Iterator[int] = calls, at: int = at) -> None:
            if next(calls) == 20 + at:
                raise KeyboardInterrupt
            real(out, source)

        folder = tmp_path / str(at)
        with new(folder) as ds, monkeypatch.context() as patch:
            patch.setattr(early_chunks.native, "copy_bytes", copy)
            expected = appended(ds, first(40), KeyboardInterrupt)
        assert len(expected) == 39
        check(folder, expected)


@pytest.mark.parametrize("at", range(12))
def test_ctrl_c_behind_the_checksums_of_a_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Nothing is summed twice: no checksum is of other bytes than its block."""
    real, calls = early_chunks.EarlyChunk._sum, iter(range(10_000))

    def take(chunk: early_chunks.EarlyChunk, view: memoryview) -> None:
        real(chunk, view)
        if next(calls) == 8 + at:
            raise KeyboardInterrupt

    expected: list[NDArray[np.uint8]] = []
    with new(tmp_path / "a") as ds:
        monkeypatch.setattr(early_chunks.EarlyChunk, "_sum", take)
        stopped = 0
        for n in range(40):
            try:
                ds.append({"x": array(n)})
            except KeyboardInterrupt:
                stopped += 1
                if len(ds) == len(expected):
                    continue
            expected.append(array(n))
    assert stopped == 1
    check(tmp_path / "a", expected)


def test_ctrl_c_before_the_end_of_a_chunk_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its samples stay in the buffer, which no other chunk gets."""
    real, calls = early_chunks.EarlyChunk.settle, iter(range(10_000))

    def settle(chunk: early_chunks.EarlyChunk) -> None:
        if next(calls) == 1:
            raise KeyboardInterrupt
        real(chunk)

    monkeypatch.setattr(early_chunks.EarlyChunk, "settle", settle)
    monkeypatch.setattr(early_chunks, "MOST", 6)
    with new(tmp_path / "a") as ds:
        expected = appended(ds, first(40), KeyboardInterrupt)
    assert len(expected) == 39
    check(tmp_path / "a", expected)


def test_an_end_that_was_interrupted_is_no_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checksums may be those of more than its bytes; what it holds is read all the same."""
    file = LocalStorage(tmp_path).early_file(2_000)
    assert file is not None
    chunk = early_chunks.EarlyChunk(file, np.empty(256, np.uint8), np.dtype("uint8"), SHAPE, 5)
    samples = [chunk.put(array(number)) for number in range(5)]
    assert chunk.is_chunk(samples)
    assert not chunk.is_chunk(samples[::-1])
    assert not chunk.is_chunk(samples[1:])
    real = early_chunks.EarlyChunk._sum

    def take(chunk: early_chunks.EarlyChunk, view: memoryview) -> None:
        real(chunk, view)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(early_chunks.EarlyChunk, "_sum", take)
        with pytest.raises(KeyboardInterrupt):
            chunk.settle()
    assert not chunk.is_chunk(samples)
    assert all(np.array_equal(chunk.read(number), array(number)) for number in range(5))


def test_a_file_gets_one_name(tmp_path: Path) -> None:
    """Of its process: no object is another name of a file that a writer of 3.x may change in place."""
    storage = LocalStorage(tmp_path)
    file = storage.early_file(100)
    assert file is not None
    file.write(0, memoryview(b"content"))
    pid = os.fork()
    if not pid:
        code = 1
        try:
            file.link(str(tmp_path / "child"))
        except OSError as error:
            code = int(error.errno != errno.EXDEV)
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    for name in ("a/one", "two"):
        storage.put_many([(name, Summed((b"content",), b"content".__eq__, file=file))])
    assert storage.get("a/one") == storage.get("two") == b"content"
    assert not os.path.samefile(tmp_path / "a/one", tmp_path / "two")  # noqa: PTH121
    assert {path.name for path in tmp_path.iterdir()} == {"a", "two"}


_LOOP = """
import sys, numpy as np, lakebed
from lakebed.storage.files import new_files
from lakebed.writing import early_chunks
from lakebed.writing.draft import append_buffer
from lakebed.writing.encode import arrays
append_buffer._LARGEST, early_chunks.STEP, early_chunks.MOST = 64, 256, 2
new_files.LARGE, arrays._LARGE = 256, 64
ds = lakebed.load(sys.argv[1])
with ds:
    for n in range(10**6):
        ds.append({"x": np.random.default_rng(n).integers(0, 256, (11, 13), dtype=np.uint8)})
        if n % 17 == 16:
            ds.flush()
            print(n + 1, flush=True)
"""


@pytest.mark.parametrize("published", [1, 3, 6])
def test_killed_in_a_loop(tmp_path: Path, published: int) -> None:
    """What was published is there, and nothing of what waited: files without names are gone with the process."""
    folder = tmp_path / "a"
    new(folder).flush()
    child = subprocess.Popen([sys.executable, "-c", _LOOP, str(folder)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    told = 0
    for line in child.stdout:
        told = int(line)
        if told >= 17 * published:
            break
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    rows = lakebed.load(str(folder), read_only=True).x.numpy(aslist=True)
    assert len(rows) >= told
    assert len(rows) % 17 == 0
    check(folder, first(len(rows)))
    again = lakebed.load(str(folder))
    with again:
        again.append({"x": array(len(rows))})
    check(folder, first(len(rows) + 1))


@pytest.mark.parametrize(
    ("settings_", "shape", "is_early"),
    [
        ({"htype": "image", "sample_compression": None}, (7, 7, 3), True),
        ({"htype": "image", "sample_compression": "lz4"}, (7, 7, 3), False),
        ({"htype": "image.rgb", "sample_compression": None}, (7, 7, 3), False),
        ({"htype": "image", "sample_compression": None, "downsampling": (2, 1)}, (24, 24, 3), False),
        ({"htype": "segment_mask", "sample_compression": None}, (11, 13), True),
        ({"htype": "segment_mask", "sample_compression": "lz4"}, (11, 13), False),
        ({"dtype": "uint8", "chunk_compression": "lz4"}, (11, 13), False),
        ({"dtype": "uint8", "sample_compression": "lz4"}, (11, 13), False),
        ({"dtype": "uint8", "tiling_threshold": 100}, (11, 13), False),
        ({"htype": "embedding", "dtype": "uint8"}, (150,), True),
    ],
)
def test_only_files_that_hold_samples_as_they_are_come_early(
    tmp_path: Path, named: Named, settings_: dict[str, Any], shape: tuple[int, ...], is_early: bool
) -> None:
    """What is compressed, converted, cut or made smaller is no copy; rows are those of `extend`, whatever they are."""
    rows = [array(n, shape) for n in range(40)]
    ds = (
        new(tmp_path / "ds", dtype=None, **settings_)
        if "dtype" not in settings_
        else new(tmp_path / "ds", **settings_)
    )
    other = create_on(new_memory())
    other.create_tensor("x", **{"max_chunk_size": CHUNK, **settings_})
    appended(ds, rows)
    other.extend({"x": rows})
    ds.flush()
    assert bool(named.names) is is_early
    wanted = other.x.numpy(aslist=True)
    assert [w.shape for w in wanted] == [r.shape for r in ds.x.numpy(aslist=True)]
    check(tmp_path / "ds", wanted)


def test_descriptors_are_left_to_the_program(tmp_path: Path, named: Named) -> None:
    """Of many tensors with large arrays some wait in memory; all are stored."""
    ds = lakebed.empty(str(tmp_path / "ds"))
    names = [f"x{n}" for n in range(early_files.MOST + 10)]
    for name in names:
        ds.create_tensor(name, dtype="uint8", max_chunk_size=CHUNK)
    before = len(list(Path("/proc/self/fd").iterdir()))
    rows = first(23)
    most = 0
    for row in rows:
        ds.append(dict.fromkeys(names, row))
        most = max(most, len(list(Path("/proc/self/fd").iterdir())))
    ds.flush()
    assert named.begun > early_files.MOST
    assert before + early_files.MOST - 10 <= most <= before + early_files.MOST + 10
    assert disk.Descriptor.held() == 0
    for name in (names[0], names[-1]):
        check(tmp_path / "ds", rows, name)
