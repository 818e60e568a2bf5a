"""What the benchmark of the viewer makes of what it measured."""

from __future__ import annotations

import json

from benchmarks.viewer import Row, main_tasks, spread, table, touched, verdict


def test_a_busy_machine_excuses_seconds_and_nothing_else() -> None:
    assert verdict(True, 9.0) == "reached"
    assert verdict(False, 1.0) == "**MISSED**"
    assert verdict(False, 9.0) == "not judged, the load is 9"
    assert verdict(False, 0) == "**MISSED**"


def test_a_median_is_told_with_its_spread() -> None:
    assert spread([3.0, 1.0, 2.25]) == "2.25 s (1.00 to 3.00)"
    assert spread([3.0, 1.0], "MB", 0) == "2 MB (1 to 3)"
    assert table([Row("a", "b", "c", "reached")])[-1] == "| a | b | c | reached |"


def test_parts_lie_in_the_tiles_that_they_touch() -> None:
    assert touched([(0, 0, 100, 100)], 100) == {(0, 0)}
    assert touched([(99, 100, 2, 100), (0, 100, 50, 1)], 100) == {(1, 0), (1, 1)}


def test_tasks_are_those_of_the_main_thread_of_a_page() -> None:
    def named(thread: int, name: str) -> object:
        return {"name": "thread_name", "pid": 1, "tid": thread, "args": {"name": name}}

    def task(thread: int, **took: int) -> object:
        return {"name": "RunTask", "pid": 1, "tid": thread, "args": {}, **took}

    events = [
        named(1, "CrRendererMain"),
        named(2, "Compositor"),
        task(1, dur=2000, tdur=500),
        task(2, dur=900_000, tdur=1),
        {"name": "Paint", "pid": 1, "tid": 1, "args": {}},
        task(1),
    ]
    assert main_tasks(json.dumps({"traceEvents": events}).encode()) == [(2.0, 0.5), (0.0, 0.0)]
