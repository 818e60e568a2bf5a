"""The connector's record of a stream, in `ds.info["airbyte"]`.

namespace, stream     real names; another stream that maps to the same folder is refused
mode                  sync mode of the last sync, for people
columns               column -> tensor, kept for ever, so that a tensor never changes its meaning
kinds                 column -> kind of its tensor; later syncs coerce their values to it
key                   tensors whose values together are unique in each row; absent if that is not guaranteed
generation_id         generation of the oldest rows, null if the runner has no generations
brought_in            version of the side branch whose rows were added, until that branch is deleted

`layout` describes the other members.
"""

from collections.abc import Mapping
from typing import Any

import lakebed
from destination_deeplake.catalog import StreamPlan
from destination_deeplake.failures import ConfigError

INFO_KEY = "airbyte"


def recorded(dataset: lakebed.Dataset, plan: StreamPlan, path: str) -> Mapping[str, Any] | None:
    """Return the record of the stream; None in a new dataset."""
    found = dataset.info.get(INFO_KEY)
    if not isinstance(found, Mapping):
        if dataset.tensors:
            raise ConfigError(
                f"The folder {path} of stream {str(plan)!r} holds a dataset that is not of this connector;"
                " move it away or choose another destination_path."
            )
        # The dataset is empty: an earlier sync ended before it could write more.
        return None
    owner = (found.get("namespace"), found.get("stream"))
    if owner != plan.dataset_key:
        raise ConfigError(
            f"The folder {path} holds the stream {_named(owner)}, but the catalog wants it for "
            f"{_named(plan.dataset_key)}. Rename one of the streams or choose another destination_path."
        )
    return found


def _named(owner: tuple[Any, Any]) -> str:
    namespace, stream = owner
    return f"{stream!r}" + (f" of namespace {namespace!r}" if namespace else " without a namespace")


def label(target: lakebed.Dataset, plan: StreamPlan, known: Mapping[str, Any] | None) -> None:
    """Record the stream in a new dataset, so that no other stream can use it."""
    if known is None:
        target.info[INFO_KEY] = {"namespace": plan.namespace, "stream": plan.name, "columns": {}, "kinds": {}}
        target.flush()


def remember(dataset: lakebed.Dataset, **facts: Any) -> None:
    """Set members of the record; None removes one. The next flush publishes it."""
    before = dict(dataset.info[INFO_KEY])
    after = {key: value for key, value in (before | facts).items() if key not in facts or value is not None}
    if after != before:
        dataset.info[INFO_KEY] = after
