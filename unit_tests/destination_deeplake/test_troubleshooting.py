"""Every error message of the connector has its place in docs/troubleshooting.md, and the page has none that is gone."""

import re
from pathlib import Path

from unit_tests.destination_deeplake.messages_in_code import messages

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
ENTRY = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
NOT_MESSAGES = {"config_error", "transient_error", "system_error"}


def entries() -> list[str]:
    found = [entry for entry in ENTRY.findall(PAGE.read_text(encoding="utf-8")) if entry not in NOT_MESSAGES]
    assert len(found) > 60
    return found


def speaks_of(entry: str, message: str) -> bool:
    """Whether the parts of an entry stand in a message, in order."""
    parts = [re.escape(part) for part in entry.strip("…").split("…")]
    return re.search(".*?".join(parts), message, re.DOTALL) is not None


def test_every_message_has_its_place() -> None:
    known = entries()
    missing = [
        f"{where}: {message}"
        for message, where in messages().items()
        if not any(speaks_of(entry, message) for entry in known)
    ]
    assert not missing, "write them into docs/troubleshooting.md:\n" + "\n".join(missing)


def test_the_page_speaks_of_messages_that_exist() -> None:
    texts = messages()
    gone = [entry for entry in entries() if not any(speaks_of(entry, message) for message in texts)]
    assert not gone, "no such messages any more, see docs/troubleshooting.md:\n" + "\n".join(gone)


def test_an_entry_is_told_from_another() -> None:
    assert speaks_of("a … c", "x a b c")
    assert not speaks_of("a … c", "c b a")
    assert not speaks_of("is missing; write …", "is missing; the two keys")
