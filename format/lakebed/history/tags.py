"""Tags of an open dataset."""

from __future__ import annotations

from itertools import islice

from lakebed import config
from lakebed.documents.version_tree import VersionTree
from lakebed.errors import CheckoutError, InvalidInputError, ReadOnlyModeError, TagExistsError
from lakebed.runtime import clock
from lakebed.session.session import Session
from lakebed.versions.opening import read_tree
from lakebed.versions.refs import HEAD, SHORTEST_PREFIX, Tag, drop_tag, read_refs, resolve, set_tag

_LONGEST = 200
_FORBIDDEN = '/\\@~^:"<>|?*#'


def tags(session: Session) -> dict[str, Tag]:
    """Return all tags by name, including tags of lost commits.

    Raises
    ------
    DatasetCorruptError
        If the file with the tags is damaged.
    """
    found = read_refs(session.storage).tags
    return {name: found[name] for name in sorted(found)}


def create_tag(session: Session, name: str, commit: str | None, message: str | None) -> Tag:
    """Tag a commit with a name; if ``commit`` is None, tag the last commit of the checked-out version.

    Raises
    ------
    ReadOnlyModeError
        If the dataset was opened read-only.
    InvalidInputError
        If the name is not allowed in addresses.
    TagExistsError
        If a tag, branch or version has this name.
    CheckoutError
        If the commit does not exist, or the version is not committed yet.
    """
    _check_changeable(session)
    _check_name(name)
    if message is not None and not isinstance(message, str):
        raise InvalidInputError(f"the message of a tag must be text, not {type(message).__name__}")
    with session.mutex:
        tree = read_tree(session.storage)
        _check_free(tree, name)
        tag = Tag(name, _commit(session, tree, commit), message, clock.now(), config.author())
        set_tag(session.storage, tag, replacing=False)
        return tag


def delete_tag(session: Session, name: str) -> None:
    """Remove a tag; the commit stays.

    Raises
    ------
    ReadOnlyModeError
        If the dataset was opened read-only.
    CheckoutError
        If the tag does not exist.
    """
    _check_changeable(session)
    drop_tag(session.storage, name)


def _check_changeable(session: Session) -> None:
    if session.read_only:
        raise ReadOnlyModeError(
            f"{session.storage.url} was opened read-only; open it with read_only=False to change its tags"
        )


def _check_name(name: object) -> None:
    """Refuse a name that is not allowed in addresses, or that has another meaning in addresses."""
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST:
        raise InvalidInputError(f"{name!r:.60} is not a name of a tag: it has 1 to {_LONGEST} characters")
    if not name.isprintable() or name != name.strip() or any(c in _FORBIDDEN for c in name) or name == HEAD:
        raise InvalidInputError(
            f"{name!r} is not a name of a tag: no blanks around it, no control characters, none of {_FORBIDDEN}, and "
            f"not {HEAD}"
        )


def _check_free(tree: VersionTree, name: str) -> None:
    if name in tree.branches:
        raise TagExistsError(f"there is a branch {name!r}; choose another name for the tag")
    if len(name) >= SHORTEST_PREFIX and any(version.startswith(name) for version in tree.commits):
        raise TagExistsError(f"{name!r} is the beginning of a commit's id; choose another name for the tag")


def _commit(session: Session, tree: VersionTree, address: str | None) -> str:
    """Return the commit at an address; for a branch or its head, the branch's last commit."""
    version = (
        session.snapshot.version_id
        if address is None
        else resolve(session.storage, tree, address, session.branch)
    )
    if version not in tree.commits:  # another writer has replaced the head in the meantime
        version = tree.head(session.branch).id
    node = tree.commits[version]
    if not node.is_committed and version not in tree.branches.values():
        raise CheckoutError(f"version {version} is neither a commit nor the head of a branch")
    commits = (id_ for id_ in tree.ancestors(version) if tree.commits[id_].is_committed)
    found = next(islice(commits, 1), None)
    if found is None:
        raise CheckoutError(f"there is no commit yet on branch {node.branch!r}: commit before you make a tag")
    return found
