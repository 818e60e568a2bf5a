"""Each public name of Deep Lake 3.9.52 is here, or says in one sentence what to do instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import lakebed
from lakebed.runtime.absent import NAMES, PAGE, explained

THEIRS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "data" / "names-3.9.52.json").read_text())
KINDS = [kind for kind in THEIRS if kind not in ("modules", "exceptions", "ViewEntry")]


@pytest.fixture(scope="module")
def things() -> dict[str, object]:
    """An object of each kind."""
    ds = lakebed.empty("mem://absent", overwrite=True)
    ds.create_tensor("a")
    ds.a.append(1)
    stage = lakebed.compute(lambda sample, out: None)()
    return {
        "lakebed": lakebed,
        "Dataset": ds,
        "Tensor": ds.a,
        "Sample": lakebed.codecs.sample.Sample,  # type: ignore[attr-defined]
        "LinkedSample": lakebed.link("x"),
        "PartialSample": lakebed.tiled((4, 4)),
        "Info": ds.info,
        "ComputeFunction": stage,
        "Pipeline": lakebed.compose([stage]),
        "DataLoader": ds.dataloader(),
        "random": lakebed.random,
        "meta": ds.a.meta,
        "meta of a dataset": ds.meta,
    }


def is_there(thing: object, name: str) -> bool:
    """Whether there is such a name; a property that raises something else is one."""
    try:
        getattr(thing, name)
    except AttributeError:
        return False
    except Exception:  # noqa: BLE001 - whatever a property may raise here
        return True
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_every_name_is_here_or_is_explained(things: dict[str, object], kind: str) -> None:
    of_kind = [things[kind], *([things["meta of a dataset"]] if kind == "meta" else [])]
    silent = [
        name
        for name in THEIRS[kind]
        if not any(is_there(thing, name) for thing in of_kind) and explained(kind, name) is None
    ]

    assert silent == []


@pytest.mark.parametrize("kind", NAMES)
def test_a_name_that_is_explained_raises_its_sentence(things: dict[str, object], kind: str) -> None:
    """In place of the bare error; so `hasattr` is false."""
    for name in NAMES[kind]:
        if kind == "meta" and is_there(things[kind], name):
            continue  # of the meta of datasets
        with pytest.raises(AttributeError) as caught:
            getattr(things[kind], name)
        assert str(caught.value) == explained(kind, name)
        assert PAGE in str(caught.value)
        assert "\n" not in str(caught.value)


def test_nothing_is_explained_that_is_here(things: dict[str, object]) -> None:
    there = {kind: [name for name in names if is_there(things[kind], name)] for kind, names in NAMES.items()}

    assert not any(names for kind, names in there.items() if kind != "meta")


def test_nothing_is_explained_that_3x_does_not_have() -> None:
    unknown = {kind: names.keys() - set(THEIRS[kind]) for kind, names in NAMES.items()}

    assert unknown == {
        kind: {"list"} if kind == "lakebed" else set() for kind in NAMES
    }  # promised by its __all__


def test_tensors_of_such_names_are_found_all_the_same() -> None:
    ds = lakebed.empty("mem://named", overwrite=True)
    ds.create_tensor("ds_name")

    assert len(ds.ds_name) == 0


def test_other_names_are_still_plain_errors(things: dict[str, object]) -> None:
    for kind in ("lakebed", "Tensor", "Pipeline", "random"):
        with pytest.raises(AttributeError, match="has no attribute 'nope'"):
            _ = things[kind].nope  # type: ignore[attr-defined]


def test_an_error_inside_of_a_property_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, things: dict[str, Any]
) -> None:
    def broken(self: object) -> None:
        raise AttributeError("from within")

    monkeypatch.setattr(lakebed.Tensor, "ndim", property(broken))
    with pytest.raises(AttributeError, match="from within"):
        _ = things["Tensor"].ndim


def test_the_address_of_the_service_says_how_to_copy_the_dataset() -> None:
    for call in (lakebed.load, lakebed.exists, lakebed.empty, lakebed.dataset):
        with pytest.raises(lakebed.errors.UnsupportedUrlError, match=r"deeplake\.deepcopy\('hub://"):
            call("hub://org/name")


def test_the_page_for_users_of_3x_tells_of_every_name() -> None:
    page = (Path(__file__).parents[3] / "docs" / "coming-from-deep-lake-3.md").read_text(encoding="utf-8")
    imported = {"Queue", "multiprocessing", "np", "sys", "threading"}
    names = {name for kind in ("lakebed", "Dataset", "Tensor") for name in THEIRS[kind]} - imported

    assert sorted(name for name in names if f"`{name}`" not in page) == []
