"""Planning and execution of the changes that a merge makes to the content of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.codecs.traits import keeps_values
from lakebed.errors import InvalidOperationError, MergeMismatchError
from lakebed.merging.compare import Comparison
from lakebed.merging.plan import (
    Conflict,
    Keep,
    Line,
    RowPlan,
    Steps,
    Value,
    along,
    combined,
    conflicts,
    decide,
    filler_ids,
    plan_rows,
)
from lakebed.merging.schema import (
    Pair,
    SchemaPlan,
    check_ids,
    check_settings,
    joined,
    plan_schema,
)
from lakebed.reading.samples import SampleReader
from lakebed.session.changes.inputs import encode_sample
from lakebed.session.incoming import Held, Incoming, merged_names, remap_labels
from lakebed.session.session import Session
from lakebed.versions.ancestry import Ancestry
from lakebed.versions.state import Snapshot, TensorState
from lakebed.writing import structure
from lakebed.writing.draft.draft import Draft
from lakebed.writing.encode.links import Linking
from lakebed.writing.names import companion_key

_NO_ROWS = Line.of(np.empty(0, np.uint64), 0)

Choice = str | Callable[[str, Any, Any], Any] | None

_GONE = object()


class Merger:
    """One merge: the versions to compare, the plan of the merge, and its execution.

    Parameters
    ----------
    session
        Session at our version (the version to merge into), without unpublished changes.
    target
        Their version (the version to merge).
        ancestry
        Ancestors of versions.
    """

    def __init__(self, session: Session, target: str, ancestry: Ancestry) -> None:
        self._session = session
        self._ancestry = ancestry
        self._numbers: dict[str, int] = {}
        self._versions: list[Snapshot] = []
        self._ids: dict[tuple[int, str], NDArray[np.uint64]] = {}
        self._readers: dict[tuple[int, str], SampleReader] = {}
        here = session.snapshot.version_id
        self._bases = ancestry.bases(here, target)
        self.base = joined([self._versions[self._open(version)] for version in self._bases])
        self._ours, self._theirs = self._open(here), self._open(target)
        self._pairs: dict[str, Pair] = {}
        self._plans: dict[str, RowPlan] = {}
        self._steps: dict[str, Steps] = {}
        self._schema = SchemaPlan()
        self._prefers_theirs = False

    @property
    def ours(self) -> Snapshot:
        """The version to merge into."""
        return self._versions[self._ours]

    @property
    def theirs(self) -> Snapshot:
        """The version to merge."""
        return self._versions[self._theirs]

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Rows that both versions changed."""
        return conflicts(self._plans)

    # -- reading the versions ----------------------------------------------------------------------------------

    def _open(self, version_id: str) -> int:
        if version_id not in self._numbers:
            session = self._session
            self._numbers[version_id] = len(self._versions)
            here = version_id == session.snapshot.version_id
            self._versions.append(
                session.snapshot if here else session.versions.get(session.tree, version_id)
            )
        return self._numbers[version_id]

    def _reader(self, number: int, key: str) -> SampleReader:
        if (number, key) not in self._readers:
            state = self._versions[number].tensors[key]
            self._readers[number, key] = SampleReader(state.meta.name or key, state, self._session.source)
        return self._readers[number, key]

    def _held(self, number: int, key: str | None) -> Held | None:
        version = self._versions[number]
        if key is None or key not in version.tensors:
            return None
        nulls = companion_key(version.meta, version.tensors[key].meta.name or key, "null")
        return Held(
            self._reader(number, key),
            None if nulls is None else self._reader(number, nulls),
            self._written(number, key),
        )

    def _written(self, number: int, key: str) -> NDArray[np.bool_] | None:
        """Return a mask of the rows that a version updated, according to its commits since the common ancestor.

        Returns None if comparing the samples suffices.
        """
        compression = self._versions[number].tensors[key].meta.chunk_compression
        if keeps_values(compression) or number not in (self._ours, self._theirs):
            return None
        tip = self._versions[number].version_id
        since = self._ancestry.of(tip) - self._ancestry.of(self.base.version_id)
        found = [np.empty(0, np.uint64)]
        for version_id in since:
            version = self._open(version_id)
            state = self._versions[version].tensors.get(key)
            if state is not None and state.diff is not None:
                ids = self._line(version, key).ids
                found.append(ids[state.diff.updated[state.diff.updated < len(ids)].astype(np.int64)])
        return np.isin(self._line(number, key).ids, np.concatenate(found))

    def _line(self, number: int, key: str | None) -> Line:
        version = self._versions[number]
        ids = None if key is None or key not in version.tensors else version.id_key(key)
        if key is None or ids is None:
            return _NO_ROWS
        if (number, key) not in self._ids:
            count = version.tensors[ids].length
            found = self._reader(number, ids).stacked(range(count))
            self._ids[number, key] = found.reshape(count).astype(np.uint64, copy=False)
        return Line.of(self._ids[number, key], number)

    def _base_line(
        self, versions: Sequence[str], key: str | None, comparison: Callable[[], Comparison]
    ) -> Line:
        """Return the rows of the common ancestor; if two versions have several, return their rows combined."""
        first, *others = [v for v in versions if key in self._versions[self._open(v)].tensors] or versions[:1]
        line = self._line(self._open(first), key)
        for other in others:
            below = self._ancestry.bases(first, other)
            base = self._base_line(below, key, comparison)
            its = self._line(self._open(other), key)
            line = combined(base, line, its, comparison().differ)
        return line

    # -- planning ----------------------------------------------------------------------------------------------

    def plan(self, *, delete_removed: bool, force: bool) -> None:
        """Plan the merge, without changing anything.

        Raises
        ------
        MergeConflictError
            If names of tensors clash.
        MergeMismatchError, MergeNotSupportedError
            If a tensor's settings differ between the versions, or its samples have no ids.
        """
        check_ids([self.ours, self.theirs])
        self._schema = plan_schema(
            self.base,
            self.ours,
            self.theirs,
            is_recreated=self._is_recreated,
            delete_removed=delete_removed,
            force=force,
        )
        self._pairs = {pair.name: pair for pair in self._schema.pairs}
        for name, pair in self._pairs.items():
            ours, theirs = self.ours.tensors[pair.ours], self.theirs.tensors[pair.theirs]
            check_settings(name, ours.meta, theirs.meta)
            self._plans[name] = self._plan_pair(pair)

    def plan_deletions(self) -> bool:
        """Plan only the deletion of tensors that their version lacks; return whether such tensors exist.

        This is for a version that was merged before: its rows need no second merge.
        """
        there = self.theirs.tensors
        hidden = set(self.ours.meta.hidden_tensors)
        gone = [key for key in self.base.tensors if key in self.ours.tensors and key not in there]
        names = [self.ours.tensors[key].meta.name or key for key in gone if key not in hidden]
        self._schema = SchemaPlan(deleted=names)
        return bool(names)

    def apply_deletions(self, draft: Draft) -> None:
        """Delete the tensors that :meth:`plan_deletions` has selected."""
        for name in self._schema.deleted:
            draft.schema.delete_tensor(name)

    def _plan_pair(self, pair: Pair) -> RowPlan:
        def comparison() -> Comparison:
            keys = {self._ours: pair.ours, self._theirs: pair.theirs}
            numbers = range(len(self._versions))
            return Comparison([self._held(i, keys.get(i, pair.base)) for i in numbers])

        base = self._base_line(self._bases, pair.base, comparison)
        ours, theirs = self._line(self._ours, pair.ours), self._line(self._theirs, pair.theirs)
        return plan_rows(base, ours, theirs, comparison().differ)

    def _is_recreated(self, key: str) -> bool:
        """Return whether one version deleted the tensor of a key and created another tensor under the same key."""
        having = [self._open(v) for v in self._bases if key in self._versions[self._open(v)].tensors]
        base = np.concatenate([self._line(number, key).ids for number in having])
        for number, version in ((self._ours, self.ours), (self._theirs, self.theirs)):
            line = self._line(number, key)
            if len(base) and len(line) and not _share(base, line.ids):
                since = self._ancestry.of(version.version_id) - self._ancestry.of(self.base.version_id)
                if any(self._was_created(other, key) for other in since):
                    return True
        return False

    def _was_created(self, version_id: str, key: str) -> bool:
        state = self._versions[self._open(version_id)].tensors.get(key)
        return state is not None and state.diff is not None and state.diff.created

    def decide(self, choice: Choice) -> None:
        """Resolve all conflicts; if the resolution is a function, call it for each conflict."""
        self._prefers_theirs = choice == "theirs"

        def choose(conflict: Conflict) -> Keep | Value:
            if callable(choice):
                return self._asked(choice, conflict)
            return Keep.THEIRS if self._prefers_theirs else Keep.OURS

        self._steps = decide(self._plans, choose)
        names = self._aligned()
        plans, steps = along({n: self._plans[n] for n in names}, {n: self._steps[n] for n in names})
        self._plans |= plans
        self._steps |= steps

    def _asked(self, choose: Callable[[str, Any, Any], Any], conflict: Conflict) -> Keep | Value:
        pair = self._pairs[conflict.tensor]
        ours = self._value(self._ours, pair.ours, conflict.ours)
        theirs = self._value(self._theirs, pair.theirs, conflict.theirs)
        _, label_map = self._class_names(pair)
        theirs = remap_labels(theirs, label_map)
        found = choose(conflict.tensor, ours, theirs)
        if found is ours:
            return Keep.OURS
        return Keep.THEIRS if found is theirs else Value(found)

    def _value(self, number: int, key: str, row: int | None) -> Any:
        if row is None:
            return None
        reader = self._reader(number, key)
        sequence = reader.state.sequence
        if sequence is None:
            return reader.value(row)
        return [reader.value(item) for item in range(*sequence.span(row))]

    # -- execution ---------------------------------------------------------------------------------------------

    def apply(self, draft: Draft) -> None:
        """Make the planned changes in a draft of our version."""
        incoming = Incoming(draft, self.theirs, self._session.source)
        schema = self._schema
        _rename(draft, schema.renamed)
        for name in schema.deleted:
            draft.schema.delete_tensor(name)
        layout = self._layout()
        for name, pair in self._pairs.items():
            label_map = self._merge_info(draft, pair)
            self._apply_rows(draft, incoming, name, label_map)
        for key, name in schema.created:
            count = self.theirs.tensors[key].length
            aligned = layout is not None and count == self._length(self.theirs, "theirs")
            if aligned and layout is not None:
                incoming.arrange(key, name, layout, filler_ids(self._result_ids(), key))
            else:
                incoming.create(key, name)
        if layout is not None:
            self._keep_up(draft)
        if schema.groups:
            draft.schema.add_groups(schema.groups)
        info = merged_info(
            self.base.info, self.ours.info, self.theirs.info, prefer_theirs=self._prefers_theirs
        )
        if info != dict(self.ours.info):
            draft.schema.set_info(info)

    def _length(self, version: Snapshot, side: str) -> int:
        """Return the length of a version's longest tensor, among the tensors that both versions have."""
        keys = [getattr(pair, side) for pair in self._pairs.values()]
        return max((version.tensors[key].length for key in keys), default=0)

    def _aligned(self) -> list[str]:
        """Return the tensors that, in both versions, are as long as the version's longest tensor."""
        ours, theirs = self._length(self.ours, "ours"), self._length(self.theirs, "theirs")
        return [
            name
            for name, pair in self._pairs.items()
            if self.ours.tensors[pair.ours].length == ours
            and self.theirs.tensors[pair.theirs].length == theirs
        ]

    def _layout(self) -> NDArray[np.int64] | None:
        """Return the row in their version of each row of the result, -1 if it has none; None if tensors differ."""
        found = [self._steps[name].layout(self._plans[name]) for name in self._aligned()]
        if not found or any(not np.array_equal(found[0], other) for other in found[1:]):
            return None
        return found[0]

    def check_in_step(self) -> None:
        """Refuse a merge that would remove different rows from tensors, so that equal row numbers no longer match.

        Only tensors of the common ancestor are checked. Tensors that both versions created under one name are joined
        row by row, as in 3.x.

        Raises
        ------
        MergeMismatchError
            If the rows of two tensors of the common ancestor would no longer match.
        """
        names = [name for name in self._aligned() if self._pairs[name].base is not None]
        layouts = {name: self._steps[name].layout(self._plans[name]) for name in names}
        apart = [name for name in names if not np.array_equal(layouts[name], layouts[names[0]])]
        if apart:
            raise MergeMismatchError(
                f"the rows of {', '.join(map(repr, apart))} would no longer match the rows of {names[0]!r}: one "
                "version removed different rows from these tensors. Nothing was changed; with force=True each tensor "
                "is merged separately."
            )

    def _result_ids(self) -> NDArray[np.uint64]:
        """Return the ids of the result's rows, taken from the aligned tensor with the smallest key.

        Ids of filled rows are computed from these ids, so merges of other branches should choose the same tensor.
        """
        name = min(self._aligned(), key=lambda aligned: self._pairs[aligned].ours)
        pair, steps = self._pairs[name], self._steps[name]
        ours, theirs = self._line(self._ours, pair.ours), self._line(self._theirs, pair.theirs)
        return np.concatenate([np.delete(ours.ids, steps.deletes), theirs.ids[steps.appends]])

    def _keep_up(self, draft: Draft) -> None:
        """Remove and add the same rows in tensors that only our version has, so that all lengths stay equal."""
        steps = self._steps[self._aligned()[0]]
        count = self._length(self.ours, "ours")
        for key in self._schema.alone:
            if self.ours.tensors[key].length == count and count:
                if len(steps.appends):
                    ids = filler_ids(self._result_ids()[-len(steps.appends) :], key)
                    draft.rows.pad(key, len(steps.appends), ids)
                draft.rows.pop(key, steps.deletes.tolist())

    def _apply_rows(
        self, draft: Draft, incoming: Incoming, name: str, label_map: NDArray[np.int64] | None
    ) -> None:
        pair, steps, plan = self._pairs[name], self._steps[name], self._plans[name]
        if steps.is_empty:
            return
        count = self.theirs.tensors[pair.theirs].length
        if label_map is None and steps.takes_all(plan, count) and self._is_unchanged(pair):
            updated, added = steps.updates[:, 0], len(steps.appends)
            if incoming.replace(pair.ours, pair.theirs, updated, steps.deletes, added):
                return
        incoming.update(pair.ours, pair.theirs, steps.updates, label_map)
        before = self.ours.tensors[pair.ours].length
        incoming.append(pair.ours, pair.theirs, steps.appends, label_map)
        values = dict(steps.values)
        values |= {
            before + int(np.searchsorted(steps.appends, row)): v for row, v in steps.new_values.items()
        }
        for row, value in values.items():
            state = draft.tensors[pair.ours].state
            draft.rows.update(pair.ours, [row], encode_sample(value, state, Linking()))
        draft.rows.pop(pair.ours, steps.deletes.tolist())

    def _is_unchanged(self, pair: Pair) -> bool:
        """Return whether our tensor and its companions are unchanged since the only common ancestor."""
        if pair.base is None or len(self._bases) > 1:
            return False
        keys = {pair.ours: pair.base}
        names, before = (
            structure.companions_of(version.meta, version.tensors[key].meta.name or key)
            for version, key in ((self.ours, pair.ours), (self.base, pair.base))
        )
        if names.keys() != before.keys():
            return False
        for kind, name in names.items():
            keys[self.ours.meta.tensor_names[name]] = self.base.meta.tensor_names[before[kind]]
        return all(_is_same(self.ours.tensors[a], self.base.tensors[b]) for a, b in keys.items())

    def _class_names(self, pair: Pair) -> tuple[list[str] | None, NDArray[np.int64] | None]:
        """Return the class names of the result, and the map from their version's class numbers to ours."""
        ours = _class_names(self.ours.tensors[pair.ours])
        theirs = _class_names(self.theirs.tensors[pair.theirs])
        # Our numbers refer to our names, so keep these even if their version has none, such as after it deleted the
        # tensor and created it again.
        return merged_names(ours, theirs) if ours or theirs else (None, None)

    def _merge_info(self, draft: Draft, pair: Pair) -> NDArray[np.int64] | None:
        ours, theirs = self.ours.tensors[pair.ours], self.theirs.tensors[pair.theirs]
        base = None if pair.base is None else self.base.tensors.get(pair.base)
        before = {} if base is None else base.info
        names, label_map = self._class_names(pair)
        info = merged_info(before, ours.info, theirs.info, prefer_theirs=self._prefers_theirs)
        if names is not None:
            info["class_names"] = names
        if info != dict(ours.info):
            draft.schema.set_tensor_info(pair.ours, info)
        return label_map


def _class_names(state: TensorState) -> list[str]:
    """Return the class names of a tensor; empty if its numbers are not classes."""
    names = state.info.get("class_names")
    is_named = state.meta.htype in ("class_label", "segment_mask") and isinstance(names, list)
    return [str(name) for name in names] if is_named and isinstance(names, list) else []


def _is_same(one: TensorState, other: TensorState) -> bool:
    """Return whether a tensor has the same samples, settings and chunks in two versions; its name may differ."""
    table, its = one.table, other.table
    return (
        one.meta.with_(name=None, links={}) == other.meta.with_(name=None, links={})
        and len(table) == len(its)
        and table.count == its.count == table.same_start(its)
        and one.sequence == other.sequence
        and one.creds == other.creds
        and one.tiles == other.tiles
    )


def _share(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> bool:
    """Return whether two columns of ids have an id in common."""
    count = min(len(one), len(other))
    return bool((one[:count] == other[:count]).any() or np.isin(one, other).any())


def _rename(draft: Draft, renames: Sequence[tuple[str, str]]) -> None:
    """Rename tensors, even if a new name is the old name of another renamed tensor."""
    waiting = []
    for number, (old, new) in enumerate(renames):
        if new in draft.schema.meta.tensor_names:
            draft.schema.rename_tensor(old, f"{old}_{number:08x}")
            waiting.append((f"{old}_{number:08x}", new))
        else:
            draft.schema.rename_tensor(old, new)
    for old, new in waiting:
        if new in draft.schema.meta.tensor_names:
            raise InvalidOperationError(f"tensor {old!r} can not be renamed to {new!r}: there is one already")
        draft.schema.rename_tensor(old, new)


def merged_info(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any], *, prefer_theirs: bool
) -> dict[str, Any]:
    """Return our info with their changes; if both changed a key, our value is kept unless theirs is preferred."""
    result = dict(ours)
    for key in dict.fromkeys([*base, *theirs]):
        was, here, there = (info.get(key, _GONE) for info in (base, ours, theirs))
        if there == was or (here != was and not prefer_theirs):
            continue
        if there is _GONE:
            result.pop(key, None)
        else:
            result[key] = there
    return result
