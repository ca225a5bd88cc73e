"""Mutants of the kernels' PTX: the tests of this folder must notice a changed line (mutants.py says
how they are made and judged). README.md here judges each survivor; this file holds it to that.

With -s: the share that was caught, and every mutant that was not.
"""

import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
AT_LEAST = 0.95
ROW = re.compile(r"^\| ([\w ,]+) \| `(.+)` \| (equivalent|missed) \| .+ \|$", re.MULTILINE)


@cache
def judged() -> dict[tuple[str, str], str]:
    """The table of README.md: (kernel, mutant) -> equivalent, or missed."""
    rows = ROW.findall((HERE / "README.md").read_text())
    return {(kernel, mutant.replace("\\|", "|")): verdict for kernel, mutant, verdict in rows}


@pytest.fixture(scope="module")
def results():
    done = subprocess.run(
        [sys.executable, str(HERE / "mutants.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def survivors(results) -> list[tuple[str, str]]:
    return [(m["kernel"], m["mutant"]) for m in results["survived"]]


def test_enough(results):
    assert len(results["survived"]) + len(results["caught"]) + len(results["died"]) >= 100


def test_share(results):
    caught = len(results["caught"]) + len(results["died"])
    left = survivors(results)
    equivalent = sum(judged().get(s) == "equivalent" for s in left)
    total = caught + len(left) - equivalent
    print(f"\n{caught} of {total} mutants caught, {equivalent} more are no faults; survivors:")
    for kernel, mutant in left:
        print(f"  {kernel}: {mutant}")
    assert caught >= AT_LEAST * total


def test_every_survivor_is_judged(results):
    assert sorted(survivors(results)) == sorted(judged())
