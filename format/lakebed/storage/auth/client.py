"""What a client of a store needs to be let in, and to stay in when credentials run out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from lakebed.errors import LakebedError
from lakebed.runtime import clock
from lakebed.storage.auth.renewal import Renewal
from lakebed.storage.credentials import Grant

# obstore keeps credentials until five minutes before they end; of those that end sooner it asks for news with the
# requests, ten times a second at most. It is always told "soon", so that it is the renewal that decides.
_SOON = timedelta(seconds=60)

# Seconds for which new credentials are believed to be valid: what is refused meanwhile is refused for another reason.
_SETTLED = 30.0


@dataclass(slots=True)
class Access:
    """A way into one bucket.

    Parameters
    ----------
    label
        Who let us in, if no renewal says it.
    config
        Settings for the store of obstore.
    client_options
        Settings for its connections: certificates, proxies, headers.
    renewal
        Credentials, where they are asked for again and again; None if `config` says all.
    shape
        Puts a grant into the form that obstore wants.
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
        """Who let us in, for logs and ``lakebed doctor``: never a secret."""
        return self.label or (self.renewal.name if self.renewal is not None else "")

    @property
    def provider(self) -> Callable[[], dict[str, Any]] | None:
        """What obstore calls for credentials; None if it needs none but those of `config`."""
        return self._provide if self.renewal is not None else None

    def _provide(self) -> dict[str, Any]:
        if self.renewal is None:
            return {}
        try:
            grant = self.renewal.grant()
            shaped = self.shape(grant)
        except LakebedError as error:
            # obstore makes a text of it: the caller finds the error itself here.
            self._failure = error
            raise
        if grant is not self._handed:
            self._handed, self._handed_at = grant, clock.monotonic()
        self._failure = None
        return {**shaped, "expires_at": None if grant.expires is None else datetime.now(UTC) + _SOON}

    def failure(self) -> LakebedError | None:
        """Return the error for which there were no credentials when they were last asked for."""
        return self._failure

    @property
    def may_have_ended(self) -> bool:
        """Whether a refusal without a clear reason may be due to credentials that ended before their time.

        Not every store says that a token has ended: Ceph says that it may not do this. Clocks may differ, too.
        """
        grant = self._handed
        is_old = clock.monotonic() - self._handed_at > _SETTLED
        return grant is not None and grant.expires is not None and is_old

    def renew(self) -> bool:
        """Get other credentials, as the store rejected these; connect anew with :func:`resolve` afterwards.

        Returns
        -------
        bool
            Whether there are others.
        """
        return self.renewal is not None and self.renewal.renew(self._handed)
