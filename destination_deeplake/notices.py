"""Log records of the library and the connector as LOG messages instead of text on standard error.

A platform treats every line on standard error as an error. Logs and warnings of lakebed hold no records and no secrets;
other libraries are not redirected.
"""

import contextlib
import logging
import warnings
from collections.abc import Iterator
from typing import TextIO

from destination_deeplake.messages import Level, Output

_LIBRARY, _CONNECTOR = "lakebed", "destination_deeplake"
_LEVELS: tuple[tuple[int, Level], ...] = (
    (logging.ERROR, "ERROR"),
    (logging.WARNING, "WARN"),
    (logging.INFO, "INFO"),
)


class _Notices(logging.Handler):
    """Handler that sends log records as LOG messages."""

    def __init__(self, out: Output) -> None:
        super().__init__()
        self._out = out

    def emit(self, record: logging.LogRecord) -> None:
        level: Level = next((name for least, name in _LEVELS if record.levelno >= least), "DEBUG")
        self._out.log(level, record.getMessage())


@contextlib.contextmanager
def notices(out: Output, *, debug: bool) -> Iterator[None]:
    """Send logs and warnings of the library to `out` during the block."""
    loggers, handler = [logging.getLogger(name) for name in (_LIBRARY, _CONNECTOR)], _Notices(out)
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG if debug else logging.WARNING)
    with warnings.catch_warnings():
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if category.__module__.partition(".")[0] == _LIBRARY:
                out.log("WARN", str(message))
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.removeHandler(handler)
                logger.setLevel(level)
