"""The whole configuration, typed."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from destination_deeplake.choices import DELETION_DAYS, Compression, StreamChoices
from destination_deeplake.config.credentials import credentials
from destination_deeplake.config.files import read_json_object
from destination_deeplake.config.place import Place, address
from destination_deeplake.config.streams import StreamRule, choices_for, stream_rules
from destination_deeplake.config.values import Section

_BRANCH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_OURS = "airbyte-"
_MOST_DAYS = 3650
_INJECTED = "__"
"""Prefix of fields that Airbyte's ConfigInjector adds, such as `__injected_declarative_manifest`."""
_OF_API = "destinationType"
"""Field in which Airbyte's API and its Terraform provider name the connector; servers remove it."""

REPLACED: Mapping[str, str] = {
    "path": "write the place into destination_path",
    "token": "choose a method under credentials; no account is needed any more",
    "managed_creds": "write the name into creds_key of the columns that hold links, or choose the method named under "
    "credentials",
    "overwrite_tensor_definitions": "write htype, dtype and compression into the columns of streams",
    "neglected_tensors": "write the columns into exclude of streams",
    "custom_transform": "the connector runs no code of its users any more; transform the columns at the source, or the "
    "dataset afterwards",
}
"""Fields of the connector of 2022 -> their replacements. They are refused, because their author expects an effect."""


class Deletes(StrEnum):
    """Effect of a deletion at the source on the stored row."""

    HARD = "hard"
    """The row is removed. Older versions of the dataset still have it."""
    SOFT = "soft"
    """The row stays, with the time of its deletion in `_ab_cdc_deleted_at`."""


class Rejected(StrEnum):
    """Treatment of lines that are not records of a stream, and of values that do not fit their column."""

    FAIL = "fail"
    """A bad line ends the sync; a bad value becomes null, noted in `_airbyte_meta`."""
    KEEP = "keep"
    """Bad lines and values are kept as dead letters beside the streams, and the sync continues."""


class WithoutStatus(StrEnum):
    """Condition under which an overwritten stream without a stream status is complete."""

    NEVER = "never"
    """Never."""
    WITH_STATE = "with_state"
    """If a state of the stream, or of all streams, followed its last record."""
    ALWAYS = "always"
    """If the input ended, and was not empty."""


@dataclass(frozen=True, slots=True)
class DestinationConfig:
    """The validated configuration.

    Attributes
    ----------
    place : Place
        Location of the datasets, which need not exist.
    deletes : Deletes
        Effect of deletions at the source.
    rejected : Rejected
        Treatment of lines and values that cannot be stored.
    branch : str or None
        Branch of every dataset that this connection writes; None is the main branch.
    connection : str or None
        Name of the connection in commit messages.
    rules : sequence of StreamRule
        Rules for the choices of streams, see `choices`.
    compression : Compression
        The columns that are compressed, if no rule decides.
    deletion_days : int
        Number of days for which hard deletions are remembered.
    without_status : WithoutStatus
        Condition under which an overwritten stream without a stream status is complete.
    """

    place: Place
    deletes: Deletes = Deletes.HARD
    rejected: Rejected = Rejected.FAIL
    branch: str | None = None
    connection: str | None = None
    rules: Sequence[StreamRule] = ()
    compression: Compression = Compression.AUTO
    deletion_days: int = DELETION_DAYS
    without_status: WithoutStatus = WithoutStatus.WITH_STATE

    def choices(self, namespace: str | None, name: str) -> StreamChoices:
        """Return the user's choices for a stream."""
        return choices_for(self.rules, namespace, name, self.compression)

    def unmatched(self, streams: Iterable[tuple[str | None, str]]) -> list[StreamRule]:
        """Return the rules that match none of these streams, given as (namespace, name): they may be misspelt."""
        known = list(streams)
        return [rule for rule in self.rules if not any(rule.matches(*stream) for stream in known)]

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> "DestinationConfig":
        """Check the values of a configuration.

        Raises
        ------
        ConfigError
            If a value or a field is invalid; the message names the field and the remedy.
        """
        _refuse_historic(Section(values))
        form = Section(values)
        url = address(form)
        config = cls(
            place=Place(url, credentials(form, url)),
            deletes=Deletes(form.choice("cdc_deletes", list(Deletes)) or Deletes.HARD),
            deletion_days=_deletion_days(form),
            rejected=Rejected(form.choice("rejected_records", list(Rejected)) or Rejected.FAIL),
            without_status=WithoutStatus(
                form.choice("complete_without_status", list(WithoutStatus)) or WithoutStatus.WITH_STATE
            ),
            branch=_branch(form),
            connection=_connection(form),
            rules=stream_rules(form),
            compression=Compression(form.choice("chunk_compression", list(Compression)) or Compression.AUTO),
        )
        form.finish(also=[_OF_API, *(key for key in values if key.startswith(_INJECTED))])
        return config


def _deletion_days(form: Section) -> int:
    found = form.whole("cdc_deletes_days", 0, _MOST_DAYS)
    return DELETION_DAYS if found is None else found


def _branch(form: Section) -> str | None:
    name = form.text("branch")
    if name is None or name == "main":
        return None
    if not _BRANCH.fullmatch(name) or _COMMIT.fullmatch(name):
        raise form.error(
            "branch",
            f"{name!r} is not possible; write up to 100 letters, digits, - _ . that begin with a letter or digit and "
            "are no commit id.",
        )
    if name.startswith(_OURS):
        raise form.error(
            "branch", f"{name!r} is not possible: branches that begin with {_OURS} are the connector's."
        )
    return name


def _connection(form: Section) -> str | None:
    name = form.text("connection_name")
    if name is not None and not name.isprintable():
        raise form.error("connection_name", "must be one line of text without control characters.")
    return name


def read_config(path: str) -> DestinationConfig:
    """Read and check a configuration file.

    Raises
    ------
    ConfigError
        If the file cannot be read, is not a JSON object or holds an invalid value.
    """
    return DestinationConfig.from_mapping(read_json_object(path, "configuration"))


def _refuse_historic(form: Section) -> None:
    """Refuse a field of the old connector.

    Raises
    ------
    ConfigError
        If the form has such a field; the message names its replacement, but no value.
    """
    for key, instead in REPLACED.items():
        if key in form:
            raise form.error(key, f"is a field of the connector of 2022; remove it, and {instead}.")
