"""Renewal of credentials before they expire, once for all threads; a forked child renews its own."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable
from typing import NamedTuple

from lakebed.errors import LakebedError, MissingCredsError
from lakebed.runtime import clock, process_hooks
from lakebed.storage.credentials import CredentialSource, Grant, answer_of

log = logging.getLogger(__name__)

# Seconds before the expiry at which credentials are renewed; if they are valid for less than four times as long, they
# are renewed after three quarters of that time.
MARGIN = 300.0
_SHARE = 0.25

# If credentials have expired when they arrive, the clock of this machine is fast; use them for this number of seconds.
_AHEAD = 30.0

# Seconds until the next attempt if a renewal fails while the old credentials are still valid.
_PAUSE = 5.0


class _Kept(NamedTuple):
    grant: Grant
    due: float | None


class Renewal:
    """A source that keeps the grant of another source until shortly before it expires.

    While the present credentials are valid, no request waits for new ones: a separate thread requests them, since the
    callers may be the few threads that serve all requests. If that fails, the present credentials are used until they
    expire.

    Parameters
    ----------
    source
        The other source, or a function that returns a grant.
    name
        Name of the function's source; other sources have a name of their own.
    """

    def __init__(self, source: CredentialSource | Callable[[], Grant], name: str = "") -> None:
        process_hooks.start()
        self._source = source
        self._name = name
        self._kept: _Kept | None = None
        self._busy = threading.Lock()
        _all.add(self)

    @property
    def name(self) -> str:
        """Name of the source."""
        return self._source.name if isinstance(self._source, CredentialSource) else self._name

    def __repr__(self) -> str:
        return f"Renewal({self.name!r})"

    def __reduce__(self) -> tuple[type[Renewal], tuple[CredentialSource | Callable[[], Grant], str]]:
        return type(self), (self._source, self._name)

    def grant(self) -> Grant:
        """Return credentials that are valid now.

        Raises
        ------
        MissingCredsError
            If no credentials are available.
        """
        kept, now = self._kept, clock.now()
        if kept is not None and (kept.due is None or now < kept.due):
            return kept.grant
        if kept is not None and (kept.grant.expires is None or now < kept.grant.expires):
            self._ask_aside(kept)
            return kept.grant
        with self._busy:
            if self._kept is not None and self._kept is not kept:
                return self._kept.grant
            return self._ask(kept)

    def _ask_aside(self, kept: _Kept) -> None:
        """Renew the credentials in another thread, unless a thread is already doing so."""
        busy = self._busy
        if not busy.acquire(blocking=False):
            return

        def ask() -> None:
            try:
                if self._kept is kept:
                    self._ask(kept)
            except LakebedError as error:
                log.warning("credentials from %s could not be renewed: %s", self.name, error)
            finally:
                busy.release()

        try:
            threading.Thread(target=ask, name="lakebed-credentials", daemon=True).start()
        except RuntimeError:  # the interpreter is exiting
            busy.release()

    def renew(self, rejected: Grant | None) -> bool:
        """Request new credentials, because the store rejected credentials that should be valid.

        Parameters
        ----------
        rejected
            The rejected grant. If a newer grant is known already, the source is not called.

        Returns
        -------
        bool
            Whether other credentials are known now.
        """
        with self._busy:
            if self._kept is None or (rejected is not None and self._kept.grant is not rejected):
                return True
            before = self._kept
            self._forget()
            return self._ask(None).values != before.grant.values

    def refresh(self) -> None:
        """Drop the credentials, so that the next use requests new ones; make the source drop its credentials, too."""
        with self._busy:
            self._forget()

    def _forget(self) -> None:
        self._kept = None
        refresh = getattr(self._source, "refresh", None)
        if refresh is not None:
            refresh()

    def _ask(self, kept: _Kept | None) -> Grant:
        started = clock.now()
        try:
            grant = self._granted()
        except LakebedError as error:
            if kept is None or (kept.grant.expires is not None and clock.now() >= kept.grant.expires):
                raise
            log.warning("credentials from %s could not be renewed yet: %s", self.name, error)
            self._kept = _Kept(kept.grant, clock.now() + _PAUSE)
            return kept.grant
        self._kept = _Kept(grant, _due(grant, started))
        if grant.expires is not None and grant.expires <= started:
            log.warning(
                "credentials from %s expired %.0f seconds ago by the clock of this machine: correct the clock",
                self.name,
                started - grant.expires,
            )
        elif grant.expires is not None:
            log.debug("credentials from %s are valid until %s UTC", self.name, clock.utc(grant.expires))
        return grant

    def _granted(self) -> Grant:
        source = self._source
        grant, failure = answer_of(source.grant if isinstance(source, CredentialSource) else source)
        if grant is None:
            raise MissingCredsError(
                f"{self.name} gives no credentials: it failed with {failure}; call its grant() to see why"
            )
        return grant


def _due(grant: Grant, now: float) -> float | None:
    if grant.expires is None:
        return None
    if grant.expires <= now:
        return now + _AHEAD
    return grant.expires - min(MARGIN, _SHARE * (grant.expires - now))


_all: weakref.WeakSet[Renewal] = weakref.WeakSet()


def _after_fork() -> None:
    # A thread of the parent may hold the lock; no thread of the child would ever release it.
    for renewal in list(_all):
        renewal._busy = threading.Lock()  # noqa: SLF001 - same module


process_hooks.after_fork(_after_fork)
