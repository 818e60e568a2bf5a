"""What the library logs and warns of becomes LOG messages; what others say stays where it was."""

import json
import logging
import os
import warnings
from typing import Any

import pytest

import lakebed
from destination_deeplake.messages import Output
from destination_deeplake.notices import notices


def said(*, debug: bool, speak: Any) -> list[tuple[str, str]]:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with notices(Output(writer, debug=debug), debug=debug):
            speak()
    os.close(writer)
    with os.fdopen(reader, "rb") as lines:
        logs = [json.loads(line)["log"] for line in lines]
    return [(log["level"], log["message"]) for log in logs]


def speak() -> None:
    logger = logging.getLogger("lakebed.storage")
    logger.debug("asked %s", "s3")
    logger.warning("slow")
    logger.error("broken")
    logging.getLogger("botocore").warning("not ours")
    warnings.warn("weak", lakebed.WeakStoreWarning, stacklevel=1)


def test_the_library_speaks_in_log_messages() -> None:
    expected = [("WARN", "slow"), ("ERROR", "broken"), ("WARN", "weak")]
    assert said(debug=False, speak=speak) == expected
    assert said(debug=True, speak=speak) == [("DEBUG", "asked s3"), *expected]


def test_others_are_left_alone() -> None:
    with pytest.warns(UserWarning, match="of python"):
        assert said(debug=False, speak=lambda: warnings.warn("of python", UserWarning, stacklevel=1)) == []


def test_afterwards_everything_is_as_it_was() -> None:
    logger = logging.getLogger("lakebed")
    before = logger.level, list(logger.handlers), warnings.showwarning
    said(debug=True, speak=lambda: None)
    assert (logger.level, list(logger.handlers), warnings.showwarning) == before
