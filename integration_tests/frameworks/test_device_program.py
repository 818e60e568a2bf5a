"""`make device` on a machine without a GPU: its CPU half runs, and says what it leaves out."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("torchvision")
pytestmark = pytest.mark.frameworks

ROOT = Path(__file__).parents[2]


def test_the_cpu_half(tmp_path: Path) -> None:
    program = [
        sys.executable,
        "-m",
        "benchmarks.device",
        "--folder",
        str(tmp_path),
        "--photos",
        "24",
        "--size",
        "96",
    ]
    program += ["--crop", "32", "--batch", "4", "--workers", "1", "--seconds", "0.2", "--vectors", "500"]
    results = (ROOT / "benchmarks/RESULTS.md").read_bytes()
    hidden = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{ROOT / 'format'}"}
    run = subprocess.run(program, check=False, capture_output=True, text=True, cwd=ROOT, env=hidden)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    told = run.stdout
    assert "24 photos of" in told
    for source in ("decoded on threads", "JPEG files decoded on the device", "DataLoader, torchvision"):
        assert re.search(rf"\| (lakebed, )?{source} \| [\d,]+ \|  \|  \|", told), told
    assert re.search(r"\| cosine \| [\d.]+ ms \| [\d.]+ ms \|", told)
    assert "no GPU: figures for a card are left out, and nothing is saved" in told
    assert not list(tmp_path.iterdir())
    assert (ROOT / "benchmarks/RESULTS.md").read_bytes() == results
