"""Modules of Deep Lake 3.9.52 that scripts import, and the objects to which their names lead.

A name leads to ``module:name``, to a module as a whole, or, as ``=NAME``, to a constant (`pieces.py`).
"""

from __future__ import annotations

from lakebed.compat import constants, exceptions

_PIECES = "lakebed.compat.pieces"
_VECTORS = "lakebed.compat.vectorstore"
_STORE = {"VectorStore": f"{_VECTORS}:VectorStore", "DeepLakeVectorStore": f"{_VECTORS}:VectorStore"}


def _all(module: str, *names: str) -> dict[str, str]:
    return {name: f"{module}:{name}" for name in names}


_DATASET = {"Dataset": "lakebed:Dataset"}
_TRANSFORM = {
    **_all("lakebed", "compute", "compose"),
    **_all("lakebed.transforms.function", "ComputeFunction", "Pipeline"),
}
_LOADER = {
    "DeepLakeDataLoader": "lakebed.loaders.frameworks.fluent:DataLoader",
    "dataloader": f"{_PIECES}:dataloader",
}
_META = {
    "Meta": "lakebed.dataset.public_meta:PublicMeta",
    "DatasetMeta": "lakebed.dataset.public_meta:PublicMeta",
    "TensorMeta": "lakebed.dataset.public_meta:PublicMeta",
}
_CLASSES_OF_POLYGONS = _all("lakebed.htypes.polygon", "Polygon", "Polygons")
_COMPRESSIONS = {name: f"={name}" for name in constants.COMPRESSIONS}
_EXCEPTIONS = {name: f"lakebed.compat.exceptions:{name}" for name in exceptions.NAMES}

MODULES: dict[str, dict[str, str]] = {
    "deeplake": {
        "VectorStore": f"{_VECTORS}:VectorStore",
        "__version__": "=VERSION",
        "config": f"{_PIECES}:config",
        "DeeplakeRandom": f"{_PIECES}:DeeplakeRandom",
        "SUPPORTED_COMPRESSIONS": "lakebed:compressions",
        "deeplake_reporter": f"{_PIECES}:reporter",
    },
    "deeplake.api": {},
    "deeplake.api.dataset": {"dataset": f"{_PIECES}:dataset", "Dataset": "lakebed:Dataset"},
    "deeplake.api.info": {"Info": "lakebed.dataset.info:Info"},
    "deeplake.api.link": _all("lakebed", "link"),
    "deeplake.api.link_tiled": _all("lakebed", "link_tiled"),
    "deeplake.api.read": _all("lakebed", "read"),
    "deeplake.api.tiled": _all("lakebed", "tiled"),
    "deeplake.client": {},
    "deeplake.client.log": {"logger": f"{_PIECES}:logger"},
    "deeplake.compression": _COMPRESSIONS,
    "deeplake.constants": {
        "DEFAULT_VECTORSTORE_TENSORS": f"{_VECTORS}:DEFAULT_VECTORSTORE_TENSORS",
        **{name: f"={name}" for name in constants.CONSTANTS},
    },
    "deeplake.core": {
        **_DATASET,
        "Tensor": "lakebed:Tensor",
        "Sample": "lakebed.codecs.sample:Sample",
        "LinkedSample": "lakebed.links.link:LinkedSample",
    },
    "deeplake.core.dataset": _DATASET,
    "deeplake.core.dataset.dataset": _DATASET,
    "deeplake.core.fast_forwarding": {"version_compare": f"{_PIECES}:version_compare"},
    "deeplake.core.index": {"Index": "lakebed.reading.subscripts:Index"},
    "deeplake.core.index.index": {"Index": "lakebed.reading.subscripts:Index"},
    "deeplake.core.linked_sample": {"LinkedSample": "lakebed.links.link:LinkedSample"},
    "deeplake.core.linked_tiled_sample": {"LinkedTiledSample": "lakebed.links.link:LinkedTiledSample"},
    "deeplake.core.meta": _META,
    "deeplake.core.meta.dataset_meta": {"DatasetMeta": _META["DatasetMeta"]},
    "deeplake.core.meta.tensor_meta": {"TensorMeta": _META["TensorMeta"]},
    "deeplake.core.partial_sample": {"PartialSample": "lakebed.htypes.partial:PartialSample"},
    "deeplake.core.polygon": _CLASSES_OF_POLYGONS,
    "deeplake.core.sample": {"Sample": "lakebed.codecs.sample:Sample"},
    "deeplake.core.seed": {"DeeplakeRandom": f"{_PIECES}:DeeplakeRandom"},
    "deeplake.core.tensor": {"Tensor": "lakebed:Tensor"},
    "deeplake.core.transform": _TRANSFORM,
    "deeplake.core.transform.transform": _TRANSFORM,
    "deeplake.core.vectorstore": _STORE,
    "deeplake.core.vectorstore.deeplake_vectorstore": _STORE,
    "deeplake.enterprise": {
        "query": f"{_PIECES}:query",
        "sample_by": f"{_PIECES}:sample_by",
        "dataloader": f"{_PIECES}:dataloader",
    },
    "deeplake.enterprise.dataloader": _LOADER,
    "deeplake.htype": {
        "htype": "lakebed.htypes.constants:htype",
        "UNSPECIFIED": "=UNSPECIFIED",
        **{name: f"lakebed.htypes.constants:htype.{name}" for name in constants.HTYPES},
    },
    "deeplake.integrations": {"huggingface": "deeplake.integrations.huggingface"},
    "deeplake.integrations.huggingface": {"ingest_huggingface": "lakebed:ingest_huggingface"},
    "deeplake.integrations.huggingface.huggingface": {"ingest_huggingface": "lakebed:ingest_huggingface"},
    "deeplake.integrations.pytorch": {"dataset_to_pytorch": f"{_PIECES}:dataset_to_pytorch"},
    "deeplake.integrations.pytorch.pytorch": {"dataset_to_pytorch": f"{_PIECES}:dataset_to_pytorch"},
    "deeplake.util": {},
    "deeplake.util.bugout_reporter": {
        "deeplake_reporter": f"{_PIECES}:reporter",
        "feature_report_path": f"{_PIECES}:not_reported",
    },
    "deeplake.util.check_installation": _all(
        _PIECES, "pytorch_installed", "tensorflow_installed", "tfds_installed"
    ),
    "deeplake.util.exceptions": _EXCEPTIONS,
    "deeplake.util.path": _all(_PIECES, "convert_pathlib_to_string_if_needed", "is_remote_path"),
    "deeplake.util.shape_interval": {"ShapeInterval": "lakebed.dataset.tensor_chapters.shape:ShapeInterval"},
}

_STORAGE = "deeplake.load and deeplake.empty take paths and addresses, ds.storage reads and writes the files"
_HINTS = {
    "deeplake": "`dir(deeplake)` lists all names",
    "deeplake.api": "its functions are in `deeplake` itself",
    "deeplake.auto": "deeplake.ingest_coco, ingest_yolo, ingest_classification, ingest_dataframe and ingest_kaggle",
    "deeplake.client": "it belongs to the service of Deep Lake's vendor, of which nothing is needed here",
    "deeplake.compression": "deeplake.compressions is the list of names",
    "deeplake.constants": "lakebed.config and lakebed.limits hold what may be set",
    "deeplake.core": "it is internal to Deep Lake 3.x; use Dataset, Tensor and their methods instead",
    "deeplake.core.dataset.view_entry": "ds.get_view gives the entries of saved views",
    "deeplake.core.lock": "a lease admits one writer per branch, and LockedException names the other writer",
    "deeplake.core.query": "use ds.filter and ds.query",
    "deeplake.core.storage": _STORAGE,
    "deeplake.core.vectorstore": "it is internal to VectorStore, which lakebed has",
    "deeplake.core.version_control": "ds.commits, ds.branches, ds.diff and ds.get_commit_details tell the versions",
    "deeplake.enterprise": "use ds.dataloader(), ds.query and ds.sample_by, which need no closed library",
    "deeplake.hooks": "there are no hooks: call your own function beside deeplake.load and ds.commit",
    "deeplake.htype": "deeplake.htypes lists the htypes, lakebed.file_kinds what each may be stored as",
    "deeplake.integrations": "ds.pytorch, ds.tensorflow and ds.dataloader train",
    "deeplake.integrations.labelbox": "export the project as COCO, and import that",
    "deeplake.integrations.mm": "wrap ds.torch_dataset() in a dataset of OpenMMLab of your own",
    "deeplake.integrations.mmdet": "wrap ds.torch_dataset() in a dataset of OpenMMLab of your own",
    "deeplake.integrations.mmlab": "wrap ds.torch_dataset() in a dataset of OpenMMLab of your own",
    "deeplake.integrations.mmseg": "wrap ds.torch_dataset() in a dataset of OpenMMLab of your own",
    "deeplake.integrations.pytorch": "use ds.pytorch and ds.torch_dataset",
    "deeplake.integrations.tf": "ds.tensorflow does it",
    "deeplake.integrations.wandb": "log ds.path and ds.commit_id in your own run",
    "deeplake.random": "deeplake.random has seed and get_seed",
    "deeplake.tests": "lakebed.testing has what tests of storages need",
    "deeplake.util": "it is internal to Deep Lake 3.x; use Dataset, Tensor and their methods instead",
    "deeplake.util.class_label": "labels are given by name, and `.data()['text']` gives the names back",
    "deeplake.util.diff": "ds.diff(as_dict=True) gives the changes as data",
    "deeplake.util.exceptions": "Deep Lake 3.9.52 has no such exception either; lakebed.errors has all",
    "deeplake.util.from_tfds": "`lakebed import tfrecord` reads what TensorFlow Datasets has written",
    "deeplake.util.hash": "hashlib does it",
    "deeplake.util.remove_cache": _STORAGE,
    "deeplake.util.split": "use ds.random_split and ds.save_split",
    "deeplake.util.storage": _STORAGE,
    "deeplake.util.version_control": "use ds.commit, ds.checkout, ds.merge and ds.diff",
    "deeplake.visualizer": "ds.visualize() opens the viewer",
}


def hint(name: str) -> str:
    """Return the alternative to a missing module or name, which is the hint for the nearest module."""
    while name not in _HINTS:
        name = name.rpartition(".")[0]
    return _HINTS[name]
