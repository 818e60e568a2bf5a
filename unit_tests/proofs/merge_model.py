"""What a merge means for the content: a comparison of three contents, tensor by tensor and sample by sample.

`base` is the newest content that both lines come from. What changed on one line only, stands. What changed on both
lines is a conflict, unless it is the same now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from unit_tests.proofs.content import Content, Refused, Sample, Tensor

Choice = Literal["ours", "theirs"] | None
_GONE = object()


class NotModelled(Exception):
    """The library does this merge, but the model does not say what comes of it."""


@dataclass
class _Rows:
    """What becomes of the rows of one tensor: our samples, the places of theirs that come in, our places that go."""

    ours: list[Sample]
    appends: list[int]
    deletes: list[int]
    places_there: list[int]
    """For each of ours its place there, -1 if it is not."""

    @property
    def layout(self) -> list[int]:
        """For each row of the result its place there, -1 if it is not."""
        kept = [place for row, place in enumerate(self.places_there) if row not in self.deletes]
        return kept + self.appends


def merged(
    base: Content, ours: Content, theirs: Content, choice: Choice, new_id: Callable[[], int]
) -> Content:
    """Return what the merge of ``theirs`` into ``ours`` holds.

    Raises
    ------
    Refused
        If there are conflicts, and no choice.
    """
    pairs, created = _paired(base, ours, theirs)
    rows = _decided(base, ours, theirs, pairs, choice)
    our_rows = max((len(ours.tensors[o].samples) for o, _, _ in pairs.values()), default=0)
    their_rows = max((len(theirs.tensors[t].samples) for _, t, _ in pairs.values()), default=0)
    aligned = [
        rows[name]
        for name, (o, t, _) in pairs.items()
        if (len(ours.tensors[o].samples), len(theirs.tensors[t].samples)) == (our_rows, their_rows)
    ]
    # Where the rows of the dataset are rows of all tensors, they stay so: others gain and lose rows with them.
    even = bool(aligned) and all(each.layout == aligned[0].layout for each in aligned)
    names = {o: name for name, (o, _, _) in pairs.items()}
    result = {}
    for name, tensor in ours.tensors.items():
        if name in names:
            now = names[name]
            result[now] = _joined(base, tensor, theirs.tensors[pairs[now][1]], pairs[now], rows[now], choice)
        elif even and our_rows and len(tensor.samples) == our_rows:
            kept = [s for row, s in enumerate(tensor.samples) if row not in aligned[0].deletes]
            result[name] = replace(
                tensor, samples=(*kept, *_empties(tensor, len(aligned[0].appends), new_id))
            )
        else:
            result[name] = tensor
    for name in created:
        tensor = theirs.tensors[name]
        if even and len(tensor.samples) == their_rows:
            layout = aligned[0].layout
            padding = iter(_empties(tensor, layout.count(-1), new_id))
            samples = tuple(next(padding) if at < 0 else tensor.samples[at] for at in layout)
            tensor = replace(tensor, samples=samples)
        result[name] = tensor
    info = _joined_info(base.info, ours.info, theirs.info, choice)
    return Content(result, info)


def _paired(
    base: Content, ours: Content, theirs: Content
) -> tuple[dict[str, tuple[str, str, str | None]], list[str]]:
    """Find the tensors of both lines: name in the result -> names here, there, in the base; and those there only."""
    base_names = {tensor.key: name for name, tensor in base.tensors.items()}
    our_names = {tensor.key: name for name, tensor in ours.tensors.items()}
    if any(not base.tensors[name].samples for name in base_names.values()) and (
        base_names.keys() != our_names.keys() or any(t.key not in base_names for t in theirs.tensors.values())
    ):
        raise NotModelled("a tensor without samples can not be told from one that was made anew")
    pairs: dict[str, tuple[str, str, str | None]] = {}
    created = []
    for there, tensor in theirs.tensors.items():
        was, here = base_names.get(tensor.key), our_names.get(tensor.key)
        if was is not None and here is not None:
            if there not in (here, was):
                if here == was and _leaves(there, base, ours, theirs):
                    raise NotModelled("names that change places")
                if here != was or there in ours.tensors:
                    raise Refused(f"{was} is {here} here and {there} there")
                pairs[there] = (here, there, was)
            else:
                pairs[here] = (here, there, was)
        elif there in ours.tensors:
            if ours.tensors[there].htype != tensor.htype:
                raise Refused(f"{there} is another kind of tensor")
            if ours.tensors[there].key in base_names:
                raise NotModelled("a tensor that was made anew on one line")
            pairs[there] = (there, there, None)
        elif was is None:
            created.append(there)
        elif there != was:
            raise Refused(f"{was} was renamed there and deleted here")
        elif (tensor.samples, tensor.info) != (base.tensors[was].samples, base.tensors[was].info):
            created.append(there)
    return pairs, created


def _leaves(name: str, base: Content, ours: Content, theirs: Content) -> bool:
    """Whether our tensor of that name has another one there."""
    ours_key = ours.tensors[name].key if name in ours.tensors else None
    return any(t.key == ours_key and n != name for n, t in theirs.tensors.items()) and name in base.tensors


def _decided(
    base: Content,
    ours: Content,
    theirs: Content,
    pairs: Mapping[str, tuple[str, str, str | None]],
    choice: Choice,
) -> dict[str, _Rows]:
    """Compare the rows of all pairs.

    A row is one place in all tensors: where a conflict keeps a deleted one in one tensor, the others that had as many
    rows in the base keep it too.
    """
    plans, found = {}, {}
    kept: dict[int, set[int]] = {}
    for name, (here, there, was) in pairs.items():
        b = [] if was is None else list(base.tensors[was].samples)
        o, t = list(ours.tensors[here].samples), list(theirs.tensors[there].samples)
        of_b, of_o, of_t = ({sample.id: row for row, sample in enumerate(line)} for line in (b, o, t))
        plan = _Rows(list(o), [], [], [of_t.get(sample.id, -1) for sample in o])
        plan.appends = [
            row for row, sample in enumerate(t) if sample.id not in of_b and sample.id not in of_o
        ]
        for row, sample in enumerate(o):
            if sample.id not in of_t:
                continue
            their, was_value = t[of_t[sample.id]], b[of_b[sample.id]].value if sample.id in of_b else _GONE
            if their.value == was_value or their.value == sample.value:
                continue
            if sample.value == was_value or _theirs(choice, name):
                plan.ours[row] = Sample(sample.id, their.value)
        gone = [(row, s, of_o.get(s.id), of_t.get(s.id)) for row, s in enumerate(b)]
        for row, sample, at, its in gone:
            changed_here = at is not None and its is None and o[at].value != sample.value
            changed_there = at is None and its is not None and t[its].value != sample.value
            if (changed_here and not _theirs(choice, name)) or (changed_there and _theirs(choice, name)):
                kept.setdefault(len(b), set()).add(row)
        plans[name], found[name] = plan, (len(b), gone)
    for name, plan in plans.items():
        length, gone = found[name]
        stay = kept.get(length, set())
        plan.deletes = [at for row, _, at, its in gone if at is not None and its is None and row not in stay]
        back = [its for row, _, at, its in gone if at is None and its is not None and row in stay]
        plan.appends = sorted(plan.appends + back)
    return plans


def _theirs(choice: Choice, name: str) -> bool:
    """Settle a conflict."""
    if choice is None:
        raise Refused(f"both lines changed {name}")
    return choice == "theirs"


def _joined(
    base: Content,
    ours: Tensor,
    theirs: Tensor,
    names: tuple[str, str, str | None],
    rows: _Rows,
    choice: Choice,
) -> Tensor:
    """Return a tensor of both lines."""
    before = {} if names[2] is None else base.tensors[names[2]].info
    info = _joined_info(before, ours.info, theirs.info, choice)
    if "class_names" in ours.info:
        info["class_names"] = [*dict.fromkeys([*ours.info["class_names"], *theirs.info["class_names"]])]
    kept = [sample for row, sample in enumerate(rows.ours) if row not in rows.deletes]
    return replace(ours, samples=(*kept, *(theirs.samples[row] for row in rows.appends)), info=info)


def _joined_info(
    base: Mapping[str, Any], ours: Mapping[str, Any], theirs: Mapping[str, Any], choice: Choice
) -> dict[str, Any]:
    """Return our info with what changed there; of what changed on both lines ours stands, unless theirs is chosen."""
    result = dict(ours)
    for key in [*base, *theirs]:
        was, here, there = (info.get(key, _GONE) for info in (base, ours, theirs))
        if there != was and (here == was or choice == "theirs"):
            result[key] = there
    return result


def _empties(tensor: Tensor, count: int, new_id: Callable[[], int]) -> list[Sample]:
    return [Sample(new_id(), "" if tensor.htype == "text" else None) for _ in range(count)]
