"""Dataset: making, opening, finding and removing one; tensors, groups, rows and selections."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.dataset.tensor import Tensor


@pytest.fixture
def ds(tmp_path: Path) -> lakebed.Dataset:
    """Three tensors, one of them in a group, with four rows."""
    ds = lakebed.empty(tmp_path / "ds")
    ds.create_tensor("n", dtype="int64")
    ds.create_tensor("t", htype="text")
    ds.create_tensor("g/x")
    ds.extend({"n": [0, 1, 2, 3], "t": list("abcd"), "g/x": np.arange(8.0).reshape(4, 2)})
    ds.flush()
    return ds


class TestAddresses:
    """Functions of the module."""

    def test_life_of_a_dataset(self, tmp_path: Path) -> None:
        """It does not exist, is made, found, opened and deleted, by path, string and URL."""
        path = tmp_path / "deep" / "ds"
        for address in (path, str(path), f"file://{path}"):
            assert not lakebed.exists(address)
            with pytest.raises(lakebed.DatasetHandlerError, match="does not exist"):
                lakebed.load(address)
            with pytest.raises(lakebed.DatasetHandlerError):
                lakebed.delete(address)
            lakebed.empty(address).create_tensor("x")
            assert lakebed.exists(address)
            assert list(lakebed.load(address).tensors) == ["x"]
            with pytest.raises(lakebed.DatasetHandlerError, match="already exists"):
                lakebed.empty(address)
            lakebed.delete(address)
        assert not lakebed.exists(path)

    def test_errors_are_also_those_of_python(self, tmp_path: Path) -> None:
        """A missing dataset is a FileNotFoundError, one in the way a FileExistsError."""
        with pytest.raises(FileNotFoundError):
            lakebed.load(tmp_path / "no")
        lakebed.empty(tmp_path / "ds")
        with pytest.raises(FileExistsError):
            lakebed.empty(tmp_path / "ds")

    @pytest.mark.parametrize("path", ["", 5, None])
    def test_what_is_no_address_names_no_dataset(self, path: Any) -> None:
        with pytest.raises(lakebed.DatasetHandlerError, match="not the path of a dataset"):
            lakebed.load(path)

    def test_dataset_opens_or_creates(self, tmp_path: Path) -> None:
        """One call for both."""
        lakebed.dataset(tmp_path / "ds").create_tensor("x")
        assert list(lakebed.dataset(tmp_path / "ds").tensors) == ["x"]
        assert lakebed.dataset(tmp_path / "ds", overwrite=True).tensors == {}

    def test_overwrite_removes_the_old_one(self, ds: lakebed.Dataset) -> None:
        """Nothing of the old dataset is left, chunks neither."""
        path = Path(ds.path)
        ds.close()
        new = lakebed.empty(path, overwrite=True)
        assert (new.tensors, new.branches, new.commits) == ({}, ["main"], [])
        assert not list(path.glob("versions/*/n"))

    def test_other_files_are_not_overwritten(self, tmp_path: Path) -> None:
        """A folder with somebody's files is no place for a dataset."""
        (tmp_path / "ds").mkdir()
        (tmp_path / "ds" / "thesis.txt").write_text("years of work")
        for overwrite in (False, True):
            with pytest.raises(lakebed.errors.PathNotEmptyException, match=r"thesis\.txt"):
                lakebed.empty(tmp_path / "ds", overwrite=overwrite)
        assert (tmp_path / "ds" / "thesis.txt").read_text() == "years of work"

    def test_nested_datasets_are_not_part_of_it(self, tmp_path: Path) -> None:
        """Deleting or overwriting a dataset leaves others below its folder alone."""
        outer, inner = tmp_path / "ds", tmp_path / "ds" / "stream"
        lakebed.empty(inner).create_tensor("kept")
        lakebed.empty(outer).create_tensor("gone")
        lakebed.empty(outer, overwrite=True)
        lakebed.delete(outer)
        assert not lakebed.exists(outer)
        assert list(lakebed.load(inner).tensors) == ["kept"]

    def test_delete_checks_what_it_removes(self, tmp_path: Path) -> None:
        """Only datasets are deleted, unless forced."""
        (tmp_path / "ds").mkdir()
        (tmp_path / "ds" / "file").write_text("x")
        with pytest.raises(lakebed.DatasetHandlerError, match="nothing to delete"):
            lakebed.delete(tmp_path / "ds")
        lakebed.delete(tmp_path / "ds", force=True)
        assert not (tmp_path / "ds" / "file").exists()

    def test_addresses_may_name_a_version(self, ds: lakebed.Dataset) -> None:
        """`path@branch` and `path@commit`, also shortened, open there."""
        first = ds.commit("one")
        ds.append({"n": 4, "t": "e", "g/x": [1.0, 2.0]})
        ds.checkout("side", create=True)
        assert len(lakebed.load(f"{ds.path}@{first}")) == 4
        assert len(lakebed.load(f"{ds.path}@{first[:9]}")) == 4
        assert lakebed.load(f"{ds.path}@side").branch == "side"
        assert len(lakebed.load(f"{ds.path}@main")) == 5
        with pytest.raises(lakebed.CheckoutError, match="nope"):
            lakebed.load(f"{ds.path}@nope")

    def test_unknown_schemes_and_arguments(self, tmp_path: Path) -> None:
        """Addresses that no storage handles are ValueErrors; arguments of 3.x are accepted, invented ones not."""
        with pytest.raises(ValueError, match="gopher"):
            lakebed.load("gopher://x")
        lakebed.empty(tmp_path / "ds", token="secret", verbose=False, org_id="x")
        with pytest.raises(TypeError, match="colour"):
            lakebed.load(tmp_path / "ds", colour="red")

    def test_memory_datasets_live_as_long_as_somebody_holds_them(self) -> None:
        """The same name is the same dataset while one object is left, then it is gone."""
        ds = lakebed.empty("mem://held")
        ds.create_tensor("x")
        again = lakebed.load("mem://held")
        del ds
        assert list(lakebed.load("mem://held").tensors) == ["x"]
        del again
        assert not lakebed.exists("mem://held")

    def test_a_damaged_version_file_is_named(self, ds: lakebed.Dataset) -> None:
        """A version tree that cannot be parsed is DatasetCorruptError, not a traceback."""
        ds.close()
        (Path(ds.path) / "version_control_info.json").write_text("{")
        with pytest.raises(lakebed.DatasetCorruptError, match="version_control_info"):
            lakebed.load(ds.path)


class TestTensors:
    """Tensors and groups by name."""

    def test_tensors_come_in_the_order_of_creation(self, ds: lakebed.Dataset) -> None:
        """The dictionary holds visible tensors by full name."""
        assert list(ds.tensors) == ["n", "t", "g/x"]
        assert all(isinstance(t, Tensor) for t in ds.tensors.values())
        assert list(lakebed.load(ds.path).tensors) == ["n", "t", "g/x"]

    def test_access_by_item_and_attribute(self, ds: lakebed.Dataset) -> None:
        """`ds["n"]`, `ds.n`, `ds["g/x"]`, `ds["g"]["x"]`, `ds.g.x` and `ds["/g//x/"]` all lead there."""
        for tensor in (ds["g/x"], ds["g"]["x"], ds.g.x, ds["/g//x/"]):
            assert tensor.key == "g/x"
        assert ds.n.key == ds["n"].key == "n"
        assert ("n" in ds, "g/x" in ds, "g" in ds, "no" in ds) == (True, True, False, False)
        assert {"n", "t"} <= set(dir(ds))

    def test_names_that_are_not_there(self, ds: lakebed.Dataset) -> None:
        """An item is TensorDoesNotExistError, an attribute AttributeError."""
        with pytest.raises(lakebed.TensorDoesNotExistError, match="nope"):
            ds["nope"]
        with pytest.raises(KeyError):
            ds["nope"]
        with pytest.raises(AttributeError, match="nope"):
            ds.nope  # noqa: B018
        assert not hasattr(ds, "nope")

    @pytest.mark.parametrize("item", [1.5, None, b"n", {}, {1}], ids=repr)
    def test_items_of_other_kinds(self, ds: lakebed.Dataset, item: Any) -> None:
        """Keys that select nothing are TypeErrors of ours."""
        with pytest.raises(lakebed.InvalidKeyTypeError):
            ds[item]

    def test_taken_names(self, ds: lakebed.Dataset) -> None:
        """Tensors and groups share one tree of names, hidden companions included."""
        for name in ("n", "g/x", "n/below"):
            with pytest.raises(lakebed.TensorAlreadyExistsError):
                ds.create_tensor(name)
        with pytest.raises(lakebed.TensorGroupAlreadyExistsError):
            ds.create_tensor("g")
        with pytest.raises(lakebed.TensorGroupAlreadyExistsError):
            ds.create_group("g")
        for name in ("n", "n/below"):
            with pytest.raises(lakebed.TensorAlreadyExistsError):
                ds.create_group(name)
        ds.create_tensor("_z_id", dtype="int64")
        with pytest.raises(lakebed.TensorAlreadyExistsError, match="_z_id"):
            ds.create_tensor("z")
        assert "z" not in ds
        assert ds["_z_id"].meta.hidden is False
        with pytest.raises(lakebed.InvalidTensorNameError):
            ds.create_tensor("")
        with pytest.raises(lakebed.InvalidTensorGroupNameError):
            ds.create_group("/")

    def test_exist_ok(self, ds: lakebed.Dataset) -> None:
        """The existing tensor or group is returned if it is what was asked for."""
        assert ds.create_tensor("n", exist_ok=True).key == "n"
        assert len(ds.create_tensor("n", dtype="int64", exist_ok=True)) == 4
        assert list(ds.create_group("g", exist_ok=True).tensors) == ["x"]
        others: list[dict[str, Any]] = [
            {"htype": "text"},
            {"dtype": "int8"},
            {"sample_compression": "lz4"},
            {"htype": "sequence[generic]"},
        ]
        for other in others:
            with pytest.raises(ValueError, match="already exists with"):
                ds.create_tensor("n", exist_ok=True, **other)

    def test_groups(self, ds: lakebed.Dataset) -> None:
        """A group is a dataset of the tensors below its name."""
        ds.create_group("empty/inner")
        group = ds.create_group("g/deep")
        group.create_tensor("y", dtype="int8")
        assert list(ds.groups) == ["empty", "g"]
        assert list(ds["g"].groups) == ["deep"]
        assert list(ds["g"].tensors) == ["x", "deep/y"]
        assert ds["g/deep"].parent.tensors.keys() == {"x", "deep/y"}
        assert list(ds["g/deep"].root.tensors) == ["n", "t", "g/x", "g/deep/y"]
        assert ds.parent is None
        assert ds["empty"].tensors == {}
        ds["g/deep"].extend({"y": [1, 2]})
        assert ds["g/deep/y"].numpy().tolist() == [[1], [2]]
        with pytest.raises(lakebed.GroupInfoNotSupportedError):
            ds["g"].info  # noqa: B018
        ds.flush()
        assert list(lakebed.load(ds.path)["g"].tensors) == ["x", "deep/y"]

    def test_columns(self, ds: lakebed.Dataset) -> None:
        """Lists and tuples of names select columns; a group stands for its tensors."""
        assert list(ds[["t", "n"]].tensors) == ["t", "n"]
        assert list(ds["g/x", "t"].tensors) == ["g/x", "t"]
        assert list(ds[["g", "n"]].tensors) == ["g/x", "n"]
        assert list(ds[1:3][["n"]].tensors) == ["n"]
        assert ds[["n"]][2].n.numpy().tolist() == [2]
        with pytest.raises(lakebed.TensorDoesNotExistError):
            ds[["n", "no"]]


class TestRows:
    """Lengths, iteration and views."""

    def test_lengths(self, ds: lakebed.Dataset) -> None:
        """`len` is that of the shortest tensor, with a warning when they differ."""
        assert (len(ds), ds.max_len, ds.min_len, ds.num_samples) == (4, 4, 4, 4)
        ds.n.extend([4, 5])
        with pytest.warns(UserWarning, match="differ in length"):
            assert len(ds) == 4
        assert (ds.max_len, ds.min_len, ds.num_samples) == (6, 4, 4)
        assert len(lakebed.empty("mem://no-tensors")) == 0

    def test_an_empty_dataset_is_true(self) -> None:
        """`if ds:` asks for a dataset, not for rows."""
        assert lakebed.empty("mem://truth")

    def test_views(self, ds: lakebed.Dataset) -> None:
        """Selections of rows hold all tensors; they can be selected from again."""
        view = ds[1:][::2]
        assert (len(view), view.is_view, ds.is_view, view.num_samples) == (2, True, False, 4)
        assert view.n.numpy().ravel().tolist() == [1, 3]
        assert view["g"].x.numpy().tolist() == [[2.0, 3.0], [6.0, 7.0]]
        assert ds[[3, 0]].t.text() == ["d", "a"]
        assert ds[2].t.text() == "c"
        assert ds[-1]["g/x"].numpy().tolist() == [6.0, 7.0]
        assert list(view.n.sample_indices) == [1, 3]

    def test_iteration(self, ds: lakebed.Dataset) -> None:
        """A dataset yields its rows, to the end of the shortest tensor."""
        assert [row.t.text() for row in ds] == list("abcd")
        ds.n.append(9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert [int(row.n.numpy()[0]) for row in ds] == [0, 1, 2, 3]

    @pytest.mark.parametrize("row", [4, -5, 100])
    def test_rows_that_are_not_there(self, ds: lakebed.Dataset, row: int) -> None:
        """An index beyond the longest tensor is an IndexError at once."""
        with pytest.raises(IndexError, match=f"{row}"):
            ds[row]
        with pytest.raises(IndexError):
            ds.n[row]

    def test_structure_of_a_view_cannot_change(self, ds: lakebed.Dataset) -> None:
        """Writing through a selection of rows is an InvalidOperationError."""
        view = ds[0:2]
        for act in (
            lambda: view.create_tensor("z"),
            lambda: view.create_group("z"),
            lambda: view.append({"n": 1}),
            lambda: view.extend({"n": [1]}),
            lambda: view.commit(),
            lambda: view.checkout("main"),
            lambda: view.n.append(1),
            lambda: view.n.extend([1]),
        ):
            with pytest.raises(lakebed.errors.InvalidOperationError):
                act()
        assert len(ds) == 4


class TestDiscard:
    """Giving up what is not published."""

    @pytest.mark.parametrize("held", [False, True])
    def test_all_is_as_it_was_published(self, ds: lakebed.Dataset, held: bool) -> None:
        with contextlib.ExitStack() as stack:
            if held:
                stack.enter_context(ds)
            ds.append({"n": 4, "t": "e", "g/x": np.zeros(2)})
            ds.t[0] = "changed"
            ds.n.pop(1)
            ds.create_tensor("more")
            ds.info["a"] = 1
            ds.discard()
            assert (len(ds), ds.n.numpy().ravel().tolist()) == (4, [0, 1, 2, 3])
            assert ds.t[0].data()["value"] == "a"
            assert list(ds.tensors) == ["n", "t", "g/x"]
            assert dict(ds.info) == {}
            ds.append({"n": 5, "t": "f", "g/x": np.ones(2)})
        assert ds.t.data()["value"] == [*"abcd", "f"]
        assert lakebed.load(ds.path, read_only=True).n.numpy().ravel().tolist() == [0, 1, 2, 3, 5]

    def test_nothing_is_there_to_discard(self, ds: lakebed.Dataset) -> None:
        ds.discard()
        assert len(ds) == 4


class TestReadOnly:
    """Datasets that must not change."""

    def test_every_change_is_refused(self, ds: lakebed.Dataset) -> None:
        """A dataset opened read-only says so at the first change, and takes no lock."""
        ds.close()
        reader = lakebed.load(ds.path, read_only=True)
        assert reader.read_only
        with reader:
            for act in (
                lambda: reader.create_tensor("z"),
                lambda: reader.create_group("z"),
                lambda: reader.append({"n": 1, "t": "x", "g/x": [0.0, 0.0]}),
                lambda: reader.n.append(1),
                lambda: reader.commit(),
                lambda: reader.info.update(a=1),
                lambda: reader.n.info.update(a=1),
                lambda: reader.checkout("new", create=True),
            ):
                with pytest.raises(lakebed.ReadOnlyModeError):
                    act()
        assert len(reader) == 4

    def test_setting_and_leaving(self, ds: lakebed.Dataset) -> None:
        """`read_only = True` publishes first; `False` allows changes again."""
        ds.n.append(7)
        ds.read_only = True
        assert len(lakebed.load(ds.path, read_only=True).n) == 5
        with pytest.raises(PermissionError):
            ds.n.append(8)
        ds.read_only = False
        ds.n.append(8)

    def test_no_files_change_while_reading(self, ds: lakebed.Dataset) -> None:
        """Neither opening nor reading writes anything, for writable datasets too."""
        ds.close()
        path = Path(ds.path)
        before = {file: file.stat().st_mtime_ns for file in path.rglob("*")}
        for reader in (lakebed.load(path), lakebed.load(path, read_only=True)):
            reader.n.numpy()
            reader.summary()
            reader.flush()
            reader.close()
        assert {file: file.stat().st_mtime_ns for file in path.rglob("*")} == before


class TestInfo:
    """Dictionaries of datasets and tensors."""

    def test_is_a_dictionary_that_is_stored(self, ds: lakebed.Dataset) -> None:
        """Items, attributes, update, deletion and replacement reach the next reader."""
        ds.info["a"] = 1
        ds.info.update(b=[1, 2], c={"x": None})
        ds.info.d = "attribute"
        del ds.info["a"]
        ds.n.info["unit"] = "m"
        ds.flush()
        seen = lakebed.load(ds.path)
        assert seen.info == {"b": [1, 2], "c": {"x": None}, "d": "attribute"}
        assert (seen.info.d, seen.n.info.unit, len(seen.info), "b" in seen.info) == (
            "attribute",
            "m",
            3,
            True,
        )
        ds.info = {"only": 1}
        ds.n.info = {}
        ds.flush()
        seen = lakebed.load(ds.path)
        assert dict(seen.info) == {"only": 1}
        assert dict(seen.n.info) == {}
        with pytest.raises(AttributeError):
            seen.info.nope  # noqa: B018
        with pytest.raises(KeyError):
            seen.info["nope"]
        assert repr(seen.info) == "{'only': 1}"

    def test_takes_what_json_takes_and_arrays(self, ds: lakebed.Dataset) -> None:
        """Arrays and bytes are stored, other objects refused without a change."""
        ds.info["array"] = np.arange(3)
        ds.info["bytes"] = b"\0"
        with pytest.raises(lakebed.errors.InfoError):
            ds.info["bad"] = object()
        with pytest.raises(lakebed.errors.InfoError):
            ds.info[(5,)] = 1  # type: ignore[index]
        for wrong in (5, "text", [1]):
            with pytest.raises(TypeError):
                ds.info = wrong  # type: ignore[assignment]
        ds.flush()
        seen = lakebed.load(ds.path).info
        assert seen["array"].tolist() == [0, 1, 2]
        assert (seen["bytes"], sorted(seen)) == (b"\0", ["array", "bytes"])

    def test_values_may_be_changed_in_place(self, ds: lakebed.Dataset) -> None:
        """Whoever reads the info sees it; it is stored by the next flush."""
        value = {"list": [1]}
        ds.info["v"] = value
        value["list"].append(2)  # the caller's own object, not what the info holds
        assert ds.info["v"] == {"list": [1]}
        ds.info["v"]["list"].append(3)
        assert dict(ds.info) == {"v": {"list": [1, 3]}}
        ds.flush()
        assert lakebed.load(ds.path).info["v"] == {"list": [1, 3]}
        ds.info["w"] = 1
        ds.flush()
        assert lakebed.load(ds.path).info == {"v": {"list": [1, 3]}, "w": 1}

    def test_pop(self, ds: lakebed.Dataset) -> None:
        """A missing key gives the default, None unless stated."""
        ds.info.update(a=1, b=2)
        assert (ds.info.pop("a"), ds.info.pop("a"), ds.info.pop("a", 5), dict(ds.info)) == (
            1,
            None,
            5,
            {"b": 2},
        )

    def test_is_versioned(self, ds: lakebed.Dataset) -> None:
        """A commit keeps the info of its time."""
        ds.info["v"] = 1
        first = ds.commit()
        ds.info["v"] = 2
        ds.commit()
        assert lakebed.load(f"{ds.path}@{first}").info["v"] == 1
        assert lakebed.load(ds.path).info["v"] == 2


def test_names_of_attributes_are_names_of_tensors() -> None:
    """The item is the tensor, the attribute stays what it is; that is said once, when the tensor is made."""
    ds = lakebed.empty("mem://names-of-attributes")
    with pytest.warns(UserWarning, match=r"ds\['info'\]: \.info stays"):
        ds.create_tensor("info", dtype="int64")
    with pytest.warns(UserWarning, match=r"ds\['g/path'\]: \.path stays"):
        ds.create_tensor("g/path", dtype="int64")
    ds.append({"info": 1, "g/path": 2})
    ds.info["about"] = "text"
    ds["info"][0] = 3
    assert ds.info["about"] == "text"
    assert ds["info"].numpy().tolist() == [[3]]
    assert ds["g"]["path"].numpy().tolist() == [[2]]
    assert ds["g"].path == ds.path == "mem://names-of-attributes"
    assert ds.query("SELECT info WHERE info = 3")["info"].numpy().tolist() == [[3]]
    ds.commit("with such names")
    copy = ds.copy("mem://names-of-attributes-2", progressbar=False)
    assert copy["info"].numpy().tolist() == [[3]]
