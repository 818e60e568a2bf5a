"""Credentials for stores as users give them: their secret parts, and the parts that other processes receive.

A dictionary of a user is wrapped at once, see :func:`kept`: its secrets become :class:`Secret`, which a pickle of a
dataset does not contain. :func:`lakebed.storage.auth.resolve` converts it for a client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from lakebed.errors import InvalidInputError, LakebedError, ManagedCredentialsNotFoundError
from lakebed.storage.secret import SHOWN, Secret, may_travel

T = TypeVar("T")

NAMED = "creds_key"
"""Key of the dictionary that names credentials instead of giving them."""

FROM_ENVIRONMENT = "ENV"
"""Value that 3.x accepts instead of a dictionary, for credentials from the environment."""

SETTINGS = frozenset(
    """
    creds_key endpoint_url aws_region region region_name profile_name role_arn role_session_name duration_seconds
    sts_endpoint_url requester_pays sse sse_kms_key_id bucket_key_enabled addressing_style anonymous ca_bundle verify
    account_name client_id tenant_id authority_host use_emulator managed_identity federated_token_file use_azure_cli
    project
    """.split()
)
"""Keys whose values are not secret; all other keys are treated as secret."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Credentials that are valid now.

    Parameters
    ----------
    values
        Parts of the credentials, under the keys of the 3.x dictionary: ``aws_access_key_id``,
        ``aws_secret_access_key``, ``endpoint_url``, ...
    expires
        Time of expiry in POSIX seconds; None if the credentials do not expire.
    """

    values: Mapping[str, Any]
    expires: float | None = None


@runtime_checkable
class CredentialSource(Protocol):
    """Source of credentials, which every process asks when it needs them."""

    @property
    def name(self) -> str:
        """Name for logs and ``lakebed doctor``; never a secret."""
        ...

    def grant(self) -> Grant:
        """Return credentials that are valid for the next minutes.

        Callers keep the answer until shortly before it expires, so a source need not keep it.

        Raises
        ------
        MissingCredsError
            If no credentials are available.
        """
        ...


def answer_of(
    call: Callable[[], T], *, passing: type[Exception] | tuple[()] = LakebedError
) -> tuple[T | None, str]:
    """Call a provider's code; return its result, or None and the class name of its error.

    Errors of a provider and their frames may hold a secret, so they must not appear in a traceback.

    Parameters
    ----------
    passing
        Errors that show no secret and are raised.
    """
    try:
        return call(), ""
    except passing:
        raise
    except Exception as error:  # noqa: BLE001 - code of others raises anything
        return None, type(error).__name__


Creds = Mapping[str, Any] | CredentialSource | str
"""Type of the ``creds`` argument of the public functions."""


class Given(Mapping[str, Any]):
    """Credentials that a caller gave; every value that may be secret is a :class:`Secret`.

    A pickle holds the settings, the names of the secrets and the source, not the secrets: see `left_behind`. A pickle
    for a process that this one has started holds the secrets, too: see `secret.for_own_process`.

    Parameters
    ----------
    values
        The dictionary. None as a value counts as not given.
    left_behind
        Names of secrets that were given in another process.
    source
        A source of credentials that was given instead of a dictionary.
    """

    def __init__(
        self,
        values: Mapping[str, Any],
        left_behind: tuple[str, ...] = (),
        source: CredentialSource | None = None,
    ) -> None:
        for key in values:
            if not isinstance(key, str):
                raise InvalidInputError(f"the keys of creds must be text, not {type(key).__name__}")
        self._values = {key: _covered(key, value) for key, value in values.items() if value is not None}
        self.left_behind = left_behind
        self.source = source
        self.made: dict[Any, Any] = {}
        """Objects made from the credentials, such as clients, which all holders share."""

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return self.source is not None or bool(self._values)

    def __repr__(self) -> str:
        if self.source is not None:
            return f"Given({self.source.name})"
        return f"Given({', '.join(f'{key}={_shown(value)}' for key, value in self._values.items())})"

    def __copy__(self) -> Given:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Given:
        # The object never changes, so return it instead of a copy.
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if may_travel():
            values = {key: _revealed(value) for key, value in self._values.items()}
            return type(self), (values, self.left_behind, self.source)
        settings = {key: value for key, value in self._values.items() if not _is_secret(key, value)}
        secrets = tuple(key for key in self._values if key not in settings)
        return type(self), (settings, self.left_behind + secrets, self.source)


def kept(creds: Creds | None) -> Given | None:
    """Wrap the credentials of a caller, so that no secret is shown by accident.

    Raises
    ------
    InvalidInputError
        If `creds` is neither a dictionary nor a source of credentials.
    """
    if creds is None or isinstance(creds, Given):
        return creds
    if isinstance(creds, CredentialSource):
        return Given({}, source=creds)
    if isinstance(creds, str):
        return None if creds == FROM_ENVIRONMENT else Given({"token": creds})
    if isinstance(creds, Mapping):
        return Given(creds)
    raise InvalidInputError(
        f"creds must be a dictionary or a source of credentials, not {type(creds).__name__}"
    )


Resolver = Callable[[str], CredentialSource]
_resolvers: list[Resolver] = []


def register_named(resolver: Resolver) -> None:
    """Set the function that finds credentials by name, for ``creds={"creds_key": name}``."""
    _resolvers.append(resolver)


def named(name: str) -> CredentialSource:
    """Return the source of the credentials with a name.

    Raises
    ------
    ManagedCredentialsNotFoundError
        If no provider knows the name.
    """
    if not _resolvers:
        raise ManagedCredentialsNotFoundError(
            f"this process cannot look up names of credentials, such as {name!r}"
        )
    return _resolvers[-1](name)


def _is_secret(key: str, value: Any) -> bool:
    return key not in SETTINGS or isinstance(value, Secret)


def _covered(key: str, value: Any) -> Any:
    if isinstance(value, (Secret, bool)):
        return value
    if key in SETTINGS:
        holds_password = isinstance(value, str) and "@" in value and bool(urlsplit(value).password)
        return Secret(value) if holds_password else value
    if isinstance(value, str):
        return Secret(value)
    if isinstance(value, Mapping):
        # The mapping is a service account of Google, or headers: store it as one text, so that all of it is hidden.
        plain = {str(k): v.reveal() if isinstance(v, Secret) else v for k, v in value.items()}
        return Secret(json.dumps(plain))
    return value


def _revealed(value: Any) -> Any:
    return value.reveal() if isinstance(value, Secret) else value


def _shown(value: Any) -> str:
    if isinstance(value, str) and "@" in value and urlsplit(value).password:
        return SHOWN
    return repr(value)
