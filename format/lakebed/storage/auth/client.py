"""Access of a client to a store, which remains valid when credentials expire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakebed.errors import LakebedError
from lakebed.runtime import clock
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.credentials import Grant

# obstore keeps credentials until five minutes before they expire, and requests them again with each request after
# that, at most ten times per second. This expiry makes it always ask, so that `Renewal` decides when to renew.
_SOON = timedelta(seconds=60)

# Number of seconds for which new credentials count as valid: a refusal within this time has another reason.
_SETTLED = 30.0


@dataclass(slots=True)
class Access:
    """The access to one bucket.

    Parameters
    ----------
    label
        Source of the credentials, if no renewal names it.
    config
        Settings for the store of obstore.
    client_options
        Settings for its connections: certificates, proxies, headers.
    renewal
        Credentials that are renewed; None if `config` holds all credentials.
    shape
        Converts a grant into the form of obstore.
    """

    label: str
    config: Mapping[str, Any]
    client_options: Mapping[str, Any]
    renewal: Renewal | None = None
    shape: Callable[[Grant], dict[str, Any]] = field(default=lambda grant: dict(grant.values))
    _handed: Grant | None = field(default=None, init=False)
    _handed_at: float = field(default=0.0, init=False)
    _failure: LakebedError | None = field(default=None, init=False)

    def __repr__(self) -> str:
        return f"Access({self.name!r})"

    @property
    def name(self) -> str:
        """Source of the credentials, for logs and ``lakebed doctor``; never a secret."""
        return self.label or (self.renewal.name if self.renewal is not None else "")

    @property
    def provider(self) -> Callable[[], dict[str, Any]] | None:
        """Function that obstore calls for credentials; None if `config` holds all credentials."""
        return self._provide if self.renewal is not None else None

    def _provide(self) -> dict[str, Any]:
        assert self.renewal is not None  # noqa: S101 - see `provider`
        try:
            grant = self.renewal.grant()
            shaped = self.shape(grant)
        except LakebedError as error:
            # obstore would convert the error to a text; store it, so that callers can raise it unchanged.
            self._failure = error
            raise
        if grant is not self._handed:
            self._handed, self._handed_at = grant, clock.monotonic()
        self._failure = None
        return {**shaped, "expires_at": None if grant.expires is None else datetime.now(UTC) + _SOON}

    def failure(self) -> LakebedError | None:
        """Return the error of the last request for credentials; None if the request succeeded."""
        return self._failure

    @property
    def may_have_ended(self) -> bool:
        """True if credentials that expired early may explain a refusal without a stated reason.

        Not every store reports an expired token as such: Ceph reports a missing permission. Clocks may differ, too.
        """
        grant = self._handed
        is_old = clock.monotonic() - self._handed_at > _SETTLED
        return grant is not None and grant.expires is not None and is_old

    def renew(self) -> bool:
        """Get other credentials after the store rejected these; the caller then connects again with :func:`resolve`.

        Returns
        -------
        bool
            Whether other credentials were found.
        """
        return self.renewal is not None and self.renewal.renew(self._handed)
