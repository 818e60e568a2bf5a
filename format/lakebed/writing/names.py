"""Names of tensors and groups: the rules for them, and the names of hidden companions (format.md 1.4)."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from lakebed.documents.dataset_meta import DatasetMeta
from lakebed.errors import InvalidTensorGroupNameError, InvalidTensorNameError, LakebedError

# Attributes that 3.9.52 sets while it opens a dataset. If a tensor or group had such a name, 3.9.52 would try to
# update it.
_UNOPENABLE = frozenset({"index", "version_state"})

# Other attributes of the Dataset class of 3.x. 3.x refuses to create tensors with these names, but opens, reads and
# changes existing ones.
ATTRIBUTES = frozenset(
    """add_creds_key allow_delete append branch branches checkout clear_cache client commit commit_id commits connect
    copy create_group create_tensor create_tensor_like dataloader delete delete_branch delete_group delete_tensor
    delete_view diff extend filter fix_vc flush get_commit_details get_creds_keys get_managed_creds_keys get_view
    get_views group_index groups has_head_changes info is_first_load is_head_node is_iteration is_optimized
    is_view link_creds load_view log max_len max_view maybe_flush merge meta min_len min_view no_view_dataset
    num_samples org_id parent path pending_commit_id pop populate_creds public pytorch query random_split read_only
    rechunk regenerate_vdb_indexes rename rename_group rename_tensor reset root sample_by sample_indices save_view
    set_token size_approx storage summary tensorflow tensors token update update_creds_key username verbose
    visualize""".split()
)

# Names of files and folders of the format, with which the folder of a tensor or group would collide.
_FILES = frozenset(
    """versions .lakebed .queries chunks commit_info.json dataset_diff dataset_info.json dataset_lock.lock
    dataset_meta.json linked_creds.json queries.json queries.lock version_control_info version_control_info.json
    version_control_info.lock""".split()
)
_TENSOR_FILES = frozenset(
    """chunk_set chunks chunks_index commit_diff creds_index pad_index sequence_index tensor_info.json
    tensor_meta.json tiles_index vdb_indexes""".split()
)


_COMPANION = re.compile(r"_.+_(id|shape|info|null|downsampled_\d+)", re.DOTALL)


def normalize(name: str, group: str = "") -> str:
    """Strip and collapse slashes and prefix the current group."""
    path = "/".join([part for part in name.split("/") if part]) if "/" in name else name
    return f"{group}/{path}" if group and path else path or group


def check_tensor_name(name: str) -> None:
    """Refuse names with which 3.9.52 could not open the dataset, or that could not be stored.

    Raises
    ------
    InvalidTensorNameError
        If the name is not allowed; the message gives the reason.
    """
    _check(name, "tensor", InvalidTensorNameError)
    base = name.rpartition("/")[2]
    if base.startswith("_") and base.endswith("_null") and len(base) > len("__null"):
        raise InvalidTensorNameError(
            f"tensor name {name!r} is reserved for the nulls of a tensor {base[1:-5]!r}; choose another name"
        )


def check_group_name(name: str) -> None:
    """Refuse group names with which 3.9.52 could not open the dataset, or that could not be stored.

    Raises
    ------
    InvalidTensorGroupNameError
        If the name is not allowed; the message gives the reason.
    """
    _check(name, "group", InvalidTensorGroupNameError)


def _check(name: str, what: str, error: type[LakebedError]) -> None:
    if not name:
        raise error(f"{what.capitalize()} name cannot be empty.")
    taken = _UNOPENABLE.intersection(name.split("/"))
    if taken:
        raise error(
            f"The use of a reserved attribute {min(taken)!r} as a {what} name is invalid: Deep Lake 3 could not open "
            "the dataset; choose another name"
        )
    reason = _unstorable(name)
    if reason:
        raise error(f"{what} name {name!r} {reason}; choose another name")


def _unstorable(name: str) -> str | None:
    parts = name.split("/")
    if any(part in (".", "..") for part in parts):
        return "has a part that stands for a folder of the file system"
    if any(c in name for c in ",:\\\0"):
        return "holds one of , : \\ or NUL, which separate other things on disk"
    if parts[0] in _FILES:
        return f"begins with {parts[0]!r}, which the dataset itself needs"
    if not _TENSOR_FILES.isdisjoint(parts):
        return "has a part that names a file or folder inside tensors"
    if any(len(part.encode("utf-8", "surrogatepass")) > 240 for part in parts):
        return "has a part of more than 240 bytes, the limit of file systems"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "is no valid Unicode"
    return None


@contextmanager
def any_name() -> Iterator[None]:
    """Allow any names for tensors inside the block, for names that users did not choose, such as columns."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the tensor is ds", UserWarning)
        yield


def is_companion(name: str) -> bool:
    """Return whether a name has the form of a hidden companion's name."""
    return _COMPANION.fullmatch(name.rpartition("/")[2]) is not None


def companion(name: str, kind: str) -> str:
    """Return the name of a hidden tensor: ``g/x`` and ``id`` give ``g/_x_id``."""
    group, slash, base = name.rpartition("/")
    return f"{group}{slash}_{base}_{kind}"


def companion_key(meta: DatasetMeta, name: str, kind: str) -> str | None:
    """Return the key of a tensor's hidden companion; None if it has none, even if a visible tensor has that name."""
    key = meta.tensor_names.get(companion(name, kind))
    return key if key in meta.hidden_tensors and key in meta.tensors else None


def parents(name: str) -> list[str]:
    """Return every group above a name, deepest first, as 3.9.52 lists them."""
    parts = name.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts), 0, -1)]
