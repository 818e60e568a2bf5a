"""How many requests a store gets, and how often somebody waits for an answer before the next one is made."""

from __future__ import annotations

import pytest

import lakebed
from lakebed import config
from lakebed.storage.base import CachingStorage
from unit_tests.lakebed.afar import Afar, made_on, opened_on

# Seconds that a request takes: threads that begin at the same time must have begun by then on a busy machine, too.
_PAUSE = 0.1


def filled(store: Afar, tensors: int) -> lakebed.Dataset:
    """A dataset with some tensors, without companions, and two rows, made without a pause."""
    pause, store.pause = store.pause, 0
    ds = made_on(store)
    with ds:
        for number in range(tensors):
            ds.create_tensor(f"t{number}", dtype="int64", create_id_tensor=False, create_shape_tensor=False)
        append(ds, 2)
    store.forget()
    store.pause = pause
    return ds


def append(ds: lakebed.Dataset, rows: int = 1) -> None:
    for row in range(rows):
        ds.append(dict.fromkeys(ds.tensors, row))


def asked(store: Afar) -> tuple[dict[str, int], int]:
    """Requests by kind and rounds since the last question."""
    found = store.methods(), store.rounds()
    store.forget()
    return found


def test_opening_takes_two_requests_and_one_more_for_a_head() -> None:
    """Version file, then manifest; of a head the lock file at the same time. What is known then is not asked again."""
    store = Afar(pause=_PAUSE)
    ds = filled(store, 5)
    commit = ds.commit("one")
    append(ds)
    ds.flush()
    store.forget()
    head = opened_on(store)
    assert asked(store) == ({"GET": 3}, 2)
    assert len(head) == 3
    assert head.t3.dtype == "int64"
    assert head.commits[0]["commit"] == commit
    assert not store.requests
    assert head.t3[2].numpy().tolist() == [0]
    assert asked(store) == ({"GET": 1}, 1)
    opened_on(store, read_only=True)
    assert asked(store) == ({"GET": 3}, 2)
    assert len(opened_on(store, commit)) == 2
    assert asked(store) == ({"GET": 2}, 2)


def test_opening_takes_as_many_with_many_commits() -> None:
    """Four hundred versions come with the end of the version file."""
    store = Afar()
    ds = filled(store, 1)
    first = ds.commit("first")
    for number in range(60):
        ds.commit(str(number), allow_empty=True)
    store.forget()
    opened_on(store, first)
    assert asked(store)[0] == {"GET": 2}


def test_creating_takes_what_it_writes() -> None:
    """Two versions, empty, in one go; then the version file. Opening what was just made takes nothing."""
    store = Afar(pause=_PAUSE)
    ds = made_on(store)
    assert len(ds.tensors) == 0
    methods, rounds = asked(store)
    assert methods == {"PUT": 6, "PUT-IF": 1}
    assert rounds <= 3


@pytest.mark.parametrize("tensors", [1, 10, 30])
def test_a_publish_takes_five_files_for_each_tensor_that_changed(tensors: int) -> None:
    """Look and lock, write everything at once, replace the version file: four rounds for any number of tensors."""
    store = Afar(pause=_PAUSE)
    ds = filled(store, tensors)
    append(ds)
    ds.flush()
    methods, rounds = asked(store)
    assert methods == {"GET": 2, "PUT-IF": 2, "PUT": 5 * tensors + 4}
    most = 4 + (5 * tensors + 3) // config.REQUESTS
    assert rounds <= most + 1
    store.pause = 0
    ds.t0[0] = 7
    ds.flush()
    methods, _ = asked(store)
    # A head must be complete: of what did not change, metadata, index, chunk_set and diff are written again.
    assert methods == {"GET": 2, "PUT-IF": 2, "PUT": 5 + 4 * (tensors - 1) + 4}
    ds.commit("one")
    store.forget()
    append(ds)
    ds.flush()
    store.forget()
    ds.t0[0] = 8
    ds.commit("two")
    assert store.methods()["GET"] <= 3


def test_in_a_with_block_the_lease_is_taken_once() -> None:
    """Publishes in between take no request for it, and leaving takes one."""
    store = Afar(pause=_PAUSE)
    ds = filled(store, 2)
    with ds:
        append(ds)
        ds.flush()
        asked(store)
        for _ in range(3):
            append(ds)
            ds.flush()
            methods, rounds = asked(store)
            assert methods == {"PUT": 5 * 2 + 4, "PUT-IF": 1}
            assert rounds <= 3
    assert asked(store) == ({"PUT-IF": 1}, 1)


def test_a_commit_of_what_is_published_copies_metadata_only() -> None:
    """Two files for each tensor, and those of the dataset."""
    store = Afar(pause=_PAUSE)
    ds = filled(store, 10)
    ds.commit("one")
    methods, rounds = asked(store)
    assert methods == {"GET": 2, "PUT-IF": 2, "PUT": 2 * 10 + 4}
    assert rounds <= 5


def test_moving_between_branches() -> None:
    """A new branch: tags and version file, what it holds, version file. An old one: as opening."""
    store = Afar(pause=_PAUSE)
    ds = filled(store, 3)
    store.pause = 0
    ds.commit("one")
    store.forget()
    store.pause = _PAUSE
    ds.checkout("other", create=True)
    methods, rounds = asked(store)
    assert methods == {"GET": 2, "PUT": 2 * 3 + 4, "PUT-IF": 1}
    assert rounds <= 4
    ds.checkout("main")
    assert asked(store) == ({"GET": 3}, 2)


def test_a_new_writer_reads_the_ends_of_all_tensors_at_once() -> None:
    """Small last chunks are packed anew with what comes; whoever wrote them knows them still."""
    store = Afar(pause=_PAUSE)
    filled(store, 10)
    ds = opened_on(store)
    store.forget()
    append(ds)
    ds.flush()
    methods, rounds = asked(store)
    assert methods == {"GET": 12, "PUT-IF": 2, "PUT": 54}
    assert rounds <= 6
    assert ds.t9.numpy().ravel().tolist() == [0, 1, 0]


def test_unchanged_large_files_are_copied_by_the_store() -> None:
    """Their bytes do not travel again; several go at once."""
    store = Afar(pause=_PAUSE)
    ds = filled(store, 2)
    with ds:
        ds.t0.info["text"] = "x" * 100_000
        ds.t1.info["text"] = "y" * 100_000
    store.forget()
    append(ds)
    ds.flush()
    methods, rounds = asked(store)
    assert methods["COPY"] == 2
    assert rounds <= 5


def test_a_manifest_that_the_cache_has_costs_nothing_if_the_digest_is_right() -> None:
    """The version file says which it must be; another one is dropped and read from the store."""
    store = Afar()
    ds = filled(store, 1)
    commit = ds.commit("one")
    cached = Cached(store)
    assert isinstance(cached, CachingStorage)
    key = f".lakebed/manifest-{commit}"
    cached.kept[key] = store.objects.get(key)
    store.forget()
    assert len(opened_on(cached, commit)) == 2
    assert asked(store)[0] == {"GET": 1}
    cached.kept[key] = b"nonsense that was kept for a manifest"
    assert len(opened_on(cached, commit)) == 2
    assert asked(store)[0] == {"GET": 2}
    assert key not in cached.kept


class Cached(Afar):
    """A store before which lies a cache of what was read once."""

    def __init__(self, origin: Afar) -> None:
        super().__init__(origin.objects)
        self.origin = origin
        self.kept: dict[str, bytes] = {}
        self.get_tail = origin.get_tail  # type: ignore[method-assign]

    @property
    def url(self) -> str:
        return self.origin.url

    @property
    def trusted(self) -> Cached:
        return self

    def get(self, key: str) -> bytes:
        return self.kept[key] if key in self.kept else self.origin.get(key)

    def forget(self, key: str = "") -> None:
        self.kept.pop(key, None)
