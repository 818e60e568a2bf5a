"""Names of folders and tensors for streams and columns.

Any UTF-8 string is a legal name in Airbyte, also `..`, `a/b`, the empty string and a string of 4,000 characters.
Restrictions come from file systems (some fold case, some normalise Unicode, Windows reserves names), from the files of
the dataset format, and from Deep Lake 3.9.52, which refuses names of attributes as tensor names.

**Streams.** `dataset_folder` is a pure function of (namespace, stream) and injective: no two streams share a
folder. A simple name is its own folder; unsafe characters are percent-encoded.

    name                          component
    letters, digits, - _ . ( ) + = ! and inner blanks    itself; other letters too when the result is in NFC
    any other character           %XX of each UTF-8 byte, upper-case hexadecimal
    first or last dot or blank    %2E, %20
    reserved name                 first character encoded: `versions` -> `%76ersions`
    the empty name                `%empty`
    more than 200 bytes           cut, then `%~` and 32 digits of the SHA-256 of the name

`%` itself is always encoded, so each form can be distinguished from the others: `%` is followed by two hexadecimal
digits, by `empty` or by `~`. Two names that differ only in case share a folder if the *file system* folds case; because
the dataset records its names, that is an error, never a mixture.

**Columns.** `tensor_names` maps the columns of one stream. It knows the names in use, so its results need not be
decodable: reserved names get a trailing underscore (`path` -> `path_`, `_airbyte_meta` -> `_airbyte_meta_`), and of two
names that are equal without case, the later one gets a hash. A column may be in a group of tensors (`address/city`); a
group with the name of a tensor gets a hash. The mapping is recorded in the dataset, so a column keeps its tensor for
ever.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence

MAX_BYTES = 200
"""Longest name in UTF-8 bytes: file systems allow 255, and companions and suffixes need the remaining bytes."""

META_COLUMNS = ("_airbyte_raw_id", "_airbyte_extracted_at", "_airbyte_meta", "_airbyte_generation_id")

DELETED_AT = ("_ab_cdc_deleted_at",)
"""Path of the property with the time at which a row was deleted at the source."""

DELTA_BRANCH = "airbyte-delta"
"""Branch for rows that are not merged yet."""

LETTERS_FOLDER = "_airbyte_dead_letters"
"""Folder of the dataset of dead letters, beside the folders of the streams; the name is reserved."""

_EMPTY = "%empty"
_CUT = "%~"

_ALPHANUMERIC = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
_IN_FOLDERS = _ALPHANUMERIC | frozenset("-_.()+=! ")
_IN_TENSORS = _IN_FOLDERS | frozenset("#$&'@[]^`{}~;")

_FORMAT_FILES = frozenset(
    """
    version_control_info.json version_control_info version_control_info.lock commit_info.json
    dataset_meta.json dataset_info.json dataset_diff linked_creds.json queries.json queries.lock
    dataset_lock.lock wandb.json local_download_timestamp versions chunks chunks_index tiles_index
    sequence_index creds_index pad_index chunk_set commit_diff tensor_meta.json tensor_info.json vdb_indexes
    """.split()
)
"""Names that the dataset format uses inside a dataset folder (format.md 1.2, 1.3)."""

_WINDOWS_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\.|$)", re.IGNORECASE)

_DATASET_ATTRIBUTES = frozenset(
    """
    _all_tensors_filtered _append_or_extend _append_to_queries_json _checkout _checkout_hooks _client _commit
    _commit_hooks _copy _create_downsampled_tensor _create_group _create_sample_id_tensor
    _create_sample_info_tensor _create_sample_shape_tensor _create_tensor _dataset_diff _delete_branch
    _delete_group _delete_tensor _disable_padding _ds_diff _enable_padding _first_load_init _flush_vc_info
    _get_commit_id_for_address _get_empty_vds _get_storage_repository _get_tensor_from_root _get_total_meta
    _get_view _get_view_info _groups _groups_filtered _has_group_in_root _hide_tensor _indexing_history _info
    _initial_autoflush _is_filtered_view _is_root _link_tensors _load_link_creds _load_version_info _lock
    _lock_lost_handler _lock_queries_json _lock_timeout _locked_out _locking_enabled _optimize_and_copy_view
    _optimize_saved_view _pad_tensors _parent_dataset _pop _populate_meta _query_string _read_only
    _read_only_error _read_queries_json _read_view_info _register_dataset _reload_version_state _rename_tensor
    _resolve_tensor_list _sample_indices _save_view _save_view_in_path _save_view_in_subdir
    _send_branch_creation_event _send_branch_deletion_event _send_commit_event _send_compute_progress
    _send_dataset_creation_event _send_filter_progress _send_pytorch_progress _send_query_progress
    _set_derived_attributes _set_read_only _squash_main _sub_ds _temp_tensors _temp_write_access _tensors
    _token _ungrouped_tensors _unlock _update_hooks _vc_info_updated _view_base _view_hash _view_id
    _view_use_parent_commit _write_queries_json _write_vds add_creds_key allow_delete append base_storage
    branch branches checkout clear_cache client commit commit_id commits connect copy create_group
    create_tensor create_tensor_like dataloader dataset_creds_key dataset_creds_key_org_id
    dataset_creds_key_token delete delete_branch delete_group delete_tensor delete_view diff ds_name
    enabled_tensors extend filter fix_vc flush get_commit_details get_creds_keys get_managed_creds_keys
    get_view get_views group_index groups has_head_changes index index_params info is_first_load is_head_node
    is_iteration is_optimized is_view libdeeplake_dataset link_creds load_view log max_len max_view
    maybe_flush merge meta min_len min_view no_view_dataset num_samples org_id parent path pending_commit_id
    pop populate_creds public pytorch query random_split read_only rechunk regenerate_vdb_indexes rename
    rename_group rename_tensor reset root sample_by sample_indices save_view set_token size_approx storage
    summary tensorflow tensors token update update_creds_key username verbose version_state visualize
    """.split()
)
"""Attributes of an open Deep Lake 3.9.52 dataset, without dunder names; not allowed as names of tensors."""

_HIDDEN_COMPANION = re.compile(r"_.+_(null|id|shape|info|downsampled_\d+)", re.IGNORECASE | re.DOTALL)
"""Names of companions of other tensors (format.md 8, and our null masks)."""

_META_PARENTS = frozenset(
    meta[1:].rpartition("_")[0] for meta in META_COLUMNS if _HIDDEN_COMPANION.fullmatch(meta)
)
"""Columns whose companion would have the name of a meta column: `_airbyte_raw_id` would be the id of `airbyte_raw`."""


def dataset_folder(namespace: str | None, stream: str) -> str:
    """Return the folder of a stream's dataset, relative to the destination path.

    Parameters
    ----------
    namespace : str or None
        None and the empty string both mean "no namespace".
    stream : str
        Any string.

    Examples
    --------
    >>> dataset_folder(None, "users"), dataset_folder("public", "a/b")
    ('users', 'public/a%2Fb')
    """
    if namespace:
        return f"{_component(namespace)}/{_component(stream)}"
    return _component(stream)


def tensor_names(
    columns: Iterable[str] | Mapping[str, Sequence[str]], known: Mapping[str, str], others: Iterable[str] = ()
) -> dict[str, str]:
    """Return the tensor of every column, keeping those that are `known`.

    Parameters
    ----------
    columns : iterable of str, or mapping of str to sequence of str
        Column names of the stream as it is configured now. A mapping has the preferred name of each: the groups, then
        the tensor.
    known : mapping of str to str
        Column -> tensor as recorded in the dataset; empty for a new dataset.
    others : iterable of str
        Tensors that no longer belong to a column; their names stay reserved.

    Returns
    -------
    dict of str to str
        All of `known` and all of `columns`; no two tensors are equal, even without regard to case, and no tensor has
        the name of a group of another tensor.

    Examples
    --------
    >>> tensor_names({"address.city": ("address", "city"), "path": ("path",)}, {})
    {'path': 'path_', 'address.city': 'address/city'}
    """
    wishes = columns if isinstance(columns, Mapping) else {column: (column,) for column in columns}
    names = dict(known)
    taken = _Taken([*names.values(), *others, *META_COLUMNS])
    proposed = {
        column: [_tensor(part) for part in parts] for column, parts in wishes.items() if column not in names
    }
    # Columns whose name needs no change come first: `path_` keeps its name, although `path` would become `path_`,
    # too. Tensors come before groups. The rest of the key makes the result independent of the order of the columns.
    for column in sorted(
        proposed,
        key=lambda name: (
            len(proposed[name]),
            proposed[name] != list(wishes[name]),
            name != name.lower(),
            name,
        ),
    ):
        names[column] = taken.free(proposed[column], column)
    return names


class _Taken:
    """Reserved names of tensors and groups, without regard to case."""

    def __init__(self, tensors: Iterable[str]) -> None:
        self._tensors: set[str] = set()
        self._groups: set[str] = set()
        for tensor in tensors:
            self._add(tensor)

    def free(self, parts: Sequence[str], column: str) -> str:
        """Reserve the nearest free name for a tensor; a group with the name of a tensor is renamed, too."""
        name = ""
        for depth, part in enumerate(parts, 1):
            is_last = depth == len(parts)
            # A renamed group keeps its tensors together, so only its own name is checked here.
            digest = column if is_last else "/".join(parts[:depth])
            own = part
            while self._is_taken(name + own, is_last=is_last):
                digest = _digest(digest)
                own = _cut(part, "_" + digest[:12])
            name += own + ("" if is_last else "/")
        self._add(name)
        return name

    def _is_taken(self, name: str, *, is_last: bool) -> bool:
        folded = name.casefold()
        return folded in self._tensors or (is_last and folded in self._groups)

    def _add(self, tensor: str) -> None:
        folded = tensor.casefold()
        self._tensors.add(folded)
        while "/" in folded:
            folded = folded.rpartition("/")[0]
            self._groups.add(folded)


def _component(name: str) -> str:
    """Return one path component; see the table in the module docstring."""
    if not name:
        return _EMPTY
    component = _encoded(name, _IN_FOLDERS)
    folded = component.casefold()
    if folded in _FORMAT_FILES or folded == LETTERS_FOLDER or _WINDOWS_DEVICE.match(component):
        component = _percent(component[0]) + component[1:]
    if len(component.encode()) > MAX_BYTES:
        component = _cut(component, _CUT + _digest(name)[:32])
    return component


def _tensor(column: str) -> str:
    """Return the name that the tensor of a column gets if the name is free."""
    if not column:
        return _EMPTY
    name = _encoded(column, _IN_TENSORS)
    if name.casefold() in _FORMAT_FILES or _WINDOWS_DEVICE.match(name):
        name = _percent(name[0]) + name[1:]
    if name.startswith("__") and name.endswith("__"):
        name = _percent("_") + name[1:]
    folded = name.casefold()
    if (
        name in _DATASET_ATTRIBUTES
        or folded in META_COLUMNS
        or folded in _META_PARENTS
        or _HIDDEN_COMPANION.fullmatch(name)
    ):
        name += "_"
    if len(name.encode()) > MAX_BYTES:
        name = _cut(name, _CUT + _digest(column)[:32])
    return name


def _encoded(name: str, verbatim: frozenset[str]) -> str:
    """Percent-encode characters that are neither in `verbatim` nor letters, and dots and blanks at both ends."""
    foreign = [character in verbatim or _is_letter(character) for character in name]
    text = _joined(name, foreign)
    if unicodedata.is_normalized("NFC", text):
        return text
    # A file system that normalises Unicode would change this name, and could make two names equal.
    return _joined(name, [character in verbatim for character in name])


def _joined(name: str, keep: list[bool]) -> str:
    last = len(name) - 1
    return "".join(
        character if keep[i] and not (i in (0, last) and character in ". ") else _percent(character)
        for i, character in enumerate(name)
    )


def _is_letter(character: str) -> bool:
    """Tell whether a character is a letter, mark or digit beyond ASCII."""
    return character > "\x7f" and unicodedata.category(character)[0] in "LMN"


def _percent(character: str) -> str:
    # JSON can hold a lone surrogate, which is not valid UTF-8; surrogatepass encodes it nevertheless.
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _cut(name: str, suffix: str) -> str:
    """Return `name` shortened so that it ends in `suffix` and has at most `MAX_BYTES` bytes."""
    room = MAX_BYTES - len(suffix)
    head = name.encode()[:room].decode("utf-8", "ignore")
    return head + suffix


def _digest(name: str) -> str:
    import hashlib

    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
