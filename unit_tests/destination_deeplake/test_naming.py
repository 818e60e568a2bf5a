"""Names: injective, safe on every file system, stable."""

import string
import unicodedata
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from destination_deeplake.naming import MAX_BYTES, META_COLUMNS, dataset_folder, tensor_names

names = st.text(
    alphabet=st.one_of(st.sampled_from("ab.% /~_-AéE\u0301\u00c5\u212b\ud800:\\\0"), st.characters()),
    max_size=12,
)
namespaces = st.none() | names


@pytest.mark.parametrize(
    ("namespace", "stream", "folder"),
    [
        (None, "users", "users"),
        ("", "users", "users"),
        ("public", "users", "public/users"),
        ("public", "Order Items (v1.2)", "public/Order Items (v1.2)"),
        (None, "größe_日本", "größe_日本"),
        (None, "हिन्दी", "हिन्दी"),
        (None, "", "%empty"),
        (None, ".", "%2E"),
        (None, "..", "%2E%2E"),
        (None, "a/b", "a%2Fb"),
        (None, "..\\x", "%2E.%5Cx"),
        (None, "100%", "100%25"),
        (None, " a ", "%20a%20"),
        (None, "a.", "a%2E"),
        (None, "versions", "%76ersions"),
        (None, "Versions", "%56ersions"),
        (None, "queries.json", "%71ueries.json"),
        (None, "con.txt", "%63on.txt"),
        (None, ".lakebed", "%2Elakebed"),
        (None, "user@home", "user%40home"),
        (None, "e\u0301", "e%CC%81"),
        (None, "\ud800", "%ED%A0%80"),
    ],
)
def test_streams_have_the_folders_that_the_documentation_promises(
    namespace: str | None, stream: str, folder: str
) -> None:
    assert dataset_folder(namespace, stream) == folder


@given(namespaces, names, namespaces, names)
def test_two_streams_never_share_a_folder(a_space: str | None, a: str, b_space: str | None, b: str) -> None:
    same = (a_space or None, a) == (b_space or None, b)
    assert (dataset_folder(a_space, a) == dataset_folder(b_space, b)) is same


@given(
    st.text(alphabet="aé/%", min_size=150, max_size=300), st.text(alphabet="aé/%", min_size=150, max_size=300)
)
def test_long_names_stay_different_when_cut(a: str, b: str) -> None:
    assert (dataset_folder(None, a) == dataset_folder(None, b)) is (a == b)


@given(names)
def test_a_folder_tells_its_stream(name: str) -> None:
    folder = dataset_folder(None, name)
    assert folder == "%empty" or unquote_to_bytes(folder).decode("utf-8", "surrogatepass") == name


@given(namespaces, st.text(max_size=400))
def test_every_component_is_a_safe_file_name(namespace: str | None, stream: str) -> None:
    for component in dataset_folder(namespace, stream).split("/"):
        assert 0 < len(component.encode()) <= MAX_BYTES
        assert component[0] not in ". "
        assert component[-1] not in ". "
        assert not set(component) & set('<>:"/\\|?*,@#' + "".join(map(chr, range(32))) + "\x7f")
        assert unicodedata.is_normalized("NFC", component)


def test_columns_keep_their_names_where_they_can() -> None:
    columns = ["id", "First Name", "preis_€", "größe", "a.b", "_id", "Append", "user@host", "50_pct"]
    found = tensor_names(columns, {})
    assert found.pop("preis_€") == "preis_%E2%82%AC"
    assert all(column == tensor for column, tensor in found.items())


@pytest.mark.parametrize(
    ("column", "tensor"),
    [
        ("path", "path_"),
        ("index", "index_"),
        ("info", "info_"),
        ("_tensors", "_tensors_"),
        ("_users_id", "_users_id_"),
        ("_x_null", "_x_null_"),
        ("_x_downsampled_2", "_x_downsampled_2_"),
        ("airbyte_raw", "airbyte_raw_"),
        ("__class__", "%5F_class__"),
        ("__anything__", "%5F_anything__"),
        ("a/b", "a%2Fb"),
        ("a,b:c", "a%2Cb%3Ac"),
        ("", "%empty"),
        ("chunks", "%63hunks"),
    ],
)
def test_columns_that_would_hurt_the_format_are_renamed(column: str, tensor: str) -> None:
    assert tensor_names([column], {}) == {column: tensor}


def test_columns_that_differ_in_case_only_do_not_meet() -> None:
    found = tensor_names(["ID", "id", "Id"], {})
    assert found["id"] == "id"
    assert len({tensor.casefold() for tensor in found.values()}) == 3


def test_meta_columns_are_never_given_away() -> None:
    found = tensor_names(META_COLUMNS, {})
    assert found == {name: name + "_" for name in META_COLUMNS}
    assert tensor_names(["_Airbyte_Meta"], {}) == {"_Airbyte_Meta": "_Airbyte_Meta_"}
    found = tensor_names([*META_COLUMNS, "_AIRBYTE_META", "_airbyte_meta_"], {})
    assert len({tensor.casefold() for tensor in found.values()} - set(META_COLUMNS)) == 6
    grouped = tensor_names({"_airbyte_meta.a": ("_airbyte_meta", "a")}, {})
    assert grouped == {"_airbyte_meta.a": "_airbyte_meta_/a"}


def test_a_column_keeps_the_tensor_that_it_had() -> None:
    first = tensor_names(["ID", "path"], {})
    later = tensor_names(["id", "path_", "ID", "path"], first)
    assert {column: later[column] for column in first} == first
    assert later["id"].startswith("id_")
    assert later["path_"].startswith("path__")


@given(st.lists(names, unique=True, max_size=8), st.randoms())
def test_the_order_of_columns_does_not_matter_and_tensors_never_meet(columns: list[str], random) -> None:  # type: ignore[no-untyped-def]
    found = tensor_names(columns, {})
    shuffled = random.sample(columns, len(columns))
    assert tensor_names(shuffled, {}) == found
    tensors = {tensor.casefold() for tensor in found.values()}
    assert len(tensors) == len(columns)
    assert not any(set(tensor) & set("/,:") for tensor in tensors)
    assert all(len(tensor.encode()) <= MAX_BYTES for tensor in found.values())


@given(st.lists(st.text(alphabet=string.ascii_letters, min_size=190, max_size=230), unique=True, max_size=4))
def test_long_columns_are_cut_and_stay_apart(columns: list[str]) -> None:
    found = tensor_names(columns, {})
    assert len({tensor.casefold() for tensor in found.values()}) == len(columns)
    assert all(len(tensor.encode()) <= MAX_BYTES for tensor in found.values())


def test_columns_in_groups_keep_their_place_where_nobody_else_is() -> None:
    wishes = {"a.city": ("a", "city"), "a.path": ("a", "path"), "b.x/y": ("b", "x/y"), "c": ("c",)}
    assert tensor_names(wishes, {}) == {"c": "c", "a.city": "a/city", "a.path": "a/path_", "b.x/y": "b/x%2Fy"}


def test_a_group_is_never_called_like_a_tensor_and_its_tensors_stay_together() -> None:
    names = tensor_names({"a": ("a",), "a.x": ("A", "x"), "a.y": ("A", "y"), "a.z.u": ("A", "z", "u")}, {})
    assert names["a"] == "a"
    assert {names[column].split("/")[0] for column in ("a.x", "a.y", "a.z.u")} == {names["a.x"].split("/")[0]}
    assert names["a.x"].startswith("A_")
    later = tensor_names({"b": ("b",), "c.d": ("c", "d")}, {"b.x": "b/x"}, ["C"])
    assert later["b"].startswith("b_")
    assert later["c.d"].startswith("c_")


paths = st.lists(names, min_size=1, max_size=3).map(tuple)


@given(st.lists(paths, max_size=8), st.lists(paths, max_size=4))
def test_tensors_and_groups_never_meet(first: list[tuple[str, ...]], more: list[tuple[str, ...]]) -> None:
    found = tensor_names({str(number): path for number, path in enumerate(first)}, {})
    found = tensor_names({f"later {number}": path for number, path in enumerate(more)}, found)
    tensors = [tensor.casefold() for tensor in found.values()]
    groups = {
        "/".join(tensor.split("/")[:depth]) for tensor in tensors for depth in range(1, tensor.count("/") + 1)
    }
    assert len(set(tensors)) == len(first) + len(more)
    assert groups.isdisjoint(tensors)
