"""Checkpoints, and runs that go on where an earlier one stopped."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakebed
from lakebed.errors import ResumeError, TransformError
from lakebed.transforms.resume import Note, plan_of
from lakebed.transforms.stages import Stage

Make = Callable[[], lakebed.Dataset]


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    made = lakebed.empty(tmp_path / "ds")
    made.create_tensor("a")
    return made


@lakebed.compute
def below(item: int, out: Any, limit: int) -> None:
    """Items below a limit; others fail."""
    if item >= limit:
        raise ValueError(f"{item} is too large")
    out.a.append(item)


def run(ds: lakebed.Dataset, items: Any, limit: int, every: int = 4, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the limit is another argument
        return below(limit=limit).eval(items, ds, checkpoint_interval=every, progressbar=False, **options)


def values(ds: lakebed.Dataset) -> list[int]:
    found = lakebed.load(ds.path, read_only=True)
    return [int(v) for v in found.a.numpy().ravel()] if len(found.a) else []


def messages(ds: lakebed.Dataset) -> list[str]:
    return [str(commit["message"]) for commit in lakebed.load(ds.path, read_only=True).commits]


def notes(ds: lakebed.Dataset) -> list[str]:
    return [key for key, _ in ds.storage.list(".lakebed/") if "transform" in key]


def stop(ds: lakebed.Dataset, items: Any, limit: int, **options: Any) -> TransformError:
    with pytest.raises(TransformError) as caught:
        run(ds, items, limit, **options)
    return caught.value


# -- checkpoints -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "every", "shares"),
    [
        (10, 4, [0.0, 40.0, 80.0]),
        (8, 4, [0.0, 50.0]),
        (3, 3, [0.0]),
        (3, 5, [0.0]),
        (7, 1, [0.0, 14.29, 28.57, 42.86, 57.14, 71.43, 85.71]),
    ],
)
def test_commits_say_how_much_is_done(
    ds: lakebed.Dataset, count: int, every: int, shares: list[float]
) -> None:
    """As in 3.x: before each interval, the first one included; the last rows are not committed."""
    run(ds, list(range(count)), 99, every)
    assert values(ds) == list(range(count))
    assert messages(ds)[::-1] == [
        f"Auto-commit during deeplake.compute of below after {share}% progress" for share in shares
    ]
    assert ds.has_head_changes
    assert notes(ds) == []


def test_the_log_tells_the_samples(ds: lakebed.Dataset, capsys: pytest.CaptureFixture[str]) -> None:
    run(ds, list(range(10)), 99)
    ds.log()
    assert "Total samples processed in transform: 8" in capsys.readouterr().out


def test_a_generator_has_no_share(ds: lakebed.Dataset) -> None:
    run(ds, iter(range(10)), 99)
    assert messages(ds)[0] == "Auto-commit during deeplake.compute of below after 8 samples"


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_leaves_the_last_checkpoint(
    ds: lakebed.Dataset, workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    error = stop(ds, list(range(20)), 10, num_workers=workers)
    assert (error.index, error.checkpoint) == (10, 8)
    assert "Last checkpoint: 8 samples processed." in str(error)
    assert "Resetting back to last committed checkpoint" in capsys.readouterr().out
    assert values(ds) == list(range(8))
    assert not ds.has_head_changes
    ds.reset()
    assert values(ds) == list(range(8))
    assert len(lakebed.load(ds.path, reset=True)) == 8


# -- going on ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [list, tuple, np.array, iter], ids=["list", "tuple", "array", "iterator"])
def test_the_same_call_goes_on(ds: lakebed.Dataset, kind: Any) -> None:
    stop(ds, kind(range(20)), 10)
    again = lakebed.load(ds.path)
    report = run(again, kind(range(20)), 99)
    assert values(ds) == list(range(20))
    assert (report.resumed_at, report.items) == (8, 12)
    assert notes(ds) == []


def test_it_goes_on_again_and_again(ds: lakebed.Dataset) -> None:
    for limit in (3, 6, 6, 13, 17):
        stop(ds, list(range(20)), limit)
    run(ds, list(range(20)), 99)
    assert values(ds) == list(range(20))


def test_a_finished_transform_begins_anew(ds: lakebed.Dataset) -> None:
    for _ in range(2):
        run(ds, list(range(6)), 99)
    assert values(ds) == [*range(6), *range(6)]


def test_items_are_not_asked_for_again(ds: lakebed.Dataset) -> None:
    asked = []

    class Items:
        def __len__(self) -> int:
            return 20

        def __getitem__(self, i: int) -> int:
            asked.append(i)
            return range(20)[i]

    stop(ds, Items(), 10)
    asked.clear()
    run(ds, Items(), 99)
    assert min(asked) == 8
    assert values(ds) == list(range(20))


def test_rows_of_a_dataset(ds: lakebed.Dataset, tmp_path: Path) -> None:
    source = lakebed.empty(tmp_path / "source")
    source.create_tensor("n", dtype="int64")
    source.extend({"n": list(range(20))})
    source.flush()
    bad = [10]

    @lakebed.compute
    def copied(row: Any, out: Any) -> None:
        value = int(row.n.numpy().item())
        if value in bad:
            raise ValueError(value)
        out.a.append(value)

    options: dict[str, Any] = {"checkpoint_interval": 4, "progressbar": False}
    with pytest.raises(TransformError):
        copied().eval(source, ds, **options)
    bad.clear()
    with pytest.raises(ResumeError, match="another input"):
        copied().eval(source[1:], ds, **options)
    assert copied().eval(source, ds, **options).resumed_at == 8
    assert values(ds) == list(range(20))


def test_another_input_is_an_error(ds: lakebed.Dataset) -> None:
    stop(ds, list(range(20)), 10)
    for other in ([*range(19), 99], list(range(21)), list(range(12)), np.arange(20)):
        with pytest.raises(ResumeError, match="stopped after 8 of 20 samples of another input"):
            run(ds, other, 100)
    assert values(ds) == list(range(8))


def test_the_rest_of_the_input_is_taken(ds: lakebed.Dataset) -> None:
    """What messages of 3.x advise: slice the input."""
    stop(ds, list(range(20)), 10)
    assert run(ds, list(range(20))[8:], 99).resumed_at == 0
    assert values(ds) == list(range(20))


def test_starting_over_removes_the_rows_of_the_unfinished_run(ds: lakebed.Dataset) -> None:
    ds.a.extend([100, 101])
    stop(ds, list(range(20)), 10)
    run(ds, list(range(30, 36)), 99, resume=False)
    assert values(ds) == [100, 101, *range(30, 36)]


def test_a_function_or_arguments_that_changed_are_told(ds: lakebed.Dataset) -> None:
    stop(ds, list(range(20)), 10)
    with pytest.warns(UserWarning, match="arguments of below changed since it stopped after 8 samples"):
        below(limit=99).eval(list(range(20)), ds, checkpoint_interval=4, progressbar=False)
    assert values(ds) == list(range(20))


def test_changes_after_the_checkpoint_are_never_dropped(ds: lakebed.Dataset) -> None:
    stop(ds, list(range(20)), 10)
    ds.a.append(1000)
    with pytest.raises(ResumeError, match="the dataset was changed since"):
        run(ds, list(range(20)), 99)
    assert values(ds) == [*range(8), 1000]
    ds.reset()
    run(ds, list(range(20)), 99)
    assert values(ds) == list(range(20))


def test_a_commit_in_between_ends_the_unfinished_run(ds: lakebed.Dataset) -> None:
    stop(ds, list(range(20)), 10)
    ds.a.append(1000)
    ds.commit("mine")
    run(ds, list(range(3)), 99)
    assert values(ds) == [*range(8), 1000, 0, 1, 2]


def test_a_run_that_ended_before_its_note_was_removed_is_complete(
    ds: lakebed.Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("lakebed.transforms.run.remove_note", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(ds, list(range(10)), 99)
    assert values(ds) == list(range(10))
    again = lakebed.load(ds.path)
    report = run(again, list(range(10)), 99)
    assert (report.resumed_at, report.items) == (10, 0)
    assert values(ds) == list(range(10))
    assert notes(ds) == []
    run(again, list(range(10)), 99)
    assert values(ds) == [*range(10), *range(10)]


def _interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_another_transform_does_not_go_on(ds: lakebed.Dataset) -> None:
    stop(ds, list(range(20)), 10)
    other = lakebed.compute(lambda item, out: out.a.append(item), name="other")
    assert other().eval([50], ds, checkpoint_interval=4, progressbar=False).resumed_at == 0
    assert values(ds) == [*range(8), 50]


def test_branches_have_unfinished_runs_of_their_own(ds: lakebed.Dataset) -> None:
    stop(ds, list(range(20)), 10)
    ds.checkout("side", create=True)
    run(ds, list(range(2)), 99)
    ds.checkout("main")
    run(ds, list(range(20)), 99)
    assert values(ds) == list(range(20))


# -- what tells one transform from another -------------------------------------------------------------------------


def plan(function: Any, items: Any, *args: Any, length: int | None = None) -> Any:
    found = len(items) if length is None and hasattr(items, "__len__") else length
    return plan_of("f", [Stage(function, "f", args)], items, found)


def test_a_function_is_known_by_what_it_does() -> None:
    def one(item: Any, out: Any) -> None:
        out.append({"a": item + 1})

    first = plan(one, [1])

    # The same text at another place.
    def one(item: Any, out: Any) -> None:  # type: ignore[no-redef]
        out.append({"a": item + 1})

    assert plan(one, [1]) == first

    def one(item: Any, out: Any) -> None:  # type: ignore[no-redef]
        out.append({"a": item + 2})

    assert plan(one, [1]).function != first.function


@given(
    st.lists(
        st.one_of(st.integers(), st.text(), st.binary(), st.none(), st.floats()), min_size=1, max_size=200
    ),
    st.data(),
)
def test_inputs_are_known_by_their_items(items: list[Any], data: st.DataObject) -> None:
    mine = plan(len, items)
    assert plan(len, list(items)) == mine
    assert Note.from_bytes(Note(mine, "c" * 40).to_bytes()).plan == mine
    index = data.draw(st.integers(0, len(items) - 1))
    changed = [*items[:index], ("other",), *items[index + 1 :]]
    assert plan(len, changed).data != mine.data
    done = data.draw(st.integers(0, len(items) - 1))
    assert plan(len, items[done:]).is_rest_of(mine, done)
    assert not plan(len, items[done:]).is_rest_of(mine, done + 1)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.arange(10), np.arange(10).astype(np.float64)),
        (np.zeros((2, 3)), np.zeros((3, 2))),
        ([{"a": 1}], [{"a": 2}]),
        ([["ab", "c"]], [["a", "bc"]]),
        ([1], [True]),
        ([1], ["1"]),
        ((1,), [1]),
    ],
)
def test_inputs_that_differ(one: Any, other: Any) -> None:
    assert plan(len, one).data != plan(len, other).data
