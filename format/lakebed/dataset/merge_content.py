"""Plan and carry out what a merge does to the content of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lakebed.dataset.given import encode_sample
from lakebed.dataset.session import Session
from lakebed.errors import InvalidOperationError
from lakebed.reading.same import Comparison, Held
from lakebed.reading.samples import SampleReader
from lakebed.versions.ancestry import Ancestry
from lakebed.versions.merge_infos import merged_info, merged_names
from lakebed.versions.merge_plan import (
    Conflict,
    Keep,
    Line,
    RowPlan,
    Steps,
    Value,
    combined,
    conflicts,
    decide,
    plan_rows,
)
from lakebed.versions.merge_schema import (
    Pair,
    SchemaPlan,
    check_ids,
    check_settings,
    id_key,
    plan_schema,
)
from lakebed.versions.state import ChunkTable, Snapshot
from lakebed.writing.draft import Draft
from lakebed.writing.merged import Incoming, meant
from lakebed.writing.names import companion_key

_NO_ROWS = Line.of(np.empty(0, np.uint64), 0)

Choice = str | Callable[[str, Any, Any], Any] | None


class Merger:
    """One merge: the versions that it compares, the plan, and the steps to take.

    Parameters
    ----------
    session
        Stands at our version; nothing is unpublished.
    target
        The version to merge.
    ancestry
        Who descends from whom.
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
        self._base = self._open(self._bases[0])
        self._ours, self._theirs = self._open(here), self._open(target)
        self._pairs: dict[str, Pair] = {}
        self._plans: dict[str, RowPlan] = {}
        self._steps: dict[str, Steps] = {}
        self._schema = SchemaPlan()
        self._prefers_theirs = False

    @property
    def base(self) -> Snapshot:
        """The version that both lines come from; the newest of several."""
        return self._versions[self._base]

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
        """Rows that both lines changed."""
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
        return Held(self._reader(number, key), None if nulls is None else self._reader(number, nulls))

    def _line(self, number: int, key: str | None) -> Line:
        version = self._versions[number]
        ids = None if key is None or key not in version.tensors else id_key(version, key)
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
        """Return the rows that both lines come from; of several common ancestors, what came of them together."""
        line = self._line(self._open(versions[0]), key)
        for other in versions[1:]:
            below = self._ancestry.bases(versions[0], other)
            base = self._base_line(below, key, comparison)
            its = self._line(self._open(other), key)
            line = combined(base, line, its, comparison().differ)
        return line

    # -- planning ----------------------------------------------------------------------------------------------

    def plan(self, *, delete_removed: bool, force: bool) -> None:
        """Find out what the merge would do, without changing anything.

        Raises
        ------
        MergeConflictError
            If names of tensors clash.
        MergeMismatchError, MergeNotSupportedError
            If tensors have other settings, or no ids.
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

    def _plan_pair(self, pair: Pair) -> RowPlan:
        def comparison() -> Comparison:
            keys = {self._ours: pair.ours, self._theirs: pair.theirs}
            return Comparison([self._held(i, keys.get(i, pair.base)) for i in range(len(self._versions))])

        base = self._base_line(self._bases, pair.base, comparison)
        ours, theirs = self._line(self._ours, pair.ours), self._line(self._theirs, pair.theirs)
        shared = 0
        if len(self._bases) == 1 and pair.base is not None and len(base):
            shared = self._shared_rows(pair.base, pair)
        return plan_rows(base, ours, theirs, comparison().differ, shared)

    def _shared_rows(self, base: str, pair: Pair) -> int:
        """Count the first rows whose ids are in the same chunks in all three versions."""
        tables = []
        for version, key in ((self.base, base), (self.ours, pair.ours), (self.theirs, pair.theirs)):
            hidden = id_key(version, key)
            if hidden is None:
                return 0
            tables.append(version.tensors[hidden].table)
        return min(_same_start(tables[0], table) for table in tables[1:])

    def _is_recreated(self, key: str) -> bool:
        """Whether the tensor of a key was deleted, and another one made under the key, on one of the lines."""
        base = self._line(self._base, key)
        for number, version in ((self._ours, self.ours), (self._theirs, self.theirs)):
            line = self._line(number, key)
            if len(base) and len(line) and not np.isin(line.ids, base.ids).any():
                since = self._ancestry.of(version.version_id) - self._ancestry.of(self.base.version_id)
                if any(self._was_created(other, key) for other in since):
                    return True
        return False

    def _was_created(self, version_id: str, key: str) -> bool:
        state = self._versions[self._open(version_id)].tensors.get(key)
        return state is not None and state.diff is not None and state.diff.created

    def decide(self, choice: Choice) -> None:
        """Settle all conflicts; a function is asked for each of them."""
        self._prefers_theirs = choice == "theirs"

        def choose(conflict: Conflict) -> Keep | Value:
            if callable(choice):
                return self._asked(choice, conflict)
            return Keep.THEIRS if self._prefers_theirs else Keep.OURS

        self._steps = decide(self._plans, choose)

    def _asked(self, choose: Callable[[str, Any, Any], Any], conflict: Conflict) -> Keep | Value:
        pair = self._pairs[conflict.tensor]
        ours = self._value(self._ours, pair.ours, conflict.ours)
        theirs = self._value(self._theirs, pair.theirs, conflict.theirs)
        _, meanings = self._class_names(pair)
        theirs = meant(theirs, meanings)
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

    # -- carrying it out ---------------------------------------------------------------------------------------

    def apply(self, draft: Draft) -> None:
        """Do in a draft of our version what was decided."""
        incoming = Incoming(draft, self.theirs, self._session.source)
        schema = self._schema
        _rename(draft, schema.renamed)
        for name in schema.deleted:
            draft.delete_tensor(name)
        layout = self._layout()
        for name, pair in self._pairs.items():
            meanings = self._merge_info(draft, pair)
            self._apply_rows(draft, incoming, name, meanings)
        for key, name in schema.created:
            count = self.theirs.tensors[key].length
            aligned = layout is not None and count == self._length(self.theirs, "theirs")
            if aligned and layout is not None:
                incoming.arrange(key, name, layout)
            else:
                incoming.create(key, name)
        if layout is not None:
            self._keep_up(draft)
        if schema.groups:
            draft.add_groups(schema.groups)
        info = merged_info(
            self.base.info, self.ours.info, self.theirs.info, prefer_theirs=self._prefers_theirs
        )
        if info != dict(self.ours.info):
            draft.set_info(info)

    def _length(self, version: Snapshot, side: str) -> int:
        """Return the number of rows of the longest tensor that both lines have."""
        keys = [getattr(pair, side) for pair in self._pairs.values()]
        return max((version.tensors[key].length for key in keys), default=0)

    def _aligned(self) -> list[str]:
        """Return the tensors of both lines whose rows are the rows of the dataset, on both."""
        ours, theirs = self._length(self.ours, "ours"), self._length(self.theirs, "theirs")
        return [
            name
            for name, pair in self._pairs.items()
            if self.ours.tensors[pair.ours].length == ours
            and self.theirs.tensors[pair.theirs].length == theirs
        ]

    def _layout(self) -> NDArray[np.int64] | None:
        """Return for each row of the result the row there, -1 where it is not; None if tensors differ in that."""
        found = [self._steps[name].layout(self._plans[name]) for name in self._aligned()]
        if not found or any(not np.array_equal(found[0], other) for other in found[1:]):
            return None
        return found[0]

    def _keep_up(self, draft: Draft) -> None:
        """Let tensors that are here only lose and gain rows as the others do, so that lengths stay equal."""
        steps = self._steps[self._aligned()[0]]
        count = self._length(self.ours, "ours")
        for key in self._schema.alone:
            if self.ours.tensors[key].length == count and count:
                if len(steps.appends):
                    draft.pad(key, len(steps.appends))
                draft.pop(key, steps.deletes.tolist())

    def _apply_rows(
        self, draft: Draft, incoming: Incoming, name: str, meanings: NDArray[np.int64] | None
    ) -> None:
        pair, steps = self._pairs[name], self._steps[name]
        if steps.is_empty:
            return
        incoming.update(pair.ours, pair.theirs, steps.updates, meanings)
        before = self.ours.tensors[pair.ours].length
        incoming.append(pair.ours, pair.theirs, steps.appends, meanings)
        values = dict(steps.values)
        values |= {
            before + int(np.searchsorted(steps.appends, row)): v for row, v in steps.new_values.items()
        }
        for row, value in values.items():
            state = draft.tensors[pair.ours].state
            draft.update(pair.ours, [row], encode_sample(value, state))
        draft.pop(pair.ours, steps.deletes.tolist())

    def _class_names(self, pair: Pair) -> tuple[list[str] | None, NDArray[np.int64] | None]:
        """Return the names of classes of the result, and what numbers there mean here."""
        ours, theirs = self.ours.tensors[pair.ours], self.theirs.tensors[pair.theirs]
        if theirs.meta.htype not in ("class_label", "segment_mask"):
            return None, None
        names = theirs.info.get("class_names")
        if not isinstance(names, list) or not names:
            return None, None
        return merged_names(ours.info.get("class_names") or [], names)

    def _merge_info(self, draft: Draft, pair: Pair) -> NDArray[np.int64] | None:
        ours, theirs = self.ours.tensors[pair.ours], self.theirs.tensors[pair.theirs]
        base = None if pair.base is None else self.base.tensors.get(pair.base)
        before = ours.info if base is None else base.info
        names, meanings = self._class_names(pair)
        info = merged_info(before, ours.info, theirs.info, prefer_theirs=self._prefers_theirs)
        if names is not None:
            info["class_names"] = names
        if info != dict(ours.info):
            draft.set_tensor_info(pair.ours, info)
        return meanings


def _same_start(one: ChunkTable, other: ChunkTable) -> int:
    """Count the first samples that lie in the same chunks in both tables."""
    rows = min(len(one), len(other))
    same = (one.ids.ids[:rows] == other.ids.ids[:rows]) & (one.ids.last[:rows] == other.ids.last[:rows])
    rows = int(np.argmin(same)) if not same.all() else rows
    while rows and any(one.folder(row) != other.folder(row) for row in range(rows)):
        rows -= 1
    return int(one.ids.last[rows - 1]) + 1 if rows else 0


def _rename(draft: Draft, renames: Sequence[tuple[str, str]]) -> None:
    """Rename tensors of which some may take the names of others."""
    waiting = []
    for number, (old, new) in enumerate(renames):
        if new in draft.meta.tensor_names:
            draft.rename_tensor(old, f"{old}_{number:08x}")
            waiting.append((f"{old}_{number:08x}", new))
        else:
            draft.rename_tensor(old, new)
    for old, new in waiting:
        if new in draft.meta.tensor_names:
            raise InvalidOperationError(f"tensor {old!r} can not be renamed to {new!r}: there is one already")
        draft.rename_tensor(old, new)
