"""Names of the Deep Lake 3.x API that lakebed lacks, each with a sentence about the replacement.

Names of other libraries are in `lakebed.runtime.habits`. The tables are used only when a name is missing;
docs/coming-from-deep-lake-3.md lists the existing names.
"""

from __future__ import annotations

PAGE = "see the page Coming from Deep Lake 3"

_INSIDE = "it is internal to Deep Lake 3.x"
_INDEX = (
    "indexes are made by the dataset: `ds.create_index('{name}', 'hnsw')`; ds.update_indexes(), ds.indexes() and "
    "ds.drop_index() update, list and remove them, and "
    "`ds.query('... ORDER BY COSINE_SIMILARITY({name}, ?) DESC LIMIT 10')` uses them"
)
_OF_INDEXES = _INDEX.replace("{name}", "embedding")
_CLOUD = "it belongs to the service of Deep Lake's vendor, which is not needed here"
_SUBMODULE = "`import lakebed.compat` first makes `import deeplake` and its submodules lead here"
_IMPORTED = "it is not part of the API: import it from the module that defines it"

_MODULE = {
    "Config": "botocore is not used: lakebed.config.REQUESTS, STALL_SECONDS and RETRY_SECONDS set limits of requests",
    "DeeplakeRandom": "lakebed.random has seed and get_seed",
    "HTYPE_CONFIGURATIONS": "lakebed.htypes lists the htypes, lakebed.file_kinds what each may be stored as",
    "SUPPORTED_COMPRESSIONS": "lakebed.compressions lists the compressions",
    "VectorStore": "after `import lakebed.compat`, `deeplake.VectorStore` is lakebed.compat.vectorstore.VectorStore",
    "api_dataset": "lakebed.load, lakebed.empty and so on are functions of the module",
    "auto": "lakebed.ingest_coco, ingest_yolo, ingest_classification, ingest_dataframe and import_from read data sets",
    "client": _CLOUD,
    "compression": f"lakebed.compressions is the list of names; {_SUBMODULE}",
    "constants": f"lakebed.config and lakebed.limits hold what may be set; {_SUBMODULE}",
    "core": f"lakebed.Dataset and lakebed.Tensor are the classes; {_SUBMODULE}",
    "enterprise": f"ds.dataloader() gives the loader; {_SUBMODULE}",
    "hooks": "there are no hooks: call your own function beside lakebed.load and ds.commit",
    "huggingface": "lakebed.ingest_huggingface and `lakebed import huggingface` read them",
    "integrations": "ds.pytorch, ds.tensorflow and ds.dataloader train; for OpenMMLab wrap ds in a dataset of your own",
    "list": "lakebed.ls lists the datasets below a folder or a prefix; Deep Lake 3.9.52 has no list either",
    "util": f"lakebed.errors has the exceptions by their names of 3.x; {_SUBMODULE}",
    "wandb": "log `ds.path` and `ds.commit_id` in your own run: both open exactly these data again",
    "warn_if_update_required": "lakebed does not look for newer releases",
    **dict.fromkeys(("Queue", "multiprocessing", "np", "sys", "threading"), _IMPORTED),
    **dict.fromkeys(("deeplake_reporter", "event_queue", "send_event"), "lakebed reports nothing to anybody"),
}

_DATASET = {
    "base_storage": "ds.storage is where the files are",
    "dataset_creds_key": "lakebed.load(path, creds={'creds_key': name}) opens a dataset with credentials by name",
    "ds_name": "a dataset's name is its path: ds.path",
    "enabled_tensors": "ds[['a', 'b']] is a dataset of these tensors only",
    "libdeeplake_dataset": f"{_INSIDE}: ds itself does what the closed library did",
    "version_state": "ds.branch, ds.commit_id, ds.pending_commit_id and ds.commits describe the version",
    **dict.fromkeys(("dataset_creds_key_org_id", "dataset_creds_key_token"), _CLOUD),
    **dict.fromkeys(("index_params", "regenerate_vdb_indexes"), _OF_INDEXES),
    **dict.fromkeys(("is_first_load", "is_iteration"), _INSIDE),
}

_TENSOR = {
    "chunk_engine": f"{_INSIDE}: tensor.numpy(), tobytes(), shapes() and meta show what is stored",
    "dataset": "keep the dataset that the tensor was taken from",
    "link_creds": "ds.link_creds has the names of credentials, tensor.creds_key() the name for one link",
    "storage": "ds.storage is where the files are",
    "version_state": "ds.branch, ds.commit_id and ds.commits describe the version",
    **dict.fromkeys(
        """
        check_supported_tensor create_vdb_index delete_vdb_index deserialize_inverted_index deserialize_partitions
        fetch_vdb_indexes get_vdb_indexes is_inverted_index is_partitioned_vdb_index load_vdb_index
        unload_vdb_index_cache update_vdb_index
        """.split(),
        _OF_INDEXES,
    ),
    **dict.fromkeys(("invalidate_libdeeplake_dataset", "is_iteration"), _INSIDE),
}

_META = "only methods of the tensor and of the dataset change metadata; tensor.meta and ds.meta show it"
_BYTES = "write json.dumps(dict(info))"

NAMES: dict[str, dict[str, str]] = {
    "lakebed": _MODULE,
    "Dataset": _DATASET,
    "Tensor": _TENSOR,
    "Info": {"frombuffer": _BYTES, "nbytes": _BYTES, "tobytes": _BYTES},
    "ComputeFunction": {
        "args": "call your own function with its arguments; a stage binds them until eval",
        "func": "keep the function that you decorated",
        "kwargs": "call your own function with its arguments; a stage binds them until eval",
    },
    "Pipeline": {"run": "eval runs all stages"},
    "random": dict.fromkeys(
        ("indra_api", "instance", "internal_seed"), "lakebed.random has only seed and get_seed"
    ),
    "meta": dict.fromkeys(
        """
        add_group add_link add_tensor add_vdb_index contains_vdb_index delete_group delete_tensor frombuffer
        get_vdb_index_ids is_dirty nbytes pop remove_vdb_index rename_group rename_tensor set_dtype set_dtype_str
        set_hidden set_htype tobytes update_length update_shape_interval update_vdb_partition visible_tensors
        """.split(),
        _META,
    ),
}
"""Kind of object -> missing name -> the replacement, for the sentence of :func:`explained`."""


def explained(kind: str, name: str) -> str | None:
    """Return the sentence about a name that an object does not have; None for an unknown name."""
    told = NAMES.get(kind, {}).get(name)
    if told is not None:
        return f"{kind}.{name} of Deep Lake 3.x is not here: {told} ({PAGE})"
    from lakebed.runtime.habits import answered

    return answered(kind, name)
