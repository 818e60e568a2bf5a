"""``import deeplake`` and its submodules lead to lakebed, and nowhere else without being told."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lakebed

THEIRS: dict[str, Any] = json.loads(
    (Path(__file__).parent.parent.parent / "data" / "names-3.9.52.json").read_text()
)
SOURCE = str(Path(lakebed.__file__).parent.parent)


@pytest.fixture
def deeplake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What scripts get by that name."""
    monkeypatch.setenv("LAKEBED_COMPAT", "replace")
    from lakebed import compat

    compat.install()
    yield importlib.import_module("deeplake")
    compat.uninstall()
    assert "deeplake" not in sys.modules


def run(*words: str, path: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """A fresh process."""
    known = {name: value for name, value in os.environ.items() if name != "LAKEBED_COMPAT"}
    python_path = os.pathsep.join(filter(None, [path, SOURCE]))
    return subprocess.run(
        [sys.executable, *words],
        env={**known, "PYTHONPATH": python_path, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """A folder of packages with another deeplake in it."""
    package = tmp_path / "packages" / "deeplake"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("__version__ = '4.2.0'\n")
    return str(package.parent)


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A script of 3.x, with a module of its own beside it."""
    (tmp_path / "beside.py").write_text("import deeplake\nNAME = deeplake.htype.TEXT\n")
    file = tmp_path / "train.py"
    file.write_text(
        textwrap.dedent(
            """
            import sys
            import deeplake
            import deeplake.util.exceptions
            from deeplake import compute
            from deeplake.core.dataset import Dataset
            from deeplake.constants import MB
            from beside import NAME

            ds = deeplake.empty("mem://script")
            ds.create_tensor("t", htype=NAME)
            ds.t.extend(["a", "b"])
            assert isinstance(ds, Dataset) and isinstance(ds.t, deeplake.Tensor)
            try:
                ds["nope"]
            except deeplake.util.exceptions.TensorDoesNotExistError:
                print(__name__, sys.argv[1:], MB, len(ds), deeplake.__version__)
            """
        )
    )
    return str(file)


def test_a_script_runs_unchanged(script: str) -> None:
    done = run("-m", "lakebed.compat", script, "--epochs", "3")

    assert (done.stdout, done.stderr) == ("__main__ ['--epochs', '3'] 1000000 2 3.9.52\n", "")


def test_a_module_runs_unchanged(script: str) -> None:
    done = run("-m", "lakebed.compat", "-m", "train", "x", path=str(Path(script).parent))

    assert (done.stdout, done.stderr) == ("__main__ ['x'] 1000000 2 3.9.52\n", "")


def test_what_a_script_ends_with_is_what_the_process_ends_with(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import sys; sys.exit(7)")

    assert run("-m", "lakebed.compat", str(tmp_path / "ends.py")).returncode == 7
    assert "usage" in run("-m", "lakebed.compat").stderr


def test_a_deeplake_that_is_installed_stays_what_it_is(installed: str, script: str) -> None:
    code = """
    try:
        import lakebed.compat
    except ImportError as error:
        print(error)
    import deeplake
    print(deeplake.__version__)
    """
    done = run("-c", textwrap.dedent(code), path=installed)
    told, version = done.stdout.splitlines()

    assert installed in told
    assert "LAKEBED_COMPAT=replace" in told
    assert version == "4.2.0"
    done = run("-m", "lakebed.compat", script, path=installed)
    assert done.returncode == 1
    assert done.stderr.strip() == told


def test_it_is_replaced_where_that_is_asked_for(installed: str, script: str) -> None:
    asked = run("-m", "lakebed.compat", "--replace", script, path=installed)
    chosen = run("-m", "lakebed.compat", script, path=installed, LAKEBED_COMPAT="replace")

    assert asked.stdout == chosen.stdout == "__main__ [] 1000000 2 3.9.52\n"


def test_what_is_imported_already_cannot_be_replaced(installed: str) -> None:
    code = "import deeplake\ntry:\n    import lakebed.compat\nexcept ImportError as error:\n    print(error)"
    done = run("-c", code, path=installed, LAKEBED_COMPAT="replace")

    assert "deeplake 4.2.0 is imported already" in done.stdout


def test_without_it_nothing_is_called_deeplake() -> None:
    code = "import lakebed\ntry:\n    import deeplake\nexcept ModuleNotFoundError as error:\n    print(error)"

    assert "No module named 'deeplake'" in run("-c", code).stdout


def test_every_name_of_the_table_leads_somewhere(deeplake: Any) -> None:
    from lakebed.compat.modules import MODULES

    for module, names in MODULES.items():
        found = importlib.import_module(module)
        for name in names:
            assert getattr(found, name) is not None or name == "DEFAULT_TILING_THRESHOLD", (module, name)


def test_every_module_of_3x_is_here_or_says_what_to_use(deeplake: Any) -> None:
    silent = []
    for module in THEIRS["modules"]:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if "Coming from Deep Lake 3" not in str(error):
                silent.append(module)

    assert silent == []


def test_every_name_of_the_module_is_here_or_says_what_to_use(deeplake: Any) -> None:
    for name in THEIRS["lakebed"]:
        if not hasattr(deeplake, name):
            with pytest.raises(AttributeError, match="Coming from Deep Lake 3"):
                getattr(deeplake, name)
            with pytest.raises(ModuleNotFoundError, match="Coming from Deep Lake 3"):
                exec(f"from deeplake import {name}")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("import deeplake.core.vectorstore.deep_memory", "internal to VectorStore"),
        ("from deeplake.core.vectorstore import vector_search", "internal to VectorStore"),
        ("from deeplake.util.remove_cache import get_base_storage", "ds.storage"),
        ("import deeplake.integrations.mmdet", "torch_dataset"),
        ("from deeplake.util.exceptions import NoSuchError", "no such exception"),
        ("import deeplake.whatever", r"dir\(deeplake\)"),
        ("from deeplake.util import whatever", "internal"),
    ],
)
def test_an_import_that_fails_says_what_to_use(deeplake: Any, line: str, told: str) -> None:
    with pytest.raises(ImportError, match=told):
        exec(line)


def test_exceptions_are_those_that_are_raised(deeplake: Any) -> None:
    """All that 3.9.52 has, each below the class that it is below of there, or below one that is raised here."""
    errors = importlib.import_module("deeplake.util.exceptions")
    kinds = {name: getattr(errors, name) for name in THEIRS["exceptions"]}

    assert all(issubclass(kind, Exception) for kind in kinds.values())
    for name, above in THEIRS["exceptions"].items():
        wanted = kinds.get(above) or getattr(__builtins__, above, None) or {"TypeError": TypeError}.get(above)
        if wanted is not None:
            assert issubclass(kinds[name], wanted), (name, above)
    assert kinds["TensorDoesNotExistError"] is lakebed.errors.TensorDoesNotExistError
    assert issubclass(lakebed.errors.StorageUnavailableError, kinds["S3Error"])


def test_constants_are_those_of_3x(deeplake: Any) -> None:
    from deeplake.constants import FIRST_COMMIT_ID, GB  # type: ignore[import-not-found]

    assert (GB, FIRST_COMMIT_ID) == (1_000_000_000, "firstdbf9474d461a19e9333c2fd19b46115348f")
    with pytest.warns(UserWarning, match="lakebed does not read it"):
        deeplake.constants.SPINNER_ENABLED = False
    with pytest.raises(KeyError, match="botocore"):
        deeplake.config["s3"] = object()


def test_a_module_does_not_hide_the_class_of_its_name(deeplake: Any) -> None:
    importlib.import_module("deeplake.htype")

    assert deeplake.htype.IMAGE == "image"
    assert sys.modules["deeplake.htype"].BBOX_3D == "bbox.3d"
    assert deeplake.random.get_seed() == lakebed.random.get_seed()


def test_star_imports_bring_the_public_names(deeplake: Any) -> None:
    found: dict[str, Any] = {}
    exec("from deeplake import *", found)

    assert found["load"] is lakebed.load
    assert found["compute"] is lakebed.compute
    assert not hasattr(deeplake, "session")


def test_what_goes_by_that_name_is_pickled_as_lakebeds(deeplake: Any) -> None:
    assert b"deeplake" not in pickle.dumps(deeplake.Dataset)
    assert (
        pickle.loads(pickle.dumps(deeplake.util.exceptions.LockedException)) is lakebed.errors.LockedException
    )


def test_modules_go_to_another_process(deeplake: Any) -> None:
    import deeplake.htype  # type: ignore[import-not-found]

    sent = pickle.dumps((deeplake, sys.modules["deeplake.htype"]))

    assert pickle.loads(sent) == (deeplake, sys.modules["deeplake.htype"])
    there = run(
        "-c", f"import pickle; root, htype = pickle.loads({sent!r}); print(root.__name__, htype.TEXT)"
    )
    assert (there.stdout, there.stderr) == ("deeplake text\n", "")


def test_functions_that_name_deeplake_run_in_workers(tmp_path: Path) -> None:
    file = tmp_path / "words.py"
    file.write_text(
        textwrap.dedent(
            """
            import deeplake

            KINDS = {"word": deeplake.htype.TEXT, "length": deeplake.htype.DEFAULT}

            @deeplake.compute
            def measured(word, out):
                for name, htype in KINDS.items():
                    out[name].append(word if htype == deeplake.htype.TEXT else len(word))

            if __name__ == "__main__":
                ds = deeplake.empty("words")
                for name, htype in KINDS.items():
                    ds.create_tensor(name, htype=htype)
                measured().eval(["wren", "kite", "gannet"], ds, num_workers=2, scheduler="processed", progressbar=False)
                print(ds.word.data()["value"], ds.length.numpy().ravel().tolist())
            """
        )
    )

    done = subprocess.run(
        [sys.executable, "-m", "lakebed.compat", str(file)],
        env={**os.environ, "PYTHONPATH": SOURCE},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.stdout == "['wren', 'kite', 'gannet'] [4, 4, 6]\n", done.stderr


def test_small_functions_do_what_their_names_say(deeplake: Any) -> None:
    from deeplake.core.fast_forwarding import version_compare  # type: ignore[import-not-found]
    from deeplake.util.path import is_remote_path  # type: ignore[import-not-found]

    assert [
        version_compare(*pair) for pair in (("3.9.52", "3.10.0"), ("3.9.52", "3.9.52"), ("3.9.52", "3.6.2"))
    ] == [*(-1, 0, 1)]
    assert [is_remote_path(path) for path in ("s3://b/k", "/a", "mem://x")] == [True, False, False]
