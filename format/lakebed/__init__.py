"""lakebed: versioned tensor datasets in the Deep Lake 3.x format, crash-safe and without an account.

>>> import lakebed
>>> ds = lakebed.empty("mem://hello")
>>> _ = ds.create_tensor("words", htype="text")
>>> ds.extend({"words": ["hello", "world"]})
>>> commit = ds.commit("first words")
>>> ds.words[1].text()
'world'
"""

try:
    from lakebed.native import chunks as _native  # noqa: F401
except ImportError as error:
    raise ImportError(
        "the compiled core of lakebed is missing or was built for another Python; "
        "build it with: pip install -e ./format (in a checkout) or pip install --force-reinstall lakebed"
    ) from error

from typing import TYPE_CHECKING

from numpy import __version__ as _numpy_version

if _numpy_version.startswith("1."):
    from lakebed.runtime.installed import check_pyarrow as _check_pyarrow

    _check_pyarrow(_numpy_version)

from lakebed import config, errors, random
from lakebed.api.datasets import (
    connect,
    dataset,
    delete,
    empty,
    exists,
    gc,
    load,
    ls,
    rename,
    repair,
    verify,
)
from lakebed.codecs import registry as _registry
from lakebed.dataset.dataset import Dataset
from lakebed.dataset.tensor import Tensor
from lakebed.errors import *  # noqa: F403
from lakebed.htypes.registry import FILE_KINDS as _FILE_KINDS
from lakebed.htypes.registry import HTYPES as _HTYPES
from lakebed.storage.credentials import Given as Credentials

if TYPE_CHECKING:
    from lakebed.api.copies import (
        backup,
        backups,
        copy,
        deepcopy,
        like,
        materialize,
        pack,
        restore,
        unpack,
        verify_backups,
    )
    from lakebed.api.queries import explain, sql
    from lakebed.dataset.display.drawing import show
    from lakebed.exporters.core.exporting import export_to
    from lakebed.exporters.detection.export_yolo import export_yolo
    from lakebed.htypes.constants import htype
    from lakebed.htypes.partial import tiled
    from lakebed.importers.core.importing import import_from
    from lakebed.importers.ingest.ingest import ingest_coco
    from lakebed.importers.ingest.ingest_classification import ingest_classification, ingest_kaggle
    from lakebed.importers.ingest.ingest_tables import ingest_dataframe, ingest_huggingface
    from lakebed.importers.ingest.ingest_yolo import ingest_yolo
    from lakebed.importers.tables.from_files import load_dataset, read_csv, read_json, read_parquet
    from lakebed.importers.tables.from_tables import (
        from_arrow,
        from_dict,
        from_generator,
        from_list,
        from_pandas,
        from_polars,
        from_rows,
    )
    from lakebed.links.link import link, link_tiled
    from lakebed.links.policy import allow_links
    from lakebed.links.read import read
    from lakebed.loaders.loader import Loader
    from lakebed.query import QueryPackage
    from lakebed.transforms.function import compose, compute, transform
    from lakebed.transforms.output import Skipped
    from lakebed.verbs.together import concat

    query: QueryPackage

__version__ = "0.1.0"

tensor = Tensor
open = load  # noqa: A001 - not in __all__, because a star import would replace Python's own
compressions = _registry.COMPRESSIONS
htypes: list[str] = sorted(_HTYPES)
file_kinds = _FILE_KINDS
"""Htype of files -> the kinds of files that its samples can be stored as."""

__all__ = [
    "Credentials",
    "Dataset",
    "Loader",
    "Skipped",
    "Tensor",
    "allow_links",
    "backup",
    "backups",
    "compose",
    "compressions",
    "compute",
    "concat",
    "config",
    "connect",
    "copy",
    "dataset",
    "deepcopy",
    "delete",
    "empty",
    "errors",
    "exists",
    "explain",
    "export_to",
    "export_yolo",
    "file_kinds",
    "from_arrow",
    "from_dict",
    "from_generator",
    "from_list",
    "from_pandas",
    "from_polars",
    "from_rows",
    "gc",
    "htype",
    "htypes",
    "import_from",
    "ingest_classification",
    "ingest_coco",
    "ingest_dataframe",
    "ingest_huggingface",
    "ingest_kaggle",
    "ingest_yolo",
    "like",
    "link",
    "link_tiled",
    "load",
    "load_dataset",
    "ls",
    "materialize",
    "pack",
    "query",
    "random",
    "read",
    "read_csv",
    "read_json",
    "read_parquet",
    "rename",
    "repair",
    "restore",
    "show",
    "sql",
    "tensor",
    "tiled",
    "transform",
    "unpack",
    "verify",
    "verify_backups",
]


_LATER = {
    "Loader": "lakebed.loaders.loader",
    "Skipped": "lakebed.transforms.output",
    "allow_links": "lakebed.links.policy",
    "backup": "lakebed.api.copies",
    "backups": "lakebed.api.copies",
    "compose": "lakebed.transforms.function",
    "compute": "lakebed.transforms.function",
    "concat": "lakebed.verbs.together",
    "concatenate_datasets": "lakebed.verbs.together",
    "copy": "lakebed.api.copies",
    "deepcopy": "lakebed.api.copies",
    "explain": "lakebed.api.queries",
    "export_to": "lakebed.exporters.core.exporting",
    "export_yolo": "lakebed.exporters.detection.export_yolo",
    "from_arrow": "lakebed.importers.tables.from_tables",
    "from_dict": "lakebed.importers.tables.from_tables",
    "from_generator": "lakebed.importers.tables.from_tables",
    "from_list": "lakebed.importers.tables.from_tables",
    "from_pandas": "lakebed.importers.tables.from_tables",
    "from_polars": "lakebed.importers.tables.from_tables",
    "from_rows": "lakebed.importers.tables.from_tables",
    "htype": "lakebed.htypes.constants",
    "import_from": "lakebed.importers.core.importing",
    "ingest_classification": "lakebed.importers.ingest.ingest_classification",
    "ingest_coco": "lakebed.importers.ingest.ingest",
    "ingest_dataframe": "lakebed.importers.ingest.ingest_tables",
    "ingest_huggingface": "lakebed.importers.ingest.ingest_tables",
    "ingest_kaggle": "lakebed.importers.ingest.ingest_classification",
    "ingest_yolo": "lakebed.importers.ingest.ingest_yolo",
    "like": "lakebed.api.copies",
    "link": "lakebed.links.link",
    "link_tiled": "lakebed.links.link",
    "load_dataset": "lakebed.importers.tables.from_files",
    "materialize": "lakebed.api.copies",
    "pack": "lakebed.api.copies",
    "read": "lakebed.links.read",
    "read_csv": "lakebed.importers.tables.from_files",
    "read_json": "lakebed.importers.tables.from_files",
    "read_parquet": "lakebed.importers.tables.from_files",
    "restore": "lakebed.api.copies",
    "show": "lakebed.dataset.display.drawing",
    "sql": "lakebed.api.queries",
    "tiled": "lakebed.htypes.partial",
    "transform": "lakebed.transforms.function",
    "unpack": "lakebed.api.copies",
    "verify_backups": "lakebed.api.copies",
}


def __getattr__(name: str) -> object:
    """Return a name, importing its module on first use: most programs do not train, transform or import data."""
    from importlib import import_module

    if name == "query":  # the package `query` can be called like the function of this name
        return import_module("lakebed.query")
    if name in _LATER:
        found = globals()[name] = getattr(import_module(_LATER[name]), name)
        return found
    if not name.startswith("_"):
        from lakebed.runtime.absent import explained

        if (told := explained("lakebed", name)) is not None:
            raise AttributeError(told)
    told = f"module 'lakebed' has no attribute {name!r}"
    raise AttributeError(told, name=name, obj=import_module(__name__))  # with a suggestion of Python


def __dir__() -> list[str]:
    """Return the names that most users need; further names, such as exceptions of 3.x, can be imported, too."""
    return sorted({*__all__, "__version__"})
