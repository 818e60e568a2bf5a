"""Tests of the promises that every storage keeps.

Subclass `StorageConformance` in a test module and override the fixture `storage`::

    class TestMyStorage(StorageConformance):
        @pytest.fixture
        def storage(self):
            return MyStorage(...)
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pytest

from lakebed.errors import (
    InvalidInputError,
    InvalidKeyError,
    KeyNotFound,
    LakebedError,
    LockedException,
    PreconditionFailed,
    TruncatedReadError,
)
from lakebed.storage.base import (
    Stat,
    Storage,
    is_bulk,
    is_cache,
    is_conditional,
    is_mappable,
    is_uncached,
    is_viewed,
    traits_of,
)
from lakebed.storage.lock import WriterLock
from lakebed.storage.reader_locks import is_shared, share

if TYPE_CHECKING:
    from collections.abc import Callable

BAD_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "a/",
    "/a",
    "a//b",
    ".",
    "..",
    "../a",
    "a/../b",
    "a/..",
    "./a",
    "a/./b",
    "a\0b",
    "a\\b",
    "..\\a",
    "C:/a",
    "C:\\a",
    "a/\ud800",
]
GOOD_KEYS = [
    "a",
    "a/b",
    "versions/0a/t/chunks/ff",
    ".lakebed/manifest-1",
    "..a/b..",
    "name with spaces",
    "ö/日本",
    "50%/p%20c",
    "a#b?c+d&e=f",
    "[x]{y}*~'\"<z>",
]


def expect(condition: object, why: str = "") -> None:
    """Fail the test unless the condition holds; `assert` would vanish under `python -O`."""
    if not condition:
        pytest.fail(why or "the storage broke this promise")


class StorageConformance:
    """One test per promise; `storage` must be empty at the start of each.

    Attributes
    ----------
    etags_name_contents
        The storage gives equal contents the same etag, as S3 does; a put of the same content may then go unnoticed.
    lists_etags
        `list` and `stat` return the same for an object.
    batch
        Number of objects of a large batch.
    """

    etags_name_contents: ClassVar[bool] = False
    lists_etags: ClassVar[bool] = True
    batch: ClassVar[int] = 600

    @pytest.fixture
    def storage(self) -> Storage:
        """Return an empty storage; override this."""
        raise NotImplementedError

    # -- whole objects --------------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", GOOD_KEYS)
    def test_returns_what_was_put(self, storage: Storage, key: str) -> None:
        """Any plain relative path is a key."""
        storage.put(key, b"content")
        expect(storage.get(key) == b"content")
        expect([found for found, _ in storage.list()] == [key])

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, 3_000_001])
    def test_keeps_objects_of_any_size(self, storage: Storage, size: int) -> None:
        """Sizes around the page size, and empty objects, come back whole."""
        data = np.random.default_rng(size).bytes(size)
        storage.put("k", data)
        expect(storage.get("k") == data)
        found = storage.stat("k")
        expect(found is not None and found.size == size)

    def test_joins_a_list_of_buffers(self, storage: Storage) -> None:
        """A list of buffers of any item size is one object; more pieces than a system call takes are fine."""
        numbers = np.arange(6, dtype=np.int32).reshape(2, 3)
        many = [bytes([i % 256]) * (i % 3) for i in range(3000)]
        storage.put("a", [b"x", bytearray(b"yz"), numbers.data, b"", memoryview(b"0123")[1:3]])
        storage.put_many([("b", many), ("c", []), ("d", (b"1", b"2"))])
        expect(storage.get("a") == b"xyz" + numbers.tobytes() + b"12")
        expect(storage.get("b") == b"".join(many))
        expect(storage.get("c") == b"")
        expect(storage.get("d") == b"12")

    def test_refuses_a_buffer_with_gaps(self, storage: Storage) -> None:
        """A strided view has no byte order of its own, so nothing is written."""
        with pytest.raises(InvalidInputError):
            storage.put("a", memoryview(b"0123")[::2])
        expect(storage.stat("a") is None)

    def test_replaces_an_object(self, storage: Storage) -> None:
        """A second put leaves nothing of the first."""
        storage.put("k", b"a long content")
        storage.put("k", b"short")
        expect(storage.get("k") == b"short")

    def test_missing_object_is_an_error_of_three_kinds(self, storage: Storage) -> None:
        """KeyNotFound is also a KeyError; a folder of objects is not an object."""
        storage.put("a/b", b"")
        for key in ("missing", "a", "a/b/c", "a/c"):
            with pytest.raises(KeyNotFound, match=key):
                storage.get(key)
            with pytest.raises(KeyError):
                storage.get_range(key, 0, 1)
            with pytest.raises(KeyNotFound):
                storage.get_into(key, memoryview(bytearray(9)))
            expect(storage.stat(key) is None)

    def test_reads_into_a_buffer(self, storage: Storage) -> None:
        """The object fills the start of the buffer; the other bytes of the buffer are not changed."""
        storage.put("k", b"12345")
        buffer = bytearray(b"-" * 8)
        expect(storage.get_into("k", memoryview(buffer)) == 5)
        expect(bytes(buffer) == b"12345---")
        expect(storage.get_into("k", memoryview(bytearray(5))) == 5)
        with pytest.raises(InvalidInputError, match="buffer"):
            storage.get_into("k", memoryview(bytearray(4)))

    # -- ranges ---------------------------------------------------------------------------------------------

    def test_reads_ranges_exactly(self, storage: Storage) -> None:
        """Ranges are returned in the given order; they may overlap or be empty."""
        storage.put("k", b"0123456789")
        expect(storage.get_range("k", 2, 3) == b"234")
        expect(storage.get_range("k", 0, 10) == b"0123456789")
        expect(storage.get_range("k", 10, 0) == b"")
        expect(storage.get_ranges("k", [(7, 3), (0, 2), (1, 4), (5, 0)]) == [b"789", b"01", b"1234", b""])
        expect(storage.get_ranges("k", []) == [])

    @pytest.mark.parametrize("span", [(0, 11), (10, 1), (11, 0), (5, 2**62), (2**63, 1), (0, 2**70)])
    def test_range_beyond_the_end_is_an_error(self, storage: Storage, span: tuple[int, int]) -> None:
        """No short read is passed off as data, and no length of a damaged index is allocated."""
        storage.put("k", b"0123456789")
        with pytest.raises(TruncatedReadError):
            storage.get_range("k", *span)
        with pytest.raises(EOFError):
            storage.get_ranges("k", [(0, 1), span])

    @pytest.mark.parametrize("span", [(-1, 2), (0, -1), (-5, -5)])
    def test_negative_range_is_an_error(self, storage: Storage, span: tuple[int, int]) -> None:
        """Negative positions are refused."""
        storage.put("k", b"0123456789")
        with pytest.raises(InvalidInputError):
            storage.get_range("k", *span)

    def test_reads_the_end_of_an_object(self, storage: Storage) -> None:
        """The last bytes, or all of a shorter object, come with size and etag of the object."""
        etag = storage.put("k", b"0123456789")
        for length, expected in (
            (0, b""),
            (1, b"9"),
            (9, b"123456789"),
            (10, b"0123456789"),
            (2**40, b"0123456789"),
        ):
            found = storage.get_tail("k", length)
            expect((found.data, found.stat) == (expected, Stat(10, etag)))
        storage.put("empty", b"")
        expect(storage.get_tail("empty", 5).data == b"")
        with pytest.raises(KeyNotFound):
            storage.get_tail("missing", 5)
        with pytest.raises(InvalidInputError):
            storage.get_tail("k", -1)

    # -- copies ---------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("durable", [True, False])
    @pytest.mark.parametrize("size", [0, 1, 4097, 3_000_001])
    def test_copies_an_object(self, storage: Storage, size: int, durable: bool) -> None:
        """The copy has the bytes of the original; replacing one of the two objects does not change the other."""
        data = np.random.default_rng(size).bytes(size)
        storage.put("a/source", data)
        storage.copy("a/source", "b/c/target", durable=durable)
        storage.sync(["b/c/target"])
        expect(storage.get("b/c/target") == data)
        storage.put("a/source", b"new")
        expect(storage.get("b/c/target") == data)
        storage.put("b/c/target", b"newer")
        expect(storage.get("a/source") == b"new")

    def test_a_copy_replaces_what_was_there(self, storage: Storage) -> None:
        """The etag is new, and nothing is left of the longer object before it."""
        storage.put("source", b"short")
        before = storage.put("target", b"something longer")
        storage.copy("source", "target")
        expect(storage.get("target") == b"short")
        found = storage.stat("target")
        expect(found is not None and found.etag != before)

    def test_a_copy_of_nothing_is_an_error(self, storage: Storage) -> None:
        """The failed copy leaves neither an object nor temporary files."""
        with pytest.raises(KeyNotFound):
            storage.copy("missing", "target")
        expect(not list(storage.list()))
        with pytest.raises(InvalidKeyError):
            storage.copy("../a", "target")
        storage.put("source", b"")
        with pytest.raises(InvalidKeyError):
            storage.copy("source", "../a")

    # -- batches --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("durable", [True, False])
    def test_writes_a_batch(self, storage: Storage, durable: bool) -> None:
        """A batch may come from a generator, span many folders, and name a key twice: the last one counts."""
        storage.put_many(((f"f{i % 7}/g/{i}", [b"%d" % i, b"!"]) for i in range(self.batch)), durable=durable)
        storage.put_many([("twice", b"first"), ("twice", b"second")], durable=durable)
        storage.sync([*(f"f{i % 7}/g/{i}" for i in range(self.batch)), "twice", "never/there"])
        expect(
            {key for key, _ in storage.list()} == {"twice", *(f"f{i % 7}/g/{i}" for i in range(self.batch))}
        )
        expect(all(storage.get(f"f{i % 7}/g/{i}") == b"%d!" % i for i in range(self.batch)))
        expect(storage.get("twice") == b"second")
        storage.put_many([], durable=durable)
        storage.sync([])

    def test_failing_batch_leaves_whole_objects_only(self, storage: Storage) -> None:
        """If the items end in an error, each key has its old or its new content, and nothing else is left."""
        storage.put("a", b"old")

        def items() -> object:
            yield "a", b"new"
            yield "b", b"new"
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            storage.put_many(items())  # type: ignore[arg-type]
        expect(storage.get("a") in (b"old", b"new"))
        expect({key for key, _ in storage.list()} <= {"a", "b"})

    # -- conditional puts -----------------------------------------------------------------------------------

    def test_conditional_put_creates_only_once(self, storage: Storage) -> None:
        """With None as etag there must be no object yet."""
        etag = storage.put_if("k", b"one", None)
        with pytest.raises(PreconditionFailed):
            storage.put_if("k", b"two", None)
        expect(storage.get("k") == b"one")
        expect(storage.stat("k") == Stat(3, etag))

    def test_conditional_put_replaces_only_what_was_read(self, storage: Storage) -> None:
        """After any put, the old etag is refused, even if the content is the same, unless etags identify contents."""
        first = storage.put("k", b"one")
        second = storage.put_if("k", b"eno" if self.etags_name_contents else b"one", first)
        expect(second != first)
        for etag in (first, "other"):
            with pytest.raises(PreconditionFailed):
                storage.put_if("k", b"two", etag)
        expect(storage.stat("k") == Stat(3, second))
        storage.delete("k")
        with pytest.raises(PreconditionFailed):
            storage.put_if("k", b"three", second)
        expect(storage.stat("k") is None)

    def test_etags_do_not_repeat(self, storage: Storage) -> None:
        """However fast objects of equal size replace each other, no etag is used twice."""
        seen = set()
        etag = None
        for n in range(50):
            etag = storage.put_if("k", b"%4d" % n if self.etags_name_contents else b"same", etag)
            expect(etag not in seen)
            seen.add(etag)

    def test_one_of_several_conditional_puts_wins(self, storage: Storage) -> None:
        """If several threads count in one object, no step is lost."""
        storage.put("n", b"0")
        failures: list[BaseException] = []

        def count() -> None:
            try:
                done = 0
                while done < 10:
                    found = storage.stat("n")
                    number = int(storage.get("n"))
                    try:
                        storage.put_if("n", b"%d" % (number + 1), found.etag if found else None)
                        done += 1
                    except PreconditionFailed:
                        pass
            except LakebedError as error:
                failures.append(error)

        _in_threads([count] * 4)
        expect(not failures, str(failures))
        expect(storage.get("n") == b"40")

    # -- listing and deleting -------------------------------------------------------------------------------

    def test_lists_by_prefix(self, storage: Storage) -> None:
        """A prefix is any beginning of a key, not only whole folders; sizes and etags are those of `stat`."""
        keys = ["ab", "a.b", "a/b", "a/c/d", "b/c", ".lakebed/manifest-1"]
        storage.put_many((key, key.encode()) for key in keys)
        expect({key for key, _ in storage.list()} == set(keys))
        expect({key for key, _ in storage.list("a")} == {"ab", "a.b", "a/b", "a/c/d"})
        expect({key for key, _ in storage.list("a/")} == {"a/b", "a/c/d"})
        expect({key for key, _ in storage.list("a/c")} == {"a/c/d"})
        expect(list(storage.list("nothing")) == [])
        expect(list(storage.list("no/thing/")) == [])
        for key, found in storage.list():
            expect(found.size == len(key))
            expect(not self.lists_etags or storage.stat(key) == found)

    def test_deletes(self, storage: Storage) -> None:
        """A missing object is no error, and a folder of objects is not deleted by its name."""
        storage.put("a/b", b"1")
        storage.delete("a")
        storage.delete("missing")
        storage.delete("a/b/c")
        expect(storage.get("a/b") == b"1")
        storage.delete("a/b")
        expect(storage.stat("a/b") is None)
        storage.put("a/b", b"2")
        expect(storage.get("a/b") == b"2")

    def test_deletes_by_prefix(self, storage: Storage) -> None:
        """Only objects with the prefix are removed; an empty prefix empties the storage, which stays usable."""
        storage.put_many((key, b"") for key in ["v/1/a", "v/1/b/c", "v/10/a", "v/2/a", "x"])
        storage.delete_prefix("v/1/")
        expect({key for key, _ in storage.list()} == {"v/10/a", "v/2/a", "x"})
        storage.delete_prefix("v/1")
        expect({key for key, _ in storage.list()} == {"v/2/a", "x"})
        storage.delete_prefix("missing/")
        storage.delete_prefix("")
        expect(list(storage.list()) == [])
        storage.delete_prefix("")
        storage.put("v/2/a", b"again")
        expect(storage.get("v/2/a") == b"again")

    # -- traits ---------------------------------------------------------------------------------------------

    def test_traits_tell_of_methods_that_work(self, storage: Storage) -> None:
        """Methods that the traits promise work."""
        storage.put_many([("a/b", b"0123"), ("a/c", b"45"), ("d", b"")])
        if is_mappable(storage):
            view = storage.map("a/b")
            view[0:1] = b"x"
            expect(
                view.tobytes() == b"x123" and storage.get("a/b") == b"0123", "writes to a map stay private"
            )
        if is_viewed(storage):
            expect(bytes(storage.view("a/b")) == b"0123" and bytes(storage.view_range("a/b", 1, 2)) == b"12")
        if is_cache(storage):
            expect(storage.origin.get("a/b") == storage.trusted.get("a/b") == b"0123")
            storage.forget("a/b")
        if is_uncached(storage):
            storage.put_uncached([("a/b", b"new")])
            expect(storage.get("a/b") == b"new")
        if is_bulk(storage):
            storage.delete_many(["a/b", "missing", "a/c"])
            expect([key for key, _ in storage.list()] == ["d"])

    def test_traits_tell_where_files_are(self, storage: Storage) -> None:
        """An object of a storage with a folder is a file of the object's name in that folder."""
        storage.put("a/b", b"content")
        folder = traits_of(storage).folder
        if folder:
            expect(traits_of(storage).local, "a folder is on this machine")
            with open(os.path.join(folder, "a", "b"), "rb") as file:  # noqa: PTH118, PTH123
                expect(file.read() == b"content")

    def test_traits_tell_what_locks_hold(self, storage: Storage) -> None:
        """A lock of the system excludes a second writer until it is released; a reader's lease is visible to others."""
        traits = traits_of(storage)
        storage.put("held", b"")
        lease = share(storage, "held")
        expect((lease is not None) == traits.reader_leases)
        expect(is_shared(storage, "held") is (True if lease else None))
        if lease is not None:
            lease.release()
            expect(is_shared(storage, "held") is False)
        first, second = WriterLock(storage, "main"), WriterLock(storage, "main")
        first.acquire()
        try:
            expect(first.is_system_lock == traits.system_locks)
            with pytest.raises(LockedException):
                second.acquire()
        finally:
            first.release()
        with second:
            expect(second.is_intact)

    def test_traits_tell_whether_conditions_hold(self, storage: Storage) -> None:
        """If conditional puts hold, exactly one of two writers wins each step, however close together they write."""
        expect(traits_of(storage).conditional in (None, is_conditional(storage)))
        expect(not traits_of(storage).read_only, "this suite writes")
        if not is_conditional(storage):
            return
        etag = storage.put("k", b"0")
        won: list[int] = []
        start = threading.Barrier(4)

        def race(number: int) -> None:
            start.wait()
            try:
                storage.put_if("k", b"by %d" % number, etag)
            except PreconditionFailed:
                return
            won.append(number)

        _in_threads([lambda n=n: race(n) for n in range(4)])  # type: ignore[misc]
        expect(len(won) == 1 and storage.get("k") == b"by %d" % won[0])

    # -- safety ---------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("key", BAD_KEYS)
    def test_refuses_keys_that_could_leave_the_root(self, storage: Storage, key: str) -> None:
        """Keys may come from a hostile dataset; each call checks them, also when the folder is known."""
        storage.put("a/b", b"")
        calls: list[Callable[[], object]] = [
            lambda: storage.get(key),
            lambda: storage.get_into(key, memoryview(bytearray(1))),
            lambda: storage.get_range(key, 0, 0),
            lambda: storage.get_ranges(key, [(0, 0)]),
            lambda: storage.put(key, b""),
            lambda: storage.put_many([(key, b"")]),
            lambda: storage.put_if(key, b"", None),
            lambda: storage.delete(key),
            lambda: storage.stat(key),
        ]
        for call in calls:
            with pytest.raises(InvalidKeyError):
                call()

    def test_reads_whole_objects_while_they_are_replaced(self, storage: Storage) -> None:
        """A reader beside a writer sees one content or the other, never a mixture or a gap."""
        contents = [bytes([n]) * 50_000 for n in range(5)]
        storage.put("k", contents[0])
        stop = threading.Event()
        bad: list[bytes] = []

        def read() -> None:
            while not stop.is_set():
                data = storage.get("k")
                if data not in contents:
                    bad.append(data[:8])

        def write() -> None:
            try:
                for n in range(40):
                    storage.put("k", contents[n % 5])
            finally:
                stop.set()

        _in_threads([read, read, write])
        expect(not bad)


def _in_threads(targets: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
