"""Report of class names that a change adds, as in 3.9.52; without a report, users miss misspelt class names."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from lakebed import config
from lakebed.runtime.printable import printable
from lakebed.session.session import Session
from lakebed.versions.state import TensorState


class NewClasses:
    """Context that prints the names that a change has added to ``info.class_names``.

    The context is entered before the change and left after it, so that an error in printing cannot undo the change.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._before: list[TensorState] = []

    def of(self, states: Iterable[TensorState]) -> None:
        """Record tensors that are about to be changed."""
        if config.TELL_NEW_CLASSES:
            self._before += [state for state in states if state.meta.htype == "class_label"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._before:
            return
        now = self._session.schema().tensors
        with suppress(OSError, ValueError):  # standard output may be closed
            for state in self._before:
                known = list(state.info.get("class_names") or ())
                names = list(now[state.key].info.get("class_names") or ())
                for number in range(len(known), len(names)):
                    line = f"'{names[number]}' added to {state.meta.name}.info.class_names at index {number}"
                    print(printable(line))
