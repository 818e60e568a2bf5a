"""Identity of this machine, as locks name it."""

from __future__ import annotations

import uuid
from functools import cache
from pathlib import Path

_NO_CARD = 1 << 40
"""Bit of a number that is no address of a network card (RFC 4122, 4.5)."""


def node_id() -> int:
    """Return 48 bits that identify this machine: the address of its network card, as 3.x writes it.

    Some Pythons find no card, as those of Debian from 3.14 on if no program lists the cards; ``uuid.getnode`` is then
    another random number in each process. The present boot and the namespace of process ids replace it, so that a
    process recognizes what an earlier one of this machine left.
    """
    found = uuid.getnode()
    if not found & _NO_CARD or boot_id() == bytes(16):
        return found
    try:
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return found
    return (int.from_bytes(boot_id()[:6]) ^ namespace) | _NO_CARD


@cache
def boot_id() -> bytes:
    """Return 16 bytes that identify the present boot of this kernel, equal in all containers; zeros if unknown."""
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        found = bytes.fromhex(text.strip().replace("-", ""))
    except (OSError, ValueError):
        found = b""
    return found if len(found) == 16 else bytes(16)
