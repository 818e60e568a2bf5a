"""What a versioned dataset means, in plain dicts, lists and strings: the judge of every proof.

A dataset is a tree of commits. Each branch has a head: a content that goes on changing until a commit keeps it for
good. Content is tensors by name, and an info. A tensor is a list of samples. A sample is a value with an id that it
keeps when it is replaced, and by which a merge knows it again on both sides.

Nothing here is clever, fast or stored. Whatever the library does to a dataset is done to a `Model` as well, and
`Model.state` must then say the same as ``unit_tests.proofs.observe.state_of`` of the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unit_tests.proofs.content import Content, Refused, Sample, State, Tensor, Value, named, shown
from unit_tests.proofs.merge_model import Choice, NotModelled, merged


@dataclass(frozen=True)
class Commit:
    """A content that is kept for good. `parents`: the commit before it, and the one that a merge brought in."""

    message: str | None
    branch: str
    parents: tuple[str, ...]
    content: Content


@dataclass(frozen=True)
class Branch:
    """The last commit below a head (None before the first), and what the head holds."""

    base: str | None
    head: Content


class Model:
    """A versioned dataset, as one writer sees it.

    Parameters
    ----------
    auto_name
        Names the branch that begins when somebody writes on an old commit; if it gives none, that is "auto".

    Attributes
    ----------
    at
        Where the writer is: the name of a branch, or of a commit.
    published
        Every state that readers may have seen, in order; each step from one to the next is atomic.
    """

    def __init__(self, auto_name: Callable[[], str] = str) -> None:
        self.commits: dict[str, Commit] = {}
        self.branches: dict[str, Branch] = {"main": Branch(None, Content())}
        self.tags: dict[str, str] = {}
        self.at = "main"
        self._auto_name = auto_name
        self._serial = 0
        self.published: list[State] = [self.state()]

    def copy(self) -> Model:
        """Return a model that goes its own way from here."""
        other = Model(self._auto_name)
        other.commits, other.branches, other.tags = dict(self.commits), dict(self.branches), dict(self.tags)
        other.at, other._serial, other.published = self.at, self._serial, [self.state()]
        return other

    # -- what readers see ----------------------------------------------------------------------------------------

    @property
    def is_head(self) -> bool:
        """Whether the writer is on a branch, not on an old commit."""
        return self.at in self.branches

    @property
    def content(self) -> Content:
        """What the writer sees."""
        return self.branches[self.at].head if self.is_head else self.commits[self.at].content.inherited()

    @property
    def is_changed(self) -> bool:
        """Whether there is something to commit; before the first commit there always is."""
        return self.is_head and _is_changed(self.branches[self.at])

    def log(self, at: str | None = None) -> list[str]:
        """Return the names of the commits of a line, newest first."""
        at = self.at if at is None else at
        name = self.branches[at].base if at in self.branches else at
        line = []
        while name is not None:
            line.append(name)
            parents = self.commits[name].parents
            name = parents[0] if parents else None
        return line

    def state(self) -> State:
        """Return what a reader sees of every branch, and the tags."""
        seen = {name: self._line(name, branch) for name, branch in self.branches.items()}
        return {"branches": seen, "tags": {name: len(self.log(at)) for name, at in self.tags.items()}}

    def _line(self, name: str, branch: Branch) -> State:
        messages = [self.commits[commit].message for commit in self.log(name)]
        return {"log": messages, "changed": _is_changed(branch), **shown(branch.head)}

    # -- changes of the content ----------------------------------------------------------------------------------

    def create_tensor(self, name: str, htype: str, class_names: Sequence[str] = ()) -> None:
        """Make a tensor without samples."""
        if name in self.content.tensors:
            raise Refused(name)
        self._serial += 1
        info = {"class_names": [*class_names]} if htype == "class_label" else {}
        self._write(self.content.with_tensor(name, Tensor(htype, self._serial, info=info)))

    def delete_tensor(self, name: str) -> None:
        """Drop a tensor."""
        tensor = self._tensor(name)
        tensors = {other: kept for other, kept in self.content.tensors.items() if other != name}
        recorded = self.content.is_recorded or not tensor.is_new
        self._write(replace(self.content, tensors=tensors, is_recorded=recorded))

    def rename_tensor(self, name: str, new: str) -> None:
        """Give a tensor another name."""
        tensor = self._tensor(name)
        if new in self.content.tensors:
            raise Refused(new)
        tensors = {new if other == name else other: kept for other, kept in self.content.tensors.items()}
        recorded = self.content.is_recorded or not tensor.is_new
        self._write(replace(self.content, tensors=tensors, is_recorded=recorded))

    def append(self, row: Mapping[str, Value]) -> None:
        """Add one row."""
        self.extend({name: [value] for name, value in row.items()})

    def extend(self, columns: Mapping[str, Iterable[Value]]) -> None:
        """Add rows, given as columns."""
        content = self.content
        for name, values in columns.items():
            content = content.with_tensor(name, self._with_samples(self._tensor(name), values))
        self._write(content)

    def _with_samples(self, tensor: Tensor, values: Iterable[Value]) -> Tensor:
        for value in values:
            sample = Sample(self._next(), value)
            tensor = replace(named(tensor, value), samples=(*tensor.samples, sample), is_touched=True)
        return tensor

    def update(self, name: str, row: int, value: Value) -> None:
        """Replace one sample."""
        tensor = self._tensor(name)
        old = self._sample(tensor, row)
        samples = [*tensor.samples]
        samples[row] = Sample(old.id, value)
        changed = replace(named(tensor, value), samples=tuple(samples), is_touched=True)
        self._write(self.content.with_tensor(name, changed))

    def pop(self, name: str, row: int) -> None:
        """Remove one sample."""
        self._write(self._without(self.content, name, row))

    def pop_row(self, row: int) -> None:
        """Remove one row from all tensors."""
        content = self.content
        for name in content.tensors:
            content = self._without(content, name, row)
        self._write(content)

    def _without(self, content: Content, name: str, row: int) -> Content:
        tensor = self._tensor(name)
        gone = self._sample(tensor, row)
        samples = tuple(sample for sample in tensor.samples if sample is not gone)
        return content.with_tensor(name, replace(tensor, samples=samples, is_touched=True))

    def clear(self, name: str) -> None:
        """Remove all samples of a tensor."""
        self._write(self.content.with_tensor(name, replace(self._tensor(name), samples=(), is_touched=True)))

    def rechunk(self) -> None:
        """Store the samples in another way: nothing that can be read changes."""
        content = self.content
        for name, tensor in content.tensors.items():
            content = content.with_tensor(name, replace(tensor, is_touched=True))
        self._write(content)

    def set_info(self, key: str, value: Any, tensor: str | None = None) -> None:
        """Set one key of the info of the dataset, or of a tensor; those of old commits stay as they are."""
        if not self.is_head:
            raise Refused("an old commit")
        if tensor is None:
            info = {**self.content.info, key: value}
            self._write(replace(self.content, info=info, is_recorded=True))
            return
        old = self._tensor(tensor)
        changed = replace(old, info={**old.info, key: value}, is_touched=True)
        self._write(self.content.with_tensor(tensor, changed))

    # -- history -------------------------------------------------------------------------------------------------

    def commit(self, message: str | None = None, *, allow_empty: bool = False) -> str:
        """Keep what the head holds; return the name of the commit."""
        if not self.is_changed and not allow_empty:
            raise Refused("nothing changed")
        self.leave_commit()
        return self._seal(message)

    def _seal(self, message: str | None, merged: str | None = None) -> str:
        branch, name = self.branches[self.at], f"commit {self._next()}"
        parents = tuple(parent for parent in (branch.base, merged) if parent is not None)
        self.commits[name] = Commit(message, self.at, parents, branch.head)
        self._set_head(branch.head.inherited(), name)
        return name

    def checkout(self, address: str, *, create: bool = False) -> None:
        """Go to a branch or commit, or start a branch here; a head with changes is committed first then."""
        if not create:
            address = self.tags.get(address, address)
            if address not in self.branches and address not in self.commits:
                raise Refused(address)
            self.at = address
            return
        if address in self.branches or address in self.tags:
            raise Refused(address)
        if self.is_changed:
            self._seal(f"auto commit before checkout to {address}")
        self._start(address)

    def _start(self, name: str) -> None:
        base = self.branches[self.at].base if self.is_head else self.at
        self.at, content = name, self.content
        self._set_head(content.inherited(), base)

    def merge(self, address: str, choice: Choice = None) -> None:
        """Bring the changes of another line in, together with what is not committed here; commits both heads.

        Raises
        ------
        Refused
            If both lines changed the same, and no choice says whose change stands.
        NotModelled
            If the lines have merged each other crosswise, or in other cases of little use.
        """
        address = self.tags.get(address, address)
        theirs = self.commits.get(address) or self.branches[address]
        target = address if address in self.commits else self.branches[address].base
        content = theirs.content if isinstance(theirs, Commit) else theirs.head
        is_open = isinstance(theirs, Branch) and (theirs.head.is_changed or target is None)
        ours = self._ancestors(self.branches[self.at].base if self.is_head else self.at)
        if address == self.at or (not is_open and target in ours):
            return
        base = self._common(ours, self._ancestors(target))
        result = merged(base, self.content, content, choice, self._next)
        self.leave_commit()
        here, before = self.at, len(self.published)
        if is_open:
            self.at = address
            target = self._seal(f"Auto commit before merging into {here}")
            self.at = here
        self._set_head(result, self.branches[here].base)
        self._seal(f"Merge # into {here}", target)
        del self.published[before:-1]

    def _ancestors(self, name: str | None) -> set[str]:
        pending, seen = [name], set[str]()
        while pending:
            name = pending.pop()
            if name is not None and name not in seen:
                seen.add(name)
                pending += self.commits[name].parents
        return seen

    def _common(self, one: set[str], other: set[str]) -> Content:
        """Return the content that two lines come from."""
        common = one & other
        best = common - {parent for name in common for parent in self.commits[name].parents}
        if len(best) > 1:
            raise NotModelled("the lines have merged each other crosswise")
        return self.commits[best.pop()].content if best else Content()

    def reset(self) -> None:
        """Go back to the last commit below the head."""
        base = self.branches[self.at].base if self.is_head else None
        if self.is_head and self.content.is_changed:
            self._set_head(Content() if base is None else self.commits[base].content.inherited(), base)

    def delete_branch(self, name: str) -> None:
        """Remove a branch that nothing else needs, with its commits."""
        gone = {commit for commit, node in self.commits.items() if node.branch == name}
        others = {branch.base for other, branch in self.branches.items() if other != name}
        needed = {p for c, node in self.commits.items() if c not in gone for p in node.parents} | others
        needed |= {*self.tags.values()}
        here = self.at if self.is_head else self.commits[self.at].branch
        if name in ("main", here) or name not in self.branches or gone & needed:
            raise Refused(name)
        del self.branches[name]
        for commit in gone:
            del self.commits[commit]
        self.published.append(self.state())

    def squash(self, message: str = "Squashed commits") -> None:
        """Replace the history by one commit."""
        if len(self.branches) > 1 or self.tags or not self.is_head:
            raise Refused("there are other branches or tags")
        self.commits, content = {}, self.content
        self.branches[self.at] = Branch(None, content)
        self._seal(message)

    def create_tag(self, name: str, commit: str) -> None:
        """Give a commit a name."""
        if name in self.tags or name in self.branches or commit not in self.commits:
            raise Refused(name)
        self.tags[name] = commit
        self.published.append(self.state())

    def delete_tag(self, name: str) -> None:
        """Remove a tag."""
        if name not in self.tags:
            raise Refused(name)
        del self.tags[name]
        self.published.append(self.state())

    # -- steps of the above --------------------------------------------------------------------------------------

    def _tensor(self, name: str) -> Tensor:
        if name not in self.content.tensors:
            raise Refused(name)
        return self.content.tensors[name]

    def _sample(self, tensor: Tensor, row: int) -> Sample:
        if not 0 <= row < len(tensor.samples):
            raise Refused(str(row))
        return tensor.samples[row]

    def _next(self) -> int:
        self._serial += 1
        return self._serial

    def leave_commit(self) -> None:
        """Go on beside an old commit, on a new branch, as whoever writes there does."""
        if not self.is_head:
            base, content = self.at, self.content
            self.at = self._auto_name() or "auto"
            self._set_head(content.inherited(), base)

    def _write(self, content: Content) -> None:
        self.leave_commit()
        self._set_head(content, self.branches[self.at].base)

    def _set_head(self, content: Content, base: str | None) -> None:
        self.branches[self.at] = Branch(base, content)
        self.published.append(self.state())


def _is_changed(branch: Branch) -> bool:
    return branch.base is None or branch.head.is_changed
