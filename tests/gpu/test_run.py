"""run.py itself, on the simulated device: sections run apart, are reported, and decide its status."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.kernels
RUN = Path(__file__).resolve().parent / "run.py"
ON_GPUS_ONLY = {"capture", "compiled", "bandwidth", "comparison"}


def run(folder, *options, **environment):
    """Its exit status, its output, and the sections that it wrote."""
    path = folder / "results.json"
    done = subprocess.run(
        [sys.executable, str(RUN), "--simulated", "--json", str(path), *options],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    written = json.loads(path.read_text()) if path.exists() else None
    return done.returncode, done.stdout + done.stderr, written


def test_everything(tmp_path):
    status, said, written = run(tmp_path)
    assert status == 0, said
    assert written["device"] == "simulated"
    sections = {s["section"]: s for s in written["sections"]}
    skipped = {name for name, s in sections.items() if s["status"] == "skipped"}
    assert skipped == ON_GPUS_ONLY
    assert all(sections[name]["reason"] for name in skipped)
    assert all(s["status"] == "passed" for n, s in sections.items() if n not in skipped), said
    assert all(s["rows"] for n, s in sections.items() if n not in skipped)
    for unit in ("GB/s", "GB_per_s", "tokens_per_s", "_us"):
        assert unit not in said and unit not in json.dumps(written), "a figure of no GPU"


def test_failing_section(tmp_path):
    """One op does not take its kernel: that fails where it is called, and nowhere else."""
    only = ("--only", "environment,simulator")
    status, said, written = run(tmp_path, *only, TFR_FORCE="rope:aten")
    assert status == 1
    first, second = written["sections"]
    assert first["status"] == "passed", said
    assert second["status"] == "failed" and "rope" in " ".join(second["problems"]), said


def test_broken_section(tmp_path):
    """A process that ends without a result is a failure with its output."""
    only = ("--only", "environment,model")
    status, said, written = run(tmp_path, *only, TFR_PTXSIM=str(tmp_path / "none.so"))
    assert status == 1
    assert [s["status"] for s in written["sections"]] == ["failed", "failed"]
    assert "none.so" in said


def test_unknown_section(tmp_path):
    status, said, written = run(tmp_path, "--only", "nothing")
    assert status == 2 and "no section nothing" in said and written is None
