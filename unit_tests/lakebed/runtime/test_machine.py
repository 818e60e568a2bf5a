"""Numbers that identify a machine."""

from __future__ import annotations

import sys
import uuid
from pathlib import Path

import pytest

from lakebed.runtime import machine

CARD, RANDOM = 0x020304050607, 0x010304050607


def test_the_address_of_the_card_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uuid, "getnode", lambda: CARD)
    assert machine.node_id() == CARD


@pytest.mark.skipif(sys.platform != "linux", reason="its kernel tells the boot and the namespace")
def test_without_a_card_all_processes_of_a_boot_and_namespace_have_one_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = set()
    for number in (RANDOM, RANDOM + 1):
        monkeypatch.setattr(uuid, "getnode", lambda number=number: number)
        found.add(machine.node_id())
    (one,) = found
    assert one not in (RANDOM, RANDOM + 1)
    assert one & 1 << 40, "no card has it"

    monkeypatch.setattr(machine, "boot_id", lambda: bytes(range(16)))
    assert machine.node_id() != one
    monkeypatch.setattr(machine, "boot_id", lambda: bytes(16))
    assert machine.node_id() == RANDOM + 1, "nothing better is known"


def test_a_namespace_that_cannot_be_asked_for_leaves_the_random_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uuid, "getnode", lambda: RANDOM)
    monkeypatch.setattr(machine, "Path", lambda name: tmp_path / "missing")
    monkeypatch.setattr(machine, "boot_id", lambda: bytes(range(16)))
    assert machine.node_id() == RANDOM
