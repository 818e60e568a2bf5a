"""The map from chunk names to the folders that hold them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.documents.indexes.chunk_set import HERE, ChunkSet
from lakebed.errors import FormatError

HEX = st.text("0123456789abcdef", min_size=1, max_size=16)
PLACE = (
    st.just(HERE)
    | st.tuples(HEX, st.none())
    | st.tuples(HEX, st.sampled_from(["a", "g/_b_id", "name with spaces", "ö"]))
)


def test_golden_bytes() -> None:
    """The example of format.md 15.7, and the other two kinds of entries."""
    data = b"c7ac5a30f50d4ce0:a2d81b765ae7f5ad8f1beb9b920c6b99457f23f3"
    assert dict(ChunkSet.from_bytes(data)) == {
        "c7ac5a30f50d4ce0": ("a2d81b765ae7f5ad8f1beb9b920c6b99457f23f3", None)
    }
    more = b"1,2:c,3:c:g/_t_id"
    chunks = ChunkSet.from_bytes(more)
    assert dict(chunks) == {"1": (None, None), "2": ("c", None), "3": ("c", "g/_t_id")}
    assert chunks.to_bytes() == more
    assert list(chunks) == ["1", "2", "3"]
    assert chunks.get("4") is None
    assert ChunkSet.from_bytes(b"") == ChunkSet()
    assert ChunkSet().to_bytes() == b""


@given(st.dictionaries(HEX, PLACE, max_size=10))
def test_round_trip(places: dict[str, tuple[str | None, str | None]]) -> None:
    """Order and places survive."""
    again = ChunkSet.from_bytes(ChunkSet(places).to_bytes())
    assert list(again.items()) == list(places.items())


def test_last_entry_of_a_name_counts() -> None:
    """As when the entries are read one after the other."""
    assert dict(ChunkSet.from_bytes(b"a:b,a")) == {"a": HERE}


@pytest.mark.parametrize(
    "data",
    [
        b",",
        b"a,",
        b",a",
        b":c",
        b"a:",
        b"a::k",
        b"a:c:",
        b"a:c:k:x",
        b"a:..",
        b"a:.",
        b"a:../b",
        b"a:b/c",
        b"a:b\\c",
        b"../a",
        b"a/b",
        b".",
        b"..",
        b"a\\b",
        b"a\0",
        b"a:c:../k",
        b"a:c:/k",
        b"a:c:k/",
        b"a:c:k\0",
        b"a:c\n",
        b"\xff",
        b"a b",
        b"a\n",
    ],
)
def test_damaged_files(data: bytes) -> None:
    """Empty parts, and names that could lead out of the dataset's folder."""
    with pytest.raises(FormatError):
        ChunkSet.from_bytes(data)


@given(st.binary(max_size=40) | st.text("ab:,./\\\0", max_size=30).map(str.encode))
def test_random_bytes(data: bytes) -> None:
    """Nothing but FormatError comes out, and no path that leads elsewhere."""
    try:
        chunks = ChunkSet.from_bytes(data)
    except FormatError:
        return
    for name, (commit, key) in chunks.items():
        for part in (name, commit or "x", *(key or "x").split("/")):
            assert part not in ("", ".", "..")
            assert not set(part) & set("/\\\0")
    assert ChunkSet.from_bytes(chunks.to_bytes()) == chunks


def test_many_entries() -> None:
    """A hundred thousand entries, as a long history of publishes leaves them, are read whole."""
    names = [f"{i:x}" for i in range(1, 100_001)]
    data = ",".join(f"{name}:{'ab' * 20}" for name in names).encode()
    chunks = ChunkSet.from_bytes(data)
    assert len(chunks) == 100_000
    assert chunks["ff"] == ("ab" * 20, None)
    assert chunks.to_bytes() == data
