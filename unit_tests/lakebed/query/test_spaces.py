"""What PyTorch and JAX compute is what NumPy computes: statements at random over vectors of every type and shape."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import lakebed
from lakebed.query.result import Result
from unit_tests import effort

ROWS, WIDTH = 90, 6
DTYPES = [
    "float32",
    "float64",
    "float16",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "bool",
]
PAIRS = ["DOT", "COSINE_SIMILARITY", "L1_DISTANCE", "L2_DISTANCE", "LINF_DISTANCE", "HAMMING_DISTANCE"]
NORMS = ["L1_NORM", "L2_NORM", "LINF_NORM"]


@pytest.fixture(params=["torch", "jax"])
def namespace(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    pytest.importorskip(name, reason=f"{name} is not installed")
    return name


@pytest.fixture(scope="module")
def ds() -> lakebed.Dataset:
    chance = np.random.default_rng(3)
    made = lakebed.empty("mem://query-spaces", overwrite=True)
    columns: dict[str, Any] = {"rid": np.arange(ROWS, dtype=np.int64)}
    for dtype in DTYPES:
        given = chance.integers(0, 2 if dtype == "bool" else 9, (ROWS, WIDTH))
        columns[f"v_{dtype}"] = given.astype(dtype)
    columns["v_float32"] = chance.normal(size=(ROWS, WIDTH)).astype(np.float32)
    columns["v_float32"][3] = 0
    columns["v_float32"][4, 2] = np.nan
    columns["v_float32"][5, 1] = np.inf
    # What 32 bits do not tell apart.
    columns["v_int64"] = columns["v_int64"] * 2**33 + 1
    columns["v_float64"] = columns["v_float64"] / 64 + 1e8
    columns["gone"] = [None if n % 7 == 0 else columns["v_int16"][n].astype(np.float32) for n in range(ROWS)]
    columns["ragged"] = [columns["v_int16"][n, : n % WIDTH].astype(np.float32) for n in range(ROWS)]
    columns["many"] = [chance.normal(size=(n % 4, WIDTH)).astype(np.float32) for n in range(ROWS)]
    for name in columns:
        dtype = name[2:] if name[:2] == "v_" else "int64" if name == "rid" else "float32"
        made.create_tensor(name, dtype=dtype)
    made.extend(columns)
    return made


def same(there: lakebed.Dataset | Result, here: lakebed.Dataset | Result) -> None:
    """Compare two answers, floats with the tolerance of 32 bits."""
    assert len(there) == len(here)
    assert isinstance(there, Result) == isinstance(here, Result)
    if not isinstance(there, Result) or not isinstance(here, Result):
        assert list(there.sample_indices) == list(here.sample_indices)
        return
    assert there.names == here.names
    for name in here.names:
        for one, other in zip(there.column(name).values(), here.column(name).values(), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


def statement(chance: np.random.Generator) -> tuple[str, list[Any]]:
    """Return a statement that computes with vectors, and its parameters."""
    columns = [f"v_{dtype}" for dtype in DTYPES] + ["gone", "v_float32", "v_float64"]
    one = str(chance.choice(columns))
    wanted: Any = chance.normal(size=WIDTH).astype(str(chance.choice(["float32", "float64"])))
    if one == "v_float64":
        wanted = wanted / 64 + 1e8
    if one == "v_int64" or chance.random() < 0.2:
        wanted = chance.integers(0, 9, WIDTH) * (2**33 if one == "v_int64" else 1) + 1
    kind = int(chance.integers(8))
    if kind == 0:
        other = str(chance.choice(columns))
        computed, parameters = f"{chance.choice(PAIRS)}({one}, {other})", []
    elif kind == 1:
        computed, parameters = f"{chance.choice(NORMS)}({one} - ?)", [wanted]
    elif kind == 2:
        computed, parameters = "MAXSIM(many, ?)", [chance.normal(size=(3, WIDTH)).astype(np.float32)]
    elif kind == 3:
        computed, parameters = f"{chance.choice(PAIRS)}(?, {one})", [wanted]
    else:
        computed, parameters = f"{chance.choice(PAIRS)}({one}, ?)", [wanted]
    way = int(chance.integers(4))
    if way == 0:
        return f"SELECT {computed} AS x WHERE rid % 3 != {int(chance.integers(4))}", parameters
    if way == 1:
        return f"SELECT {computed} AS x ORDER BY {computed} DESC LIMIT 9", parameters * 2
    if way == 2:
        return (
            f"SELECT max(x) AS most, count(*) AS n FROM (SELECT rid % 4 AS g, {computed} AS x) GROUP BY g",
            parameters,
        )
    return (
        f"SELECT CASE WHEN rid > 20 THEN {computed} ELSE 0 END AS x WHERE NOT {computed} IS NULL",
        parameters * 2,
    )


def asked(ds: lakebed.Dataset, text: str, parameters: list[Any], **ways: Any) -> Any:
    """Return what a statement finds, all values computed; of one that fails, the kind of its error."""
    try:
        found = ds.query(text, parameters=parameters, **ways)
        same(found, found)
    except lakebed.errors.QueryError as error:
        return error.kind
    return found


def test_statements_have_the_answers_of_numpy(ds: lakebed.Dataset, namespace: str) -> None:
    chance = np.random.default_rng(effort.seed())
    failed = 0
    count = effort.examples(150, soak=3000)
    for _ in range(count):
        text, parameters = statement(chance)
        here = asked(ds, text, parameters)
        there = asked(ds, text, parameters, namespace=namespace, device="cpu")
        if isinstance(here, str) or isinstance(there, str):
            assert here == there, text
            failed += 1
            continue
        try:
            same(there, here)
        except AssertionError as error:
            raise AssertionError(f"{text}, {parameters}: {error}") from error
    assert failed < count // 3


def test_the_nearest_are_the_nearest_everywhere(ds: lakebed.Dataset, namespace: str) -> None:
    wanted = np.linspace(-1, 1, WIDTH)
    for score in (
        "COSINE_SIMILARITY(v_uint8, ?) DESC",
        "L2_NORM(v_int16 - ?)",
        "L1_DISTANCE(gone, ?)",
        "DOT(v_bool, ?)",
    ):
        text = f"SELECT * WHERE rid > 5 ORDER BY {score}, rid LIMIT 7"
        here = ds.query(text, parameters=[wanted])
        there = ds.query(text, parameters=[wanted], namespace=namespace)
        assert list(there.sample_indices) == list(here.sample_indices)


def test_a_library_keeps_its_settings(ds: lakebed.Dataset, namespace: str) -> None:
    library = importlib.import_module("jax.numpy" if namespace == "jax" else "torch")
    before = library.ones(1).dtype
    found = ds.query(
        "SELECT L2_DISTANCE(v_float64, ?) AS x", parameters=[np.full(WIDTH, 1e8)], namespace=namespace
    )
    expected = np.linalg.norm(ds.v_float64.numpy() - 1e8, axis=1)
    np.testing.assert_allclose(found.x.numpy().ravel(), expected, rtol=1e-5)
    assert library.ones(1).dtype == before
