"""The drawing of a history: read back from its characters, it has the edges that it was made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.versions.graph import draw, newest_first

History = Sequence[tuple[str, tuple[str, ...]]]


def picture(history: History) -> list[str]:
    """The whole drawing, line by line."""
    return [line for drawn in draw(history) for line in drawn.lines]


def read(lines: Sequence[str], names: Sequence[str]) -> set[tuple[str, str]]:
    """Follow every line of a drawing from star to star; ``names`` are those of the stars from above."""
    width = max(map(len, lines), default=0) + 4
    grid = [line.ljust(width) for line in lines]
    stars = {row: line.index("*") for row, line in enumerate(grid) if "*" in line}
    name_of = dict(zip(stars, names, strict=True))

    def down(row: int, column: int) -> str | None:
        while row < len(grid) and grid[row][column] == "|":
            row += 1
        return name_of[row] if row < len(grid) and grid[row][column] == "*" else None

    edges = set()
    for row, column in stars.items():
        straight = down(row + 1, column)
        if straight is not None:
            edges.add((name_of[row], straight))
        below = row + 1
        while below < len(grid) and below not in stars:
            if set(grid[below]) <= set("| "):  # beside further lines of text
                below += 1
                continue
            step = 1 if grid[below][column + 1] == "\\" else -1
            slash = "\\" if step == 1 else "/"
            assert grid[below][column + step] == slash, (
                "a line of text between commits leads away from the upper one"
            )
            assert grid[below - 1][column] in "*|", "it begins at something"
            at = column + step
            while grid[below][at + 2 * step] == "_":
                at += 2 * step
            if below + 1 < len(grid) and below + 1 not in stars and grid[below + 1][at + 2 * step] == slash:
                below, at = below + 1, at + 2 * step
            else:
                assert at == column + step, "a bar leads on to a slash"
            below += 1
            end = down(below, at + step)
            assert end is not None, "a line ends at a commit"
            edges.add((name_of[row], end))
    return edges


def edges_of(history: History) -> set[tuple[str, str]]:
    """What the drawing has to show."""
    return {(commit, parent) for commit, parents in history for parent in parents}


@st.composite
def histories(draw_: st.DrawFn) -> list[tuple[str, tuple[str, ...]]]:
    """Commits newest first, each with up to four parents among the older ones: any such graph, connected or not."""
    count = draw_(st.integers(1, 16))
    made = []
    for i in range(count):
        older = st.integers(i + 1, count - 1) if i + 1 < count else st.nothing()
        parents = draw_(st.lists(older, max_size=4)) if i + 1 < count else []
        made.append((f"c{i}", tuple(f"c{p}" for p in parents)))
    return made


@given(histories())
def test_every_edge_is_drawn_and_nothing_else(history: History) -> None:
    """Whoever follows the lines with a finger finds each parent of each commit, and no other commit."""
    lines = picture(history)
    assert read(lines, [commit for commit, _ in history]) == edges_of(history)
    assert all(line == line.rstrip() and set(line) <= set("*|/\\_ ") for line in lines)


@given(histories(), st.data())
def test_every_commit_comes_before_its_parents(history: History, data: st.DataObject) -> None:
    """The order goes by time where the graph allows it, whatever the clocks of the writers said."""
    mapping = dict(data.draw(st.permutations(history)))
    times = {commit: data.draw(st.sampled_from([1.0, 2.0, 3.0])) for commit in mapping}
    found = list(newest_first(mapping, times))
    at = {commit: i for i, commit in enumerate(found)}
    assert sorted(found) == sorted(mapping)
    assert all(at[commit] < at[parent] for commit, parent in edges_of(history))


@given(histories())
def test_honest_clocks_decide_the_order(history: History) -> None:
    """When every commit is younger than its parents, the order is that of time."""
    times = {commit: -float(i) for i, (commit, _) in enumerate(history)}
    assert list(newest_first(dict(reversed(history)), times)) == [commit for commit, _ in history]


def test_a_circle_has_an_end() -> None:
    """Records that contradict themselves are shown, each commit once."""
    history = {"a": ("b",), "b": ("c",), "c": ("b", "a"), "d": ("d",), "e": ("a",)}
    times = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 0.0, "e": 0.0}
    found = list(newest_first(history, times))
    assert found == ["e", "c", "a", "b", "d"]
    assert len(picture([(commit, history[commit]) for commit in found])) >= 5


def test_commits_of_the_same_moment_stay_in_order() -> None:
    """The later entry counts as the younger one."""
    assert list(newest_first({"a": (), "b": (), "c": ("elsewhere",)}, dict.fromkeys("abc", 1.0))) == [
        "c",
        "b",
        "a",
    ]


PICTURES: Mapping[str, tuple[History, str]] = {
    "line": ([("a", ("b",)), ("b", ("c",)), ("c", ())], "*\n*\n*"),
    "merge": (
        [("a", ("b", "c")), ("b", ("d",)), ("c", ("d",)), ("d", ())],
        "*\n|\\\n* |\n| *\n|/\n*",
    ),
    "branches": (
        [("a", ("d",)), ("b", ("d",)), ("c", ("d",)), ("d", ())],
        "*\n| *\n|/\n| *\n|/\n*",
    ),
    "across others": (
        [("a", ("x",)), ("b", ("y",)), ("c", ("z",)), ("d", ("x",)), ("x", ()), ("y", ()), ("z", ())],
        "*\n| *\n| | *\n| | | *\n| |_|/\n|/| |\n* | |\n  * |\n    *",
    ),
    "across nothing": (
        [
            ("a", ("z",)),
            ("b", ("x",)),
            ("c", ("y",)),
            ("d", ("z",)),
            ("x", ()),
            ("y", ()),
            ("e", ("z",)),
            ("z", ()),
        ],
        "*\n| *\n| | *\n| | | *\n| |_|/\n|/| |\n| * |\n|   *\n| *\n|/\n*",
    ),
    "two roots": ([("a", ()), ("b", ()), ("c", ())], "*\n  *\n*"),
    "octopus": (
        [("a", ("b", "c", "d")), ("b", ()), ("c", ()), ("d", ())],
        "*\n|\\\n|\\|\n| |\\\n* | |\n  * |\n    *",
    ),
}


@pytest.mark.parametrize("name", list(PICTURES))
def test_pictures(name: str) -> None:
    """Small histories look as people draw them."""
    history, expected = PICTURES[name]
    assert "\n".join(picture(history)) == expected
    assert read(picture(history), [commit for commit, _ in history]) == edges_of(history)


def test_a_history_that_is_cut_off() -> None:
    """Lines to commits that are not shown go on; nothing is read ahead."""
    seen = []

    def history():  # type: ignore[no-untyped-def]
        for i in range(10**9):
            seen.append(i)
            yield str(i), (str(i + 1), str(i + 2))

    drawn = draw(history())
    first = [next(drawn) for _ in range(3)]
    assert seen == [0, 1, 2]
    assert first[0].lines == ("*", "|\\")
    assert first[0].below == "| |"
